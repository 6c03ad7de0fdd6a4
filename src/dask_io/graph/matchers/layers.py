"""What a layer of a `HighLevelGraph` does, as far as it matters here."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef
from dask.array.chunk import getitem
from dask.array.core import (
    concatenate_shaped,
    getter,
    getter_inline,
    getter_nofancy,
    load_store_chunk,
)
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
_REGROUPING = (concatenate_shaped, getitem)


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
    lock: Any
    layers: tuple[str, ...]


def is_store(layer: Layer) -> bool:
    """Whether a layer stores blocks in something."""
    return isinstance(layer, Blockwise) and layer.task.func is load_store_chunk


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
    match layer.indices:
        case [(str(stored), along), (target, None), (str(slices), also)] if (
            along == also == tuple(layer.output_indices)
        ):
            chunks = _chunks_of(layer, slices)
        case _:
            raise DeclinedError("it is not stored block by block")
    if isinstance(target, (GraphNode, TaskRef)):
        raise DeclinedError("where it is stored is known only when the graph runs")
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
        raise DeclinedError(f"{_kind(name)} is not something that is carried along")
    if layer.task.func not in _GETTERS:
        raise DeclinedError(f"{_kind(name)} reads with a function of its own")
    refuse_annotations(layer)
    match layer.indices:
        case [(thing, None), (str(slices), along)] if along == tuple(layer.output_indices):
            chunks = _chunks_of(layer, slices)
        case _:
            raise DeclinedError(f"{_kind(name)} is not read block by block")
    kwargs = layer.task.kwargs
    if not kwargs.get("asarray", True) or kwargs.keys() - {"asarray", "lock"}:
        raise DeclinedError(f"{_kind(name)} is not to become NumPy arrays (asarray)")
    layers: tuple[str, ...] = (name,)
    if isinstance(thing, TaskRef):
        layers, thing = (str(thing.key), name), _constant(graph, thing)
    if set(graph.dependencies[name]) - set(layers):
        raise DeclinedError(f"{_kind(name)} waits for something else")
    return Read(thing, chunks, kwargs.get("lock"), layers)


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


def is_rechunk(name: str, layer: Layer) -> bool:
    """Whether a layer only cuts blocks and puts them together again."""
    if type(layer).__name__ == "P2PRechunkLayer" and type(layer).__module__.startswith(
        "distributed."
    ):
        return True
    if not name.startswith("rechunk-merge-") or not isinstance(layer, MaterializedLayer):
        return False
    return all(
        isinstance(task, Alias) or (isinstance(task, Task) and task.func in _REGROUPING)
        for task in layer.mapping.values()
    )


def is_work(layer: Layer) -> bool:
    """Whether a layer applies a function to blocks, one by one."""
    return (
        isinstance(layer, Blockwise)
        and not layer.io_deps
        and not layer.new_axes
        and layer.task.func is not load_store_chunk
        and layer.task.func not in _GETTERS
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
                raise DeclinedError(f"{_kind(name)} needs something that the graph computes")
            constants[token] = argument
        elif tuple(along) == tuple(layer.output_indices):
            inputs[token] = numbers[argument]
        else:
            raise DeclinedError(f"{_kind(name)} needs other blocks than the one it makes")
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


def _kind(name: str) -> str:
    """Return the name of a layer without its token."""
    return name.rpartition("-")[0] or name
