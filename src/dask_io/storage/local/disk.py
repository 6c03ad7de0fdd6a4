"""The medium for local files."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from dask_io.errors import DataError
from dask_io.storage.local import system
from dask_io.storage.local.publishing import OwnNames, Publisher, remove_folder, sync, write_whole
from dask_io.storage.local.transport import FileReader
from dask_io.storage.medium import NOT_A_FILE, FileInfo
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import JOURNAL, is_unfinished_journal
from dask_io.storage.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from dask_io.storage.medium import Durability

# Errors for a directory that is not empty, missing, a link, a mount point, or not ours to remove.
_STAYS = {
    errno.ENOTEMPTY,
    errno.EEXIST,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EBUSY,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
}
# The most folders that are remembered to be inside a directory.
_MOST_KNOWN = 1024


class Disk:
    """Local files. Incomplete files have a temporary name and are renamed when complete."""

    writes_whole = False
    bytes_to_read = 0

    def bytes_to_write(self, n_bytes: int) -> int:  # noqa: ARG002 - of any size
        """Return 0: values are written without a copy."""
        return 0

    def reader(self, path: Path | str, tally: Tally) -> FileReader:
        """Open a file for reading."""
        return FileReader(path, tally)

    def reader_in(self, folder: Path, name: str, tally: Tally) -> FileReader:
        """Open a file in a directory for reading."""
        # There may be many files, and joining paths takes longer than joining strings.
        return FileReader(f"{folder}/{name}", tally)

    def publisher(
        self, folder: Path, durability: Durability, *, own_names: bool = False
    ) -> Publisher:
        """Return a publisher for the files of a directory."""
        return OwnNames(folder, durability) if own_names else Publisher(folder, durability)

    def write_whole(self, path: Path, content: bytes) -> None:
        """Write a small file under a temporary name; rename it when complete and durable."""
        write_whole(path, content)

    def update(self, path: Path, make: Callable[[], bytes]) -> None:
        """Write a small file. The caller holds a lock, which a living process never loses."""
        write_whole(path, make())

    def write_pieces(self, path: Path, n_bytes: int, pieces: Callable[[], Iterator[bytes]]) -> None:
        """Write a file under a temporary name, and rename it when it is complete and durable."""
        publisher, offset = Publisher(path.parent), 0
        try:
            with publisher.writer(path.name, Tally(), n_bytes=n_bytes) as file:
                for piece in pieces():
                    file.write(offset, memoryview(piece))
                    offset += len(piece)
            publisher.commit([path.name], [path.name])
        except BaseException:
            publisher.abandon()
            raise

    def find(self, path: Path) -> FileInfo | None:
        """Return size and modification time of a file, following links."""
        return _find(str(path))

    def finder(self, root: Path) -> Callable[[str], FileInfo | None]:
        """Return a function that finds files in a directory by name."""
        return partial(_find, os.path.join(root, ""))  # noqa: PTH118 - may be many

    def finder_inside(self, root: Path) -> Callable[[str], FileInfo | None]:
        """Return a function like `finder`, which refuses links out of the directory."""
        return _Inside(root).find

    def sizes(self, folder: Path) -> dict[str, int]:
        """Return the sizes of all entries of a directory, following links."""
        with storage_errors(folder), os.scandir(folder) as entries:
            return {entry.name: _size_of(entry) for entry in entries}

    def names(self, folder: Path) -> dict[str, bool]:
        """Return all names in a directory, and whether each is a directory, not a link."""
        with storage_errors(folder), os.scandir(folder) as entries:
            shown = (entry for entry in entries if not is_unfinished_journal(entry))
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in shown}

    def files(self, root: Path) -> Iterator[tuple[str, FileInfo]]:
        """Yield all files in a directory, recursively, without following links."""
        with storage_errors(root):
            for entry in below(root, leave_out=JOURNAL):
                if not entry.is_dir(follow_symlinks=False):
                    found = os.lstat(entry.path)
                    name = entry.path.removeprefix(str(root)).lstrip("/")
                    yield name, FileInfo(found.st_size, str(found.st_mtime_ns))

    def identity(self, path: Path) -> str:
        """Return the inode and modification time of a file, because inodes are reused."""
        found = path.lstat()
        return f"{found.st_ino}-{found.st_mtime_ns}"

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files, ignoring missing ones."""
        for path in paths:
            with storage_errors(path), suppress(FileNotFoundError, NotADirectoryError):
                system.calls.unlink(path)

    def move(self, source: Path, target: Path) -> None:
        """Rename a file; create the new directory if it is missing."""
        with storage_errors(target):
            self.make_folders(target.parent, [], durable=True)
            system.calls.rename(source, target)

    def remove_tree(self, root: Path) -> None:
        """Remove a directory and everything in it, if it exists."""
        with storage_errors(root):
            remove_folder(root)

    def make_folders(self, folder: Path, made: list[Path], *, durable: bool) -> None:
        """Create a directory and its parents; sync their names if `durable`."""
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            with suppress(FileExistsError):
                system.calls.mkdir(each)
                made.append(each)
            if durable:
                sync(each.parent)

    def remove_folders(self, folders: list[Path]) -> None:
        """Remove empty directories, last first; the list is empty afterwards."""
        while folders:
            with suppress(OSError):
                system.calls.rmdir(folders.pop())

    def remove_if_empty(self, folder: Path) -> None:
        """Remove a directory, unless it is not empty, missing, or not ours to remove."""
        try:
            system.calls.rmdir(folder)
        except OSError as error:
            if error.errno not in _STAYS:
                raise

    def tidy(self, root: Path, removed: Iterable[Path]) -> None:
        """Remove directories that became empty after files were removed, innermost first."""
        emptied = {path.parent for path in removed}
        around = {above for folder in emptied for above in (folder, *folder.parents)}
        for folder in sorted(around, reverse=True):
            if root in folder.parents and folder.is_dir() and not any(folder.iterdir()):
                system.calls.rmdir(folder)

    def tidy_all(self, root: Path) -> None:
        """Remove all empty directories below a directory, innermost first."""
        with storage_errors(root):
            found = [each.path for each in below(root) if each.is_dir(follow_symlinks=False)]
            for folder in reversed(found):
                if not os.listdir(folder):  # noqa: PTH208 - may be many
                    system.calls.rmdir(folder)

    def sync_names(self, folders: Iterable[Path]) -> None:
        """Sync directories, so that the names in them are durable."""
        for folder in folders:
            with storage_errors(folder):
                sync(folder)


