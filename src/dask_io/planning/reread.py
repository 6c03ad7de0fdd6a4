"""The reread strategy, for source blocks that can only be read whole."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dask_io.errors import BudgetTooSmallError
from dask_io.planning.boxes import fitting_boxes
from dask_io.planning.plan import Plan
from dask_io.planning.reads import Hold, ReadRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.geometry import Axis
    from dask_io.planning.problem import Problem


def plan_reread(problem: Problem) -> Plan:
    """Fill boxes of whole target blocks, one box at a time, and read all overlapping source blocks.

    Nothing is carried, and every target block is written once, whole. A source block that overlaps
    several boxes is read and decoded once for each: `Plan.decodes` is the total. The boxes are
    chosen for the fewest decodes that memory allows. `plan_spill` reads every block once instead,
    but moves all data through scratch space on disk.

    Raises
    ------
    BudgetTooSmallError
        If one target block does not fit.
    """
    target = problem.target.grid
    boxes = fitting_boxes(target, problem.holdable // problem.itemsize)
    plans = [box_plan(problem, axes, "reread") for axes in boxes]
    if not plans:
        required = problem.staging.budget_for(prod(target.longest) * problem.itemsize)
        raise BudgetTooSmallError(required, problem.budget, "target block")
    return min(plans, key=lambda plan: (plan.n_bytes_read, plan.openings, plan.held_bytes))


def box_plan(problem: Problem, axes: Sequence[Axis], strategy: str) -> Plan:
    """Return the plan that reads box by box, in the target's storage order, and holds blocks."""
    reads = tuple(tuple(ReadRun(*run, keep=True) for run in axis.runs) for axis in axes)
    return Plan(problem, problem.target.layout.axes, reads, Hold.BLOCKS, strategy)
