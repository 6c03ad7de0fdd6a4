"""The best read ends along one axis, those of all other axes given.

With the other axes fixed, what is held while one cell of this axis is swept is a maximum of
terms linear in where the cell starts, what was complete there, what it adds and what it
completes. So every cell is within the budget or not by itself, and the fewest seeks are a
shortest path: from boundary to boundary, each end kept or flushed, each cell within the budget.
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

# In segments shorter than this, reads may end anywhere.
_SHORT = 24
# Of longer segments, no more boundaries than this are looked at.
_MOST_POSITIONS = 64
# Equal segments that hold more the further on they lie are solved in so many groups.
_GROUPS = 8
# Multiples of it are spread evenly over the fractions.
_GOLDEN = 0.6180339887498949
# Arrays of fewer elements than this are counted in 64-bit integers, others in Python's own.
_LARGEST_INT64 = 2**58
# More seeks than such arrays can cost.
_IMPOSSIBLE = 2**62
# A price so high that a cut is made only where nothing else fits.
FORBIDDEN = 2**40


class Term(NamedTuple):
    """Held: ``constant + start * s - done * d + adds * a - completes * c`` elements.

    For a cell that starts at `s`, where all up to `d` was complete, adds `a` and completes `c`.
    """

    constant: int
    start: int
    done: int
    adds: int
    completes: int


class CutPrices(NamedTuple):
    """Seeks for the first cut of a block along one axis, and for each further one."""

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
    """Return the terms whose maximum is held during a cell of the axis at a place in the order."""
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
    """Drop outer cells that hold no more than another whatever is inside them."""
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
    """Return the ends along one axis that cost the fewest seeks within the budget, if any.

    The axis is the one at a place among these, outermost first. Among equals the ends that hold
    least (or, if asked, that make the fewest steps). None if nothing fits, or if the axis has too
    many boundaries to look at.
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
    """Return seeks that cuts along one axis cost at least, however chosen; None if nothing fits.

    A term is at least its constant plus what a cell adds and completes, if data completed
    never weighs more than data held. Summed over all cells that makes for so many of them,
    and every end that is not a source boundary cuts a source block.
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
    """Ends that a read may have in a segment, and the reads between any two of them.

    An end has a position and, unless that is a target boundary, is kept or flushed. Reads that
    complete nothing are left out: joined to the next one they cost no more. That leaves one
    kept end for each position, at which everything up to the target boundary before is complete.

    Attributes
    ----------
    segment
        The segment, from whose start positions are counted.
    positions, done, flushed
        For each end: where it is, up to where all is complete then, whether it is flushed.
    source_start, target_start
        Where the blocks start that end there, or that it cuts.
    cuts_source, cuts_target
        Whether it lies within a block; the target's block is cut only if the end is flushed.
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
        """List the ends of a segment."""
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
        """More seeks than there can be."""
        return inf if self.positions.dtype == object else _IMPOSSIBLE

    def shortest(
        self, terms: Sequence[Term], prices: CutPrices, *, budget: int | None, fewest_steps: bool
    ) -> Path | None:
        """Return the path of fewest seeks all of whose cells are within the budget."""
        held = self._held(terms)
        possible = self._completes_something()
        if budget is not None:
            possible &= held <= budget
        seeks = np.where(possible, self._seeks(prices), self.impossible)
        parts = np.ones_like(seeks)
        # So many cuts at a forbidden price would not be fewer than impossible.
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
        """Return the most that is held during the cell from any end to any other."""
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
        """Return what the end of each cell costs."""
        start = self.positions[:, None]
        # As arrays, since Python's large integers have no dtype of their own.
        first_read, next_read, first_write, next_write = np.array([prices], self.positions.dtype).T
        read = np.where(start > self.source_start, next_read, first_read)
        again = self.flushed[:, None] & (start > self.target_start)
        write = np.where(again, next_write, first_write)
        return np.asarray(self.cuts_source * read + (self.flushed & self.cuts_target) * write)

    def _divided(
        self, terms: Sequence[Term], prices: CutPrices, budget: int
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the cost and number of equal flushed parts from one flushed end to another."""
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
        """Return what flushed ends between any two ends cost on one side, at the most."""
        first, further = prices
        bounds = np.array(boundaries, self.positions.dtype)
        # Blocks that begin between two ends: one that begins before the first is cut by it anyway.
        begun = np.searchsorted(bounds, self.positions, side="left") + (self.positions > 0)
        n_blocks = begun - begun[:, None]
        return np.asarray(n_cuts * further + np.minimum(n_cuts, n_blocks) * (first - further))

    def _walk(
        self, seeks: NDArray[Any], held: NDArray[Any], parts: NDArray[Any], *, fewest_steps: bool
    ) -> tuple[NDArray[Any], float, float]:
        """Find the shortest path to the last end: by seeks, by the most held, then by steps."""
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
        """Follow a path back from its end."""
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
    """List where reads may end: anywhere in a short segment, else at boundaries."""
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
        # Small remainders first, and those spread over the segment where they are equal.
        ranked = sorted(
            (at - floor(at), index * _GOLDEN % 1, at) for index, at in enumerate(boundaries)
        )
        chosen.update(at for _, _, at in ranked[:third])
    return sorted({0, *chosen, segment.length})
