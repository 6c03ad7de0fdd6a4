"""Jobs: plans with their sources and targets, ready to run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import TYPE_CHECKING, Any

from dask_io.engine.commit import Consumption, Outlet
from dask_io.engine.copy import Copying
from dask_io.engine.identity import Identity, take_identities
from dask_io.engine.preflight import Move, check_before_run, share_disk
from dask_io.engine.run import RunResult, Sweep, run_sweeps
from dask_io.engine.spill import run_spill
from dask_io.errors import InterruptedRunError, StorageError, UsageError, printable
from dask_io.jobs.record import JobRecord, describe_together
from dask_io.jobs.settings import with_known_options
from dask_io.jobs.sidecars import remove_sidecars, sidecar_of
from dask_io.jobs.verify import check_again
from dask_io.notebook import Displayed
from dask_io.planning import Bundle, CopyPlan, Objective, SpillPlan
from dask_io.python_errors import raises_for_python
from dask_io.report.page import Report, make_report
from dask_io.report.progress import Watch, taking
from dask_io.report.summary import plan_facts, plan_rows, plan_summary
from dask_io.report.svg import job_svg
from dask_io.report.text import plan_text
from dask_io.storage.location import locate
from dask_io.storage.pace import Pace
from dask_io.stores.not_kept import not_kept
from dask_io.stores.store import inferred_in
from dask_io.stores.views import SourceView, resolved_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from dask_io.engine.preflight import Replaced
    from dask_io.engine.run import Progress
    from dask_io.planning import AnyPlan, Device, Sweeps
    from dask_io.report.progress import OnProgress
    from dask_io.storage.location import Location
    from dask_io.stores.store import Source, Target

NO_TARGET = "this job has no target; give one when planning it"


class Runnable(Displayed, ABC):
    """A job of any kind; it can be run once."""

    sidecar = True
    """Whether a target of one file keeps its checksums in a file next to it."""

    @raises_for_python
    @with_known_options
    def run(self, *, verify: bool = False, progress: OnProgress = None) -> RunResult:
        """Execute the plan.

        Parameters
        ----------
        verify
            Read the target back afterwards, and compare it with the checksums that were computed
            while writing.
        progress
            True shows the progress: as a bar on a terminal or in Jupyter, else as lines. A function
            is called now and then with the `Progress` of the run, from any thread but one at a
            time. An exception that it raises ends the run, which `resume` can then continue.

        Raises
        ------
        DataError
            If blocks of the source are invalid or change during the run, or verification finds a
            difference.
        StorageError
            If the disk is full, or a file cannot be read or written.
        InterruptedRunError
            If the run is interrupted.
        """
        return self.execute(verify=verify, progress=progress)

    def execute(self, *, verify: bool = False, progress: OnProgress = None) -> RunResult:
        """Do what `run` does, for callers inside Dask IO: errors are as they were raised."""
        watch = Watch("writing", "verifying" if verify else "")
        with taking(progress, watch) as on_progress:
            result = self._move(on_progress)
            if verify:
                self._verify()
        if not self.sidecar:
            remove_sidecars(self._places)
        return replace(result, verified=True if verify else None)

    def check_targets(self) -> None:
        """Raise the error of a run whose target exists, without changing anything.

        Raises
        ------
        TargetExistsError
            If a target exists and may not be overwritten.
        """
        for target in self._new_targets:
            target.check()

    @property
    def _new_targets(self) -> Sequence[Target]:
        """The targets that the run creates."""
        return ()

    @abstractmethod
    def _move(self, on_progress: Callable[[Progress], None] | None) -> RunResult:
        """Move everything that the plan moves."""

    @abstractmethod
    def _verify(self) -> None:
        """Compare everything that was written with its checksums."""

    @property
    def _places(self) -> list[Location]:
        """The targets with a journal of their own."""
        return []

    def sidecars(self) -> list[Path]:
        """Return the files with checksums that are next to the complete targets."""
        return [found for place in self._places if (found := sidecar_of(place)) is not None]


@dataclass(frozen=True, repr=False)
class Job(Runnable):
    """A plan with its source and, if one was given, its target. `run` executes it.

    `device` is the device for which time is predicted, limited to `max_rate`, the largest number of
    bytes that may be moved per second. With `consume`, each source block is removed as soon as all
    data that comes from it is durable. `outlet` is the state of an interrupted run that the job
    resumes. `storage_options` connect to the object store of the target. A `member` is one of
    several arrays that are moved together. `gives_space` tells that the user, not the source,
    describes the axes, `gives_steps` that this includes the distances along them. `requested` is
    the strategy that the user gave, `objective` the objective of ``"auto"``.
    """

    plan: AnyPlan
    source: Source
    target: Target | None
    workers: int
    device: Device
    consume: bool = False
    max_rate: int | None = None
    outlet: Outlet | None = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    member: bool = False
    gives_space: bool = False
    gives_steps: bool = False
    requested: str = "auto"
    objective: Objective = Objective.TIME
    sidecar: bool = True

    @property
    def inferred(self) -> str:
        """What was inferred from the names of the source's files; empty if nothing was."""
        return inferred_in(self.source)

    @property
    def codec(self) -> str:
        """The names of the codecs of the target; empty if it has none."""
        codecs = () if self.target is None else self.target.metadata.get("codecs") or ()
        return " + ".join(str(each["id"]) for each in codecs)

    @property
    def inferred_axes(self) -> str:
        """The names of the axes, if the target's format needs names and nothing gives them."""
        return "" if self.target is None else self.target.inferred_axes

    @property
    def axes(self) -> Mapping[str, Sequence[str | None]]:
        """The names of the array's axes, for reports."""
        return _axes_in(self.source)

    @property
    def resolved(self) -> str:
        """The indices of values of coordinates in the region; empty if it has none."""
        return resolved_in([self.source])

    @property
    def _new_targets(self) -> Sequence[Target]:
        return [self.named_target] if self.outlet is None else []

    def _move(self, on_progress: Callable[[Progress], None] | None) -> RunResult:
        outlet = self.open_outlet()
        with resumable(lambda: self._left_in(outlet), outlet.target.place):
            return self.carry_out(outlet, on_progress)

    def _left_in(self, outlet: Outlet) -> str:
        left = _left_by([outlet], consume=self.consume)
        return f"{left} --no-sidecar" if left and not self.sidecar else left

    def _verify(self) -> None:
        # The arrays of a group are verified together, once it is complete.
        if not self.member:
            pace = self.named_target.tally.pace
            check_again(self._places, self.plan.problem.budget, self.workers, pace=pace)

    @property
    def _places(self) -> list[Location]:
        return [locate(self.named_target.place, self.storage_options)]

    @property
    def named_target(self) -> Target:
        """The target; it is an error if the plan has none."""
        if self.target is None:
            raise UsageError(NO_TARGET)
        return self.target

    def carry_out(
        self, outlet: Outlet, on_progress: Callable[[Progress], None] | None
    ) -> RunResult:
        """Execute the plan; it can be resumed after an error."""
        plan, source, target, workers = self.plan, self.source, outlet.target, self.workers
        source.tally.pace = target.tally.pace = pace_of(self.max_rate)
        if isinstance(plan, SpillPlan):
            result = run_spill(plan, source, outlet, workers=workers, on_progress=on_progress)
        else:
            sweep = (
                Copying(plan, source, (outlet,))
                if isinstance(plan, CopyPlan)
                else Sweep(Bundle.of(plan), source, (outlet,))
            )
            result = run_sweeps([sweep], workers=workers, on_progress=on_progress)
        if self.member:
            return result
        lost = not_kept(source, target, gives_space=self.gives_space)
        return replace(result, not_kept=lost)

    def open_outlet(self, identity: Identity | None = None) -> Outlet:
        """Resume an interrupted run, or check that a new one can begin.

        `identity` is the source's identity, if it is already known. The jobs of a tree have been
        checked together then.
        """
        if self.outlet is not None:
            return self.outlet
        target = self.named_target
        if identity is None:
            check_room([self])
            identity = Identity(self.source)
        record = JobRecord.of(
            identity,
            target,
            consume=self.consume,
            gives_space=self.gives_space,
            memory=self.plan.problem.budget,
            max_rate=self.max_rate,
        )
        consumption = Consumption(identity, target) if self.consume else None
        return Outlet(target, record.to_bytes(), consumption=consumption, identity=identity)

    @raises_for_python
    def visualize(self) -> Report:
        """Return a report on the plan: a page that shows the sweep, its memory and its cost.

        Notebooks display it. `Report.save` writes it into a file.
        """
        return make_report(
            self.plan,
            self.device,
            source=self.source.place,
            target=self.target.place if self.target else None,
            requested=self.requested,
            objective=self.objective,
            axes=self.axes,
        )

    def _where(self) -> Sequence[str]:
        return [self.source.place, *([self.target.place] if self.target else [])]

    def _facts(self) -> Iterator[str]:
        return plan_facts(self.plan)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield from zip(("from", "to"), self._where(), strict=False)
        yield from plan_rows(self.plan, self.device, inferred=self.inferred, codec=self.codec)

    def _drawing(self) -> str:
        return job_svg(self.plan)

    def __str__(self) -> str:
        summary = plan_summary(self.plan, self.device, inferred=self.inferred, codec=self.codec)
        return f"{printable(' to '.join(self._where()))}\n{summary}"


