"""Recognize layers that rechunk an array."""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any

from dask._task_spec import Alias, Task
from dask.array.chunk import getitem
from dask.array.core import concatenate_shaped
from dask.highlevelgraph import MaterializedLayer

from dask_io.graph.match import DeclinedError
from dask_io.graph.matchers.layers import grid_of, refuse_annotations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dask.highlevelgraph import HighLevelGraph, Layer

    from dask_io.geometry import Axis, Grid


def is_rechunk(name: str, layer: Layer) -> bool:
    """Whether a layer only rechunks."""
    if _is_p2p(layer):
        return True
    if not name.startswith("rechunk-merge-") or not isinstance(layer, MaterializedLayer):
        return False
    return all(
        isinstance(task, Alias)
        or (isinstance(task, Task) and task.func in (concatenate_shaped, getitem))
        for task in layer.mapping.values()
    )


def _is_p2p(layer: Layer) -> bool:
    # Compared by name, so that distributed is not imported.
    kind = type(layer)
    return kind.__name__ == "P2PRechunkLayer" and kind.__module__.startswith("distributed.")


def find_rechunks(graph: HighLevelGraph, top: str) -> tuple[tuple[str, ...], str]:
    """Return a chain of layers that rechunk, the first one first, and the layer it starts from.

    Raises
    ------
    DeclinedError
        If one of them is annotated or depends on other layers.
    """
    names: list[str] = []
    while is_rechunk(top, layer := graph.layers[top]):
        refuse_annotations(layer)
        names.insert(0, top)
        if len(graph.dependencies[top]) != 1:
            raise DeclinedError("a rechunk also depends on another layer")
        (top,) = graph.dependencies[top]
    return tuple(names), top


def rechunk(graph: HighLevelGraph, names: Iterable[str], chunks: Grid) -> Grid:
    """Return the chunks that result from a chain of rechunks.

    Raises
    ------
    DeclinedError
        If the shape of the array changes.
    """
    shape = chunks.shape
    for name in names:
        layer: Any = graph.layers[name]
        if _is_p2p(layer):
            chunks = grid_of(layer.chunks)
        else:
            axes = range(len(chunks.axes))
            chunks = grid_of([_lengths(name, layer.mapping, chunks, axis) for axis in axes])
        if chunks.shape != shape:
            raise DeclinedError("a rechunk changes its shape")
    return chunks


def makes_views(graph: HighLevelGraph, names: Iterable[str], chunks: Grid) -> bool:
    """Whether rechunks return views of blocks instead of copies.

    A function that is given such a view, with gaps between its rows, may sum it in another order.
    """
    for name in names:
        before, chunks = chunks, rechunk(graph, [name], chunks)
        if not _is_p2p(graph.layers[name]) and has_views(before, chunks):
            return True
    return False


def has_views(before: Grid, after: Grid) -> bool:
    """Whether Dask cuts a new block out of an old one as a view: if it is more than half of it.

    Examples
    --------
    >>> from dask_io.geometry import Grid
    >>> old = Grid.regular((8, 8), (8, 8))
    >>> [has_views(old, Grid.regular((8, 8), new)) for new in ((8, 5), (8, 4), (5, 8), (4, 5))]
    [True, False, False, False]
    """
    shares = [[*_shares(old, new)] for old, new in zip(before.axes, after.axes, strict=True)]
    largest = [max(each, default=Fraction(0)) for each in shares]
    # A view that is cut along the slowest axis only has no gaps.
    return any(
        2 * part * prod(largest[:axis]) * prod(largest[axis + 1 :]) > 1
        for axis in range(1, len(shares))
        for part in shares[axis]
        if part < 1
    )


def _shares(old: Axis, new: Axis) -> Iterator[Fraction]:
    """Yield, for every new block that lies within an old one, its share of the old one."""
    for number in range(new.n_blocks):
        low, high = new.start_of(number), new.start_of(number + 1)
        outer = old.index_at(low)
        start, stop = old.start_of(outer), old.start_of(outer + 1)
        if high <= stop:
            yield Fraction(high - low, stop - start)


def _lengths(name: str, tasks: Mapping[Any, Any], chunks: Grid, axis: int) -> list[int]:
    """Return the lengths of new blocks along an axis, found from the tasks that assemble them."""
    lengths: list[int] = []
    n_axes = len(chunks.axes)
    for number in count():
        key = (name, *(number if other == axis else 0 for other in range(n_axes)))
        if key not in tasks:
            return lengths
        pieces = _pieces(tasks[key], axis)
        lengths.append(sum(_length(piece, tasks, chunks, axis) for piece in pieces))
    raise AssertionError("unreachable: a graph has finitely many blocks")


def _pieces(task: Any, axis: int) -> list[Any]:
    """Return the keys of the pieces along one edge of a block."""
    if isinstance(task, Alias):
        return [task.target]
    pieces, counts = task.args
    # They are listed with the last axis fastest.
    step = 1
    for n in counts[axis + 1 :]:
        step *= n
    return [pieces.args[step * place].key for place in range(counts[axis])]


def _length(key: Any, tasks: Mapping[Any, Any], chunks: Grid, axis: int) -> int:
    """Return the length of a piece, which is an old block or a part of one."""
    if key in tasks:
        part = tasks[key].args[1][axis]
        return int(part.stop - part.start)
    along, number = chunks.axes[axis], key[axis + 1]
    return along.start_of(number + 1) - along.start_of(number)
