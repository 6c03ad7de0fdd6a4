"""A process that writes parts, one after another; `processes` starts it.

It takes pickled tasks from its standard input, and writes pickled answers to a file that is given
by its number. When the input ends, or a signal arrives, it stops: what is durable stays.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from contextlib import suppress
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.cluster.run import run_part
from dask_io.errors import InterruptedRunError, StorageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from dask_io.cluster.part import Part
    from dask_io.engine.run import Progress, RunResult

# Progress is reported at most this often, in seconds.
_PAUSE = 0.1


class Task(NamedTuple):
    """A part to write."""

    record: bytes
    part: Part
    memory: int
    threads: int
    storage_options: Mapping[str, Any] | None


class Answer(NamedTuple):
    """The progress, the result or the error of a task."""

    progress: Progress | None = None
    result: RunResult | None = None
    error: BaseException | None = None


class _Reporter:
    """Sends answers, from any thread."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers, self._lock = answers, Lock()
        self._next = 0.0
        self._unsent: Progress | None = None

    def send(self, answer: Answer) -> None:
        """Send an answer."""
        with self._lock:
            pickle.dump(answer, self._answers)
            self._answers.flush()

    def update(self, progress: Progress) -> None:
        """Send progress, if it is due."""
        self._unsent = progress
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PAUSE
            self.send_rest()

    def send_rest(self) -> None:
        """Send the latest progress, unless it has been sent."""
        progress, self._unsent = self._unsent, None
        if progress is not None:
            self.send(Answer(progress=progress))


def main(number: int) -> None:
    """Take tasks until there are no more."""
    tasks: SimpleQueue[Task | None] = SimpleQueue()
    is_busy = Event()
    signal.signal(signal.SIGTERM, _interrupt)
    # The process that started this one handles Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_take_tasks, args=(tasks, is_busy), daemon=True).start()
    with os.fdopen(number, "wb") as answers:
        reporter = _Reporter(answers)
        try:
            while (task := tasks.get()) is not None:
                is_busy.set()
                reporter.send(_run(task, reporter))
                is_busy.clear()
        except KeyboardInterrupt:
            sys.exit(InterruptedRunError.exit_code)
        finally:
            # Nothing is left to stop while the interpreter ends.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _take_tasks(tasks: SimpleQueue[Task | None], is_busy: Event) -> None:
    """Queue tasks until the input ends."""
    # Not `sys.stdin`, which the interpreter locks when it ends.
    try:
        # The other process may also die in the middle of a task.
        with (
            os.fdopen(0, "rb", closefd=False) as received,
            suppress(EOFError, pickle.UnpicklingError),
        ):
            while True:
                tasks.put(pickle.load(received))  # noqa: S301 - written by our own process
    finally:
        tasks.put(None)
    if is_busy.is_set():
        # The process that waits for the answer has died.
        os.kill(os.getpid(), signal.SIGTERM)


def _run(task: Task, reporter: _Reporter) -> Answer:
    try:
        result = run_part(
            task.record,
            task.part,
            memory=task.memory,
            threads=task.threads,
            storage_options=task.storage_options,
            on_progress=reporter.update,
        )
    except InterruptedRunError:
        raise KeyboardInterrupt from None
    except Exception as error:  # noqa: BLE001 - reported to the other process
        return Answer(error=_picklable(error))
    reporter.send_rest()
    return Answer(result=result)


def _picklable(error: Exception) -> Exception:
    """Return an error that survives the way to the other process."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - an error may contain anything
        return StorageError("a worker process", f"{type(error).__name__}: {error}")
    return error
