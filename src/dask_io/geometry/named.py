"""Chunks of several arrays, given by dimension name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.geometry.chunks import AxisChunks, Chunks


def chunks_by_name(
    chunks: Mapping[str, AxisChunks], dimensions: Mapping[str, Sequence[str | None]]
) -> dict[str, Chunks]:
    """Return the chunks of every array, None for arrays that keep their chunks.

    Coordinates, and arrays without any of the given dimensions, keep their chunks.

    Parameters
    ----------
    chunks
        Chunks by dimension name.
    dimensions
        Dimension names of every array, by the path of the array.

    Raises
    ------
    UsageError
        If no array has a dimension of a given name.

    Examples
    --------
    >>> arrays = {"t": ("time", "y"), "time": ("time",), "mask": ("y",), "crs": ()}
    >>> chunks_by_name({"time": 24}, arrays)
    {'t': {0: 24}, 'time': None, 'mask': None, 'crs': None}
    """
    known = {axis for names in dimensions.values() for axis in names if axis is not None}
    for axis in chunks:
        if axis not in known:
            listed = ", ".join(sorted(map(_escaped, known)))
            found = f"the dimensions are {listed}" if known else "all dimensions are unnamed"
            raise UsageError(f"no array has a dimension {_escaped(axis)!r}; {found}")
    return {
        name: None if is_coordinate(name, names) else _by_axis(chunks, names)
        for name, names in dimensions.items()
    }


def is_coordinate(name: str, dimensions: Sequence[str | None]) -> bool:
    """Tell whether an array is a coordinate: its only dimension has the name of the array."""
    return list(dimensions) == [name.rpartition("/")[2]]


def _by_axis(chunks: Mapping[str, AxisChunks], names: Sequence[str | None]) -> Chunks:
    by_axis = {list(names).index(axis): entry for axis, entry in chunks.items() if axis in names}
    return by_axis or None


def _escaped(name: str) -> str:
    return name if name.isprintable() else ascii(name)[1:-1]
