"""Blocks whose bytes lie in a file as their layout says: regions are moved run by run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64

from dask_io.stores.files import ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dask_io.geometry import Layout, Region
    from dask_io.stores.medium import Reader, Writer
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
    strides = [stride * dtype.itemsize for stride in layout.strides(shape)]
    return np.ndarray(shape, dtype, raw, strides=strides)


def view_as_bytes(array: NDArray[Any], layout: Layout) -> memoryview:
    """Look at an array that lies in a layout's order as bytes."""
    stored = array.transpose(layout.axes)
    assert stored.flags.c_contiguous, "the array does not lie in the target's layout"
    return memoryview(stored.reshape(-1).view(np.uint8).data)


def staged(staging: memoryview, dtype: np.dtype[Any]) -> int:
    """Return how many elements go through a staging buffer at once, whatever their alignment."""
    return max(1, (len(staging) - 2 * ALIGNMENT) // dtype.itemsize)


def checksum_of(
    read_into: Callable[[Region, memoryview], NDArray[Any]],
    region: Region,
    staging: memoryview,
    dtype: np.dtype[Any],
    layout: Layout,
) -> int:
    """Read a region through a staging buffer, and return the checksum of its bytes."""
    found = xxh3_64()
    for slab in layout.slabs(region, staged(staging, dtype)):
        found.update(view_as_bytes(read_into(slab, staging), layout))
    return found.intdigest()


@dataclass(frozen=True, slots=True)
class AddressableReader:
    """One visit to a block whose runs can be read one by one."""

    file: Reader
    extent: Extent
    dtype: np.dtype[Any]
    layout: Layout

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Read a region's runs one after another; a single run may go past the page cache."""
        n_bytes = region.size * self.dtype.itemsize
        if self._is_one_run(region):
            ((offset, _),) = self._runs(region)
            return self.view(self.file.read(offset, n_bytes, buffer), region)
        raw = buffer[:n_bytes]
        self.file.read_runs(self._runs(region), raw)
        return self.view(raw, region)

    def expect(self, region: Region) -> None:
        """Be told what will be read part by part: if it is one run, it can be asked for at once."""
        if self._is_one_run(region):
            ((offset, n_bytes),) = self._runs(region)
            self.file.expect(offset, offset + n_bytes)

    def is_first_run(self, region: Region) -> bool:
        """Tell whether a region is one run with which the block begins."""
        return self._is_one_run(region) and not any(region.start)

    def _is_one_run(self, region: Region) -> bool:
        return self.layout.run_length(region, self.extent.shape) == region.size > 0

    def _runs(self, region: Region) -> Iterator[tuple[int, int]]:
        """Yield offset and bytes of every run."""
        itemsize = self.dtype.itemsize
        for start, length in self.layout.runs(region, self.extent.shape):
            yield self.extent.offset + start * itemsize, length * itemsize

    def view(self, raw: memoryview, region: Region) -> NDArray[Any]:
        """Look at a region's bytes as an array."""
        return view_as_array(raw, region.shape, self.dtype, self.layout)

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of a region's bytes, in storage order."""
        self.expect(region)
        return checksum_of(self.read_into, region, staging, self.dtype, self.layout)


@dataclass(frozen=True, slots=True)
class AddressableWriter:
    """One visit to a block whose runs can be written one by one."""

    file: Writer
    extent: Extent
    dtype: np.dtype[Any]
    layout: Layout

    @property
    def checksum(self) -> int:
        """Checksum of what this visit has written, in storage order."""
        return self.file.checksum

    def write_from(self, region: Region, array: NDArray[Any]) -> None:
        """Write a region's runs one after another."""
        raw, taken = view_as_bytes(array, self.layout), 0
        for start, length in self.layout.runs(region, self.extent.shape):
            n_bytes = length * self.dtype.itemsize
            self.file.write(self._offset(start), raw[taken : taken + n_bytes])
            taken += n_bytes

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Write a region that is put together piece by piece in a staging buffer.

        `fill` is called with one part of the region after another, in storage order, and an array
        to fill with it. If the region is one run, what has been filled is written in
        multiples of `ALIGNMENT`, so that it can go past the page cache.
        """
        runs = list(islice(self.layout.runs(region, self.extent.shape), 2))
        if len(runs) == 1:
            self._write_run(region, self._offset(runs[0][0]), staging, fill)
            return
        for slab in self.layout.slabs(region, staged(staging, self.dtype)):
            values = self._view(staging, slab)
            fill(slab, values)
            self.write_from(slab, values)

    def _write_run(
        self,
        region: Region,
        offset: int,
        staging: memoryview,
        fill: Callable[[Region, NDArray[Any]], None],
    ) -> None:
        """Write one run as a stream through the buffer."""
        # What is to be written lies in memory as it will lie in the file.
        begin = end = offset % ALIGNMENT
        # Slabs are at most half of the buffer, so that the other half can be full.
        for slab in self.layout.slabs(region, max(1, staged(staging, self.dtype) // 2)):
            n_bytes = slab.size * self.dtype.itemsize
            if end + n_bytes > len(staging):
                whole = end // ALIGNMENT * ALIGNMENT
                self.file.write(offset, staging[begin:whole])
                offset += whole - begin
                staging[: end - whole] = staging[whole:end]
                begin, end = 0, end - whole
            fill(slab, self._view(staging[end:], slab))
            end += n_bytes
        self.file.write(offset, staging[begin:end])

    def _view(self, buffer: memoryview, region: Region) -> NDArray[Any]:
        raw = buffer[: region.size * self.dtype.itemsize]
        return view_as_array(raw, region.shape, self.dtype, self.layout)

    def _offset(self, start: int) -> int:
        return self.extent.offset + start * self.dtype.itemsize
