"""Blocks of an axis that look alike from where other axes are cut.

Two blocks look alike if the other axes' boundaries lie the same way around them. On regular
axes blocks repeat with the least common multiple of the block lengths, so an axis of a billion
blocks has few kinds of them. Everything that is summed over blocks then is a sum over kinds, and
everything linear in the position is largest at the first or the last block of a kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import lcm
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dask_io.geometry.axis import Axis

# With fewer blocks than this, or than this for each run, listing them all is faster.
_LISTED = 4096
# An axis with fewer blocks than this within a stretch is followed boundary by boundary.
_SPARSE = 1024
# More cuts than this are not listed to combine two axes.
_MERGED = 2**20


@dataclass(frozen=True, slots=True)
class Orbits:
    """Kinds of blocks: the number of each one's first and last block, and how many there are."""

    first: NDArray[Any]
    last: NDArray[Any]
    count: NDArray[Any]


def orbits(axis: Axis, *others: Axis) -> Orbits:
    """Sort the blocks of `axis` into kinds by where the boundaries of `others` lie around them.

    The blocks of a kind are evenly spaced. From the first to the last of them, each other
    axis' rounded positions either move along with the block or stay.

    Examples
    --------
    >>> from dask_io.geometry.axis import Axis
    >>> kinds = orbits(Axis.regular(7 * 10**9, 7), Axis.regular(7 * 10**9, 5))
    >>> int(kinds.count.sum()), len(kinds.count) < 100
    (1000000000, True)
    """
    n_runs = sum(len(each.runs) for each in (axis, *others))
    if axis.n_blocks <= _LISTED * max(1, n_runs // 16):
        every = axis.indices(0, axis.n_blocks)
        return Orbits(every, every, np.ones(len(every), dtype=np.int64))
    parts = [
        kinds for stretch in _stretches(axis, others) for kinds in _kinds_of_stretch(axis, stretch)
    ]
    return Orbits(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class _Stretch(NamedTuple):
    """Part of an axis in which all axes repeat with a period; `reach` is their longest block."""

    start: int
    stop: int
    period: int
    reach: int


def _stretches(axis: Axis, others: tuple[Axis, ...]) -> Iterator[_Stretch]:
    """Yield the stretches where every other axis is regular or has no boundary inside."""
    all_runs = sorted({end for each in (axis, *others) for end in each.run_ends})
    for start, stop in pairwise(all_runs):
        ends, period, reach = {start, stop}, axis.length_at(start), 0
        for other in others:
            low, high = other.count_ends(start), other.count_ends(stop)
            if high - low < _SPARSE:
                ends.update(
                    end
                    for index in range(low, high + 1)
                    if start < (end := other.start_of(index)) < stop
                )
            else:
                period = lcm(period, other.length_at(start))
                reach = max(reach, other.length_at(start))
        bounds = sorted(ends)
        for low, high in pairwise(bounds):
            yield _Stretch(low, high, period, reach)


def _kinds_of_stretch(
    axis: Axis, stretch: _Stretch
) -> Iterator[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Group the blocks that start within a stretch.

    Those so near its ends that rounding may lead out of it stay alone.
    """
    length = axis.length_at(stretch.start)
    low, high = axis.first_from(stretch.start), axis.first_from(stretch.stop)
    per_period = stretch.period // length
    n_alone = stretch.reach // length + 3
    n_periods = (high - low - 2 * n_alone) // per_period
    if n_periods <= 1:
        alone = axis.indices(low, high)
        yield alone, alone, np.ones(len(alone), dtype=np.int64)
        return
    head = low + n_alone
    tail = head + n_periods * per_period
    for alone in (axis.indices(low, head), axis.indices(tail, high)):
        yield alone, alone, np.ones(len(alone), dtype=np.int64)
    first = axis.indices(head, head + per_period)
    repeats = np.full(per_period, n_periods, dtype=first.dtype)
    yield first, first + (n_periods - 1) * per_period, repeats


def count_segments(*axes: Axis) -> int:
    """Count the stretches between neighbouring boundaries of any of these axes.

    Examples
    --------
    >>> from dask_io.geometry.axis import Axis
    >>> count_segments(Axis.regular(12, 4), Axis.regular(12, 6), Axis.regular(12, 3))
    6
    """
    n_segments = 0
    for place, axis in enumerate(axes):
        if axis.n_blocks:
            kinds = orbits(axis, *axes[:place])
            ends = axis.starts_of(kinds.first + 1)
            new = np.full(len(ends), fill_value=True)
            for before in axes[:place]:
                new &= before.floors(ends) != ends
            n_segments += int(kinds.count[new].sum())
    return n_segments


def cut_axis(axis: Axis, other: Axis) -> Axis:
    """Return an axis that is cut wherever either of two is.

    Examples
    --------
    >>> from dask_io.geometry.axis import Axis
    >>> cut_axis(Axis.regular(10, 4), Axis.regular(10, 5)).runs
    ((4, 1), (1, 1), (3, 1), (2, 1))

    Raises
    ------
    OverflowError
        If neither contains the other's cuts and they are too many to list.
    """
    for fine, coarse in ((axis, other), (other, axis)):
        kinds = orbits(coarse, fine)
        starts = coarse.starts_of(kinds.first)
        if (fine.floors(starts) == starts).all():
            return fine
    if axis.n_blocks + other.n_blocks > _MERGED:
        message = f"{axis.n_blocks} and {other.n_blocks} cuts are too many to combine"
        raise OverflowError(message)
    every = [each.starts_of(each.indices(0, each.n_blocks + 1)) for each in (axis, other)]
    ends = np.sort(np.concatenate(every))
    # `np.unique` would load much more of NumPy first.
    ends = ends[np.diff(ends, prepend=-1) > 0]
    return type(axis).of(np.diff(ends).tolist())
