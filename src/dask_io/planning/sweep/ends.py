"""The best read ends along one axis, given those of all other axes.

With the other axes fixed, the memory held during one cell of this axis is a maximum of terms that
are linear in the start of the cell, the position completed before, the length added and the length
completed. So each cell fits in the budget independently of the others, and the fewest seeks are a
shortest path from boundary to boundary, where each end is kept or flushed and each cell fits.
"""

from __future__ import annotations

from bisect import bisect_left
from math import prod
from typing import TYPE_CHECKING

from dask_io.planning.envelope import NOTHING_WRITTEN, wrap
from dask_io.planning.sweep.choices import Choice, choice_by_segments
from dask_io.planning.sweep.graph import CutPrices, Term, shortest_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dask_io.planning.reads import ReadRun
    from dask_io.planning.sweep.segments import AxisPair, Segment

# If later segments hold more, equal segments are solved in this many groups.
_GROUPS = 8


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
    kept: set[tuple[int, int, int]] = set()
    # The products of cells that hold more, both ascending, without those that others exceed.
    most: list[tuple[int, int]] = []
    for cell in sorted(set(outer), key=lambda cell: (-cell[0], -cell[1], cell[2])):
        _, a, b = cell
        place = bisect_left(most, (a,))
        if place < len(most) and most[place][1] <= b:
            continue
        kept.add(cell)
        last = place + (place < len(most) and most[place][0] == a)
        while place and most[place - 1][1] >= b:
            place -= 1
        most[place:last] = [(a, b)]
    return kept


def best_ends(
    terms: Sequence[Term],
    pair: AxisPair,
    *,
    prices: CutPrices,
    budget: int,
    fewest_steps: bool = False,
) -> Choice | None:
    """Return the ends along one axis with the fewest seeks within the budget, if any.

    Ties are broken by the least memory, or by the fewest steps with `fewest_steps`. The result is
    None if nothing fits, or if the axis has too many boundaries.
    """
    if pair.segments is None:
        return None
    moves = any(term.start != term.done for term in terms)
    segments = [
        part
        for segment in pair.segments
        for part in (segment.parts(_GROUPS) if moves else (segment,))
    ]
    reads: dict[Segment, Sequence[ReadRun]] = {}
    for segment in segments:
        path = shortest_path(segment, terms, prices, budget=budget, fewest_steps=fewest_steps)
        if path is None:
            return None
        reads[segment] = path
    return choice_by_segments(pair, segments, reads.__getitem__)


def fewest_seeks(
    terms: Sequence[Term], pair: AxisPair, *, prices: CutPrices, budget: int
) -> int | None:
    """Return a lower bound of the seeks of cuts along one axis; None if nothing fits.

    If completed data never weighs more than held data, a term is at least its constant plus the
    contribution of one cell. Summed over all cells, this gives the least number of cells. Every
    end that is not a source boundary cuts a source block.
    """
    n_cells = 1
    for term in terms:
        if term.start >= term.done:
            if term.constant >= budget:
                return None
            each = term.adds - term.completes
            n_cells = max(n_cells, -(-each * pair.source.length // (budget - term.constant)))
    n_cuts = max(0, n_cells - pair.source.n_blocks)
    return n_cuts * min(prices.first_read, prices.next_read)
