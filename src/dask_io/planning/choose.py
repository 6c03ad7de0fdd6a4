"""Strategies by name, and the choice among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.errors import BudgetTooSmallError, UsageError
from dask_io.planning.keep import plan_keep
from dask_io.planning.naive import plan_naive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dask_io.planning.plan import Plan
    from dask_io.planning.problem import Problem

STRATEGIES: Mapping[str, Callable[[Problem], Plan]] = {"keep": plan_keep, "naive": plan_naive}


def plan_auto(problem: Problem) -> Plan:
    """Take the plan with the fewest seeks; among equals the least memory, then the fewest steps.

    Raises
    ------
    BudgetTooSmallError
        If no strategy finds a plan; it names the smallest budget with which one would.
    """
    plans, errors = [], []
    for strategy in STRATEGIES.values():
        try:
            plans.append(strategy(problem))
        except BudgetTooSmallError as error:
            errors.append(error)
    if not plans:
        raise min(errors, key=lambda error: error.required)
    return min(plans, key=lambda plan: (plan.seeks.total, plan.held_bytes, plan.n_steps))


def plan_with(strategy: str, problem: Problem) -> Plan:
    """Plan with the strategy of this name, or with the best one for ``"auto"``."""
    if strategy == "auto":
        return plan_auto(problem)
    if strategy not in STRATEGIES:
        known = ", ".join(["auto", *STRATEGIES])
        message = f"there is no strategy {strategy!r}; choose one of {known}"
        raise UsageError(message)
    return STRATEGIES[strategy](problem)
