"""The transport for local files: every byte of array data passes through here and is counted.

Files are read and written at known offsets (`pread`, `pwrite`); the file position is never used.
Within one visit, a seek is a call whose offset is not where the previous call ended. Headers,
listings and manifests are moved here, too, but not counted.

Large transfers use direct I/O, if the system and the filesystem support it: caching costs time and
has no benefit for data that is touched once.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ctypes import addressof, c_char
from functools import lru_cache
from mmap import mmap
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from xxhash import xxh3_64

from dask_io.errors import DataError
from dask_io.storage.local import regular_files as regular
from dask_io.storage.local import system
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.os_errors import storage_error, storage_errors
from dask_io.storage.tally import Visit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import TracebackType

    from dask_io.storage.tally import Tally

LARGE = 128 * 2**10
"""Transfers of fewer bytes are faster through the page cache."""
# The checksum of at least this many bytes is computed by another thread during the write, one at a
# time, because other threads may be idle.
_LONG, _ANOTHER = 16 * 2**20, Lock()
# macOS refuses to move 2 GiB or more in one call, and Linux moves slightly less.
_MOST_AT_ONCE = 2**30
# macOS has no such flag, so everything goes through the page cache there.
_O_DIRECT = getattr(os, "O_DIRECT", 0)
_NOTHING = memoryview(b"")


class _FileVisit(Visit, ABC):
    """A visit to a file, which is opened when it is needed."""

    _path: Path | str
    _fd: int | None = None
    _is_direct = False
    _can_be_direct = bool(_O_DIRECT)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tally.add(self._traffic, self._counts)
        fd, self._fd = self._fd, None
        if fd is not None:
            self._close(fd)

    def _close(self, fd: int) -> None:
        try:
            system.calls.close(fd)
        except OSError as error:
            raise storage_error(self._path, error) from error

    @abstractmethod
    def _open_file(self, flags: int) -> int:
        """Open the file, with these additional flags."""

    def _open(self, *, direct: bool) -> int:
        """Return the open file, set to direct I/O if requested and possible."""
        direct = direct and self._can_be_direct
        if self._fd is not None and direct == self._is_direct:
            return self._fd
        try:
            if self._fd is None:
                self._fd = self._open_file(direct * _O_DIRECT)
            else:
                system.calls.set_flags(self._fd, direct * _O_DIRECT)
        except OSError as error:
            if direct:
                # The filesystem may not support this. Opening without it reports other errors.
                return self._give_up_direct()
            raise storage_error(self._path, error) from error
        self._is_direct = direct
        return self._fd

    def _give_up_direct(self) -> int:
        """Use the page cache from now on, because the filesystem rejects direct I/O."""
        self._can_be_direct = False
        return self._open(direct=False)


class FileReader(_FileVisit):
    """One visit to a file that is read."""

    def __init__(self, path: Path | str, tally: Tally) -> None:
        super().__init__(tally, tally.read)
        self._path = path
        self._size: int | None = None

    def _open_file(self, flags: int) -> int:
        # Reading at an offset detects a pipe; getting the size detects anything but a file.
        return system.calls.open(self._path, regular.TO_READ | flags)

    def expect(self, start: int, stop: int) -> None:
        """Do nothing: the system reads ahead by itself."""

    @property
    def size(self) -> int:
        """Bytes in the file."""
        if self._size is not None:
            return self._size
        fd = self._open(direct=True) if self._fd is None else self._fd
        with storage_errors(self._path):
            found = os.fstat(fd)
        regular.check_to_read(self._path, found)
        return found.st_size

    def peek(self, n_bytes: int) -> bytes:
        """Return the file's first bytes, or all of it if it is shorter, without counting."""
        # With the page cache, the system would read ahead data that is then read directly.
        head = memoryview(mmap(-1, -(-n_bytes // ALIGNMENT) * ALIGNMENT))
        n_read = self._read_fully(self._open(direct=True), 0, head, n_bytes)
        return bytes(head[: min(n_read, n_bytes)])

    def peek_into(self, buffer: memoryview, n_bytes: int, *, to_end: bool = False) -> memoryview:
        """Read the file's first bytes, or all of it if it is shorter, without counting.

        With `to_end`, one more byte is requested, to check that the file ends there.
        """
        fd, _, into = self._prepare(0, n_bytes + to_end, buffer)
        n_read = self._read_fully(fd, 0, into, n_bytes)
        # A short read: the file ends here.
        if n_bytes <= n_read < min(len(into), _MOST_AT_ONCE):
            self._size = n_read
        return buffer[: min(n_bytes, n_read)]

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:
        """Read bytes from an offset on, and return the part of the buffer that holds them.

        Large reads use direct I/O if the buffer starts at a multiple of `ALIGNMENT` and has
        `ALIGNMENT` additional bytes at each end.
        """
        self.count(offset, n_bytes)
        fd, before, into = self._prepare(offset, n_bytes, buffer)
        start, needed = offset - before, before + n_bytes
        n_read = self._read_fully(fd, start, into, needed)
        if n_read < needed:
            problem = f"ends at byte {start + n_read}, {needed - n_read} bytes too early"
            place = str(self._path)
            raise DataError(place, [problem], "the file is truncated or has changed")
        return into[before:needed]

    def read_runs(self, runs: Iterable[tuple[int, int]], buffer: memoryview) -> None:
        """Read runs, each an offset and a number of bytes, one after the other."""
        for offset, n_bytes in runs:
            self.read(offset, n_bytes, buffer[:n_bytes])
            buffer = buffer[n_bytes:]

    def _prepare(
        self, offset: int, n_bytes: int, buffer: memoryview
    ) -> tuple[int, int, memoryview]:
        """Return the file, how many bytes earlier to start reading, and the buffer to fill."""
        before = offset % ALIGNMENT
        whole = buffer[: -(-(before + n_bytes) // ALIGNMENT) * ALIGNMENT]
        if (
            n_bytes >= LARGE
            and len(whole) >= before + n_bytes
            and address_of(whole) % ALIGNMENT == 0
        ):
            return self._open(direct=True), before, whole
        return self._open(direct=False), 0, buffer[:n_bytes]

    def _read_fully(self, fd: int, offset: int, buffer: memoryview, n_needed: int) -> int:
        """Read until all needed bytes are read or the file ends; return the number of bytes."""
        n_done = 0
        while n_done < n_needed:
            try:
                n_read = system.calls.preadv(
                    fd, [buffer[n_done : n_done + _MOST_AT_ONCE]], offset + n_done
                )
            except OSError as error:
                with storage_errors(self._path):
                    if error.errno != errno.EINVAL or not self._is_direct:
                        raise
                    fd = self._give_up_direct()
                continue
            if n_read == 0:
                break
            n_done += n_read
        return n_done


class New(NamedTuple):
    """A new, open file, and whether it uses direct I/O."""

    fd: int
    is_direct: bool

    @classmethod
    def make(cls, path: str, n_bytes: int) -> New:
        """Create a file that will have this length, in place of an existing one."""
        if _O_DIRECT and n_bytes >= LARGE:
            # The filesystem may not support this. Opening without it reports other errors.
            with suppress(OSError):
                return New(regular.make(path, _O_DIRECT), is_direct=True)
        return New(regular.make(path), is_direct=False)


class FileWriter(_FileVisit):
    """One visit to a file that is written.

    The `head` of a `new` file is written together with the data that follows it, or at the end. At
    the end of the visit, `keep` may take over the open file.
    """

    def __init__(
        self,
        path: Path | str,
        tally: Tally,
        *,
        new: New | None = None,
        head: bytes = b"",
        keep: Callable[[int], bool] | None = None,
    ) -> None:
        super().__init__(tally, tally.write)
        self._path, self._keep = path, keep
        if new is not None:
            self._fd, self._is_direct = new
        self._head = _aligned(head) if head else _NOTHING
        self._checksum = xxh3_64()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._head and kind is None:
                with storage_errors(self._path):
                    write_fully(self._open(direct=False), 0, self._head)
        finally:
            super().__exit__(kind, error, trace)

    def _open_file(self, flags: int) -> int:
        return regular.open_own(self._path, os.O_WRONLY | flags)

    def _close(self, fd: int) -> None:
        if self._keep is None or not self._keep(fd):
            super()._close(fd)

    @property
    def checksum(self) -> int:
        """Checksum of all written data, in the order of the writes."""
        return self._checksum.intdigest()

    def write(self, offset: int, buffer: memoryview) -> None:
        """Write all of the buffer at an offset.

        A large buffer whose address and offset have the same remainder modulo `ALIGNMENT` is
        written with direct I/O, except for its unaligned ends.
        """
        self.count(offset, len(buffer))
        if len(buffer) >= _LONG and _ANOTHER.acquire(blocking=False):
            try:
                self._write_and_check(offset, buffer)
            finally:
                _ANOTHER.release()
            return
        self._checksum.update(buffer)
        self._write(offset, buffer)

    def _write_and_check(self, offset: int, buffer: memoryview) -> None:
        """Write a buffer while another thread computes its checksum, if one can be started."""
        with ThreadPoolExecutor(1) as another:
            try:
                checking = another.submit(self._checksum.update, buffer)
            except RuntimeError:
                self._checksum.update(buffer)
                self._write(offset, buffer)
                return
            self._write(offset, buffer)
            checking.result()

    def _write(self, offset: int, buffer: memoryview) -> None:
        head = _NOTHING
        if offset == len(self._head):
            head, self._head = self._head, head
        with storage_errors(self._path):
            if (
                len(buffer) < LARGE
                or (address_of(buffer) - offset) % ALIGNMENT
                or len(head) % ALIGNMENT
            ):
                self._write_cached(offset, buffer, head)
                return
            low = -offset % ALIGNMENT
            high = low + (len(buffer) - low) // ALIGNMENT * ALIGNMENT
            self._write_cached(offset, buffer[:low])
            self._write_direct(offset + low, buffer[low:high], head)
            self._write_cached(offset + high, buffer[high:])

    def _write_cached(self, offset: int, buffer: memoryview, head: memoryview = _NOTHING) -> None:
        if buffer:
            write_fully(self._open(direct=False), offset, buffer, head)

    def _write_direct(self, offset: int, buffer: memoryview, head: memoryview) -> None:
        fd = self._open(direct=True)
        try:
            write_fully(fd, offset, buffer, head)
        except OSError as error:
            if error.errno != errno.EINVAL or not self._is_direct:
                raise
            write_fully(self._give_up_direct(), offset, buffer, head)


def address_of(buffer: memoryview) -> int:
    """Return the memory address of a buffer."""
    if buffer.readonly or not buffer:
        return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])
    # This is eight times as fast, and called several times for each block.
    return addressof(c_char.from_buffer(buffer))


# Most files of an array have the same header.
@lru_cache(maxsize=64)
def _aligned(content: bytes) -> memoryview:
    """Return a copy that starts at a multiple of `ALIGNMENT` in memory."""
    memory = mmap(-1, max(1, len(content)))
    memory.write(content)
    return memoryview(memory)[: len(content)]


def write_fully(fd: int, offset: int, buffer: memoryview, head: memoryview = _NOTHING) -> None:
    """Write a whole buffer; a head is written before it, in the same call."""
    if head:
        n_written = system.calls.pwritev(
            fd, [head, buffer[: _MOST_AT_ONCE - len(head)]], offset - len(head)
        )
        # After a short write, the rest follows.
        if n_written < len(head):
            write_fully(fd, offset - len(head) + n_written, head[n_written:])
        n_written = max(0, n_written - len(head))
        buffer, offset = buffer[n_written:], offset + n_written
    while buffer:
        n_written = system.calls.pwrite(fd, buffer[:_MOST_AT_ONCE], offset)
        buffer, offset = buffer[n_written:], offset + n_written
