"""Several files without headers, and no chunks: which chunks the user probably means."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from dask_io.errors import UsageError
from dask_io.geometry import Axis, Grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    numbered = ((names.parse(name), n) for name, n in files.items())
    sizes = {numbers: n - offset for numbers, n in numbered if numbers is not None}
    if len(sizes) <= 1:
        return
    along = [sorted(set(numbers)) for numbers in zip(*sizes, strict=True)]
    counts = " x ".join(str(len(numbers)) for numbers in along)
    grid = _grid_of(along, sizes, shape) if len(along) == len(shape) else None
    chunks = ""
    if grid is not None and _fits(grid, along, sizes, itemsize):
        chunks = f" {','.join(map(str, grid.longest))}"
    raise UsageError(
        f"{folder} holds {len(sizes):,} files, numbered as {counts} blocks; give their shape with "
        f"--source-chunks{chunks}"
    )


def _grid_of(
    along: Sequence[Sequence[int]], sizes: Mapping[tuple[int, ...], int], shape: tuple[int, ...]
) -> Grid | None:
    """Return the grid with as many blocks along each axis as there are numbers.

    The last block may be shorter, as the sizes of files tell. None if there is no such grid.
    """
    first = tuple(numbers[0] for numbers in along)
    if min(shape) < 1 or sizes.get(first, 0) < 1:
        return None
    axes = []
    for axis, (numbers, length) in enumerate(zip(along, shape, strict=True)):
        last = sizes.get((*first[:axis], numbers[-1], *first[axis + 1 :]), 0)
        chunk = length / (len(numbers) - 1 + Fraction(last, sizes[first]))
        if chunk.denominator != 1:
            return None
        axes.append(Axis.regular(length, int(chunk)))
    return Grid(tuple(axes))


def _fits(
    grid: Grid,
    along: Sequence[Sequence[int]],
    sizes: Mapping[tuple[int, ...], int],
    itemsize: int,
) -> bool:
    """Tell whether every block of a grid has a file of its size."""
    if grid.counts != tuple(map(len, along)) or grid.n_blocks != len(sizes):
        return False
    blocks = (tuple(zip(*each, strict=True)) for each in product(*map(enumerate, along)))
    return all(
        sizes.get(numbers) == itemsize * prod(grid.block(index).shape) for index, numbers in blocks
    )
