"""What has been planned and can be run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask_io.engine.preflight import check_before_run
from dask_io.engine.run import Sweep, run_plan, run_sweeps
from dask_io.engine.spill import run_spill
from dask_io.engine.staging import comparison_slab, staging_for
from dask_io.engine.verify import verify_plan
from dask_io.errors import BudgetTooSmallError, DataError, InterruptedRunError, UsageError
from dask_io.planning import Problem, Side, SpillPlan, plan_sweep
from dask_io.report.svg import job_svg
from dask_io.stores.registry import open_source
from dask_io.stores.store import Access
from dask_io.stores.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    import numpy as np

    from dask_io.engine.run import Progress, RunResult
    from dask_io.engine.verify import Verification
    from dask_io.planning import AnyPlan, Device, Plan, Sweeps
    from dask_io.stores.store import Source, Store, Target


@dataclass(frozen=True)
class Job:
    """A plan with its source and, if one was named, its target; nothing has been moved yet.

    `plan` is the pure plan: what it will cost in seeks, bytes and memory. `run` carries it out.
    `device` is what time is predicted for.
    """

    plan: AnyPlan
    source: Source
    target: Target | None
    workers: int
    device: Device

    def run(
        self, *, verify: bool = False, on_progress: Callable[[Progress], None] | None = None
    ) -> RunResult:
        """Carry the plan out.

        Parameters
        ----------
        verify
            Read the target back afterwards and compare it with the source.
        on_progress
            Called now and then, from any thread but one at a time, with how far the run has
            come. An exception that it raises ends the run.

        Raises
        ------
        DataError
            If blocks of the source turn out wrong, or verification finds a difference.
        StorageError
            If the disk is full, a file cannot be read or written, and the like.
        InterruptedRunError
            If the run is stopped from outside.
        """
        target = self.target
        if target is None:
            message = "this job has no target: name one when planning it"
            raise UsageError(message)
        check_before_run([target], workers=self.workers, scratch_bytes=self.plan.scratch_bytes)
        # Planned beforehand: that there is too little memory for it should not show afterwards.
        budget, workers = self.plan.problem.budget, self.workers
        comparison = plan_comparison(self.source, target, budget, workers) if verify else None
        try:
            result = _carry_out(self.plan, self.source, target, workers, on_progress)
            if comparison is None:
                return result
            found = _read_back(comparison, self.source, target, budget)
        except KeyboardInterrupt:
            raise InterruptedRunError(target.place) from None
        _refuse_difference(found, self.source, target)
        return replace(result, verified=True)

    def visualize(self, path: str | PathLike[str] | None = None) -> str:
        """Draw the plan as SVG, into a file if a path is given, and return the drawing."""
        drawing = job_svg(self.plan)
        if path is not None:
            Path(path).write_text(drawing, encoding="utf-8")
        return drawing

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>{job_svg(self.plan)}"

    def __str__(self) -> str:
        places = [self.source.place, *([self.target.place] if self.target else [])]
        return f"{' to '.join(places)}\n{self.plan}"


@dataclass(frozen=True)
class JointJob:
    """Several targets that are written from one read of a source; nothing has been moved yet.

    `plan` says what it will cost. `windows` has for each target the part of the source that
    it will hold. `run` carries the plan out; `device` is what time is predicted for.
    """

    plan: Sweeps
    source: Source
    windows: tuple[Source, ...]
    targets: tuple[Target, ...]
    workers: int
    device: Device

    def run(
        self, *, verify: bool = False, on_progress: Callable[[Progress], None] | None = None
    ) -> RunResult:
        """Carry the plan out; otherwise as `Job.run`.

        Parameters
        ----------
        verify
            Read the targets back afterwards and compare them with the source.
        on_progress
            Called now and then, from any thread but one at a time, with how far the run has
            come. An exception that it raises ends the run.
        """
        check_before_run(self.targets, workers=self.workers)
        pairs = list(zip(self.windows, self.targets, strict=True))
        memory, workers = self.plan.budget, self.workers
        comparisons = [plan_comparison(*pair, memory, workers) for pair in pairs if verify]
        sweeps = [
            Sweep(bundle, Window(self.source, bundle.box), tuple(self.targets[n] for n in group))
            for bundle, group in zip(self.plan.bundles, self.plan.groups, strict=True)
        ]
        try:
            result = run_sweeps(sweeps, workers=workers, on_progress=on_progress)
            for comparison, (window, target) in zip(comparisons, pairs, strict=False):
                found = _read_back(comparison, window, target, memory)
                _refuse_difference(found, window, target)
        except KeyboardInterrupt:
            raise InterruptedRunError(self.targets[0].place) from None
        return replace(result, verified=True if verify else None)

    def __str__(self) -> str:
        first, *others = (target.place for target in self.targets)
        last = f" ... {others[-1]}" if others else ""
        return f"{self.source.place} to {first}{last}\n{self.plan}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two arrays will be compared."""

    plan: Plan
    workers: int
    slab: int

    def run(self, a: Source, b: Source) -> Verification:
        """Compare them."""
        return verify_plan(self.plan, a, b, workers=self.workers, slab=self.slab)


def plan_comparison(a: Store, b: Store, memory: int, workers: int) -> Comparison:
    """Plan within a budget, with one thread if there is too little for several."""
    slab = comparison_slab(memory, b.dtype.itemsize, workers)
    left = max(1, memory - workers * slab)
    try:
        problem = make_problem(side_of(a), side_of(b), a.dtype, memory=left, workers=workers)
        return Comparison(plan_sweep(problem), workers, slab)
    except BudgetTooSmallError as error:
        if workers > 1:
            return plan_comparison(a, b, memory, 1)
        raise BudgetTooSmallError(error.required + slab, memory, error.unit) from None


def _carry_out(
    plan: AnyPlan,
    source: Source,
    target: Target,
    workers: int,
    on_progress: Callable[[Progress], None] | None,
) -> RunResult:
    if isinstance(plan, SpillPlan):
        return run_spill(plan, source, target, workers=workers, on_progress=on_progress)
    return run_plan(plan, source, target, workers=workers, on_progress=on_progress)


def _read_back(comparison: Comparison, source: Source, target: Target, memory: int) -> Verification:
    """Compare a target with its source, planned anew if it is read in other blocks than written."""
    written = _reopen(target)
    if written.grid != target.grid:
        comparison = plan_comparison(source, written, memory, comparison.workers)
    return comparison.run(source, written)


def _refuse_difference(found: Verification, source: Store, target: Store) -> None:
    if found.first_difference is not None:
        differs = f"differs from {source.place} at {found.first_difference}"
        raise DataError(target.place, [differs], "the disk or the memory may be faulty")


def _reopen(target: Target) -> Source:
    return open_source(
        target.place,
        format=target.format,
        shape=target.grid.shape,
        dtype=target.dtype,
        order=target.layout.name,
    )


def side_of(store: Store) -> Side:
    """Return a store's side of a problem."""
    whole, region = store, None
    if isinstance(store, Window):
        whole, region = store.whole, store.region
    atomic = store.access is Access.ATOMIC
    return Side(whole.grid, store.layout, store.format, region, atomic)


def make_problem(
    source: Side, target: Side, dtype: np.dtype[Any], *, memory: int, workers: int
) -> Problem:
    """Put a problem together, with the staging that the engine asks for."""
    return Problem(source, target, dtype, memory, staging_for(target, dtype, workers))
