"""System calls of other disks: one on which every seek takes time, and one without direct I/O.

They replace the system calls of a process, so that its runs have such a disk.
"""

from __future__ import annotations

import os
import time
from threading import Lock
from typing import TYPE_CHECKING, Any

from dask_io.storage.local import system

if TYPE_CHECKING:
    from collections.abc import Callable

_O_DIRECT = getattr(os, "O_DIRECT", 0)
# Direct I/O starts where a page does, so it may begin within the page that was read last.
_PAGE = 4096
# Shorter waits are added up, because every sleep takes a little longer than requested.
_SHORTEST_SLEEP = 1e-3


class SlowDisk(system.System):
    """A disk with one arm and no cache: a transfer takes the time of its seek and of its bytes.

    A transfer that starts where the last one ended needs no seek. The real transfer is made, too.
    Only the content of files is slow: names and syncs are not.
    """

    def __init__(
        self,
        seek_seconds: float,
        bytes_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self.n_seeks = 0
        self._seek_seconds, self._bytes_per_second = seek_seconds, bytes_per_second
        self._clock, self._sleep = clock, sleep
        self._fd, self._position, self._free_from = -1, -1, clock()
        self._lock = Lock()

    def preadv(self, fd: int, buffers: Any, offset: int, flags: int = 0, /) -> int:
        """Read, and wait."""
        return self._wait(fd, offset, os.preadv(fd, buffers, offset, flags))

    def pwrite(self, fd: int, buffer: Any, offset: int, /) -> int:
        """Write, and wait."""
        return self._wait(fd, offset, os.pwrite(fd, buffer, offset))

    def pwritev(self, fd: int, buffers: Any, offset: int, flags: int = 0, /) -> int:
        """Write several buffers, and wait."""
        return self._wait(fd, offset, os.pwritev(fd, buffers, offset, flags))

    def close(self, fd: int) -> None:
        """Close a file; the next one may get its number."""
        with self._lock:
            self._fd = -1 if fd == self._fd else self._fd
        os.close(fd)

    def _wait(self, fd: int, offset: int, n_bytes: int) -> int:
        """Wait as long as the disk takes, and return the number of bytes."""
        with self._lock:
            seconds = n_bytes / self._bytes_per_second
            if fd != self._fd or not 0 <= self._position - offset <= _PAGE:
                self.n_seeks += 1
                seconds += self._seek_seconds
            self._fd, self._position = fd, offset + n_bytes
            now = self._clock()
            self._free_from = max(now, self._free_from) + seconds
            waiting = self._free_from - now
        if waiting >= _SHORTEST_SLEEP:
            self._sleep(waiting)
        return n_bytes


class BufferedDisk(system.System):
    """A disk whose files are all read and written through the page cache."""

    @staticmethod
    def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Open a file, never for direct I/O."""
        return os.open(path, flags & ~_O_DIRECT, mode, dir_fd=dir_fd)

    @staticmethod
    def set_flags(fd: int, flags: int) -> None:
        """Set the status flags of an open file, but not that of direct I/O."""
        system.System.set_flags(fd, flags & ~_O_DIRECT)
