"""Blocks that are decoded as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.errors import DataError
from dask_io.stores.addressable import view_as_array, view_as_bytes
from dask_io.stores.files import ALIGNMENT, address_of, checksum_of_file
from dask_io.stores.naming import printable
from dask_io.stores.padded import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.stores.location import Location
    from dask_io.stores.medium import Reader
    from dask_io.stores.store import Extent, Store


class Encoding(NamedTuple):
    """How blocks are encoded that are all stored as large as `chunks`.

    `decode` turns encoded bytes into all those of a block, or raises a `ValueError` whose message
    completes "the file ...".
    """

    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout
    decode: Callable[[NDArray[np.uint8], NDArray[np.uint8]], None]


@dataclass(slots=True)
class AtomicReader:
    """One visit to a block that is decoded as a whole, once."""

    file: Reader
    path: Location
    extent: Extent
    n_bytes: int
    shape: tuple[int, ...]
    encoding: Encoding
    _decoded: NDArray[np.uint8] | None = field(default=None, init=False)

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Decode the block straight into the buffer if all of it is asked for, else aside."""
        chunks, dtype, layout, _ = self.encoding
        raw = np.frombuffer(buffer, np.uint8, region.size * dtype.itemsize)
        values = view_as_array(raw.data, region.shape, dtype, layout)
        if region.shape == chunks and self._decoded is None:
            self._decode(raw)
            return values
        if self._decoded is None:
            self._decoded = np.empty(prod(chunks) * dtype.itemsize, np.uint8)
            self._decode(self._decoded)
        whole = view_as_array(self._decoded.data, chunks, dtype, layout)
        values.view(plain(dtype))[...] = whole.view(plain(dtype))[region.slices]
        return values

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of the block as it lies in its file."""
        assert region.shape == self.shape, "a block was written whole"
        return checksum_of_file(self.file, self.extent.offset, self.n_bytes, staging)

    def _decode(self, out: NDArray[np.uint8]) -> None:
        encoded = self.file.read(self.extent.offset, self.n_bytes, _aligned(self.n_bytes))
        try:
            self.encoding.decode(np.frombuffer(encoded, np.uint8), out)
        except ValueError as error:
            raise DataError(printable(str(self.path)), [printable(str(error))]) from error


def _aligned(n_bytes: int) -> memoryview:
    """Return a buffer with room for alignment, so that large reads go past the page cache."""
    buffer = memoryview(np.empty(n_bytes + 3 * ALIGNMENT, np.uint8).data)
    start = -address_of(buffer) % ALIGNMENT
    return buffer[start : start + n_bytes + 2 * ALIGNMENT]


class WholeWriter(ABC):
    """One visit to a block that is encoded as a whole."""

    target: Store

    @abstractmethod
    def write_from(self, region: Region, array: NDArray[Any]) -> None:
        """Encode and write all of it."""

    def write_filled(
        self,
        region: Region,
        staging: memoryview,  # noqa: ARG002 - a part of a block cannot be encoded
        fill: Callable[[Region, NDArray[Any]], None],
    ) -> None:
        """Put all of it together in memory of its own, and write it."""
        dtype, layout = self.target.dtype, self.target.layout
        raw = np.empty(region.size * dtype.itemsize, np.uint8)
        values = view_as_array(raw.data, region.shape, dtype, layout)
        fill(region, values)
        self.write_from(region, values)


def pad(
    values: NDArray[Any], chunks: tuple[int, ...], fill: NDArray[Any], layout: Layout
) -> NDArray[np.uint8]:
    """Return the bytes of a block as large as it is stored; a view if it is as large already."""
    stored, dtype = values.transpose(layout.axes), values.dtype
    if values.shape == chunks and stored.flags.c_contiguous:
        return np.frombuffer(view_as_bytes(values, layout), np.uint8)
    raw = np.full(prod(chunks), fill, dtype).view(np.uint8)
    whole = view_as_array(raw.data, chunks, plain(dtype), layout)
    whole[tuple(map(slice, values.shape))] = values.view(plain(dtype))
    return raw


def padding_bytes(grid: Grid, chunks: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Return what `pad` holds at most: nothing if no block is smaller than it is stored."""
    is_ragged = any(n % chunk for n, chunk in zip(grid.shape, chunks, strict=True))
    return prod(chunks) * dtype.itemsize if is_ragged else 0
