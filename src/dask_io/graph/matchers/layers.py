"""Recognize layers of a `HighLevelGraph` that read, store or map functions over blocks."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from dask._task_spec import DataNode, GraphNode, TaskRef
from dask.array.core import getter, getter_inline, getter_nofancy, load_store_chunk
from dask.blockwise import Blockwise, blockwise_token
from dask.highlevelgraph import MaterializedLayer
from dask.layers import ArraySliceDep

from dask_io.geometry import Axis, Grid
from dask_io.graph.functions import Call
from dask_io.graph.match import DeclinedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask.highlevelgraph import HighLevelGraph, Layer

_GETTERS = (getter, getter_nofancy, getter_inline)


class Store(NamedTuple):
    """A layer that stores blocks; `stored` is the name of the layer whose blocks it stores."""

    stored: str
    target: Any
    chunks: Grid
    region: tuple[slice, ...] | None
    lock: Any


class Read(NamedTuple):
    """A layer that reads blocks; `layers` includes the one that holds the array, if separate."""

    array: Any
    chunks: Grid
    as_array: bool
    lock: Any
    layers: tuple[str, ...]


def is_store(layer: Layer) -> bool:
    """Whether a layer stores blocks."""
    return isinstance(layer, Blockwise) and layer.task.func is load_store_chunk


def is_read(layer: Layer) -> bool:
    """Whether a layer reads blocks."""
    return isinstance(layer, Blockwise) and layer.task.func in _GETTERS


def parse_store(layer: Any) -> Store:
    """Parse a layer that stores blocks.

    Raises
    ------
    DeclinedError
        If it does more than store blocks.
    """
    refuse_annotations(layer)
    kwargs = layer.task.kwargs
    if kwargs.get("return_stored") or kwargs.get("load_stored"):
        raise DeclinedError("the stored array is loaded again (return_stored)")
    if any(isinstance(argument, (GraphNode, TaskRef)) for argument, _ in layer.indices):
        raise DeclinedError("the target is known only when the graph runs")
    match layer.indices:
        case [(str(stored), along), (target, None), (str(slices), also)] if (
            along == also == tuple(layer.output_indices)
        ):
            chunks = _chunks_of(layer, slices)
        case _:
            raise DeclinedError("it is not stored block by block")
    return Store(stored, target, chunks, kwargs.get("region"), kwargs.get("lock"))


def parse_read(graph: HighLevelGraph, name: str) -> Read:
    """Parse a layer that reads blocks.

    Raises
    ------
    DeclinedError
        If it does more than read blocks.
    """
    layer = graph.layers[name]
    if not isinstance(layer, Blockwise):
        raise DeclinedError(_why_not_read(name, layer))
    if not all(isinstance(dep, ArraySliceDep) for dep in layer.io_deps.values()):
        raise DeclinedError(f"{kind_of(name)} depends on the position of the block")
    if layer.task.func not in _GETTERS:
        raise DeclinedError(f"{kind_of(name)} reads with a custom function")
    refuse_annotations(layer)
    match layer.indices:
        case [(array, None), (str(slices), along)] if along == tuple(layer.output_indices):
            chunks = _chunks_of(layer, slices)
        case _:
            raise DeclinedError(f"{kind_of(name)} is not read block by block")
    layers: tuple[str, ...] = (name,)
    if isinstance(array, TaskRef):
        layers, array = (str(array.key), name), _constant(graph, array)
    if set(graph.dependencies[name]) - set(layers):
        raise DeclinedError(f"{kind_of(name)} also depends on another layer")
    kwargs = layer.task.kwargs
    return Read(array, chunks, kwargs.get("asarray", True), kwargs.get("lock"), layers)


def _why_not_read(name: str, layer: Layer) -> str:
    if isinstance(layer, MaterializedLayer):
        first = next(iter(layer.mapping.values()), None)
        if isinstance(getattr(first, "value", first), np.ndarray):
            return f"{kind_of(name)} is in memory"
    return f"{kind_of(name)} is neither a read, a rechunk nor a function of single blocks"


def _constant(graph: HighLevelGraph, reference: TaskRef) -> Any:
    """Return the object of a layer that consists of one object."""
    layer = graph.layers.get(str(reference.key))
    if not isinstance(layer, MaterializedLayer) or len(layer.mapping) != 1:
        raise DeclinedError("the source is known only when the graph runs")
    (array,) = layer.mapping.values()
    if isinstance(array, DataNode):
        return array.value
    if isinstance(array, (GraphNode, tuple)):
        raise DeclinedError("the source is known only when the graph runs")
    return array


def is_map(layer: Layer) -> bool:
    """Whether a layer applies a function to each block."""
    return (
        isinstance(layer, Blockwise)
        and not layer.io_deps
        and not layer.new_axes
        and not is_store(layer)
        and not is_read(layer)
    )


def parse_map(name: str, layer: Any, numbers: Mapping[str, int]) -> Call:
    """Return the function of a layer; `numbers` maps each of its inputs to a call.

    Raises
    ------
    DeclinedError
        If it needs more than one block of each input.
    """
    refuse_annotations(layer)
    inputs: dict[str, int] = {}
    constants: dict[str, Any] = {}
    for place, (argument, along) in enumerate(layer.indices):
        token = blockwise_token(place)  # type: ignore[no-untyped-call]
        if along is None:
            if isinstance(argument, (GraphNode, TaskRef)):
                raise DeclinedError(f"{kind_of(name)} has an argument that the graph computes")
            constants[token] = argument
        elif tuple(along) == tuple(layer.output_indices):
            inputs[token] = numbers[argument]
        else:
            raise DeclinedError(f"{kind_of(name)} needs other blocks than the one it computes")
    needed = layer.task.dependencies
    return Call(
        layer.task,
        {token: number for token, number in inputs.items() if token in needed},
        {token: value for token, value in constants.items() if token in needed},
    )


def refuse_annotations(layer: Layer) -> None:
    """Refuse annotated layers, because a plan would ignore the annotations.

    Raises
    ------
    DeclinedError
        If a layer is annotated.
    """
    if layer.annotations:
        raise DeclinedError(f"layers are annotated ({', '.join(sorted(layer.annotations))})")


def grid_of(chunks: Sequence[Sequence[float]]) -> Grid:
    """Convert Dask's chunks to a grid.

    Raises
    ------
    DeclinedError
        If chunks are unknown or empty.
    """
    if any(isnan(length) for lengths in chunks for length in lengths):
        raise DeclinedError("its chunks are not known before it is computed")
    if any(not length for lengths in chunks for length in lengths):
        raise DeclinedError("some of its chunks are empty")
    return Grid(tuple(Axis.of(int(length) for length in lengths) for lengths in chunks))


def _chunks_of(layer: Any, slices: str) -> Grid:
    found = layer.io_deps.get(slices)
    if not isinstance(found, ArraySliceDep):
        raise DeclinedError("its blocks are not slices of an array")
    return grid_of(found.chunks)


def kind_of(name: str) -> str:
    """Return the name of a layer without its token."""
    return name.rpartition("-")[0] or name
