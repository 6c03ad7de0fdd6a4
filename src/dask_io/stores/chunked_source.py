"""The source for arrays in chunks, of any format.

A format describes the array as an `ArraySpec` and locates its chunks through `Chunks`. Reading,
decoding, padding, shards, missing chunks and checks are the same for all formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from xxhash import xxh3_64_intdigest

from dask_io.errors import DataError, UsageError
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Tally, Visit
from dask_io.stores.addressable import AddressableReader
from dask_io.stores.atomic import AtomicReader, bytes_to_decode
from dask_io.stores.encoded import AsStored, StoredBytes
from dask_io.stores.filled import FilledReader, UnfilledReader
from dask_io.stores.listing import Problems
from dask_io.stores.padded import PaddedReader, is_padded, stretches
from dask_io.stores.shards import Shards
from dask_io.stores.store import Access, Extent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Reader
    from dask_io.stores.spec import ArraySpec
    from dask_io.stores.store import BlockReader


class Located(NamedTuple):
    """Where the bytes of a chunk or a shard are.

    Attributes
    ----------
    path
        The file or object; a string if there may be many.
    n_bytes
        Number of bytes.
    offset
        Where they begin in the file.
    mark
        Changes when the file is replaced, such as its time of modification.
    decode
        How to decode this chunk, if it is not encoded like the others.
    """

    path: Location | str
    n_bytes: int
    offset: int = 0
    mark: str = ""
    decode: Callable[[NDArray[np.uint8], NDArray[np.uint8]], None] | None = None

    @property
    def name(self) -> str:
        """Name of the file or object, without its folder."""
        return str(self.path).rpartition("/")[2]


class Chunks(ABC):
    """The stored chunks of one array. A format defines where they are and how to open them.

    Indices count chunks, or shards if the array has them. Instances are shared between threads
    and pickled.
    """

    format: str
    """Name of the format."""
    is_indivisible: bool = True
    """Whether single chunks cannot be removed."""
    is_written_whole: bool = False
    """Whether files are written whole, so that checksums cover the stored bytes."""
    reads_into_staging: bool = True
    """Whether readers use the given buffer, not memory of a library."""
    bytes_to_read: int = 0
    """Bytes of other memory that a reader holds at most."""
    spec: ArraySpec
    """Description of the array."""
    path: Any
    """The file or directory of the array: a `Location`, or a `Path` if it is always local."""

    @property
    def place(self) -> str:
        """Path or address of the array, for messages."""
        return str(self.path)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """All metadata of the array."""
        return self.spec.described

    @property
    @abstractmethod
    def n_bytes_on_disk(self) -> int:
        """Bytes that the array occupies."""

    @property
    @abstractmethod
    def n_stored(self) -> int | None:
        """Number of stored chunks, or shards; None if it takes too long to count them."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return plain values from which the format can open the array again."""

    @abstractmethod
    def locate(self, index: tuple[int, ...]) -> Located | None:
        """Return where a chunk or a shard is, None if it is not stored."""

    @abstractmethod
    def open(self, located: Located, tally: Tally) -> AbstractContextManager[Reader]:
        """Open the file or object that contains a chunk."""

    def identify(self, index: tuple[int, ...]) -> str:  # noqa: ARG002 - all are in one file
        """Return a text that changes when a chunk or a shard does; if all are in one file, with it.

        Raises
        ------
        StorageError
            If the file does not exist.
        """
        with storage_errors(self.path):
            found = self.path.stat()
        return f"{found.st_size}\0{found.st_mtime_ns}"

    def unchecked(self) -> Iterable[tuple[str, tuple[int, ...]]]:
        """Yield name and index of stored chunks whose sizes have not been checked yet."""
        return ()

    def list_again(self) -> None:  # noqa: B027 - only object stores are listed
        """Drop any cached listing of the chunks."""

    def discard(self, index: tuple[int, ...]) -> None:  # noqa: ARG002 - most formats cannot
        """Remove a chunk or a shard for good."""
        raise UsageError(f"{self.format} cannot remove single chunks, so it cannot be consumed")

    def discard_rest(self) -> None:  # noqa: B027 - if chunks can be removed
        """Remove the metadata of the array after all chunks have been removed."""


C_co = TypeVar("C_co", bound=Chunks, covariant=True)


