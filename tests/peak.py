"""The memory that something takes."""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds to wait before one try after another.
_PAUSES = (0, 0, 0, 0.01, 0.1, 0.2, 0.4, 0.8, 2, 4, 8)


def stays_within(most: int, work: Callable[[], object]) -> bool:
    """Tell whether something takes at most so many bytes.

    Other threads of the process take some too, now and then, and so does the interpreter for small
    objects that it keeps to use them again. So it is tried a few times, some time apart.
    """
    for pause in _PAUSES:
        time.sleep(pause)
        if peak_of(work) <= most:
            return True
    return False


def peak_of(work: Callable[[], object]) -> int:
    """Return the bytes that the process takes at most; no garbage is collected meanwhile."""
    was_enabled = gc.isenabled()
    gc.disable()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        if was_enabled:
            gc.enable()
