"""What a layer of a `HighLevelGraph` does, as far as it matters here."""

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
    """What a layer stores, and how."""

    stored: str
    target: Any
    chunks: Grid
    region: tuple[slice, ...] | None
    lock: Any


class Read(NamedTuple):
    """What a layer reads, and how; `layers` are those that it takes, the outer one last."""

    thing: Any
    chunks: Grid
    as_array: bool
    lock: Any
    layers: tuple[str, ...]


def is_store(layer: Layer) -> bool:
    """Whether a layer stores blocks in something."""
    return isinstance(layer, Blockwise) and layer.task.func is load_store_chunk


def is_read(layer: Layer) -> bool:
    """Whether a layer reads blocks from something."""
    return isinstance(layer, Blockwise) and layer.task.func in _GETTERS


def understand_store(layer: Any) -> Store:
    """Say what a layer stores.

    Raises
    ------
    DeclinedError
        If it does more than to store blocks.
    """
    refuse_annotations(layer)
    kwargs = layer.task.kwargs
    if kwargs.get("return_stored") or kwargs.get("load_stored"):
        raise DeclinedError("what is stored is asked for again (return_stored)")
    if any(isinstance(argument, (GraphNode, TaskRef)) for argument, _ in layer.indices):
        raise DeclinedError("where it is stored is known only when the graph runs")
    match layer.indices:
        case [(str(stored), along), (target, None), (str(slices), also)] if (
            along == also == tuple(layer.output_indices)
        ):
            chunks = _chunks_of(layer, slices)
        case _:
            raise DeclinedError("it is not stored block by block")
    return Store(stored, target, chunks, kwargs.get("region"), kwargs.get("lock"))


def understand_read(graph: HighLevelGraph, name: str) -> Read:
    """Say what a layer reads.

    Raises
    ------
    DeclinedError
        If it does anything else.
    """
    layer = graph.layers[name]
    if not isinstance(layer, Blockwise):
        raise DeclinedError(_why_not_read(name, layer))
    if not all(isinstance(told, ArraySliceDep) for told in layer.io_deps.values()):
        raise DeclinedError(f"{kind_of(name)} is told which block it is given")
    if layer.task.func not in _GETTERS:
        raise DeclinedError(f"{kind_of(name)} reads with a function of its own")
    refuse_annotations(layer)
    match layer.indices:
        case [(thing, None), (str(slices), along)] if along == tuple(layer.output_indices):
            chunks = _chunks_of(layer, slices)
        case _:
            raise DeclinedError(f"{kind_of(name)} is not read block by block")
    layers: tuple[str, ...] = (name,)
    if isinstance(thing, TaskRef):
        layers, thing = (str(thing.key), name), _constant(graph, thing)
    if set(graph.dependencies[name]) - set(layers):
        raise DeclinedError(f"{kind_of(name)} waits for something else")
    kwargs = layer.task.kwargs
    return Read(thing, chunks, kwargs.get("asarray", True), kwargs.get("lock"), layers)


def _why_not_read(name: str, layer: Layer) -> str:
    if isinstance(layer, MaterializedLayer):
        first = next(iter(layer.mapping.values()), None)
        if isinstance(getattr(first, "value", first), np.ndarray):
            return f"{kind_of(name)} is in memory"
    return f"{kind_of(name)} is not something that is carried along"


def _constant(graph: HighLevelGraph, reference: TaskRef) -> Any:
    """Return what a layer with nothing but one object holds."""
    layer = graph.layers.get(str(reference.key))
    if not isinstance(layer, MaterializedLayer) or len(layer.mapping) != 1:
        raise DeclinedError("what is read is known only when the graph runs")
    (thing,) = layer.mapping.values()
    if isinstance(thing, DataNode):
        return thing.value
    if isinstance(thing, (GraphNode, tuple)):
        raise DeclinedError("what is read is known only when the graph runs")
    return thing


def is_work(layer: Layer) -> bool:
    """Whether a layer applies a function to blocks, one by one."""
    return (
        isinstance(layer, Blockwise)
        and not layer.io_deps
        and not layer.new_axes
        and not is_store(layer)
        and not is_read(layer)
    )


def understand_work(name: str, layer: Any, numbers: Mapping[str, int]) -> Call:
    """Return the function of a layer; `numbers` says which call each of its inputs is.

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
                raise DeclinedError(f"{kind_of(name)} needs something that the graph computes")
            constants[token] = argument
        elif tuple(along) == tuple(layer.output_indices):
            inputs[token] = numbers[argument]
        else:
            raise DeclinedError(f"{kind_of(name)} needs other blocks than the one it makes")
    needed = layer.task.dependencies
    return Call(
        layer.task,
        {token: number for token, number in inputs.items() if token in needed},
        {token: value for token, value in constants.items() if token in needed},
    )


def refuse_annotations(layer: Layer) -> None:
    """Refuse what is to run in a certain place or way.

    Raises
    ------
    DeclinedError
        If a layer is annotated.
    """
    if layer.annotations:
        raise DeclinedError(f"layers are annotated ({', '.join(sorted(layer.annotations))})")


def grid_of(chunks: Sequence[Sequence[float]]) -> Grid:
    """Return chunks as Dask writes them as a grid.

    Raises
    ------
    DeclinedError
        If they are not known, or there is nothing in them.
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
