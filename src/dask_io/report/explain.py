"""What every strategy would cost for one problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dask_io.errors import BudgetTooSmallError
from dask_io.planning import STRATEGIES

if TYPE_CHECKING:
    from dask_io.planning import Plan, Problem


@dataclass(frozen=True, slots=True)
class Alternative:
    """The plan one strategy finds, or why it finds none."""

    strategy: str
    plan: Plan | None
    why_not: str = ""


def explain(problem: Problem) -> list[Alternative]:
    """Plan with every strategy.

    Examples
    --------
    >>> from dask_io.planning import Problem
    >>> problem = Problem.regular((12, 12), (4, 4), (3, 6), budget=100)
    >>> [(one.strategy, one.plan and one.plan.seeks.total) for one in explain(problem)]
    [('keep', 17), ('naive', 57)]
    """
    return [_plan_with(name, problem) for name in STRATEGIES]


def _plan_with(name: str, problem: Problem) -> Alternative:
    try:
        return Alternative(name, STRATEGIES[name](problem))
    except BudgetTooSmallError as error:
        return Alternative(name, None, str(error))
