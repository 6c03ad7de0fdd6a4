"""The memory that something takes."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_TRIES = 3


def stays_within(most: int, work: Callable[[], object]) -> bool:
    """Tell whether something takes at most so many bytes.

    Other threads of the process take some too, now and then, so it is tried a few times.
    """
    for _ in range(_MOST_TRIES):
        tracemalloc.start()
        try:
            work()
            if tracemalloc.get_traced_memory()[1] <= most:
                return True
        finally:
            tracemalloc.stop()
    return False
