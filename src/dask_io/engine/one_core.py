"""Keep threads that share the interpreter on one core (Linux).

To move a small block takes many short calls. Each releases the lock of the interpreter, and another
thread takes it. On another core, that thread has to be woken first, while the caller soon waits for
the lock again. On the same core, the caller goes on.
"""

from __future__ import annotations

import ctypes
import os
import sysconfig
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and all threads that it starts, on the core where it runs now.

    Other threads of the process stay free. Without a lock of the interpreter, or where the system
    cannot do this, nothing changes.
    """
    before = _usable()
    try:
        if before:
            # A sandbox may forbid it, and then forbids to restore it, too.
            with suppress(OSError):
                os.sched_setaffinity(0, {_current()})
        yield
    finally:
        if before:
            with suppress(OSError):
                os.sched_setaffinity(0, before)


def on_all_cores(function: Callable[[T], None]) -> Callable[[T], None]:
    """Return a function of the user that may use the cores that are free now.

    It may be called within `one_core`, take long, and start threads that outlive the run.
    """
    free = _usable()

    def call(argument: T) -> None:
        now = _usable()
        if now == free:
            function(argument)
            return
        os.sched_setaffinity(0, free)
        try:
            function(argument)
        finally:
            os.sched_setaffinity(0, now)

    return call


def _usable() -> set[int]:
    """Return the cores that this thread may use, none if it should not or cannot choose."""
    if sysconfig.get_config_var("Py_GIL_DISABLED") or not hasattr(os, "sched_setaffinity"):
        return set()
    return os.sched_getaffinity(0)


def _current() -> int:
    """Return the core on which this thread runs.

    Raises
    ------
    OSError
        If it is unknown.
    """
    try:
        found = int(ctypes.CDLL(None).sched_getcpu())
    except AttributeError as error:
        raise OSError(str(error)) from error
    if found < 0:
        message = "the core is unknown"
        raise OSError(message)
    return found
