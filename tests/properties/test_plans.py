"""Prediction equals walk, for any plan and for those that the strategies make."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.errors import BudgetTooSmallError
from dask_io.planning import Plan, Problem, plan_keep, plan_naive
from dask_io.testing import Walked, walk
from dask_io.testing.strategies import plans, problems

STRATEGIES = [plan_naive, plan_keep]
Strategy = Callable[[Problem], Plan]


def predicted(plan: Plan) -> Walked:
    """What the closed forms say that a walk will count."""
    return Walked(
        read_seeks=plan.seeks.read,
        write_seeks=plan.seeks.write,
        openings=plan.openings,
        n_steps=plan.n_steps,
        read_bytes=plan.n_bytes_read,
        written_bytes=plan.problem.n_bytes,
        held_bytes=plan.held_bytes,
        carried_bytes=plan.carried_bytes,
        peak_bytes=plan.peak_bytes,
        array_is_rebuilt=True,
    )


def required_by(strategy: Strategy, problem: Problem) -> int:
    """The budget that a strategy asks for if it finds the problem's too small, else 0."""
    try:
        assert strategy(problem).fits
    except BudgetTooSmallError as error:
        return error.required
    return 0


@given(plan=plans(windows=True))
def test_any_plan_costs_what_it_says(plan: Plan) -> None:
    """The closed forms equal what walking a plan counts, for any order, ends, marks and hold."""
    assert walk(plan) == predicted(plan)


@given(plan=plans(max_axes=4, windows=True))
def test_any_plan_of_atomic_source_blocks_costs_what_it_says(plan: Plan) -> None:
    """Source blocks that are read whole are counted as often as they are, whatever the plan."""
    source = replace(plan.problem.source, atomic=True)
    plan = replace(plan, problem=replace(plan.problem, source=source))
    assert walk(plan) == predicted(plan)


@given(plan=plans(windows=True))
def test_only_what_is_read_through_is_read_besides(plan: Plan) -> None:
    """Where no gap is read through, every element is read once and nothing else is."""
    by_run = replace(plan.problem, source=replace(plan.problem.source, through=0))
    plain = replace(plan, problem=by_run)

    assert plain.n_bytes_read == by_run.n_source_bytes
    assert plan.n_bytes_read == by_run.n_source_bytes + plan.n_bytes_in_gaps
    # With its gaps, part of a block may be all of it, and the steps become a stream.
    goes_on = plan.reads_stream and not plain.reads_stream
    assert plan.openings <= plain.openings if goes_on else plan.openings == plain.openings
    assert plan.openings <= plan.seeks.total <= plain.seeks.total


@given(plan=plans(windows=True))
def test_no_plan_beats_the_lower_bound(plan: Plan) -> None:
    """No plan has fewer openings than there are blocks, or fewer seeks than the lower bound."""
    n_blocks = sum(side.grid.n_blocks for side in (plan.problem.source, plan.problem.target))

    assert n_blocks <= plan.openings <= plan.seeks.total
    assert n_blocks <= plan.problem.lower_bound <= plan.seeks.total


@given(plan=plans(max_axes=4, windows=True), data=st.data())
def test_flushing_at_more_positions_takes_no_more_memory(plan: Plan, data: st.DataObject) -> None:
    """Write cells end where a plan is cut, it costs what it says then, and holds no more."""
    cuts = [data.draw(st.sets(st.integers(0, length), max_size=3)) for length in plan.problem.shape]
    flushed = plan.flushed_at(cuts)

    assert flushed.held_bytes <= plan.held_bytes
    assert flushed.carried_bytes <= plan.carried_bytes
    for axis, positions in zip(flushed.axes, cuts, strict=True):
        assert all(axis.write_floor(position) == position for position in positions)
    assert walk(flushed) == predicted(flushed)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(problem=problems(windows=True), budget=st.integers(1, 4000))
def test_a_strategy_fits_or_names_the_budget_it_needs(
    strategy: Strategy, problem: Problem, budget: int
) -> None:
    """A plan keeps its budget; an error names the least one that gives a plan."""
    required = required_by(strategy, problem.within(budget))
    assert strategy(problem.within(max(required, budget))).fits
    if required > budget:
        assert required_by(strategy, problem.within(required - 1)) == required


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(problem=problems(windows=True))
def test_a_strategys_plan_costs_what_it_says(strategy: Strategy, problem: Problem) -> None:
    """The closed forms equal what walking counts, at any budget that gives a plan."""
    try:
        plan = strategy(problem)
    except BudgetTooSmallError:
        assert strategy is plan_naive  # one element always fits, and keep needs no more
        return
    assert walk(plan) == predicted(plan)


@given(problem=problems(windows=True))
def test_keep_with_plenty_of_memory_touches_every_block_once(problem: Problem) -> None:
    """With memory for the whole array and more, keep reaches the lower bound."""
    plenty = 4 * problem.n_bytes + problem.staging.preferred + problem.itemsize
    plan = plan_keep(problem.within(plenty))
    assert plan.seeks.total == problem.lower_bound
