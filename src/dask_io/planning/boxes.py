"""Boxes of whole blocks that fit in a number of elements."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.geometry import Axis, Grid

# The most boxes considered. With more axes, fewer lengths are tried along each.
_MOST_BOXES = 512


def fitting_boxes(grid: Grid, largest: int) -> Iterator[tuple[Axis, ...]]:
    """Yield grids of equal boxes of whole blocks, each of at most `largest` elements.

    Only large boxes are useful. So each box is as long as possible along one axis, with equal
    lengths over the axis. Along the other axes, lengths from one block to all blocks are tried.

    Examples
    --------
    >>> from dask_io.geometry import Grid
    >>> found = fitting_boxes(Grid.regular((8, 6), (2, 2)), 24)
    >>> sorted(tuple(axis.longest for axis in axes) for axes in found)
    [(2, 6), (4, 4), (4, 6), (8, 2)]
    """
    n_axes = len(grid.axes)
    n_options = max(2, int(_MOST_BOXES ** (1 / max(1, n_axes - 1))))
    options = [_group_sizes(axis.n_blocks, n_options) for axis in grid.axes]
    seen: set[tuple[int, ...]] = set()
    for last, axis in enumerate(grid.axes):
        others = [options[other] for other in range(n_axes) if other != last]
        for chosen in product(*others):
            before, after = chosen[:last], chosen[last:]
            area = _size(grid.axes[:last], before) * _size(grid.axes[last + 1 :], after)
            n_fitting = _largest_group(axis, largest // max(1, area))
            if n_fitting:
                seen.add((*before, n_fitting, *after))
    for sizes in sorted(seen):
        yield tuple(axis.grouped(n) for axis, n in zip(grid.axes, sizes, strict=True))


def _group_sizes(n_blocks: int, n_most: int) -> list[int]:
    """Return the numbers of blocks per box that divide an axis into 1, 2, 3 … boxes, thinned."""
    n_boxes = {round(max(1, n_blocks) ** (step / (n_most - 1))) for step in range(n_most)}
    few = range(1, min(n_most // 2, n_blocks) + 1)
    return sorted({-(-max(1, n_blocks) // n) for n in n_boxes.union(few)})


def _largest_group(axis: Axis, length: int) -> int:
    """Return the most blocks per group of at most this length, in equal groups; 0 if none fit."""
    low, high = 0, max(1, axis.n_blocks)
    while low < high:
        middle = (low + high + 1) // 2
        if _longest_group(axis, middle) <= length:
            low = middle
        else:
            high = middle - 1
    return low and -(-axis.n_blocks // -(-axis.n_blocks // low)) if axis.n_blocks else low


def _size(axes: tuple[Axis, ...], sizes: tuple[int, ...]) -> int:
    return prod(map(_longest_group, axes, sizes))


@lru_cache(maxsize=4096)
def _longest_group(axis: Axis, n_blocks: int) -> int:
    """Return the length of the longest group of this many blocks."""
    return axis.grouped(n_blocks).longest
