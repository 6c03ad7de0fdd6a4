"""What threads take turns at: the processor's cores, and the way to the disk.

There are more threads than can do the same at once, so that some compute while others wait for
the disk. Left alone they fall into step: all read, then all copy, and the disk has nothing to do.
With a few turns for each there is always someone at both.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

# Large transfers by so many threads keep a disk busy.
_FEWEST_TRANSFERS = 3
# To wait for a turn takes longer than to move or copy fewer bytes.
_MUCH = 2**20
_AT_ONCE = nullcontext()


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Turns:
    """What a thread holds while it does something; it waits while `count` others do."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._begin()
        # The threads that hold one, or wait for it, do not come along.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._free = BoundedSemaphore(self._count())

    def for_bytes(self, n_bytes: int) -> AbstractContextManager[None]:
        """Return what to hold for so many bytes: a turn, or nothing if they are few."""
        return self if n_bytes >= _MUCH else _AT_ONCE

    def __enter__(self) -> None:
        self._free.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._free.release()


COMPUTING = Turns(usable_cores)
"""To copy, decode or encode: as many as there are cores.

Codecs keep tables that just fit a core's cache. Threads that share one drive each other's out
of it, and each then codes more slowly than if it had waited.
"""
MOVING = Turns(lambda: max(_FEWEST_TRANSFERS, usable_cores()))
"""To move much from or to local files at once."""
