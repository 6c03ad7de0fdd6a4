"""Cutting a plan into parts, so that several workers can share it."""

from __future__ import annotations

import itertools
from math import prod
from typing import TYPE_CHECKING

from dask_io.geometry import Region

if TYPE_CHECKING:
    from dask_io.geometry import Axis, Grid


def cut_into_parts(source: Grid, target: Grid, n_parts: int) -> list[Region]:
    """Cut an array into regions of whole target blocks, about as large as each other.

    It is cut along one axis only: the one where the fewest source blocks are cut, each of which
    is read by two parts. There are fewer regions if no axis has so many target blocks.

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
        beside = prod(n for other, n in enumerate(source.counts) if other != axis)
        return n_parts - 1 - len(cuts[axis]), n_cut * beside, axis

    best = min(range(len(shape)), key=cost)
    ends = [0, *cuts[best], shape[best]]
    whole = Region.whole(shape).bounds
    return [
        Region.of((*whole[:best], (low, high), *whole[best + 1 :]))
        for low, high in itertools.pairwise(ends)
    ]


def _choose_ends(axis: Axis, n_parts: int) -> list[int]:
    """Return the boundaries nearest to those of equal parts, none twice and neither end."""
    wanted = (axis.length * part // n_parts for part in range(1, n_parts))
    nearest = (_nearest(axis, end) for end in wanted)
    return sorted(set(nearest) - {0, axis.length})


def _nearest(axis: Axis, position: int) -> int:
    low, high = axis.floor(position), axis.ceil(position)
    return low if position - low <= high - position else high
