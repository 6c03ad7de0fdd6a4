"""Parts of a job: boxes of whole target blocks that any process can write at any time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

from dask_io.cluster.begin import begin_parts, find_begun
from dask_io.cluster.finish import finish_parts
from dask_io.cluster.part import Part
from dask_io.cluster.run import run_part, view_source
from dask_io.cluster.shared_job import SharedJob
from dask_io.engine.run import Progress, RunResult
from dask_io.errors import UsageError
from dask_io.jobs.job import Job
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
    """

    job: Job
    cut: Cut
    settings: Settings
    command: str | None = field(default=None, kw_only=True)

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

    def _move(self, on_progress: Callable[[Progress], None] | None) -> RunResult:
        record, counter = begin_job(self), PartsProgress(self.parts, on_progress)
        results = [
            run_part(
                record,
                part,
                memory=self.memory,
                threads=self.threads,
                storage_options=self.settings.storage_options,
                on_progress=counter.of(part),
            )
            for part in self.parts
        ]
        return finish_job(self, results)

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


def begin_job(job: PartedJob) -> bytes:
    """Create the target of a job, or join it; see `PartedJob.begin`."""
    work = begin_parts(job.job, job.cut.grid, job.settings, job.command)
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
    parts
        All parts.
    on_progress
        Called with the progress of all parts together.
    """

    def __init__(
        self, parts: Sequence[Part], on_progress: Callable[[Progress], None] | None
    ) -> None:
        self._on_progress = on_progress
        self._n_bytes = sum(part.n_bytes_written for part in parts)
        self._latest: dict[int, Progress] = {}

    def of(self, part: Part) -> Callable[[Progress], None]:
        """Return the function that takes the progress of one part."""

        def update(progress: Progress) -> None:
            self.update(part.number, progress)

        return update

    def update(self, number: int, progress: Progress) -> None:
        """Take the progress of a part."""
        before = self._latest.get(number)
        # A part that runs again starts with the blocks that are durable.
        if before is None or progress.n_bytes_written >= before.n_bytes_written:
            self._latest[number] = progress
        if self._on_progress is not None:
            known = self._latest.values()
            self._on_progress(
                Progress(
                    sum(each.n_bytes_written for each in known),
                    self._n_bytes,
                    sum(each.n_blocks_written for each in known),
                    sum(each.n_blocks for each in known),
                    sum(each.n_bytes_read for each in known),
                    n_bytes_held=sum(each.n_bytes_held for each in known),
                )
            )


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
    """Return a job that can be divided into parts.

    Raises
    ------
    UsageError
        If it moves several arrays or regions.
    """
    match job:
        case Job():
            return job
        case SeriesJob():
            example = f"{job.place}{INSIDE}/{next(iter(job.jobs))}"
            raise UsageError(
                f"{job.place} holds several arrays, which only one process can write together, "
                f"because they share a journal; write one array in parts, as in {example}, or all "
                "of them without parts"
            )
        case _:
            raise UsageError(
                "several regions are written from one read, which parts cannot share; write one "
                "region after another, or all of them without parts"
            )


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
