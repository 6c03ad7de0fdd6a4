"""Blocks that are not stored because every element of them is the fill value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.stores.addressable import view_as_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.geometry import Layout, Region

# Few enough for the processor's cache, and to give up early.
_AT_ONCE = 2**16


@dataclass(frozen=True, slots=True)
class FilledReader:
    """What stands for a visit to a block that is not stored: nothing is read."""

    fill: NDArray[Any]
    layout: Layout

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Fill a region."""
        raw = buffer[: region.size * self.fill.dtype.itemsize]
        values = view_as_array(raw, region.shape, self.fill.dtype, self.layout)
        values[...] = self.fill
        return values


def holds_only(raw: NDArray[np.uint8], fill: NDArray[Any]) -> bool:
    """Tell whether bytes are those of one element, again and again.

    Examples
    --------
    >>> nan = np.array(np.nan)
    >>> holds_only(np.full(3, nan).view(np.uint8), nan)
    True
    >>> holds_only(np.array([0.0, -0.0]).view(np.uint8), np.array(0.0))
    False
    """
    itemsize = fill.dtype.itemsize
    pattern = np.frombuffer(fill.tobytes() * max(1, _AT_ONCE // itemsize), np.uint8)
    parts = range(0, raw.nbytes, pattern.nbytes)
    return all(
        np.array_equal(part, pattern[: part.nbytes])
        for part in (raw[start : start + pattern.nbytes] for start in parts)
    )
