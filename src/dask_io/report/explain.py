"""Compare the strategies for one problem, and explain the choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dask_io.planning import Candidate, Objective, find_candidates, predict_seconds
from dask_io.planning.choose import ABOUT_AS_FAST
from dask_io.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.planning import AnyPlan, Device


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan, compared with those of all other strategies.

    Attributes
    ----------
    plan
        The chosen plan.
    candidates
        The plan of every applicable strategy, including the chosen one.
    device
        The device for which time is predicted.
    objective
        The objective of the choice.
    requested
        The requested strategy; ``"auto"`` for the best one.
    """

    plan: AnyPlan
    candidates: tuple[Candidate, ...]
    device: Device
    objective: Objective
    requested: str = "auto"

    @property
    def reason(self) -> str:
        """Why this plan was chosen, in one sentence."""
        plan = self.plan
        if self.requested != "auto":
            return f"{plan.strategy} was requested"
        plans = [one.plan for one in self.candidates if one.plan is not None]
        rivals = [(self._rank(other), other) for other in plans if other != plan]
        if not rivals:
            return f"{plan.strategy} is chosen: no other strategy fits the memory"
        rank, rival = min(rivals, key=lambda each: each[0])
        among = self._among([other for _, other in rivals])
        chosen = f"{plan.strategy} is chosen for {self._quality}{among}: {self._costs(plan)}"
        if rank == self._rank(plan):
            return f"{chosen}; {rival.strategy} costs the same"
        return f"{chosen}; next is {rival.strategy}: {self._costs(rival)}"

    @property
    def _quality(self) -> str:
        match self.objective:
            case Objective.TIME:
                return f"few seeks in about the least time on {self.device.name}"
            case Objective.SEEKS:
                return "the fewest seeks"
            case Objective.MEMORY:
                return f"the least memory in about the least time on {self.device.name}"

    def _among(self, rivals: Sequence[AnyPlan]) -> str:
        """Return which plans were considered, if others are faster."""
        longest = self._rank(self.plan)[0]
        faster = [other for other in rivals if ABOUT_AS_FAST * self._rank(other)[0] < longest]
        least = self.plan.problem.lower_bound
        if any(other.seeks.total > least for other in faster) and self.plan.seeks.total == least:
            return ", of the plans that touch every block once"
        if faster and not self.plan.scratch_bytes and all(each.scratch_bytes for each in faster):
            return ", of the plans without scratch files"
        return ""

    def _rank(self, plan: AnyPlan) -> tuple[float, int, int, int]:
        seconds = 0.0 if self.objective is Objective.SEEKS else predict_seconds(plan, self.device)
        return seconds, plan.seeks.total, plan.touched_bytes, plan.n_steps

    def _costs(self, plan: AnyPlan) -> str:
        seconds = format_seconds(predict_seconds(plan, self.device))
        return f"{seconds}, {plan.seeks.total:,} seeks, {format_bytes(plan.held_bytes)} held"


def explain(
    plan: AnyPlan, *, device: Device, objective: Objective, requested: str = "auto"
) -> Explanation:
    """Plan the same problem with every strategy, to compare them.

    Examples
    --------
    >>> from dask_io.planning import DEVICES, Problem, plan_naive
    >>> plan = plan_naive(Problem.regular((12, 12), (4, 4), (3, 6), budget=100))
    >>> found = explain(plan, device=DEVICES["hdd"], objective=Objective.TIME, requested="naive")
    >>> {one.strategy: one.plan.seeks.total for one in found.candidates}["naive"], found.reason
    (57, 'naive was requested')
    """
    found = [
        Candidate(plan.strategy, plan) if one.strategy == plan.strategy else one
        for one in find_candidates(plan.problem)
    ]
    return Explanation(plan, tuple(found), device, objective, requested)
