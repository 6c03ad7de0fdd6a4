"""Run the parts of a run on a cluster: submit, watch, repeat, and stop them."""

from __future__ import annotations

from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import uuid4

from dask_io.cluster.attempts import Attempt, Parts, PartState
from dask_io.cluster.connect import load_distributed, lost_cluster, reporting_loss
from dask_io.cluster.part_task import PartTask
from dask_io.cluster.probe import count_slots
from dask_io.errors import DataError, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dask_io.cluster.part_task import Work
    from dask_io.engine.run import Progress

PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")

_MOST_FAILURES = 3
# How often slow parts are looked for; more seldom if there are more workers to ask about.
_TICK_SECONDS, _WORKERS_PER_SECOND = 1.0, 100
_STOP_SECONDS, _STOP_TICK_SECONDS = 15.0, 0.5
# All workers together send at most this many events per second, each at most two.
_MOST_EVENTS, _FEWEST_EVENT_SECONDS = 100, 0.5
# A worker that is this much more silent than others may hang.
_SILENT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Request(Generic[PartT, ResultT]):
    """What to run on a cluster.

    Attributes
    ----------
    work
        What is done with each part; it may be done twice, even at once.
    parts
        The parts.
    seconds
        The predicted time of each part.
    total
        The size of the whole run, for its progress.
    label
        The name of the run on the dashboard.
    resources
        Amounts that each part takes of a worker's resources.
    n_slots
        Parts that run at once in the whole cluster, when it begins.
    """

    work: Work[PartT, ResultT]
    parts: Sequence[PartT]
    seconds: Sequence[float]
    total: Progress
    label: str = "resplit"
    resources: Mapping[str, float] = field(default_factory=dict)
    n_slots: int = 1


def run_parts(
    client: Any,
    request: Request[PartT, ResultT],
    on_progress: Callable[[Progress], None] | None = None,
) -> list[ResultT]:
    """Run all parts on a cluster, and return their results in order.

    A part whose worker dies, hangs or retires runs again elsewhere, and so does a part that fails
    for a reason that may not hold on another worker. After an error or an interrupt, all tasks are
    cancelled, and running ones are stopped.

    Raises
    ------
    StorageError
        If the cluster is lost, a part kills its workers every time, or fails on several workers.
    """
    if not request.parts:
        return []
    dispatcher = _Dispatcher(client, request, on_progress)
    try:
        with reporting_loss(client):
            return dispatcher.run()
    except BaseException:
        with suppress(OSError):
            dispatcher.stop_all()
        raise
    finally:
        dispatcher.close()


