"""Replace layers of a graph by tasks that execute plans."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import getitem
from typing import TYPE_CHECKING, Any

from dask._task_spec import Alias, Task, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from dask_io.graph.clustering import ReadBox, cluster_reading
from dask_io.graph.lazy_layer import LazyLayer
from dask_io.graph.match import DeclinedError, Match, Reading
from dask_io.graph.matchers.hlg import Request, find_reads, find_stores
from dask_io.graph.plan_tasks import plan_matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dask_io.graph.clustering import ClusteredRead
    from dask_io.graph.options import GraphOptions
    from dask_io.graph.plan_tasks import PlanTask


@dataclass
class Analysis:
    """Which parts of a graph can run by plan, and why others cannot.

    `stored` pairs matches with the tasks that execute their plans. `read` lists the arrays that
    are read and computed on. `reasons` and `reasons_read` explain which stores and reads are left
    to Dask.
    """

    stored: list[tuple[list[Match], tuple[PlanTask, ...]]] = field(default_factory=list)
    read: list[tuple[Reading, ClusteredRead]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    reasons_read: list[str] = field(default_factory=list)

    @property
    def plan_tasks(self) -> list[PlanTask]:
        """All tasks that execute a plan."""
        return [task for _, plan_tasks in self.stored for task in plan_tasks]

    @property
    def clusters(self) -> list[ClusteredRead]:
        """All arrays that are read in boxes."""
        return [cluster for _, cluster in self.read]

    @property
    def replaced(self) -> set[str]:
        """Names of the layers that are replaced."""
        stored = {
            name for matches, _ in self.stored for match in matches for name in match.replaced
        }
        return stored.union(*(reading.layers for reading, _ in self.read))


def analyze(graph: HighLevelGraph, keys: Iterable[Any], options: GraphOptions) -> Analysis:
    """Find the parts of a graph that can run by plan."""
    asked, analysis = Request.of(graph, keys), Analysis()
    groups: dict[object, list[Match]] = {}
    for finding in find_stores(asked):
        if isinstance(finding.found, Match):
            match = finding.found
            # Targets of one type are written from one read.
            together = match.reading.identity, match.target.dtype
            groups.setdefault(together, []).append(match)
        else:
            analysis.reasons.append(finding.reason)
    for matches in groups.values():
        try:
            analysis.stored.append((matches, plan_matches(matches, options)))
        except DeclinedError as declined:
            analysis.reasons.append(str(declined))
    for finding in find_reads(asked, analysis.replaced):
        try:
            if isinstance(finding.found, Reading):
                cluster = cluster_reading(finding.found, options)
                analysis.read.append((finding.found, cluster))
            else:
                analysis.reasons_read.append(finding.reason)
        except DeclinedError as declined:
            analysis.reasons_read.append(str(declined))
    return analysis


def replace_layers(graph: HighLevelGraph, analysis: Analysis) -> HighLevelGraph:
    """Return a graph with the same keys, in which plans replace the layers that were matched."""
    replaced = analysis.replaced
    if not replaced:
        return graph
    layers = {name: layer for name, layer in graph.layers.items() if name not in replaced}
    dependencies = {name: graph.dependencies[name] for name in layers}

    def add(name: str, layer: Any, *needs: str) -> None:
        layers[name], dependencies[name] = layer, set(needs)

    # A scheduler reuses the result of an earlier task with the same key, so the keys also depend on
    # the number of parts and on the boxes. A Delayed has no layers to analyze: its plans keep the
    # reasons of the others.
    for matches, plan_tasks in analysis.stored:
        plan_name = f"dask-io-plan-{tokenize([match.name for match in matches], len(plan_tasks))}"
        declined = tuple(analysis.reasons)
        add(plan_name, _plan_layer(plan_name, [replace(t, declined=declined) for t in plan_tasks]))
        for match in matches:
            add(match.name, StoredLayer(match.name, match.chunks.counts, plan_name), plan_name)
    for reading, cluster in analysis.read:
        read_name = f"dask-io-read-{tokenize(reading.name, cluster.boxes)}"
        add(read_name, _read_layer(read_name, cluster))
        add(reading.name, ChunkLayer(reading.name, cluster, read_name), read_name)
    return HighLevelGraph(layers, dependencies)


def _plan_layer(name: str, plan_tasks: Iterable[PlanTask]) -> MaterializedLayer:
    """Return a task for each plan, and one that waits for all of them."""
    tasks: dict[Any, Task] = {
        (name, number): Task((name, number), task) for number, task in enumerate(plan_tasks)
    }
    tasks[name] = Task(name, _wait_for, *map(TaskRef, tasks))
    return MaterializedLayer(tasks)


def _wait_for(*_: None) -> None:
    """Do nothing; the scheduler calls it once its arguments are computed."""


def _read_layer(name: str, cluster: ClusteredRead) -> MaterializedLayer:
    """Return a task for each box."""
    boxes = map(cluster.boxes.block, cluster.boxes.indices())
    keys = ((name, number) for number in range(cluster.boxes.n_blocks))
    return MaterializedLayer(
        {key: Task(key, ReadBox(cluster, box)) for key, box in zip(keys, boxes, strict=True)}
    )


class StoredLayer(LazyLayer):
    """Replacement for a layer that stores blocks: every key waits for all plans."""

    def __init__(self, name: str, counts: tuple[int, ...], plan: str) -> None:
        super().__init__(name, counts)
        self.plan = plan

    def dependency_of(self, index: tuple[int, ...]) -> str:  # noqa: ARG002 - the same for all
        """Return the key of the task that waits for all plans."""
        return self.plan

    def task_of(self, index: tuple[int, ...]) -> Alias:
        """Return an alias of that task."""
        return Alias((self.name, *index), self.plan)


class ChunkLayer(LazyLayer):
    """Replacement for a layer that reads or rechunks blocks: each comes out of its box."""

    def __init__(self, name: str, cluster: ClusteredRead, boxes: str) -> None:
        super().__init__(name, cluster.chunks.counts)
        self.cluster, self.boxes = cluster, boxes

    def dependency_of(self, index: tuple[int, ...]) -> tuple[str, int]:
        """Return the key of the task that reads the box."""
        return self.boxes, self.cluster.find(index)[0]

    def task_of(self, index: tuple[int, ...]) -> Task:
        """Return a task that takes a block out of its box."""
        number, place = self.cluster.find(index)
        return Task((self.name, *index), getitem, TaskRef((self.boxes, number)), place)
