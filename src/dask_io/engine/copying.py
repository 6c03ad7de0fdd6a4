"""Copies within memory."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.geometry import Layout

# NumPy holds its lock while it copies few items, so items are short.
_LONGEST_ITEM = 1024


def copy(source: NDArray[Any], target: NDArray[Any], layout: Layout) -> None:
    """Copy an array to one of the same shape that lies in a layout's order, and to its type.

    Short rows of one type that lie next to each other on both sides are copied as one item each:
    that saves NumPy a call for every row.
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
    target[...] = source


@lru_cache(maxsize=1024)
def _item_of(n_bytes: int) -> np.dtype[np.void]:
    return np.dtype((np.void, n_bytes))


def _convert(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy values to another type; whether that may lose something has been decided before."""
    if source.dtype.kind == "c" and target.dtype.kind != "c":
        # What NumPy would warn of is what was asked for.
        source = source.real
    with np.errstate(all="ignore"):
        np.copyto(target, source, casting="unsafe")
