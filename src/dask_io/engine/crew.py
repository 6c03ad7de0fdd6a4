"""Threads that run tasks: writes before reads, because writes free memory.

A run that is too small for threads calls its tasks directly.
"""

from __future__ import annotations

from collections import deque
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    Task = Callable[[memoryview], None]

# The most queued tasks per thread. Their memory has already been taken.
_MOST_WAITING = 32


class Alone:
    """Runs tasks in the thread that adds them, with the same methods as `Crew`.

    For a tiny array, starting and waking threads would take longer than moving it.
    """

    def __init__(self, staging: memoryview) -> None:
        self._staging = staging
        self._urgent: deque[Task] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: no task is left."""

    def add(self, task: Task) -> None:
        """Run a task, then the urgent ones that it has added."""
        task(self._staging)
        while self._urgent:
            self._urgent.popleft()(self._staging)

    def add_urgent(self, task: Task) -> None:
        """Queue a task until the one that adds it has ended, because they share the staging."""
        self._urgent.append(task)

    def finish(self) -> None:
        """Do nothing: every task is done."""


class Crew:
    """A fixed number of threads, each with its own staging buffer.

    The first error stops all threads, and is raised in the thread that waits for the crew. A task
    is called with the thread's staging buffer.
    """

    def __init__(self, stagings: list[memoryview], on_stop: Callable[[], None]) -> None:
        self._on_stop = on_stop
        self._urgent: deque[Task] = deque()
        self._ordinary: deque[Task] = deque()
        # A thread that adds tasks is woken when half of these are left: waking is expensive.
        self._most_waiting = _MOST_WAITING * len(stagings)
        self._busy = self._n_idle = self._n_waiting = self._n_ended = 0
        self._stopped = False
        self._error: BaseException | None = None
        self._lock = Lock()
        self._has_task = Condition(self._lock)
        self._changed = Condition(self._lock)
        self._threads = [Thread(target=self._work, args=(staging,)) for staging in stagings]

    def __enter__(self) -> Self:
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            # Threads that have started would wait forever.
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def add(self, task: Task) -> None:
        """Queue a task; wait while the queue is full."""
        with self._lock:
            if len(self._ordinary) >= self._most_waiting:
                while self._has_enough and not self._stopped:
                    self._wait()
            self._ordinary.append(task)
            self._wake_one()
        self.raise_error()

    def add_urgent(self, task: Task) -> None:
        """Queue a task before all ordinary ones, without waiting."""
        with self._lock:
            self._urgent.append(task)
            self._wake_one()

    def finish(self) -> None:
        """Wait until every task is done."""
        with self._lock:
            while (self._urgent or self._ordinary or self._busy) and not self._stopped:
                self._wait()
        self.raise_error()

    def raise_error(self) -> None:
        """Raise the first error of a task, if any."""
        if self._error is not None:
            raise self._error

    @property
    def _has_enough(self) -> bool:
        return 2 * len(self._ordinary) > self._most_waiting

    def _wait(self) -> None:
        self._n_waiting += 1
        # Waking up regularly lets the interpreter deliver signals.
        self._changed.wait(timeout=0.5)
        self._n_waiting -= 1

    # Notifying takes long even if no thread waits.
    def _wake_one(self) -> None:
        if self._n_idle:
            self._has_task.notify()

    def _notify_changed(self) -> None:
        if self._n_waiting:
            self._changed.notify_all()

    def _end(self) -> None:
        """Stop all threads and wait until they have ended; then raise a pending interrupt."""
        interrupt: KeyboardInterrupt | None = None
        while True:
            try:
                self._stop()
                self._join()
            except KeyboardInterrupt as error:
                interrupt = error
            else:
                break
        if interrupt is not None:
            raise interrupt

    def _join(self) -> None:
        started = [thread for thread in self._threads if thread.ident is not None]
        # Up to Python 3.12, an interrupted `join` considers the thread dead.
        with self._lock:
            while self._n_ended < len(started):
                self._wait()
        for thread in started:
            thread.join()

    def _stop(self, error: BaseException | None = None) -> None:
        with self._lock:
            self._stopped = True
            self._error = self._error or error
            self._changed.notify_all()
            self._has_task.notify_all()
        self._on_stop()

    def _work(self, staging: memoryview) -> None:
        try:
            task = self._next()
            while task is not None:
                try:
                    task(staging)
                except BaseException as error:  # noqa: BLE001  # raised again by `raise_error`
                    self._stop(error)
                task = self._next(after=1)
        finally:
            with self._lock:
                self._n_ended += 1
                self._changed.notify_all()

    def _next(self, *, after: int = 0) -> Task | None:
        """Wait for a task, `after` this many have been done; None if the crew is stopped."""
        with self._lock:
            self._busy -= after
            while not (self._urgent or self._ordinary or self._stopped):
                if not self._busy:
                    self._notify_changed()
                self._n_idle += 1
                self._has_task.wait()
                self._n_idle -= 1
            if self._stopped:
                return None
            self._busy += 1
            if self._urgent:
                return self._urgent.popleft()
            task = self._ordinary.popleft()
            if self._n_waiting and not self._has_enough:
                self._notify_changed()
            return task
