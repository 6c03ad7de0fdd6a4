"""Plans that share one sweep: several targets written from one read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dask_io.geometry import Axis, Region
from dask_io.planning.cost import fewest_runs
from dask_io.planning.plan import Plan, Seeks, Step
from dask_io.planning.reads import ReadRun, clip_reads
from dask_io.planning.shared import (
    SharedHeld,
    SharedReads,
    count_shared_reads,
    most_held_together,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from dask_io.planning.problem import Problem, Side, Staging
    from dask_io.planning.reads import AxisStep, Hold


class MemberStep(NamedTuple):
    """One member's share of a step: its number, and its step in its own coordinates."""

    member: int
    step: Step


@dataclass(frozen=True, slots=True)
class SharedStep:
    """Read the part of `cell` that the members need, each element once, and pass it to each."""

    cell: Region
    parts: tuple[MemberStep, ...]


def window_of(side: Side) -> Region:
    """Return the region of the stored array that is moved."""
    return side.window or Region.whole(side.stored.shape)


def box_around(windows: Sequence[Region]) -> Region:
    """Return the smallest box that contains all windows.

    Examples
    --------
    >>> str(box_around([Region((0, 4), (2, 5)), Region((1, 0), (3, 2))]))
    '0:3,0:5'
    """
    bounds = zip(*(window.bounds for window in windows), strict=True)
    return Region.of(
        (min(lows), max(highs)) for lows, highs in (zip(*b, strict=True) for b in bounds)
    )


