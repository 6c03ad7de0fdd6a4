"""Suggest chunks for an array, from words that describe how it will be read."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from dask_io.errors import UsageError, list_names
from dask_io.jobs.settings import parse_ranges, parse_size
from dask_io.planning.suggest import MOST_CHUNK, AccessPattern, Blocks, Suggestion, suggest_chunks
from dask_io.stores.container import INSIDE
from dask_io.stores.store import Access

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.hierarchy.tree import Tree
    from dask_io.planning import Device
    from dask_io.stores.store import Source

_TIMES = ("time", "t")
_CUBE = 64
_SERIES, _SLICES, _CUBES = "time series", "slices", "cubes"
_FORMS = "'time series', 'along AXIS', 'slices', 'slices AXIS', 'cubes', 'cubes SIDE', or a region"


def suggest_for(
    source: Source,
    accesses: Sequence[str],
    device: Device,
    chunk_size: int | str | None = None,
) -> Suggestion:
    """Suggest chunks for a source that is read in the given ways.

    Raises
    ------
    UsageError
        If there is no access, or an access or the size is not understood.
    """
    if not accesses:
        raise UsageError(f"say how the array will be read with --access: {_FORMS}")
    shape = source.grid.shape
    if not source.grid.size:
        raise UsageError(f"{source.place} has no elements, so any chunks will do")
    names = tuple(map(str, source.metadata.get("dimension_names") or ()))
    return suggest_chunks(
        shape,
        source.dtype.itemsize,
        [parse_access(each, shape, names) for each in accesses],
        blocks=Blocks(
            source.grid.longest, source.layout, addressable=source.access is Access.ADDRESSABLE
        ),
        device=device,
        most_bytes=MOST_CHUNK if chunk_size is None else parse_size(chunk_size),
    )


def suggest_for_tree(
    tree: Tree, accesses: Sequence[str], device: Device, chunk_size: int | str | None = None
) -> Suggestion:
    """Suggest chunks, by dimension, that suit the largest array of a group or a file.

    Raises
    ------
    UsageError
        If it has no names of dimensions, or as for `suggest_for`.
    """

    def n_bytes(name: str) -> int:
        source = tree.sources[name]
        return source.grid.size * source.dtype.itemsize

    name = max(tree.sources, key=n_bytes)
    source = tree.sources[name]
    dimensions = tree.arrays[name].dimensions
    if not all(dimensions):
        listed = list_names(f"{tree.place}{INSIDE}/{each}" for each in sorted(tree.sources))
        raise UsageError(
            f"{tree.place} holds several arrays, and the dimensions of the largest have no names; "
            f"give one, such as {listed}"
        )
    found = suggest_for(source, accesses, device, chunk_size)
    return replace(found, array=name, dimensions=tuple(map(str, dimensions)))


def parse_access(text: str, shape: tuple[int, ...], names: Sequence[str] = ()) -> AccessPattern:
    """Parse the description of an access.

    Examples
    --------
    >>> parse_access("time series", (8760, 720, 1440), ("time", "lat", "lon")).extent
    (8760, 1, 1)
    >>> [parse_access(text, (10, 200, 300)).extent for text in ("slices", "slices 2", "cubes 32")]
    [(1, 200, 300), (10, 200, 1), (10, 32, 32)]
    >>> parse_access("0:5,:,10:20", (10, 200, 300)).extent
    (5, 200, 10)
    """
    words = text.split()
    match [word.lower() for word in words]:
        case ["time", "series"] | ["time-series"] | ["timeseries"]:
            extent = _along(_time_axis(names), shape)
        case ["along", _]:
            extent = _along(_axis(words[1], shape, names), shape)
        case ["slices" | "slice" | "maps" | "planes"]:
            extent = _slices(None, shape, names)
        case ["slices" | "slice", _]:
            extent = _slices(_axis(words[1], shape, names), shape, names)
        case ["cubes" | "cube"]:
            extent = _cubes(_CUBE, shape, names)
        case ["cubes" | "cube", side] if side.isdecimal() and int(side):
            extent = _cubes(int(side), shape, names)
        case _ if re.search(r"[:,=]", text):
            extent = _region(text, shape, names)
        case _:
            raise UsageError(f"access {text!r} is not understood; use {_FORMS}, such as 0:10,:,:")
    return AccessPattern(text, extent)


def _region(text: str, shape: tuple[int, ...], names: Sequence[str]) -> tuple[int, ...]:
    """Return the extent of a region, which is given by indices."""

    def refuse(axis: int, value: str) -> int:
        raise UsageError(f"access {text!r} has the value {value} on axis {axis}; give indices")

    try:
        region = parse_ranges(text).region(shape, names or None, refuse)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if not region.size:
        raise UsageError(f"the region {text} is empty; give ranges with at least one element")
    return region.shape


def _time_axis(names: Sequence[str]) -> int:
    """Return the axis of time by its name, the first axis if axes have no names."""
    if not any(names):
        return 0
    found = next((i for i, name in enumerate(names) if name.lower() in _TIMES), None)
    if found is None:
        raise UsageError(
            f"no axis is called time; the axes are {list_names(names)}. Use 'along AXIS'"
        )
    return found


def _axis(word: str, shape: tuple[int, ...], names: Sequence[str]) -> int:
    if word in names:
        return list(names).index(word)
    if word.isdecimal() and int(word) < len(shape):
        return int(word)
    known = list_names(names) if names else f"0 to {len(shape) - 1}"
    raise UsageError(f"no axis {word!r}; the axes are {known}")


def _along(axis: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length if i == axis else 1 for i, length in enumerate(shape))


def _space_axes(shape: tuple[int, ...], names: Sequence[str]) -> list[int]:
    """Return the axes of space: the last three, without time and channels."""
    others = (*_TIMES, "c", "channel")
    axes = [i for i in range(len(shape)) if not (names and names[i].lower() in others)]
    return axes[-3:]


def _slices(axis: int | None, shape: tuple[int, ...], names: Sequence[str]) -> tuple[int, ...]:
    """Return the extent of a slice across an axis; by default across all but the last two."""
    if axis is None:
        whole = set(range(len(shape))[-2:])
    else:
        whole = {i for i in _space_axes(shape, names) if i != axis}
    return tuple(length if i in whole else 1 for i, length in enumerate(shape))


def _cubes(side: int, shape: tuple[int, ...], names: Sequence[str]) -> tuple[int, ...]:
    space = _space_axes(shape, names)
    return tuple(min(side, n) if i in space else 1 for i, n in enumerate(shape))
