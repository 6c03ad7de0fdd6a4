"""Putting plans into a graph, in the place of what they do."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from dask._task_spec import Alias, Task, TaskRef
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer

from dask_io.graph.match import DeclinedError
from dask_io.graph.matchers.hlg import find_stores, layers_of
from dask_io.graph.work import plan_match

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from dask_io.graph.match import Match
    from dask_io.graph.options import GraphOptions
    from dask_io.graph.work import Work


@dataclass(frozen=True)
class Outcome:
    """A layer that stores something: the plans that do it, or why Dask does."""

    name: str
    match: Match | None = None
    works: tuple[Work, ...] = ()
    reason: str = ""


def consider(graph: HighLevelGraph, keys: Iterable[Any], options: GraphOptions) -> list[Outcome]:
    """Find out what of a graph can be done by plan."""
    outcomes = []
    for finding in find_stores(graph, keys):
        if finding.match is None:
            outcomes.append(Outcome(finding.name, reason=finding.reason))
            continue
        try:
            works = (plan_match(finding.match, options),)
            outcomes.append(Outcome(finding.name, finding.match, works))
        except DeclinedError as declined:
            outcomes.append(Outcome(finding.name, reason=str(declined)))
    return outcomes


def replace_layers(graph: HighLevelGraph, outcomes: Iterable[Outcome]) -> HighLevelGraph:
    """Return a graph in which what is planned is done by plan; its keys are the same."""
    layers, dependencies = dict(graph.layers), dict(graph.dependencies)
    planned = [(each.match, each.works) for each in outcomes if each.match is not None]
    for match, _ in planned:
        for gone in layers_of(match):
            layers.pop(gone, None)
            dependencies.pop(gone, None)
    for match, works in planned:
        plan_name = f"dask-io-plan-{tokenize(match.name)}"
        layers[plan_name] = _plan_layer(plan_name, works)
        dependencies[plan_name] = set()
        layers[match.name] = StoredLayer(match.name, match.chunks.counts, plan_name)
        dependencies[match.name] = {plan_name}
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


class StoredLayer(Layer):
    """The keys of a layer that stored blocks: each is there once the plans have been carried out.

    Tasks are made one by one as they are asked for, so that the layer is small however many
    blocks there are.
    """

    def __init__(self, name: str, counts: tuple[int, ...], plan: str) -> None:
        super().__init__()
        self.name, self.counts, self.plan = name, counts, plan

    def is_materialized(self) -> bool:
        """Whether there is a dictionary of tasks: there is none."""
        return False

    def get_output_keys(self) -> AbstractSet[Any]:
        """Return all keys."""
        return set(self)

    def __getitem__(self, key: Any) -> Alias:
        if key not in self:
            raise KeyError(key)
        return Alias(key, self.plan)

    def __contains__(self, key: object) -> bool:
        return (
            isinstance(key, tuple)
            and key[0] == self.name
            and len(key) == len(self.counts) + 1
            and all(0 <= i < n for i, n in zip(key[1:], self.counts, strict=True))
        )

    def __iter__(self) -> Iterator[Any]:
        return ((self.name, *index) for index in product(*map(range, self.counts)))

    def __len__(self) -> int:
        return prod(self.counts)

    def cull(
        self,
        keys: AbstractSet[Any],
        all_hlg_keys: Collection[Any],  # noqa: ARG002 - as of all layers
    ) -> tuple[StoredLayer, dict[Any, set[Any]]]:
        """Return the layer itself: to do everything is as much work as to do some of it."""
        return self, {key: {self.plan} for key in self if key in keys}
