"""The best ends within a segment are the same in 64 bits as with Python integers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dask_io.planning.sweep.ends import _largest
from dask_io.planning.sweep.graph import CutPrices, EndsGraph, Term, shortest_path
from dask_io.planning.sweep.segments import Segment

sizes = st.integers(0, 9) | st.integers(0, 2**70)


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    """A short or long segment with any boundaries, repeated any number of times."""
    length = draw(st.integers(2, 12) | st.integers(30, 2**20))
    inside = st.sets(st.integers(1, length - 1), max_size=4).map(sorted).map(tuple)
    start, count = draw(st.integers(0, 2**30)), draw(st.integers(1, 2**20))
    return Segment(start, length, count, draw(inside), draw(inside))


@st.composite
def terms(draw: st.DrawFn) -> Term:
    """What is held never falls below what is complete, as in a plan."""
    adds, completes = sorted([draw(sizes), draw(sizes)], reverse=True)
    return Term(draw(sizes), adds, draw(st.sampled_from([adds, completes])), adds, completes)


@given(
    segment=segments(),
    terms=st.lists(terms(), min_size=1, max_size=3),
    prices=st.tuples(sizes, sizes, sizes, sizes).map(lambda each: CutPrices(*each)),
    budget=st.integers(1, 2**59),
    fewest_steps=st.booleans(),
)
def test_64_bits_are_as_exact_as_python_integers(
    segment: Segment, terms: list[Term], prices: CutPrices, budget: int, *, fewest_steps: bool
) -> None:
    """Elements and seeks beyond 64 bits do not change the path."""
    graph = EndsGraph.of(segment, np.dtype(object))
    expected = graph.shortest(graph.edges(terms, prices, budget), fewest_steps=fewest_steps)

    found = shortest_path(segment, terms, prices, budget=budget, fewest_steps=fewest_steps)

    assert found == expected


few = st.integers(0, 5)


@given(cells=st.lists(st.tuples(few, few, few), max_size=12))
def test_only_outer_cells_that_never_hold_more_are_dropped(
    cells: list[tuple[int, int, int]],
) -> None:
    """A cell is dropped if and only if another one has a larger constant and better products."""

    def is_dropped(cell: tuple[int, int, int]) -> bool:
        constant, a, b = cell
        return any(c >= constant and x >= a and y <= b for c, x, y in {*cells} - {cell})

    assert _largest(cells) == {cell for cell in cells if not is_dropped(cell)}
