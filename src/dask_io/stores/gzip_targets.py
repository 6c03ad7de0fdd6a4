"""Writing block files, or one file, compressed with gzip.

A file is a sequence of gzip members, each with its size in its header. Every gzip reader decodes
them as one stream, and `GzipFiles` decodes them one by one and in parallel.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64

from dask_io.codecs.deflate import ENCODING_BYTES
from dask_io.errors import DataError, StorageError
from dask_io.geometry import Region
from dask_io.journal.one_file_target import OneFileTarget
from dask_io.storage.files import open_reader
from dask_io.storage.medium import Durability
from dask_io.storage.tally import Tally
from dask_io.stores.addressable import view_as_bytes
from dask_io.stores.atomic import WholeWriter
from dask_io.stores.block_files import BlockFiles, BlockStore
from dask_io.stores.block_files_target import BlockFilesTarget
from dask_io.stores.container import on_disk
from dask_io.stores.gzip_files import (
    CODEC,
    GzipFiles,
    cut_into_slabs,
    known_level,
    members_in,
    slab_shape,
    written_files,
)
from dask_io.stores.gzip_stream import content_of, longest_member, make_member, member_of
from dask_io.stores.staging import room_for
from dask_io.stores.store import Access, Footprint, TargetDefaults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from numpy.typing import NDArray

    from dask_io.journal.ledger import Ledger
    from dask_io.storage.medium import Reader
    from dask_io.stores.block_files import Blocks
    from dask_io.stores.block_format import Format, Header, Peek
    from dask_io.stores.encoded import AsStored
    from dask_io.stores.store import Source, Target

_USUAL_LEVEL = 6
_PIECE = 2**18


@dataclass(frozen=True, slots=True)
class Gzip:
    """Reads and writes files that are gzip streams; see `Streamed`.

    Files with a plain header before the stream (`after_header`) are only read.
    """

    after_header: bool = False

    def encode_header(self, header: bytes) -> bytes:
        """Return a new header as its file stores it."""
        return header if self.after_header else make_member(header, 1)

    def open(self, files: BlockFiles) -> Source:
        """Return the source for files whose names and headers have been checked."""
        return GzipFiles(files, after_header=self.after_header)

    def read_back(self, files: BlockFiles) -> AsStored:
        """Open written files, to verify their checksums."""
        return written_files(files)

    def make(
        self, blocks: Blocks, *, overwrite: bool, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target."""
        assert not self.after_header, "data after a plain header is not compressed"
        if blocks.is_one_file:
            return GzipFileTarget(blocks, overwrite=overwrite, durability=durability)
        return GzipBlocksTarget(blocks, overwrite=overwrite, durability=durability, reserve=reserve)


def gzip_variant(format: Format, *suffixes: str) -> Format:  # noqa: A002 - the word that users know
    """Return the format of files that are compressed as a whole, each with its header."""
    parse = partial(_parse_in_gzip, format.parse_header)
    return replace(format, suffixes=suffixes, parse_header=parse, stream=Gzip(), variants=())


def _parse_in_gzip(parse_header: Callable[[Peek], Header], peek: Peek) -> Header:
    return parse_header(partial(content_of, peek))


def level_of(blocks: Blocks) -> int:
    """Return the level at which a target is compressed."""
    level = known_level(blocks.spec.metadata)
    return _USUAL_LEVEL if level is None else level


def _metadata_of(blocks: Blocks) -> Mapping[str, Any]:
    return {**blocks.spec.described, "codecs": [{"id": CODEC, "level": level_of(blocks)}]}


def _slab_bytes(blocks: Blocks) -> int:
    itemsize = blocks.dtype.itemsize
    return prod(slab_shape(blocks.grid.longest, blocks.layout, itemsize)) * itemsize


def _encoding_bytes(blocks: Blocks) -> int:
    """Return the bytes needed to compress a slab: the member and the compressor's memory."""
    return longest_member(_slab_bytes(blocks)) + ENCODING_BYTES


