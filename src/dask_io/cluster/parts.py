"""Parts of a job: boxes of whole target blocks that any process can write at any time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from shlex import quote
from time import perf_counter
from typing import TYPE_CHECKING

from dask_io.cluster.begin import begin_parts, find_begun
from dask_io.cluster.finish import finish_parts
from dask_io.cluster.part import Part, WorkItem
from dask_io.cluster.run import run_part, view_source
from dask_io.cluster.shared_job import SharedJob
from dask_io.engine.run import RunResult
from dask_io.engine.series import add_up, size_of
from dask_io.errors import UsageError
from dask_io.jobs.job import Job, resumable
from dask_io.jobs.planning import plan_part
from dask_io.jobs.tree_job import SeriesJob
from dask_io.jobs.verify import check_again
from dask_io.planning import (
    choose_counts,
    cost_cut,
    cut_problem,
    largest_count,
    parse_objective,
    plan_cut,
    plan_with,
    predict_seconds,
    read_through,
)
from dask_io.python_errors import raises_for_python
from dask_io.report.summary import plan_facts, plan_rows
from dask_io.storage.location import is_in_memory, locate
from dask_io.storage.medium import Durability, Writers
from dask_io.stores.container import INSIDE
from dask_io.stores.views import TargetView
from dask_io.units import count, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dask_io.cluster.part import RunItems
    from dask_io.engine.run import Progress
    from dask_io.geometry import Region
    from dask_io.jobs.settings import Settings
    from dask_io.planning import AnyPlan, Cut, Device
    from dask_io.planning.cut import Redundant
    from dask_io.stores.store import Source, Target


@dataclass(frozen=True, repr=False)
class PartedJob(SharedJob):
    """A job in parts. `run` writes them one after another; see also `begin` and `run_part`.

    Several processes on any machines can share the work::

        record = job.begin()  # once, anywhere
        run_part(record, part, memory=..., threads=...)  # for each part, in any process
        job.finish(results)  # once, when all parts are done

    A part may run again, even at the same time as another attempt: blocks that are durable are
    skipped, and all attempts write the same bytes.

    Attributes
    ----------
    job
        The job as one process would run it, with the memory of one part.
    cut
        The parts, and their predicted costs.
    settings
        The settings; `memory` and `workers` are those of each part.
    command
        The command that runs the parts, without the option for the part, for messages.
    limits
        The settings of a run that completes the target alone; by default those of a part.
    """

    job: Job
    cut: Cut
    settings: Settings
    command: str | None = field(default=None, kw_only=True)
    limits: Settings | None = field(default=None, kw_only=True)

    @property
    def source(self) -> Source:
        """The source."""
        return self.job.source

    @property
    def target(self) -> Target:
        """The target."""
        return self.job.named_target

    @property
    def whole(self) -> Job:
        """The job as one process would run it, with the memory of one part."""
        return self.job

    @property
    def place(self) -> str:
        """The target."""
        return self.target.place

    @property
    def memory(self) -> int:
        """The memory budget of each part, in bytes."""
        return self.settings.memory

    @property
    def threads(self) -> int:
        """The number of threads of each part."""
        return self.job.workers

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts, in the order of their numbers."""
        return tuple(map(self.part, range(1, self.cut.count + 1)))

    def part(self, number: int) -> Part:
        """Return a part by its number, from 1."""
        return make_part(self.cut, number)

    @property
    def redundant(self) -> Redundant:
        """What parts read more than one process would."""
        return self.cut.redundant(self.job.plan)

    @raises_for_python
    def begin(self) -> bytes:
        """Create the target, or join if another process has begun the same job.

        Returns
        -------
        bytes
            The record that `run_part` needs.

        Raises
        ------
        TargetExistsError
            If the target exists, and may not be overwritten.
        UsageError
            If it is being written in other parts.
        """
        return begin_job(self)

    @raises_for_python
    def finish(
        self, results: Iterable[RunResult] = (), *, seconds: float | None = None
    ) -> RunResult:
        """Complete the target after all parts have been written.

        Parameters
        ----------
        results
            The results of the parts, which are added up.
        seconds
            How long the run took; by default the sum over the parts.

        Raises
        ------
        DataError
            If a part is missing, or the source has changed.
        """
        return finish_job(self, results, seconds=seconds)

    def share(self, run: RunItems, on_progress: Callable[[Progress], None] | None) -> RunResult:
        """Create the target, let `run` write the parts, and complete the target."""
        started, place = perf_counter(), self.target.place
        record = begin_job(self, is_alone=True)
        with resumable(lambda: quote(place), place):
            items = [WorkItem(record, part) for part in self.parts]
            results = run(items, size_of([self.target]), on_progress)
            return finish_job(self, results, seconds=perf_counter() - started)

    def _move(self, on_progress: Callable[[Progress], None] | None) -> RunResult:
        return self.share(self._run_here, on_progress)

    def _run_here(
        self,
        items: Sequence[WorkItem],
        total: Progress,
        on_progress: Callable[[Progress], None] | None,
    ) -> list[RunResult]:
        counter = PartsProgress(total, on_progress)
        return [
            run_part(
                *item,
                memory=self.memory,
                threads=self.threads,
                storage_options=self.settings.storage_options,
                on_progress=counter.of(number),
            )
            for number, item in enumerate(items)
        ]

    def _verify(self) -> None:
        place = locate(self.target.place, self.settings.storage_options)
        check_again([place], self.memory, self.threads, pace=self.target.tally.pace)

    def _where(self) -> Sequence[str]:
        return self.source.place, self.target.place

    def _facts(self) -> Iterator[str]:
        yield count(self.cut.count, "part")
        yield from plan_facts(self.plan)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield from zip(("from", "to"), self._where(), strict=True)
        yield "parts", f"{self.cut.count:,}, with {format_bytes(self.memory)} each"
        yield from plan_rows(self.plan, inferred=self.inferred)

    def __str__(self) -> str:
        return f"{self.job}\nin {self.cut.count} parts"


