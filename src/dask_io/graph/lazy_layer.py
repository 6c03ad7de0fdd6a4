"""Layers of a graph whose tasks are created on demand."""

from __future__ import annotations

from abc import abstractmethod
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from dask.highlevelgraph import Layer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from collections.abc import Set as AbstractSet

    from dask._task_spec import GraphNode


class LazyLayer(Layer):
    """A layer with a task for every block of a grid; its size does not depend on their number."""

    def __init__(self, name: str, counts: tuple[int, ...]) -> None:
        super().__init__()
        self.name, self.counts = name, counts

    @abstractmethod
    def dependency_of(self, index: tuple[int, ...]) -> Any:
        """Return the key that a block's task depends on."""

    @abstractmethod
    def task_of(self, index: tuple[int, ...]) -> GraphNode:
        """Return a block's task."""

    def is_materialized(self) -> bool:
        """Whether the layer holds a dictionary of tasks: never."""
        return False

    def get_output_keys(self) -> AbstractSet[Any]:
        """Return all keys."""
        return set(self)

    def __getitem__(self, key: Any) -> GraphNode:
        if key not in self:
            raise KeyError(key)
        return self.task_of(key[1:])

    def __contains__(self, key: object) -> bool:
        return (
            isinstance(key, tuple)
            and len(key) == len(self.counts) + 1
            and key[0] == self.name
            and all(0 <= i < n for i, n in zip(key[1:], self.counts, strict=True))
        )

    def __iter__(self) -> Iterator[Any]:
        return ((self.name, *index) for index in product(*map(range, self.counts)))

    def __len__(self) -> int:
        return prod(self.counts)

    def cull(
        self,
        keys: AbstractSet[Any],
        all_hlg_keys: Collection[Any],  # noqa: ARG002 - part of Dask's interface
    ) -> tuple[LazyLayer, dict[Any, set[Any]]]:
        """Return the dependencies of some keys; the layer itself stays as it is."""
        return self, {key: {self.dependency_of(key[1:])} for key in keys if key in self}
