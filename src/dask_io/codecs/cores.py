"""The processor's cores, of which every thread that codes has one to itself.

Codecs keep tables that just fit a core's cache. Threads that take turns on a core drive each
other's out of it, and each then codes more slowly than if it had waited.
"""

from __future__ import annotations

import os
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

T = TypeVar("T")


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Cores:
    """What a thread holds while it codes; it waits while there are as many as cores."""

    def __init__(self) -> None:
        self._begin()
        # The threads that hold one, or wait for it, do not come along.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._free = BoundedSemaphore(usable_cores())

    def __enter__(self) -> None:
        self._free.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._free.release()


CORES = Cores()


def on_core(parts: Iterable[T]) -> Iterator[T]:
    """Yield what takes a core to make; none is taken while it is used.

    Examples
    --------
    >>> list(on_core(iter("ab")))
    ['a', 'b']
    """
    made = iter(parts)
    while True:
        with CORES:
            part = next(made, None)
        if part is None:
            return
        yield part
