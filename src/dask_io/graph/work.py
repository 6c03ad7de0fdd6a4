"""What a match becomes: a plan with its stores, that a task of the graph carries out."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from dask_io.engine.commit import Outlet
from dask_io.engine.measure import find_device
from dask_io.engine.problem import make_problem, side_of
from dask_io.engine.run import run_plan
from dask_io.errors import DaskIOError
from dask_io.graph.carried import WorkedSource, WorkedTarget
from dask_io.graph.match import DeclinedError
from dask_io.planning import Plan
from dask_io.prepare import make_plan

if TYPE_CHECKING:
    from dask_io.geometry import Grid
    from dask_io.graph.functions import Trial
    from dask_io.graph.match import Match
    from dask_io.graph.options import GraphOptions
    from dask_io.stores.store import Source, Target

# The memory of a plan is that of a process, so one plan runs in it at a time.
_running = Lock()


@dataclass(frozen=True)
class Work:
    """A plan with its stores, and what Dask would hold while it reads and writes."""

    plan: Plan
    source: Source
    target: Target
    workers: int
    locks: tuple[Any, ...] = ()

    def __call__(self) -> None:
        """Carry the plan out."""
        with ExitStack() as held:
            held.enter_context(_running)
            for lock in self.locks:
                held.enter_context(lock)
            run_plan(self.plan, self.source, Outlet(self.target), workers=self.workers)

    def __str__(self) -> str:
        return f"{self.source.place} to {self.target.place}\n{self.plan}"


def plan_match(match: Match, options: GraphOptions) -> Work:
    """Plan what a match does.

    Raises
    ------
    DeclinedError
        If no plan fits the memory, or functions cannot be applied to whole blocks.
    """
    source, target = _stores(match)
    sides = side_of(source), side_of(target)
    problem = make_problem(*sides, source.dtype, memory=options.memory, workers=options.workers)
    try:
        device = find_device(options.device, source.place, target.place)
        plan = make_plan(problem, device, scratch=0, **options.choice)
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error
    if not isinstance(plan, Plan):
        raise DeclinedError(
            f"strategy {options.strategy} needs scratch files, which graphs do not have"
        )
    return Work(plan, source, target, options.workers, _distinct(match.reading.lock, match.lock))


def _stores(match: Match) -> tuple[Source, Target]:
    """Return the stores between which a plan moves, with the functions that are applied."""
    reading, target = match.reading, match.target
    source: Source = reading.source
    n_axes = len(source.grid.axes)
    before = _try(match.reading.function, source.dtype, n_axes)
    if reading.function:
        source = WorkedSource(source, reading.chunks, reading.function, before)
    after = _try(match.function, source.dtype, n_axes)
    if match.function:
        if not _holds_whole_blocks(match.chunks, target.grid):
            raise DeclinedError("a function is applied to blocks that cut those of the target")
        target = WorkedTarget(target, match.chunks, match.function, after)
    elif source.dtype != target.dtype:
        target = WorkedTarget(target, target.grid, match.function, after)
    return source, target


def _try(function: Any, dtype: Any, n_axes: int) -> Trial:
    try:
        found: Trial = function.tried_on(dtype, n_axes)
    except Exception as error:  # they are the user's functions
        raise DeclinedError(f"a function cannot be tried on a few elements: {error}") from error
    return found


def _holds_whole_blocks(chunks: Grid, blocks: Grid) -> bool:
    """Whether every chunk is some blocks, none of which it cuts."""
    pairs = zip(chunks.axes, blocks.axes, strict=True)
    return all(inner.floor(end) == end for outer, inner in pairs for end in _ends(outer.lengths()))


def _ends(lengths: Any) -> Any:
    end = 0
    for length in lengths:
        end += length
        yield end


def _distinct(*locks: Any) -> tuple[Any, ...]:
    """Return locks in an order in which all tasks take them, none twice."""
    by_token = {
        str(getattr(lock, "token", None) or getattr(lock, "name", id(lock))): lock
        for lock in locks
        if lock
    }
    return tuple(by_token[token] for token in sorted(by_token))
