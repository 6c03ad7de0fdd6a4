"""`Plan`: what it refuses, and what it derives."""

import pickle
from dataclasses import replace

import pytest
from hypothesis import given

from dask_io.geometry import Region
from dask_io.planning import Hold, Plan, Problem, ReadRun, SlabRange, Slabs, Staging
from dask_io.testing.strategies import plans

PROBLEM = Problem.regular((10, 6), (4, 3), (5, 6), dtype="int16", budget=1000)
ROWS = (ReadRun(5, 2, keep=True),)
COLUMNS = (ReadRun(6, 1, keep=True),)


@pytest.mark.parametrize("order", [(0,), (0, 0), (0, 1, 2), (1, 2)])
def test_the_order_names_every_axis_once(order: tuple[int, ...]) -> None:
    """An order that is no permutation is refused."""
    with pytest.raises(ValueError, match="every axis once"):
        Plan(PROBLEM, order, (ROWS, COLUMNS), Hold.PIECES, "keep")


def test_axes_swept_backwards_are_the_plans() -> None:
    """An axis that is not there cannot be swept backwards."""
    with pytest.raises(ValueError, match=r"must be axes of the plan: \[1, 2\]"):
        Plan(PROBLEM, (0, 1), (ROWS, COLUMNS), Hold.PIECES, "keep", backwards=frozenset({1, 2}))


def test_backwards_the_last_cell_is_read_first() -> None:
    """Cells come in reverse order, and what is flushed is where one starts."""
    rows = (ReadRun(4, 1, keep=True), ReadRun(6, 1, keep=False))
    plan = Plan(PROBLEM, (0, 1), (rows, COLUMNS), Hold.PIECES, "keep", backwards=frozenset({0}))
    steps = [(str(step.cell), str(step.done)) for step in plan.steps()]
    assert steps == [("4:10,0:6", "4:10,0:6"), ("0:4,0:6", "0:4,0:6")]
    assert plan.write_cuts[0].pieces == 2


def test_read_cells_cover_the_array() -> None:
    """Read cells that fall short of the array, or go beyond it, are refused."""
    with pytest.raises(ValueError, match=r"read cells cover \(6, 6\)"):
        Plan(PROBLEM, (0, 1), (COLUMNS, COLUMNS), Hold.PIECES, "keep")


@pytest.mark.parametrize(
    ("slabs", "message"),
    [
        (Slabs(0, 1, ()), "at least one range"),
        (Slabs(0, 2, (SlabRange(0, 5, COLUMNS),)), "axes of the plan"),
        (Slabs(1, 0, (SlabRange(0, 6, ROWS),)), "axis 0 is not inside axis 1"),
        (Slabs(0, 1, (SlabRange(0, 4, COLUMNS),)), "not whole read cells"),
        (Slabs(0, 1, (SlabRange(5, 5, COLUMNS),)), "not whole read cells"),
        (Slabs(0, 1, (SlabRange(0, 15, COLUMNS),)), "exceed"),
        (Slabs(0, 1, (SlabRange(5, 10, COLUMNS), SlabRange(0, 5, COLUMNS))), "overlap"),
        (Slabs(0, 1, (SlabRange(0, 5, (ReadRun(5, 1, keep=True),)),)), "different flushed ends"),
        (Slabs(0, 1, (SlabRange(0, 5, (ReadRun(3, 2, keep=False),)),)), "different flushed ends"),
    ],
)
def test_slabs_differ_only_where_they_may(slabs: Slabs, message: str) -> None:
    """Slabs of another plan, or that are flushed otherwise, are refused."""
    with pytest.raises(ValueError, match=message):
        Plan(PROBLEM, (0, 1), (ROWS, COLUMNS), Hold.PIECES, "keep", slabs)


def test_each_slab_is_read_in_its_own_cells() -> None:
    """In the second slab the inner axis is read in two cells, in the first in one."""
    slabs = Slabs(0, 1, (SlabRange(5, 10, (ReadRun(3, 2, keep=True),)),))
    plan = Plan(PROBLEM, (0, 1), (ROWS, COLUMNS), Hold.PIECES, "keep", slabs)
    cells = [str(step.cell) for step in plan.steps()]
    assert cells == ["0:5,0:6", "5:10,0:3", "5:10,3:6"]
    assert plan.n_steps == 3


@pytest.mark.parametrize("n_blocks", [10, 10**9])
def test_slabs_that_do_not_differ_cost_the_same(n_blocks: int) -> None:
    """Taking a plan apart changes nothing, however many blocks there are."""
    problem = Problem.regular((7 * n_blocks, 900), (7, 300), (5, 200), budget=10**12)
    rows, columns = (ReadRun(7, n_blocks, keep=True),), (ReadRun(300, 3, keep=True),)
    plan = Plan(problem, (0, 1), (rows, columns), Hold.PIECES, "keep")
    finer = (ReadRun(300, 2, keep=True), ReadRun(100, 3, keep=True))
    same, other = (
        replace(plan, slabs=Slabs(0, 1, (SlabRange(14, 35, reads), SlabRange(42, 63, reads))))
        for reads in (columns, finer)
    )
    for name in ("seeks", "openings", "n_steps", "n_placements", "held_bytes", "carried_bytes"):
        assert getattr(same, name) == getattr(plan, name)
    # In six slabs one block is cut into three across its seven rows.
    assert other.seeks.read == plan.seeks.read + 6 * (3 * 7 - 1)
    assert other.n_steps == plan.n_steps + 6 * 2


def test_positions_to_flush_at_lie_within_the_array() -> None:
    """A plan cannot be cut beyond its array."""
    plan = Plan(PROBLEM, (0, 1), (ROWS, COLUMNS), Hold.PIECES, "keep")
    assert plan.flushed_at([(0, 5, 10), ()]).seeks == plan.seeks
    for position in (-1, 11):
        with pytest.raises(ValueError, match="exceed an axis of length 10"):
            plan.flushed_at([(position,), ()])


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
    in_pieces, in_blocks = (replace(plan, hold=hold) for hold in Hold)
    assert in_pieces.held_bytes <= in_blocks.held_bytes
    assert in_pieces.carried_bytes <= in_blocks.carried_bytes
    assert in_pieces.carried_bytes <= in_pieces.held_bytes <= plan.problem.n_bytes
