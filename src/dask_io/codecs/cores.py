"""Limit the threads that encode or decode to one per core.

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
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Cores:
    """A context manager for encoding and decoding, held by at most one thread per core."""

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
    """Yield parts; a core is held while a part is made, but not while the caller uses it.

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
