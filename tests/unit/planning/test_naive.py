"""`plan_naive`."""

import pytest
from hypothesis import given

from dask_io.errors import BudgetTooSmallError
from dask_io.planning import Problem, naive_seeks, plan_naive
from dask_io.testing.strategies import problems


def with_room(problem: Problem) -> Problem:
    """The problem with memory for all of the array, and for staging besides."""
    staging = problem.staging
    return problem.within(problem.n_bytes + max(staging.preferred, staging.most) + 1)


@given(problem=problems())
def test_naive_seeks_are_those_of_the_plan(problem: Problem) -> None:
    """The seeks named beside every plan are those of naive with memory for a source block."""
    assert naive_seeks(problem) == plan_naive(with_room(problem)).seeks.total


@given(problem=problems())
def test_naive_carries_nothing(problem: Problem) -> None:
    """Everything read in a step is written in it."""
    assert plan_naive(with_room(problem)).carried_bytes == 0


def test_a_block_beyond_the_budget_is_read_in_pieces() -> None:
    """A source block too large is read target block by target block."""
    problem = Problem.regular((12,), (6,), (4,), budget=6)
    assert plan_naive(problem).n_steps == 2
    tight = plan_naive(problem.within(4))
    assert [str(step.cell) for step in tight.steps()] == ["0:4", "4:6", "6:8", "8:12"]
    with pytest.raises(BudgetTooSmallError) as caught:
        plan_naive(problem.within(3))
    assert caught.value.required == 4
