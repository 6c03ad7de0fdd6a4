"""The memory accounts of a run, and its buffers."""

from __future__ import annotations

import mmap
from bisect import bisect_left
from contextlib import suppress
from threading import Condition, Lock

import numpy as np

from dask_io.storage.local.transport import address_of
from dask_io.storage.medium import ALIGNMENT

_PAGE = mmap.PAGESIZE
# Buffers start and end at multiples of this. Large buffers start where direct I/O is possible.
_GRAIN = 16
_ALIGNED = 128 * 2**10
# Reading into and writing from huge pages is faster, but they may be slow to get. So only the
# beginning of the memory, which is lent most often, uses them.
_IN_LARGE_PAGES = 256 * 2**20
# The C library always returns larger allocations to the system: 32 MiB, minus overhead.
_LARGEST_KEPT = 2**25 - 2 * _PAGE
# The memory is longer by this fraction, to make up for gaps between aligned buffers.
_LOST = 64


class Account:
    """Bytes in use, up to a fixed limit; exceeding the limit is a bug."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.peak = 0
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._n_waiting = 0
        self._closed = False

    def take(self, n_bytes: int) -> bool:
        """Wait until there is room and take it; return False if the account has been closed."""
        assert n_bytes <= self.limit, f"{n_bytes} bytes of {self.limit}: the plan was wrong"
        with self._lock:
            while self.used + n_bytes > self.limit and not self._closed:
                self._n_waiting += 1
                # Waking up regularly lets the interpreter deliver signals.
                self._changed.wait(timeout=0.5)
                self._n_waiting -= 1
            if self._closed:
                return False
            self._add(n_bytes)
            return True

    def take_if_free(self, n_bytes: int) -> bool:
        """Take room if it is free now; return whether it was."""
        with self._lock:
            if self.used + n_bytes > self.limit:
                return False
            self._add(n_bytes)
            return True

    def give_back(self, n_bytes: int) -> None:
        """Return bytes that were taken."""
        with self._lock:
            self.used -= n_bytes
            assert self.used >= 0, "more was given back than taken"
            # Notifying takes long even if no thread waits.
            if self._n_waiting:
                self._changed.notify_all()

    def close(self) -> None:
        """Wake all waiting threads, without giving them room."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()

    def _add(self, n_bytes: int) -> None:
        self.used += n_bytes
        self.peak = max(self.peak, self.used)


class Buffers:
    """Lends buffers of any size from one memory mapping.

    Touching fresh memory costs more than a copy, so memory is reused. If no hole is long enough for
    a buffer, it may be allocated outside of the mapping. Then the same number of bytes of the last
    holes is returned to the system, so that the resident memory does not grow.
    """

    def __init__(self, limit: int) -> None:
        self._memory = _map(limit + limit // _LOST)
        self._view = memoryview(self._memory)
        self._base = address_of(self._view)
        self._holes = [(0, len(self._view))]
        self._n_outside = 0
        self._lock = Lock()

    def lend(self, n_bytes: int) -> memoryview:
        """Return a buffer of this size; its contents are arbitrary."""
        buffer = self.lend_inside(n_bytes)
        return self.lend_outside(n_bytes) if buffer is None else buffer

    def lend_inside(
        self, n_bytes: int, *, phase: int = 0, lasting: bool = False
    ) -> memoryview | None:
        """Return a part of the mapping, None if no hole is long enough.

        A large buffer starts `phase` bytes after a multiple of `ALIGNMENT`. `lasting` buffers are
        at the end, so that they do not fragment the holes between short-lived buffers.
        """
        step, phase = (ALIGNMENT, phase) if n_bytes >= _ALIGNED else (_GRAIN, 0)
        with self._lock:
            places = range(len(self._holes))
            # First fit leaves longer holes than best fit.
            for place in reversed(places) if lasting else places:
                start, stop = self._holes[place]
                # A quick check first, because most holes are too short.
                if stop - start < n_bytes:
                    continue
                begin = start + (phase - start) % step
                end = _up(begin + n_bytes, _GRAIN)
                if end > stop:
                    continue
                if lasting:
                    later = (stop - end) // step * step
                    begin, end = begin + later, end + later
                left = (start, begin), (end, stop)
                self._holes[place : place + 1] = [hole for hole in left if hole[0] < hole[1]]
                self._settle()
                return self._view[begin : begin + n_bytes]
        return None

    def lend_outside(self, n_bytes: int) -> memoryview:
        """Return a buffer outside of the mapping."""
        with self._lock:
            self._n_outside += n_bytes
            self._settle()
        # A small buffer does not need pages of its own.
        return memoryview(_map(n_bytes) if n_bytes >= _ALIGNED else bytearray(n_bytes))[:n_bytes]

    def take_back(self, buffer: memoryview) -> None:
        """Take back a buffer that is no longer used."""
        start = address_of(buffer) - self._base if buffer else -1
        with self._lock:
            if not 0 <= start < len(self._view):
                self._n_outside -= len(buffer)
                return
            self._add_hole(start, _up(start + len(buffer), _GRAIN))
            self._settle()

    def _add_hole(self, start: int, stop: int) -> None:
        """Add a hole, joined with its neighbours."""
        if start >= stop:
            return
        place = bisect_left(self._holes, (start, stop))
        if place < len(self._holes) and self._holes[place][0] == stop:
            stop = self._holes.pop(place)[1]
        if place and self._holes[place - 1][1] == start:
            place -= 1
            start = self._holes.pop(place)[0]
        self._holes.insert(place, (start, stop))

    def _settle(self) -> None:
        """Return as much of the last holes to the system as is lent outside of the mapping.

        The last holes are used least, because lasting buffers are lent rarely.
        """
        left = self._n_outside
        if not left:
            return
        for start, stop in reversed(self._holes):
            begin = max(_up(start, _PAGE), (stop - left) // _PAGE * _PAGE)
            end = stop // _PAGE * _PAGE
            if begin < end:
                self._memory.madvise(mmap.MADV_DONTNEED, begin, end - begin)
                left -= end - begin
            if left <= 0:
                return


def _map(n_bytes: int) -> mmap.mmap:
    """Map anonymous memory, the first part in huge pages if they are available."""
    size = max(_PAGE, _up(n_bytes, _PAGE))
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # This is a hint. Kernels may be built without huge pages.
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE, 0, min(size, _IN_LARGE_PAGES))
    return memory


def reuse_freed_memory(n_bytes: int) -> None:
    """Make the C library reuse freed allocations up to a size, instead of unmapping them.

    The C library unmaps large allocations until it has seen one of their size being freed. Codecs
    shrink their allocations before they free them, so this would never happen. A
    ``MALLOC_TRIM_THRESHOLD_`` in the environment has precedence.
    """
    np.empty(min(n_bytes, _LARGEST_KEPT), np.uint8)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step
