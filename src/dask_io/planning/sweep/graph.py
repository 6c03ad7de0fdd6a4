"""The ends of reads within one segment of an axis, and the best path through them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.planning.sweep.choices import divide
from dask_io.planning.sweep.limited import BEYOND, LIMIT, add_pairs, combine, is_limited, multiply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dask_io.planning.reads import ReadRun
    from dask_io.planning.sweep.segments import Segment

# In segments of at most this length, reads may end anywhere.
_SHORT = 24
# In longer segments, at most about this many boundaries are considered.
_MOST_POSITIONS = 64
# The fractional parts of its multiples are evenly distributed.
_GOLDEN = 0.6180339887498949
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


def shortest_path(
    segment: Segment,
    terms: Sequence[Term],
    prices: CutPrices,
    *,
    budget: int,
    fewest_steps: bool,
) -> tuple[ReadRun, ...] | None:
    """Return the reads of a segment with the fewest seeks whose cells all fit in the budget.

    64-bit integers are sufficient, unless the budget exceeds them, or all paths need more seeks.
    """
    position = segment.last_start + segment.length
    largest = (sum(map(abs, term)) * (position + 1) for term in terms)
    if budget < LIMIT and position < LIMIT and is_limited(*largest):
        graph = _graph(segment, np.dtype(np.int64))
        edges = graph.edges(terms, prices, budget)
        path = graph.shortest(edges, fewest_steps=fewest_steps)
        if path is not None or not graph.is_connected(edges):
            return path
    graph = _graph(segment, np.dtype(object))
    return graph.shortest(graph.edges(terms, prices, budget), fewest_steps=fewest_steps)


@lru_cache(maxsize=512)
def _graph(segment: Segment, dtype: np.dtype[Any]) -> EndsGraph:
    return EndsGraph.of(segment, dtype)


class Edges(NamedTuple):
    """For each pair of ends: the seeks, the elements held, the equal parts, and whether it fits."""

    seeks: NDArray[Any]
    held: NDArray[Any]
    parts: NDArray[Any]
    fitting: NDArray[np.bool_]


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
    cuts_source, cuts_target
        Whether it is inside a block; only flushed ends cut the target block.
    useful
        For each pair of ends, whether the read between them completes something.
    prices
        For each pair of ends, which of the prices its last end has on each side, as ``3 * read +
        write``: 0 for none, 1 for the first cut of a block, 2 for a further cut.
    """

    segment: Segment
    positions: NDArray[Any]
    done: NDArray[Any]
    flushed: NDArray[np.bool_]
    cuts_source: NDArray[np.bool_]
    cuts_target: NDArray[np.bool_]
    useful: NDArray[np.bool_]
    prices: NDArray[np.intp]

    @classmethod
    def of(cls, segment: Segment, dtype: np.dtype[Any]) -> EndsGraph:
        """Return the graph of all ends in a segment."""
        ends = []
        for position in _positions(segment):
            floor = segment.target_floor(position)
            ends += [(position, floor, False)] if floor < position else []
            ends += [(position, position, True)]
        columns = zip(*ends, strict=True)
        positions, done = (np.array(column, dtype) for column in (next(columns), next(columns)))
        flushed = np.array(next(columns), bool)
        source_floor, target_floor = (
            np.array([floor(each) for each, _, _ in ends], dtype)
            for floor in (segment.source_floor, segment.target_floor)
        )
        source_start, target_start = (
            np.array([floor(each - 1) for each, _, _ in ends], dtype)
            for floor in (segment.source_floor, segment.target_floor)
        )
        cuts_source, cuts_target = source_floor < positions, target_floor < positions
        start = positions[:, None]
        ahead = (positions > start) & (done > done[:, None])
        read = cuts_source * np.where(start > source_start, 2, 1)
        again = flushed[:, None] & (start > target_start)
        write = (flushed & cuts_target) * np.where(again, 2, 1)
        return cls(
            segment,
            positions,
            done,
            flushed,
            cuts_source,
            cuts_target,
            np.asarray(ahead & (done >= np.where(flushed, positions, 0)[:, None])),
            3 * read + write,
        )

    @property
    def impossible(self) -> float:
        """More seeks than possible."""
        return inf if self.positions.dtype == object else BEYOND

    def edges(self, terms: Sequence[Term], prices: CutPrices, budget: int) -> Edges:
        """Return the edges; those that exceed the budget need an impossible number of seeks."""
        held = self._held(terms)
        fitting = self.useful & (held <= budget)
        seeks = np.where(fitting, self._seeks(prices), self.impossible)
        parts = np.ones(seeks.shape, np.int64)
        # Many cuts at the forbidden price could exceed the impossible value.
        may_divide = prices.next_write != FORBIDDEN and not fitting[:-1, 1:].diagonal().all()
        if may_divide:
            divided, n_parts, can_divide = self._divided(terms, prices, budget)
            use = ~fitting & can_divide
            seeks = np.where(use, divided, seeks)
            held = np.where(use, np.array(budget, held.dtype), held)
            parts = np.where(use, n_parts, parts)
            fitting = fitting | use
        return Edges(seeks, held, parts, fitting)

    def _held(self, terms: Sequence[Term]) -> NDArray[Any]:
        """Return the most elements held during the cell between each pair of ends.

        A term is a sum of two parts, each of which depends on only one of the ends.
        """
        segment, held = self.segment, np.zeros(self.useful.shape, self.positions.dtype)
        for term in terms:
            slope = term.start - term.done
            constant = term.constant + max(slope * segment.start, slope * segment.last_start)
            first = (
                (term.start - term.adds, self.positions),
                (term.completes - term.done, self.done),
            )
            last = (term.adds, self.positions), (-term.completes, self.done)
            held = np.maximum(held, self._sum_pairs(constant, first, last))
        return held

    def _sum_pairs(
        self,
        constant: int,
        first: tuple[tuple[int, NDArray[Any]], ...],
        last: tuple[tuple[int, NDArray[Any]], ...],
    ) -> NDArray[Any]:
        if self.positions.dtype != object:
            return add_pairs(combine(constant, *first), combine(0, *last))
        before, after = (sum(factor * values for factor, values in each) for each in (first, last))
        return np.asarray(constant + np.add.outer(before, after))

    def _seeks(self, prices: CutPrices) -> NDArray[Any]:
        """Return the seeks for the end of each cell."""
        read, write = (0, *prices[:2]), (0, *prices[2:])
        # Arrays, because large Python integers have no dtype of their own.
        every = [min(r + w, self.impossible) for r in read for w in write]
        return np.asarray(np.array(every, self.positions.dtype)[self.prices])

    def _divided(
        self, terms: Sequence[Term], prices: CutPrices, budget: int
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
        """Return the seeks and the number of equal flushed parts between flushed ends.

        The last array tells between which ends this is possible.
        """
        low, high = self.positions[:, None], self.positions[None, :]
        longest = high - low
        possible = self.flushed[:, None] & self.flushed & (longest > 1)
        for term in terms:
            length, is_from_low = self._longest_part(term, budget)
            longest = np.minimum(longest, length[:, None] if is_from_low else length)
        possible &= longest >= 1
        n_parts = -((low - high) // np.maximum(longest, 1))
        possible &= n_parts > 1
        n_cuts = n_parts - 1
        read = self._cut_cost(n_cuts + self.cuts_source, self.segment.source, prices[:2])
        write = self._cut_cost(n_cuts + self.cuts_target, self.segment.target, prices[2:])
        seeks = np.minimum(read + write, self.impossible)
        return np.where(possible, seeks, self.impossible), n_parts, possible

    def _longest_part(self, term: Term, budget: int) -> tuple[NDArray[Any], bool]:
        """Return the longest part for a term, by the last end or, if True, by the first end."""
        segment, most = self.segment, self.segment.length
        slope, per_element = term.start - term.done, term.adds - term.completes
        is_from_low = slope <= 0
        offset = segment.start if is_from_low else segment.last_start - 1
        lengths = []
        for position in self.positions.tolist() if slope else [0]:
            room = budget - term.constant - slope * (offset + position)
            if per_element > 0:
                lengths.append(max(0, min(room // per_element, most)))
            else:
                lengths.append(most if room >= per_element else 0)
        return np.array(lengths, self.positions.dtype), is_from_low

    def _cut_cost(
        self, n_cuts: NDArray[Any], boundaries: tuple[int, ...], prices: tuple[int, int]
    ) -> NDArray[Any]:
        """Return an upper bound of the seeks of flushed ends between two ends, on one side."""
        first, further = prices
        bounds = np.array(boundaries, self.positions.dtype)
        # Only blocks that start between two ends count: the first end cuts an earlier block anyway.
        begun = np.searchsorted(bounds, self.positions, side="left") + (self.positions > 0)
        n_first = np.minimum(n_cuts, begun - begun[:, None])
        seeks = multiply(n_first, first) + multiply(n_cuts - n_first, further)
        return np.asarray(np.minimum(seeks, self.impossible))

    def is_connected(self, edges: Edges) -> bool:
        """Tell whether edges that fit in the budget lead to the last end, at any cost."""
        reached = np.zeros(len(self.positions), bool)
        reached[0] = True
        for at in range(1, len(reached)):
            reached[at] = (reached[:at] & edges.fitting[:at, at]).any()
        return bool(reached[-1])

    def shortest(self, edges: Edges, *, fewest_steps: bool) -> tuple[ReadRun, ...] | None:
        """Find the shortest path to the last end: by seeks, memory, then steps."""
        seeks, (held, parts) = edges.seeks.T.copy(), (edges.held, edges.parts)
        best = np.full(len(seeks), self.impossible, seeks.dtype)
        peak, steps, previous = (np.zeros(len(seeks), each.dtype) for each in (held, parts, parts))
        best[0] = 0
        for at in range(1, len(seeks)):
            cost = best[:at] + seeks[at, :at]
            before = int(cost.argmin())
            if cost[before] >= self.impossible:
                continue
            equal = np.flatnonzero(cost == cost[before])
            most = np.maximum(held[equal, at], peak[equal])
            count = parts[equal, at] + steps[equal]
            if len(equal) > 1:
                ranks = (count, most) if fewest_steps else (most, count)
                chosen = int(np.lexsort(ranks[::-1])[0])
            else:
                chosen = 0
            previous[at] = equal[chosen]
            best[at], peak[at], steps[at] = cost[before], most[chosen], count[chosen]
        return None if best[-1] >= self.impossible else self._reads(previous, parts)

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
