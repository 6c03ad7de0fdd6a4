"""The job that moves all arrays of a group or a file, one after another."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING

from dask_io.engine.commit import Outlet
from dask_io.engine.identity import take_identities
from dask_io.engine.preflight import find_replaced
from dask_io.engine.run import RunResult
from dask_io.engine.series import SeriesProgress
from dask_io.engine.spill import remove_scratch
from dask_io.errors import DataError, UsageError
from dask_io.hierarchy.container import UndividedTarget
from dask_io.jobs.job import NO_TARGET, Job, Runnable, check_room, resumable
from dask_io.jobs.record import START_AGAIN, JobRecord
from dask_io.jobs.verify import check_again
from dask_io.planning import Series
from dask_io.python_errors import raises_for_python
from dask_io.report.page import Report, make_report
from dask_io.report.summary import plan_facts, plan_rows
from dask_io.report.text import plan_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dask_io.engine.identity import Identity
    from dask_io.engine.run import Progress
    from dask_io.geometry import Grid
    from dask_io.hierarchy.container import TreeTarget
    from dask_io.hierarchy.tree import Tree
    from dask_io.jobs.tree_record import TreeRecord
    from dask_io.planning import Device
    from dask_io.storage.location import Location
    from dask_io.stores.store import Source, Target


@dataclass
class TreeOutput:
    """The group or file that all arrays go to; with `restart` it replaces an unfinished one."""

    root: Location
    tree: Tree
    target: TreeTarget
    record: TreeRecord
    restart: bool = False
    _identities: Mapping[Source, Identity] = field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """The directory or file."""
        return self.target.place

    @property
    def left(self) -> str:
        """The place to resume after an interruption; empty if nothing is left there."""
        return quote(self.place) if self.target.is_resumable else ""

    @property
    def not_kept(self) -> tuple[str, ...]:
        """Names for everything of the source that the target lacks; final once it is complete."""
        return tuple(dict.fromkeys((*self.target.not_kept, *self.record.not_kept)))

    @contextmanager
    def writing(
        self, jobs: Mapping[str, Job], parts: Mapping[str, Grid] = MappingProxyType({})
    ) -> Iterator[None]:
        """Create the place, and complete it after all arrays have been written.

        Some of the arrays may be written in `parts`, by several processes.
        """
        self._begin(jobs, parts)
        with resumable(lambda: self.left, self.place):
            try:
                yield
                complete_tree(self.tree, self.target, self.record)
            except BaseException:
                self.target.give_up()
                raise

    def _begin(self, jobs: Mapping[str, Job], parts: Mapping[str, Grid]) -> None:
        """Create the place; a journal that describes all arrays is the first thing in it."""
        # Checked before old files are removed.
        check_room(jobs.values(), find_replaced(self.place))
        self._identities = take_identities(job.source for job in jobs.values())
        records = {
            name: JobRecord.of(self._identities[job.source], job.named_target)
            for name, job in jobs.items()
        }
        for name, grid in parts.items():
            job_id = secrets.token_hex(8)
            records[name] = replace(records[name], parts=grid, job_id=job_id)
        arrays = {name: each.to_json() for name, each in records.items()}
        self.record = replace(self.record, arrays=arrays, copies=self.target.digests())
        job = self.record.to_bytes()
        if not isinstance(self.target, UndividedTarget):
            with resumable(lambda: self.left, self.place):
                self.target.create(job)
        elif self.restart:
            self.target.restart(job)
            remove_scratch(next(iter(self.target.arrays.values())))
        else:
            self.target.create(job)

    def open_outlet(self, job: Job) -> Outlet:
        """Begin to write one of the arrays."""
        identity = self._identities[job.source]
        if isinstance(self.target, UndividedTarget):
            # The file's journal already describes the array, and its space is reserved.
            return Outlet(job.named_target, identity=identity)
        return job.open_outlet(identity)

    def carry_out(self, job: Job, progress: SeriesProgress) -> RunResult:
        """Write one of the arrays."""
        outlet = self.open_outlet(job)
        return job.carry_out(outlet, progress.of_next(outlet.target))


def complete_tree(tree: Tree, target: TreeTarget, record: TreeRecord) -> None:
    """Complete a tree whose arrays are written, unless its source has changed meanwhile."""
    target.copy_verbatim()
    refuse_changed_tree(tree, record, "changed while {} being read")
    target.finish()


def refuse_changed_tree(tree: Tree, record: TreeRecord, problem: str) -> None:
    """Refuse a source that has changed; `{}` in the message becomes "it was" or "they were"."""
    if record.divided is None:
        is_same = tree.content.identity() == record.identity
        problem = problem.format("it was")
    else:
        is_same = tree.content.identity(record.copies) == record.identity
        problem = f"files that are copied verbatim {problem.format('they were')}"
    if not is_same:
        raise DataError(tree.place, [problem], START_AGAIN)


@dataclass(frozen=True, repr=False)
class SeriesJob(Runnable):
    """The jobs of all arrays of a group or a file.

    They run one after another, each within the budget `memory`. Arrays without axes, and arrays
    with unsupported elements, are copied verbatim.
    """

    place: str
    output: TreeOutput | None
    jobs: Mapping[str, Job]
    workers: int
    device: Device
    memory: int
    inferred: str = ""
    inferred_axes: str = ""
    sidecar: bool = True
    resolved: str = ""

    @property
    def plan(self) -> Series:
        """The plans of all arrays, with their total cost."""
        return Series({name: job.plan for name, job in self.jobs.items()})

    @property
    def axes(self) -> Mapping[str, Sequence[str | None]]:
        """The names of the axes of each array, for reports."""
        return {name: job.axes[""] for name, job in self.jobs.items()}

    def _move(self, on_progress: Callable[[Progress], None] | None) -> RunResult:
        output, result = self.named_output, RunResult.of_nothing(0)
        progress = SeriesProgress(on_progress, self.targets)
        with output.writing(self.jobs):
            for job in self.jobs.values():
                result = result.followed_by(output.carry_out(job, progress))
        return replace(result, not_kept=output.not_kept)

    @raises_for_python
    def visualize(self) -> Report:
        """Return a report on the plans of all arrays; see `Job.visualize`."""
        target = self.output.place if self.output else None
        return make_report(self.plan, self.device, source=self.place, target=target, axes=self.axes)

    def _verify(self) -> None:
        pace = self.targets[-1].tally.pace
        check_again(self._places, self.memory, self.workers, pace=pace)

    @property
    def _places(self) -> list[Location]:
        return [self.named_output.root]

    @property
    def named_output(self) -> TreeOutput:
        """The output; it is an error if the plan has none."""
        if self.output is None:
            raise UsageError(NO_TARGET)
        return self.output

    @property
    def targets(self) -> list[Target]:
        """The targets of all arrays that are written in blocks."""
        return [job.named_target for job in self.jobs.values()]

    def _where(self) -> Sequence[str]:
        return [self.place, *([self.output.place] if self.output else [])]

    def _facts(self) -> Iterator[str]:
        return plan_facts(self.plan)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield from zip(("from", "to"), self._where(), strict=False)
        yield from plan_rows(self.plan, self.device, inferred=self.inferred)

    def __str__(self) -> str:
        return f"{' to '.join(self._where())}\n{plan_text(self.plan)}"
