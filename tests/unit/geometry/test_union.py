"""Unions of boxes: disjoint, complete, and no more runs than their elements have."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Layout, Region
from dask_io.geometry.union import count_boxes_runs, disjoint_boxes
from dask_io.testing.strategies import layouts


@st.composite
def unions(draw: st.DrawFn) -> tuple[list[Region], Layout, tuple[int, ...]]:
    """Boxes of a block, its layout and its shape."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    corner = st.tuples(*(st.integers(0, length) for length in shape))
    pairs = draw(st.lists(st.tuples(corner, corner), max_size=5))
    boxes = [Region.of(map(sorted_pair, *pair)) for pair in pairs]
    return boxes, draw(layouts(len(shape))), shape


def sorted_pair(one: int, other: int) -> tuple[int, int]:
    """The smaller one first."""
    return min(one, other), max(one, other)


@given(union=unions())
def test_a_union_is_cut_into_disjoint_boxes(
    union: tuple[list[Region], Layout, tuple[int, ...]],
) -> None:
    """Every element that a box covers is in exactly one of the disjoint boxes, no other is."""
    boxes, layout, shape = union
    wanted, times = np.zeros(shape, int), np.zeros(shape, int)
    for box in boxes:
        wanted[box.slices] = 1

    for box in disjoint_boxes(boxes, layout, shape):
        times[box.slices] += 1

    assert (times == wanted).all()


@given(union=unions())
def test_disjoint_boxes_touch_the_runs_of_the_union(
    union: tuple[list[Region], Layout, tuple[int, ...]],
) -> None:
    """Moved one after another they cost the runs that the elements have in storage."""
    boxes, layout, shape = union
    covered = np.zeros(shape, int)
    for box in boxes:
        covered[box.slices] = 1
    flat = np.concatenate([[0], covered.transpose(layout.axes).ravel()])

    found = disjoint_boxes(boxes, layout, shape)

    assert count_boxes_runs(found, layout, shape) == int((np.diff(flat) == 1).sum())


def test_one_box_stays_as_it_is() -> None:
    """There is nothing to cut."""
    box = Region((1, 2), (3, 4))

    assert disjoint_boxes([box, box], Layout.f(2), (5, 5)) == [box]


def test_nothing_is_an_empty_union() -> None:
    """Boxes without elements leave nothing to move."""
    assert disjoint_boxes([Region((1, 2), (1, 4))], Layout.c(2), (5, 5)) == []
