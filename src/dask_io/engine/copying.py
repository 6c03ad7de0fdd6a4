"""Copies within memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.geometry import Layout

# NumPy holds its lock while it copies few items, so items are short.
_LONGEST_ITEM = 1024


def copy(source: NDArray[Any], target: NDArray[Any], layout: Layout) -> None:
    """Copy an array to one of the same shape and type that lies in a layout's order.

    Short rows that lie next to each other on both sides are copied as one item each: that saves
    NumPy a call for every row.
    """
    row = target.shape[layout.axes[-1]] * target.itemsize
    if row <= _LONGEST_ITEM:
        a, b = source.transpose(layout.axes), target.transpose(layout.axes)
        if a.strides[-1] == b.strides[-1] == target.itemsize:
            items = np.dtype((np.void, row))
            source, target = a.view(items), b.view(items)
    target[...] = source
