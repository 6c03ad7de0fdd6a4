"""Journals on local disk: a folder with a file that grows, and a lock file.

The folder is built under a temporary name and renamed. The writing process holds a lock on the file
``lock``, which the system releases when the process ends for any reason.

The folder next to a one-file target becomes one hidden file when the target is complete: the
journal is renamed, then the folder is removed. Until then, and while a run replaces the target, the
journal in the folder counts.
"""

from __future__ import annotations

import errno
import glob
import os
import secrets
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

from dask_io.errors import LockedError, StorageError
from dask_io.journal.log import LONGEST_LINE
from dask_io.storage.local import regular_files as regular
from dask_io.storage.local import system
from dask_io.storage.local.publishing import Publisher, remove_folder, sync, write_whole
from dask_io.storage.local.transport import write_fully
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import JOURNAL, LOCK, sidecar_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FILE = "journal"
_LONGEST_HOLDER = 32
_MOST_TRIES = 5


class FileLog:
    """A journal that is being written; this process holds its lock."""

    def __init__(self, folder: Path, lock: int, *, durable: bool) -> None:
        self.folder = folder
        self._durable = durable
        self._lock: int | None = lock
        self._appending = Lock()
        self._size = (folder / _FILE).stat().st_size

    def append(self, content: bytes) -> None:
        """Add lines."""
        path = self.folder / _FILE
        with self._appending, storage_errors(path):
            fd = regular.open_own(path, os.O_WRONLY)
            try:
                write_fully(fd, self._size, memoryview(content))
                if self._durable:
                    system.calls.fdatasync(fd)
            finally:
                system.calls.close(fd)
            self._size += len(content)

    def replace(self, content: bytes) -> None:
        """Replace all lines."""
        write_whole(self.folder / _FILE, content)
        self._size = len(content)

    def fold(self) -> None:
        """Do nothing: the journal is one file."""

    def check_held(self) -> None:
        """Do nothing: the system keeps the lock as long as the process lives."""

    def confirm_held(self) -> None:
        """Do nothing, as above."""

    def is_held(self) -> bool:
        """Tell whether the lock has not been released."""
        return self._lock is not None

    def settle(self) -> None:
        """Release a sealed journal; one next to its target becomes a hidden file."""
        small = _small_file(self.folder)
        if small is not None:
            # The target is complete, so the run does not fail if this does: both forms are valid.
            with suppress(OSError, StorageError):
                system.calls.rename(self.folder / _FILE, small)
                if self._durable:
                    sync(small.parent)
                self.remove()
        self.close()

    def close(self) -> None:
        """Release the lock."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with suppress(OSError):
                system.calls.close(lock)

    def remove(self) -> None:
        """Remove the journal in one step."""
        gone = _new_name(_aside(self.folder))
        system.calls.rename(self.folder, gone)
        self.close()
        remove_folder(gone)


class FileLogs:
    """The journals on local disk."""

    def exists(self, folder: Path) -> bool:
        """Tell whether there is a journal."""
        return any(path.exists() for path in _files_of(folder))

    def lines(self, folder: Path, start: int = 0) -> Iterator[bytes]:
        """Yield all lines, or those from a byte on."""
        with storage_errors(folder), _reading(folder) as file:
            file.seek(start)
            yield file.readline(LONGEST_LINE)
            yield from file

    def tail(self, folder: Path, n_bytes: int) -> bytes:
        """Return the last bytes."""
        with storage_errors(folder), _reading(folder) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - n_bytes))
            return file.read()

    def begin(self, folder: Path, content: bytes, *, durable: bool) -> FileLog:
        """Build a journal under a temporary name, and rename it."""
        made, lock = _make_locked(folder)
        try:
            write_whole(made / _FILE, content)
            _move(made, folder)
            made = folder
            if durable:
                sync(folder.parent)
            return FileLog(folder, lock, durable=durable)
        except BaseException:
            with suppress(OSError):
                remove_folder(made)
            system.calls.close(lock)
            raise

    def resume(self, folder: Path, *, durable: bool) -> FileLog:
        """Continue an existing journal."""
        small = _small_file(folder)
        with storage_errors(folder):
            if small is not None and small.exists():
                # The lines stay complete under either name.
                with suppress(FileExistsError):
                    system.calls.mkdir(folder)
            lock = _lock(folder)
            try:
                if small is not None and not (folder / _FILE).exists():
                    system.calls.rename(small, folder / _FILE)
                # A run may have been killed while it replaced the journal.
                with suppress(FileNotFoundError):
                    system.calls.unlink(Publisher(folder).partial(_FILE))
                log = FileLog(folder, lock, durable=durable)
                # A truncated line must not damage the next line.
                log.append(b"\n")
            except BaseException:
                system.calls.close(lock)
                raise
        return log

    def refuse_locked(self, folder: Path) -> None:
        """Refuse a journal whose lock another process holds."""
        small = _small_file(folder)
        # Without a folder, no run writes to a complete target.
        if folder.exists() or small is None or not small.exists():
            system.calls.close(_lock(folder))

    @contextmanager
    def holding(self, folder: Path) -> Iterator[None]:
        """Hold the lock of a journal; if there is no journal, remove the folder afterwards."""
        with suppress(FileExistsError):
            system.calls.mkdir(folder)
        try:
            lock = _lock(folder)
        except FileNotFoundError:
            place = str(folder.parent)
            raise LockedError(place, "another run was writing it", "try again") from None
        try:
            yield
        finally:
            if not (folder / _FILE).exists():
                with suppress(OSError):
                    remove_folder(folder)
            system.calls.close(lock)

    def remove(self, folder: Path) -> None:
        """Remove a journal, if it exists."""
        if (small := _small_file(folder)) is not None:
            with suppress(FileNotFoundError):
                system.calls.unlink(small)
        remove_folder(folder)

    def remove_stale(self, folder: Path) -> None:
        """Remove journals that killed runs have left under temporary names."""
        aside, small = _aside(folder), _small_file(folder)
        found = list(aside.parent.glob(f"{glob.escape(aside.name)}.*.part"))
        if small is not None and small.exists() and not (folder / _FILE).exists():
            # Its lines are in the hidden file, and only the lock is left.
            found.append(folder)
        for left in found:
            # A journal that another run is building is locked, or just renamed.
            with suppress(OSError, StorageError):
                lock = _lock(left)
                try:
                    remove_folder(left)
                finally:
                    system.calls.close(lock)


def _small_file(folder: Path) -> Path | None:
    """Return the file for the journal of a complete one-file target; None for other targets."""
    is_beside = folder.name.endswith(JOURNAL) and folder.name != JOURNAL
    return folder.with_name(sidecar_name(folder.name)) if is_beside else None


def _files_of(folder: Path) -> list[Path]:
    """Return the files that may contain the lines of a journal, in the order to look at them."""
    path, small = folder / _FILE, _small_file(folder)
    # Another run may move the lines from one to the other between two looks.
    return [path] if small is None else [path, small, path]


def _aside(folder: Path) -> Path:
    """Return the prefix of temporary paths of a target's journal.

    They are outside of the target, so that they are not visible in it, if this is the same disk.
    """
    if folder.name != JOURNAL:
        return folder.with_name(f".{folder.name}").absolute()
    target = folder.parent.absolute()
    outside = target.parent
    if outside.stat().st_dev != target.stat().st_dev or not os.access(outside, os.W_OK):
        return folder
    return outside / f".{target.name}{JOURNAL}"


def _new_name(aside: Path) -> Path:
    return aside.with_name(f"{aside.name}.{secrets.token_hex(4)}.part")


def _make_locked(folder: Path) -> tuple[Path, int]:
    """Create a folder under a temporary name, in which a journal is built; return it with its lock.

    Until it is locked, another run may take it for one that a killed run has left, and remove it.
    """
    n_tries = 0
    while True:
        made = _new_name(_aside(folder))
        system.calls.mkdir(made)
        try:
            return made, _lock(made)
        except (FileNotFoundError, LockedError):
            n_tries += 1
            if n_tries == _MOST_TRIES:
                raise
        except BaseException:
            with suppress(OSError):
                remove_folder(made)
            raise


def _move(made: Path, folder: Path) -> None:
    try:
        system.calls.rename(made, folder)
    except OSError as error:
        # The errno depends on the system.
        if error.errno == errno.ENOTEMPTY:
            raise FileExistsError(*error.args) from error
        raise


def _reading(folder: Path) -> BinaryIO:
    """Open the lines of a journal; follow links, because a user may have moved it."""
    *others, last = _files_of(folder)
    for path in others:
        with suppress(FileNotFoundError):
            return os.fdopen(regular.open_to_read(path), "rb")
    return os.fdopen(regular.open_to_read(last), "rb")


def _lock(folder: Path) -> int:
    """Lock a journal, or raise an error with the process that holds the lock."""
    regular.refuse_link(folder)
    path = folder / LOCK
    fd = regular.open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        system.calls.lock(fd)
        _check_still_there(fd, path)
        write_fully(fd, 0, memoryview(f"{os.getpid():<20}\n".encode()))
    except BlockingIOError:
        holder = os.pread(fd, _LONGEST_HOLDER, 0).decode("ascii", errors="replace").strip()
        system.calls.close(fd)
        place = folder.parent if folder.name == JOURNAL else folder
        reason = f"another run is writing it (process {holder})"
        raise LockedError(str(place), reason, "wait for it, or stop it") from None
    except BaseException:
        system.calls.close(fd)
        raise
    return fd


def _check_still_there(fd: int, path: Path) -> None:
    """Raise an error if the previous holder has removed the lock file."""
    if not os.path.samestat(os.fstat(fd), path.stat()):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