def check_room(jobs: Collection[Job], replaced: Replaced | None = None) -> None:
    """Check that the disk has room for all jobs together.

    Files in `replaced` are removed first; by default those in the targets' directories.

    Raises
    ------
    StorageError
        If there is too little room.
    """
    if not jobs:
        return
    moves = [Move(job.source, job.named_target) for job in jobs]
    # A consumed source block frees space only on its own disk.
    frees = all(job.consume and share_disk(job.source, job.named_target) for job in jobs)
    check_before_run(
        moves,
        workers=max(job.workers for job in jobs),
        scratch_bytes=max(job.plan.scratch_bytes for job in jobs),
        disk_bytes=sum(job.plan.disk_bytes for job in jobs) if frees else None,
        replaced=replaced,
    )


@dataclass(frozen=True)
class Complete(Runnable):
    """A target that an earlier run has completed, so that nothing is left to do."""

    place: Location
    n_blocks: int
    memory: int
    workers: int
    max_rate: int | None = None
    not_kept: tuple[str, ...] = ()
    plan: None = None
    device: None = None
    inferred: str = ""
    inferred_axes: str = ""
    resolved: str = ""
    sidecar: bool = True

    @property
    def _places(self) -> list[Location]:
        return [self.place]

    def _move(self, _: Callable[[Progress], None] | None) -> RunResult:
        return replace(RunResult.of_nothing(self.n_blocks), not_kept=self.not_kept)

    def _verify(self) -> None:
        check_again(self._places, self.memory, self.workers, pace=pace_of(self.max_rate))


