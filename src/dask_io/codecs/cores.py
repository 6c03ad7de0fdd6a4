"""The processor's cores: each thread that encodes or decodes has one to itself.

The tables of a codec just fit into the cache of a core. Threads that share a core evict each
other's tables, and each is then slower than if it had waited.
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
    """A context for encoding and decoding, held by at most as many threads as there are cores."""

    def __init__(self) -> None:
        self._begin()
        # A forked child does not have the threads that hold a core or wait for one.
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
    """Yield parts, each made while holding a core; the caller uses them without it.

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
