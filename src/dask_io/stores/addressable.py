"""Blocks stored uncompressed in the order of their layout; regions are moved run by run."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from xxhash import xxh3_64

from dask_io.storage.local.transport import LARGE
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.staging import SLAB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from numpy.typing import NDArray

    from dask_io.geometry import Layout, Region
    from dask_io.geometry.layout import Stored
    from dask_io.storage.medium import Reader, Writer
    from dask_io.stores.store import Extent


def view_as_array(
    raw: memoryview, shape: tuple[int, ...], dtype: np.dtype[Any], layout: Layout
) -> NDArray[Any]:
    """Return a view of bytes in a layout's order as an array with this shape.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> view_as_array(memoryview(b"abcdef"), (2, 3), np.dtype("S1"), Layout.f(2)).tolist()
    [[b'a', b'c', b'e'], [b'b', b'd', b'f']]
    """
    return np.ndarray(shape, dtype, raw, strides=layout.byte_strides(shape, dtype.itemsize))


def view_as_bytes(array: NDArray[Any], layout: Layout) -> memoryview:
    """Return a view of an array in a layout's order as bytes."""
    stored = array.transpose(layout.axes)
    assert stored.flags.c_contiguous, "the array does not lie in the target's layout"
    return memoryview(stored.reshape(-1).view(np.uint8).data)


