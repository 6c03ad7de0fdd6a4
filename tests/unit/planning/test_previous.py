"""`plan_clustered` and `plan_multiple`: the counts of Hayot-Sasson et al. (2017)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from dask_io.errors import BudgetTooSmallError, UsageError
from dask_io.geometry import Grid
from dask_io.planning import (
    Plan,
    Problem,
    Side,
    Staging,
    naive_seeks,
    plan_clustered,
    plan_multiple,
)

GIB = 2**30
# Storage order, slowest first; the publication names the axes the other way round.
SHAPE, BLOCK = (3500, 3025, 3850), (700, 605, 770)
BUDGETS = [3, 6, 9, 12, 16]
STRATEGIES = [plan_clustered, plan_multiple]
Strategy = Callable[[Problem], Plan]


def merge(budget: int) -> Problem:
    """The publication's 125 blocks into one file."""
    return Problem.regular(SHAPE, BLOCK, SHAPE, dtype="int16", budget=budget)


def split(budget: int) -> Problem:
    """The same the other way round."""
    problem = merge(budget)
    return replace(problem, source=problem.target, target=problem.source)


def test_the_published_naive_count() -> None:
    """Merging block by block touches each row of each block."""
    assert naive_seeks(merge(GIB)) == 52_937_625


@pytest.mark.parametrize(
    ("budget", "seeks"),
    list(zip(BUDGETS, [21_175_125, 17_625, 10_625, 7_125, 130], strict=True)),
)
def test_the_published_clustered_counts(budget: int, seeks: int) -> None:
    """Clustered merging costs what was published, and splitting as much."""
    merging, splitting = plan_clustered(merge(budget * GIB)), plan_clustered(split(budget * GIB))
    assert merging.seeks.total == splitting.seeks.total == seeks
    assert merging.seeks.read == splitting.seeks.write == 125
    assert merging.fits
    assert splitting.fits


@pytest.mark.parametrize(
    ("budget", "n_planes", "runs", "seeks"),
    [
        (3, 138, 750, 776),
        (6, 276, 425, 438),
        (9, 414, 325, 334),
        (12, 553, 275, 282),
        (16, 737, 225, 230),
    ],
)
def test_the_published_multiple_counts(budget: int, n_planes: int, runs: int, seeks: int) -> None:
    """Ranges, reads and writes are those published, and the same for splitting."""
    merging, splitting = plan_multiple(merge(budget * GIB)), plan_multiple(split(budget * GIB))
    assert merging.axes[0].ends.longest == splitting.axes[0].ends.longest == n_planes
    assert merging.seeks.read == splitting.seeks.write == runs
    assert merging.seeks.total == splitting.seeks.total == seeks
    assert merging.n_steps == seeks - runs


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_neither_split_nor_merge_is_refused(strategy: Strategy) -> None:
    """Many blocks to many is one clear line, not a plan."""
    with pytest.raises(
        UsageError, match="9 source blocks and 4 target blocks; use --strategy auto"
    ) as caught:
        strategy(Problem.regular((6, 6), (2, 2), (3, 3), budget=1000))
    assert not isinstance(caught.value, BudgetTooSmallError)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_targets_that_are_written_whole_are_refused(strategy: Strategy) -> None:
    """A block that is atomic cannot be flushed in parts."""
    problem = merge(GIB)
    with pytest.raises(UsageError, match="needs whole blocks; use --strategy auto"):
        strategy(replace(problem, target=replace(problem.target, atomic=True)))


def test_clustered_needs_one_block() -> None:
    """Below one block and the staging there is no plan; the error says how much is needed."""
    problem = Problem.regular((6, 6), (2, 3), (6, 6), budget=15, staging=Staging(10, 20))
    with pytest.raises(BudgetTooSmallError, match="one source block") as caught:
        plan_clustered(problem)
    assert caught.value.required == 16


def test_multiple_needs_one_element() -> None:
    """Even the smallest range is a range."""
    problem = Problem.regular((6, 6), (6, 6), (2, 3), dtype="int32", budget=4)
    assert plan_multiple(problem).n_steps == 36
    with pytest.raises(BudgetTooSmallError) as caught:
        plan_multiple(problem.within(3))
    assert caught.value.required == 4


def test_uneven_blocks_are_clustered_whole() -> None:
    """As many blocks as fit are joined, whatever their lengths, and none is cut."""
    problem = Problem.regular((12, 4), (12, 4), (12, 4), budget=6 * 4)
    lengths = [1, 2, 3, 3, 2, 1]
    uneven = Grid((problem.target.grid.axes[0].of(lengths), problem.target.grid.axes[1]))
    problem = replace(problem, source=Side(uneven, problem.source.layout))
    plan = plan_clustered(problem)
    assert [run.length for run in plan.reads[0] for _ in range(run.n_cells)] == [6, 6]
    assert plan.seeks.total == 6 + 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_billion_blocks_are_planned_at_once(strategy: Strategy) -> None:
    """Nothing is listed per block."""
    n = 10**9
    plan = strategy(Problem.regular((7 * n,), (7,), (7 * n,), budget=1000))
    assert plan.seeks.read >= n
    assert len(plan.reads[0]) <= 2


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shape", [(0,), (0, 5), (1, 1, 1), (5, 1)])
def test_empty_and_thin_arrays_have_plans(strategy: Strategy, shape: tuple[int, ...]) -> None:
    """Axes of length 0 and 1 are axes as any other."""
    plan = strategy(Problem.regular(shape, (1,) * len(shape), (9,) * len(shape), budget=100))
    assert plan.seeks.total == plan.problem.lower_bound
