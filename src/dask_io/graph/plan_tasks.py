"""Plan the matches of a graph, as tasks that execute the plans."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

from dask_io.engine.commit import Outlet
from dask_io.engine.measure import are_apart, find_device
from dask_io.engine.problem import make_problem, side_of
from dask_io.engine.run import Sweep, run_plan, run_sweeps
from dask_io.errors import BudgetTooSmallError, DaskIOError
from dask_io.graph.locks import distinct_locks, hold_locks
from dask_io.graph.mapped_blocks import MappedSource, MappedTarget
from dask_io.graph.match import DeclinedError
from dask_io.planning import (
    Plan,
    Problem,
    Staging,
    Sweeps,
    best_grids,
    largest_count,
    plan_sweep,
    plan_together,
    plan_with,
    read_through,
)
from dask_io.stores.dtypes import check_cast
from dask_io.stores.views import SourceView, TargetView

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from dask_io.geometry import Grid
    from dask_io.graph.functions import BlockFunction, ResultTypes
    from dask_io.graph.match import Match, Reading
    from dask_io.graph.options import GraphOptions
    from dask_io.planning import Device
    from dask_io.stores.store import Source, Target


@dataclass(frozen=True)
class PlanTask:
    """A plan with its source and targets; calling it executes the plan.

    Attributes
    ----------
    plan
        The plan, or sweeps that write several targets from one read.
    source
        The source.
    targets
        The targets.
    workers
        Maximum number of threads.
    locks
        The locks that Dask would hold while reading and writing.
    declined
        Why other stores of the same graph are left to Dask.
    """

    plan: Plan | Sweeps
    source: Source
    targets: tuple[Target, ...]
    workers: int
    locks: tuple[Any, ...] = ()
    declined: tuple[str, ...] = ()

    def __call__(self) -> None:
        """Execute the plan."""
        outlets = [Outlet(target) for target in self.targets]
        with hold_locks(self.locks):
            if isinstance(self.plan, Plan):
                run_plan(self.plan, self.source, outlets[0], workers=self.workers)
                return
            sweeps = [
                Sweep(bundle, SourceView(self.source, bundle.box), tuple(outlets[n] for n in group))
                for bundle, group in zip(self.plan.bundles, self.plan.groups, strict=True)
            ]
            run_sweeps(sweeps, workers=self.workers)

    def __str__(self) -> str:
        targets = ", ".join(target.place for target in self.targets)
        return f"{self.source.place} to {targets}\n{self.plan}"


def plan_matches(matches: Sequence[Match], options: GraphOptions) -> tuple[PlanTask, ...]:
    """Plan matches that share one reading.

    Raises
    ------
    DeclinedError
        If no plan fits the memory budget, a function cannot be applied to whole blocks, or two
        lock objects may share one lock.
    """
    source = mapped_source(matches[0].reading)
    targets = [_mapped_target(match, source.dtype) for match in matches]
    locks = distinct_locks([matches[0].reading.lock, *(match.lock for match in matches)])
    try:
        if len(targets) > 1:
            return (_plan_together(source, targets, locks, options),)
        n_parts = largest_count(targets[0].grid, options.parts) if targets[0].grid.n_blocks else 1
        if n_parts == 1:
            return (_plan_alone(source, targets[0], locks, options),)
        device = find_device(options.device, source.place, targets[0].place)
        parts = next(best_grids(_problem(source, targets[0], options), [n_parts], device))
        return tuple(
            _plan_alone(SourceView(source, region), TargetView(targets[0], region), locks, options)
            for region in map(parts.block, parts.indices())
        )
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error


def _plan_alone(
    source: Source, target: Target, locks: tuple[Any, ...], options: GraphOptions
) -> PlanTask:
    device = find_device(options.device, source.place, target.place)
    plan = _plan(_problem(source, target, options), device, options)
    if options.strategy == "auto":
        plan = read_through(plan, device)
    return PlanTask(plan, source, (target,), options.workers, locks)


def _problem(source: Source, target: Target, options: GraphOptions) -> Problem:
    return make_problem(
        side_of(source),
        side_of(target),
        target.dtype,
        memory=options.memory,
        workers=options.workers,
        stored=source.dtype,
        apart=are_apart(source.place, target.place),
    )


def _plan(problem: Problem, device: Device, options: GraphOptions) -> Plan:
    # Plans in a graph have no directory for scratch files.
    plan = plan_with(
        options.strategy, problem, objective=options.objective, device=device, scratch=0
    )
    if not isinstance(plan, Plan):
        raise DeclinedError(f"strategy {options.strategy} needs scratch files")
    return plan


def _plan_together(
    source: Source, targets: Sequence[Target], locks: tuple[Any, ...], options: GraphOptions
) -> PlanTask:
    """Plan several targets that are written from one read."""
    problems = [_problem(source, target, options) for target in targets]
    staging = Staging(*map(max, zip(*(astuple(each.staging) for each in problems), strict=True)))
    problems = [replace(each, staging=staging) for each in problems]
    device = find_device(options.device, source.place, targets[0].place)

    def plan_alone(problem: Problem) -> Plan:
        try:
            return _plan(problem, device, options)
        except BudgetTooSmallError:
            return plan_sweep(problem)

    sweeps = plan_together(problems, plan_alone, apart=options.strategy != "auto")
    if options.strategy == "auto":
        sweeps = read_through(sweeps, device)
    return PlanTask(sweeps, source, tuple(targets), options.workers, locks)


def mapped_source(reading: Reading) -> Source:
    """Return the source of a reading, with its function applied if it has one."""
    source = reading.source
    if not reading.function:
        return source
    types = _infer_types(reading.function, source.dtype, len(source.grid.axes))
    return MappedSource(source, reading.mapped_chunks, reading.function, types)


def _mapped_target(match: Match, dtype: np.dtype[Any]) -> Target:
    """Return the target of a match, with its function applied if it has one."""
    target = match.target
    types = _infer_types(match.function, dtype, len(target.grid.axes))
    if types.dtype != target.dtype and not target.converts_as_numpy:
        raise DeclinedError(f"{target.format} does not convert elements as NumPy does")
    problem = check_cast(types.dtype, target.dtype, "unsafe")
    if problem:
        raise DeclinedError(problem)
    if not match.function:
        return target
    if not _holds_whole_blocks(match.chunks, target.grid):
        raise DeclinedError("a function is applied to chunks that cut blocks of the target")
    return MappedTarget(target, match.chunks, match.function, types)


def _infer_types(function: BlockFunction, dtype: np.dtype[Any], n_axes: int) -> ResultTypes:
    try:
        return function.infer_types(dtype, n_axes)
    except Exception as error:  # a user's function may raise anything
        raise DeclinedError(f"a function cannot be tried on a few elements: {error}") from error


def _holds_whole_blocks(chunks: Grid, blocks: Grid) -> bool:
    """Whether every chunk consists of whole blocks."""
    return all(
        inner.floor(outer.start_of(number)) == outer.start_of(number)
        for outer, inner in zip(chunks.axes, blocks.axes, strict=True)
        for number in range(outer.n_blocks)
    )
