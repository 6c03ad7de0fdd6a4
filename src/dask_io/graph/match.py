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
    chunks
        How Dask would read it.
    function
        What is done to each of these blocks then.
    lock
        What Dask would hold while reading, if anything.
    layers
        Names of the layers of the graph that do all that, the one that others need last.
    rechunked
        Names of the layers that then rechunk it, again the one that others need last.
    """

    source: Source
    chunks: Grid
    function: BlockFunction
    lock: Any
    layers: tuple[str, ...]
    rechunked: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the layer that others need."""
        return (*self.layers, *self.rechunked)[-1]


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
        Names of the layers between the reading and the storing, that one included.
    """

    name: str
    reading: Reading
    function: BlockFunction
    chunks: Grid
    target: Target
    lock: Any
    layers: tuple[str, ...]
