"""Exact costs of a plan in closed form: runs, openings, and the most elements held.

These are the formulas of docs/explanation/plans.md, summed over kinds of blocks
(`dask_io.geometry.orbits`) instead of blocks. So the time to compute a cost does not depend on
the number of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.geometry import Axis, orbits
from dask_io.planning.envelope import ALL_WRITTEN, NOTHING_WRITTEN, most, upper_hull, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dask_io.geometry import Layout
    from dask_io.planning.envelope import Envelope
    from dask_io.planning.problem import Problem, Side

# Sums of two products below this fit in a 64-bit integer.
_LARGEST_INT64 = 2**62


@dataclass(frozen=True, slots=True)
class CutCounts:
    """How cuts divide the blocks along an axis: number of uncut blocks, and pieces of the rest."""

    uncut: int
    pieces: int

    def __add__(self, other: CutCounts) -> CutCounts:
        return CutCounts(self.uncut + other.uncut, self.pieces + other.pieces)


def count_cuts(blocks: Axis, cuts: Axis, partial: tuple[bool, bool] = (False, False)) -> CutCounts:
    """Count the blocks without a boundary of `cuts` inside, and the pieces of the other blocks.

    A first or last block that is only part of a larger block (`partial`) counts as cut.

    Examples
    --------
    >>> from dask_io.geometry import Axis
    >>> count_cuts(Axis.regular(3500, 350), Axis.regular(3500, 500))
    CutCounts(uncut=4, pieces=12)
    """
    if not blocks.n_blocks:
        return CutCounts(0, 0)
    kinds = orbits(blocks, cuts)
    starts, stops = blocks.starts_of(kinds.first), blocks.starts_of(kinds.first + 1)
    # Boundaries strictly inside a block: those up to its last element, minus those up to its start.
    inside = cuts.counts_ends(stops - 1) - cuts.counts_ends(starts)
    whole = inside == 0
    for is_partial, end in zip(partial, (0, blocks.n_blocks - 1), strict=True):
        whole &= (kinds.first != end) | (not is_partial)
    uncut = int(kinds.count[whole].sum())
    pieces = int(((inside + 1) * kinds.count)[~whole].sum())
    return CutCounts(uncut, pieces)


def count_cuts_between(
    blocks: Axis,
    cuts: Axis,
    ranges: Sequence[tuple[int, int]],
    partial: tuple[bool, bool] = (False, False),
) -> CutCounts:
    """Count as `count_cuts` does, within ranges; blocks that extend beyond a range count as cut.

    Examples
    --------
    >>> from dask_io.geometry import Axis
    >>> count_cuts_between(Axis.regular(12, 4), Axis.regular(12, 2), [(0, 4), (6, 12)])
    CutCounts(uncut=0, pieces=5)
    """
    total = CutCounts(0, 0)
    for low, high in ranges:
        extends_beyond = (
            blocks.floor(low) < low or (low == 0 and partial[0]),
            blocks.ceil(high) > high or (high == blocks.length and partial[1]),
        )
        total += count_cuts(blocks.clipped(low, high), cuts.clipped(low, high), extends_beyond)
    return total


def count_moved(blocks: Axis, cuts: Axis, low: int, high: int) -> int:
    """Count the elements moved in a range of an axis, if every piece moves its whole block.

    Examples
    --------
    >>> count_moved(Axis.regular(12, 6), Axis.regular(12, 4), 0, 12)
    24
    >>> count_moved(Axis.regular(12, 6), Axis.regular(12, 4), 4, 8)
    12
    """
    parts, ends = blocks.clipped(low, high), cuts.clipped(low, high)
    if not parts.n_blocks:
        return 0
    kinds = orbits(parts, ends)
    starts, stops = parts.starts_of(kinds.first), parts.starts_of(kinds.first + 1)
    pieces = 1 + ends.counts_ends(stops - 1) - ends.counts_ends(starts)
    moved = int((pieces * (stops - starts)).astype(object) @ kinds.count.astype(object))
    # Blocks that extend beyond the range are moved whole, too.
    for index in {blocks.index_at(low), blocks.index_at(high - 1)}:
        start, stop = blocks.start_of(index), blocks.start_of(index + 1)
        first, last = max(start, low), min(stop, high)
        n_pieces = 1 + cuts.count_ends(last - 1) - cuts.count_ends(first)
        moved += n_pieces * (stop - start - (last - first))
    return moved


def count_runs(
    layout: Layout, shape: Sequence[int], cuts: Sequence[CutCounts], through: int = 0
) -> int:
    """Count the runs of all pieces of all blocks, each piece touched separately.

    Along the `through` fastest axes, a piece is moved as if its block were not cut.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> cuts = [CutCounts(1, 0), CutCounts(0, 2)]
    >>> count_runs(Layout.c(2), (10, 8), cuts), count_runs(Layout.c(2), (10, 8), cuts, through=1)
    (20, 2)
    """
    if through:
        cuts = list(cuts)
        for axis in layout.axes[-through:]:
            cuts[axis] = CutCounts(cuts[axis].uncut + cuts[axis].pieces, 0)
    runs, before = 0, 1
    for place, axis in enumerate(layout.axes):
        after = prod(cuts[other].uncut for other in layout.axes[place + 1 :])
        runs += before * cuts[axis].pieces * after
        before *= shape[axis]
    return runs + prod(cut.uncut for cut in cuts)


def streams(side: Side, cuts: Sequence[CutCounts]) -> bool:
    """Tell whether a side's pieces, in the order of the steps, are contiguous in storage.

    They are if blocks are stacked along the slowest axis and moved whole along all other axes.
    Contiguous pieces of a block need one seek, so such a side needs one seek for each block, if
    the steps continue one visit.

    Examples
    --------
    >>> from dask_io.planning import Problem
    >>> one_file = Problem.regular((10, 8), (10, 8), (5, 4), budget=80).source
    >>> streams(one_file, [CutCounts(0, 5), CutCounts(1, 0)])
    True
    >>> streams(one_file, [CutCounts(1, 0), CutCounts(0, 2)])
    False
    """
    if not side.is_stacked:
        return False
    others = ((axis, cuts[axis]) for axis in side.layout.axes[1:])
    return all(
        cut.uncut + cut.pieces == 1 and (cut.uncut or axis in side.read_whole)
        for axis, cut in others
    )


def cut_side(side: Side, cuts: Sequence[Axis]) -> tuple[CutCounts, ...]:
    """Count the cuts of a side's blocks along each axis."""
    return tuple(map(count_cuts, side.grid.axes, cuts, side.partial))


