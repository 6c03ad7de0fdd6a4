"""What a run may hold, and the buffers it holds it in."""

from __future__ import annotations

import mmap
from collections import defaultdict
from threading import Condition, Lock

_PAGE = mmap.PAGESIZE
# Smaller buffers come from the heap: rounding them up to whole pages would cost too much.
_SMALLEST_MAPPED = 32 * _PAGE


class Account:
    """Bytes in use out of a fixed number; going over it is a bug."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.peak = 0
        self._changed = Condition()
        self._closed = False

    def take(self, n_bytes: int) -> bool:
        """Wait until there is room and take it; False if the account was closed meanwhile."""
        assert n_bytes <= self.limit, f"{n_bytes} bytes of {self.limit}: the plan was wrong"
        with self._changed:
            while self.used + n_bytes > self.limit and not self._closed:
                # Waking up now and then lets the interpreter deliver signals.
                self._changed.wait(timeout=0.5)
            if self._closed:
                return False
            self._add(n_bytes)
            return True

    def take_if_free(self, n_bytes: int) -> bool:
        """Take room only if it is there now."""
        with self._changed:
            if self.used + n_bytes > self.limit:
                return False
            self._add(n_bytes)
            return True

    def give_back(self, n_bytes: int) -> None:
        """Return what was taken."""
        with self._changed:
            self.used -= n_bytes
            assert self.used >= 0, "more was given back than taken"
            self._changed.notify_all()

    def close(self) -> None:
        """Let everyone who waits go on with nothing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _add(self, n_bytes: int) -> None:
        self.used += n_bytes
        self.peak = max(self.peak, self.used)


class Buffers:
    """Page-aligned buffers that are used again: touching fresh memory costs more than a copy.

    What lies idle is let go when a buffer of another size is needed and the limit is reached.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._mapped = 0
        self._idle: dict[int, list[mmap.mmap]] = defaultdict(list)
        self._lock = Lock()

    def lend(self, n_bytes: int) -> memoryview:
        """Return a buffer of at least this size; its contents are arbitrary."""
        if n_bytes < _SMALLEST_MAPPED:
            return memoryview(bytearray(n_bytes))
        size = -(-n_bytes // _PAGE) * _PAGE
        with self._lock:
            if self._idle[size]:
                return memoryview(self._idle[size].pop())
            self._mapped += size
            while self._mapped > self._limit and self._drop_one():
                pass
        return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))

    def take_back(self, buffer: memoryview) -> None:
        """Keep a buffer for later."""
        if isinstance(buffer.obj, mmap.mmap):
            with self._lock:
                self._idle[len(buffer.obj)].append(buffer.obj)

    def _drop_one(self) -> bool:
        for size, idle in self._idle.items():
            if idle:
                # Unmapped once the last view of it is gone.
                idle.pop()
                self._mapped -= size
                return True
        return False