class GzipBlocksTarget(BlockFilesTarget):
    """A target whose blocks become gzip files; any number may be written at once."""

    @property
    def access(self) -> Access:
        """A block is compressed as a whole."""
        return Access.ATOMIC

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the files, and how they are compressed."""
        return _metadata_of(self._blocks)

    @property
    def reused_bytes(self) -> int:
        """Staging bytes of a visit: a block."""
        return room_for(prod(self.grid.longest) * self.dtype.itemsize)

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds: a compressed slab, and a file that is written whole."""
        n_bytes = prod(self.grid.longest) * self.dtype.itemsize
        longest = longest_member(len(self._header(Region.whole(self.grid.longest))) + n_bytes)
        return _encoding_bytes(self._blocks) + self._medium.bytes_to_write(longest)

    def writer(self, index: tuple[int, ...]) -> BlockWriter:  # type: ignore[override]
        """Visit an unfinished block."""
        return BlockWriter(self, index)

    def write_block(self, index: tuple[int, ...], content: memoryview) -> int:
        """Compress a block and write its file, and return the checksum of the file."""
        blocks, level, offset = self._blocks, level_of(self._blocks), 0
        slab, name = _slab_bytes(blocks), self._name_of(index)
        with self._write_file(name, self.tally) as file:
            header = make_member(self._header(self.grid.block(index)), level)
            members = (
                member_of(content[at : at + slab], level) for at in range(0, len(content), slab)
            )
            file.write(0, memoryview(header))
            offset += len(header)
            for member in members:
                for piece in member:
                    file.write(offset, memoryview(piece))
                    offset += len(piece)
        return file.checksum

    def look_back(self) -> AsStored:  # type: ignore[override]
        """Open the written blocks."""
        return written_files(super().look_back())

    def _file_of(self, index: tuple[int, ...]) -> tuple[str, int | None]:  # type: ignore[override]
        return self._name_of(index), None