class _Inside:
    """Finds files in a directory with one system call for each, and one check for each folder."""

    def __init__(self, root: Path) -> None:
        self._root, self._place = root, os.path.join(root, "")  # noqa: PTH118 - may be many
        self._real = os.path.join(os.path.realpath(root), "")  # noqa: PTH118 - as above
        self._known: set[str] = set()

    def find(self, name: str) -> FileInfo | None:
        """Return size and modification time of a file, None if it does not exist.

        Raises
        ------
        DataError
            If a link leads out of the directory.
        """
        path = f"{self._place}{name}"
        try:
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode):
                found = os.stat(path)  # noqa: PTH116 - may be many
                self._refuse_way_out(path, path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        folder = path[: path.rfind("/")]
        if folder not in self._known:
            self._refuse_way_out(folder, path)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known.add(folder)
        return FileInfo(_size(found), str(found.st_mtime_ns))

    def _refuse_way_out(self, path: str, shown: str) -> None:
        if not os.path.join(os.path.realpath(path), "").startswith(self._real):  # noqa: PTH118 - as above
            raise DataError(shown, [f"leads out of {self._root}"])


def _find(folder: str, name: str = "") -> FileInfo | None:
    try:
        found = os.stat(f"{folder}{name}")  # noqa: PTH116 - may be many
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileInfo(_size(found), str(found.st_mtime_ns))


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        return _size(entry.stat())
    except FileNotFoundError:
        return NOT_A_FILE


def _size(found: os.stat_result) -> int:
    return found.st_size if stat.S_ISREG(found.st_mode) else NOT_A_FILE


def below(root: str | Path, *, leave_out: str | None = None) -> Iterator[os.DirEntry[str]]:
    """Yield all entries of a directory, recursively, directories before their content.

    Links are not followed. Directories at the top level whose names start with `leave_out` are
    skipped, and so are those that another process removes meanwhile.
    """
    waiting = [str(root)]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except FileNotFoundError:
            if folder == str(root):
                raise
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if leave_out and folder == str(root) and entry.name.startswith(leave_out):
                    continue
                waiting.append(entry.path)
            yield entry


DISK = Disk()
