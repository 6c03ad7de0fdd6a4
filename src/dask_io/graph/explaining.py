"""Explain which parts of a graph run by plan, and why others do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask._task_spec import DataNode, GraphNode, Task
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from dask_io.errors import printable
from dask_io.graph.match import DeclinedError
from dask_io.graph.objects import source_of
from dask_io.graph.optimizer import active_options
from dask_io.graph.plan_tasks import PlanTask
from dask_io.graph.rewrite import analyze
from dask_io.notebook import Displayed
from dask_io.planning import Plan
from dask_io.report.summary import plan_facts
from dask_io.report.svg import job_svg

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Unpack

    from dask_io.graph.clustering import ClusteredRead
    from dask_io.jobs.settings import Options
    from dask_io.planning import Sweeps


_MOST_DRAWN = 4
_UNTRACED = (
    "this Delayed has no plan, and Dask optimizes it only when it is created: if that was outside "
    "the context of dask_io.optimize, create it within the context, as in `with "
    "dask_io.optimize(): dask_io.explain(dataset.to_zarr(target, compute=False))`; otherwise "
    "dask_io.optimize(on_mismatch='warn') gives the reason"
)


@dataclass(frozen=True, repr=False)
class Explanation(Displayed):
    """Which parts of a graph run by plan; print it to read it.

    Attributes
    ----------
    reasons
        Why some stores are left to Dask, also if others run by plan. If the graph stores nothing,
        why some reads are left to Dask. Empty if none are.
    plan_tasks
        The tasks that execute a plan, each with its source and targets.
    clusters
        The arrays that are read in boxes and computed on.
    """

    reasons: tuple[str, ...]
    plan_tasks: tuple[PlanTask, ...]
    clusters: tuple[ClusteredRead, ...]

    @property
    def matched(self) -> bool:
        """Whether everything that could run by plan does."""
        return bool(self.plan_tasks or self.clusters) and not self.reasons

    @property
    def plans(self) -> tuple[Plan | Sweeps, ...]:
        """The plan of every task."""
        return tuple(task.plan for task in self.plan_tasks)

    def __str__(self) -> str:
        planned = [f"By plan: {done}" for done in (*self.plan_tasks, *self.clusters)]
        return "\n\n".join(
            [*planned, *(f"By Dask: {printable(reason)}" for reason in self.reasons)]
        )

    def _facts(self) -> Iterator[str]:
        yield f"{len(self.plan_tasks) + len(self.clusters):,} by plan"
        yield f"{len(self.reasons):,} by Dask"
        yield from self.reasons[:1]

    def _rows(self) -> Iterator[tuple[str, str]]:
        for task in self.plan_tasks:
            targets = ", ".join(target.place for target in task.targets)
            yield "by plan", f"{task.source.place} to {targets}: {', '.join(plan_facts(task.plan))}"
        yield from (("by plan", str(cluster)) for cluster in self.clusters)
        yield from (("by Dask", reason) for reason in self.reasons)

    def _drawing(self) -> str:
        plans = [plan for plan in self.plans if isinstance(plan, Plan)]
        return "".join(map(job_svg, plans[:_MOST_DRAWN]))


def explain(*collections: Any, **options: Unpack[Options]) -> Explanation:
    """Explain what `dask_io.optimize` would do with a computation, without computing anything.

    Parameters
    ----------
    *collections
        Dask arrays, xarray datasets or delayed objects, such as the result of
        ``x.store(target, compute=False)``.
    **options
        As in `dask_io.optimize`; by default those of the enclosing context.
    """
    graph = HighLevelGraph.merge(*(each.__dask_graph__() for each in collections))
    done = [
        task.func
        for layer in graph.layers.values()
        for task in _nodes_in(layer.values() if layer.is_materialized() else ())
        if isinstance(task, Task) and isinstance(task.func, PlanTask)
    ]
    keys = [each.__dask_keys__() for each in collections]
    analysis = analyze(graph, keys, active_options(**options))
    plan_tasks = (*done, *analysis.plan_tasks)
    reasons = [*analysis.reasons, *(reason for task in done for reason in task.declined)]
    if not (plan_tasks or reasons):
        is_late = any(isinstance(each, Delayed) for each in collections)
        reasons += [*analysis.reasons_read, *(_declined_sources(graph) if is_late else ())]
        if not (reasons or analysis.clusters):
            reasons = [_UNTRACED if is_late else "the graph neither reads nor stores an array"]
    return Explanation(tuple(dict.fromkeys(reasons)), plan_tasks, tuple(analysis.clusters))


def _declined_sources(graph: HighLevelGraph) -> Iterator[str]:
    """Yield why the sources in the graph of a Delayed, which has no layers, are declined."""
    for node in _nodes_in(graph.to_dict().values()):
        value = node.value if isinstance(node, DataNode) else None
        if getattr(value, "shape", ()) and hasattr(value, "dtype"):
            try:
                source_of(value)
            except DeclinedError as declined:
                yield str(declined)


def _nodes_in(values: Iterable[Any]) -> Iterator[GraphNode]:
    """Yield the nodes of a graph, also those that Dask has fused into one task."""
    for value in values:
        if isinstance(value, GraphNode):
            yield value
            yield from _nodes_in(getattr(value, "args", ()))
        elif isinstance(value, dict):
            yield from _nodes_in(value.values())