@dataclass(frozen=True, repr=False)
class JointJob(Runnable):
    """A plan that writes several targets from one read of a source. `run` executes it.

    `windows` are the parts of the source that the targets will hold, one per target. `device` is
    the device for which time is predicted, limited to `max_rate`, the largest number of bytes that
    may be moved per second.
    """

    plan: Sweeps
    source: Source
    windows: tuple[Source, ...]
    targets: tuple[Target, ...]
    workers: int
    device: Device
    max_rate: int | None = None
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    gives_space: bool = False
    sidecar: bool = True

    @property
    def inferred(self) -> str:
        """What was inferred from the names of the source's files; empty if nothing was."""
        return inferred_in(self.source)

    @property
    def inferred_axes(self) -> str:
        """The names of the axes, if the target's format needs names and nothing gives them."""
        return self.targets[0].inferred_axes

    @property
    def axes(self) -> Mapping[str, Sequence[str | None]]:
        """The names of the array's axes, for reports."""
        return _axes_in(self.source)

    @property
    def resolved(self) -> str:
        """The indices of values of coordinates in the regions; empty if there are none."""
        return resolved_in(self.windows)

    @property
    def _new_targets(self) -> Sequence[Target]:
        return self.targets

    def _move(self, on_progress: Callable[[Progress], None] | None) -> RunResult:
        check_before_run(list(map(Move, self.windows, self.targets)), workers=self.workers)
        by_window = take_identities(self.windows)
        identities = [by_window[window] for window in self.windows]
        records = describe_together(
            identities,
            self.targets,
            self._places,
            gives_space=self.gives_space,
            memory=self.plan.budget,
            max_rate=self.max_rate,
        )
        outlets = [
            Outlet(target, record.to_bytes(), identity=identity)
            for target, record, identity in zip(self.targets, records, identities, strict=True)
        ]
        pace = pace_of(self.max_rate)
        for store in (self.source, *self.targets):
            store.tally.pace = pace
        sweeps = [
            Sweep(bundle, SourceView(self.source, bundle.box), tuple(outlets[n] for n in group))
            for bundle, group in zip(self.plan.bundles, self.plan.groups, strict=True)
        ]
        with resumable(lambda: _left_by(outlets), self.targets[0].place):
            result = run_sweeps(
                sweeps, workers=self.workers, on_progress=on_progress, leader=outlets[0]
            )
        lost = not_kept(self.windows[0], self.targets[0], gives_space=self.gives_space)
        return replace(result, not_kept=lost)

    @raises_for_python
    def visualize(self) -> Report:
        """Return a report on the plan; see `Job.visualize`."""
        target = self.targets[0].place if len(self.targets) == 1 else None
        return make_report(
            self.plan, self.device, source=self.source.place, target=target, axes=self.axes
        )

    def _verify(self) -> None:
        pace = self.source.tally.pace
        check_again(self._places, self.plan.budget, self.workers, pace=pace)

    @property
    def _places(self) -> list[Location]:
        return [locate(target.place, self.storage_options) for target in self.targets]

    def _where(self) -> Sequence[str]:
        return self.source.place, self.targets[0].place

    def _facts(self) -> Iterator[str]:
        return plan_facts(self.plan)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "from", self.source.place
        yield from plan_rows(self.plan, self.device, inferred=self.inferred)
        yield from (("to", target.place) for target in self.targets)

    def __str__(self) -> str:
        first, *others = (target.place for target in self.targets)
        last = f" ... {others[-1]}" if others else ""
        text = plan_text(self.plan, inferred=self.inferred)
        return f"{printable(f'{self.source.place} to {first}{last}')}\n{text}"