@dataclass(frozen=True)
class Bundle:
    """Plans that share one sweep over one source, and their cost.

    Each member is a plan for its own window of the source. Its read cells are the common read
    cells, clipped to the window. So the costs of a plan on the target side apply to a member, too.
    Source data that several members need in one step is read once.

    Attributes
    ----------
    members
        The plans. They have the same order and dtype, and share one budget and one staging.
    reads
        The common read cells along each axis of the bounding box of all windows.
    """

    members: tuple[Plan, ...]
    reads: tuple[tuple[ReadRun, ...], ...]

    def __post_init__(self) -> None:
        if not self.members:
            message = "a bundle has at least one member"
            raise ValueError(message)
        shared = {
            (
                plan.order,
                plan.problem.source.stored,
                plan.problem.source.layout,
                plan.problem.source.through,
                plan.problem.dtype,
                plan.problem.budget,
                plan.problem.staging,
            )
            for plan in self.members
        }
        if len(shared) > 1:
            message = "members of a bundle must share source, order, budget and staging"
            raise ValueError(message)
        if len(self.members) > 1 and any(plan.slabs or plan.backwards for plan in self.members):
            message = "members of a bundle must have the same read cells in every slab, forwards"
            raise ValueError(message)
        for plan, window in zip(self.members, self.windows, strict=True):
            common = [
                Axis(tuple((run.length, run.n_cells) for run in clip_reads(reads, low, high)))
                for reads, (low, high) in zip(self.reads, window.bounds, strict=True)
            ]
            if common != [axis.ends for axis in plan.axes]:
                message = f"the member with window {window} does not have the common read cells"
                raise ValueError(message)

    @classmethod
    def of(cls, plan: Plan) -> Bundle:
        """Return a bundle with one plan."""
        return cls((plan,), plan.reads)

    @classmethod
    def sharing(
        cls,
        problems: Sequence[Problem],
        order: tuple[int, ...],
        reads: tuple[tuple[ReadRun, ...], ...],
        hold: Hold,
    ) -> Bundle:
        """Return a bundle for problems with one source, with these read cells of their box."""
        windows = [window_of(problem.source) for problem in problems]
        corner = box_around(windows).start
        members = tuple(
            Plan(
                problem,
                order,
                tuple(
                    clip_reads(runs, low, high)
                    for runs, (low, high) in zip(
                        reads, window.relative_to(corner).bounds, strict=True
                    )
                ),
                hold,
                "bundle",
            )
            for problem, window in zip(problems, windows, strict=True)
        )
        return cls(members, reads)

    @property
    def order(self) -> tuple[int, ...]:
        """The axes, outermost first."""
        return self.members[0].order

    @property
    def budget(self) -> int:
        """Memory budget in bytes, shared by all members."""
        return self.members[0].problem.budget

    @property
    def staging(self) -> Staging:
        """Staging that the engine needs, shared by all members."""
        return self.members[0].problem.staging

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.members[0].problem.itemsize

    @cached_property
    def source(self) -> Side:
        """The source's blocks within the bounding box of all windows."""
        side = self.members[0].problem.source
        box = box_around([window_of(plan.problem.source) for plan in self.members])
        return replace(side, window=box)

    @property
    def box(self) -> Region:
        """The bounding box of all windows, in the source's coordinates."""
        return window_of(self.source)

    @cached_property
    def windows(self) -> tuple[Region, ...]:
        """The members' windows, relative to the box."""
        corner = self.box.start
        return tuple(window_of(m.problem.source).relative_to(corner) for m in self.members)

    @cached_property
    def ends(self) -> tuple[Axis, ...]:
        """The common read cells, without their marks."""
        runs = ([(run.length, run.n_cells) for run in reads] for reads in self.reads)
        return tuple(Axis(tuple(each)) for each in runs)

    @cached_property
    def _read(self) -> SharedReads:
        first = self.members[0]
        if len(set(self.windows)) == 1:
            n_elements = first.n_bytes_read // first.problem.source_itemsize
            return SharedReads(first.seeks.read, first.read_openings, n_elements)
        return count_shared_reads(self.source, self.ends, self.windows)

    @property
    def seeks(self) -> Seeks:
        """Seeks: those in the source count once for all members."""
        return Seeks(self._read.runs, sum(member.seeks.write for member in self.members))

    @property
    def lower_bound(self) -> int:
        """The fewest possible seeks: the needed part of every block is touched once."""
        uncut = [Axis(((length, 1),) if length else ()) for length in self.box.shape]
        needed = count_shared_reads(self.source, uncut, self.windows)
        return needed.runs + sum(fewest_runs(member.problem.target) for member in self.members)

    @property
    def openings(self) -> int:
        """Visits to blocks of the source and of all targets."""
        return self.read_openings + self.write_openings

    @property
    def read_openings(self) -> int:
        """Visits to source blocks, counted once for all members."""
        return self._read.visits

    @property
    def write_openings(self) -> int:
        """Visits to target blocks."""
        return sum(member.write_openings for member in self.members)

    @property
    def n_bytes_read(self) -> int:
        """Bytes read: the union of the windows."""
        return self._read.n_elements * self.members[0].problem.source_itemsize

    @property
    def n_bytes_written(self) -> int:
        """Bytes written to all targets."""
        return sum(member.problem.n_bytes for member in self.members)

    @cached_property
    def _held(self) -> SharedHeld:
        if len(self.members) == 1:
            (member,) = self.members
            return SharedHeld(member.held_bytes // self.itemsize, member.n_steps)
        origins = [window.start for window in self.windows]
        return most_held_together(self.members, self.ends, origins)

    @property
    def n_steps(self) -> int:
        """Number of read cells that overlap a window."""
        return self._held.n_steps

    @property
    def held_bytes(self) -> int:
        """The most bytes of array data held at any moment."""
        return self._held.peak * self.itemsize

    @property
    def staging_bytes(self) -> int:
        """Bytes of staging: the preferred amount, limited by the memory left."""
        left = self.budget - self.held_bytes
        cell = min(member.cell_bytes for member in self.members)
        return self.staging.granted(self.budget, left=left, cell=cell)

    @property
    def peak_bytes(self) -> int:
        """Peak memory of the run, in bytes."""
        return self.held_bytes + self.staging_bytes

    @property
    def fits(self) -> bool:
        """Whether all members together fit in the budget."""
        return self.peak_bytes <= self.budget

    def reading_through(self, n_axes: int) -> Self:
        """Return this bundle with source blocks read whole along the `n_axes` fastest axes."""
        return replace(self, members=tuple(each.reading_through(n_axes) for each in self.members))

    def steps(self) -> Iterator[SharedStep]:
        """Yield the steps that at least one member needs, in order, lazily."""
        if len(self.members) == 1:
            for step in self.members[0].steps():
                yield SharedStep(step.cell, (MemberStep(0, step),))
            return
        everyone = tuple(n for n, window in enumerate(self.windows) if window.size)
        yield from self._steps(0, everyone, {}, {n: {} for n in everyone})

    def _steps(
        self,
        depth: int,
        alive: tuple[int, ...],
        cell: dict[int, tuple[int, int]],
        chosen: dict[int, dict[int, AxisStep]],
    ) -> Iterator[SharedStep]:
        axes = range(len(self.order))
        if depth == len(axes):
            parts = tuple(MemberStep(n, _step([chosen[n][axis] for axis in axes])) for n in alive)
            yield SharedStep(Region.of(cell[axis] for axis in axes), parts)
            return
        axis = self.order[depth]
        ends, bounds = self.ends[axis], [(n, *self.windows[n].bounds[axis]) for n in alive]
        cells = {n: self.members[n].axes[axis].cells() for n in alive}
        ranges = sorted((ends.index_at(low), ends.index_at(high - 1)) for _, low, high in bounds)
        index = -1
        for first, last in ranges:
            for index in range(max(first, index + 1), last + 1):  # noqa: B020 - continues
                low, high = ends.start_of(index), ends.start_of(index + 1)
                still = tuple(n for n, start, stop in bounds if start < high and low < stop)
                for n in still:
                    chosen[n][axis] = next(cells[n])
                cell[axis] = (low, high)
                yield from self._steps(depth + 1, still, cell, chosen)


def _step(parts: Sequence[AxisStep]) -> Step:
    return Step(
        Region.of((part.start, part.stop) for part in parts),
        Region.of((part.done_start, part.done_stop) for part in parts),
    )
