"""All arrays of a group in parts: several processes share those that are large."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from time import perf_counter
from typing import TYPE_CHECKING

from dask_io.cluster.begin import work_record
from dask_io.cluster.part import WorkItem
from dask_io.cluster.parts import PartedJob, finish_job, one_region, plan_parts
from dask_io.codecs.deflate import encoder_in
from dask_io.engine.run import RunResult
from dask_io.engine.series import SeriesProgress, size_of
from dask_io.errors import UsageError
from dask_io.hierarchy.container import UndividedTarget
from dask_io.jobs.tree_job import SeriesJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dask_io.cluster.part import Part, RunItems
    from dask_io.engine.run import Progress
    from dask_io.jobs.settings import Settings
    from dask_io.planning import Cut

# To move this many bytes takes less time than to hand them to another process.
_SMALL = 16 * 2**20


@dataclass(frozen=True, repr=False)
class PartedSeries:
    """The job of a group whose `large` arrays are written in parts, and all others here.

    This process holds the lock of the group, and completes it.
    """

    whole: SeriesJob
    """The job as one process would run it, with the memory of one part."""
    large: Mapping[str, PartedJob]
    settings: Settings

    @property
    def place(self) -> str:
        """The group that is written."""
        return self.whole.named_output.place

    @property
    def memory(self) -> int:
        """The memory budget of each part, in bytes."""
        return self.settings.memory

    @property
    def threads(self) -> int:
        """The number of threads of each part."""
        return self.whole.workers

    @property
    def cuts(self) -> Mapping[str, Cut]:
        """The parts of each large array."""
        return {name: each.cut for name, each in self.large.items()}

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of all arrays."""
        return [part for each in self.large.values() for part in each.parts]

    def share(self, run: RunItems, on_progress: Callable[[Progress], None] | None) -> RunResult:
        """Create the group, let `run` write the parts, write the rest, and complete the group."""
        started, output = perf_counter(), self.whole.named_output
        small = [job for name, job in self.whole.jobs.items() if name not in self.large]
        progress = SeriesProgress(on_progress, self.whole.targets)
        grids = {name: cut.grid for name, cut in self.cuts.items()}
        with output.writing(self.whole.jobs, grids):
            results = [output.carry_out(job, progress) for job in small]
            targets = [each.target for each in self.large.values()]
            items = [item for name in self.large for item in self._begin(name)]
            results += run(items, size_of(targets), progress.of_next(*targets))
            for each in self.large.values():
                finish_job(each)
        total = reduce(RunResult.followed_by, results, RunResult.of_nothing(0))
        return replace(total, seconds=perf_counter() - started, not_kept=output.not_kept)

    def _begin(self, name: str) -> Iterator[WorkItem]:
        """Create an array, whose job the journal of the group already describes."""
        parted = self.large[name]
        record = replace(
            self.whole.named_output.record.job_of(name),
            encoder=encoder_in(parted.target.metadata),
        )
        parted.target.create(record.to_bytes())
        parted.target.abandon(keep=True)
        work = work_record(parted.job, record, parted.settings).to_bytes()
        for part in parted.parts:
            yield WorkItem(work, part)


def divide(
    job: object, settings: Settings, *, workers: int, limits: Settings | None = None
) -> PartedJob | PartedSeries:
    """Divide a job into parts for processes that this one starts, or tells what to do.

    The `settings` are those of each part. A run that completes the target alone has the memory and
    the rate in `limits`, by default those of a part.

    Raises
    ------
    UsageError
        If the target can only be written by one process.
    """
    if not isinstance(job, SeriesJob):
        parted = plan_parts(one_region(job), settings, workers=workers)
        return replace(parted, limits=limits)
    output = job.named_output
    if isinstance(output.target, UndividedTarget):
        raise UsageError(
            f"{output.place} is one {output.record.format} file, which only one process can "
            "write; write a Zarr group in parts"
        )
    large = {
        name: plan_parts(each, settings, workers=workers)
        for name, each in job.jobs.items()
        if size_of([each.named_target]).n_bytes > _SMALL
    }
    if limits is not None:
        record = replace(output.record, memory=limits.memory, max_rate=limits.max_rate)
        job = replace(job, output=replace(output, record=record))
    return PartedSeries(job, large, settings)
