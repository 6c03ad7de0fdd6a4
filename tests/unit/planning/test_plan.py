"""`Plan`: what it refuses, and what it derives."""

import pickle

import pytest
from hypothesis import given

from dask_io.geometry import Region
from dask_io.planning import Hold, Plan, Problem, ReadRun, Staging
from dask_io.testing.strategies import plans

PROBLEM = Problem.regular((10, 6), (4, 3), (5, 6), dtype="int16", budget=1000)
ROWS = (ReadRun(5, 2, keep=True),)
COLUMNS = (ReadRun(6, 1, keep=True),)


@pytest.mark.parametrize("order", [(0,), (0, 0), (0, 1, 2), (1, 2)])
def test_the_order_names_every_axis_once(order: tuple[int, ...]) -> None:
    """An order that is no permutation is refused."""
    with pytest.raises(ValueError, match="every axis once"):
        Plan(PROBLEM, order, (ROWS, COLUMNS), Hold.PIECES, "keep")


def test_read_cells_cover_the_array() -> None:
    """Read cells that fall short of the array, or go beyond it, are refused."""
    with pytest.raises(ValueError, match=r"read cells cover \(6, 6\)"):
        Plan(PROBLEM, (0, 1), (COLUMNS, COLUMNS), Hold.PIECES, "keep")


@given(plan=plans())
def test_plans_are_values(plan: Plan) -> None:
    """A plan can be hashed, pickled and compared, whatever has been derived from it."""
    assert plan.seeks.total >= 0
    again = pickle.loads(pickle.dumps(plan))  # noqa: S301 - pickled in the line itself
    assert again == plan
    assert hash(again) == hash(plan)


def test_steps_are_lazy() -> None:
    """The first step of a billion comes at once."""
    problem = Problem.regular((7 * 10**9,), (7,), (5,), budget=100)
    plan = Plan(problem, (0,), ((ReadRun(7, 10**9, keep=True),),), Hold.PIECES, "keep")
    steps = plan.steps()
    first, second = next(steps), next(steps)
    assert (first.cell, first.done) == (Region((0,), (7,)), Region((0,), (5,)))
    assert (second.cell, second.done) == (Region((7,), (14,)), Region((5,), (10,)))


@pytest.mark.parametrize(
    ("budget", "staging", "fits"),
    [(100, 30, True), (75, 15, True), (70, 10, True), (69, 10, False)],
)
def test_staging_shrinks_with_the_budget(budget: int, staging: int, *, fits: bool) -> None:
    """Staging takes what is left, at most what is preferred, and never less than the least."""
    problem = Problem.regular((60,), (60,), (60,), budget=budget, staging=Staging(10, 30))
    plan = Plan(problem, (0,), ((ReadRun(60, 1, keep=True),),), Hold.PIECES, "keep")
    assert (plan.held_bytes, plan.staging_bytes, plan.fits) == (60, staging, fits)


@given(plan=plans())
def test_blocks_hold_no_less_than_pieces(plan: Plan) -> None:
    """Whole buffers need at least the memory of exact pieces."""
    in_pieces, in_blocks = (
        Plan(plan.problem, plan.order, plan.reads, hold, plan.strategy) for hold in Hold
    )
    assert in_pieces.held_bytes <= in_blocks.held_bytes
    assert in_pieces.carried_bytes <= in_blocks.carried_bytes
    assert in_pieces.carried_bytes <= in_pieces.held_bytes <= plan.problem.n_bytes