def staged(staging: memoryview, dtype: np.dtype[Any]) -> int:
    """Return how many elements fit through a staging buffer at once, for any alignment."""
    return max(1, (min(SLAB, len(staging)) - 2 * ALIGNMENT) // dtype.itemsize)


def slabs_to_check(
    region: Region, staging: memoryview, dtype: np.dtype[Any], layout: Layout
) -> Iterator[Region]:
    """Cut a region into parts of half a buffer; the other half is for bytes between elements."""
    return layout.slabs(region, max(1, staged(staging, dtype) // 2))


def checksum_of(
    read_into: Callable[[Region, memoryview], NDArray[Any]],
    region: Region,
    staging: memoryview,
    dtype: np.dtype[Any],
    layout: Layout,
) -> int:
    """Read a region through a staging buffer, and return the checksum of its bytes."""
    found = xxh3_64()
    for slab in slabs_to_check(region, staging, dtype, layout):
        found.update(view_as_bytes(read_into(slab, staging), layout))
    return found.intdigest()


@dataclass(slots=True)
class AddressableReader:
    """One visit to a block whose runs can be read one by one."""

    file: Reader
    extent: Extent
    dtype: np.dtype[Any]
    layout: Layout

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Read a region's runs one after another; a single run may go past the page cache."""
        stored, itemsize = self._stored(region), self.dtype.itemsize
        n_bytes = stored.size * itemsize
        if stored.is_one_run:
            raw = self.file.read(self.extent.offset + stored.first * itemsize, n_bytes, buffer)
        else:
            raw = buffer[:n_bytes]
            self.file.read_runs(self._runs(region), raw)
        return view_as_array(raw, stored.shape, self.dtype, self.layout)

    def read_first(self, region: Region, buffer: memoryview) -> memoryview:
        """Read the header together with a region, if the region is one run at the data's start.

        Nothing is counted. The result is shorter if the file is, and empty for other regions.
        """
        stored = self._stored(region)
        if stored.first or not stored.is_one_run:
            return buffer[:0]
        n_bytes = self.extent.offset + stored.size * self.dtype.itemsize
        is_whole = stored.size == prod(self.extent.shape)
        return self.file.peek_into(buffer, n_bytes, to_end=is_whole)

    def expect(self, region: Region, *, from_start: bool = False) -> None:
        """Announce a region that will be read in parts; if it is one run, request it at once.

        If wanted, the header is requested too, provided that the run begins directly after it.
        """
        stored, itemsize = self._stored(region), self.dtype.itemsize
        if stored.is_one_run:
            offset = self.extent.offset + stored.first * itemsize
            start = 0 if from_start and not stored.first else offset
            self.file.expect(start, offset + stored.size * itemsize)

    def _stored(self, region: Region) -> Stored:
        return self.layout.stored(region, self.extent.shape)

    def _runs(self, region: Region) -> Iterator[tuple[int, int]]:
        """Yield offset and bytes of every run."""
        itemsize = self.dtype.itemsize
        for start, length in self.layout.runs(region, self.extent.shape):
            yield self.extent.offset + start * itemsize, length * itemsize

    def view(self, raw: memoryview, region: Region) -> NDArray[Any]:
        """Return a view of a region's bytes as an array."""
        return view_as_array(raw, region.shape, self.dtype, self.layout)

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of a region's bytes, in storage order."""
        self.expect(region)
        return checksum_of(self.read_into, region, staging, self.dtype, self.layout)


def at_once(buffer: memoryview) -> int:
    """Return how many bytes fit through a buffer at once, for any alignment."""
    n_bytes = min(SLAB, len(buffer))
    return n_bytes - 2 * ALIGNMENT if len(buffer) >= LARGE else n_bytes


class Stream:
    """Consecutive bytes that are collected in a buffer, and written when it is full.

    In a large buffer they are aligned as in the file, and are written in multiples of `ALIGNMENT`,
    so that they can bypass the page cache. At most `most` bytes, half of the buffer, are taken at
    once, so there is room even if the other half is full.
    """

    def __init__(self, file: Writer, offset: int, buffer: memoryview) -> None:
        self.most = at_once(buffer) // 2
        self._file, self._offset, self._buffer = file, offset, buffer
        self._unit = ALIGNMENT if len(buffer) >= LARGE else 1
        self._begin = self._end = offset % self._unit

    def take(self, n_bytes: int) -> memoryview:
        """Return the buffer for the next bytes."""
        if self._end + n_bytes > len(self._buffer):
            whole = self._end // self._unit * self._unit
            rest = self._end - whole
            self._write(whole)
            self._buffer[:rest] = self._buffer[whole : self._end]
            self._begin, self._end = 0, rest
        start, self._end = self._end, self._end + n_bytes
        return self._buffer[start : self._end]

    def end(self) -> None:
        """Write the remaining bytes."""
        self._write(self._end)

    def _write(self, end: int) -> None:
        self._file.write(self._offset, self._buffer[self._begin : end])
        self._offset += end - self._begin


@dataclass(slots=True)
class AddressableWriter:
    """One visit to a block whose runs can be written one by one; it closes its file at the end."""

    file: Writer
    extent: Extent
    dtype: np.dtype[Any]
    layout: Layout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.file.__exit__(kind, error, trace)

    @property
    def checksum(self) -> int:
        """Checksum of everything that this visit has written, in storage order."""
        return self.file.checksum

    def go_on_at(self, region: Region) -> None:
        """Continue the visit that has written everything before a region."""
        first, _ = next(self.layout.runs(region, self.extent.shape))
        self.file.go_on_from(self._offset(first))

    def write_from(
        self,
        region: Region,
        array: NDArray[Any],
        staging: memoryview,  # noqa: ARG002 - they are written from where they lie
    ) -> None:
        """Write a region's runs one after another."""
        raw, taken = view_as_bytes(array, self.layout), 0
        for start, length in self.layout.runs(region, self.extent.shape):
            n_bytes = length * self.dtype.itemsize
            self.file.write(self._offset(start), raw[taken : taken + n_bytes])
            taken += n_bytes

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Write a region that is assembled piece by piece in a staging buffer.

        `fill` is called with one part of the region after another, in storage order, and an array
        to fill with it. If the region is one run, it is written in multiples of `ALIGNMENT`, so
        that it can bypass the page cache.
        """
        stored = self.layout.stored(region, self.extent.shape)
        if stored.is_one_run:
            self._write_run(region, self._offset(stored.first), staging, fill)
            return
        for slab in self.layout.slabs(region, staged(staging, self.dtype)):
            values = self._view(staging, slab)
            fill(slab, values)
            self.write_from(slab, values, staging)

    def _write_run(
        self,
        region: Region,
        offset: int,
        staging: memoryview,
        fill: Callable[[Region, NDArray[Any]], None],
    ) -> None:
        """Write one run as a stream through the buffer."""
        stream = Stream(self.file, offset, staging)
        for slab in self.layout.slabs(region, max(1, stream.most // self.dtype.itemsize)):
            fill(slab, self._view(stream.take(slab.size * self.dtype.itemsize), slab))
        stream.end()

    def _view(self, buffer: memoryview, region: Region) -> NDArray[Any]:
        raw = buffer[: region.size * self.dtype.itemsize]
        return view_as_array(raw, region.shape, self.dtype, self.layout)

    def _offset(self, start: int) -> int:
        return self.extent.offset + start * self.dtype.itemsize
