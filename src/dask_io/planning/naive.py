"""The naive strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.errors import BudgetTooSmallError
from dask_io.geometry import cut_axis
from dask_io.planning.plan import Plan
from dask_io.planning.reads import Hold, ReadRun
from dask_io.planning.reread import box_plan

if TYPE_CHECKING:
    from dask_io.geometry import Axis
    from dask_io.planning.problem import Problem


def plan_naive(problem: Problem) -> Plan:
    """Read one source block at a time and write all of it at once.

    Nothing is carried, so memory is one source block. Every target block is reopened for each
    source block that overlaps it: seeks grow with each cut along the fastest axis. `plan_keep`
    avoids this. A source block larger than the budget is read in the parts that each target block
    needs. If target blocks are atomic, they are filled one by one.

    Raises
    ------
    BudgetTooSmallError
        If the intersection of a source and a target block exceeds the budget, or if a source block
        does and there are too many pieces to list.
    """
    source, target = problem.source.grid.axes, problem.target.grid.axes
    if problem.target.atomic:
        return _by_target(problem)
    by_blocks = flush_everywhere(problem, source)
    if by_blocks.fits:
        return by_blocks
    try:
        by_pieces = flush_everywhere(problem, tuple(map(cut_axis, source, target)))
    except OverflowError:
        required = problem.staging.budget_for(by_blocks.held_bytes)
        raise BudgetTooSmallError(required, problem.budget, "source block") from None
    if not by_pieces.fits:
        required = problem.staging.budget_for(by_pieces.held_bytes)
        raise BudgetTooSmallError(required, problem.budget, "piece of a source block")
    return by_pieces


def flush_everywhere(problem: Problem, axes: tuple[Axis, ...]) -> Plan:
    """Return the plan that reads the cells of these axes and flushes every end."""
    reads = tuple(
        tuple(ReadRun(length, count, keep=False) for length, count in axis.runs) for axis in axes
    )
    order = problem.source.layout.axes
    return Plan(problem, order, reads, Hold.BLOCKS, "naive")


def _by_target(problem: Problem) -> Plan:
    """Return the plan that fills one target block after another."""
    plan = box_plan(problem, problem.target.grid.axes, "naive")
    if not plan.fits:
        required = problem.staging.budget_for(plan.held_bytes)
        raise BudgetTooSmallError(required, problem.budget, "target block")
    return plan