def begin_job(job: PartedJob, *, is_alone: bool = False) -> bytes:
    """Create the target of a job, or join it; see `PartedJob.begin` and `begin_parts`."""
    work = begin_parts(
        job.job,
        job.cut.grid,
        job.settings,
        job.command,
        limits=job.limits,
        is_alone=is_alone,
    )
    if work.job.parts != job.cut.grid:
        raise UsageError(
            f"another process has begun {job.target.place} with a different division into "
            f"{job.cut.count} parts; plan the job again to join it"
        )
    return work.to_bytes()


def finish_job(
    job: PartedJob, results: Iterable[RunResult] = (), *, seconds: float | None = None
) -> RunResult:
    """Complete the target of a job; see `PartedJob.finish`."""
    place = locate(job.target.place, job.settings.storage_options)
    finished = finish_parts(place, storage_options=job.settings.storage_options)
    parts = list(results)
    total = reduce(RunResult.followed_by, parts) if parts else finished
    return replace(
        total,
        seconds=total.seconds if seconds is None else seconds,
        not_kept=finished.not_kept,
    )


class PartsProgress:
    """Adds up the progress of parts.

    Parameters
    ----------
    total
        The size of all parts together.
    on_progress
        Called with the progress of all parts together.
    """

    def __init__(self, total: Progress, on_progress: Callable[[Progress], None] | None) -> None:
        self._on_progress = on_progress
        self._total = total
        self._latest: dict[int, Progress] = {}

    def of(self, number: int) -> Callable[[Progress], None]:
        """Return the function that takes the progress of one part."""

        def update(progress: Progress) -> None:
            self.update(number, progress)

        return update

    def update(self, number: int, progress: Progress) -> None:
        """Take the progress of a part."""
        before = self._latest.setdefault(number, progress)
        # A part that runs again starts with the blocks that are durable, also those of this run.
        if progress.n_bytes_written >= before.n_bytes_written:
            self._latest[number] = replace(progress, n_bytes_skipped=before.n_bytes_skipped)
        if self._on_progress is not None:
            self._on_progress(add_up(self._latest.values(), self._total))


def make_part(cut: Cut, number: int) -> Part:
    """Return a part of a cut by its number, from 1."""
    region, cost = cut.region(number - 1), cut.cost(number - 1)
    return Part(
        number,
        cut.count,
        region,
        cost.seconds,
        cost.n_bytes_read,
        cost.n_bytes_written,
        cost.memory,
    )


