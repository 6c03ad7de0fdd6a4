"""Reading block files, or one file, compressed with gzip: entirely, or only after their headers.

gzip has no random access, so a file is cut into slabs along its slowest axis. A slab is decoded as
a whole, from the nearest point before it. A run that goes forward decodes every file once.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import Z_BEST_COMPRESSION

from dask_io.errors import DataError
from dask_io.geometry import Axis, Grid
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.tally import Tally
from dask_io.stores.addressable import checksum_of, view_as_array
from dask_io.stores.block_format import ENCODING
from dask_io.stores.encoded import AsStored, StoredBytes
from dask_io.stores.gzip_stream import (
    DECODER_BYTES,
    INPUT_BYTES,
    MOST_RATIO,
    STATE_BYTES,
    GzipStream,
)
from dask_io.stores.staging import cut, room_for
from dask_io.stores.store import Access, SourceDefaults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.geometry import Layout, Region
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Reader
    from dask_io.stores.block_files import BlockFiles
    from dask_io.stores.block_names import BlockNames
    from dask_io.stores.store import BlockReader

SLAB_BYTES = 2 * 2**20
"""A slab of several planes has at most this many bytes."""
PLANE_BYTES = 8 * 2**20
"""A single plane may have this many."""
CODEC = "gzip"
LEVEL = "gzip_level"
"""Key of the compression level in the metadata of an array."""
# Streams whose decoders are kept, and decoders for all of them.
_MOST_STREAMS = 4
_MOST_POINTS = 64
_AT_ONCE = 2**20
_LEAST_SIZE = 2**10


def known_level(metadata: Mapping[str, Any]) -> int | None:
    """Return the compression level in the metadata of an array, None if it has no valid one."""
    level = metadata.get(LEVEL)
    return level if type(level) is int and 0 <= level <= Z_BEST_COMPRESSION else None


def slab_shape(shape: tuple[int, ...], layout: Layout, itemsize: int) -> tuple[int, ...]:
    """Return the largest slab that is one run of a block in storage order, up to `SLAB_BYTES`.

    A single plane across the slowest axis may be larger, up to `PLANE_BYTES`: if planes were cut,
    plans would go back and forth between their parts.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> slab_shape((512, 512, 300), Layout.f(3), 2)
    (512, 512, 4)
    >>> slab_shape((4096, 4096, 300), Layout.f(3), 2)
    (4096, 256, 1)
    >>> slab_shape((149, 169, 154, 121), Layout.f(4), 1)
    (149, 169, 154, 1)
    """
    slowest = next((axis for axis in layout.axes if shape[axis] > 1), 0)
    plane = tuple(1 if axis == slowest else length for axis, length in enumerate(shape))
    if SLAB_BYTES < prod(plane) * itemsize <= PLANE_BYTES:
        return plane
    found, left = list(shape), max(1, SLAB_BYTES // itemsize)
    for axis in reversed(layout.axes):
        found[axis] = min(shape[axis], max(1, left))
        is_whole = found[axis] == shape[axis]
        left = left // max(1, found[axis]) if is_whole else 0
    return tuple(found)


def cut_into_slabs(grid: Grid, layout: Layout, itemsize: int) -> Grid:
    """Cut every block of a grid into slabs."""
    slab = slab_shape(grid.longest, layout, itemsize)
    return Grid(tuple(map(_cut_axis, grid.axes, slab)))


def _cut_axis(axis: Axis, most: int) -> Axis:
    if axis.longest <= most:
        return axis
    runs: list[tuple[int, int]] = []
    for length, count in axis.runs:
        cut_block = Axis.regular(length, most).runs
        # Blocks that are cut evenly, or not at all, stay one run.
        if len(cut_block) == 1:
            runs.append((cut_block[0][0], cut_block[0][1] * count))
        else:
            runs.extend(cut_block * count)
    return Axis(tuple(runs))


class GzipFiles(SourceDefaults):
    """A source of gzip files; any number of slabs may be read at once.

    Data that has not been reached yet is decoded by one thread at a time.

    Parameters
    ----------
    files
        The files, whose names and headers have been checked.
    after_header
        Whether the headers are not compressed, so that a stream begins where the data does. It may
        be a zlib stream then.
    """

    is_sequential = True

    def __init__(self, files: BlockFiles, *, after_header: bool = False) -> None:
        self._files, self._after_header = files, after_header
        blocks = files.blocks
        self.dtype, self.layout = blocks.dtype, blocks.layout
        if files.n_bytes_on_disk:
            n_bytes = blocks.grid.size * self.dtype.itemsize
            _refuse_bomb(files.place, files.n_bytes_on_disk, n_bytes)
        self.grid = cut_into_slabs(blocks.grid, self.layout, self.dtype.itemsize)
        # Slabs of a file cannot be removed alone.
        self.is_indivisible = self.grid != blocks.grid
        self.tally = Tally()
        self.n_bytes_on_disk = files.n_bytes_on_disk
        self._streams: dict[tuple[int, ...], GzipStream] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), after_header=self._after_header), (self._files,)

    @property
    def place(self) -> str:
        """The path."""
        return self._files.place

    @property
    def format(self) -> str:
        """Name of the format."""
        return self._files.format

    @property
    def access(self) -> Access:
        """A slab is decoded as a whole."""
        return Access.ATOMIC

    @property
    def n_files(self) -> int:
        """Number of files."""
        return self._files.grid.n_blocks

    @property
    def note(self) -> str:
        """Explain the cost of reading out of order."""
        return (
            "gzip has no random access: a file is decoded forward in slabs, and going back costs "
            "decoding again from the nearest point before"
        )

    @property
    def reused_bytes(self) -> int:
        """Staging bytes of a visit: a slab."""
        return room_for(prod(self.grid.longest) * self.dtype.itemsize) + 2 * ALIGNMENT

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds, including the saved states of decoders."""
        n_bytes = prod(self._files.grid.longest) * self.dtype.itemsize
        n_points = min(_MOST_POINTS, n_bytes // _AT_ONCE) if self.is_indivisible else 0
        states = n_points * STATE_BYTES + (1 + _MOST_STREAMS) * DECODER_BYTES
        return states + 2 * INPUT_BYTES + _AT_ONCE

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the files, and how they are compressed."""
        known = self._files.metadata
        level = known_level(known)
        # A gzip stream does not record its level; a manifest may.
        codec = {"id": known.get(ENCODING, CODEC), **({} if level is None else {"level": level})}
        return {**known, "codecs": [codec], "note": self.note}

    @property
    def block_names(self) -> BlockNames | None:
        """The pattern of the files; None if there is only one file."""
        return self._files.block_names

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the files can be opened again."""
        return self._files.describe()

    @contextmanager
    def reader(
        self,
        index: tuple[int, ...],
        *,
        after: Region | None = None,  # noqa: ARG002 - a slab is read by one thread
    ) -> Iterator[BlockReader]:
        """Visit a slab."""
        region = self.grid.block(index)
        number = self._files.grid.index_at(region.start)
        block = self._files.grid.block(number)
        offset = self._files.offset_of(number)
        within = region.relative_to(block.start)
        first = self.layout.stored(within, block.shape).first
        # The offset is one in the file if the header is not compressed, else one in the content.
        start, before = (offset, 0) if self._after_header else (0, offset)
        begin = before + first * self.dtype.itemsize
        n_bytes = block.size * self.dtype.itemsize
        with self._files.open_file(number, self.tally) as file:
            format_ = self._files.blocks.format
            stream = self._stream_of(
                number,
                GzipStream(
                    file.size,
                    before + n_bytes,
                    start=start,
                    most_after=format_.size_of_data(n_bytes) - n_bytes + format_.most_after,
                    may_be_zlib=self._after_header,
                ),
            )
            part = _Part(self._files.path_of(number), begin, region.shape)
            yield GzipReader(self, part, file, stream)

    def _stream_of(self, number: tuple[int, ...], new: GzipStream) -> GzipStream:
        """Return the stream of a file: a new one, or that of earlier visits with its states."""
        place = str(self._files.path_of(number))
        if not self.is_indivisible:
            # The file is read in one pass, so no decoder states are saved.
            _refuse_bomb(place, new.size, new.n_bytes)
            new.most_points = 0
            return new
        with self._lock:
            found = self._streams.get(number)
            if found is None or found.size != new.size:
                _refuse_bomb(place, new.size, new.n_bytes)
                is_one = self._files.grid.n_blocks == 1
                found = new
                found.most_points = _MOST_POINTS // (1 if is_one else _MOST_STREAMS)
                kept = list(self._streams.items())[-(_MOST_STREAMS - 1) :]
                self._streams = {**dict(kept), number: found}
        with self._files.open_file(number, Tally()) as looked_at:
            found.list_members(bytes_at(looked_at))
        return found

    def check(self) -> None:
        """Check the header of every file."""
        self._files.check()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when the file of a slab does."""
        return self._files.fingerprint(self._number_of(index))

    def list_again(self) -> None:
        """Drop the cached listing that is used to find objects."""
        self._files.list_again()

    def discard(self, index: tuple[int, ...]) -> None:
        """Remove a file."""
        assert not self.is_indivisible, "a slab of a file cannot be removed"
        self._files.discard(index)

    def discard_rest(self) -> None:
        """Remove manifest and journal, and the directory if nothing else is in it."""
        self._files.discard_rest()

    def describe_in_place(self) -> None:
        """Write a manifest, unless there is one."""
        self._files.describe_in_place()

    def _number_of(self, index: tuple[int, ...]) -> tuple[int, ...]:
        return self._files.grid.index_at(self.grid.block(index).start)


def _refuse_bomb(place: str, size: int, n_bytes: int) -> None:
    """Refuse data that no gzip stream of this size can hold."""
    if n_bytes > size * MOST_RATIO + _LEAST_SIZE:
        raise DataError(place, [f"has {size} bytes, which cannot be decoded to {n_bytes}"])


def bytes_at(file: Reader) -> Callable[[int, int], bytes]:
    """Return a function that reads some bytes from an offset on, fewer at the end."""

    def read(offset: int, n_bytes: int) -> bytes:
        n_bytes = min(n_bytes, file.size - offset)
        return bytes(file.read(offset, n_bytes, memoryview(bytearray(n_bytes))))

    return read


class _Part(NamedTuple):
    """Location of a slab: its file, the offset in the decoded content, and its shape."""

    path: Location
    begin: int
    shape: tuple[int, ...]


class GzipReader:
    """One visit to a slab, which is decoded once."""

    def __init__(self, source: GzipFiles, part: _Part, file: Reader, stream: GzipStream) -> None:
        self._source, self._part, self._file, self._stream = source, part, file, stream
        self._decoded: NDArray[Any] | None = None

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Return a view of a part of the decoded slab."""
        if self._decoded is None:
            dtype: np.dtype[Any] = self._source.dtype
            path, begin, shape = self._part
            decoded, _ = cut(buffer, prod(shape) * dtype.itemsize)
            try:
                self._stream.read(self._file, begin, decoded)
            except ValueError as error:
                raise DataError(str(path), [str(error)]) from error
            self._decoded = view_as_array(decoded, shape, dtype, self._source.layout)
        return self._decoded[region.slices]

    def expect(self, region: Region) -> None:
        """The slab is read whole."""

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of the decoded bytes."""
        dtype, layout = self._source.dtype, self._source.layout
        return checksum_of(self.read_into, region, staging, dtype, layout)


def written_files(files: BlockFiles) -> AsStored:
    """Open written gzip files as the blocks that were written: whole files, or members of one."""
    if files.blocks.is_one_file:
        return _written_members(files)

    @contextmanager
    def find(index: tuple[int, ...]) -> Iterator[StoredBytes | None]:
        with files.open_file(index) as file:
            yield StoredBytes(file, file.size)

    return AsStored(files.grid, files.dtype, files.tally, find)


def _written_members(files: BlockFiles) -> AsStored:
    number = (0,) * len(files.grid.axes)
    dtype, layout, shape = files.dtype, files.layout, files.grid.shape
    grid = cut_into_slabs(files.grid, layout, dtype.itemsize)
    offsets: dict[int, int] = {}

    @contextmanager
    def find(index: tuple[int, ...]) -> Iterator[StoredBytes | None]:
        begin, path = files.offset_of(number), files.path_of(number)
        with files.open_file(number) as file:
            if not offsets:
                offsets.update(members_in(file, begin + prod(shape) * dtype.itemsize))
            stored = layout.stored(grid.block(index), shape)
            first, last = (
                begin + n * dtype.itemsize for n in (stored.first, stored.first + stored.size)
            )
            if first not in offsets or last not in offsets:
                raise DataError(str(path), ["is compressed in another way than it was"])
            yield StoredBytes(file, offsets[last] - offsets[first], offsets[first])

    return AsStored(grid, dtype, files.tally, find)


def members_in(file: Reader, n_bytes: int) -> dict[int, int]:
    """Return the offsets of gzip members by the offsets of their decoded content.

    Empty if the members do not record their sizes.
    """
    stream = GzipStream(file.size, n_bytes)
    return stream.members if stream.list_members(bytes_at(file)) else {}
