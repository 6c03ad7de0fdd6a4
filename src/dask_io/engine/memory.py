"""What a run may hold, and the buffers it holds it in."""

from __future__ import annotations

import mmap
from bisect import bisect_left
from contextlib import suppress
from threading import Condition, Lock

import numpy as np

from dask_io.storage.local.transport import address_of
from dask_io.storage.medium import ALIGNMENT

_PAGE = mmap.PAGESIZE
# Buffers end at multiples of this and begin there too, unless they may be written past the page
# cache: those begin where that can be done.
_GRAIN = 16
_ALIGNED = 128 * 2**10
# Large pages are quicker to read into and to write from, but may be slow to get: what is lent most
# often, at the beginning, lies in them.
_IN_LARGE_PAGES = 256 * 2**20
# Larger pieces are given back to the system in any case: 32 MiB, less what lies around them.
_LARGEST_KEPT = 2**25 - 2 * _PAGE
# The stretch is longer by this part, for what is lost between buffers that begin at such multiples.
_LOST = 64


class Account:
    """Bytes in use out of a fixed number; going over it is a bug."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.peak = 0
        self._lock = Lock()
        self._changed = Condition(self._lock)
        self._n_waiting = 0
        self._closed = False

    def take(self, n_bytes: int) -> bool:
        """Wait until there is room and take it; False if the account was closed meanwhile."""
        assert n_bytes <= self.limit, f"{n_bytes} bytes of {self.limit}: the plan was wrong"
        with self._lock:
            while self.used + n_bytes > self.limit and not self._closed:
                self._n_waiting += 1
                # Waking up now and then lets the interpreter deliver signals.
                self._changed.wait(timeout=0.5)
                self._n_waiting -= 1
            if self._closed:
                return False
            self._add(n_bytes)
            return True

    def take_if_free(self, n_bytes: int) -> bool:
        """Take room only if it is there now."""
        with self._lock:
            if self.used + n_bytes > self.limit:
                return False
            self._add(n_bytes)
            return True

    def give_back(self, n_bytes: int) -> None:
        """Return what was taken."""
        with self._lock:
            self.used -= n_bytes
            assert self.used >= 0, "more was given back than taken"
            # To wake someone takes long even if no one waits.
            if self._n_waiting:
                self._changed.notify_all()

    def close(self) -> None:
        """Let everyone who waits go on with nothing."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()

    def _add(self, n_bytes: int) -> None:
        self.used += n_bytes
        self.peak = max(self.peak, self.used)


class Buffers:
    """Parts of one stretch of memory, lent and taken back.

    Touching fresh memory costs more than a copy, so what has been touched is used again, whatever
    sizes come and go. A buffer for which no hole is long enough may lie outside. As long as there
    is one, as much of the last holes belongs to the system, so that no more is resident.
    """

    def __init__(self, limit: int) -> None:
        self._stretch = _map(limit + limit // _LOST)
        self._view = memoryview(self._stretch)
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
        """Return a part of the stretch, None if no hole is long enough.

        A large one begins `phase` bytes behind a multiple of `ALIGNMENT`. Those that are `lasting`
        lie together at the end, so that they do not come to lie between others' holes.
        """
        step, phase = (ALIGNMENT, phase) if n_bytes >= _ALIGNED else (_GRAIN, 0)
        with self._lock:
            places = range(len(self._holes))
            # The first hole that is long enough: that leaves longer ones than the shortest would.
            for place in reversed(places) if lasting else places:
                start, stop = self._holes[place]
                # Most are too short in any case: it is told at once.
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
        """Return a buffer of its own."""
        with self._lock:
            self._n_outside += n_bytes
            self._settle()
        # A page of its own would be too much for a small one.
        return memoryview(_map(n_bytes) if n_bytes >= _ALIGNED else bytearray(n_bytes))[:n_bytes]

    def take_back(self, buffer: memoryview) -> None:
        """Have a buffer back that is no longer used."""
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
        """Let the system have as much of the last holes as lies outside; it is empty afterwards.

        Those are used least: what lasts is lent rarely.
        """
        left = self._n_outside
        if not left:
            return
        for start, stop in reversed(self._holes):
            begin = max(_up(start, _PAGE), (stop - left) // _PAGE * _PAGE)
            end = stop // _PAGE * _PAGE
            if begin < end:
                self._stretch.madvise(mmap.MADV_DONTNEED, begin, end - begin)
                left -= end - begin
            if left <= 0:
                return


def _map(n_bytes: int) -> mmap.mmap:
    """Ask the system for memory of our own, the first of it in large pages if there are any."""
    size = max(_PAGE, _up(n_bytes, _PAGE))
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # A hint: kernels may be built without large pages.
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE, 0, min(size, _IN_LARGE_PAGES))
    return memory


def keep_what_is_freed(n_bytes: int) -> None:
    """Have pieces up to a size used again when they are freed, of memory that is not lent.

    The C library gives what it has mapped back to the system, until it has seen a piece as large
    being freed. Codecs ask for more than they return in the end, so it never would.
    Where the environment sets what it keeps (``MALLOC_TRIM_THRESHOLD_``), that stays as it is.
    """
    np.empty(min(n_bytes, _LARGEST_KEPT), np.uint8)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step
