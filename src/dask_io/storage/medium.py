"""The interface of media: local disks and object stores, where a file is an object.

Formats define files and their content. A medium moves, finds, publishes and removes files, so
formats are independent of the medium.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from types import TracebackType

    from dask_io.storage.tally import Tally

# Offsets, sizes and addresses for direct I/O are multiples of this on all common filesystems.
ALIGNMENT = 4096

NOT_A_FILE = -1
"""The size reported for anything but a regular file."""


class FileInfo(NamedTuple):
    """An existing file: its size, and a mark that changes when the content changes."""

    size: int
    mark: str


class Durability(StrEnum):
    """What written blocks survive."""

    NONE = "none"
    """Nothing: blocks are written under their final names, and may be incomplete."""
    RENAME = "rename"
    """The end of the process: blocks are renamed to their final names when complete."""
    FSYNC = "fsync"
    """A power failure: data and names are synced, too."""


class Writers(StrEnum):
    """Who may write different blocks of a target at once."""

    THREADS = "threads"
    """Threads of one process: all blocks are in one file, or in one transaction."""
    PROCESSES = "processes"
    """Any processes on any machines that reach the target: each block is a file or an object."""


class Reader(Protocol):
    """One visit to a file that is read."""

    def __enter__(self) -> Self:
        """Do nothing: the file is opened when it is needed."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Count the visit, and close the file."""

    @property
    def size(self) -> int:
        """Bytes in the file."""

    def count(self, offset: int, n_bytes: int) -> None:
        """Count moved bytes, and a seek unless they start where the last bytes ended."""

    def go_on_from(self, offset: int) -> None:
        """Continue to count the visit of another thread, which has reached `offset`."""

    def expect(self, start: int, stop: int) -> None:
        """Announce the range that will be read next, piece by piece."""

    def peek(self, n_bytes: int) -> bytes:
        """Return the file's first bytes, or all of it if it is shorter, without counting."""

    def peek_into(self, buffer: memoryview, n_bytes: int, *, to_end: bool = False) -> memoryview:
        """Read the file's first bytes, or all of it if it is shorter, without counting.

        With `to_end`, a file that ends there has a known `size` afterwards.
        """

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:
        """Read bytes from an offset on, and return the part of the buffer that holds them."""

    def read_runs(self, runs: Iterable[tuple[int, int]], buffer: memoryview) -> None:
        """Read runs, each an offset and a number of bytes, one after the other."""


class Writer(Protocol):
    """One visit to a file that is written."""

    def __enter__(self) -> Self:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Complete the writes, count the visit, and close the file."""

    @property
    def checksum(self) -> int:
        """Checksum of all written data, in the order of the writes."""

    def go_on_from(self, offset: int) -> None:
        """Continue to count a visit that has reached `offset`."""

    def write(self, offset: int, buffer: memoryview) -> None:
        """Write all of the buffer at an offset."""


class Publisher(Protocol):
    """Publishes the files of one directory: they appear when complete."""

    def partial(self, name: str) -> Any:
        """Return the path of a file until it is published."""

    def writer(
        self,
        name: str,
        tally: Tally,
        *,
        header: bytes = b"",
        n_bytes: int | None = None,
        n_zeros: int = 0,
        reserve: bool = True,
        check: Callable[[], None] | None = None,
    ) -> Writer:
        """Open an unpublished file for writing; without a size, it grows with the data.

        The last `n_zeros` of its `n_bytes` are zeros that nobody writes.

        If the medium writes at the end of the visit, `check` is called first; if it raises an
        exception, nothing is written.
        """

    def go_on(self, name: str, header: bytes) -> None:
        """Continue an unpublished file of an earlier run."""

    def take_back(self, name: str) -> None:
        """Make a published file unpublished again."""

    def commit(self, names: Collection[str], whole: Collection[str]) -> None:
        """Make written files durable, and publish those that are complete (`whole`)."""

    def leave_out(self, names: Collection[str]) -> None:
        """Remove unpublished files that are not needed; some may not exist."""

    def abandon(self, keep: Collection[str] = ()) -> None:
        """Remove unpublished files, except those to `keep`, and refuse new ones."""


class Medium(Protocol):
    """A place that stores files, with its own type of paths."""

    @property
    def writes_whole(self) -> bool:
        """Whether a file can only be written as a whole."""

    @property
    def bytes_to_read(self) -> int:
        """The most additional bytes that a reading visit holds."""

    def bytes_to_write(self, n_bytes: int) -> int:
        """Return the most additional bytes that a visit to write a file of this size holds."""

    def reader(self, path: Any, tally: Tally) -> Reader:
        """Open a file for reading."""

    def reader_in(self, folder: Any, name: str, tally: Tally) -> Reader:
        """Open a file in a directory for reading."""

    def publisher(
        self, folder: Any, durability: Durability, *, own_names: bool = False
    ) -> Publisher:
        """Return a publisher for the files of a directory.

        With `own_names`, several processes may publish the same files at once. None of them
        touches the incomplete files of another.
        """

    def write_whole(self, path: Any, content: bytes) -> None:
        """Write a small file, which appears when it is complete and durable."""

    def update(self, path: Any, make: Callable[[], bytes]) -> None:
        """Write a small file whose content depends on its current content.

        If another process may change it concurrently, `make` is called again until none has.
        """

    def write_pieces(self, path: Any, n_bytes: int, pieces: Callable[[], Iterator[bytes]]) -> None:
        """Write a file of any size like `write_whole`; `pieces` may be called again."""

    def find(self, path: Any) -> FileInfo | None:
        """Return information about a file, None if it does not exist."""

    def finder(self, root: Any) -> Callable[[str], FileInfo | None]:
        """Return a function like `find` for many files in a directory; it may cache a listing."""

    def finder_inside(self, root: Any) -> Callable[[str], FileInfo | None]:
        """Return a function like `finder`; it raises `DataError` for links out of the directory."""

    def sizes(self, folder: Any) -> dict[str, int]:
        """Return the sizes of all entries of a directory, `NOT_A_FILE` for non-files."""

    def names(self, folder: Any) -> dict[str, bool]:
        """Return all names in a directory, and whether each is a directory, not a link.

        Unfinished journals of killed runs are omitted.
        """

    def files(self, root: Any) -> Iterator[tuple[str, FileInfo]]:
        """Yield all files in a directory, recursively, with relative paths, without journals."""

    def identity(self, path: Any) -> str:
        """Return an identifier that differs for another file with the same name."""

    def remove(self, paths: Iterable[Any]) -> None:
        """Remove files, ignoring missing ones."""

    def remove_tree(self, root: Any) -> None:
        """Remove a directory and everything in it, if it exists."""

    def make_folders(self, folder: Any, made: list[Any], *, durable: bool) -> None:
        """Create a directory and missing parents, and add them to the list `made`."""

    def remove_folders(self, folders: list[Any]) -> None:
        """Remove empty directories, last first; the list is empty afterwards."""

    def remove_if_empty(self, folder: Any) -> None:
        """Remove a directory, unless it is not empty, missing, or not ours to remove."""

    def tidy(self, root: Any, removed: Iterable[Any]) -> None:
        """Remove directories that became empty after files were removed."""

    def tidy_all(self, root: Any) -> None:
        """Remove all empty directories below a directory."""

    def sync_names(self, folders: Iterable[Any]) -> None:
        """Sync directories, so that the names in them are durable."""
