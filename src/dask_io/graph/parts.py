"""Divide a plan into parts, so that several workers can share it."""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING

from dask_io.geometry import Region

if TYPE_CHECKING:
    from dask_io.geometry import Axis, Grid


def cut_into_parts(source: Grid, target: Grid, n_parts: int) -> list[Region]:
    """Cut an array into regions of whole target blocks, of about equal size.

    The array is cut along one axis: the one that cuts the fewest source blocks, because two parts
    read every block that is cut. There are fewer regions if no axis has enough target blocks.

    Examples
    --------
    >>> from dask_io.geometry import Grid
    >>> source, target = Grid.regular((12, 12), (4, 4)), Grid.regular((12, 12), (3, 6))
    >>> [str(region) for region in cut_into_parts(source, target, 2)]
    ['0:6,0:12', '6:12,0:12']
    >>> [str(region) for region in cut_into_parts(source, Grid.regular((12, 12), (3, 12)), 3)]
    ['0:3,0:12', '3:9,0:12', '9:12,0:12']
    """
    shape = target.shape
    cuts = [_choose_ends(axis, n_parts) for axis in target.axes]

    def cost(axis: int) -> tuple[int, int, int]:
        along = source.axes[axis]
        n_cut = sum(along.floor(end) != end for end in cuts[axis])
        across = prod(n for other, n in enumerate(source.counts) if other != axis)
        return n_parts - 1 - len(cuts[axis]), n_cut * across, axis

    best = min(range(len(shape)), key=cost)
    ends = [0, *cuts[best], shape[best]]
    whole = Region.whole(shape).bounds
    return [
        Region.of((*whole[:best], (low, high), *whole[best + 1 :]))
        for low, high in itertools.pairwise(ends)
    ]


def _choose_ends(axis: Axis, n_parts: int) -> list[int]:
    """Return the distinct inner boundaries that are nearest to those of equal parts."""
    equal = (axis.length * part // n_parts for part in range(1, n_parts))
    nearest = (_nearest(axis, end) for end in equal)
    return sorted(set(nearest) - {0, axis.length})


def _nearest(axis: Axis, position: int) -> int:
    low, high = axis.floor(position), axis.ceil(position)
    return low if position - low <= high - position else high
