"""Locks of a Dask program, which a plan holds while it reads and writes."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any

from dask.utils import SerializableLock

from dask_io.graph.match import DeclinedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The memory budget is per process, so only one plan runs in a process at a time.
_running = Lock()
_LOCKS_OF_THREADS = (type(Lock()), type(RLock()))


@contextmanager
def hold_locks(locks: Iterable[Any]) -> Iterator[None]:
    """Run as the only plan in this process, and hold the locks of the program.

    Dask requires a lock to have `acquire` and `release`, and nothing else.
    """
    with _running, ExitStack() as held:
        for lock in locks:
            lock.acquire()
            held.callback(lock.release)
        yield


def distinct_locks(locks: Iterable[Any]) -> tuple[Any, ...]:
    """Leave out `None`, `False` and repeated locks, and sort the others.

    A plan holds all its locks at the same time, while Dask holds one at a time. If two objects
    shared one lock, a plan would wait for itself. If two plans took the same locks in different
    orders, they would wait for each other.

    Raises
    ------
    DeclinedError
        If two objects may share one lock.
    """
    objects = {id(lock): lock for lock in locks if lock}
    if len(objects) <= 1:
        return tuple(objects.values())
    distinct = {_identity_of(lock): lock for lock in objects.values()}
    return tuple(distinct[identity] for identity in sorted(distinct))


def _identity_of(lock: Any) -> tuple[str, str]:
    """Return a value that is equal for two objects that share one lock."""
    if isinstance(lock, SerializableLock):
        return "token", str(lock.token)
    if isinstance(lock, _LOCKS_OF_THREADS):
        return "id", str(id(lock))
    distributed = sys.modules.get("distributed")
    if distributed is not None and isinstance(lock, distributed.Lock):
        return "name", str(lock.name)
    raise DeclinedError(
        f"there are several locks, and a {type(lock).__name__} may share its lock with another"
    )