def plan_parts(
    job: Job,
    settings: Settings,
    *,
    count: int | None = None,
    workers: int | None = None,
    command: str | None = None,
) -> PartedJob:
    """Divide a job into parts.

    If the target is already being written in parts of the same job, these are the parts.

    Parameters
    ----------
    job
        The job, planned with these settings.
    settings
        The settings; `memory` and `workers` (threads) are those of each part.
    count
        The number of parts; by default several for each worker, each some minutes long. If the
        target has too few blocks, or they cannot be divided so, there are fewer.
    workers
        The number of workers that share the parts; by default as many as parts.
    command
        The command that runs the parts, without the option for the part, for messages.

    Raises
    ------
    UsageError
        If the target can only be written by one process.
    """
    check_parts(job, settings)
    target = job.named_target
    if count is not None:
        _check_count(count)
        count = largest_count(target.grid, count)

    def plan(region: Region) -> AnyPlan:
        source = view_source(job.source, region)
        return plan_part(source, TargetView(target, region), settings).plan

    problem = job.plan.problem
    begun = find_begun(job, replaces=settings.overwrite)
    if begun is not None and begun.parts is not None and count in {None, begun.parts.n_blocks}:
        cut = cost_cut(problem, begun.parts, job.device, plan)
    else:
        seconds = predict_seconds(job.plan, job.device)
        n_blocks = target.grid.n_blocks
        counts = choose_counts(seconds, n_blocks, workers or 1) if count is None else [count]
        cut = plan_cut(problem, counts, job.device, plan, workers=workers)
    return PartedJob(job, cut, settings, command=command)


def cut_into_parts(
    plan: AnyPlan,
    device: Device,
    count: int,
    *,
    strategy: str = "auto",
    objective: str | None = None,
) -> Cut:
    """Cut a plan into at most so many parts without a target, to predict their costs.

    Raises
    ------
    UsageError
        If it cannot be cut.
    """
    _check_count(count)
    if strategy == "spill":
        raise _spills()
    problem = plan.problem

    def plan_one(region: Region) -> AnyPlan:
        found = plan_with(
            strategy,
            cut_problem(problem, region),
            objective=parse_objective(objective),
            device=device,
            scratch=0,
        )
        return read_through(found, device) if strategy == "auto" else found

    return plan_cut(problem, [count], device, plan_one)


def _check_count(count: int) -> None:
    if count < 1:
        raise UsageError(f"at least one part is needed, not {count}")


def one_array(job: object) -> Job:
    """Return a job whose parts are written by processes that do not know of each other.

    Raises
    ------
    UsageError
        If it moves several arrays or regions.
    """
    if isinstance(job, SeriesJob):
        largest = max(job.jobs, key=lambda name: job.jobs[name].source.grid.size)
        example = f"{job.place}{INSIDE}/{largest}"
        raise UsageError(
            f"{job.place} holds several arrays; use --processes or --scheduler to write all of "
            f"them in parts, or give one array, as in {example}"
        )
    return one_region(job)


def one_region(job: object) -> Job:
    """Return a job that moves one array.

    Raises
    ------
    UsageError
        If it moves several regions.
    """
    if not isinstance(job, Job):
        raise UsageError(
            "several regions are written from one read, which parts cannot share; write one "
            "region after another, or all of them without parts"
        )
    return job


def check_settings(settings: Settings) -> None:
    """Refuse settings that parts cannot have, whatever they write.

    Raises
    ------
    UsageError
        If there is one.
    """
    if settings.consume:
        raise UsageError(
            "consume removes a source block when all target blocks that need it are durable, but "
            "several parts may need it; leave out consume, or the parts"
        )
    if settings.strategy == "spill":
        raise _spills()


def check_parts(job: Job, settings: Settings) -> None:
    """Refuse jobs that several processes cannot share.

    Raises
    ------
    UsageError
        If this is one.
    """
    check_settings(settings)
    target = job.named_target
    if target.writers is not Writers.PROCESSES:
        raise UsageError(
            f"{target.place} is one {target.format} file or repository, which only one process can "
            "write; write Zarr, or a folder of block files, in parts"
        )
    if target.durability is Durability.NONE:
        raise UsageError(
            "durability none writes blocks in place, so a part that runs twice could damage them; "
            "use rename or fsync"
        )


def refuse_memory(places: Iterable[str]) -> None:
    """Refuse sources and targets that other processes cannot reach.

    Raises
    ------
    UsageError
        If there is one.
    """
    for place in filter(is_in_memory, places):
        raise UsageError(
            f"{place} is in the memory of this process, which other processes cannot reach; run it "
            "in this process alone, or use files or an object store"
        )


def _spills() -> UsageError:
    return UsageError(
        "spill moves the whole array through scratch files, so it cannot be divided into parts; "
        "choose another strategy"
    )
