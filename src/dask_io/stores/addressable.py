"""Blocks whose bytes lie in a file as their layout says: regions are moved run by run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.geometry import Layout, Region
    from dask_io.stores.files import FileReader, FileWriter
    from dask_io.stores.store import Extent


def view_as_array(
    raw: memoryview, shape: tuple[int, ...], dtype: np.dtype[Any], layout: Layout
) -> NDArray[Any]:
    """Look at bytes that lie in a layout's order as an array of a shape.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> view_as_array(memoryview(b"abcdef"), (2, 3), np.dtype("S1"), Layout.f(2)).tolist()
    [[b'a', b'c', b'e'], [b'b', b'd', b'f']]
    """
    stored = np.frombuffer(raw, dtype).reshape([shape[axis] for axis in layout.axes])
    return stored.transpose(layout.inverse)


def view_as_bytes(array: NDArray[Any], layout: Layout) -> memoryview:
    """Look at an array that lies in a layout's order as bytes."""
    stored = array.transpose(layout.axes)
    assert stored.flags.c_contiguous, "the array does not lie in the target's layout"
    return memoryview(stored.reshape(-1).view(np.uint8).data)


@dataclass(frozen=True, slots=True)
class AddressableReader:
    """One visit to a block whose runs can be read one by one."""

    file: FileReader
    extent: Extent
    dtype: np.dtype[Any]
    layout: Layout

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Read a region's runs one after another; a single run may go past the page cache."""
        itemsize, n_bytes = self.dtype.itemsize, region.size * self.dtype.itemsize
        raw, filled = buffer[:n_bytes], 0
        for start, length in self.layout.runs(region, self.extent.shape):
            offset, n_run = self.extent.offset + start * itemsize, length * itemsize
            if n_run == n_bytes:
                raw = self.file.read(offset, n_bytes, buffer)
            else:
                self.file.read(offset, n_run, raw[filled : filled + n_run])
            filled += n_run
        return view_as_array(raw, region.shape, self.dtype, self.layout)


@dataclass(frozen=True, slots=True)
class AddressableWriter:
    """One visit to a block whose runs can be written one by one."""

    file: FileWriter
    extent: Extent
    layout: Layout

    def write_from(self, region: Region, array: NDArray[Any]) -> None:
        """Write a region's runs one after another."""
        raw, itemsize, taken = view_as_bytes(array, self.layout), array.dtype.itemsize, 0
        for start, length in self.layout.runs(region, self.extent.shape):
            n_bytes = length * itemsize
            self.file.write(self.extent.offset + start * itemsize, raw[taken : taken + n_bytes])
            taken += n_bytes
