"""Arrays in a directory with a metadata document and a file for each chunk.

This is for formats whose chunks need no library: they define the names and the codec of chunks, and
the document. The files are found, read, published, replaced and removed here.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from shlex import quote
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from dask_io.errors import DataError, StorageError, UsageError, list_names
from dask_io.journal.journal import is_unfinished, refuse_locked
from dask_io.journal.journalled_target import JournalledTarget
from dask_io.journal.logs import logs_of
from dask_io.storage.files import medium_of, write_whole
from dask_io.storage.location import is_taken, is_url
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import JOURNAL, whole_name
from dask_io.stores.chunk_finder import ChunkFinder
from dask_io.stores.chunked_source import Chunks, Located
from dask_io.stores.chunked_target import ChunkedTarget
from dask_io.stores.staging import room_for
from dask_io.stores.store import Access

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from dask_io.journal.ledger import Ledger
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability, Medium, Reader, Writer
    from dask_io.storage.tally import Tally
    from dask_io.stores.spec import ArraySpec

# The most chunks that are counted one by one when a run is planned.
_MOST_LISTED = 2**16
# Bytes of a file that are written at once.
_GATHERED = 2**20
# Marks an array from which a run has begun to remove chunks. Readers would see the fill value.
_CONSUMED = ".dask-io-consumed"


class ChunkNames(Protocol):
    """How the files of chunks are named. Can be pickled."""

    def name_of(self, index: tuple[int, ...]) -> str:
        """Return the path of a chunk or a shard within the directory."""

    def parse(self, name: str) -> tuple[int, ...] | None:
        """Return the index of the chunk with this path, None if it is not the path of a chunk."""


@dataclass(frozen=True)
class ChunkFolder:
    """The directory of an array.

    Attributes
    ----------
    path
        The directory.
    documents
        Names of the metadata documents, the main ones first.
    could_be_chunk
        Tells whether a path within the directory could be a chunk of an array of the format.
    """

    path: Location
    documents: tuple[str, ...]
    could_be_chunk: Callable[[str], bool]

    @property
    def medium(self) -> Medium:
        """The storage of the array: local disk or an object store."""
        return medium_of(self.path)

    def holds_anything(self) -> bool:
        """Tell whether the directory has content, or a file has its name."""
        if not self.path.is_dir():
            return is_taken(self.path)
        return bool(self.medium.names(self.path))

    def files(self) -> Iterator[tuple[str, int]]:
        """Yield path and size of every file in the directory; links are not followed."""
        for name, found in self.medium.files(self.path):
            yield name, found.size

    def old_files(self) -> list[Location]:
        """Return the files of an array that may be overwritten, the document first.

        Raises
        ------
        UsageError
            If the directory contains anything else.
        DataError
            If a run has begun to consume it: data that the run has not read would be lost.
        """
        self.refuse_consumed()
        if not self.path.is_dir():
            raise UsageError(f"{self.path} is a file, not an array to overwrite")
        journal = self.path / JOURNAL
        is_array = self._is_described() or logs_of(journal).exists(journal)
        files = [name for name, _ in self.files()]
        foreign = (name for name in files if not (is_array and self._is_part(name)))
        refuse_foreign(self.path, "an array", foreign)
        ordered = sorted(files, key=lambda name: name not in self.documents)
        return [self.path / name for name in ordered]

    def files_left(self) -> list[Location]:
        """Return the files that can be part of an array, and no others."""
        return [self.path / name for name, _ in self.files() if self._is_part(name)]

    def _is_part(self, name: str) -> bool:
        return is_part_of_array(name, self.documents, self.could_be_chunk)

    def _is_described(self) -> bool:
        return any((self.path / name).is_file() for name in self.documents)

    def mark_consumed(self) -> None:
        """Mark the array as incomplete, if it still exists."""
        if self._is_described():
            write_whole(self.path / _CONSUMED, b"")

    def refuse_consumed(self) -> None:
        """Refuse an array that has lost chunks.

        Raises
        ------
        DataError
            If a run has begun to remove chunks.
        """
        if (self.path / _CONSUMED).is_file():
            raise DataError(
                str(self.path),
                ["some of its chunks have been removed by a run with --consume"],
                "complete that run with dask-io resume and its target; if the target is complete, "
                "use it, and remove the rest of this array yourself",
            )

    def clear(self, chunks: Iterable[Location]) -> None:
        """Remove the remaining files of an array whose chunks have been removed, and no others."""
        with storage_errors(self.path):
            self.medium.remove(self.path / name for name in (*self.documents, _CONSUMED))
            logs_of(self.path).remove(self.path / JOURNAL)
            # Also the array's own directory, if it is empty now.
            self.medium.tidy(self.path.parent, [*chunks, self.path / JOURNAL])


class ChunkFiles(Chunks):
    """The chunks or shards of an array, each in a file or object of its own.

    A format adds `describe` and `decoder`.
    """

    is_indivisible = False

    def __init__(self, folder: ChunkFolder, spec: ArraySpec, names: ChunkNames) -> None:
        self.folder, self.spec, self.names, self.path = folder, spec, names, folder.path
        self.bytes_to_read = folder.medium.bytes_to_read
        self.is_written_whole = folder.medium.writes_whole
        self._forget()

    def _forget(self) -> None:
        self._finder = ChunkFinder(self.folder.medium, self.path)
        self._is_marked, self._lock = False, Lock()

    def __getstate__(self) -> dict[str, Any]:
        # Locks and open listings cannot be pickled.
        left_out = {"_finder", "_is_marked", "_lock"}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def decoder(self, index: tuple[int, ...]) -> Callable[[Any, Any], None] | None:  # noqa: ARG002 - most are alike
        """Return how to decode a chunk, None if it is decoded like the others."""
        return None

    @cached_property
    def n_bytes_on_disk(self) -> int:
        """Bytes of all files of the array."""
        return sum(size for _, size in self.folder.files())

    @cached_property
    def n_stored(self) -> int | None:
        """Number of stored chunks; None of many, and where listing takes requests."""
        if is_url(self.place) or self.spec.write_grid.n_blocks > _MOST_LISTED:
            return None
        return sum(1 for _ in self.unchecked())

    def locate(self, index: tuple[int, ...]) -> Located | None:
        """Return the file of a chunk.

        Raises
        ------
        DataError
            If it is not a regular file in the array's directory.
        """
        found, decode = self.find(self.names.name_of(index)), self.decoder(index)
        return found if found is None or decode is None else found._replace(decode=decode)

    def find(self, name: str) -> Located | None:
        """Return a file of the array's directory, as `locate` does."""
        return self._finder.locate(name)

    def open(self, located: Located, tally: Tally) -> Reader:
        """Open the file of a chunk."""
        return self.folder.medium.reader(located.path, tally)

    def identify(self, index: tuple[int, ...]) -> str:
        """Return name, size and mark of a file."""
        return self._finder.identify(self.names.name_of(index))

    def unchecked(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield all chunks or shards that are stored."""
        for name, _ in self.folder.files():
            index = self.names.parse(name)
            if index is not None and index in self.spec.write_grid:
                yield name, index

    def list_again(self) -> None:
        """Drop the cached listing of objects."""
        self._finder.list_again()

    def discard(self, index: tuple[int, ...]) -> None:
        """Remove a chunk's file, if it exists."""
        with self._lock:
            if not self._is_marked:
                # From now on, missing chunks must not be read as the fill value.
                self.folder.mark_consumed()
                self._is_marked = True
        self.folder.medium.remove([self.path / self.names.name_of(index)])

    def discard_rest(self) -> None:
        """Remove documents and journal, and the directory if it is empty."""
        names = map(self.names.name_of, self.spec.write_grid.indices())
        self.folder.clear(self.path / name for name in names)


class ChunkFilesTarget(ChunkedTarget, JournalledTarget):
    """An array whose chunks or shards are written as files; the documents are written last.

    A format adds `describe`, `look_back`, `is_described` and `_complete`, and `_check_place` if
    arrays can be nested. With `reserve`, files whose length is known get their space at first.
    """

    is_indivisible = False

    def __init__(
        self,
        folder: ChunkFolder,
        spec: ArraySpec,
        names: ChunkNames,
        *,
        write_empty: bool,
        overwrite: bool,
        durability: Durability,
        reserve: bool = False,
    ) -> None:
        self.folder, self.names, self._reserve = folder, names, reserve
        ChunkedTarget.__init__(self, spec, write_empty=write_empty)
        JournalledTarget.__init__(
            self, folder.path, is_one_file=False, overwrite=overwrite, durability=durability
        )

    def _forget_run(self) -> None:
        super()._forget_run()
        self._kept.clear()

    @property
    def puts_whole(self) -> bool:
        """Whether a file is written in one request, like an object."""
        return self._medium.writes_whole

    @property
    def gathered_bytes(self) -> int:
        """Bytes of a file that are written at once; an object is written as a whole."""
        return 0 if self.puts_whole else min(_GATHERED, room_for(self.spec.longest_file))

    @property
    def copying_bytes(self) -> int:
        """Other bytes held to write a file."""
        return self._medium.bytes_to_write(self.spec.longest_file)

    def header_of_chunk(self, index: tuple[int, ...]) -> bytes:  # noqa: ARG002 - most have none
        """Return the bytes before the encoded elements of a chunk."""
        return b""

    def put_encoded(
        self, index: tuple[int, ...], pieces: Iterable[Any], staging: memoryview
    ) -> int:
        """Store a chunk with its header, or a shard."""
        header = self.header_of_chunk(index)
        return super().put_encoded(index, _after(header, pieces) if header else pieces, staging)

    def put(self, index: tuple[int, ...], parts: Iterable[Any]) -> int:
        """Write the file of a chunk or a shard."""
        return self._write_parts(index, map(memoryview, parts))

    def write_encoded(
        self, index: tuple[int, ...], n_bytes: int, pieces: Iterable[memoryview]
    ) -> int:
        """Write a file that another store has encoded in the same way."""
        self.keep(index)
        return self._write_parts(index, pieces, n_bytes)

    def _write_parts(
        self, index: tuple[int, ...], parts: Iterable[memoryview], n_bytes: int | None = None
    ) -> int:
        offset = 0
        with self._open(index, n_bytes) as file:
            for part in parts:
                file.write(offset, part)
                offset += len(part)
        return file.checksum

    def open_at(self, index: tuple[int, ...]) -> tuple[Writer, int]:
        """Open the file of a chunk without a codec."""
        return self._open(index, self.spec.chunk_bytes), 0

    def _open(self, index: tuple[int, ...], n_bytes: int | None) -> Writer:
        name = self.names.name_of(index)
        return self._write_file(name, self.tally, n_bytes=n_bytes, reserve=self._reserve)

    def resume(self) -> Ledger:
        """Continue where an interrupted run ended."""
        self._check_place(is_new=False)
        ledger = super().resume()
        for index in ledger.parts:
            if ledger.is_stored(index):
                self.keep(index)
        return ledger

    def _check_place(self, *, is_new: bool) -> None:
        """Refuse a place where the format cannot have an array, or a new one."""

    def _file_of(self, index: tuple[int, ...]) -> tuple[str, int | None]:
        n_bytes = None if self.access is Access.ATOMIC else self.spec.chunk_bytes
        return self.names.name_of(index), n_bytes

    def _find_old(self) -> list[Location]:
        self._check_place(is_new=True)
        if not self.folder.holds_anything():
            return []
        if not self._overwrite:
            self._refuse()
        return self._old_files()

    def _old_files(self) -> list[Location]:
        return self.folder.old_files()

    def _remove_old(self, old: list[Location]) -> None:
        self._medium.remove(self.folder.path / name for name in self.folder.documents)
        self._medium.remove(old)

    def _find_left(self, words: Sequence[str]) -> list[Location]:  # noqa: ARG002 - there are none
        # Parts of an array are recognised by their names.
        return self.folder.files_left()

    def _find_files(self) -> Mapping[str, int]:
        return dict(self.folder.files())


def _after(header: bytes, pieces: Iterable[Any]) -> Iterator[Any]:
    yield header
    yield from pieces


def refuse_unfinished(folder: Location) -> None:
    """Refuse a directory that a run writes, or has not finished.

    Raises
    ------
    StorageError
        If a run writes it, or is unfinished there.
    """
    if is_unfinished(folder / JOURNAL):
        refuse_locked(folder / JOURNAL)
        raise StorageError(
            str(folder),
            "it is unfinished: the run that writes it did not complete",
            f"complete it with dask-io resume {quote(str(folder))}",
        )


def is_part_of_array(
    name: str, documents: Collection[str], is_chunk: Callable[[str], bool]
) -> bool:
    """Tell whether a path within an array is that of a document or a chunk, finished or not."""
    folder, slash, last = name.rpartition("/")
    name = folder + slash + whole_name(last)
    return name in documents or is_chunk(name)


def refuse_foreign(root: Location, what: str, foreign: Iterable[str]) -> None:
    """Refuse to overwrite a directory that contains other files.

    Raises
    ------
    UsageError
        If there are other files.
    """
    names = sorted(foreign)
    if names:
        raise UsageError(
            f"{root} contains files that are not part of {what}: {list_names(names)}; "
            "move them away, or choose another target"
        )


def is_valid(understand: Callable[[], object]) -> bool:
    """Tell whether metadata can be understood."""
    with suppress(ValueError, LookupError, DataError, StorageError):
        return understand() is not None
    return False
