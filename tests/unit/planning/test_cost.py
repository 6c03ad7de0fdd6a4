"""The closed forms: cuts, runs, and the most that is held, with and without grouping."""

from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Axis
from dask_io.planning import AxisPlan, Hold, ReadRun
from dask_io.planning.cost import AxisCells, CutCounts, Held, count_cuts, most_held

ORBITS = import_module("dask_io.geometry.orbits")


@st.composite
def long_axes(draw: st.DrawFn, length: int) -> Axis:
    """Axes with up to some hundred blocks, in runs long enough to be grouped."""
    runs: list[tuple[int, int]] = []
    left = length
    while left:
        chunk = draw(st.integers(1, min(13, left)))
        count = draw(st.integers(1, left // chunk) | st.just(left // chunk))
        runs.append((chunk, count))
        left -= chunk * count
    return Axis(tuple(runs))


@st.composite
def axis_plans(draw: st.DrawFn) -> AxisPlan:
    """Plans along an axis, each run of read cells kept or flushed."""
    length = draw(st.integers(1, 500))
    runs = draw(long_axes(length)).runs
    return AxisPlan(
        draw(long_axes(length)), tuple(ReadRun(*run, draw(st.booleans())) for run in runs)
    )


def listed_held(axis: AxisPlan, hold: Hold, a: int, b: int) -> Held:
    """The most that one axis holds if outer axes add `a` and complete `b`, cell by cell."""
    peak = carried = 0
    for cell in axis.cells():
        low, high = cell.start, cell.stop
        if hold is Hold.BLOCKS:
            low, high = axis.write_ceil(low), axis.write_ceil(high)
        before = a * low - b * cell.done_start
        adds, completes = a * (high - low), b * (cell.done_stop - cell.done_start)
        peak = max(peak, before + adds)
        carried = max(carried, before + adds - completes)
    return Held(peak, carried)


@given(length=st.integers(1, 700), data=st.data())
def test_cuts_are_counted_by_kinds_as_one_by_one(length: int, data: st.DataObject) -> None:
    """Counting cuts by kinds of blocks equals counting them block by block."""
    blocks, cuts = data.draw(long_axes(length)), data.draw(long_axes(length))
    ends = {cuts.start_of(index) for index in range(cuts.n_blocks)}
    bounds = pairwise(blocks.start_of(index) for index in range(blocks.n_blocks + 1))
    inside = [sum(low < end < high for end in ends) for low, high in bounds]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ORBITS, "_FEW_BLOCKS", 0)
        patch.setattr(ORBITS, "_FEW_BOUNDARIES", 3)
        found = count_cuts(blocks, cuts)
    assert found == CutCounts(inside.count(0), sum(n + 1 for n in inside if n))


@given(axis=axis_plans(), hold=st.sampled_from(Hold), a=st.integers(0, 9), b=st.integers(0, 9))
def test_most_held_by_kinds_is_the_most_of_all_cells(
    axis: AxisPlan, hold: Hold, a: int, b: int
) -> None:
    """The kinds of cells and their corners give the maximum over all cells, grouped or listed."""
    outer = AxisCells(1, (((a, b), ((0, 0),)),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ORBITS, "_FEW_BLOCKS", 0)
        patch.setattr(ORBITS, "_FEW_BOUNDARIES", 3)
        # Not `memory`, which remembers.
        grouped = most_held([[outer, axis._memory(hold)]])  # noqa: SLF001
    expected = listed_held(axis, hold, a, b)
    assert grouped.peak == expected.peak
    found = most_held([[outer, axis.memory(hold)]])
    assert found.peak == expected.peak
    if a >= b:
        assert grouped.carried == found.carried == expected.carried


@given(axis=axis_plans(), hold=st.sampled_from(Hold), data=st.data())
def test_memory_in_ranges_is_that_of_the_cells_in_them(
    axis: AxisPlan, hold: Hold, data: st.DataObject
) -> None:
    """The cells of some ranges, grouped, hold as much as those cells listed one by one."""
    bounds = [axis.ends.start_of(index) for index in range(axis.ends.n_blocks + 1)]
    limits = sorted(data.draw(st.sets(st.sampled_from(bounds), max_size=6)))
    ranges = tuple(zip(limits[::2], limits[1::2], strict=False))
    cells = [cell for cell in axis.cells() if any(a <= cell.start < b for a, b in ranges)]
    if not cells:
        return
    a, b = data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9)))
    outer = AxisCells(1, (((a, b), ((0, 0),)),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ORBITS, "_FEW_BLOCKS", 0)
        patch.setattr(ORBITS, "_FEW_BOUNDARIES", 3)
        grouped = most_held([[outer, axis._memory(hold, ranges)]])  # noqa: SLF001
    ceil = axis.write_ceil if hold is Hold.BLOCKS else int
    assert grouped.peak == max(a * ceil(cell.stop) - b * cell.done_start for cell in cells)


@pytest.mark.parametrize("scale", [2**20, 2**45, 2**70])
@given(
    points=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=60),
    noise=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=60, max_size=60),
    a=st.integers(0, 2**40),
    b=st.integers(0, 2**40),
)
def test_corners_maximise_exactly_however_large(
    scale: int,
    points: list[tuple[int, int]],
    noise: list[tuple[int, int]],
    a: int,
    b: int,
) -> None:
    """Rounded distances lose no corner: the maximum of a linear form over them is exact."""
    exact = [
        (x * scale + dx, y * scale + dy) for (x, y), (dx, dy) in zip(points, noise, strict=False)
    ]
    dtype = np.int64 if scale < 2**60 else object
    before = np.array(exact, dtype=dtype).T
    # All cells add and complete nothing, so that they are of one kind.
    cells = AxisCells.of(
        np.stack([before[0], before[0]]), np.stack([before[1], before[1]]), 100 * scale
    )
    ((_, corners),) = cells.kinds
    assert set(corners) <= set(exact)
    for p, q in ((a, b), (b, a), (a, a), (a + 1, a)):
        assert max(p * x - q * y for x, y in corners) == max(p * x - q * y for x, y in exact)


def test_nothing_is_held_of_an_empty_array() -> None:
    """An axis without cells leaves nothing to hold."""
    empty = AxisPlan(Axis(()), ()).memory(Hold.PIECES)
    full = AxisPlan(Axis.regular(4, 2), (ReadRun(4, 1, keep=True),)).memory(Hold.PIECES)
    assert most_held([[full, empty]]) == Held(0, 0)


def test_a_corner_one_beyond_the_chord_is_found_exactly() -> None:
    """A corner that floating point cannot tell from the chord is not lost.

    Of Fibonacci numbers F(n+1) F(n-1) - F(n)**2 is 1 for even n: so far is the point beyond.
    """
    fibonacci = [0, 1]
    while len(fibonacci) < 82:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    small, middle, large = fibonacci[79:82]
    points = [(0, 0), (middle, middle - small), (large, large - middle)]
    held, completed = np.array(points, dtype=np.int64).T
    cells = AxisCells.of(np.stack([held, held]), np.stack([completed, completed]), large)
    ((_, corners),) = cells.kinds
    assert list(corners) == points
