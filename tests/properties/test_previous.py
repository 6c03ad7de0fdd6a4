"""The previous strategies' promises, for any split and any merge."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.errors import BudgetTooSmallError, UsageError
from dask_io.geometry import Grid
from dask_io.planning import Plan, Problem, Side, plan_clustered, plan_multiple, plan_with
from dask_io.planning.cost import fewest_runs
from dask_io.testing import walk
from dask_io.testing.strategies import problems

Strategy = Callable[[Problem], Plan]
STRATEGIES = [plan_clustered, plan_multiple]


@st.composite
def splits_and_merges(draw: st.DrawFn) -> Problem:
    """Problems with one block on either side, or on both."""
    problem = draw(problems())
    whole = Grid.regular(problem.shape, [max(1, length) for length in problem.shape])
    source, target = problem.source, problem.target
    kind = draw(st.sampled_from(["split", "merge", "both"]))
    if kind != "merge":
        source = Side(whole, source.layout)
    if kind != "split":
        target = Side(whole, target.layout)
    return replace(problem, source=source, target=target)


def required_by(strategy: Strategy, problem: Problem) -> int:
    """The budget that a strategy asks for, 0 if the problem's is enough."""
    try:
        assert strategy(problem).fits
    except BudgetTooSmallError as error:
        return error.required
    return 0


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(problem=splits_and_merges())
def test_a_plan_costs_what_it_says(strategy: Strategy, problem: Problem) -> None:
    """The closed forms equal what walking counts, and nothing is carried."""
    plan = strategy(problem.within(max(problem.budget, required_by(strategy, problem))))
    walked = walk(plan)
    assert walked.array_is_rebuilt
    assert (walked.seeks, walked.openings, walked.n_steps) == (
        plan.seeks,
        plan.openings,
        plan.n_steps,
    )
    assert (walked.held_bytes, walked.peak_bytes) == (plan.held_bytes, plan.peak_bytes)
    assert walked.carried_bytes == plan.carried_bytes == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(problem=splits_and_merges(), budget=st.integers(1, 4000))
def test_the_budget_named_works_and_less_does_not(
    strategy: Strategy, problem: Problem, budget: int
) -> None:
    """What an error names is the smallest budget that gives a plan."""
    required = required_by(strategy, problem.within(budget))
    assert strategy(problem.within(max(required, budget))).fits
    if required:
        assert required_by(strategy, problem.within(required - 1)) == required


@given(problem=splits_and_merges())
def test_clustered_touches_every_small_block_once(problem: Problem) -> None:
    """Blocks of the side with many are never cut."""
    plan = plan_clustered(problem.within(max(problem.budget, required_by(plan_clustered, problem))))
    if problem.target.grid.n_blocks <= 1:
        assert plan.seeks.read == fewest_runs(problem.source)
    else:
        assert plan.seeks.write == fewest_runs(problem.target)


@given(problem=splits_and_merges())
def test_multiple_touches_the_big_file_once_a_step(problem: Problem) -> None:
    """Each range of the big file is one run."""
    plan = plan_multiple(problem)
    is_merge = problem.target.grid.n_blocks <= 1
    assert plan.n_steps == (plan.seeks.write if is_merge else plan.seeks.read)


@pytest.mark.parametrize("strategy", ["clustered", "multiple"])
@given(problem=problems())
def test_other_problems_are_refused(strategy: str, problem: Problem) -> None:
    """A problem of many blocks on both sides is refused, never planned."""
    if min(problem.source.grid.n_blocks, problem.target.grid.n_blocks) > 1:
        with pytest.raises(UsageError, match="use --strategy auto"):
            plan_with(strategy, problem)