class _Dispatcher(Generic[PartT, ResultT]):
    """Submits the parts of one run, and reacts to what happens to them.

    Everything that happens arrives in one queue, so that all state belongs to one thread.
    """

    def __init__(
        self,
        client: Any,
        request: Request[PartT, ResultT],
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.client, self.request, self.on_progress = client, request, on_progress
        states = [PartState(number, seconds) for number, seconds in enumerate(request.seconds)]
        self.parts = Parts(states, request.total)
        self.results: dict[int, ResultT] = {}
        self.queue: SimpleQueue[Attempt | Mapping[str, Any]] = SimpleQueue()
        self.distributed = load_distributed()
        # Dask derives the name of a group of tasks from the words before the number.
        self.name = f"dask-io-{request.label}-{uuid4().int % 10**12:012d}"
        interval = max(_FEWEST_EVENT_SECONDS, min(len(states), request.n_slots) / _MOST_EVENTS)
        self.task = PartTask(request.work, self.name, interval, request.resources)
        self.tick_seconds = max(_TICK_SECONDS, request.n_slots / _WORKERS_PER_SECOND)
        self.next_tick = monotonic() + self.tick_seconds
        self.had_idle = False

    def run(self) -> list[ResultT]:
        """Run all parts."""
        states = self.parts.states
        self.client.subscribe_topic(self.name, lambda event: self.queue.put(event[1]))
        publish_duration(self.client, self.name, sum(self.request.seconds) / max(1, len(states)))
        self._submit(states)
        while len(self.results) < len(states):
            self._wait()
            if monotonic() >= self.next_tick:
                self.next_tick = monotonic() + self.tick_seconds
                self._check_client()
                self._repeat_slow()
        # The last events may still be on their way.
        self.parts.complete()
        self._report()
        return [self.results[state.number] for state in states]

    def _submit(self, states: Sequence[PartState], **where: Any) -> None:
        """Add an attempt for each of some parts, as one graph."""
        attempts = [state.new_attempt() for state in states]
        with self.distributed.span("dask-io", self.request.label):
            futures = self.client.map(
                self.task,
                [self.request.parts[each.part] for each in attempts],
                [each.part for each in attempts],
                [each.number for each in attempts],
                key=[(self.name, each.part, each.number) for each in attempts],
                pure=False,
                resources=dict(self.request.resources) or None,
                **where,
            )
        for attempt, future in zip(attempts, futures, strict=True):
            attempt.future = future
            future.add_done_callback(lambda _, attempt=attempt: self.queue.put(attempt))

    def _wait(self) -> None:
        """Wait for something to happen, and react to it."""
        try:
            found = self.queue.get(timeout=max(0.01, self.next_tick - monotonic()))
        except Empty:
            return
        if isinstance(found, Attempt):
            self._settle(found)
        elif self.parts.take_note(found):
            self._report()

    def _report(self) -> None:
        if self.on_progress is not None:
            self.on_progress(self.parts.progress())

    def _settle(self, attempt: Attempt) -> None:
        """Take the result of an attempt, or find out why there is none."""
        state = self.parts.states[attempt.part]
        if attempt.is_dropped or state.is_done:
            return
        try:
            result: ResultT = attempt.future.result()
        except (CancelledError, self.distributed.comm.CommClosedError, TimeoutError) as error:
            raise lost_cluster(self.client) from error
        except self.distributed.KilledWorker as error:
            attempt.is_dropped = True
            self._repeat_killed(state, attempt, error)
        except Exception as error:  # noqa: BLE001  # whatever the part raises
            attempt.is_dropped = True
            self._repeat_failed(state, attempt, error)
        else:
            self.results[state.number] = result
            self._drop(self.parts.finish(attempt))
            attempt.future.release()

    def _repeat_killed(self, state: PartState, attempt: Attempt, error: Any) -> None:
        """Run a part again after workers died under it, unless that is because of the part."""
        if any(each.is_running for each in state.live):
            return
        if self.parts.is_killer(attempt, error.last_worker.address):
            n_deaths = state.n_killed * (error.allowed_failures + 1)
            raise StorageError(
                self.client.scheduler.address,
                f"part {state.number} was running on {n_deaths} workers when they died, the last "
                f"one {error.last_worker.address}, and wrote nothing",
                "look at the logs of the workers, or give parts less memory",
            ) from error
        if not state.live:
            self._submit([state])

    def _repeat_failed(self, state: PartState, attempt: Attempt, error: Exception) -> None:
        """Run a part again on another worker, unless it would fail there as well."""
        state.n_failures += 1
        state.failed_on.add(attempt.worker)
        if any(each.is_running for each in state.live):
            return
        if isinstance(error, (DataError, UsageError)) or state.n_failures >= _MOST_FAILURES:
            raise error
        if state.live:
            return
        others = [each for each in self.client.nthreads() if each not in state.failed_on]
        # With `allow_other_workers`, the worker that failed would steal the task again. If the
        # others leave, the part waits, and runs a second time like one that is slow.
        self._submit([state], **({"workers": others} if others else {}))

    def _repeat_slow(self) -> None:
        """Run the slowest parts a second time, on workers that are idle."""
        slow = self.parts.find_slow()
        idle = self._find_idle() if slow else []
        # Twice in a row: a worker is idle for a moment between two tasks.
        had_idle, self.had_idle = self.had_idle, bool(idle)
        if not had_idle:
            return
        for state in slow:
            [live] = state.live
            # One that waits, perhaps for a worker that has left, may only have these.
            useless = {live.worker, *(state.failed_on if live.is_running else ())}
            elsewhere = [each for each in idle if each not in useless]
            if not elsewhere:
                continue
            self._submit([state], workers=elsewhere, allow_other_workers=True)
            idle.remove(elsewhere[0])

    def _find_idle(self) -> list[str]:
        """Return the addresses of workers that could run another part, once per free thread."""
        known = self.client.scheduler_info(n_workers=-1)["workers"]
        busy = self.client.processing()
        latest = max((each["last_seen"] for each in known.values()), default=0.0)
        idle = []
        for address, about in known.items():
            if latest - about["last_seen"] > _SILENT_SECONDS:
                continue
            n_slots = count_slots(about["nthreads"], about["resources"], self.request.resources)
            idle += [address] * max(0, n_slots - len(busy.get(address, ())))
        return idle

    def _drop(self, attempts: Sequence[Attempt]) -> None:
        """Cancel attempts; those that run end with their next report of progress."""
        for attempt in attempts:
            attempt.is_dropped = True
        if attempts:
            self.client.cancel([each.future for each in attempts], force=True)

    def _check_client(self) -> None:
        if self.client.status != "running":
            raise lost_cluster(self.client)

    def stop_all(self) -> None:
        """Cancel all attempts, and wait until those that run have ended."""
        if self.client.status != "running":
            return
        self._drop([each for state in self.parts.unfinished for each in state.live])
        deadline = monotonic() + _STOP_SECONDS
        while monotonic() < deadline and self._runs_anywhere():
            pause = monotonic() + _STOP_TICK_SECONDS
            while (left := pause - monotonic()) > 0 and self.parts.running:
                with suppress(Empty):
                    found = self.queue.get(timeout=left)
                    if not isinstance(found, Attempt):
                        self.parts.take_note(found)

    def _runs_anywhere(self) -> bool:
        """Whether an attempt runs on a worker that is still there."""
        running = {attempt.worker for attempt in self.parts.running}
        if not running or self.client.status != "running":
            return False
        return not running.isdisjoint(self.client.nthreads())

    def close(self) -> None:
        """Forget everything that the client and the scheduler know about the run."""
        if self.client.status == "running":
            self.client.unsubscribe_topic(self.name)
            forget_events(self.client, self.name)


def publish_duration(client: Any, name: str, seconds: float) -> None:
    """Announce how long tasks of a name take; without this, Dask assumes half a second.

    Work stealing and adaptive scaling depend on it. A scheduler that refuses to run functions does
    without.
    """

    # A nested function is sent by value: Dask IO need not be installed next to the scheduler.
    def publish(dask_scheduler: Any, name: str, seconds: float) -> None:
        from dask.utils import key_split  # noqa: PLC0415  # imported on the scheduler
        from distributed.scheduler import TaskPrefix  # noqa: PLC0415

        prefix = key_split(name)
        known = dask_scheduler.task_prefixes
        if prefix not in known:
            known[prefix] = TaskPrefix(prefix)
        known[prefix].duration_average = seconds

    try:
        client.run_on_scheduler(publish, name=name, seconds=seconds)
    except ValueError:
        return  # `distributed.scheduler.pickle` is off


def forget_events(client: Any, topic: str) -> None:
    """Have the scheduler remove the events of a run, which it would keep as long as it runs."""

    def forget(dask_scheduler: Any, topic: str) -> None:
        dask_scheduler._broker.truncate(topic)  # noqa: SLF001  # there is no public way

    # The run has ended, whatever happens to its events; see also `publish_duration`.
    with suppress(AttributeError, OSError, ValueError):
        client.run_on_scheduler(forget, topic=topic)
