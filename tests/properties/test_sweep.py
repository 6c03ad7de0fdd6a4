"""What the sweep strategy promises, for any grids, orders and budgets."""

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.errors import BudgetTooSmallError
from dask_io.planning import Hold, Plan, Problem, plan_keep, plan_naive
from dask_io.planning.sweep import memory_for_lower_bound, plan_sweep
from dask_io.planning.sweep.arrange import arrangement_of
from dask_io.planning.sweep.by_slab import search_by_slab
from dask_io.planning.sweep.choices import choice_of
from dask_io.planning.sweep.structures import space_between, structures
from dask_io.testing import walk
from dask_io.testing.strategies import plans, problems


@given(problem=problems(windows=True))
def test_never_worse_than_naive_or_keep(problem: Problem) -> None:
    """No other strategy has fewer seeks at the same budget."""
    plan = plan_sweep(problem)
    assert plan.fits
    assert plan.seeks.total <= plan_keep(problem).seeks.total
    try:
        naive = plan_naive(problem)
    except BudgetTooSmallError:
        return
    assert plan.seeks.total <= naive.seeks.total


@given(problem=problems(windows=True), parts=st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_more_memory_never_costs_more_seeks(problem: Problem, parts: list[float]) -> None:
    """Seeks do not rise with the budget, from one element to the whole array."""
    least = problem.staging.budget_for(problem.itemsize)
    budgets = sorted(least + int(max(1, problem.n_bytes) ** part) for part in parts)
    seeks = [plan_sweep(problem.within(budget)).seeks.total for budget in budgets]
    assert seeks == sorted(seeks, reverse=True)


@given(problem=problems(max_axes=4, windows=True))
def test_the_cost_is_that_of_walking(problem: Problem) -> None:
    """The closed forms of the plan equal what walking it step by step counts."""
    plan = plan_sweep(problem)
    walked = walk(plan)
    assert (walked.seeks, walked.held_bytes, walked.n_steps) == (
        plan.seeks,
        plan.held_bytes,
        plan.n_steps,
    )
    assert walked.array_is_rebuilt


@given(problem=problems(windows=True))
def test_the_memory_for_the_lower_bound_is_enough(problem: Problem) -> None:
    """With it every block is touched once, also where blocks are only part of larger ones."""
    memory = memory_for_lower_bound(problem)
    assert plan_sweep(problem.within(memory)).seeks.total == problem.lower_bound


@given(problem=problems())
def test_less_memory_than_for_the_lower_bound_is_not_enough(problem: Problem) -> None:
    """With a byte less at least one block is touched again."""
    memory = memory_for_lower_bound(problem)
    if problem.n_bytes and memory > problem.staging.budget_for(problem.itemsize):
        assert plan_sweep(problem.within(memory - 1)).seeks.total > problem.lower_bound


@given(problem=problems(max_axes=4), is_atomic=st.booleans())
def test_atomic_target_blocks_are_written_whole(problem: Problem, *, is_atomic: bool) -> None:
    """Any budget that holds a target block gives a plan that writes each of them once."""
    source = replace(problem.source, atomic=is_atomic)
    problem = replace(problem, source=source, target=replace(problem.target, atomic=True))
    block = prod(problem.target.grid.longest) * problem.itemsize
    if problem.holdable < block:
        with pytest.raises(BudgetTooSmallError) as caught:
            plan_sweep(problem)
        assert caught.value.required == problem.staging.budget_for(block)
        problem = problem.within(caught.value.required)
    plan = plan_sweep(problem)
    assert plan.fits
    assert plan.seeks.write == problem.target.grid.n_blocks


@given(plan=plans(windows=True))
def test_arrangements_cost_what_plans_cost(plan: Plan) -> None:
    """Memory by envelopes and seeks by choices equal the closed forms of the plan."""
    plan = replace(plan, slabs=None, backwards=frozenset(), streams=False)
    space = space_between(plan.problem.source, plan.problem.target)
    if not plan.n_steps:
        return
    choices = [choice_of(pair, reads) for pair, reads in zip(space.pairs, plan.reads, strict=True)]
    arrangement = arrangement_of(plan.order, [choices[axis] for axis in plan.order])
    assert space.seeks(dict(enumerate(choices))) == plan.seeks.total
    if plan.hold == "pieces":
        assert arrangement.held * plan.problem.itemsize == plan.held_bytes


@given(problem=problems(max_axes=4, windows=True))
def test_ends_by_slab_cost_what_plans_cost(problem: Problem) -> None:
    """What is found slab by slab keeps the budget, at the seeks that it was found for."""
    if not problem.n_bytes:
        return
    space = space_between(problem.source, problem.target)
    budget = problem.holdable // problem.itemsize
    found = search_by_slab(space, budget, below=10**9)
    if found is None:
        return
    choices = found.arrangement.by_axis
    plan = Plan(
        problem,
        found.arrangement.axes,
        tuple(choices[axis].array_reads for axis in range(space.n_axes)),
        Hold.PIECES,
        "sweep",
        found.slabs,
        frozenset(axis for axis, choice in choices.items() if choice.backwards),
    )
    assert plan.seeks.total == found.seeks
    assert plan.fits


@given(problem=problems(max_axes=3, windows=True))
def test_choices_by_segments_cost_the_same_as_by_blocks(problem: Problem) -> None:
    """The fast way to cost read ends equals the plain one, for all that is chosen from."""
    if not problem.n_bytes:
        return
    space = space_between(problem.source, problem.target)
    fixed = [each for structure in structures(space) for each in structure.fixed]
    whole = [(axis, choice) for axis in range(space.n_axes) for choice in space.whole[axis]]
    for axis, choice in [*fixed, *whole]:
        plain = choice_of(space.pair_of(axis, choice), choice.reads)
        assert plain.cuts == choice.cuts
        assert dict(plain.cells.kinds) == dict(choice.cells.kinds)
