"""What holds files: a local disk, or an object store, where a file is an object.

Formats say which files there are and what is in them; a medium moves, finds, publishes and
removes them. So a format says the same for all media.
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
"""The size of what is no regular file."""


class Found(NamedTuple):
    """A file that is there: its size, and what changes when its content does."""

    size: int
    mark: str


class Durability(StrEnum):
    """What blocks outlast once they count as written."""

    NONE = "none"
    """Nothing: blocks are written under their own names, and may be found half written."""
    RENAME = "rename"
    """The end of the process: blocks appear under their names when they are whole."""
    FSYNC = "fsync"
    """A loss of power too: data and names are synced."""


class Reader(Protocol):
    """One visit to a file that is read, from its making to its exit."""

    def __enter__(self) -> Self:
        """Begin nothing: what is opened is opened when it is needed."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Count the visit, and close what is open."""

    @property
    def size(self) -> int:
        """Bytes in the file."""

    def count(self, offset: int, n_bytes: int) -> None:
        """Count bytes as moved: a seek, unless they begin where the last ones ended."""

    def go_on_from(self, offset: int) -> None:
        """Count as part of a visit that another thread has begun and that has come to `offset`."""

    def expect(self, start: int, stop: int) -> None:
        """Be told what will be read next, from offset to offset, piece by piece."""

    def peek(self, n_bytes: int) -> bytes:
        """Return the file's first bytes, or all of it if it is shorter, without counting."""

    def peek_into(self, buffer: memoryview, n_bytes: int, *, to_end: bool = False) -> memoryview:
        """Read the file's first bytes, or all of it if it is shorter, without counting.

        If it is meant to end there, its `size` need not be asked for afterwards.
        """

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:
        """Read bytes from an offset on, and return the part of the buffer that holds them."""

    def read_runs(self, runs: Iterable[tuple[int, int]], buffer: memoryview) -> None:
        """Read runs, each an offset and a number of bytes, one behind the other."""


class Writer(Protocol):
    """One visit to a file that is written, from its making to its exit."""

    def __enter__(self) -> Self:
        """Begin nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Complete what has been written, count the visit, and close what is open."""

    @property
    def checksum(self) -> int:
        """Checksum of all that has been written, in that order."""

    def go_on_from(self, offset: int) -> None:
        """Count as part of a visit that has come to `offset`."""

    def write(self, offset: int, buffer: memoryview) -> None:
        """Write all of the buffer at an offset."""


class Publisher(Protocol):
    """Files of one directory, which appear under their names when they are whole."""

    def partial(self, name: str) -> Any:
        """Return where a file is until it is published."""

    def writer(
        self,
        name: str,
        tally: Tally,
        *,
        header: bytes = b"",
        n_bytes: int | None = None,
        reserve: bool = True,
        check: Callable[[], None] | None = None,
    ) -> Writer:
        """Visit a file in the making; without a size it becomes as long as what is written.

        What is put only when the visit ends is not if `check` raises something then.
        """

    def go_on(self, name: str, header: bytes) -> None:
        """Take over a file in the making that another run has begun."""

    def take_back(self, name: str) -> None:
        """Let a file that has got its name already be one in the making."""

    def commit(self, names: Collection[str], whole: Collection[str]) -> None:
        """Make what has been written durable, and name what is whole."""

    def leave_out(self, names: Collection[str]) -> None:
        """Remove files in the making that are not needed; some may never have been begun."""

    def abandon(self, keep: Collection[str] = ()) -> None:
        """Remove files in the making, except some, and begin no more."""


class Medium(Protocol):
    """What holds files; paths are of its own kind."""

    @property
    def writes_whole(self) -> bool:
        """Whether a file can only be written as a whole, in one go."""

    @property
    def bytes_to_read(self) -> int:
        """Bytes that a visit holds at most besides what it reads into."""

    def bytes_to_write(self, n_bytes: int) -> int:
        """Return what a visit to a file of this size holds at most besides what it is given."""

    def reader(self, path: Any, tally: Tally) -> Reader:
        """Visit a file."""

    def reader_in(self, folder: Any, name: str, tally: Tally) -> Reader:
        """Visit a file by its name in a directory."""

    def publisher(self, folder: Any, durability: Durability) -> Publisher:
        """Return what writes the files of a directory."""

    def write_whole(self, path: Any, content: bytes) -> None:
        """Write a small file; it appears when it is whole and durable."""

    def update(self, path: Any, make: Callable[[], bytes]) -> None:
        """Write a small file whose content is made of what is there, by others too.

        Where another one can change it at any moment, it is made anew until none has meanwhile.
        """

    def write_pieces(self, path: Any, n_bytes: int, pieces: Callable[[], Iterator[bytes]]) -> None:
        """Write a file of any size, from pieces that can be asked for again; as `write_whole`."""

    def find(self, path: Any) -> Found | None:
        """Return what is known of a file, None if there is none."""

    def finder(self, root: Any) -> Callable[[str], Found | None]:
        """Return what finds many files by their paths in a directory, maybe as of one moment."""

    def sizes(self, folder: Any) -> dict[str, int]:
        """Return the size of all in a directory by name, `NOT_A_FILE` for what is none."""

    def names(self, folder: Any) -> dict[str, bool]:
        """Return all names in a directory, and whether each is that of one, links left out.

        What killed runs left of journals in the making is left out too.
        """

    def files(self, root: Any) -> Iterator[tuple[str, Found]]:
        """Yield all that is in a directory and below, by its path in there, journals left out."""

    def identity(self, path: Any) -> str:
        """Return what tells a file from another that comes to have its name."""

    def remove(self, paths: Iterable[Any]) -> None:
        """Remove files; what is not there is none."""

    def remove_tree(self, root: Any) -> None:
        """Remove a directory and everything in it, if it exists."""

    def make_folders(self, folder: Any, made: list[Any], *, durable: bool) -> None:
        """Make a directory and those around it that are not there, and add them to a list."""

    def remove_folders(self, folders: list[Any]) -> None:
        """Remove directories that hold nothing, the last first; the list is empty afterwards."""

    def remove_if_empty(self, folder: Any) -> None:
        """Remove a directory, unless it holds something, is gone or is not ours to remove."""

    def tidy(self, root: Any, removed: Iterable[Any]) -> None:
        """Remove the directories below one that hold nothing any more, as some files are gone."""

    def tidy_all(self, root: Any) -> None:
        """Remove all directories below one that hold nothing."""

    def sync_names(self, folders: Iterable[Any]) -> None:
        """Make the names in directories durable."""
