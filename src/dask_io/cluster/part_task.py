"""The task that runs one part on a worker of a dask.distributed cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dask_io.cluster.probe import count_slots, memory_here, resident_before_parts
from dask_io.errors import DaskIOError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dask_io.engine.run import Progress

PartT_contra = TypeVar("PartT_contra", contravariant=True)
PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)

STARTED, MOVED, ENDED = "started", "moved", "ended"
"""Kinds of events that a task reports."""

# States of a task on its worker in which its result is wanted.
_WANTED = frozenset({"executing", "long-running"})


class PartStoppedError(DaskIOError):
    """A part was stopped because its result is no longer wanted here."""


class Work(Protocol[PartT_contra, ResultT_co]):
    """What is done with a part on a worker. It may be done twice, even at once."""

    def __call__(
        self, part: PartT_contra, /, *, limit: Limit, on_progress: Callable[[Progress], None]
    ) -> ResultT_co:
        """Do it, and report progress; an exception that `on_progress` raises ends it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What a part may use on the worker that runs it; no memory limit if `memory` is None."""

    memory: int | None
    threads: int


@dataclass(frozen=True)
class PartTask(Generic[PartT, ResultT]):
    """Runs a part, and sends its progress to a topic of the scheduler.

    Events carry cumulative counts and are at least `interval` seconds apart, because the scheduler
    handles the events of all workers and keeps few of them.
    """

    work: Work[PartT, ResultT]
    topic: str
    interval: float
    resources: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, part: PartT, number: int, attempt: int) -> ResultT:
        """Run a part on the worker that calls this."""
        from distributed import Reschedule, get_worker  # noqa: PLC0415  # only where installed

        worker: Any = get_worker()
        reporter = _Reporter(self, worker, number, attempt)
        threads = worker.state.nthreads
        n_slots = max(1, count_slots(threads, worker.state.total_resources, self.resources))
        memory = memory_here(worker, resident_before_parts(), n_slots)
        reporter.send(STARTED)
        try:
            reporter.check()
            # Threads wait for the disk part of the time, so there is one more than cores.
            limit = Limit(memory, threads // n_slots + 1)
            return self.work(part, limit=limit, on_progress=reporter)
        except PartStoppedError:
            # If the part is still wanted, because its worker retires, another worker runs it.
            raise Reschedule from None
        finally:
            reporter.send(ENDED)


class _Reporter:
    """Reports the progress of one attempt, and ends it when its result is no longer wanted."""

    def __init__(self, task: PartTask[Any, Any], worker: Any, number: int, attempt: int) -> None:
        self._task, self._worker = task, worker
        self._key = worker.get_current_task()
        self._about = {"part": number, "attempt": attempt, "worker": worker.address}
        self._next = 0.0  # the first progress is reported at once
        self._latest: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        """Report progress if it is due."""
        self.check()
        self._latest = progress
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._task.interval
            self.send(MOVED)

    def check(self) -> None:
        """End the part if it was cancelled, or if its worker is closing."""
        from distributed.core import Status  # noqa: PLC0415  # only where it is installed

        state = self._worker.state.tasks.get(self._key)
        is_wanted = state is not None and state.state in _WANTED
        if not is_wanted or self._worker.status not in {Status.running, Status.paused}:
            raise PartStoppedError(f"part {self._about['part']} was stopped")

    def send(self, kind: str) -> None:
        """Send an event, with the progress so far."""
        event = {**self._about, "kind": kind}
        if self._latest is not None:
            event["bytes"] = self._latest.n_bytes_written
            event["blocks"] = self._latest.n_blocks_written
            event["skipped"] = self._latest.n_bytes_skipped
        self._worker.log_event(self._task.topic, event)
