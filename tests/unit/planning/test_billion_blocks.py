"""Arrays of a billion blocks, and of more elements than 64 bits count, are planned."""

from collections.abc import Callable

import numpy as np
import pytest

from dask_io.errors import BudgetTooSmallError
from dask_io.geometry import Grid, Layout, Region
from dask_io.planning import (
    Plan,
    Problem,
    Side,
    plan_from_json,
    plan_keep,
    plan_naive,
    plan_sweep,
    plan_to_json,
    plan_together,
)

N = 10**9
# Shape, source and target blocks of an array with `n` blocks along an axis.
Case = Callable[[int], tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]
CASES: dict[str, Case] = {
    "7 to 5": lambda n: ((7 * n,), (7,), (5,)),
    "1 to whole": lambda n: ((n,), (1,), (n,)),
    "whole to 1": lambda n: ((n,), (n,), (1,)),
    "1000 to 1024": lambda n: ((1000 * n,), (1000,), (1024,)),
    "one slow axis": lambda n: ((7 * n, 10, 10), (7, 5, 5), (5, 2, 10)),
    "one fast axis": lambda n: ((10, 10, 7 * n), (5, 5, 7), (2, 10, 5)),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
each_strategy = pytest.mark.parametrize("strategy", [plan_naive, plan_keep])


def seeks_by_hand(problem: Problem) -> int:
    """The seeks of a one-dimensional naive plan: source blocks, and pieces of target blocks."""
    (length,) = problem.shape
    (source,), (target,) = (side.grid.longest for side in (problem.source, problem.target))
    ends = {*range(source, length, source), *range(target, length, target), length}
    return -(-length // source) + len(ends)


@each_case
@each_strategy
def test_a_billion_blocks_along_one_axis(strategy: Callable[[Problem], Plan], case: Case) -> None:
    """A plan is found, keeps its budget and goes to JSON and back, tight or roomy."""
    for budget in (10**6, 10**10, 10**16):
        plan = strategy(Problem.regular(*case(N), budget=budget))
        assert plan.fits
        assert plan.seeks.total >= plan.problem.lower_bound
        assert plan_from_json(plan_to_json(plan)) == plan
        assert next(plan.steps()).cell.size > 0


def test_a_billion_blocks_in_three_dimensions() -> None:
    """A thousand blocks along each axis, with plenty of memory, are each touched once."""
    problem = Problem.regular((7000, 7000, 7000), (7, 7, 7), (5, 5, 5), budget=10**12)
    assert problem.source.grid.n_blocks == N
    assert plan_keep(problem).seeks.total == problem.lower_bound
    tight = plan_keep(problem.within(10**9))
    assert tight.fits


@pytest.mark.parametrize(
    ("shape", "source", "target"),
    [((7 * N,), (7,), (5,)), ((50_000,) * 3, (50,) * 3, (70,) * 3)],
    ids=["along one axis", "in three dimensions"],
)
def test_regions_of_a_billion_blocks_are_planned_together(
    shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...]
) -> None:
    """Two regions that overlap are planned without a look at every block."""
    layout = Layout.c(len(shape))
    windows = [
        Region((3,) * len(shape), tuple(length * 4 // 7 for length in shape)),
        Region(tuple(length * 2 // 7 for length in shape), shape),
    ]
    problems = [
        Problem(
            Side(Grid.regular(shape, source), layout, window=window),
            Side(Grid.regular(window.shape, target), layout),
            np.dtype("uint8"),
            10**9,
        )
        for window in windows
    ]
    sweeps = plan_together(problems, plan_sweep)
    assert sweeps.fits
    assert sweeps.seeks.total >= sweeps.lower_bound


@pytest.mark.parametrize("name", ["7 to 5", "1000 to 1024"])
def test_naive_seeks_of_many_blocks_are_those_counted_by_hand(name: str) -> None:
    """Grouping blocks counts what listing every boundary counts; ten times as many, ten times it.

    The periods are whole in both, so that seeks are proportional to the length.
    """
    small = Problem.regular(*CASES[name](128 * 500), budget=10**6)
    large = Problem.regular(*CASES[name](128 * 500 * 1000), budget=10**6)
    assert plan_naive(small).seeks.total == seeks_by_hand(small)
    assert plan_naive(large).seeks.total == 1000 * seeks_by_hand(small)


def test_long_periods_are_planned_exactly() -> None:
    """Coprime block lengths of a million repeat after a million blocks, and are planned still.

    With everything kept every block is touched once; the largest remainder of 999983 is one
    element less, so the peak is known.
    """
    source, target = 1_000_003, 999_983
    problem = Problem.regular((source * N,), (source,), (target,), budget=source + target - 1)
    plan = plan_keep(problem)
    assert plan.fits
    roomy = plan_keep(problem.within(4 * source))
    assert roomy.seeks.total == problem.lower_bound


def test_naive_says_so_when_pieces_are_too_many_to_list() -> None:
    """A source block that does not fit, cut in too many ways to list, names its own size."""
    problem = Problem.regular((7 * N,), (7,), (5,), budget=6)
    with pytest.raises(BudgetTooSmallError) as caught:
        plan_naive(problem)
    assert caught.value.required == 7
    assert plan_naive(problem.within(7)).fits


@each_strategy
@pytest.mark.parametrize("n_axes", [1, 3])
def test_more_elements_than_64_bits_count(strategy: Callable[[Problem], Plan], n_axes: int) -> None:
    """Sizes are exact integers, however large, along one axis or over all of them."""
    extent = 2**70 if n_axes == 1 else 2**40
    sizes = ((extent,) * n_axes, (2**30,) * n_axes, (3 * 2**29,) * n_axes)
    plan = strategy(Problem.regular(*sizes, dtype="float64", budget=2**200))
    assert plan.problem.n_bytes == extent**n_axes * 8
    assert plan.fits
    assert plan_from_json(plan_to_json(plan)) == plan
    if strategy is plan_keep:
        assert plan.seeks.total == plan.problem.lower_bound
