"""Blocks that are decoded as a whole."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dask_io.errors import DataError
from dask_io.geometry import Region
from dask_io.storage.files import checksum_of_file
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.addressable import view_as_array, view_as_bytes
from dask_io.stores.padded import fill_with, plain
from dask_io.stores.staging import cut, room_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dask_io.geometry import Layout
    from dask_io.storage.medium import Reader
    from dask_io.stores.chunked_source import Located
    from dask_io.stores.spec import ArraySpec


@dataclass(slots=True)
class AtomicReader:
    """One visit to a block that is decoded as a whole, once."""

    file: Reader
    located: Located
    shape: tuple[int, ...]
    spec: ArraySpec
    _decoded: NDArray[Any] | None = field(default=None, init=False)

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Return a part of the block, which stays in the buffer in which it was decoded."""
        if self._decoded is None:
            self._decoded = self._decode(buffer)
        return self._decoded[region.slices]

    def expect(self, region: Region) -> None:
        """The block is read whole."""

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of the stored bytes of the block."""
        assert region.shape == self.shape, "a block was written whole"
        return checksum_of_file(self.file, self.located.offset, self.located.n_bytes, staging)

    def _decode(self, staging: memoryview) -> NDArray[Any]:
        spec, located = self.spec, self.located
        assert spec.codec is not None, "other blocks are not decoded"
        decode = located.decode or spec.codec.decode
        decoded, rest = cut(staging, spec.chunk_bytes)
        encoded = self.file.read(located.offset, located.n_bytes, rest)
        try:
            decode(np.frombuffer(encoded, np.uint8), np.frombuffer(decoded, np.uint8))
        except ValueError as error:
            raise DataError(str(located.path), [str(error)]) from error
        return view_as_array(decoded, spec.chunks, spec.dtype, spec.layout)


def bytes_to_decode(n_decoded: int, n_encoded: int) -> int:
    """Return the staging that an `AtomicReader` uses; large reads go past the page cache."""
    return room_for(n_decoded, n_encoded + 2 * ALIGNMENT)


class Typed(Protocol):
    """A store, as far as its elements are concerned."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""

    @property
    def layout(self) -> Layout:
        """Order of the elements in a block."""


class WholeWriter(ABC):
    """One visit to a block that is encoded as a whole."""

    target: Typed

    def go_on_at(self, region: Region) -> None:  # noqa: B027 - as it is
        """Do nothing: a block that is written whole is one visit."""

    @abstractmethod
    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Encode and write all of it."""

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Assemble all of it, because a part of a block cannot be encoded, and write it."""
        dtype, layout = self.target.dtype, self.target.layout
        raw, rest = cut(staging, region.size * dtype.itemsize)
        values = view_as_array(raw, region.shape, dtype, layout)
        fill(region, values)
        self.write_from(region, values, rest)


class Padding(NamedTuple):
    """How chunks at the edge of the array are padded to the shape `chunks`."""

    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout
    fill_bytes: bytes

    @property
    def fill(self) -> NDArray[Any]:
        """The element that pads blocks at the edge of the array."""
        return np.frombuffer(self.fill_bytes, self.dtype).reshape(())

    @property
    def n_bytes(self) -> int:
        """Bytes of a chunk."""
        return prod(self.chunks) * self.dtype.itemsize

    def begin(
        self, scratch: memoryview, shape: tuple[int, ...]
    ) -> tuple[NDArray[np.uint8], NDArray[Any]]:
        """Return the padded bytes of a chunk, and a view of its elements, which are not set yet."""
        raw = np.frombuffer(scratch, np.uint8, self.n_bytes)
        if shape != self.chunks:
            fill_with(self.fill, raw)
        whole = view_as_array(raw.data, self.chunks, plain(self.dtype), self.layout)
        # With an ellipsis a view also if there are no axes.
        inside: tuple[Any, ...] = (..., *map(slice, shape))
        return raw, whole[inside]

    def pad(self, values: NDArray[Any], scratch: memoryview) -> NDArray[np.uint8]:
        """Return the padded bytes of a chunk; a view if it needs no padding and no copy."""
        stored = values.transpose(self.layout.axes)
        if values.shape == self.chunks and stored.flags.c_contiguous:
            return np.frombuffer(view_as_bytes(values, self.layout), np.uint8)
        raw, inside = self.begin(scratch, values.shape)
        inside[...] = values.view(inside.dtype)
        return raw

    def pieces(
        self,
        region: Region,
        scratch: memoryview,
        fill: Callable[[Region, NDArray[Any]], None],
    ) -> Iterator[NDArray[np.uint8]]:
        """Yield the padded bytes of a chunk that begins with a region, in storage order.

        Each piece is assembled in the same buffer as the one before.
        """
        dtype, layout = plain(self.dtype), self.layout
        largest = len(scratch) // dtype.itemsize
        for slab in layout.slabs(Region.whole(self.chunks), largest):
            raw = np.frombuffer(scratch, np.uint8, slab.size * dtype.itemsize)
            part = slab & region
            if part.size < slab.size:
                fill_with(self.fill, raw)
            if part.size:
                inside: tuple[Any, ...] = (..., *part.slices_from(slab.start))
                fill(part, view_as_array(raw.data, slab.shape, dtype, layout)[inside])
            yield raw


class ChunkWriter(WholeWriter):
    """One visit to a chunk that is encoded, and padded at the edge of the array."""

    shape: tuple[int, ...]
    padding: Padding

    @abstractmethod
    def write_raw(self, raw: NDArray[np.uint8], staging: memoryview) -> None:
        """Encode and write the padded bytes of the chunk."""

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Encode and write all of it."""
        self._refuse_part(region)
        scratch, rest = cut(staging, self.padding.n_bytes)
        self.write_raw(self.padding.pad(array, scratch), rest)

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Assemble all of it in its padded place, and write it."""
        self._refuse_part(region)
        scratch, rest = cut(staging, self.padding.n_bytes)
        raw, values = self.padding.begin(scratch, region.shape)
        fill(region, values)
        self.write_raw(raw, rest)

    def _refuse_part(self, region: Region) -> None:
        assert region.shape == self.shape, "a part of a chunk would be read, changed and rewritten"
