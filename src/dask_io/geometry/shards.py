"""Shards as users specify them: the length of a shard along each axis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from dask_io.errors import UsageError
from dask_io.geometry.chunks import by_number, is_int, parse_chunks

if TYPE_CHECKING:
    from dask_io.geometry.grid import Grid

Shards: TypeAlias = int | Sequence[int] | Mapping[int, int] | Mapping[str, int]
"""A length for all axes, one per axis, or a mapping by axis; -1 is the whole axis."""


def normalize_shards(
    shards: Shards, chunks: Grid, names: Sequence[str | None] | None
) -> tuple[int, ...]:
    """Return the length of a shard along every axis, by default that of a chunk.

    This neither checks that shards contain whole chunks nor replaces -1.

    Parameters
    ----------
    shards
        Shards as the user gave them.
    chunks
        Chunks of the array.
    names
        Axis names of the array, if it has any.

    Raises
    ------
    UsageError
        If `shards` is invalid for this array.

    Examples
    --------
    >>> from dask_io.geometry import Grid
    >>> grid = Grid.regular((10, 7), (2, 3))
    >>> normalize_shards({"time": -1}, grid, ["time", "y"]), normalize_shards((4, 6), grid, None)
    ((-1, 3), (4, 6))
    """
    lengths = _lengths(shards, chunks, names)
    if not all(map(is_int, lengths)):
        raise UsageError(
            f"shards are {shards!r}; give a length for each axis, or -1 for the whole axis"
        )
    return tuple(lengths * len(chunks.axes) if is_int(shards) else lengths)


def _lengths(shards: Shards, chunks: Grid, names: Sequence[str | None] | None) -> list[int]:
    """Return the entries in the order of the axes, without validating them."""
    if not isinstance(shards, Mapping):
        return list(shards) if isinstance(shards, Iterable) else [shards]
    n_axes, lengths = len(chunks.axes), [axis.chunk or axis.longest for axis in chunks.axes]
    for axis, length in cast("Mapping[int, int]", by_number(shards, names, "shards")).items():
        if not -n_axes <= axis < n_axes:
            raise UsageError(f"shards are given for axis {axis}, but the array has {n_axes} axes")
        lengths[axis] = length
    return lengths


def parse_shards(text: str) -> Shards:
    """Parse shards as written on the command line.

    Raises
    ------
    UsageError
        If the syntax is invalid.

    Examples
    --------
    >>> parse_shards("64,64,-1"), parse_shards("-1"), parse_shards("time=48,y=-1")
    ((64, 64, -1), -1, {'time': 48, 'y': -1})
    """
    problem = f"shards {text!r} are invalid; write them as 64,64,-1 or -1 or time=48,y=-1"
    try:
        parsed = parse_chunks(text.strip(" ,()"))
    except UsageError as error:
        raise UsageError(problem) from error
    lengths = parsed.values() if isinstance(parsed, Mapping) else parsed
    for length in lengths if isinstance(lengths, Iterable) else [lengths]:
        if not is_int(length):
            raise UsageError(problem)
    return cast("Shards", parsed)
