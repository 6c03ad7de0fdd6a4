"""The target for arrays in chunks, of any format.

A format describes the array as an `ArraySpec` and stores encoded chunks. Padding, encoding, shards
and chunks that contain only the fill value are the same for all formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dask_io.codecs.chain import Chain
from dask_io.codecs.cores import on_core
from dask_io.journal.ledger import NOTHING
from dask_io.storage.tally import Tally
from dask_io.stores.addressable import AddressableWriter, view_as_bytes
from dask_io.stores.atomic import ChunkWriter, Padding, WholeWriter
from dask_io.stores.filled import holds_only
from dask_io.stores.padded import PaddedWriter, is_padded, write_fill
from dask_io.stores.shards import pack
from dask_io.stores.staging import cut, gathered, lasting, room_for
from dask_io.stores.store import Access, Extent, Footprint, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.storage.medium import Writer
    from dask_io.stores.spec import ArraySpec
    from dask_io.stores.store import BlockWriter

# Bytes that are encoded at once if a chunk is encoded in pieces. Chunks of fewer pieces than this
# need little memory as a whole.
_PIECE, _FEWEST_PIECES = 2**20, 4


class ChunkedTarget(ABC):
    """An array in chunks that is written; any number of chunks may be written at once.

    A chunk or a shard that contains only the fill value is left out, unless `write_empty` is True.
    With `in_pieces`, a chunk is neither assembled nor encoded as a whole.

    A format combines this class with `JournalledTarget` or `OneFileTarget`, which define what is
    durable. It provides `put` and, if elements can be written to their place, `open_at`.
    """

    in_pieces = False
    inferred_axes = ""
    block_names: ClassVar[None] = None
    n_absent: ClassVar[int] = 0
    is_sequential: ClassVar[bool] = False
    calls_functions: ClassVar[bool] = False
    converts_as_numpy: ClassVar[bool] = True
    has_files: ClassVar[bool] = True
    """Whether each chunk or shard is a file; otherwise all are in one file."""

    def __init__(self, spec: ArraySpec, *, write_empty: bool) -> None:
        self.spec, self.tally, self.write_empty = spec, Tally(), write_empty
        self.grid: Grid = spec.write_grid
        self.dtype: np.dtype[Any] = spec.dtype
        self.layout: Layout = spec.layout
        self._kept: set[tuple[int, ...]] = set()
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        # Locks cannot be pickled, and what this process has stored concerns no other.
        return {**self.__dict__, "_lock": None, "_kept": set()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "_lock": Lock()})

    @abstractmethod
    def put(self, index: tuple[int, ...], parts: Iterable[Any]) -> int:
        """Store a chunk or a shard, given in parts, and return the checksum of the stored bytes.

        If `gathered_bytes` is 0, a chunk is one part, as the codec returned it. Otherwise parts
        have this size, except the last, and each is overwritten when the next is taken.
        """

    def open_at(self, index: tuple[int, ...]) -> tuple[AbstractContextManager[Writer], int]:
        """Open the file of a chunk without a codec, and return the chunk's offset in it."""
        raise NotImplementedError

    @property
    def puts_whole(self) -> bool:
        """Whether the medium or library takes only whole chunks or shards."""
        return True

    @property
    def gathered_bytes(self) -> int:
        """Bytes gathered in staging to be stored at once; 0 if `put` takes encoded chunks as is."""
        return 0

    @property
    def copying_bytes(self) -> int:
        """Other bytes that `put` holds at most."""
        return 0

    @cached_property
    def access(self) -> Access:
        """Shards and chunks with a codec are written whole."""
        is_whole = self.spec.codec is not None or self._takes_whole
        return Access.ATOMIC if is_whole else Access.ADDRESSABLE

    @property
    def _takes_whole(self) -> bool:
        return self.spec.index is not None or self.puts_whole

    @property
    def metadata(self) -> Mapping[str, Any]:
        """All metadata of the array."""
        return self.spec.described

    @property
    def footprint(self) -> Footprint:
        """Number of files, and whether chunks are left out."""
        omits = self.spec.omits_fill or self.access is Access.ATOMIC
        n_files = self.grid.n_blocks if self.has_files else 1
        return Footprint(n_files, leaves_out=omits and not self.write_empty)

    @property
    def encoding(self) -> object | None:
        """Determines the stored bytes; None if they cannot be copied verbatim."""
        return None if self.write_empty else self.spec.encoding

    @property
    def reused_bytes(self) -> int:
        """Staging bytes of a visit: to assemble, pad and gather."""
        spec = self.spec
        if self.access is Access.ADDRESSABLE:
            return spec.scratch_bytes
        if self.in_pieces and self.piecewise:
            return self.piecewise.reused_bytes
        of_shard = prod(spec.shards) * spec.dtype.itemsize if spec.shards else 0
        return room_for(of_shard, spec.chunk_bytes, self.gathered_bytes)

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds at most."""
        spec = self.spec
        if self.access is Access.ADDRESSABLE:
            return 0
        if self.in_pieces and self.piecewise:
            return self.piecewise.codec_bytes
        n_bytes = self.copying_bytes
        if spec.codec is not None:
            n_bytes += spec.codec.encoding_bytes
        if spec.index is not None:
            index = spec.index.chain
            # A chunk stays in memory until the next one is encoded.
            n_bytes += index.n_bytes + index.encoding_bytes + spec.longest
        return n_bytes

    @property
    def piecewise(self) -> Memory | None:
        """Memory of a visit that encodes in pieces; None if chunks are small or must be whole."""
        codec, piece = self.spec.codec, self.piece_bytes
        is_large = self.spec.chunk_bytes >= _FEWEST_PIECES * piece
        if not is_large or self._takes_whole:
            return None
        if not isinstance(codec, Chain) or not codec.takes_pieces:
            return None
        codec_bytes = codec.piecewise_bytes(piece) + self.copying_bytes
        return Memory(room_for(piece, self.gathered_bytes), codec_bytes)

    @property
    def piece_bytes(self) -> int:
        """Bytes that are encoded at once with `in_pieces`."""
        return min(self.spec.chunk_bytes, max(_PIECE, self.dtype.itemsize))

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[BlockWriter]:
        """Visit a chunk or a shard."""
        spec, shape = self.spec, self.grid.block(index).shape
        if self.access is Access.ATOMIC:
            whole = _ShardWriter if spec.index else _ChunkWriter
            padding = spec.padding if spec.index else spec.padding_for(shape)
            yield (_PieceWriter if self.in_pieces else whole)(self, index, shape, padding)
            return
        opened, offset = self.open_at(index)
        with opened as file:
            extent = Extent("", offset, spec.chunks)
            writer: AddressableWriter | PaddedWriter
            if is_padded(shape, spec.chunks, spec.layout):
                writer = PaddedWriter(shape, extent, spec.dtype, spec.layout, file, spec.fill)
            else:
                writer = AddressableWriter(file, extent, spec.dtype, spec.layout)
            yield _WatchedWriter(writer, index, self, shape) if spec.omits_fill else writer

    def is_kept(self, raw: NDArray[np.uint8]) -> bool:
        """Tell whether the bytes of a chunk are stored."""
        return self.write_empty or not holds_only(raw, self.spec.fill)

    def encode(self, raw: NDArray[np.uint8]) -> Any:
        """Encode the bytes of a chunk; None if it is left out."""
        if not self.write_empty and holds_only(raw, self.spec.fill):
            return None
        codec = self.spec.codec
        return raw if codec is None else codec.encode(raw)

    def pack(
        self,
        index: tuple[int, ...],  # noqa: ARG002 - a Zarr shard does not depend on it
        shard: NDArray[Any],
        encode: Callable[[NDArray[Any]], NDArray[np.uint8] | None],
    ) -> Iterator[Any]:
        """Yield the content of a shard in pieces; nothing if all its chunks are left out.

        A piece may share memory with the next one. `encode` returns None for a chunk to leave out.
        """
        return pack(shard, self.spec, encode)

    def put_encoded(
        self, index: tuple[int, ...], pieces: Iterable[Any], staging: memoryview
    ) -> int:
        """Store a chunk or a shard, and remember that it is not left out."""
        self.keep(index)
        return self.put(index, self.gather(pieces, staging))

    def gather(self, pieces: Iterable[Any], staging: memoryview) -> Iterable[Any]:
        """Return encoded pieces as the parts that `put` takes."""
        n_bytes = self.gathered_bytes
        return gathered(map(memoryview, pieces), staging[:n_bytes]) if n_bytes else pieces

    def keep(self, index: tuple[int, ...]) -> None:
        """Remember that a chunk or a shard has a file, until it is committed."""
        if self.has_files:
            with self._lock:
                self._kept.add(index)

    def _is_left_out(self, index: tuple[int, ...]) -> bool:
        """Tell whether a complete chunk is not stored; each is asked for once."""
        with self._lock:
            is_kept = index in self._kept
            self._kept.discard(index)
            return not is_kept


@dataclass(slots=True)
class _WatchedWriter:
    """One visit to a chunk that may be written in parts and may be left out."""

    writer: AddressableWriter | PaddedWriter
    index: tuple[int, ...]
    target: ChunkedTarget
    shape: tuple[int, ...]
    _is_filled: bool = True
    _checksum: int | None = None

    @property
    def checksum(self) -> int:
        """Checksum of what this visit has written; that of nothing if it is the fill value."""
        if self._is_filled:
            return NOTHING
        return self.writer.checksum if self._checksum is None else self._checksum

    def go_on_at(self, region: Region) -> None:
        """Count as part of the visit that wrote everything before a region."""
        self.writer.go_on_at(region)

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Write a region."""
        self._note(array)
        self.writer.write_from(region, array, staging)
        self._pad(region)

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Write a region that is assembled in a staging buffer."""

        def watched(part: Region, values: NDArray[Any]) -> None:
            fill(part, values)
            self._note(values)

        self.writer.write_filled(region, staging, watched)
        self._pad(region)

    def _pad(self, region: Region) -> None:
        """Write the fill value after the last element, in case the array is enlarged later.

        A new file has zeros there. The checksum covers the elements only.
        """
        spec = self.target.spec
        is_short = self.shape != spec.chunks and region.stop == self.shape
        if is_short and any(spec.fill_bytes):
            self._checksum = self.writer.checksum
            end = spec.layout.end_of(region, spec.chunks)
            offset = self.writer.extent.offset + end * spec.dtype.itemsize
            write_fill(self.writer.file, offset, prod(spec.chunks) - end, spec.fill)

    def _note(self, array: NDArray[Any]) -> None:
        # Once another value has been found, the rest need not be compared.
        if self._is_filled:
            target = self.target
            raw = np.frombuffer(view_as_bytes(array, target.layout), np.uint8)
            self._is_filled = holds_only(raw, target.spec.fill)
            if target.write_empty or not self._is_filled:
                target.keep(self.index)


@dataclass(slots=True)
class _ChunkWriter(ChunkWriter):
    """One visit to a chunk that is encoded as a whole."""

    target: ChunkedTarget
    index: tuple[int, ...]
    shape: tuple[int, ...]
    padding: Padding
    checksum: int = NOTHING

    def write_raw(self, raw: NDArray[np.uint8], staging: memoryview) -> None:
        """Encode and store it."""
        encoded = self.target.encode(raw)
        if encoded is not None:
            self.checksum = self.target.put_encoded(self.index, (encoded,), staging)


@dataclass(slots=True)
class _PieceWriter(WholeWriter):
    """One visit to a chunk that is assembled, encoded and stored in pieces."""

    target: ChunkedTarget
    index: tuple[int, ...]
    shape: tuple[int, ...]
    padding: Padding
    checksum: int = NOTHING

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Encode and store all of it."""

        def fill(part: Region, values: NDArray[Any]) -> None:
            inside: tuple[Any, ...] = (..., *part.slices)
            values[...] = array[inside].view(values.dtype)

        self.write_filled(region, staging, fill)

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Assemble one piece after another, encode and store it.

        A core is taken for the encoded bytes that are stored at once, and released meanwhile.
        """
        assert region.shape == self.shape, "a part of a chunk would be read, changed and rewritten"
        target, codec = self.target, self.target.spec.codec
        assert isinstance(codec, Chain), "other codecs take whole chunks"
        scratch, rest = cut(staging, target.piece_bytes)
        # Usually the first piece shows that the chunk must be stored.
        if any(map(target.is_kept, self.padding.pieces(region, scratch, fill))):
            pieces = codec.encode_pieces(self.padding.pieces(region, scratch, fill))
            target.keep(self.index)
            self.checksum = target.put(self.index, on_core(target.gather(pieces, rest)))


@dataclass(slots=True)
class _ShardWriter(WholeWriter):
    """One visit to a shard, whose chunks are encoded one by one."""

    target: ChunkedTarget
    index: tuple[int, ...]
    shape: tuple[int, ...]
    padding: Padding
    checksum: int = NOTHING

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Encode and store all of it."""
        assert region.shape == self.shape, "a part of a shard would be read, changed and rewritten"
        target, spec = self.target, self.target.spec
        scratch, rest = cut(staging, self.padding.n_bytes)

        def encode(chunk: NDArray[Any]) -> Any:
            return target.encode(spec.padding_for(chunk.shape).pad(chunk, scratch))

        pieces = target.pack(self.index, array, encode)
        if target.puts_whole:
            # They stay in memory until the last one is encoded.
            pieces = (lasting(piece, scratch) for piece in pieces)
        first = next(pieces, None)
        if first is not None:
            self.checksum = target.put_encoded(self.index, _chained(first, pieces), rest)


def _chained(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    del first
    yield from others