def fewest_runs(side: Side) -> int:
    """Return the runs of a side's uncut blocks: one for each block, unless a window cuts some."""
    if side.atomic:
        return side.grid.n_blocks
    uncut = [Axis(((length, 1),) if length else ()) for length in side.grid.shape]
    return count_runs(side.layout, side.grid.shape, cut_side(side, uncut), side.through)


def read_cost(side: Side, cells: Sequence[Axis]) -> int:
    """Count the seeks of reading a side cell by cell; atomic blocks need one for each visit."""
    cuts = cut_side(side, cells)
    if side.atomic:
        return count_openings(cuts)
    return count_runs(side.layout, side.grid.shape, cuts, side.through)


def naive_seeks(problem: Problem) -> int:
    """Return the seeks of the naive strategy with memory for one source block."""
    source, target = problem.source, problem.target
    cuts = cut_side(target, source.grid.axes)
    return fewest_runs(source) + count_runs(target.layout, problem.shape, cuts)


def count_openings(cuts: Sequence[CutCounts]) -> int:
    """Count the visits to blocks: one for each piece."""
    return prod(cut.uncut + cut.pieces for cut in cuts)


@dataclass(frozen=True, slots=True)
class AxisCells:
    """The read cells of one axis, reduced to the data that determines memory.

    `kinds` has pairs: the increments ``(held, completed)`` of a cell along this axis, and the
    positions ``(held, completed)`` before such cells that maximise ``a * held - b * completed``
    for some `a` and `b` of at least 0. No other positions matter.
    """

    length: int
    kinds: tuple[tuple[tuple[int, int], tuple[tuple[int, int], ...]], ...]

    @classmethod
    def of(cls, held: NDArray[Any], completed: NDArray[Any], length: int) -> AxisCells:
        """Group cells by their increments; the rows of the arrays are before and after a cell."""
        adds, completes = held[1] - held[0], completed[1] - completed[0]
        order = np.lexsort((completes, adds))
        adds, completes = adds[order], completes[order]
        before = np.stack([held[0], completed[0]])[:, order]
        changes = (adds[1:] != adds[:-1]) | (completes[1:] != completes[:-1])
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(order)]
        kinds = tuple(
            ((int(adds[low]), int(completes[low])), tuple(_corners(before[:, low:high])))
            for low, high in pairwise(bounds)
            if low < high
        )
        return cls(length, kinds)


