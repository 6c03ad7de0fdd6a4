"""Cutting a problem into parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Axis, Grid, Region
from dask_io.planning import (
    DEVICES,
    AnyPlan,
    Plan,
    Problem,
    best_grids,
    choose_counts,
    cost_cut,
    cut_problem,
    largest_count,
    plan_cut,
    plan_sweep,
    predict_seconds,
)
from dask_io.planning.cut import divide
from dask_io.testing import walk
from dask_io.testing.strategies import axes, problems

SSD = DEVICES["ssd"]


def plan_large(problem: Problem, region: Region) -> Plan:
    """Plan one part with memory for all of it."""
    return plan_sweep(cut_problem(problem, region).within(10**12))


@given(axis=axes(), data=st.data())
def test_an_axis_is_divided_at_its_boundaries(axis: Axis, data: st.DataObject) -> None:
    """Parts consist of whole blocks, and there are exactly as many as requested."""
    if not axis.n_blocks:
        return
    n_parts = data.draw(st.integers(1, axis.n_blocks))
    parts = divide(axis, n_parts)
    ends = [parts.start_of(number) for number in range(n_parts + 1)]
    assert (parts.n_blocks, parts.length) == (n_parts, axis.length)
    assert all(axis.floor(end) == end for end in ends)


@given(problem=problems(max_axes=3, windows=True), data=st.data())
def test_parts_are_disjoint_and_cover_the_target(problem: Problem, data: st.DataObject) -> None:
    """Every target block is in exactly one part, whole."""
    grid = problem.target.grid
    if not grid.n_blocks:
        return
    counts = [data.draw(st.integers(1, axis.n_blocks)) for axis in grid.axes]
    cut = cost_cut(
        problem,
        Grid(tuple(map(divide, grid.axes, counts))),
        SSD,
        lambda region: plan_large(problem, region),
    )
    blocks = [block for number in range(cut.count) for _, block in grid.pieces(cut.region(number))]
    assert sorted(blocks) == sorted(grid.block(index) for index in grid.indices())


@given(problem=problems(max_axes=3, windows=True), data=st.data())
def test_costs_are_those_of_each_part_alone(problem: Problem, data: st.DataObject) -> None:
    """The costs of a cut, which plans few kinds, equal walking the plan of every part."""
    grid = problem.target.grid
    if not grid.n_blocks:
        return
    counts = [data.draw(st.integers(1, min(3, axis.n_blocks))) for axis in grid.axes]
    parts = Grid(tuple(map(divide, grid.axes, counts)))
    cut = cost_cut(problem, parts, SSD, lambda region: plan_large(problem, region))
    plans = [plan_large(problem, cut.region(number)) for number in range(cut.count)]
    walked = [walk(plan) for plan in plans]
    assert cut.is_exact
    assert cut.seeks.read == sum(each.read_seeks for each in walked)
    assert cut.seeks.write == sum(each.write_seeks for each in walked)
    assert cut.n_bytes_read == sum(each.read_bytes for each in walked)
    assert cut.memory == max(each.peak_bytes for each in walked)
    assert cut.longest == max(predict_seconds(plan, SSD) for plan in plans)


@given(problem=problems(max_axes=3), most=st.integers(1, 12))
def test_any_target_can_be_cut(problem: Problem, most: int) -> None:
    """The best parts consist of whole blocks, cover the array, and are as many as possible."""
    target = problem.target.grid
    if not target.n_blocks:
        return
    count = largest_count(target, most)
    grids = list(best_grids(problem, [count], SSD))
    assert 1 <= count <= most
    assert all(grid.n_blocks == count and grid.shape == target.shape for grid in grids)
    for grid in grids:
        for blocks, parts in zip(target.axes, grid.axes, strict=True):
            ends = [parts.start_of(number) for number in range(parts.n_blocks)]
            assert all(blocks.floor(end) == end for end in ends)


def test_the_axis_with_the_fewest_redundant_reads_is_cut() -> None:
    """Cutting along an axis on which boundaries coincide costs nothing."""
    problem = Problem.regular((60, 60), (60, 10), (7, 10), budget=10**6)
    cut = plan_cut(problem, [6], SSD, lambda region: plan_sweep(cut_problem(problem, region)))
    assert cut.grid.counts == (1, 6)
    assert cut.seeks.read == problem.source.grid.n_blocks


def test_several_axes_are_cut_if_one_is_too_short() -> None:
    """Four parts of a target with two blocks along each axis are its blocks."""
    problem = Problem.regular((60, 60), (60, 60), (30, 30), budget=10**6)
    cut = plan_cut(problem, [4], SSD, lambda region: plan_sweep(cut_problem(problem, region)))
    assert cut.grid.counts == (2, 2)


@pytest.mark.parametrize(("count", "possible"), [(5, 4), (3, 2), (1, 1)])
def test_there_are_fewer_parts_if_a_number_is_impossible(count: int, possible: int) -> None:
    """A target of 2 x 2 blocks has neither three nor five boxes of about equal size."""
    problem = Problem.regular((60, 60), (60, 60), (30, 30), budget=10**6)
    cut = plan_cut(problem, [count], SSD, lambda region: plan_sweep(cut_problem(problem, region)))
    assert cut.count == possible


def test_some_number_is_found_if_none_of_those_requested_is_possible() -> None:
    """12 x 12 x 12 blocks have no division into any number from 1332 to 1379."""
    problem = Problem.regular((24,) * 3, (24,) * 3, (2,) * 3, budget=10**6)
    cut = plan_cut(
        problem, range(1332, 1380), SSD, lambda region: plan_sweep(cut_problem(problem, region))
    )
    assert cut.count == 11**3


def test_an_array_without_elements_has_no_parts() -> None:
    """There is nothing to cut, and nothing to pay."""
    problem = Problem.regular((0, 60), (60, 60), (30, 30), budget=10**6)
    cut = plan_cut(problem, [3], SSD, lambda region: plan_sweep(cut_problem(problem, region)))
    assert (cut.count, cut.seconds, cut.longest, cut.memory) == (0, 0, 0, 0)
    assert (cut.predict_seconds(4), cut.balance) == (0, 1)


def test_cuts_through_plain_blocks_lie_along_the_slowest_axis() -> None:
    """There, a cut divides a source block into two runs, and not into one run for each row."""
    problem = Problem.regular((512,) * 3, (256,) * 3, (64,) * 3, budget=2**28)
    cut = plan_cut(problem, [8], SSD, lambda region: plan_sweep(cut_problem(problem, region)))
    assert cut.grid.counts[1:] == (1, 1) or cut.seeks.read == problem.source.grid.n_blocks


@given(
    seconds=st.floats(0, 1e9),
    n_blocks=st.integers(1, 10**9),
    workers=st.integers(1, 10**4),
)
def test_a_scheduler_is_never_flooded(seconds: float, n_blocks: int, workers: int) -> None:
    """There are at most some thousands of parts, or one for each worker."""
    counts = choose_counts(seconds, n_blocks, workers)
    assert 1 <= counts[0] <= counts[-1] <= min(n_blocks, max(4096, workers))


def test_a_billion_blocks_are_cut_without_listing_them() -> None:
    """Neither blocks nor parts are planned one by one: few plans suffice for 10,000 parts."""
    shape = (350_000, 350_000, 3_500)
    problem = Problem.regular(shape, (350, 350, 350), (500, 500, 500), budget=2**32)
    planned = []

    def plan(region: Region) -> AnyPlan:
        planned.append(region)
        return plan_sweep(cut_problem(problem, region))

    cut = plan_cut(problem, [10_000], SSD, plan, workers=10_000)
    assert problem.source.grid.n_blocks == 10**7
    assert len(planned) <= 80
    assert sum(n for _, n in cut.counted) == cut.count == 10_000
    assert len({cut.region(number) for number in (0, 1, 9_999)}) == 3
