"""Shards as users write them: how many chunks are in one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from dask_io.errors import UsageError
from dask_io.geometry.chunks import by_number, is_int, parse_chunks

if TYPE_CHECKING:
    from dask_io.geometry.grid import Grid

Shards: TypeAlias = int | Sequence[int] | Mapping[int, int] | Mapping[str, int]
"""A length for all axes, one for each, or some by axis; -1 is the whole axis."""


def normalize_shards(
    shards: Shards, chunks: Grid, names: Sequence[str | None] | None
) -> tuple[int, ...]:
    """Return a length for every axis; one that is left open is as long as a chunk.

    Whether they are made of whole chunks is not looked at, nor is -1 replaced.

    Parameters
    ----------
    shards
        What is asked for.
    chunks
        How the array is cut.
    names
        The names of its axes, if they have some.

    Raises
    ------
    UsageError
        If they cannot be those of such an array.

    Examples
    --------
    >>> from dask_io.geometry import Grid
    >>> grid = Grid.regular((10, 7), (2, 3))
    >>> normalize_shards({"time": -1}, grid, ["time", "y"]), normalize_shards((4, 6), grid, None)
    ((-1, 3), (4, 6))
    """
    lengths = _lengths(shards, chunks, names)
    if not all(map(is_int, lengths)):
        raise UsageError(f"shards are {shards!r}; give a length for each axis, or -1 for all of it")
    return tuple(lengths * len(chunks.axes) if is_int(shards) else lengths)


def _lengths(shards: Shards, chunks: Grid, names: Sequence[str | None] | None) -> list[int]:
    """Return what is asked for, whatever it is, of the axes in their order."""
    if not isinstance(shards, Mapping):
        return list(shards) if isinstance(shards, Iterable) else [shards]
    n_axes, lengths = len(chunks.axes), [axis.chunk or axis.longest for axis in chunks.axes]
    for axis, length in cast("Mapping[int, int]", by_number(shards, names, "shards")).items():
        if not -n_axes <= axis < n_axes:
            raise UsageError(f"shards name axis {axis}, but the array has {n_axes} axes")
        lengths[axis] = length
    return lengths


def parse_shards(text: str) -> Shards:
    """Read shards from the command line.

    Raises
    ------
    UsageError
        If the text is not in the notation.

    Examples
    --------
    >>> parse_shards("64,64,-1"), parse_shards("-1"), parse_shards("time=48,y=-1")
    ((64, 64, -1), -1, {'time': 48, 'y': -1})
    """
    problem = f"shards {text!r} cannot be read; write them as 64,64,-1 or -1 or time=48,y=-1"
    try:
        parsed = parse_chunks(text.strip(" ,()"))
    except UsageError as error:
        raise UsageError(problem) from error
    lengths = parsed.values() if isinstance(parsed, Mapping) else parsed
    for length in lengths if isinstance(lengths, Iterable) else [lengths]:
        if not is_int(length):
            raise UsageError(problem)
    return cast("Shards", parsed)
