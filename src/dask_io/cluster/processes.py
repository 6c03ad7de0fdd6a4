"""Write the parts of a job in several processes of this machine."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Self

from dask_io.cluster.parts import PartedJob, PartsProgress
from dask_io.cluster.shared_job import SharedJob
from dask_io.cluster.worker import Answer, Task
from dask_io.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from dask_io.cluster.part import WorkItem
    from dask_io.cluster.series import PartedSeries
    from dask_io.engine.run import Progress, RunResult
    from dask_io.jobs.job import Job
    from dask_io.jobs.tree_job import SeriesJob

_PROGRAM = "from dask_io.cluster.worker import main; main({})"
# How often a part is tried whose process died.
_MOST_TRIES = 2
# How long to wait for a process to end on request, in seconds.
_PATIENCE = 30.0


@dataclass(frozen=True)
class ProcessJob(SharedJob):
    """A job in parts that several processes of this machine write; `run` starts them."""

    parted: PartedJob | PartedSeries
    processes: int

    @property
    def whole(self) -> Job | SeriesJob:
        """The job as one process would run it, with the memory of one part."""
        return self.parted.whole

    @property
    def n_shares(self) -> int:
        """Into how many shares the memory of the run is divided: each process gets one."""
        return self.processes

    def _move(self, on_progress: Callable[[Progress], None] | None) -> RunResult:
        return self.parted.share(self._run, on_progress)

    def _run(
        self,
        items: Sequence[WorkItem],
        total: Progress,
        on_progress: Callable[[Progress], None] | None,
    ) -> list[RunResult]:
        return _Crew(self.parted, items, PartsProgress(total, on_progress)).run(self.processes)

    def _verify(self) -> None:
        self.whole._verify()  # noqa: SLF001 - it has the same target

    def __str__(self) -> str:
        return f"{self.parted} for {self.processes} processes"


@dataclass
class _Crew:
    """Processes that write parts, each served by a thread of this process."""

    job: PartedJob | PartedSeries
    items: Sequence[WorkItem]
    progress: PartsProgress
    waiting: deque[int] = field(init=False)
    results: list[RunResult] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    tries: Counter[int] = field(default_factory=Counter)
    n_active: int = 0

    def __post_init__(self) -> None:
        self.waiting = deque(range(len(self.items)))
        self._changed = Condition()
        self._processes: set[subprocess.Popen[bytes]] = set()

    def run(self, n_processes: int) -> list[RunResult]:
        """Write all parts, and return their results."""
        n_processes = min(n_processes, len(self.waiting))
        self.n_active = n_processes
        threads = [Thread(target=self._serve, daemon=True) for _ in range(n_processes)]
        try:
            for thread in threads:
                thread.start()
            with self._changed:
                while self.n_active and not self.errors:
                    # A wait without a limit could not be interrupted on all systems.
                    self._changed.wait(1.0)
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._end()
            for thread in threads:
                if thread.ident is not None:
                    thread.join(_PATIENCE)
        if self.errors:
            raise self.errors[0]
        return self.results

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.errors.append(error)
            self.waiting.clear()
            self._changed.notify_all()

    def _serve(self) -> None:
        """Give parts to a process, and start another one if it dies."""
        try:
            while (number := self._take()) is not None:
                with _Worker(self._started) as worker:
                    while number is not None:
                        died = self._write(worker, number)
                        if died:
                            self._try_again(number, died)
                            break
                        number = self._take()
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self._fail(error)
        finally:
            with self._changed:
                self.n_active -= 1
                self._changed.notify_all()

    def _take(self) -> int | None:
        with self._changed:
            return self.waiting.popleft() if self.waiting and not self.errors else None

    def _started(self, process: subprocess.Popen[bytes]) -> None:
        with self._changed:
            self._processes.add(process)
            is_late = bool(self.errors)
        if is_late:
            process.terminate()

    def _write(self, worker: _Worker, number: int) -> str:
        """Have a process write a part; return how the process died, empty if it did not."""
        job = self.job
        options = job.settings.storage_options
        task = Task(*self.items[number], job.memory, job.threads, options)
        for answer in worker.answers(task):
            if answer.progress is not None:
                with self._changed:
                    self.progress.update(number, answer.progress)
            elif answer.error is not None:
                raise answer.error
            elif answer.result is not None:
                with self._changed:
                    self.results.append(answer.result)
                return ""
        return worker.how_it_died()

    def _try_again(self, number: int, died: str) -> None:
        with self._changed:
            if self.errors:
                return
            self.tries[number] += 1
            if self.tries[number] < _MOST_TRIES:
                self.waiting.appendleft(number)
                return
        raise StorageError(
            self.job.place,
            f"the process that wrote {self.items[number].part} {died}, {_MOST_TRIES} times",
            "give less --memory or fewer --processes, if the machine ran out of memory",
        )

    def _end(self) -> None:
        """Stop all processes; what they have committed is durable."""
        with self._changed:
            processes = list(self._processes)
        for process in processes:
            process.terminate()
        until = time.monotonic() + _PATIENCE
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
                continue
            process.kill()
            process.wait()


class _Worker:
    """A process that writes parts."""

    def __init__(self, on_start: Callable[[subprocess.Popen[bytes]], None]) -> None:
        reading, writing = os.pipe()
        # The process must find the same package, wherever this one found it.
        paths = [str(Path(__file__).parents[2]), *filter(None, sys.path)]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-c", _PROGRAM.format(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[writing],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                # Ctrl-C is for this process, which then ends the others.
                start_new_session=True,
            )
        finally:
            os.close(writing)
        self._answers: BinaryIO = os.fdopen(reading, "rb")
        on_start(self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._tasks.close()
        self._answers.close()

    @property
    def _tasks(self) -> BinaryIO:
        assert self._process.stdin is not None, "it is a pipe"
        return self._process.stdin  # type: ignore[return-value]  # as typed by subprocess

    def answers(self, task: Task) -> Iterator[Answer]:
        """Send a task, and yield the answers until the process dies."""
        with suppress(BrokenPipeError):
            pickle.dump(task, self._tasks)
            self._tasks.flush()
        while True:
            try:
                answer = pickle.load(self._answers)  # noqa: S301 - written by our own process
            except (EOFError, pickle.UnpicklingError):
                return
            assert isinstance(answer, Answer), "nothing else is written"
            yield answer

    def how_it_died(self) -> str:
        """Return how the process died, as part of a sentence."""
        code = self._process.wait()
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
