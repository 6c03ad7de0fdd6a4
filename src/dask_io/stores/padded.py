"""Edge blocks that are padded to the size of all other blocks.

A run of such a block is stored as one stretch that contains only the run's elements and padding.
The stretch is moved as a whole, padding included, so it costs one seek like any other run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from xxhash import xxh3_64

from dask_io.geometry import Region
from dask_io.storage.local.transport import LARGE
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.addressable import (
    Stream,
    at_once,
    checksum_of,
    staged,
    view_as_array,
    view_as_bytes,
)
from dask_io.stores.staging import SLAB, cut, room_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout
    from dask_io.storage.medium import Reader, Writer
    from dask_io.stores.store import Extent

# Bytes of padding to write at once after the last element of a block.
_AT_ONCE = 2**16


def is_padded(shape: tuple[int, ...], stored: tuple[int, ...], layout: Layout) -> bool:
    """Tell whether padding lies between the elements of a block, not only after them.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> is_padded((2, 4), (4, 4), Layout.c(2)), is_padded((4, 2), (4, 4), Layout.c(2))
    (False, True)
    """
    return shape != stored and layout.count_runs(Region.whole(shape), stored) > 1


def any_padded(grid: Grid, stored: tuple[int, ...], layout: Layout) -> bool:
    """Tell whether any block has padding between its elements if all are stored with one shape."""
    for axis, (n_stored, along) in enumerate(zip(stored, grid.axes, strict=True)):
        last = along.length - along.start_of(max(0, along.n_blocks - 1))
        block = (*grid.longest[:axis], last, *grid.longest[axis + 1 :])
        if last < n_stored and is_padded(block, stored, layout):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of a block and its location in storage, including the padding up to the next run."""

    box: Region
    start: int
    stop: int


class Piece(NamedTuple):
    """Bytes that are moved at once: a part of a run and the padding after it, or only padding."""

    box: Region | None
    offset: int
    n_bytes: int


def stretches(
    region: Region, shape: tuple[int, ...], stored: tuple[int, ...], layout: Layout
) -> Iterator[Stretch]:
    """Yield the runs of a region of a block, in storage order.

    The stretch of a run ends where the next element of the block begins.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> rows = Region((0, 0), (2, 3))
    >>> [(str(s.box), s.start, s.stop) for s in stretches(rows, (4, 3), (4, 5), Layout.c(2))]
    [('0:2,0:3', 0, 10)]
    """
    if not region.size:
        return
    length, strides = layout.run_length(region, shape), layout.strides(shape)
    outer = [axis for axis in layout.axes if strides[axis] >= length]
    for index in product(*(range(*region.bounds[axis]) for axis in outer)):
        at = dict(zip(outer, index, strict=True))
        box = Region.of(
            (at[axis], at[axis] + 1) if axis in at else bounds
            for axis, bounds in enumerate(region.bounds)
        )
        start = sum(n * step for n, step in zip(box.start, layout.strides(stored), strict=True))
        yield Stretch(box, start, _next_start(box, shape, stored, layout))


def _next_start(
    box: Region, shape: tuple[int, ...], stored: tuple[int, ...], layout: Layout
) -> int:
    """Return where the next element of the block after a run is stored, else the run's end."""
    # Advance from the last element of the run by one, with carry, like an odometer.
    position = [high - 1 for high in box.stop]
    for axis in reversed(layout.axes):
        position[axis] += 1
        if position[axis] < shape[axis]:
            pairs = zip(position, layout.strides(stored), strict=True)
            return sum(n * step for n, step in pairs)
        position[axis] = 0
    return layout.end_of(box, stored)


def scratch_bytes(block_bytes: int, itemsize: int) -> int:
    """Return the staging bytes needed to move a padded block, in addition to its elements."""
    large = room_for(max(itemsize, min(SLAB, block_bytes))) + 2 * ALIGNMENT
    return large if block_bytes >= LARGE else block_bytes


def _cut(staging: memoryview, n_bytes: int) -> tuple[memoryview, memoryview]:
    """Split a buffer into room for elements and scratch space, which is aligned if it is large."""
    if len(staging) - n_bytes >= LARGE:
        return cut(staging, n_bytes)
    return staging[:n_bytes], staging[n_bytes:]


