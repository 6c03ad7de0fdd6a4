"""Share a job: one part of it in this process, or all parts in several processes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dask_io.cluster.begin import begin_parts, find_begun
from dask_io.cluster.part import Part
from dask_io.cluster.parts import PartedJob, check_parts, one_array, plan_parts
from dask_io.cluster.processes import ProcessJob
from dask_io.cluster.run import run_part
from dask_io.cluster.series import divide
from dask_io.cluster.shared_job import SharedJob
from dask_io.engine.run import RunResult
from dask_io.errors import UsageError
from dask_io.formats.places import journal_at
from dask_io.journal.journal import is_sealed
from dask_io.planning import largest_count
from dask_io.storage.location import locate

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.engine.run import Progress
    from dask_io.geometry import Grid, Region
    from dask_io.jobs.job import Job
    from dask_io.jobs.settings import Settings
    from dask_io.report.progress import OnProgress


@dataclass(frozen=True, slots=True)
class PartNumber:
    """One of several parts; parts are numbered from 1.

    Raises
    ------
    UsageError
        If there is no such part.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise UsageError(
                f"part {self.number}/{self.count} does not exist; parts are numbered from 1 to the "
                "number of parts, as in 3/16"
            )

    @classmethod
    def parse(cls, given: str | tuple[int, int]) -> PartNumber:
        """Parse a part, such as ``"3/16"`` or ``(3, 16)``.

        Examples
        --------
        >>> PartNumber.parse("3/16")
        PartNumber(number=3, count=16)
        """
        words = given.split("/") if isinstance(given, str) else given
        try:
            number, count = map(int, words)
        except (TypeError, ValueError):
            raise UsageError(
                f"{given!r} is not a part; write the part and the number of parts, as in 3/16"
            ) from None
        return cls(number, count)

    def __str__(self) -> str:
        return f"part {self.number} of {self.count}"


@dataclass(frozen=True)
class OnePart(SharedJob):
    """One part of a job; `run` writes it, and creates the target if this is the first part.

    If all parts are complete, nothing is written, even if the target may be overwritten: this part
    may only be late.

    If the target cannot be divided into so many parts, the last parts are empty.
    `finish_parts` completes the target when all parts are done.
    """

    job: Job
    settings: Settings
    part: PartNumber
    command: str | None = None

    @property
    def whole(self) -> Job:
        """The job as one process would run it, with the memory of one part."""
        return self.job

    def execute(self, *, verify: bool = False, progress: OnProgress = None) -> RunResult:
        """Write the part; see `Runnable.run`."""
        if verify:
            self._verify()
        return super().execute(progress=progress)

    @property
    def is_complete(self) -> bool:
        """Whether all parts have been written, and the target has been completed."""
        place = locate(self.job.named_target.place, self.settings.storage_options)
        journal = journal_at(place)
        return journal is not None and is_sealed(journal)

    @property
    def parted(self) -> PartedJob:
        """All parts of the job."""
        return plan_parts(self.job, self.settings, count=self.part.count, command=self.command)

    def _move(self, on_progress: Callable[[Progress], None] | None) -> RunResult:
        grid = self._find_parts()
        work = begin_parts(self.job, grid, self.settings, self.command)
        parts = work.job.parts
        assert parts is not None, "the job is in parts"
        number, count = self.part.number, parts.n_blocks
        if number > count:
            # The target has fewer blocks than parts were requested.
            return RunResult.of_nothing(0)
        # Another process may have cut the array differently; what it has recorded counts.
        region = nth_block(parts, number - 1)
        return run_part(
            work.to_bytes(),
            Part(number, count, region, 0.0, 0, 0, 0),
            memory=self.settings.memory,
            threads=self.job.workers,
            storage_options=self.settings.storage_options,
            on_progress=on_progress,
        )

    def _find_parts(self) -> Grid:
        """Return the parts that another process has recorded, or plan them."""
        begun = find_begun(self.job, replaces=self.settings.overwrite)
        if begun is not None and begun.parts is not None:
            check_parts(self.job, self.settings)
            if begun.parts.n_blocks == largest_count(self.job.named_target.grid, self.part.count):
                return begun.parts
        return self.parted.cut.grid

    def _verify(self) -> None:
        raise UsageError(
            "one part cannot be verified before the target is complete; use dask-io finish --verify"
        )

    def __str__(self) -> str:
        return f"{self.part} of\n{self.job}"


def share_job(
    plan: Callable[[Settings], object],
    settings: Settings,
    *,
    processes: int | None = None,
    part: str | tuple[int, int] | None = None,
    command: str | None = None,
) -> OnePart | ProcessJob:
    """Plan a job that several processes share.

    Parameters
    ----------
    plan
        Plans the job with given settings.
    settings
        The settings of the whole run.
    processes
        The number of processes on this machine. Each gets an equal share of the memory, of the
        threads and of the rate.
    part
        The part that this process writes, and the number of parts. Settings are those of the part.
    command
        The command that runs a part, without the option for the part, for messages.

    Raises
    ------
    UsageError
        If the job cannot be shared.
    """
    if processes is not None and part is not None:
        raise UsageError("part and processes cannot both be given; leave out one of them")
    if part is not None:
        number = PartNumber.parse(part)
        job = one_array(plan(settings))
        check_parts(job, settings)
        return OnePart(job, settings, number, command)
    if processes is None or processes < 1:
        raise UsageError(f"at least one process is needed, not {processes}")
    threads = settings.workers or settings.n_threads()
    share = replace(
        settings,
        memory=max(1, settings.memory // processes),
        workers=max(1, threads // processes),
        max_rate=settings.max_rate and max(1, settings.max_rate // processes),
    )
    parted = divide(plan(share), share, workers=processes, limits=settings)
    return ProcessJob(parted, processes)


def nth_block(grid: Grid, number: int) -> Region:
    """Return a block of a grid by its flat number, in C order."""
    index = []
    for count in reversed(grid.counts):
        number, each = divmod(number, count)
        index.append(each)
    return grid.block(index[::-1])
