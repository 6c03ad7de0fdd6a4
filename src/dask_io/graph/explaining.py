"""Saying what of a graph is done by plan, and why the rest is not."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from dask._task_spec import Task
from dask.highlevelgraph import HighLevelGraph

from dask_io.graph.optimizer import active_options
from dask_io.graph.rewrite import Outcome, consider
from dask_io.graph.work import Work
from dask_io.report.svg import job_svg

if TYPE_CHECKING:
    from typing import Unpack

    from dask_io.options import Options
    from dask_io.planning import Plan


@dataclass(frozen=True)
class Explanation:
    """What becomes of a graph.

    Attributes
    ----------
    matched
        Whether all that it stores is stored by plan.
    reasons
        Why something is not, if so.
    works
        The plans, each with what it reads and writes.
    """

    reasons: tuple[str, ...]
    works: tuple[Work, ...]

    @property
    def matched(self) -> bool:
        """Whether there are plans, and nothing is left to Dask."""
        return bool(self.works) and not self.reasons

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans alone."""
        return tuple(work.plan for work in self.works)

    def __str__(self) -> str:
        planned = [f"By plan: {work}" for work in self.works]
        return "\n\n".join([*planned, *(f"By Dask: {reason}" for reason in self.reasons)])

    def _repr_html_(self) -> str:
        planned = [
            f"<pre>By plan: {escape(str(work))}</pre>{job_svg(work.plan)}" for work in self.works
        ]
        others = [f"<p>By Dask: {escape(reason)}</p>" for reason in self.reasons]
        return "".join([*planned, *others])


def explain(*collections: Any, **options: Unpack[Options]) -> Explanation:
    """Say what `dask_io.optimize` would make of what is to be computed; nothing is.

    Parameters
    ----------
    *collections
        Dask arrays, such as ``x.store(target, compute=False)`` returns, datasets of xarray, or
        delayed objects.
    **options
        As in `dask_io.optimize`; by default those of the context around it.
    """
    graph = HighLevelGraph.merge(*(each.__dask_graph__() for each in collections))
    done = tuple(work for layer in graph.layers.values() for work in _works_in(layer))
    keys = [each.__dask_keys__() for each in collections]
    outcomes = consider(graph, keys, active_options(**options))
    works = tuple(work for outcome in outcomes for work in outcome.works)
    reasons = [f"{_kind(each)}: {each.reason}" for each in outcomes if each.reason]
    if not outcomes and not done:
        reasons.append("nothing in it is stored")
    return Explanation(tuple(reasons), (*done, *works))


def _works_in(layer: Any) -> list[Work]:
    """Return the plans that a graph has already, because it was optimized when it was made."""
    return [
        task.func
        for task in (layer.values() if layer.is_materialized() else ())
        if isinstance(task, Task) and isinstance(task.func, Work)
    ]


def _kind(outcome: Outcome) -> str:
    return outcome.name.rpartition("-")[0]
