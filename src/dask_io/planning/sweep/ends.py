"""The best read ends along one axis, given those of all other axes.

With the other axes fixed, the memory held during one cell of this axis is a maximum of terms that
are linear in the start of the cell, the position completed before, the length added and the length
completed. So each cell fits in the budget independently of the others, and the fewest seeks are a
shortest path from boundary to boundary, where each end is kept or flushed and each cell fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.planning.envelope import NOTHING_WRITTEN, wrap
from dask_io.planning.sweep.choices import Choice, choice_by_segments, divide

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from dask_io.planning.reads import ReadRun
    from dask_io.planning.sweep.segments import AxisPair, Segment

# In segments of at most this length, reads may end anywhere.
_SHORT = 24
# In longer segments, at most about this many boundaries are considered.
_MOST_POSITIONS = 64
# If later segments hold more, equal segments are solved in this many groups.
_GROUPS = 8
# The fractional parts of its multiples are evenly distributed.
_GOLDEN = 0.6180339887498949
# Arrays with more elements than this use Python integers instead of 64-bit integers.
_LARGEST_INT64 = 2**58
# More seeks than arrays counted in 64-bit integers can need.
_IMPOSSIBLE = 2**62
# A price so high that a cut is made only if nothing else fits.
FORBIDDEN = 2**40


class Term(NamedTuple):
    """Elements held: ``constant + start * s - done * d + adds * a - completes * c``.

    The cell starts at `s`, everything up to `d` is complete before it, and it adds `a` and
    completes `c`.
    """

    constant: int
    start: int
    done: int
    adds: int
    completes: int


class CutPrices(NamedTuple):
    """Seeks for the first cut of a block along one axis, and for each further cut."""

    first_read: int
    next_read: int
    first_write: int
    next_write: int


class Path(NamedTuple):
    """The ends within one segment."""

    seeks: int
    held: int
    reads: tuple[ReadRun, ...]


def terms_of(choices: Sequence[Choice], place: int) -> tuple[Term, ...]:
    """Return the terms whose maximum is held during a cell of the axis at `place` in the order."""
    inner, inside = NOTHING_WRITTEN, 1
    for choice in reversed(choices[place + 1 :]):
        inner = wrap(choice.cells, inner, inside)
        inside *= choice.cells.length
    outer = {(0, 1, 1)}
    for depth, choice in enumerate(choices[:place]):
        within = inside * prod(each.cells.length for each in choices[depth + 1 : place + 1])
        outer = _largest(
            (
                constant + within * max(a * held - b * done for held, done in corners),
                a * adds,
                b * completes,
            )
            for constant, a, b in outer
            for (adds, completes), corners in choice.cells.kinds
        )
    terms = {
        Term(constant, a * inside, b * inside, a * held, b * done)
        for constant, a, b in outer
        for held, done in inner
    }
    return tuple(sorted(terms))


def _largest(outer: Iterable[tuple[int, int, int]]) -> set[tuple[int, int, int]]:
    """Drop outer cells that never hold more than another."""
    kept: list[tuple[int, int, int]] = []
    for cell in sorted(set(outer), key=lambda cell: (-cell[0], -cell[1], cell[2])):
        if not any(a >= cell[1] and b <= cell[2] for _, a, b in kept):
            kept.append(cell)
    return set(kept)


def best_ends(
    choices: Sequence[Choice],
    place: int,
    pair: AxisPair,
    *,
    prices: CutPrices,
    budget: int | None = None,
    fewest_steps: bool = False,
) -> Choice | None:
    """Return the ends along one axis with the fewest seeks within the budget, if any.

    `place` is the position of the axis in the order, outermost first. Ties are broken by the least
    memory, or by the fewest steps with `fewest_steps`. The result is None if nothing fits, or if
    the axis has too many boundaries.
    """
    if pair.segments is None:
        return None
    terms = terms_of(choices, place)
    moves = any(term.start != term.done for term in terms)
    segments = [
        part
        for segment in pair.segments
        for part in (segment.parts(_GROUPS) if moves else (segment,))
    ]
    dtype = np.dtype(np.int64 if _is_small(choices) else object)
    reads: dict[Segment, Sequence[ReadRun]] = {}
    for segment in segments:
        path = _graph(segment, dtype).shortest(
            terms, prices, budget=budget, fewest_steps=fewest_steps
        )
        if path is None:
            return None
        reads[segment] = path.reads
    return choice_by_segments(pair, segments, reads.__getitem__)


def fewest_seeks(
    choices: Sequence[Choice], place: int, pair: AxisPair, *, prices: CutPrices, budget: int
) -> int | None:
    """Return a lower bound of the seeks of cuts along one axis; None if nothing fits.

    If completed data never weighs more than held data, a term is at least its constant plus the
    contribution of one cell. Summed over all cells, this gives the least number of cells. Every
    end that is not a source boundary cuts a source block.
    """
    n_cells = 1
    for term in terms_of(choices, place):
        if term.start >= term.done:
            if term.constant >= budget:
                return None
            each = term.adds - term.completes
            n_cells = max(n_cells, -(-each * pair.source.length // (budget - term.constant)))
    n_cuts = max(0, n_cells - pair.source.n_blocks)
    return n_cuts * min(prices.first_read, prices.next_read)


def _is_small(choices: Sequence[Choice]) -> bool:
    return prod(choice.cells.length for choice in choices) < _LARGEST_INT64


@lru_cache(maxsize=512)
def _graph(segment: Segment, dtype: np.dtype[Any]) -> EndsGraph:
    return EndsGraph.of(segment, dtype)


@dataclass(frozen=True, slots=True, eq=False)
class EndsGraph:
    """The possible ends of reads in a segment, as nodes; reads between two ends are edges.

    An end has a position and is kept or flushed, unless the position is a target boundary. Reads
    that complete nothing are omitted, because joining them to the next read costs nothing. So
    there is one kept end for each position, at which everything up to the previous target
    boundary is complete.

    Attributes
    ----------
    segment
        The segment; positions are relative to its start.
    positions, done, flushed
        For each end: its position, the completed position, whether it is flushed.
    source_start, target_start
        Start of the blocks that end there or that it cuts.
    cuts_source, cuts_target
        Whether it is inside a block; only flushed ends cut the target block.
    """

    segment: Segment
    positions: NDArray[Any]
    done: NDArray[Any]
    flushed: NDArray[np.bool_]
    source_start: NDArray[Any]
    target_start: NDArray[Any]
    cuts_source: NDArray[np.bool_]
    cuts_target: NDArray[np.bool_]

    @classmethod
    def of(cls, segment: Segment, dtype: np.dtype[Any]) -> EndsGraph:
        """Return the graph of all ends in a segment."""
        ends = []
        for position in _positions(segment):
            floor = segment.target_floor(position)
            ends += [(position, floor, False)] if floor < position else []
            ends += [(position, position, True)]
        positions, done, flushed = zip(*ends, strict=True)
        return cls(
            segment,
            np.array(positions, dtype),
            np.array(done, dtype),
            np.array(flushed, bool),
            np.array([segment.source_floor(position - 1) for position in positions], dtype),
            np.array([segment.target_floor(position - 1) for position in positions], dtype),
            np.array([segment.source_floor(each) < each for each in positions], bool),
            np.array([segment.target_floor(each) < each for each in positions], bool),
        )

    @property
    def impossible(self) -> float:
        """More seeks than possible."""
        return inf if self.positions.dtype == object else _IMPOSSIBLE

    def shortest(
        self, terms: Sequence[Term], prices: CutPrices, *, budget: int | None, fewest_steps: bool
    ) -> Path | None:
        """Return the path with the fewest seeks whose cells all fit in the budget."""
        held = self._held(terms)
        possible = self._completes_something()
        if budget is not None:
            possible &= held <= budget
        seeks = np.where(possible, self._seeks(prices), self.impossible)
        parts = np.ones_like(seeks)
        # Many cuts at the forbidden price could exceed the impossible value.
        may_divide = prices.next_write != FORBIDDEN and not possible[:-1, 1:].diagonal().all()
        if budget is not None and may_divide:
            divided, n_parts = self._divided(terms, prices, budget)
            use = ~possible & (divided < self.impossible)
            seeks = np.where(use, divided, seeks)
            held = np.where(use, np.array(budget, held.dtype), held)
            parts = np.where(use, n_parts, parts)
        previous, best, peak = self._walk(seeks, held, parts, fewest_steps=fewest_steps)
        if best >= self.impossible:
            return None
        return Path(int(best), int(peak), self._reads(previous, parts))

    def _held(self, terms: Sequence[Term]) -> NDArray[Any]:
        """Return the most elements held during the cell between each pair of ends."""
        segment, low, done = self.segment, self.positions[:, None], self.done[:, None]
        adds, completes = self.positions - low, self.done - done
        held = np.zeros_like(adds)
        for term in terms:
            slope = term.start - term.done
            offset = max(slope * segment.start, slope * segment.last_start)
            before = term.constant + offset + term.start * low - term.done * done
            held = np.maximum(held, before + term.adds * adds - term.completes * completes)
        return np.asarray(held)

    def _completes_something(self) -> NDArray[np.bool_]:
        start = np.where(self.flushed, self.positions, 0)[:, None]
        ahead = (self.positions > self.positions[:, None]) & (self.done > self.done[:, None])
        return np.asarray(ahead & (self.done >= start))

    def _seeks(self, prices: CutPrices) -> NDArray[Any]:
        """Return the seeks for the end of each cell."""
        start = self.positions[:, None]
        # Arrays, because large Python integers have no dtype of their own.
        first_read, next_read, first_write, next_write = np.array([prices], self.positions.dtype).T
        read = np.where(start > self.source_start, next_read, first_read)
        again = self.flushed[:, None] & (start > self.target_start)
        write = np.where(again, next_write, first_write)
        return np.asarray(self.cuts_source * read + (self.flushed & self.cuts_target) * write)

    def _divided(
        self, terms: Sequence[Term], prices: CutPrices, budget: int
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the seeks and the number of equal flushed parts between flushed ends."""
        segment, low, high = self.segment, self.positions[:, None], self.positions[None, :]
        longest = high - low
        possible = self.flushed[:, None] & self.flushed & (longest > 1)
        for term in terms:
            slope, per_element = term.start - term.done, term.adds - term.completes
            last = segment.last_start + high - 1 if slope > 0 else segment.start + low
            room = budget - term.constant - slope * last
            if per_element > 0:
                longest = np.minimum(longest, room // per_element)
            else:
                possible &= room >= per_element
        possible &= longest >= 1
        n_parts = -((low - high) // np.maximum(longest, 1))
        possible &= n_parts > 1
        n_cuts = n_parts - 1
        read = self._cut_cost(n_cuts + self.cuts_source, segment.source, prices[:2])
        write = self._cut_cost(n_cuts + self.cuts_target, segment.target, prices[2:])
        return np.where(possible, read + write, self.impossible), n_parts

    def _cut_cost(
        self, n_cuts: NDArray[Any], boundaries: tuple[int, ...], prices: tuple[int, int]
    ) -> NDArray[Any]:
        """Return an upper bound of the seeks of flushed ends between two ends, on one side."""
        first, further = prices
        bounds = np.array(boundaries, self.positions.dtype)
        # Only blocks that start between two ends count: the first end cuts an earlier block anyway.
        begun = np.searchsorted(bounds, self.positions, side="left") + (self.positions > 0)
        n_blocks = begun - begun[:, None]
        return np.asarray(n_cuts * further + np.minimum(n_cuts, n_blocks) * (first - further))

    def _walk(
        self, seeks: NDArray[Any], held: NDArray[Any], parts: NDArray[Any], *, fewest_steps: bool
    ) -> tuple[NDArray[Any], float, float]:
        """Find the shortest path to the last end: by seeks, memory, then steps."""
        best, peak, steps, previous = (np.zeros_like(seeks[0]) for _ in range(4))
        best[1:] = self.impossible
        for at in range(len(seeks) - 1):
            if best[at] >= self.impossible:
                continue
            ahead = slice(at + 1, None)
            cost = np.minimum(seeks[at, ahead] + best[at], self.impossible)
            most = np.maximum(held[at, ahead], peak[at])
            count = parts[at, ahead] + steps[at]
            ranks = [(cost, best), (count, steps), (most, peak)]
            if not fewest_steps:
                ranks[1:] = reversed(ranks[1:])
            better = np.zeros(len(cost), bool)
            equal = cost < self.impossible
            for new, old in ranks:
                better |= equal & (new < old[ahead])
                equal &= new == old[ahead]
            for new, old in ((cost, best), (count, steps), (most, peak), (at, previous)):
                old[ahead][better] = new if isinstance(new, int) else new[better]
        return previous, best[-1], peak[-1]

    def _reads(self, previous: NDArray[Any], parts: NDArray[Any]) -> tuple[ReadRun, ...]:
        """Trace a path back from the last end."""
        reads: list[ReadRun] = []
        at = len(previous) - 1
        while at:
            before = int(previous[at])
            length = int(self.positions[at] - self.positions[before])
            keep = bool(not self.flushed[at] or not self.cuts_target[at])
            reads += reversed(divide(length, int(parts[before, at]), keep=keep))
            at = before
        return tuple(reversed(reads))


def _positions(segment: Segment) -> list[int]:
    """List the positions of ends: all in a short segment, otherwise boundaries."""
    if segment.length <= _SHORT:
        return list(range(segment.length + 1))
    bounds = segment.boundaries
    if len(bounds) <= _MOST_POSITIONS:
        return bounds
    third = _MOST_POSITIONS // 3
    chosen = {bounds[i * (len(bounds) - 1) // third] for i in range(third + 1)}
    for boundaries, floor in (
        (segment.source, segment.target_floor),
        (segment.target, segment.source_floor),
    ):
        # Prefer small remainders; spread equal remainders over the segment.
        ranked = sorted(
            (at - floor(at), index * _GOLDEN % 1, at) for index, at in enumerate(boundaries)
        )
        chosen.update(at for _, _, at in ranked[:third])
    return sorted({0, *chosen, segment.length})
