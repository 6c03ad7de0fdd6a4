"""What has been found in a graph: an array that is read, and where it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dask_io.geometry import Grid
    from dask_io.graph.functions import BlockFunction
    from dask_io.stores.store import Source, Target


class DeclinedError(Exception):
    """A part of a graph that stays as it is; the message says why."""


@dataclass(frozen=True)
class Reading:
    """An array that is read from storage in a graph.

    Attributes
    ----------
    source
        Where it is.
    read
        The blocks in which Dask would read it.
    worked
        The blocks that it is in, maybe after a rechunk, when `function` is applied to each.
    function
        What is done to each of them.
    chunks
        The blocks that it is in in the end, maybe after another rechunk.
    is_plain
        Whether all of Dask's blocks lie in memory in C order without gaps, as those of a plan do.
    lock
        What Dask would hold while reading, if anything.
    layers
        Names of the layers of the graph that do all that, the last one last.
    """

    source: Source
    read: Grid
    worked: Grid
    function: BlockFunction
    chunks: Grid
    is_plain: bool
    lock: Any
    layers: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the layer that others need."""
        return self.layers[-1]

    @property
    def identity(self) -> tuple[object, ...]:
        """What two readings have in common that are one."""
        return self.layers[0], *(call.task.key for call in self.function.calls)


@dataclass(frozen=True)
class Match:
    """A reading that is stored.

    Attributes
    ----------
    name
        Name of the layer that stores it.
    reading
        What is stored.
    function
        What is done to each block just before.
    chunks
        The blocks in which Dask would store it: the layer's keys.
    target
        Where it goes: all of an array that exists, or a region of one.
    lock
        What Dask would hold while writing, if anything.
    layers
        Names of the layers after the reading, the one that stores included.
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
        """Names of all layers that a plan does the work of."""
        return frozenset((*self.reading.layers, *self.layers))