class BlockWriter(WholeWriter):
    """One visit to a block or a slab that is compressed as a whole."""

    def __init__(self, target: GzipBlocksTarget | GzipFileTarget, index: tuple[int, ...]) -> None:
        self.target, self._index = target, index
        self._shape = target.grid.block(index).shape
        self.checksum = 0

    def __enter__(self) -> BlockWriter:  # noqa: PYI034 - it has no subclasses
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is open between calls."""

    def write_from(
        self,
        region: Region,
        array: NDArray[Any],
        staging: memoryview,  # noqa: ARG002 - it is compressed from where it lies
    ) -> None:
        """Compress and write all of it."""
        assert region.shape == self._shape, "a part of a block cannot be compressed"
        content = view_as_bytes(array, self.target.layout)
        self.checksum = self.target.write_block(self._index, content)  # type: ignore[attr-defined]


class GzipFileTarget(BlockStore, TargetDefaults, OneFileTarget):
    """A target that becomes one gzip file, in slabs that are compressed by any number of threads.

    Members are written as soon as they are compressed. If that is not the order of the data, the
    file is rewritten in order at the end, which needs disk space for a second copy. Another run
    cannot continue an unfinished file.
    """

    is_indivisible = True

    def __init__(self, blocks: Blocks, *, overwrite: bool, durability: Durability) -> None:
        BlockStore.__init__(self, blocks)
        on_disk(blocks.folder, blocks.format.name)
        self.grid = cut_into_slabs(blocks.grid, blocks.layout, blocks.dtype.itemsize)
        self._header = blocks.header_of(Region.whole(blocks.grid.shape))
        self._lock = Lock()
        OneFileTarget.__init__(
            self, blocks.path, is_one_file=True, overwrite=overwrite, durability=durability
        )

    def __reduce__(self) -> tuple[Any, ...]:
        make = partial(type(self), overwrite=self._overwrite, durability=self.durability)
        return make, (self._blocks,)

    def _forget_run(self) -> None:
        super()._forget_run()
        # Offset and size of each member, by the offset of its decoded content.
        self._members: dict[int, tuple[int, int]] = {}
        self._end = 0

    def create(self, job: bytes = b"{}") -> None:
        """Create the target, and remove what a killed run has left."""
        super().create(job)
        self._remove_sorted_copy()

    def resume(self) -> Ledger:
        """Continue where an interrupted run ended, and remove what it has left."""
        ledger = super().resume()
        self._remove_sorted_copy()
        return ledger

    def _remove_sorted_copy(self) -> None:
        """Remove the incomplete copy of a run that was killed while it sorted the members."""
        path = self._publisher.partial(self._name)
        copy = self._medium.publisher(path.parent, Durability.FSYNC).partial(path.name)
        with suppress(OSError, StorageError):
            self._medium.remove([copy])

    @property
    def footprint(self) -> Footprint:
        """One file, whatever the number of slabs."""
        return Footprint(1)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the file, and how it is compressed."""
        return _metadata_of(self._blocks)

    @property
    def access(self) -> Access:
        """A slab is compressed as a whole."""
        return Access.ATOMIC

    @property
    def reused_bytes(self) -> int:
        """Staging bytes of a visit: a slab."""
        return room_for(prod(self.grid.longest) * self.dtype.itemsize)

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds: a compressed slab."""
        return _encoding_bytes(self._blocks)

    def writer(self, index: tuple[int, ...]) -> BlockWriter:
        """Visit an unfinished slab."""
        return BlockWriter(self, index)

    def write_block(self, index: tuple[int, ...], content: memoryview) -> int:
        """Compress a slab, append it to the file, and return the checksum of its member."""
        position = self._position_of(self.grid.block(index))
        member = member_of(content, level_of(self._blocks))
        n_bytes = sum(map(len, member))
        offset = self._reserve(position, n_bytes)
        found = xxh3_64()
        with self._write_file(self._name, self.tally) as file:
            for piece in member:
                file.write(offset, memoryview(piece))
                found.update(piece)
                offset += len(piece)
        return found.intdigest()

    def _position_of(self, region: Region) -> int:
        first = self.layout.stored(region, self.grid.shape).first
        return len(self._header) + first * self.dtype.itemsize

    def _reserve(self, position: int, n_bytes: int) -> int:
        """Return the offset for a member; the header always comes first."""
        with self._lock:
            if not self._members:
                header = make_member(self._header, level_of(self._blocks))
                self._members[0] = (0, len(header))
                self._end = len(header)
                with self._write_file(self._name, Tally()) as file:
                    file.write(0, memoryview(header))
            if position == 0:
                return 0
            offset, self._end = self._end, self._end + n_bytes
            self._members[position] = (offset, n_bytes)
            return offset

    def look_back(self) -> AsStored:
        """Open the written file."""
        absent = frozenset(self._blocks.grid.indices())
        return written_files(BlockFiles(self._blocks, {}, absent=absent))

    def _open_again(self) -> bool:
        """Take over a file that was complete."""
        n_bytes = self._position_of_end
        path = self._publisher.partial(self._name)
        try:
            with open_reader(path, Tally()) as file:
                found = members_in(file, n_bytes)
                size = file.size
        except (DataError, StorageError):
            return False
        starts = sorted(found)
        self._members = {
            start: (found[start], found[stop] - found[start]) for start, stop in pairwise(starts)
        }
        self._end = size
        return bool(found)

    @property
    def _position_of_end(self) -> int:
        return len(self._header) + self.grid.size * self.dtype.itemsize

    def _close_file(self) -> None:
        """Rewrite the file with its members in the order of the data."""
        self._reserve(0, 0)
        ordered = [self._members[position] for position in sorted(self._members)]
        if ordered == sorted(ordered):
            return
        path = self._publisher.partial(self._name)
        with open_reader(path, Tally()) as file:
            self._medium.write_pieces(path, self._end, partial(_pieces, file, ordered))


def _pieces(file: Reader, members: list[tuple[int, int]]) -> Iterator[bytes]:
    """Yield the content of members, a piece at a time."""
    for offset, n_bytes in members:
        for at in range(0, n_bytes, _PIECE):
            length = min(_PIECE, n_bytes - at)
            yield bytes(file.read(offset + at, length, memoryview(bytearray(length))))
