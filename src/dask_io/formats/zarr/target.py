"""Writing a Zarr array."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.codecs.cores import on_core
from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats.zarr.create import describe_new
from dask_io.formats.zarr.documents import read_documents
from dask_io.formats.zarr.metadata import understand
from dask_io.formats.zarr.shards import pack
from dask_io.formats.zarr.source import ZarrSource, as_written
from dask_io.formats.zarr.store import ZarrStore, read_description
from dask_io.journal.journalled_target import JournalledTarget
from dask_io.journal.ledger import NOTHING
from dask_io.stores.addressable import AddressableWriter, view_as_bytes
from dask_io.stores.atomic import ChunkWriter, Padding, WholeWriter
from dask_io.stores.encoded import Taken
from dask_io.stores.filled import holds_only
from dask_io.stores.padded import PaddedWriter, is_padded, scratch_bytes, write_fill
from dask_io.stores.staging import cut, gathered, lasting, room_for
from dask_io.stores.store import Access, Extent, Footprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dask_io.formats.zarr.metadata import Metadata
    from dask_io.formats.zarr.place import Place
    from dask_io.geometry import Grid, Region
    from dask_io.journal.ledger import Ledger
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.encoded import AsStored
    from dask_io.stores.store import BlockWriter

# What is written of a file at once, past the page cache: every thread has as much memory for it.
_GATHERED = 2**20
# What is put together and encoded at once where a chunk is encoded piece by piece. Those of fewer
# pieces than this take little memory as a whole.
_PIECE, _FEWEST_PIECES = 2**20, 4


def make_zarr(
    place: Place,
    wanted: NewArray,
    *,
    overwrite: bool,
    durability: Durability,
    reserve: bool,
) -> ZarrTarget:
    """Describe an array in a directory, or in a group there; nothing is touched.

    Raises
    ------
    UsageError
        If Zarr cannot hold it, or does not support an option.
    """
    return ZarrTarget(
        place,
        describe_new(_as_around(place, wanted)),
        write_empty=wanted.options.write_empty,
        overwrite=overwrite,
        durability=durability,
        reserve=reserve,
    )


def _as_around(place: Place, wanted: NewArray) -> NewArray:
    """Have an array be of the version of the groups around it, or readers would not find it."""
    version, options = place.version_around(), wanted.options
    if version is None:
        return wanted
    if options.format_version not in {None, version}:
        raise UsageError(
            f"{place.path} is a group of Zarr {version}, in which readers find no "
            f"array of version {options.format_version}; choose version {version}, or another place"
        )
    return replace(wanted, options=replace(options, format_version=version))


def remake_zarr(
    described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
) -> ZarrTarget:
    """Describe a target again that was described before.

    Raises
    ------
    ValueError
        If that is no description.
    """
    place, documents = read_description(described, at)
    return ZarrTarget(
        place,
        documents,
        write_empty=described.get("write_empty") is True,
        overwrite=False,
        durability=durability,
        reserve=reserve,
    )


class ZarrTarget(ZarrStore, JournalledTarget):
    """A Zarr array that is written; any number of chunks may be written at once.

    A chunk, or a shard if there are such, is a file that is written aside. One that holds only
    the fill value is left out, unless `write_empty`. The array's metadata comes last. If it is
    told to encode `in_pieces`, a chunk is neither put together nor encoded as a whole.
    """

    in_pieces = False

    def __init__(
        self,
        place: Place,
        documents: Mapping[str, bytes],
        *,
        write_empty: bool,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> None:
        ZarrStore.__init__(self, place, documents)
        self._write_empty, self._reserve = write_empty, reserve
        JournalledTarget.__init__(
            self, self.root, is_one_file=False, overwrite=overwrite, durability=durability
        )

    def _forget_run(self) -> None:
        super()._forget_run()
        self._contents = _Contents(self.array, write_empty=self._write_empty)

    @property
    def grid(self) -> Grid:
        """What is written at once: the shards, or else the chunks."""
        return self.array.write_grid

    @property
    def writes_whole(self) -> bool:
        """Whether a file is written when all of it is there, as objects are."""
        return self._medium.writes_whole

    @property
    def access(self) -> Access:
        """Shards, chunks with a codec, and objects are written whole."""
        return Access.ATOMIC if self._puts_whole else self.array.access

    @property
    def _puts_whole(self) -> bool:
        return self.array.index is not None or self.writes_whole

    @property
    def reused_bytes(self) -> int:
        """What a visit uses of staging: for what is put together, padded, and to be written."""
        array = self.array
        if self.access is Access.ADDRESSABLE:
            scratch = scratch_bytes(array.chunk_bytes, array.dtype.itemsize)
            return scratch if array.has_padding else 0
        if self.in_pieces and self.piecewise:
            return self.piecewise.reused_bytes
        of_shard = prod(array.shards) * array.dtype.itemsize if array.shards else 0
        return room_for(of_shard, self.padding.n_bytes, self._gathered_bytes)

    @property
    def codec_bytes(self) -> int:
        """What a visit holds at most besides what it is given."""
        array = self.array
        if self.access is Access.ADDRESSABLE:
            return 0
        if self.in_pieces and self.piecewise:
            return self.piecewise.codec_bytes
        of_shard = 0
        if array.index:
            index = array.index.chain
            # The chunk before is there until the next one is.
            of_shard = index.n_bytes + index.encoding_bytes + array.chain.longest
        return array.chain.encoding_bytes + of_shard + self.copying_bytes

    @property
    def piecewise(self) -> Taken | None:
        """What a visit takes piece by piece: of large chunks only, in files of their own."""
        chain, piece = self.array.chain, self.piece_bytes
        is_large = self.padding.n_bytes >= _FEWEST_PIECES * piece
        if not is_large or self._puts_whole or not chain.takes_pieces:
            return None
        codec_bytes = chain.piecewise_bytes(piece) + self.copying_bytes
        return Taken(room_for(piece, self._gathered_bytes), codec_bytes)

    @property
    def piece_bytes(self) -> int:
        """What is encoded at once if it is in pieces."""
        return min(self.padding.n_bytes, max(_PIECE, self.dtype.itemsize))

    @cached_property
    def padding(self) -> Padding:
        """How chunks are stored, those in a shard too."""
        array = self.array
        return Padding(array.chunks, array.dtype, array.layout, array.fill_bytes)

    @property
    def _gathered_bytes(self) -> int:
        """What is written of a file at once; an object is put as it is."""
        return 0 if self.writes_whole else min(_GATHERED, room_for(self.array.file_bytes))

    @property
    def copying_bytes(self) -> int:
        """What it takes to write a file as it is stored, besides its pieces."""
        return self._medium.bytes_to_write(self.array.file_bytes)

    @property
    def encoding(self) -> object | None:
        """What the bytes of a file mean; None if files are to be made that the source lacks."""
        return None if self._write_empty else super().encoding

    @property
    def footprint(self) -> Footprint:
        """What it takes: a file for each chunk, or shard."""
        return Footprint(self.grid.n_blocks, leaves_out=not self._write_empty)

    def describe(self) -> dict[str, Any]:
        """Return what it takes to make the array again."""
        return {**super().describe(), "write_empty": self._write_empty}

    def resume(self) -> Ledger:
        """Go on where another run ended."""
        self.site.refuse_way_out()
        ledger = super().resume()
        for index in ledger.parts:
            if ledger.is_stored(index):
                self._contents.keep(self._file_of(index)[0])
        return ledger

    def look_back(self) -> ZarrSource | AsStored:
        """Open the written array, even if its metadata has changed."""
        return as_written(ZarrSource(self.site, self.documents, strict=False))

    def is_described(self) -> bool:
        """Tell whether the array's metadata is valid."""
        try:
            documents = read_documents(self.root)
            return bool(documents) and understand(documents) is not None
        except (ValueError, DataError, StorageError):
            return False

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[BlockWriter]:
        """Visit a chunk or a shard in the making."""
        array, name = self.array, self.array.keys.name_of(index)
        shape = self.grid.block(index).shape
        if self.access is Access.ATOMIC:
            whole = _ShardWriter if array.index else _ChunkWriter
            yield (_PieceWriter if self.in_pieces else whole)(self, name, shape, self.padding)
            return
        with self._write_file(
            name, self.tally, n_bytes=array.chunk_bytes, reserve=self._reserve
        ) as file:
            extent = Extent(name, 0, array.chunks)
            writer: AddressableWriter | PaddedWriter
            if is_padded(shape, array.chunks, array.layout):
                writer = PaddedWriter(shape, extent, array.dtype, array.layout, file, array.fill)
            else:
                writer = AddressableWriter(file, extent, array.dtype, array.layout)
            yield _WatchedWriter(writer, name, self, shape)

    def encode(self, raw: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
        """Encode the bytes of a chunk; None if it is to be left out."""
        return self.array.chain.encode(raw) if self._contents.has_any(raw) else None

    def is_left_out(self, pieces: Iterable[NDArray[np.uint8]]) -> bool:
        """Tell whether a chunk that is given piece by piece is to be left out."""
        return not any(map(self._contents.has_any, pieces))

    def has_any(self, name: str, raw: NDArray[np.uint8]) -> bool:
        """Tell whether bytes that go to a file are more than the fill value, and remember it."""
        return self._contents.note(name, raw)

    def write_file(
        self, name: str, pieces: Iterator[NDArray[np.uint8]], staging: memoryview
    ) -> int:
        """Write a file from its pieces, in one go, and return its checksum.

        None is made if there are no pieces.
        """
        first = next(pieces, None)
        if first is None:
            return NOTHING
        parts: Iterable[memoryview] = (piece.data for piece in chain([first], pieces))
        del first
        if not self.writes_whole:
            parts = gathered(parts, staging[: self._gathered_bytes])
        return self._write_parts(name, parts)

    def write_pieces(
        self, name: str, pieces: Iterable[NDArray[np.uint8]], staging: memoryview
    ) -> int:
        """Encode a chunk that is given piece by piece, write it, and return its checksum.

        A core is taken for what is written at once, and left while it is.
        """
        encoded = (memoryview(each) for each in self.array.chain.encode_pieces(pieces))
        parts = gathered(encoded, staging[: self._gathered_bytes])
        return self._write_parts(name, on_core(parts))

    def _write_parts(
        self, name: str, parts: Iterable[memoryview], n_bytes: int | None = None
    ) -> int:
        self._contents.keep(name)
        offset, reserve = 0, self._reserve
        with self._write_file(name, self.tally, n_bytes=n_bytes, reserve=reserve) as file:
            for part in parts:
                file.write(offset, part)
                offset += len(part)
        return file.checksum

    def write_encoded(
        self, index: tuple[int, ...], n_bytes: int, pieces: Iterator[memoryview]
    ) -> int:
        """Write a file that is stored elsewhere as it is to be stored here."""
        return self._write_parts(self.array.keys.name_of(index), pieces, n_bytes)

    def _file_of(self, index: tuple[int, ...]) -> tuple[str, int | None]:
        n_bytes = None if self.access is Access.ATOMIC else self.array.chunk_bytes
        return self.array.keys.name_of(index), n_bytes

    def _is_left_out(self, name: str) -> bool:
        return not self._contents.forget(name)

    def _find_old(self) -> list[Location]:
        self.site.refuse_neighbours()
        if not self.site.holds_anything():
            return []
        if not self._overwrite:
            self._refuse()
        return self.site.old_files()

    def _remove_old(self, old: list[Location]) -> None:
        self.site.remove(old)

    def _find_left(self, words: Sequence[str]) -> list[Location]:  # noqa: ARG002 - there are none
        # Whatever can be part of an array is known by its name.
        return self.site.files_left()

    def _find_files(self) -> dict[str, int]:
        return dict(self.site.files())

    def _complete(self) -> None:
        self.site.describe(self.documents)


class _Contents:
    """Which files in the making hold something; safe to share between threads."""

    def __init__(self, array: Metadata, *, write_empty: bool) -> None:
        self._array, self._write_empty = array, write_empty
        self._kept: set[str] = set()
        self._lock = Lock()

    def __reduce__(self) -> tuple[Callable[[Metadata], _Contents], tuple[Metadata]]:
        # Locks do not travel to other processes.
        return partial(_Contents, write_empty=self._write_empty), (self._array,)

    def has_any(self, raw: NDArray[np.uint8]) -> bool:
        """Tell whether bytes are to be stored."""
        return self._write_empty or not holds_only(raw, self._array.fill)

    def note(self, name: str, raw: NDArray[np.uint8]) -> bool:
        """Remember a file if bytes that are written to it are to be stored; tell what they are."""
        is_more = not holds_only(raw, self._array.fill)
        if is_more or self._write_empty:
            self.keep(name)
        return is_more

    def keep(self, name: str) -> None:
        with self._lock:
            self._kept.add(name)

    def forget(self, name: str) -> bool:
        """Return whether a file holds something, and think no more of it."""
        with self._lock:
            is_kept = name in self._kept
            self._kept.discard(name)
            return is_kept


@dataclass(slots=True)
class _WatchedWriter:
    """One visit to a chunk that may be written in parts, of which notice is taken."""

    writer: AddressableWriter | PaddedWriter
    name: str
    target: ZarrTarget
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
        """Count as part of the visit that has written what lies before a region."""
        self.writer.go_on_at(region)

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Write a region."""
        self._note(array)
        self.writer.write_from(region, array, staging)
        self._pad(region)

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Write a region that is put together in a staging buffer."""

        def watched(part: Region, values: NDArray[Any]) -> None:
            fill(part, values)
            self._note(values)

        self.writer.write_filled(region, staging, watched)
        self._pad(region)

    def _pad(self, region: Region) -> None:
        """Write the fill value after the last element, in case the array is enlarged later.

        A new file holds zeros there. The checksum covers the elements only.
        """
        array = self.target.array
        is_short = self.shape != array.chunks and region.stop == self.shape
        if is_short and any(array.fill_bytes):
            self._checksum = self.writer.checksum
            end = array.layout.end_of(region, array.chunks)
            offset, n_behind = end * array.dtype.itemsize, prod(array.chunks) - end
            write_fill(self.writer.file, offset, n_behind, array.fill)

    def _note(self, array: NDArray[Any]) -> None:
        # Once there is something else, there is no need to look any more.
        if self._is_filled:
            raw = np.frombuffer(view_as_bytes(array, self.target.layout), np.uint8)
            self._is_filled = not self.target.has_any(self.name, raw)


@dataclass(slots=True)
class _ChunkWriter(ChunkWriter):
    """One visit to a chunk in a file of its own."""

    target: ZarrTarget
    name: str
    shape: tuple[int, ...]
    padding: Padding
    checksum: int = NOTHING

    def write_raw(self, raw: NDArray[np.uint8], staging: memoryview) -> None:
        """Encode and write it."""
        encoded = self.target.encode(raw)
        pieces = iter(() if encoded is None else (encoded,))
        self.checksum = self.target.write_file(self.name, pieces, staging)


@dataclass(slots=True)
class _PieceWriter(WholeWriter):
    """One visit to a chunk that is put together, encoded and written piece by piece."""

    target: ZarrTarget
    name: str
    shape: tuple[int, ...]
    padding: Padding
    checksum: int = NOTHING

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Encode and write all of it."""

        def fill(part: Region, values: NDArray[Any]) -> None:
            inside: tuple[Any, ...] = (..., *part.slices)
            values[...] = array[inside].view(values.dtype)

        self.write_filled(region, staging, fill)

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Put one piece after another together, encode and write it."""
        assert region.shape == self.shape, "a part of a chunk would be read, changed and rewritten"
        scratch, rest = cut(staging, self.target.piece_bytes)
        # Mostly the first one tells that it is to be stored.
        if not self.target.is_left_out(self.padding.pieces(region, scratch, fill)):
            pieces = self.padding.pieces(region, scratch, fill)
            self.checksum = self.target.write_pieces(self.name, pieces, rest)


@dataclass(slots=True)
class _ShardWriter(WholeWriter):
    """One visit to a shard, whose chunks are encoded one by one."""

    target: ZarrTarget
    name: str
    shape: tuple[int, ...]
    padding: Padding
    checksum: int = NOTHING

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Encode and write all of it."""
        assert region.shape == self.shape, "a part of a shard would be read, changed and rewritten"
        target, padding = self.target, self.padding
        scratch, rest = cut(staging, padding.n_bytes)
        pieces = pack(array, target.array, lambda chunk: target.encode(padding.pad(chunk, scratch)))
        if target.writes_whole:
            # All of them are kept until the last one is there.
            pieces = (lasting(piece, scratch) for piece in pieces)
        self.checksum = target.write_file(self.name, pieces, rest)