@contextmanager
def resumable(find_left: Callable[[], str], place: str) -> Iterator[None]:
    """Report how to resume an interrupted run, if anything is left to resume."""
    try:
        yield
    except KeyboardInterrupt:
        left = find_left()
        raise InterruptedRunError(left or place, bool(left)) from None
    except StorageError as error:
        left = find_left()
        if not left:
            raise
        advice = f"{error.advice}; then" if error.advice else "then"
        message = f"{advice} resume with: dask-io resume {left}"
        raise type(error)(error.path, error.reason, message) from error


def _left_by(outlets: Sequence[Outlet], *, consume: bool = False) -> str:
    """Return the arguments of `dask-io resume`, empty if there is nothing to resume.

    They are a target or the folder of several targets. If these are in different folders, the
    journal of the first target lists the others. With `consume`, its option follows.
    """
    if not any(outlet.is_resumable for outlet in outlets):
        return ""
    places = [outlet.target.place for outlet in outlets]
    if len(places) == 1:
        return quote(places[0]) + (" --consume" if consume else "")
    parents = {str(locate(place).parent) for place in places}
    return quote(parents.pop() if len(parents) == 1 else places[0])


def _axes_in(source: Source) -> Mapping[str, Sequence[str | None]]:
    return {"": source.metadata.get("dimension_names") or ()}


def pace_of(max_rate: int | None) -> Pace | None:
    """Return a rate limit that stores can share, None without one."""
    return None if max_rate is None else Pace(max_rate)
