"""Blocks at the far ends of an array that are stored as large as all others.

A run of such a block is stored as a stretch that holds padding besides its elements, and nothing
else. So it is moved in one piece, padding included, and costs one seek as any run does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64

from dask_io.geometry import Region
from dask_io.stores.addressable import checksum_of, staged, view_as_array, view_as_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dask_io.geometry import Layout
    from dask_io.stores.medium import Reader, Writer
    from dask_io.stores.store import Extent


def is_padded(shape: tuple[int, ...], stored: tuple[int, ...], layout: Layout) -> bool:
    """Tell whether padding lies between the elements of a block, not only behind them.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> is_padded((2, 4), (4, 4), Layout.c(2)), is_padded((4, 2), (4, 4), Layout.c(2))
    (False, True)
    """
    return layout.count_runs(Region.whole(shape), stored) > 1


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of a block, and where it lies in storage, with padding up to the next one."""

    box: Region
    start: int
    stop: int


def stretches(
    region: Region, shape: tuple[int, ...], stored: tuple[int, ...], layout: Layout
) -> Iterator[Stretch]:
    """Yield the runs of a region of a block, in storage order.

    What comes behind a run within the block begins where its stretch ends.

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
    """Return where the element of the block that follows a run is stored, or else its end."""
    # The last element of the run, counted on by one within the block: as an odometer.
    position = [high - 1 for high in box.stop]
    for axis in reversed(layout.axes):
        position[axis] += 1
        if position[axis] < shape[axis]:
            pairs = zip(position, layout.strides(stored), strict=True)
            return sum(n * step for n, step in pairs)
        position[axis] = 0
    return layout.end_of(box, stored)


@dataclass(frozen=True, slots=True)
class _Padded:
    """A block, as large as it is and as large as it is stored."""

    shape: tuple[int, ...]
    extent: Extent
    dtype: np.dtype[Any]
    layout: Layout

    def stretches(self, region: Region) -> Iterator[Stretch]:
        return stretches(region, self.shape, self.extent.shape, self.layout)

    def offset(self, start: int) -> int:
        return self.extent.offset + start * self.dtype.itemsize

    def among_padding(self, scratch: NDArray[Any], box: Region) -> NDArray[Any]:
        """Look at the elements of a run in a stretch."""
        itemsize = self.dtype.itemsize
        strides = [step * itemsize for step in self.layout.strides(self.extent.shape)]
        return np.ndarray(box.shape, plain(self.dtype), scratch.data, strides=strides)


def plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type as which elements are copied: of records also what lies between fields."""
    return dtype if dtype.names is None else np.dtype((np.void, dtype.itemsize))


@dataclass(frozen=True, slots=True)
class PaddedReader(_Padded):
    """One visit to a padded block whose runs can be read one by one."""

    file: Reader

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Read a region's runs one after another, each with its padding through a scratch array."""
        raw = buffer[: region.size * self.dtype.itemsize]
        values = view_as_array(raw, region.shape, self.dtype, self.layout)
        for each in self.stretches(region):
            scratch = np.empty((each.stop - each.start) * self.dtype.itemsize, np.uint8)
            self.file.read(self.offset(each.start), len(scratch), scratch.data)
            part = each.box.relative_to(region.start).slices
            values.view(plain(self.dtype))[part] = self.among_padding(scratch, each.box)
        return values

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of a region's elements, in storage order."""
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

    def write_from(self, region: Region, array: NDArray[Any]) -> None:
        """Write a region's runs one after another, each with its padding from a scratch array."""
        self._written.update(view_as_bytes(array, self.layout))
        for each in self.stretches(region):
            scratch = np.full(each.stop - each.start, self.fill, self.dtype).view(np.uint8)
            part = array.view(plain(self.dtype))[each.box.relative_to(region.start).slices]
            self.among_padding(scratch, each.box)[...] = part
            self.file.write(self.offset(each.start), scratch.data)

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Write a region that is put together piece by piece in a staging buffer."""
        for slab in self.layout.slabs(region, staged(staging, self.dtype)):
            raw = staging[: slab.size * self.dtype.itemsize]
            values = view_as_array(raw, slab.shape, self.dtype, self.layout)
            fill(slab, values)
            self.write_from(slab, values)
