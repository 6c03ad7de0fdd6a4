"""Saying what of a graph is done by plan, and why the rest is not."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from dask._task_spec import Task
from dask.highlevelgraph import HighLevelGraph

from dask_io.graph.optimizer import active_options
from dask_io.graph.rewrite import consider
from dask_io.graph.work import Work
from dask_io.planning import Plan
from dask_io.report.svg import job_svg

if TYPE_CHECKING:
    from typing import Unpack

    from dask_io.graph.clustering import Cluster
    from dask_io.jobs.settings import Options
    from dask_io.planning import Sweeps


@dataclass(frozen=True)
class Explanation:
    """What becomes of a graph; printed, it says so.

    Attributes
    ----------
    reasons
        Why something that it stores, or if it stores nothing, something that it reads is left to
        Dask; empty if nothing is.
    works
        The plans, each with what it reads and writes.
    clusters
        What is read in boxes, to be computed on.
    """

    reasons: tuple[str, ...]
    works: tuple[Work, ...]
    clusters: tuple[Cluster, ...]

    @property
    def matched(self) -> bool:
        """Whether there is something that is done by plan, and nothing is left to Dask."""
        return bool(self.works or self.clusters) and not self.reasons

    @property
    def plans(self) -> tuple[Plan | Sweeps, ...]:
        """The plans alone."""
        return tuple(work.plan for work in self.works)

    def __str__(self) -> str:
        planned = [f"By plan: {done}" for done in (*self.works, *self.clusters)]
        return "\n\n".join([*planned, *(f"By Dask: {reason}" for reason in self.reasons)])

    def _repr_html_(self) -> str:
        drawings = [job_svg(plan) for plan in self.plans if isinstance(plan, Plan)]
        return f"<pre>{escape(str(self))}</pre>{''.join(drawings)}"


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
    done = [work for layer in graph.layers.values() for work in _works_in(layer)]
    keys = [each.__dask_keys__() for each in collections]
    considered = consider(graph, keys, active_options(**options))
    works = (*done, *considered.works)
    reasons = considered.reasons
    if not (works or reasons or considered.clusters):
        reasons = considered.reasons_read or ["it reads nothing, and stores nothing"]
    return Explanation(tuple(reasons), works, tuple(considered.clusters))


def _works_in(layer: Any) -> list[Work]:
    """Return the plans that a graph has already, because it was optimized when it was made."""
    return [
        task.func
        for task in (layer.values() if layer.is_materialized() else ())
        if isinstance(task, Task) and isinstance(task.func, Work)
    ]