class ChunkedSource(Generic[C_co]):
    """An array in chunks that is read; any number of chunks may be read at once.

    A chunk that is not stored has the fill value and costs no visit. If the source is `strict`, a
    missing chunk is an error.
    """

    block_names = None
    is_sequential = False
    calls_functions = False

    def __init__(self, chunks: C_co, *, strict: bool = False) -> None:
        spec = chunks.spec
        self.chunks, self.spec, self.strict, self.tally = chunks, spec, strict, Tally()
        self.grid: Grid = spec.grid
        self.dtype: np.dtype[Any] = spec.dtype
        self.layout: Layout = spec.layout
        self.access: Access = spec.access
        self.encoding = spec.encoding
        self.place, self.format = chunks.place, chunks.format
        self.is_indivisible, self.copying_bytes = chunks.is_indivisible, chunks.bytes_to_read
        self._shards = Shards(spec.index, chunks.open) if spec.index else None
        self._left = _Left(spec)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """All metadata of the array."""
        return self.chunks.metadata

    @property
    def reused_bytes(self) -> int:
        """Staging bytes of a visit, apart from the region that is read."""
        if self.access is Access.ADDRESSABLE:
            return self.spec.scratch_bytes
        encoded = self.spec.longest if self.chunks.reads_into_staging else 0
        return bytes_to_decode(self.spec.chunk_bytes, encoded)

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds at most."""
        codec = self.spec.codec
        return self.chunks.bytes_to_read + (codec.decoding_bytes if codec else 0)

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes that the array occupies."""
        return self.chunks.n_bytes_on_disk

    @property
    def n_absent(self) -> int | None:
        """Number of chunks that are not stored; None if unknown, as in shards."""
        n_stored = None if self._shards else self.chunks.n_stored
        return None if n_stored is None else self.grid.n_blocks - n_stored

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the format can open the array again."""
        return {**self.chunks.describe(), "strict": self.strict}

    @contextmanager
    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> Iterator[BlockReader]:
        """Visit a chunk.

        Raises
        ------
        DataError
            If its size is wrong, or it is missing and the source is strict.
        """
        spec, located = self.spec, self._find(index)
        if located is None:
            yield FilledReader(spec.fill, spec.layout)
            return
        shape = self.grid.block(index).shape
        with self.chunks.open(located, self.tally) as file:
            if self.access is Access.ADDRESSABLE:
                yield self._run_reader(file, located, shape, after)
                return
            if after is not None:
                file.go_on_from(located.offset)
            yield AtomicReader(file, located, shape, spec)

    def _run_reader(
        self, file: Reader, located: Located, shape: tuple[int, ...], after: Region | None
    ) -> BlockReader:
        spec, dtype, layout = self.spec, self.dtype, self.layout
        stored = spec.chunks
        padded = is_padded(shape, stored, layout)
        if after is not None:
            end = layout.end_of(after, stored)
            if padded:
                end = [*stretches(after, shape, stored, layout)][-1].stop
            file.go_on_from(located.offset + end * dtype.itemsize)
        extent = Extent("", located.offset, stored)
        reader: AddressableReader | PaddedReader = (
            PaddedReader(shape, extent, dtype, layout, file)
            if padded
            else AddressableReader(file, extent, dtype, layout)
        )
        return UnfilledReader(reader, spec.fill, layout) if spec.omits_fill else reader

    def _find(self, index: tuple[int, ...]) -> Located | None:
        """Return where a chunk is; None if it is not stored and need not be."""
        shards = self._shards
        if shards is None:
            located = self.chunks.locate(index)
        else:
            shard = self.chunks.locate(self._file_of(index))
            located = None if shard is None else shards.find(index, shard)
        if located is None:
            self._refuse_missing(index)
        elif problem := self._wrong_size(located.n_bytes):
            raise DataError(str(located.path), [problem])
        return located

    def _file_of(self, index: tuple[int, ...]) -> tuple[int, ...]:
        return self.spec.index.shard_of(index) if self.spec.index else index

    def _refuse_missing(self, index: tuple[int, ...]) -> None:
        if self.strict:
            missing = f"chunk {','.join(map(str, index))} is missing"
            raise DataError(self.place, [missing], "leave out --strict to fill it in")

    def _wrong_size(self, n_bytes: int) -> str:
        """Return why a chunk cannot have this size; empty if it can."""
        right = self.spec.longest
        if self.access is Access.ADDRESSABLE and n_bytes < right:
            return f"is truncated: its chunk has {n_bytes} bytes, expected {right}"
        if n_bytes > right:
            return f"is too long: its chunk has {n_bytes} bytes, expected {right} at most"
        return ""

    @property
    def encoded_grid(self) -> Grid:
        """The chunks or shards."""
        return self.spec.write_grid

    @contextmanager
    def encoded(self, index: tuple[int, ...]) -> Iterator[StoredBytes | None]:
        """Visit the stored bytes of a chunk or a shard; None if it is not stored.

        Raises
        ------
        DataError
            If its size is wrong, or it is missing and the source is strict.
        """
        located = self.chunks.locate(index)
        if located is None:
            self._refuse_missing(index)
            yield None
            return
        path, n_bytes, longest = str(located.path), located.n_bytes, self.spec.longest_file
        if self._shards is None and (problem := self._wrong_size(n_bytes)):
            raise DataError(path, [problem])
        if n_bytes > longest:
            # A shard may contain gaps, but it must fit into memory.
            problem = f"is too long: it has {n_bytes} bytes, expected {longest} at most"
            raise DataError(path, [problem], "choose another strategy than copy")
        with self.chunks.open(located, self.tally) as file:
            yield StoredBytes(file, n_bytes, located.offset)

    @contextmanager
    def find_stored(self, index: tuple[int, ...]) -> Iterator[StoredBytes | None]:
        """Visit the stored bytes of a chunk or a shard, of any size; None if it is not stored."""
        located = self.chunks.locate(index)
        if located is None:
            yield None
            return
        with self.chunks.open(located, self.tally) as file:
            yield StoredBytes(file, located.n_bytes, located.offset)

    def as_written(self) -> ChunkedSource[C_co] | AsStored:
        """Return the array with the blocks in which it was written, to verify their checksums."""
        if self._shards is None and not self.chunks.is_written_whole:
            return self
        return AsStored(self.spec.write_grid, self.dtype, self.tally, self.find_stored)

    def check(self) -> None:
        """Check the size of every chunk, and the index of every shard.

        Raises
        ------
        DataError
            If chunks are damaged, or missing and the source is strict; it lists them.
        """
        problems, n_found = Problems(self.place), 0
        for name, index in self.chunks.unchecked():
            n_found += 1
            for problem in self._problems_with(index):
                problems.add(name, problem)
        if self.strict:
            n_stored, n_blocks = self.chunks.n_stored, self.spec.write_grid.n_blocks
            n_missing = n_blocks - (n_found if n_stored is None else n_stored)
            if n_missing:
                problems.add(".", f"{n_missing} of {n_blocks} chunks are missing")
        problems.raise_if_any()

    def _problems_with(self, index: tuple[int, ...]) -> Iterator[str]:
        try:
            located = self.chunks.locate(index)
            if located is not None:
                sizes = self._shards.sizes(located) if self._shards else iter([located.n_bytes])
                yield from filter(None, map(self._wrong_size, sizes))
        except DataError as error:
            yield "; ".join(error.problems)

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a chunk does; those of a shard change together."""
        identity = self.chunks.identify(self._file_of(index))
        return xxh3_64_intdigest(f"{index}\0{identity}".encode())

    def list_again(self) -> None:
        """Drop any cached listing of the chunks."""
        self.chunks.list_again()

    def describe_in_place(self) -> None:
        """Do nothing: the format's metadata states the shape."""

    def discard(self, index: tuple[int, ...]) -> None:
        """Remove a chunk, or its shard with the last chunk that is needed from it."""
        if self._left.is_last(index):
            self.chunks.discard(self._file_of(index))

    def discard_rest(self) -> None:
        """Remove the metadata of the array after all chunks have been removed."""
        self.chunks.discard_rest()


