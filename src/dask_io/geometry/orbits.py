"""Equivalence classes of an axis' blocks, given the boundaries of other axes.

Two blocks are equivalent if the boundaries of the other axes have the same positions relative to
them. On regular axes the pattern repeats with the least common multiple of the block lengths, so
an axis of a billion blocks has few classes ("kinds"). A sum over blocks becomes a sum over kinds,
and an expression linear in the position is largest at the first or the last block of a kind.
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

# With fewer blocks than this (more if there are many runs), every block is its own kind.
_FEW_BLOCKS = 4096
# If an axis has fewer boundaries than this in a period range, the range is split at each of them.
_FEW_BOUNDARIES = 1024
# With fewer blocks than this between two such boundaries, every block is its own kind.
_FEW_BETWEEN = 8
# The most boundaries that `cut_axis` lists.
_MOST_LISTED = 2**20


@dataclass(frozen=True, slots=True)
class Orbits:
    """Kinds of blocks: the index of the first and the last block of each kind, and their count."""

    first: NDArray[Any]
    last: NDArray[Any]
    count: NDArray[Any]


def orbits(axis: Axis, *others: Axis) -> Orbits:
    """Group the blocks of `axis` into kinds by the boundaries of `others` relative to them.

    The blocks of a kind are evenly spaced. From one to the next, a position rounded to a boundary
    of another axis either moves by the same distance or stays.

    Examples
    --------
    >>> from dask_io.geometry.axis import Axis
    >>> kinds = orbits(Axis.regular(7 * 10**9, 7), Axis.regular(7 * 10**9, 5))
    >>> int(kinds.count.sum()), len(kinds.count) < 100
    (1000000000, True)
    """
    n_runs = sum(len(each.runs) for each in (axis, *others))
    if axis.n_blocks <= _FEW_BLOCKS * max(1, n_runs // 16):
        every = axis.indices(0, axis.n_blocks)
        return Orbits(every, every, np.ones(len(every), dtype=np.int64))
    ranges = _PeriodicRange(*zip(*_periodic_ranges(axis, others), strict=True))
    return _kinds_in(axis, ranges)


class _PeriodicRange(NamedTuple):
    """A range in which the boundaries of all axes are periodic.

    `length` is the length of the axis' blocks, `reach` that of the longest block of other axes.
    """

    start: Any
    stop: Any
    length: Any
    period: Any
    reach: Any


def _periodic_ranges(axis: Axis, others: tuple[Axis, ...]) -> Iterator[_PeriodicRange]:
    """Yield the ranges in which every other axis is regular or has no boundary."""
    all_runs = sorted({end for each in (axis, *others) for end in each.run_ends})
    for start, stop in pairwise(all_runs):
        length, ends, reach = axis.length_at(start), {start, stop}, 0
        # A range that does not repeat is one period.
        whole = max(length, stop - start)
        counts = [(other, other.count_ends(start), other.count_ends(stop)) for other in others]
        n_boundaries = sum(high - low for _, low, high in counts if high - low < _FEW_BOUNDARIES)
        if axis.count_ends(stop) - axis.count_ends(start) < _FEW_BETWEEN * n_boundaries:
            yield _PeriodicRange(start, stop, length, whole, 0)
            continue
        period = length
        for other, low, high in counts:
            if high - low < _FEW_BOUNDARIES:
                ends.update(
                    end
                    for index in range(low, high + 1)
                    if start < (end := other.start_of(index)) < stop
                )
            else:
                period = lcm(period, other.length_at(start))
                reach = max(reach, other.length_at(start))
        for low, high in pairwise(sorted(ends)):
            yield _PeriodicRange(low, high, length, min(period, whole), reach)


def _kinds_in(axis: Axis, ranges: _PeriodicRange) -> Orbits:
    """Group the blocks that start within each of many ranges.

    Near the ends of a range, rounding may leave it, so every block there is its own kind.
    """
    dtype = axis.indices(0, 0).dtype
    start, stop, length, period, reach = (np.array(each, dtype) for each in ranges)
    low, high = (_first_from(axis, each) for each in (start, stop))
    per_period = period // length
    n_alone = reach // length + 3
    n_periods = (high - low - 2 * n_alone) // per_period
    repeats = n_periods > 1
    head = np.where(repeats, low + n_alone, high)
    tail = np.where(repeats, head + n_periods * per_period, high)
    n_kinds = np.where(repeats, per_period, 0).astype(np.int64)
    alone = np.concatenate([_list_between(low, head), _list_between(tail, high)])
    first = _list_between(head, head + n_kinds)
    last = first + np.repeat((n_periods - 1) * per_period, n_kinds)
    count = np.repeat(n_periods, n_kinds)
    return Orbits(
        np.concatenate([alone, first]),
        np.concatenate([alone, last]),
        np.concatenate([np.ones(len(alone), dtype=np.int64), count]),
    )


def _first_from(axis: Axis, positions: NDArray[Any]) -> NDArray[Any]:
    """Return the index of the first block that starts at or after each position."""
    indices = axis.counts_ends(positions)
    return np.where(axis.starts_of(indices) == positions, indices, indices + 1)


def _list_between(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """List the integers of all ranges, one range after another."""
    counts = (high - low).astype(np.int64)
    ends = np.cumsum(counts)
    return np.asarray(np.repeat(low - (ends - counts), counts) + np.arange(counts.sum()))


def count_segments(*axes: Axis) -> int:
    """Count the intervals between neighbouring boundaries of any of these axes.

    Examples
    --------
    >>> from dask_io.geometry.axis import Axis
    >>> count_segments(Axis.regular(12, 4), Axis.regular(12, 6), Axis.regular(12, 3))
    6
    """
    n_segments = 0
    for number, axis in enumerate(axes):
        if axis.n_blocks:
            kinds = orbits(axis, *axes[:number])
            ends = axis.starts_of(kinds.first + 1)
            new = np.full(len(ends), fill_value=True)
            for earlier in axes[:number]:
                new &= earlier.floors(ends) != ends
            n_segments += int(kinds.count[new].sum())
    return n_segments


def cut_axis(axis: Axis, other: Axis) -> Axis:
    """Return an axis with the boundaries of both axes.

    Examples
    --------
    >>> from dask_io.geometry.axis import Axis
    >>> cut_axis(Axis.regular(10, 4), Axis.regular(10, 5)).runs
    ((4, 1), (1, 1), (3, 1), (2, 1))

    Raises
    ------
    OverflowError
        If there are too many boundaries to list, and neither axis has all those of the other.
    """
    for fine, coarse in ((axis, other), (other, axis)):
        kinds = orbits(coarse, fine)
        starts = coarse.starts_of(kinds.first)
        if (fine.floors(starts) == starts).all():
            return fine
    if axis.n_blocks + other.n_blocks > _MOST_LISTED:
        message = f"axes of {axis.n_blocks} and {other.n_blocks} blocks are too long to combine"
        raise OverflowError(message)
    every = [each.starts_of(each.indices(0, each.n_blocks + 1)) for each in (axis, other)]
    ends = np.sort(np.concatenate(every))
    # `np.unique` would import much more of NumPy.
    ends = ends[np.diff(ends, prepend=-1) > 0]
    return type(axis).of(np.diff(ends).tolist())
