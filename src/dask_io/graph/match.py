"""What the matchers find in a graph: arrays that are read and, possibly, stored again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dask_io.geometry import Grid
    from dask_io.graph.functions import BlockFunction
    from dask_io.stores.store import Source, Target


class DeclinedError(Exception):
    """A part of a graph cannot run by plan; the message is the reason."""


@dataclass(frozen=True)
class Reading:
    """An array that a graph reads from storage.

    It is read, rechunked, mapped and rechunked again. Every step but the first is optional.

    Attributes
    ----------
    source
        The stored array.
    read_chunks
        The chunks in which Dask would read it.
    mapped_chunks
        The chunks to which `function` is applied.
    function
        The function that is applied to each of them.
    chunks
        The resulting chunks.
    is_contiguous
        Whether all of Dask's chunks are C-contiguous in memory, as those of a plan are.
    lock
        The lock that Dask would hold while reading, if any.
    layers
        Names of the layers that do all this, the last one last.
    """

    source: Source
    read_chunks: Grid
    mapped_chunks: Grid
    function: BlockFunction
    chunks: Grid
    is_contiguous: bool
    lock: Any
    layers: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the last layer, on which others depend."""
        return self.layers[-1]

    @property
    def identity(self) -> tuple[object, ...]:
        """A value that is equal for two readings of the same data."""
        return self.layers[0], *(call.task.key for call in self.function.calls)


@dataclass(frozen=True)
class Match:
    """An array that a graph reads from storage and stores again.

    Attributes
    ----------
    name
        Name of the layer that stores it.
    reading
        The array as it is read.
    function
        The function that is applied to each chunk before it is stored.
    chunks
        The chunks in which Dask would store it, one per key of the layer.
    target
        An existing array, or a region of one.
    lock
        The lock that Dask would hold while writing, if any.
    layers
        Names of the layers after the reading, including the one that stores.
    """

    name: str
    reading: Reading
    function: BlockFunction
    chunks: Grid
    target: Target
    lock: Any
    layers: tuple[str, ...]

    @property
    def replaced(self) -> frozenset[str]:
        """Names of all layers that a plan replaces."""
        return frozenset((*self.reading.layers, *self.layers))
