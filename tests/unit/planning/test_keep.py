"""`plan_keep`."""

import pytest

from dask_io.errors import BudgetTooSmallError
from dask_io.planning import Hold, Problem, plan_keep


def test_plenty_of_memory_reads_the_whole_array_at_once() -> None:
    """With room for everything there is one step."""
    plan = plan_keep(Problem.regular((12, 10), (3, 5), (4, 2), budget=10**6))
    assert plan.n_steps == 1
    assert plan.seeks.total == plan.problem.lower_bound


def test_one_element_is_the_least() -> None:
    """The smallest budget is one element; below it the error names it."""
    problem = Problem.regular((12, 10), (3, 5), (4, 2), dtype="f8", budget=8)
    assert plan_keep(problem).held_bytes == 8
    with pytest.raises(BudgetTooSmallError) as caught:
        plan_keep(problem.within(7))
    assert caught.value.required == 8


def test_slow_axes_are_flushed_where_the_budget_ends() -> None:
    """Too little memory for a target block flushes the slowest axis, not the fastest."""
    plan = plan_keep(Problem.regular((12, 12), (4, 4), (6, 6), budget=40))
    assert all(run.keep for run in plan.reads[1])
    assert not any(run.keep for run in plan.reads[0])


def test_whole_buffers_are_used_where_they_fit() -> None:
    """Blocks need no further copy, so they are taken when memory allows."""
    problem = Problem.regular((12,), (4,), (6,), budget=10**3)
    assert plan_keep(problem).hold is Hold.BLOCKS


def test_a_target_equal_to_the_source_is_moved_block_by_block() -> None:
    """Equal grids need memory for one block and reach the lower bound."""
    problem = Problem.regular((12, 12), (4, 4), (4, 4), budget=16)
    plan = plan_keep(problem)
    assert (plan.seeks.total, plan.held_bytes, plan.carried_bytes) == (18, 16, 0)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (1, 1, 1), (5, 1)])
def test_empty_and_thin_arrays_have_plans(shape: tuple[int, ...]) -> None:
    """Axes of length 0 and 1 are axes as any other."""
    ones = (1,) * len(shape)
    plan = plan_keep(Problem.regular(shape, ones, (9,) * len(shape), budget=100))
    assert plan.seeks.total == plan.problem.lower_bound
    assert plan.fits
