"""Hypothesis strategies for grids, problems and plans that are small enough to be walked."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

from dask_io.geometry import Axis, Grid, Layout, Region
from dask_io.planning import Bundle, Hold, Plan, Problem, ReadRun, Side, SlabRange, Slabs, Staging
from dask_io.planning.bundle import box_around, window_of
from dask_io.planning.problem import NO_CODING, Coding

if TYPE_CHECKING:
    from collections.abc import Sequence

# The longest axis drawn, by number of axes: an array stays below a few hundred elements.
_LONGEST = {1: 60, 2: 17, 3: 7, 4: 4, 5: 3}
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)
_DTYPES: tuple[Any, ...] = (
    "uint8",
    "bool",
    ">i2",
    "float16",
    "<f4",
    "float64",
    "complex64",
    [("a", "u1"), ("b", "<f8")],
    {"names": ["a", "b"], "formats": ["u1", "<i4"], "offsets": [0, 4], "itemsize": 12},
)


def shapes(*, max_axes: int = 5) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of 1 to `max_axes` axes, including prime lengths, 1 and, rarely, 0."""

    def of(n_axes: int) -> st.SearchStrategy[tuple[int, ...]]:
        longest = _LONGEST[n_axes]
        primes = [prime for prime in _PRIMES if prime <= longest]
        # Primes and 1 are drawn more often, because they find more errors; 0 about once in thirty.
        some = [*range(1, longest + 1), *primes, *primes, 1, 1]
        length = st.sampled_from([*some * -(-30 // len(some)), 0])
        return st.tuples(*[length] * n_axes)

    return st.integers(1, max_axes).flatmap(of)


@st.composite
def axes(draw: st.DrawFn, length: int | None = None) -> Axis:
    """Axes of a given length, or of any small one: regular, ragged or uneven."""
    if length is None:
        length = draw(st.integers(0, 60))
    if length and draw(st.booleans()):
        return Axis.regular(length, draw(st.integers(1, length)))
    return Axis.of(draw(_lengths(length)))


@st.composite
def _lengths(draw: st.DrawFn, length: int) -> list[int]:
    """Lists of positive integers that add up to a length."""
    if length == 0:
        return []
    ends = draw(st.sets(st.integers(1, length - 1), max_size=12)) if length > 1 else set[int]()
    bounds = [0, *sorted(ends), length]
    return [high - low for low, high in pairwise(bounds)]


@st.composite
def grids(draw: st.DrawFn, shape: Sequence[int] | None = None) -> Grid:
    """Grids of a given shape, or of any small one."""
    if shape is None:
        shape = draw(shapes())
    return Grid(tuple(draw(axes(length)) for length in shape))


def layouts(n_axes: int) -> st.SearchStrategy[Layout]:
    """C order, F order, or any other order of the axes."""
    some = st.sampled_from([Layout.c(n_axes), Layout.f(n_axes)])
    return some | st.permutations(range(n_axes)).map(lambda order: Layout(tuple(order)))


def dtypes() -> st.SearchStrategy[np.dtype[np.generic]]:
    """Types of 1 to 12 bytes of either byte order, including structured and padded ones."""
    return st.sampled_from(_DTYPES).map(np.dtype)


@st.composite
def stagings(draw: st.DrawFn) -> Staging:
    """No staging, or staging with a minimum, a preferred size and a part of the budget."""
    if draw(st.booleans()):
        return Staging()
    minimum, more = draw(st.integers(0, 64)), draw(st.integers(0, 256))
    part, most = draw(st.sampled_from([0, 2, 7, 64])), draw(st.integers(0, 80))
    threads, coders = draw(st.integers(0, more)), draw(st.integers(1, 5))
    return Staging(minimum, minimum + more, part, most, threads, coders)


@st.composite
def sides(draw: st.DrawFn, shape: tuple[int, ...], *, windows: bool = False) -> Side:
    """Sides with any grid and layout; with `windows`, some are a region of a larger array."""
    layout, kind = draw(layouts(len(shape))), draw(st.sampled_from(["raw", "npy"]))
    if not windows or draw(st.booleans()):
        return Side(draw(grids(shape)), layout, kind)
    before = tuple(draw(st.integers(0, 3)) for _ in shape)
    after = tuple(draw(st.integers(0, 3)) for _ in shape)
    stop = tuple(map(sum, zip(before, shape, strict=True)))
    larger = tuple(map(sum, zip(stop, after, strict=True)))
    return Side(draw(grids(larger)), layout, kind, Region(before, stop))


def read_through(side: Side) -> st.SearchStrategy[Side]:
    """A side whose blocks are read run by run, or with gaps between runs included."""
    n_axes = st.integers(0, len(side.stored.axes) - 1)
    return st.just(side) | n_axes.map(lambda through: replace(side, through=through))


@st.composite
def problems(draw: st.DrawFn, *, max_axes: int = 5, windows: bool = False) -> Problem:
    """Problems with any grids, layouts and dtypes.

    Budgets range from one element with the least staging to twice the array with all staging.
    With `windows`, either side may be a region of a larger array.
    """
    shape = draw(shapes(max_axes=max_axes))
    dtype, staging = draw(dtypes()), draw(stagings())
    source, target = (draw(sides(shape, windows=windows)) for _ in range(2))
    problem = Problem(draw(read_through(source)), target, dtype, 0, staging)
    least = staging.budget_for(dtype.itemsize)
    most = staging.preferred + max(least, 2 * problem.n_bytes)
    return problem.within(draw(st.integers(least, most)))


@st.composite
def atomic_problems(draw: st.DrawFn, *, max_axes: int = 4) -> Problem:
    """Problems whose source blocks, target blocks or both can only be moved as a whole.

    Coding a block may take much longer than moving it.
    """
    problem = draw(problems(max_axes=max_axes))
    source, target = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
    coding = draw(st.sampled_from([NO_CODING, Coding(1e-3, 1e-2)]))
    return replace(
        problem,
        source=replace(problem.source, atomic=source, coding=coding if source else NO_CODING),
        target=replace(problem.target, atomic=target, coding=coding if target else NO_CODING),
    )


@st.composite
def reads(draw: st.DrawFn, length: int) -> tuple[ReadRun, ...]:
    """Any read cells along an axis, each end kept or flushed, grouped into runs in any way."""
    marked = [(run, draw(st.booleans())) for run in draw(axes(length)).runs]
    runs: list[ReadRun] = []
    for (cell, count), keep in marked:
        # Split a run in two, whose marks may differ or be equal.
        first = draw(st.integers(0, count))
        parts = ((first, keep), (count - first, draw(st.booleans())))
        runs += [ReadRun(cell, n, mark) for n, mark in parts if n]
    return tuple(runs)


@st.composite
def plans(draw: st.DrawFn, *, max_axes: int = 5, windows: bool = False) -> Plan:
    """Any valid plans, not only those of a strategy; they may exceed their budget."""
    problem = draw(problems(max_axes=max_axes, windows=windows))
    plan = Plan(
        problem,
        order=tuple(draw(st.permutations(range(len(problem.shape))))),
        reads=tuple(draw(reads(length)) for length in problem.shape),
        hold=draw(st.sampled_from(Hold)),
        strategy=draw(st.sampled_from(["naive", "keep", "sweep"])),
        backwards=draw(st.frozensets(st.integers(0, len(problem.shape) - 1), max_size=2)),
    )
    found = draw(slabs(plan))
    return replace(plan, slabs=found, streams=found is None and draw(st.booleans()))


@st.composite
def slabs(draw: st.DrawFn, plan: Plan) -> Slabs | None:
    """Any slabs that a plan may have, or none."""
    if len(plan.order) == 1 or draw(st.booleans()):
        return None
    inner = draw(st.integers(1, len(plan.order) - 1))
    outer = plan.order[draw(st.integers(0, inner - 1))]
    usual, ends = plan.axes[plan.order[inner]], plan.axes[outer].ends
    flushed = [usual.flushes.start_of(index) for index in range(1, usual.flushes.n_blocks)]
    ranges, position = [], 0
    for length in draw(axes(ends.n_blocks)).lengths():
        start, position = position, position + length
        if draw(st.booleans()):
            kept = tuple(ReadRun(*run, keep=True) for run in draw(axes(usual.ends.length)).runs)
            bounds = ends.start_of(start), ends.start_of(position)
            other = replace(usual, reads=kept).flushed_at(flushed)
            ranges.append(SlabRange(*bounds, other.reads))
    return Slabs(outer, plan.order[inner], tuple(ranges)) if ranges else None


@st.composite
def shared_problems(draw: st.DrawFn, *, max_axes: int = 3) -> list[Problem]:
    """Problems that share one source: overlapping regions, and several layouts of one region."""
    shape = draw(shapes(max_axes=max_axes))
    source, dtype = draw(sides(shape).flatmap(read_through)), draw(dtypes())
    regions = draw(st.lists(_regions(shape), min_size=1, max_size=3))
    regions += draw(st.lists(st.sampled_from(regions), max_size=1))
    staging, budget = draw(stagings()), draw(st.integers(1, 4000))
    found = []
    for region in regions:
        target = draw(sides(region.shape))
        problem = Problem(replace(source, window=region), target, dtype, budget, staging)
        found.append(problem)
    return found


@st.composite
def _regions(draw: st.DrawFn, shape: Sequence[int]) -> Region:
    """Any region of an array: often all of it, rarely an empty one."""
    bounds = []
    for length in shape:
        low, high = sorted(draw(st.tuples(*[st.integers(0, length)] * 2)))
        empty = low == high and draw(st.integers(0, 9)) > 0
        bounds.append((0, length) if empty or draw(st.booleans()) else (low, high))
    return Region.of(bounds)


@st.composite
def bundles(draw: st.DrawFn, *, max_axes: int = 3) -> Bundle:
    """Any valid bundles, not only those of the planner; they may exceed their budget."""
    shared = draw(shared_problems(max_axes=max_axes))
    box = box_around([window_of(problem.source) for problem in shared])
    return Bundle.sharing(
        shared,
        order=tuple(draw(st.permutations(range(len(box.shape))))),
        reads=tuple(draw(reads(length)) for length in box.shape),
        hold=draw(st.sampled_from(Hold)),
    )
