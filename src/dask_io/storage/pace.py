"""A rate limit for I/O, for shared machines."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Pace:
    """Limits the bytes per second of all threads and stores that share it.

    A thread waits until the bytes moved before it fit the rate. Idle time does not accumulate.
    """

    def __init__(
        self,
        rate: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rate = rate
        self._clock, self._sleep = clock, sleep
        self._free_from = clock()
        self._lock = Lock()

    def wait_for(self, n_bytes: int) -> None:
        """Wait until `n_bytes` may be moved."""
        with self._lock:
            now = self._clock()
            start = max(now, self._free_from)
            self._free_from = start + n_bytes / self.rate
        if start > now:
            self._sleep(start - now)