def _corners(points: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield the points that maximise ``a * held - b * completed`` for some a, b >= 0.

    They are corners of the convex hull, from the least completed to the most held.
    """
    held, completed = points
    low = np.flatnonzero(completed == completed.min())
    high = np.flatnonzero(held == held.max())
    left, top = int(low[held[low].argmax()]), int(high[completed[high].argmin()])
    yield _point(points, left)
    if held[top] > held[left]:
        yield from _between(points, _point(points, left), _point(points, top))
        yield _point(points, top)


def _between(
    points: NDArray[Any], left: tuple[int, int], top: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Yield the corners strictly beyond the chord from `left` to `top`, in order.

    Any point beyond the chord may come next, because the triangle then skipped contains no
    corner. So the distance may be rounded, as long as its sign is correct.
    """
    beyond = _distance(points, left, top)
    points, beyond = points[:, beyond > 0], beyond[beyond > 0]
    if beyond.size:
        far = _point(points, int(beyond.argmax()))
        yield from _between(points, left, far)
        yield far
        yield from _between(points, far, top)


def _distance(points: NDArray[Any], left: tuple[int, int], top: tuple[int, int]) -> NDArray[Any]:
    """Return the distance of points beyond a chord, in an arbitrary unit; only the sign is exact.

    The distance is ``chord_completed * held - chord_held * completed``, relative to `left`.
    Expressed by the small difference ``held - completed``, it seldom exceeds 64 bits.
    """
    held = points[0] - left[0]
    waiting = held - (points[1] - left[1])
    chord_held = top[0] - left[0]
    chord_waiting = chord_held - (top[1] - left[1])
    largest = chord_held * int(abs(waiting).max()) + abs(chord_waiting) * int(abs(held).max())
    if held.dtype == object or largest < _LARGEST_INT64:
        return np.asarray(chord_held * waiting - chord_waiting * held)
    gain, loss = float(chord_held) * waiting, float(chord_waiting) * held
    distance = np.asarray(gain - loss)
    # There are four roundings of at most 2**-53 each. Points closer to the chord are done exactly.
    unsure = np.flatnonzero(abs(distance) <= 2.0**-50 * (abs(gain) + abs(loss)))
    distance[unsure] = [
        float(chord_held * w - chord_waiting * h)
        for h, w in zip(held[unsure].tolist(), waiting[unsure].tolist(), strict=True)
    ]
    return distance


def _point(points: NDArray[Any], index: int) -> tuple[int, int]:
    return int(points[0, index]), int(points[1, index])


@dataclass(frozen=True, slots=True)
class Held:
    """The most elements held: while a cell is in memory, and after a step."""

    peak: int
    carried: int


def most_held(parts: Sequence[Sequence[AxisCells]], place: int = 0) -> Held:
    """Return the most elements held over all steps of a plan's uniform slabs, outermost axis first.

    This is the recursion of docs/explanation/plans.md, from the inside out. Inner axes depend on
    outer axes only through two products, so the most that they hold is an envelope of pairs (see
    `planning.envelope`). All entries of `parts` are equal for the axes before `place`.
    """
    if not all(axis.kinds for cells in parts for axis in cells):
        return Held(0, 0)
    outside = parts[0][:place]
    maxima = []
    for innermost in (NOTHING_WRITTEN, ALL_WRITTEN):
        within = (_wrap_all(cells[place:], innermost, 1) for cells in parts)
        inside = prod(axis.length for axis in parts[0][place:])
        envelope = upper_hull(chain.from_iterable(within))
        maxima.append(most(_wrap_all(outside, envelope, inside)))
    return Held(*maxima)


def _wrap_all(cells: Sequence[AxisCells], envelope: Envelope, inside: int) -> Envelope:
    """Add outer axes to an envelope, innermost first."""
    for axis in reversed(cells):
        envelope = wrap(axis, envelope, inside)
        inside *= axis.length
    return envelope
