"""Copy arrays within memory."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.geometry import Layout

# NumPy holds the interpreter lock while it copies few items, so items are short.
_LONGEST_ITEM = 1024
# Copies between orders are done in tiles. A cache line of the source serves 64 bytes' worth of rows
# of the target, so that it must stay in the cache longer the shorter the elements are: a row of a
# tile has this many elements for each byte of an element. Tiles are thin along the other axes, but
# large enough to be worth a call of NumPy. `python -m benchmarks.copies` measures the choice.
_ROW_PER_BYTE, _THICKNESS, _TILE_SIZE = 32, 8, 2**14
# Arrays that are shorter than this along either fastest axis gain nothing from tiles.
_SHORTEST = 16


def copy(source: NDArray[Any], target: NDArray[Any], layout: Layout) -> None:
    """Copy an array to another of the same shape, in a layout's order, and convert the dtype.

    Short rows that are contiguous on both sides are copied as one item each, which saves NumPy a
    call for every row. If the order differs, the copy is done in tiles.
    """
    if source.dtype != target.dtype:
        _convert(source, target)
        return
    fastest, itemsize = layout.axes[-1], target.itemsize
    row = target.shape[fastest] * itemsize
    if row <= _LONGEST_ITEM and source.strides[fastest] == target.strides[fastest] == itemsize:
        if fastest != target.ndim - 1:
            source, target = source.transpose(layout.axes), target.transpose(layout.axes)
        items = _item_of(row)
        source, target = source.view(items), target.view(items)
    elif (along := _fastest(target)) != (across := _fastest(source)):
        _copy_across(source, target, along, across)
        return
    target[...] = source


def _fastest(array: NDArray[Any]) -> int:
    """Return the axis with the smallest stride."""
    return min(range(array.ndim), key=lambda axis: (array.shape[axis] == 1, array.strides[axis]))


def _copy_across(source: NDArray[Any], target: NDArray[Any], along: int, across: int) -> None:
    """Copy between arrays with different fastest axes: `along` of the target, `across` of source.

    The copy is done in tiles, so that the data of a tile stays in the processor's cache.
    """
    shape = target.shape
    if min(shape[along], shape[across]) < _SHORTEST:
        target[...] = source
        return
    steps = list(shape)
    steps[along] = min(_ROW_PER_BYTE * min(target.itemsize, 8), shape[along])
    thickness = max(_THICKNESS, _TILE_SIZE // (steps[along] * steps[across]))
    between = (axis for axis in range(len(shape)) if axis not in {along, across})
    for axis in sorted(between, key=lambda axis: source.strides[axis]):
        steps[axis] = min(thickness, shape[axis])
        thickness = max(1, thickness // steps[axis])
    starts = (range(0, n, step) for n, step in zip(shape, steps, strict=True))
    for corner in product(*starts):
        tile = tuple(slice(low, low + step) for low, step in zip(corner, steps, strict=True))
        target[tile] = source[tile]


@lru_cache(maxsize=1024)
def _item_of(n_bytes: int) -> np.dtype[np.void]:
    return np.dtype((np.void, n_bytes))


def _convert(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy values to another dtype; whether this may lose information has been checked before."""
    if source.dtype.kind == "c" and target.dtype.kind != "c":
        # NumPy would warn, although the user asked for this.
        source = source.real
    with np.errstate(all="ignore"):
        np.copyto(target, source, casting="unsafe")
