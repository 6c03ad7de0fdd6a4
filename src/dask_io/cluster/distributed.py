"""Run a job in parts on a dask.distributed cluster."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dask_io.cluster.connect import connected
from dask_io.cluster.dispatch import Request, run_parts
from dask_io.cluster.parts import check_settings, refuse_memory
from dask_io.cluster.run import run_part
from dask_io.cluster.series import divide
from dask_io.cluster.shared_job import SharedJob
from dask_io.cluster.workers import find_workers
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dask_io.cluster.part import WorkItem
    from dask_io.cluster.part_task import Limit
    from dask_io.cluster.parts import PartedJob
    from dask_io.cluster.series import PartedSeries
    from dask_io.cluster.workers import Workers
    from dask_io.engine.run import Progress, RunResult
    from dask_io.jobs.job import Job
    from dask_io.jobs.settings import Settings
    from dask_io.jobs.tree_job import SeriesJob

# Addresses of schedulers whose workers may be threads of this process.
_INSIDE = "inproc://"


@dataclass(frozen=True)
class MovePart:
    """Moves a part of the data on a worker; everything that it needs is small.

    `threads` is the number of threads that the user gives, None for one per core.
    """

    memory: int
    threads: int | None = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)

    def __call__(
        self, item: WorkItem, /, *, limit: Limit, on_progress: Callable[[Progress], None]
    ) -> RunResult:
        """Open source and target here, and move the part within the memory of this worker."""
        # A worker that joined later may be smaller than those that were there at the beginning.
        memory = self.memory if limit.memory is None else min(self.memory, limit.memory)
        return run_part(
            *item,
            memory=memory,
            threads=self.threads or limit.threads,
            storage_options=self.storage_options,
            on_progress=on_progress,
        )


@dataclass(frozen=True)
class ClusterJob(SharedJob):
    """A job in parts with the cluster that runs them. `run` executes it."""

    parted: PartedJob | PartedSeries
    client: Any
    workers: Workers
    label: str = "resplit"
    threads: int | None = None
    """The number of threads of each part that the user gives."""

    @property
    def whole(self) -> Job | SeriesJob:
        """The job as one process would run it, with the memory of one part."""
        return self.parted.whole

    @property
    def processes(self) -> int:
        """The number of workers."""
        return len(self.workers.workers)

    @property
    def summary(self) -> str:
        """How the job is divided, in one line."""
        parts, n_workers = self.parted.parts, len(self.workers.workers)
        return (
            f"runs in {len(parts):,} {'parts' if len(parts) > 1 else 'part'} on {n_workers:,} "
            f"{'workers' if n_workers > 1 else 'worker'} of {self.workers.scheduler}, "
            f"{self.workers.n_slots:,} at once, with {format_bytes(self.parted.memory)} each"
        )

    def _move(self, on_progress: Callable[[Progress], None] | None) -> RunResult:
        return self.parted.share(self._run, on_progress)

    def _run(
        self,
        items: Sequence[WorkItem],
        total: Progress,
        on_progress: Callable[[Progress], None] | None,
    ) -> list[RunResult]:
        parted = self.parted
        request = Request(
            MovePart(parted.memory, self.threads, parted.settings.storage_options),
            items,
            [part.seconds for _, part in items],
            total,
            label=self.label,
            resources=self.workers.resources,
            n_slots=self.workers.n_slots,
        )
        return run_parts(self.client, request, on_progress)

    def _verify(self) -> None:
        self.whole._verify()  # noqa: SLF001 - it has the same target


@contextmanager
def on_cluster(
    client: Any,
    plan_job: Callable[[Settings], object],
    settings: Settings,
    *,
    places: tuple[str, str],
    memory: int | None,
    label: str = "resplit",
) -> Iterator[ClusterJob]:
    """Plan a job for the workers of a cluster, and yield it while the cluster is connected.

    Parts take the resources of workers that ``dask.annotate(resources=...)`` asks for.

    Parameters
    ----------
    client
        A client, ``"current"``, or the address or file of a scheduler.
    plan_job
        Plans the job, with the settings of each part.
    settings
        The settings; the memory is that of this machine, and is replaced.
    places
        The source and the target.
    memory
        Memory budget of each part; by default as much as the workers have.
    label
        The name of the run on the dashboard.
    """
    from dask.base import get_annotations  # noqa: PLC0415  # takes a while to load

    check_settings(settings)
    with connected(client) as found:
        resources = get_annotations().get("resources")
        if not found.scheduler.address.startswith(_INSIDE):
            refuse_memory(places)
        workers = find_workers(found, places[:1], places[1:], resources=resources)
        smallest = workers.smallest
        threads = settings.workers or smallest.threads // smallest.n_slots(workers.resources) + 1
        memory = workers.choose_memory(memory)
        each = replace(settings, memory=memory, workers=threads, in_parts=True)
        parted = divide(plan_job(each), each, workers=workers.n_slots)
        yield ClusterJob(parted, found, workers, label, settings.workers)
