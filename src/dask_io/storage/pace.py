"""A limit to how fast bytes are moved, for machines that are shared."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Pace:
    """At most so many bytes a second, over all threads and stores that share it.

    Whoever moves bytes waits until the time that those before it are worth has passed. Time in
    which nothing is moved is not made up for later.
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
        """Wait until so many bytes may be moved."""
        with self._lock:
            now = self._clock()
            start = max(now, self._free_from)
            self._free_from = start + n_bytes / self.rate
        if start > now:
            self._sleep(start - now)
