"""Putting plans into a graph, in the place of what they do."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import getitem
from typing import TYPE_CHECKING, Any

from dask._task_spec import Alias, Task, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from dask_io.graph.clustering import ReadBox, cluster_reading
from dask_io.graph.keys import KeysLayer
from dask_io.graph.match import DeclinedError, Match, Reading
from dask_io.graph.matchers.hlg import Asked, find_reads, find_stores
from dask_io.graph.work import plan_matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dask_io.graph.clustering import Cluster
    from dask_io.graph.options import GraphOptions
    from dask_io.graph.work import Work


@dataclass
class Considered:
    """What of a graph can be done by plan, and why the rest of what it stores cannot.

    `stored` has plans with the matches that they are for, `read` arrays that are read to be
    computed on, `reasons` what is left to Dask, and `reasons_read` the same of what it reads.
    """

    stored: list[tuple[list[Match], tuple[Work, ...]]] = field(default_factory=list)
    read: list[tuple[Reading, Cluster]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    reasons_read: list[str] = field(default_factory=list)

    @property
    def works(self) -> list[Work]:
        """All plans."""
        return [work for _, works in self.stored for work in works]

    @property
    def clusters(self) -> list[Cluster]:
        """All that is read in boxes."""
        return [cluster for _, cluster in self.read]

    @property
    def replaced(self) -> set[str]:
        """Names of the layers that go."""
        stored = {
            name for matches, _ in self.stored for match in matches for name in match.replaced
        }
        return stored.union(*(reading.layers for reading, _ in self.read))


def consider(graph: HighLevelGraph, keys: Iterable[Any], options: GraphOptions) -> Considered:
    """Find out what of a graph can be done by plan."""
    asked, considered = Asked.of(graph, keys), Considered()
    groups: dict[object, list[Match]] = {}
    for finding in find_stores(asked):
        if isinstance(finding.found, Match):
            match = finding.found
            # Targets of one type are written from one read.
            together = match.reading.identity, match.target.dtype
            groups.setdefault(together, []).append(match)
        else:
            considered.reasons.append(finding.reason)
    for matches in groups.values():
        try:
            considered.stored.append((matches, plan_matches(matches, options)))
        except DeclinedError as declined:
            considered.reasons.append(str(declined))
    for finding in find_reads(asked, considered.replaced):
        try:
            if isinstance(finding.found, Reading):
                cluster = cluster_reading(finding.found, options)
                considered.read.append((finding.found, cluster))
            else:
                considered.reasons_read.append(finding.reason)
        except DeclinedError as declined:
            considered.reasons_read.append(str(declined))
    return considered


def replace_layers(graph: HighLevelGraph, considered: Considered) -> HighLevelGraph:
    """Return a graph in which what is planned is done by plan; its keys are the same."""
    gone = considered.replaced
    if not gone:
        return graph
    layers = {name: layer for name, layer in graph.layers.items() if name not in gone}
    dependencies = {name: graph.dependencies[name] for name in layers}

    def add(name: str, layer: Any, *needs: str) -> None:
        layers[name], dependencies[name] = layer, set(needs)

    # A cluster takes a result that it has under the same key, so a key stands for parts or boxes of
    # one size only.
    for matches, works in considered.stored:
        plan_name = f"dask-io-plan-{tokenize([match.name for match in matches], len(works))}"
        add(plan_name, _plan_layer(plan_name, works))
        for match in matches:
            add(match.name, StoredLayer(match.name, match.chunks.counts, plan_name), plan_name)
    for reading, cluster in considered.read:
        read_name = f"dask-io-read-{tokenize(reading.name, cluster.boxes)}"
        add(read_name, _read_layer(read_name, cluster))
        add(reading.name, TakenLayer(reading.name, cluster, read_name), read_name)
    return HighLevelGraph(layers, dependencies)


def _plan_layer(name: str, works: Iterable[Work]) -> MaterializedLayer:
    """Make a task for each plan, and one that waits for all of them."""
    tasks: dict[Any, Task] = {
        (name, number): Task((name, number), work) for number, work in enumerate(works)
    }
    tasks[name] = Task(name, _wait_for, *map(TaskRef, tasks))
    return MaterializedLayer(tasks)


def _wait_for(*_: None) -> None:
    """Do nothing, once everything has been done."""


def _read_layer(name: str, cluster: Cluster) -> MaterializedLayer:
    """Make a task for each box."""
    boxes = map(cluster.boxes.block, cluster.boxes.indices())
    keys = ((name, number) for number in range(cluster.boxes.n_blocks))
    return MaterializedLayer(
        {key: Task(key, ReadBox(cluster, box)) for key, box in zip(keys, boxes, strict=True)}
    )


class StoredLayer(KeysLayer):
    """The keys of a layer that stored blocks: all are there once all plans are carried out."""

    def __init__(self, name: str, counts: tuple[int, ...], plan: str) -> None:
        super().__init__(name, counts)
        self.plan = plan

    def need_of(self, index: tuple[int, ...]) -> str:  # noqa: ARG002 - the same for all
        """Return the key of the task that waits for all plans."""
        return self.plan

    def task_of(self, index: tuple[int, ...]) -> Alias:
        """Stand for that task."""
        return Alias((self.name, *index), self.plan)


class TakenLayer(KeysLayer):
    """The keys of a layer that read or rechunked blocks: each is taken out of the box it is in."""

    def __init__(self, name: str, cluster: Cluster, boxes: str) -> None:
        super().__init__(name, cluster.chunks.counts)
        self.cluster, self.boxes = cluster, boxes

    def need_of(self, index: tuple[int, ...]) -> tuple[str, int]:
        """Return the key of the task that reads the box."""
        return self.boxes, self.cluster.find(index)[0]

    def task_of(self, index: tuple[int, ...]) -> Task:
        """Take a block out of its box."""
        number, place = self.cluster.find(index)
        return Task((self.name, *index), getitem, TaskRef((self.boxes, number)), place)
