"""Several files without headers, and no chunks: which chunks the user probably means."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from dask_io.errors import UsageError
from dask_io.geometry import Axis, Grid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.storage.location import Location
    from dask_io.stores.block_names import BlockNames


def refuse_files_as_one_block(
    folder: Location,
    files: Mapping[str, int],
    names: BlockNames,
    shape: tuple[int, ...],
    *,
    itemsize: int,
    offset: int,
) -> None:
    """Refuse several numbered files if no chunks are given, and suggest the chunks.

    Raises
    ------
    UsageError
        If there are several files. It has the chunks if they follow from numbers, shape and sizes.
    """
    sizes = {found: n for name, n in files.items() if (found := names.parse(name)) is not None}
    if len(sizes) <= 1:
        return
    along = [sorted(set(numbers)) for numbers in zip(*sizes, strict=True)]
    counts = " x ".join(map(str, map(len, along)))
    found = f"{folder} holds {len(sizes):,} files, numbered as {counts} blocks"
    grid = _grid_of(along, shape, by_offset=names.by_offset)
    blocks = product(*map(enumerate, along))
    fits = grid is not None and all(
        sizes.get(numbers) == offset + itemsize * prod(grid.block(index).shape)
        for index, numbers in (tuple(zip(*each, strict=True)) for each in blocks)
    )
    chunks = f" {','.join(map(str, grid.longest))}" if fits and grid is not None else ""
    raise UsageError(f"{found}; give their shape with --source-chunks{chunks}")


def _grid_of(along: list[list[int]], shape: tuple[int, ...], *, by_offset: bool) -> Grid | None:
    """Return the grid of equal blocks that has as many blocks along each axis as there are numbers.

    None if there is no such grid.
    """
    if len(along) != len(shape) or not prod(shape):
        return None
    lengths = [
        values[1] - values[0] if by_offset and len(values) > 1 else -(-length // len(values))
        for values, length in zip(along, shape, strict=True)
    ]
    grid = Grid(tuple(map(Axis.regular, shape, lengths)))
    return grid if grid.counts == tuple(map(len, along)) else None
