"""Plans for blocks that are moved whole, and plans of two passes."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dask_io.errors import BudgetTooSmallError
from dask_io.planning import (
    AnyPlan,
    CopyPlan,
    Objective,
    Plan,
    Problem,
    SpillPlan,
    plan_auto,
    plan_from_json,
    plan_keep,
    plan_naive,
    plan_reread,
    plan_spill,
    plan_to_json,
)
from dask_io.testing.strategies import atomic_problems, problems
from dask_io.testing.walker import walk

STRATEGIES = [plan_keep, plan_naive, plan_reread, plan_spill]


def passes(plan: AnyPlan) -> tuple[Plan, ...]:
    """Return the plans that are carried out one after another."""
    assert not isinstance(plan, CopyPlan), "nothing here can be copied as it is stored"
    return plan.passes if isinstance(plan, SpillPlan) else (plan,)


def check_walk(plan: AnyPlan) -> None:
    """Every pass costs what it says, and moves the whole array."""
    for each in passes(plan):
        walked = walk(each)
        assert walked.array_is_rebuilt
        assert (walked.seeks, walked.openings) == (each.seeks, each.openings)
        assert (walked.read_bytes, walked.held_bytes) == (each.n_bytes_read, each.held_bytes)
        assert each.fits


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(problem=atomic_problems())
def test_atomic_blocks_cost_what_the_plan_says(strategy: object, problem: Problem) -> None:
    """Walking a plan for atomic blocks counts what the closed forms predict."""
    assert callable(strategy)
    try:
        plan = strategy(problem)
    except BudgetTooSmallError as error:
        # The budget it names is enough, and one byte less is not.
        check_walk(strategy(problem.within(error.required)))
        with pytest.raises(BudgetTooSmallError):
            strategy(problem.within(error.required - 1))
        return
    check_walk(plan)


@given(problem=atomic_problems())
def test_atomic_targets_are_written_once(problem: Problem) -> None:
    """Whatever strategy is chosen, every atomic target block is written once, whole."""
    assume(problem.target.atomic)
    try:
        plan = plan_auto(problem)
    except BudgetTooSmallError:
        return
    assert passes(plan)[-1].seeks.write == problem.target.grid.n_blocks


@given(objective=st.sampled_from(Objective), problem=atomic_problems(max_axes=3))
def test_what_is_chosen_keeps_to_the_budget(objective: Objective, problem: Problem) -> None:
    """However many threads are to code, memory is left for them only where there is some."""
    try:
        plan = plan_auto(problem, objective=objective)
    except BudgetTooSmallError:
        return
    assert plan.peak_bytes <= problem.budget
    assert plan_from_json(plan_to_json(plan)) == plan


@given(problem=problems(max_axes=4))
def test_spilling_moves_every_block_once(problem: Problem) -> None:
    """Both passes of a spill touch every block, scratch blocks too, exactly once."""
    try:
        plan = plan_spill(problem)
    except BudgetTooSmallError:
        return
    check_walk(plan)
    assert plan.seeks.total == sum(each.problem.lower_bound for each in plan.passes)


@given(problem=atomic_problems())
def test_rereading_is_never_worse_than_block_by_block(problem: Problem) -> None:
    """Boxes of target blocks cost no more bytes than one target block at a time."""
    assume(problem.target.atomic)
    try:
        boxes, single = plan_reread(problem), plan_naive(problem)
    except BudgetTooSmallError:
        return
    assert boxes.n_bytes_read <= single.n_bytes_read


@given(problem=atomic_problems())
def test_a_spill_goes_to_json_and_back(problem: Problem) -> None:
    """A plan of two passes is the same after a way through JSON."""
    try:
        plan = plan_spill(problem)
    except BudgetTooSmallError:
        return
    assert plan_from_json(plan_to_json(plan)) == plan
