"""The transport for local files: every byte of array data passes through here and is counted.

Offsets are known beforehand, so files are read and written at an offset (`pread`, `pwrite`)
and a file's own position is never used. Within one visit, a seek is a call whose offset is
not where the one before it ended. Headers, listings and manifests are moved here too, but are
not counted.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

from dask_io.errors import DataError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

# Offsets, sizes and addresses for direct I/O are multiples of this on all common filesystems.
ALIGNMENT = 4096


@dataclass(slots=True)
class Traffic:
    """What was moved in one direction: seeks, visits, bytes."""

    seeks: int = 0
    visits: int = 0
    n_bytes: int = 0


@dataclass(slots=True)
class Tally:
    """What a store's transport has moved so far; safe to share between threads."""

    read: Traffic = field(default_factory=Traffic)
    write: Traffic = field(default_factory=Traffic)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def add(self, traffic: Traffic, visit: Traffic) -> None:
        """Add one visit's counts to one direction."""
        with self._lock:
            traffic.seeks += visit.seeks
            traffic.visits += 1
            traffic.n_bytes += visit.n_bytes


@contextmanager
def storage_errors(path: Path | str) -> Iterator[None]:
    """Turn the system's errors into ours, with the path and what to do."""
    try:
        yield
    except OSError as error:
        raise _storage_error(str(path), error) from error


def _storage_error(path: str, error: OSError) -> StorageError:
    reason = error.strerror or str(error)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return StorageError(path, reason, "free some space, or choose another target")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return StorageError(path, reason, "check its permissions")
        case errno.ENOENT:
            return StorageError(path, "no such file or directory", "check the path")
        case errno.EMFILE | errno.ENFILE:
            return StorageError(path, reason, "raise the limit of open files (ulimit -n)")
    return StorageError(path, reason)


class _Visit:
    """An open file that counts what is moved through it."""

    def __init__(self, path: Path, flags: int, tally: Tally, traffic: Traffic) -> None:
        self._path, self._tally, self._traffic = path, tally, traffic
        self._position = -1
        self._counts = Traffic()
        with storage_errors(path):
            self._fd = os.open(path, flags | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tally.add(self._traffic, self._counts)
        with storage_errors(self._path):
            os.close(self._fd)

    def _count(self, offset: int, n_bytes: int) -> None:
        if offset != self._position:
            self._counts.seeks += 1
        self._position = offset + n_bytes
        self._counts.n_bytes += n_bytes


class FileReader(_Visit):
    """One visit to a file that is read."""

    def __init__(self, path: Path, tally: Tally) -> None:
        super().__init__(path, os.O_RDONLY, tally, tally.read)

    def read(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer with the file's bytes from an offset on."""
        self._count(offset, len(buffer))
        read_fully(self._fd, self._path, offset, buffer)


class FileWriter(_Visit):
    """One visit to a file that is written."""

    def __init__(self, path: Path, tally: Tally) -> None:
        super().__init__(path, os.O_WRONLY, tally, tally.write)

    def write(self, offset: int, buffer: memoryview) -> None:
        """Write all of the buffer at an offset."""
        self._count(offset, len(buffer))
        with storage_errors(self._path):
            write_fully(self._fd, offset, buffer)


def read_fully(fd: int, path: Path, offset: int, buffer: memoryview) -> None:
    """Read until the buffer is full; a file that ends before is truncated."""
    while buffer:
        with storage_errors(path):
            n_read = os.preadv(fd, [buffer], offset)
        if n_read == 0:
            problem = f"ends at byte {offset}, {len(buffer)} bytes before the data does"
            raise DataError(str(path), [problem], "the file is truncated or changed meanwhile")
        buffer, offset = buffer[n_read:], offset + n_read


def write_fully(fd: int, offset: int, buffer: memoryview) -> None:
    """Write until the buffer is empty."""
    while buffer:
        n_written = os.pwrite(fd, buffer, offset)
        buffer, offset = buffer[n_written:], offset + n_written


class Publisher:
    """Files of one directory that are written aside and appear when they are whole.

    A file in the making starts with a dot and ends in ``.part``, so that no pattern of block
    names matches it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pending: set[str] = set()
        self._lock = Lock()

    def partial(self, name: str) -> Path:
        """Return where a file is written until it is published."""
        return self.folder / f".{name}.part"

    def begin(self, name: str, header: bytes, n_bytes: int) -> Path:
        """Return the file in the making, made with its header and full size if it is new."""
        path = self.partial(name)
        with self._lock:
            if name in self._pending:
                return path
            with storage_errors(path):
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
                self._pending.add(name)
                try:
                    write_fully(fd, 0, memoryview(header))
                    _allocate(fd, n_bytes)
                finally:
                    os.close(fd)
        return path

    def publish(self, name: str) -> None:
        """Sync a file that is whole and give it its name."""
        path = self.partial(name)
        with storage_errors(path):
            sync(path)
            path.replace(self.folder / name)
        with self._lock:
            self._pending.discard(name)

    def abandon(self) -> None:
        """Remove all files in the making."""
        with self._lock:
            for name in self._pending:
                with suppress(OSError):
                    self.partial(name).unlink()
            self._pending.clear()


def _allocate(fd: int, n_bytes: int) -> None:
    """Reserve a file's space, so that a full disk shows before data is written."""
    if n_bytes and hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, 0, n_bytes)
        except OSError as error:
            if error.errno not in {errno.EOPNOTSUPP, errno.EINVAL}:
                raise
        else:
            return
    os.ftruncate(fd, n_bytes)


def sync(path: Path) -> None:
    """Make a file's or a directory's contents durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file aside and give it its name when it is whole and durable."""
    publisher = Publisher(path.parent)
    part = publisher.begin(path.name, content, len(content))
    try:
        publisher.publish(path.name)
    except StorageError:
        with suppress(OSError):
            part.unlink()
        raise
