"""Chunks of many arrays at once, by the names of their dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.geometry.chunks import AxisChunks, Chunks


def chunks_by_name(
    asked: Mapping[str, AxisChunks], dimensions: Mapping[str, Sequence[str | None]]
) -> dict[str, Chunks]:
    """Return the chunks of every array, None for those that keep theirs.

    These are arrays that have none of the dimensions, and coordinates.

    Parameters
    ----------
    asked
        Chunks along dimensions.
    dimensions
        The names of every array's dimensions, by its path.

    Raises
    ------
    UsageError
        If a name is that of no array's dimension.

    Examples
    --------
    >>> arrays = {"t": ("time", "y"), "time": ("time",), "mask": ("y",), "crs": ()}
    >>> chunks_by_name({"time": 24}, arrays)
    {'t': {0: 24}, 'time': None, 'mask': None, 'crs': None}
    """
    known = {axis for names in dimensions.values() for axis in names if axis is not None}
    for axis in asked:
        if axis not in known:
            listed = ", ".join(sorted(map(_shown, known))) or "none"
            raise UsageError(f"no array has a dimension {_shown(axis)!r}; there are {listed}")
    return {
        name: None if is_coordinate(name, names) else _of_those(asked, names)
        for name, names in dimensions.items()
    }


def is_coordinate(name: str, dimensions: Sequence[str | None]) -> bool:
    """Tell whether an array has one axis, and its name."""
    return list(dimensions) == [name.rpartition("/")[2]]


def _of_those(asked: Mapping[str, AxisChunks], names: Sequence[str | None]) -> Chunks:
    found = {list(names).index(axis): entry for axis, entry in asked.items() if axis in names}
    return found or None


def _shown(name: str) -> str:
    return name if name.isprintable() else ascii(name)[1:-1]
