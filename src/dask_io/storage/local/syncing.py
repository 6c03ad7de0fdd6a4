"""Files that the kernel makes durable at once, instead of one after another (Linux).

Syncing a new file means a few short writes, each of which waits behind what others are reading and
writing: a thread that waits for sixteen files in turn is lost to all else for so long. Python has
no call for several files, so this is the kernel's own interface (``io_submit``).
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

# So many files at once at the most.
_MOST = 64
# Its number among the things that can be asked for: what `fdatasync` does.
_FDSYNC = 3


class _Numbers(NamedTuple):
    """By which numbers a processor's kernel knows the calls."""

    setup: int
    destroy: int
    submit: int
    getevents: int


_NUMBERS = {
    ("x86_64", 8): _Numbers(setup=206, destroy=207, submit=209, getevents=208),
    ("aarch64", 8): _Numbers(setup=0, destroy=1, submit=2, getevents=4),
}


class _Request(Structure):
    """What is asked of the kernel: its ``struct iocb``."""

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
    """What became of a request: ``struct io_event``; a negative result is an error's number."""

    _fields_ = (("data", c_uint64), ("request", c_uint64), ("result", c_int64), ("more", c_int64))


class Syncing:
    """Queues of the kernel, each used by one thread at a time and kept for the next."""

    def __init__(self, numbers: _Numbers) -> None:
        self._numbers = numbers
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = c_long
        self._begin()
        # A process that is forked has none of its parent's.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._free: list[c_uint64] = []
        self._lock = Lock()

    def sync(self, fds: Sequence[int]) -> list[OSError | None]:
        """Make what open files hold durable, all at once; return what went wrong with each.

        The kernel may take only the first of them, or none: then there are as many answers.
        """
        try:
            queue = self._take()
        except OSError:
            return []
        try:
            n_asked = self._submit(queue, fds[:_MOST])
            errors = self._wait(queue, n_asked)
        except BaseException:
            # What it has under way must not be taken for someone else's.
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

    def _submit(self, queue: c_uint64, fds: Sequence[int]) -> int:
        """Have files synced, and return how many of them will be."""
        requests = [_Request(data=n, opcode=_FDSYNC, fd=fd) for n, fd in enumerate(fds)]
        pointers = (POINTER(_Request) * len(fds))(*map(pointer, requests))
        try:
            return self._ask(self._numbers.submit, queue, c_long(len(fds)), pointers)
        except OSError:
            # It is too old, or has too much to do.
            return 0

    def _wait(self, queue: c_uint64, n_asked: int) -> list[OSError | None]:
        """Return what became of all that was asked for."""
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
        """Make a call, again if a signal came in between."""
        while True:
            found = int(self._call(c_long(number), *arguments))
            if found >= 0:
                return found
            if (code := ctypes.get_errno()) != errno.EINTR:
                raise OSError(code, os.strerror(code))


def syncing() -> Syncing | None:
    """Return what syncs several files at once on this system, if anything does."""
    if sys.platform != "linux":
        return None
    numbers = _NUMBERS.get((platform.machine(), ctypes.sizeof(ctypes.c_void_p)))
    # An interpreter that is linked statically has no library to ask.
    with suppress(AttributeError, OSError):
        return None if numbers is None else Syncing(numbers)
    return None