@dataclass(frozen=True, slots=True)
class _Padded:
    """A block with its own shape and the padded shape that is stored."""

    shape: tuple[int, ...]
    extent: Extent
    dtype: np.dtype[Any]
    layout: Layout

    def stretches(self, region: Region) -> Iterator[Stretch]:
        return stretches(region, self.shape, self.extent.shape, self.layout)

    def offset(self, start: int) -> int:
        return self.extent.offset + start * self.dtype.itemsize

    def pieces(self, run: Region, most: int) -> Iterator[Piece]:
        """Yield a run, or a part of one, in pieces of at most `most` bytes, or of one element."""
        itemsize, stored = self.dtype.itemsize, self.extent.shape
        n_stored = max(1, most // itemsize)
        n_elements = max(1, n_stored * prod(self.shape) // prod(stored))
        most = n_stored * itemsize
        for box in self.layout.slabs(run, n_elements):
            (each,) = self.stretches(box)
            offset, n_bytes = self.offset(each.start), (each.stop - each.start) * itemsize
            for done in range(0, n_bytes, most):
                n_moved = min(most, n_bytes - done)
                yield Piece(None if done else box, offset + done, n_moved)

    def among_padding(self, raw: memoryview, box: Region) -> NDArray[Any]:
        """Return a view of a run's elements in `raw`, which begins with the first element."""
        strides = self.layout.byte_strides(self.extent.shape, self.dtype.itemsize)
        return np.ndarray(box.shape, plain(self.dtype), raw, strides=strides)


def plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype for copying elements: raw bytes for records, to include their padding."""
    return dtype if dtype.names is None else np.dtype((np.void, dtype.itemsize))


def fill_with(fill: NDArray[Any], raw: NDArray[np.uint8]) -> None:
    """Repeat the bytes of one element; for records, this includes the padding between fields.

    Examples
    --------
    >>> raw = np.full(6, 255, np.uint8)
    >>> fill_with(np.zeros((), {"names": ["a"], "formats": ["u1"], "itemsize": 3}), raw)
    >>> raw.tolist()
    [0, 0, 0, 0, 0, 0]
    """
    stored = plain(fill.dtype)
    raw.view(stored)[...] = fill.view(stored)


def write_fill(file: Writer, offset: int, n_elements: int, fill: NDArray[Any]) -> None:
    """Write the fill value repeatedly, starting at an offset."""
    pattern = memoryview(repeated(fill.tobytes()))
    n_left = n_elements * fill.dtype.itemsize
    while n_left:
        n_bytes = min(n_left, len(pattern))
        file.write(offset, pattern[:n_bytes])
        offset, n_left = offset + n_bytes, n_left - n_bytes


@lru_cache(maxsize=8)
def repeated(element: bytes) -> bytes:
    """Repeat the bytes of one element, up to 64 KiB; at least once."""
    return element * max(1, _AT_ONCE // len(element))


@dataclass(frozen=True, slots=True)
class PaddedReader(_Padded):
    """One visit to a padded block whose runs can be read one by one."""

    file: Reader

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Read a region's runs one after another; the padding goes to the end of the buffer."""
        raw, scratch = _cut(buffer, region.size * self.dtype.itemsize)
        values = view_as_array(raw, region.shape, self.dtype, self.layout)
        for run in self.stretches(region):
            self._expect(run)
            for box, offset, n_bytes in self.pieces(run.box, at_once(scratch)):
                read = self.file.read(offset, n_bytes, scratch)
                if box is not None:
                    part = values.view(plain(self.dtype))[box.slices_from(region.start)]
                    part[...] = self.among_padding(read, box)
        return values

    def expect(self, region: Region) -> None:
        """Announce a region that will be read in parts; if it is one run, request it at once."""
        runs = list(islice(self.stretches(region), 2))
        if len(runs) == 1:
            self._expect(runs[0])

    def _expect(self, run: Stretch) -> None:
        self.file.expect(self.offset(run.start), self.offset(run.stop))

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of a region's elements, in storage order."""
        self.expect(region)
        return checksum_of(self.read_into, region, staging, self.dtype, self.layout)


@dataclass(frozen=True, slots=True)
class PaddedWriter(_Padded):
    """One visit to a padded block whose runs can be written one by one; the padding is `fill`."""

    file: Writer
    fill: NDArray[Any]
    _written: xxh3_64 = field(default_factory=xxh3_64, init=False)

    @property
    def checksum(self) -> int:
        """Checksum of the elements that this visit has written, in storage order."""
        return self._written.intdigest()

    def go_on_at(self, region: Region) -> None:
        """Continue the visit that has written everything before a region."""
        self.file.go_on_from(self.offset(next(self.stretches(region)).start))

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Write a region's runs one after another, with their padding."""
        for run in self.stretches(region):
            stream = Stream(self.file, self.offset(run.start), staging)
            self._put(run.box, array[run.box.slices_from(region.start)], stream)
            stream.end()

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Write a region that `fill` assembles piece by piece in a staging buffer."""
        itemsize = self.dtype.itemsize
        aside = scratch_bytes(prod(self.extent.shape) * itemsize, itemsize)
        room, scratch = _cut(staging, len(staging) - aside)
        for run in self.stretches(region):
            stream = Stream(self.file, self.offset(run.start), scratch)
            for slab in self.layout.slabs(run.box, staged(room, self.dtype)):
                raw = room[: slab.size * itemsize]
                values = view_as_array(raw, slab.shape, self.dtype, self.layout)
                fill(slab, values)
                self._put(slab, values, stream)
            stream.end()

    def _put(self, box: Region, values: NDArray[Any], stream: Stream) -> None:
        """Append a run, or a part of one, to a stream, with its padding."""
        self._written.update(view_as_bytes(values, self.layout))
        for part, _, n_bytes in self.pieces(box, stream.most):
            raw = stream.take(n_bytes)
            fill_with(self.fill, np.frombuffer(raw, np.uint8))
            if part is not None:
                moved = values.view(plain(self.dtype))[part.slices_from(box.start)]
                self.among_padding(raw, part)[...] = moved
