"""Sync several files at once, instead of one after another (Linux).

Syncing a new file means a few short writes, each of which waits behind other reads and writes. A
thread that syncs sixteen files one by one cannot do anything else meanwhile. Python has no call for
several files, so this module uses the kernel's interface (``io_submit``).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from contextlib import suppress
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_int16,
    c_int64,
    c_long,
    c_uint16,
    c_uint32,
    c_uint64,
    pointer,
)
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

# The most files at once.
_MOST = 64
# The opcodes of `fsync` and `fdatasync`.
_FSYNC, _FDSYNC = 2, 3


class _Numbers(NamedTuple):
    """The system call numbers of an architecture."""

    setup: int
    destroy: int
    submit: int
    getevents: int


_NUMBERS = {
    ("x86_64", 8): _Numbers(setup=206, destroy=207, submit=209, getevents=208),
    ("aarch64", 8): _Numbers(setup=0, destroy=1, submit=2, getevents=4),
}


class _Request(Structure):
    """A request to the kernel: ``struct iocb``."""

    _fields_ = (
        ("data", c_uint64),
        ("key", c_uint32),
        ("rw_flags", c_uint32),
        ("opcode", c_uint16),
        ("priority", c_int16),
        ("fd", c_uint32),
        ("buffer", c_uint64),
        ("n_bytes", c_uint64),
        ("offset", c_int64),
        ("reserved", c_uint64),
        ("flags", c_uint32),
        ("event_fd", c_uint32),
    )


class _Answer(Structure):
    """The completion of a request: ``struct io_event``; a negative result is an errno."""

    _fields_ = (("data", c_uint64), ("request", c_uint64), ("result", c_int64), ("more", c_int64))


class Syncing:
    """Kernel queues, each used by one thread at a time and then reused."""

    def __init__(self, numbers: _Numbers) -> None:
        self._numbers = numbers
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = c_long
        self._begin()
        # A forked process does not inherit the queues.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._free: list[c_uint64] = []
        self._lock = Lock()

    def sync(self, fds: Sequence[int], *, only_data: bool = True) -> list[OSError | None]:
        """Sync open files, all at once; return the error of each, or None.

        The kernel may accept only the first files, or none. The result has as many entries.
        """
        try:
            queue = self._take()
        except OSError:
            return []
        try:
            n_asked = self._submit(queue, fds[:_MOST], _FDSYNC if only_data else _FSYNC)
            errors = self._wait(queue, n_asked)
        except BaseException:
            # Its pending requests must not be mistaken for those of another thread.
            with suppress(OSError):
                self._ask(self._numbers.destroy, queue)
            raise
        with self._lock:
            self._free.append(queue)
        return errors

    def _take(self) -> c_uint64:
        with self._lock:
            if self._free:
                return self._free.pop()
        queue = c_uint64(0)
        self._ask(self._numbers.setup, c_long(_MOST), byref(queue))
        return queue

    def _submit(self, queue: c_uint64, fds: Sequence[int], opcode: int) -> int:
        """Submit requests to sync files, and return how many the kernel accepted."""
        requests = [_Request(data=n, opcode=opcode, fd=fd) for n, fd in enumerate(fds)]
        pointers = (POINTER(_Request) * len(fds))(*map(pointer, requests))
        try:
            return self._ask(self._numbers.submit, queue, c_long(len(fds)), pointers)
        except OSError:
            # The kernel is too old, or too busy.
            return 0

    def _wait(self, queue: c_uint64, n_asked: int) -> list[OSError | None]:
        """Wait for all requests, and return the error of each, or None."""
        errors: list[OSError | None] = [None] * n_asked
        answers, n_left = (_Answer * n_asked)(), n_asked
        while n_left:
            most = c_long(n_left)
            n_new = self._ask(self._numbers.getevents, queue, most, most, answers, None)
            for answer in answers[:n_new]:
                if answer.result < 0:
                    errors[answer.data] = OSError(-answer.result, os.strerror(-answer.result))
            n_left -= n_new
        return errors

    def _ask(self, number: int, *arguments: object) -> int:
        """Make a system call; repeat it if a signal interrupted it."""
        while True:
            found = int(self._call(c_long(number), *arguments))
            if found >= 0:
                return found
            if (code := ctypes.get_errno()) != errno.EINTR:
                raise OSError(code, os.strerror(code))


def syncing() -> Syncing | None:
    """Return an object that syncs several files at once, None if the system cannot."""
    if sys.platform != "linux":
        return None
    numbers = _NUMBERS.get((platform.machine(), ctypes.sizeof(ctypes.c_void_p)))
    # A statically linked interpreter has no C library to load.
    with suppress(AttributeError, OSError):
        return None if numbers is None else Syncing(numbers)
    return None