class _Left:
    """Counts the chunks of each shard that are still needed; safe to share between threads."""

    def __init__(self, spec: ArraySpec) -> None:
        self._spec = spec
        self._n_left: dict[tuple[int, ...], int] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[_Left], tuple[ArraySpec]]:
        # Locks cannot be pickled.
        return _Left, (self._spec,)

    def is_last(self, index: tuple[int, ...]) -> bool:
        """Count a chunk as no longer needed; tell whether its file is not needed either."""
        if self._spec.index is None:
            return True
        shard = self._spec.index.shard_of(index)
        with self._lock:
            n_left = self._n_left.pop(shard, None) or self._count(shard)
            if n_left > 1:
                self._n_left[shard] = n_left - 1
            return n_left == 1

    def _count(self, shard: tuple[int, ...]) -> int:
        """Return how many chunks a shard has: fewer at the edge of the array."""
        spec = self._spec
        lengths = zip(spec.write_grid.block(shard).shape, spec.chunks, strict=True)
        return prod(-(-length // chunk) for length, chunk in lengths)


class FetchedBytes(Visit):
    """One visit to bytes that a library returns in memory of its own.

    `fetch` returns the bytes between two offsets, or fewer at the end.
    """

    def __init__(
        self, place: str, size: int, fetch: Callable[[int, int], memoryview], tally: Tally
    ) -> None:
        super().__init__(tally, tally.read)
        self._place, self.size, self._fetch = place, size, fetch

    def expect(self, start: int, stop: int) -> None:
        """Do nothing: the library decides what to read at once."""

    def peek(self, n_bytes: int) -> bytes:
        """Return the first bytes, without counting."""
        return bytes(self._fetch(0, n_bytes))

    def peek_into(
        self,
        buffer: memoryview,  # noqa: ARG002 - the library has its own memory
        n_bytes: int,
        *,
        to_end: bool = False,  # noqa: ARG002 - the size is known
    ) -> memoryview:
        """Return the first bytes, without counting."""
        return self._fetch(0, n_bytes)

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:  # noqa: ARG002 - as above
        """Return bytes at an offset.

        Raises
        ------
        DataError
            If there are fewer.
        """
        self.count(offset, n_bytes)
        found = self._fetch(offset, offset + n_bytes)
        if len(found) < n_bytes:
            problem = f"ends {n_bytes - len(found)} bytes before the data does"
            raise DataError(self._place, [problem], "it is damaged")
        return found

    def read_runs(self, runs: Iterable[tuple[int, int]], buffer: memoryview) -> None:
        """Read runs, each an offset and a number of bytes, into a buffer."""
        for offset, n_bytes in runs:
            buffer[:n_bytes] = self.read(offset, n_bytes, buffer)
            buffer = buffer[n_bytes:]
