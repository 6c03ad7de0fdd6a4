"""How often a plan visits blocks, and the memory with which it would visit each block once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dask_io.planning.copy import CopyPlan
from dask_io.planning.series import Series
from dask_io.planning.spill import SpillPlan
from dask_io.planning.sweep import memory_for_lower_bound
from dask_io.planning.together import Sweeps
from dask_io.units import at_least, format_bytes

if TYPE_CHECKING:
    from dask_io.planning.spill import AnyPlan

# An average below this is shown with more digits.
_HARDLY_MORE = 1.05


class Visits(NamedTuple):
    """Number of visits and number of blocks on both sides."""

    read: int
    source_blocks: int
    written: int
    target_blocks: int

    @property
    def are_once(self) -> bool:
        """Whether every block is read or written in a single visit."""
        return self.read <= self.source_blocks and self.written <= self.target_blocks


def count_visits(plan: AnyPlan | Sweeps | Series) -> Visits:
    """Count the visits to source and target blocks, without scratch blocks.

    Examples
    --------
    >>> from dask_io.planning import Problem, plan_naive
    >>> count_visits(plan_naive(Problem.regular((10, 6), (4, 3), (5, 6), budget=1000)))
    Visits(read=6, source_blocks=6, written=8, target_blocks=2)
    """
    if isinstance(plan, Series):
        found = [count_visits(each) for each in plan.plans.values()]
        return Visits(*map(sum, zip(*found, strict=True))) if found else Visits(0, 0, 0, 0)
    if isinstance(plan, Sweeps):
        n_written = sum(problem.target.grid.n_blocks for problem in plan.problems)
        return Visits(plan.read_openings, plan.n_source_blocks, plan.write_openings, n_written)
    problem = plan.problem
    if isinstance(plan, CopyPlan):
        return Visits(*(plan.n_steps,) * 4)
    first, last = plan.passes if isinstance(plan, SpillPlan) else (plan, plan)
    n_read, n_written = problem.source.grid.n_blocks, problem.target.grid.n_blocks
    return Visits(first.read_openings, n_read, last.write_openings, n_written)


def explain_visits(plan: AnyPlan | Sweeps | Series, *, n_shares: int = 1) -> str:
    """Explain how often blocks are touched, why, and how much memory avoids repeated visits.

    The plan has one of `n_shares` equal shares of the memory that the user gave.
    The text is empty if every block is touched once.

    Examples
    --------
    >>> from dask_io.planning import Problem, plan_sweep
    >>> print(explain_visits(plan_sweep(Problem.regular((8, 8), (2, 8), (8, 2), budget=10))))
    each block is read 2.0 times and written in 4.0 parts on average, because the memory budget of \
10 B is too small; --memory 64 is enough to read and write every block once
    >>> explain_visits(plan_sweep(Problem.regular((8, 8), (2, 8), (8, 2), budget=64)))
    ''
    """
    costly = [each for each in _plans_in(plan) if not _touches_once(each)]
    if not costly:
        return ""
    needed = max(map(_memory_to_touch_once, costly))
    budget, strategies = min(map(_budget_of, costly)), {each.strategy for each in costly}
    why = f", because the memory budget of {format_bytes(budget * n_shares)} is too small"
    if n_shares > 1:
        why += f" ({format_bytes(budget)} for each of {n_shares:,} processes)"
    other = "" if strategies <= {"sweep", "bundle"} else " with --strategy sweep"
    if isinstance(plan, Sweeps) and needed <= budget:
        why, other = ", because --strategy moves each target separately", " without --strategy"
    elif needed <= budget or "naive" in strategies:
        why = f" with the {' and '.join(sorted(strategies))} strategy"
    memory = f"--memory {at_least(needed * n_shares)}"
    enough = f"{memory}{other} is enough to read and write every block once"
    if "sweep" in other:
        enough = f"to read and write every block once, give --strategy sweep {memory}"
    return f"{_how_often(plan)}{why}; {enough}"


def _plans_in(plan: AnyPlan | Sweeps | Series) -> list[AnyPlan | Sweeps]:
    return list(plan.plans.values()) if isinstance(plan, Series) else [plan]


def _touches_once(plan: AnyPlan | Sweeps) -> bool:
    return not isinstance(plan, SpillPlan) and count_visits(plan).are_once


def _memory_to_touch_once(plan: AnyPlan | Sweeps) -> int:
    if isinstance(plan, Sweeps):
        return plan.memory_for_lower_bound
    return memory_for_lower_bound(plan.problem)


def _budget_of(plan: AnyPlan | Sweeps) -> int:
    return plan.budget if isinstance(plan, Sweeps) else plan.problem.budget


def _how_often(plan: AnyPlan | Sweeps | Series) -> str:
    visits = count_visits(plan)
    if visits.are_once:
        return "data passes through scratch files on disk"
    often = []
    if visits.read > visits.source_blocks:
        often.append(f"read {_average(visits.read / visits.source_blocks)} times")
    if visits.written > visits.target_blocks:
        # Nothing is written twice, but a block may be opened several times until it is complete.
        often.append(f"written in {_average(visits.written / visits.target_blocks)} parts")
    return f"each block is {' and '.join(often)} on average"


def _average(ratio: float) -> str:
    return f"{ratio:,.1f}" if ratio >= _HARDLY_MORE else f"{max(ratio, 1.01):.2f}"
