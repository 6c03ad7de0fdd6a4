"""Copy arrays within memory."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.geometry import Layout

# NumPy holds the interpreter lock while it copies few items, so items are short.
_LONGEST_ITEM = 1024
# Elements of a tile: along the target's fastest axis, at least along the source's fastest axis, and
# in total. A tile fits in the cache, but is large enough for a call.
_TILE, _TILE_SIZE = (16, 64), 2**14


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
    n_along, n_across = _TILE
    if min(target.shape[along], target.shape[across]) < n_along:
        target[...] = source
        return
    between = target.size // (target.shape[along] * target.shape[across])
    n_across = max(n_across, _TILE_SIZE // (n_along * between))
    tile = [slice(None)] * target.ndim
    for low in range(0, target.shape[along], n_along):
        tile[along] = slice(low, low + n_along)
        for first in range(0, target.shape[across], n_across):
            tile[across] = slice(first, first + n_across)
            target[tuple(tile)] = source[tuple(tile)]


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
