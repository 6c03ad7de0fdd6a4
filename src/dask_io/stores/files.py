"""The transport for local files: every byte of array data passes through here and is counted.

Offsets are known beforehand, so files are read and written at an offset (`pread`, `pwrite`)
and a file's own position is never used. Within one visit, a seek is a call whose offset is
not where the one before it ended. Headers, listings and manifests are moved here too, but are
not counted.

Large transfers go past the page cache (direct I/O) where the system and the filesystem can do
that: data that is touched once gains nothing from being cached, and pays for it.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Self

import numpy as np

from dask_io.errors import DataError, StorageError
from dask_io.stores.naming import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

# Offsets, sizes and addresses for direct I/O are multiples of this on all common filesystems.
ALIGNMENT = 4096
# Smaller transfers are faster through the page cache.
_LARGE = 128 * 2**10
# macOS has no such flag; there everything goes through the page cache.
_O_DIRECT = getattr(os, "O_DIRECT", 0)


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
        raise _storage_error(printable(str(path)), error) from error


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
        case _:
            return StorageError(path, reason)


class _Visit:
    """An open file that counts what is moved through it."""

    def __init__(self, path: Path, flags: int, tally: Tally, traffic: Traffic) -> None:
        self._path, self._tally, self._traffic = path, tally, traffic
        self._flags = flags | os.O_CLOEXEC
        self._position = -1
        self._counts = Traffic()
        self._direct_fd: int | None = None
        with storage_errors(path):
            self._fd = os.open(path, self._flags)

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
            if self._direct_fd is not None and self._direct_fd != self._fd:
                os.close(self._direct_fd)
            os.close(self._fd)

    def _count(self, offset: int, n_bytes: int) -> None:
        if offset != self._position:
            self._counts.seeks += 1
        self._position = offset + n_bytes
        self._counts.n_bytes += n_bytes

    def _direct(self) -> int:
        """Return a descriptor that goes past the page cache, or the ordinary one."""
        if self._direct_fd is None:
            self._direct_fd = self._fd
            # A filesystem that cannot do this says so here.
            with suppress(OSError):
                self._direct_fd = os.open(self._path, self._flags | _O_DIRECT)
        return self._direct_fd


class FileReader(_Visit):
    """One visit to a file that is read."""

    def __init__(self, path: Path, tally: Tally) -> None:
        super().__init__(path, os.O_RDONLY, tally, tally.read)

    @property
    def size(self) -> int:
        """Bytes in the file."""
        with storage_errors(self._path):
            return os.fstat(self._fd).st_size

    def peek(self, n_bytes: int) -> bytes:
        """Return the file's first bytes, or all of it if it is shorter, without counting."""
        return _read_head(self._fd, self._path, n_bytes)

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:
        """Read bytes from an offset on, and return the part of the buffer that holds them.

        A buffer that starts at a multiple of `ALIGNMENT` and is longer than what is read by
        `ALIGNMENT` at each end lets large reads go past the page cache.
        """
        self._count(offset, n_bytes)
        before = offset % ALIGNMENT
        whole = buffer[: -(-(before + n_bytes) // ALIGNMENT) * ALIGNMENT]
        if n_bytes >= _LARGE and len(whole) >= before + n_bytes and is_aligned(whole):
            part = whole[before : before + n_bytes]
            self._read_fully(self._direct(), offset - before, whole, before + n_bytes)
        else:
            part = buffer[:n_bytes]
            self._read_fully(self._fd, offset, part, n_bytes)
        return part

    def _read_fully(self, fd: int, offset: int, buffer: memoryview, n_needed: int) -> None:
        """Read until the needed bytes are there; a file that ends before is truncated."""
        n_done = 0
        while n_done < n_needed:
            with storage_errors(self._path):
                try:
                    n_read = os.preadv(fd, [buffer[n_done:]], offset + n_done)
                except OSError as error:
                    if error.errno != errno.EINVAL or fd == self._fd:
                        raise
                    # The filesystem wants another alignment: go through the page cache.
                    fd = self._direct_fd = self._fd
                    continue
            if n_read == 0:
                missing = n_needed - n_done
                problem = f"ends at byte {offset + n_done}, {missing} bytes before the data does"
                place = printable(str(self._path))
                raise DataError(place, [problem], "the file is truncated or changed meanwhile")
            n_done += n_read


class FileWriter(_Visit):
    """One visit to a file that is written."""

    def __init__(self, path: Path, tally: Tally) -> None:
        super().__init__(path, os.O_WRONLY, tally, tally.write)

    def write(self, offset: int, buffer: memoryview) -> None:
        """Write all of the buffer at an offset."""
        self._count(offset, len(buffer))
        with storage_errors(self._path):
            if len(buffer) >= _LARGE and offset % ALIGNMENT == 0 and is_aligned(buffer):
                n_whole = len(buffer) // ALIGNMENT * ALIGNMENT
                self._write_direct(offset, buffer[:n_whole])
                offset, buffer = offset + n_whole, buffer[n_whole:]
            write_fully(self._fd, offset, buffer)

    def _write_direct(self, offset: int, buffer: memoryview) -> None:
        try:
            write_fully(self._direct(), offset, buffer)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # The filesystem wants another alignment: go through the page cache.
            write_fully(self._fd, offset, buffer)


def is_aligned(buffer: memoryview) -> bool:
    """Tell whether a buffer starts at a multiple of `ALIGNMENT` in memory."""
    return int(np.frombuffer(buffer, np.uint8).ctypes.data) % ALIGNMENT == 0


def _read_head(fd: int, path: Path, n_bytes: int) -> bytes:
    head = b""
    with storage_errors(path):
        while len(head) < n_bytes and (more := os.pread(fd, n_bytes - len(head), len(head))):
            head += more
    return head


@contextmanager
def peeking(path: Path) -> Iterator[Callable[[int], bytes]]:
    """Open a file only to look at its first bytes; nothing is counted."""
    with storage_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield lambda n_bytes: _read_head(fd, path, n_bytes)
    finally:
        os.close(fd)


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
