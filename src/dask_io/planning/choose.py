"""Strategies by name, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from dask_io.errors import BudgetTooSmallError, UsageError, did_you_mean
from dask_io.planning.copy import CopyPlan, plan_copy
from dask_io.planning.device import SSD, predict_seconds
from dask_io.planning.keep import plan_keep
from dask_io.planning.naive import plan_naive
from dask_io.planning.previous import is_for_previous, plan_clustered, plan_multiple
from dask_io.planning.reread import plan_reread
from dask_io.planning.spill import SpillPlan, plan_spill
from dask_io.planning.sweep import plan_sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dask_io.planning.device import Device
    from dask_io.planning.problem import Problem
    from dask_io.planning.spill import AnyPlan

STRATEGIES: Mapping[str, Callable[[Problem], AnyPlan]] = MappingProxyType(
    {
        "sweep": plan_sweep,
        "keep": plan_keep,
        "naive": plan_naive,
        "clustered": plan_clustered,
        "multiple": plan_multiple,
        "reread": plan_reread,
        "spill": plan_spill,
        "copy": plan_copy,
    }
)
"""Every strategy by name. Of plans with equal cost, that of the first strategy is chosen."""

_ONLY_FOR: Mapping[str, Callable[[Problem], bool]] = MappingProxyType(
    {
        "copy": lambda problem: problem.copied is not None,
        "clustered": is_for_previous,
        "multiple": is_for_previous,
        "reread": lambda problem: problem.source.atomic,
    }
)

ABOUT_AS_FAST = 1.02
"""How many times the fastest predicted time counts as equally fast, if it saves seeks."""
WORTH_SCRATCH = 1.05
"""How many times the time with scratch files other plans must take, so that scratch is used."""
# How many times the fastest predicted time is acceptable to save memory.
_PATIENCE = 1.1
# The least staging, in bytes, of a plan that saves memory: a few slabs for each thread.
_ENOUGH_STAGING = 64 * 2**20
# The most additional seeks that are acceptable to get room to write behind.
_FEW_SEEKS = 16


class Objective(StrEnum):
    """The objective of ``auto``."""

    TIME = "time"
    """The shortest predicted time on the device; of plans about as fast, the fewest seeks."""
    SEEKS = "seeks"
    """The fewest seeks."""
    MEMORY = "memory"
    """The least memory with which a run takes at most 10 % longer than the fastest."""


def parse_objective(text: str | None) -> Objective:
    """Return the objective with this name; the default is the least time.

    Raises
    ------
    UsageError
        If the name is unknown.
    """
    try:
        return Objective(text) if text is not None else Objective.TIME
    except ValueError:
        known = ", ".join(Objective)
        raise UsageError(f"unknown objective {text!r}; choose one of {known}") from None


@dataclass(frozen=True, slots=True)
class Candidate:
    """The plan of one strategy, or the error if it has none."""

    strategy: str
    plan: AnyPlan | None
    why_not: BudgetTooSmallError | None = None


def find_candidates(problem: Problem, *, scratch: int | None = None) -> list[Candidate]:
    """Plan with every strategy that applies to the problem.

    With `scratch`, plans that need more bytes of scratch space are left out.

    Examples
    --------
    >>> from dask_io.planning import Problem
    >>> problem = Problem.regular((12, 12), (4, 4), (12, 12), budget=6)
    >>> found = {one.strategy: one for one in find_candidates(problem)}
    >>> found["multiple"].plan.seeks.total, found["clustered"].why_not.required
    (72, 16)
    """
    found = [
        _candidate(name, problem)
        for name in STRATEGIES
        if name not in _ONLY_FOR or _ONLY_FOR[name](problem)
    ]
    return [
        one
        for one in found
        if one.plan is not None or one.why_not is not None
        if scratch is None or one.plan is None or one.plan.scratch_bytes <= scratch
    ]


def _candidate(name: str, problem: Problem) -> Candidate:
    try:
        return Candidate(name, _plan(name, problem))
    except BudgetTooSmallError as error:
        return Candidate(name, None, error)
    except OverflowError:
        # The blocks of a plan are too many to list.
        return Candidate(name, None)


# Explaining a choice compares the plans that it was made from.
@lru_cache(maxsize=32)
def _plan(strategy: str, problem: Problem) -> AnyPlan:
    return STRATEGIES[strategy](problem)


def plan_auto(
    problem: Problem,
    *,
    objective: Objective = Objective.TIME,
    device: Device = SSD,
    scratch: int | None = None,
) -> AnyPlan:
    """Return the best plan of all strategies for an objective.

    Blocks that can be copied verbatim are copied, because no plan does less. If the budget allows
    plans that touch every block once, only these are considered. Otherwise, plans that leave room
    for more threads to decode and encode are considered, too.

    Ties are broken by the fewest seeks, then the least memory touched, then the fewest steps, then
    the order of `STRATEGIES`. Times within a factor of `ABOUT_AS_FAST` of the shortest are ties.
    Plans with scratch files must be faster than all others by a factor of `WORTH_SCRATCH`.
    A plan with more staging may have a few more seeks.

    Parameters
    ----------
    problem
        The problem, with its budget.
    objective
        The objective.
    device
        The device of source and target; ignored for `Objective.SEEKS`.
    scratch
        The most bytes of scratch space; unlimited by default.

    Raises
    ------
    BudgetTooSmallError
        If no strategy finds a plan. It contains the smallest budget with which one would.
    """
    if problem.copied is not None:
        return plan_copy(problem)
    candidates = find_candidates(problem, scratch=scratch)
    plans = [one.plan for one in candidates if one.plan is not None]
    if not plans:
        errors = [one.why_not for one in candidates if one.why_not is not None]
        raise min(errors, key=lambda error: error.required)
    once = [plan for plan in plans if plan.seeks.total == problem.lower_bound]
    plans = once or [*plans, *_with_room_to_code(problem, plans)]
    match objective:
        case Objective.SEEKS:
            return min(plans, key=_ties)
        case Objective.TIME:
            return _about_fastest(problem, plans, device)
        case Objective.MEMORY:
            fast = _about_fastest(problem, plans, device)
            return _with_least_memory(problem, [*plans, fast], device, scratch)


def _ties(plan: AnyPlan) -> tuple[int, int, int]:
    return plan.seeks.total, plan.touched_bytes, plan.n_steps


def _fastest(plans: Sequence[AnyPlan], device: Device) -> AnyPlan:
    return min(plans, key=lambda plan: (predict_seconds(plan, device), *_ties(plan)))


def _about_fastest(problem: Problem, plans: Sequence[AnyPlan], device: Device) -> AnyPlan:
    """Return the plan with the fewest seeks among the fastest, if possible with more staging."""
    plans = _without_scratch(plans, device)
    longest = ABOUT_AS_FAST * min(predict_seconds(plan, device) for plan in plans)
    found = min((plan for plan in plans if predict_seconds(plan, device) <= longest), key=_ties)
    return _with_room_to_write(problem, found, device, longest)


def _without_scratch(plans: Sequence[AnyPlan], device: Device) -> Sequence[AnyPlan]:
    """Leave out plans with scratch files, unless one is clearly faster than all others."""
    direct = [plan for plan in plans if not plan.scratch_bytes]
    if not direct:
        return plans
    with_scratch = min(predict_seconds(plan, device) for plan in plans)
    without = min(predict_seconds(plan, device) for plan in direct)
    return direct if with_scratch * WORTH_SCRATCH > without else plans


def _with_room_to_code(problem: Problem, plans: Sequence[AnyPlan]) -> Iterator[AnyPlan]:
    """Yield sweep plans that hold less, so that more threads can decode and encode at once.

    Each has room for twice as many threads as the previous one, until there is room for all.
    """
    staging = problem.staging
    found = next((plan for plan in plans if plan.strategy == "sweep"), None)
    if found is None or not (problem.source.is_coded or problem.target.is_coded):
        return
    n_coders = staging.count_coders(found.staging_bytes)
    while n_coders < staging.coders:
        n_coders = min(2 * n_coders, staging.coders)
        # This is more staging than the sweep leaves, so the plan found fits in the budget.
        room = n_coders * staging.minimum
        smaller = problem.within(staging.budget_for(max(0, problem.budget - room)))
        plan = _candidate("sweep", smaller).plan
        if plan is None:
            return
        plan = replace(plan, problem=problem)
        yield plan
        n_coders = max(n_coders, staging.count_coders(plan.staging_bytes))


def _with_room_to_write(
    problem: Problem, found: AnyPlan, device: Device, longest: float
) -> AnyPlan:
    """Return a plan with room to read ahead and write behind, if it is about as fast.

    This is worth a few seeks, unless every block can be touched once.
    """
    wanted = problem.staging.preferred
    if found.staging_bytes >= min(wanted, found.held_bytes):
        return found
    seeks = found.seeks.total
    if seeks > problem.lower_bound:
        seeks += _FEW_SEEKS
    smaller = problem.within(max(problem.budget - wanted, problem.budget // 2))
    # Planning with the chosen strategy is usually faster.
    for name in dict.fromkeys([found.strategy, "sweep"]):
        plan = _candidate(name, smaller).plan
        if plan is None:
            continue
        plan = replace(plan, problem=problem)
        has_room = plan.staging_bytes > found.staging_bytes
        if has_room and plan.seeks.total <= seeks and predict_seconds(plan, device) <= longest:
            return plan
    return found


def _with_least_memory(
    problem: Problem, plans: list[AnyPlan], device: Device, scratch: int | None
) -> AnyPlan:
    """Halve the budget as long as there is a plan about as fast as the fastest."""
    found = _fastest(plans, device)
    longest = predict_seconds(found, device) * _PATIENCE
    little = partial(_with_little_staging, problem, device=device, longest=longest)
    while plans := [
        plan for plan in map(little, plans) if predict_seconds(plan, device) <= longest
    ]:
        found = min(plans, key=lambda plan: (plan.held_bytes, *_ties(plan)))
        if not found.held_bytes:
            break
        smaller = problem.within(problem.staging.budget_for(found.held_bytes // 2))
        found_smaller = find_candidates(smaller, scratch=scratch)
        plans = [one.plan for one in found_smaller if one.plan is not None]
    return found


def _with_little_staging(
    problem: Problem, found: AnyPlan, *, device: Device, longest: float
) -> AnyPlan:
    """Return a plan with just enough staging to be about as fast as the fastest.

    Otherwise all unused memory would become staging, although most of it saves no time.
    """
    if isinstance(found, SpillPlan | CopyPlan):
        return found
    most = problem.staging.preferred
    enough = max(problem.staging.needed(problem.budget), _ENOUGH_STAGING, found.held_bytes // 2)
    while True:
        staging = replace(problem.staging, preferred=min(most, enough))
        plan = replace(found, problem=replace(problem, staging=staging))
        if enough >= most or predict_seconds(plan, device) <= longest:
            return plan
        enough *= 2


def check_strategy(name: str) -> None:
    """Check the name of a strategy.

    Raises
    ------
    UsageError
        If the name is unknown. The message lists the known names.
    """
    names = ["auto", *STRATEGIES]
    if name not in names:
        guess = did_you_mean(name, names)
        raise UsageError(
            f"unknown strategy {name!r}{guess or '; choose one of ' + ', '.join(names)}"
        )


def plan_with(
    strategy: str,
    problem: Problem,
    *,
    objective: Objective = Objective.TIME,
    device: Device = SSD,
    scratch: int | None = None,
) -> AnyPlan:
    """Plan with the strategy of this name, or with the best one if it is ``"auto"``.

    Raises
    ------
    UsageError
        If the strategy is unknown, or does not apply to the problem.
    """
    check_strategy(strategy)
    if strategy == "auto":
        return plan_auto(problem, objective=objective, device=device, scratch=scratch)
    return STRATEGIES[strategy](problem)


def plan_either(
    strategy: str,
    whole: Problem,
    in_pieces: Problem,
    *,
    objective: Objective = Objective.TIME,
    device: Device = SSD,
    scratch: int | None = None,
) -> AnyPlan:
    """Plan with target blocks encoded whole or, if memory is short, piece by piece.

    Both problems are the same, but encoding piece by piece needs less memory and may take longer.
    Blocks are encoded whole if this touches every block once, has room for all threads that
    encode, and memory is not the objective. Otherwise, a plan that touches every block once is
    preferred, then the faster plan.
    """
    plan = partial(plan_with, strategy, objective=objective, device=device, scratch=scratch)
    whole, in_pieces = (replace(each, piecewise=in_pieces.staging) for each in (whole, in_pieces))
    try:
        first = plan(whole)
    except BudgetTooSmallError:
        return plan(in_pieces)
    is_once = first.seeks.total == whole.lower_bound
    has_room = whole.staging.slowdown(first.staging_bytes) == 1
    if is_once and has_room and objective is not Objective.MEMORY:
        return first
    plans = first, plan(in_pieces)
    longest = _PATIENCE * min(predict_seconds(each, device) for each in plans)

    def cost(found: AnyPlan) -> tuple[float, float]:
        seconds = predict_seconds(found, device)
        match objective:
            case Objective.SEEKS:
                return found.seeks.total, seconds
            case Objective.TIME:
                return found.seeks.total > whole.lower_bound, seconds
            case Objective.MEMORY:
                return seconds > longest, found.peak_bytes

    return min(plans, key=cost)
