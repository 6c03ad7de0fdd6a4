"""A plan: an axis order, read ends with keep or flush marks, and a way of holding.

Everything a plan costs follows from these in closed form, before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from dask_io.geometry import Region, count_segments
from dask_io.planning.cost import (
    CutCounts,
    Held,
    count_openings,
    count_runs,
    cut_side,
    most_held,
    streams,
)
from dask_io.planning.describe import describe_plan
from dask_io.planning.disk import peak_when_consumed
from dask_io.planning.reads import AxisPlan, Hold
from dask_io.planning.slabs import parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Self

    from dask_io.planning.problem import Problem, Side
    from dask_io.planning.reads import AxisStep, ReadRun
    from dask_io.planning.slabs import Part, Slabs

# Copies within memory that take as long as to touch memory a first time.
_COPIES_PER_TOUCH = 16


@dataclass(frozen=True, slots=True)
class Step:
    """Read `cell`; then every write cell inside `done`, if any, is complete and is written."""

    cell: Region
    done: Region


@dataclass(frozen=True, slots=True)
class Seeks:
    """Runs touched on each side."""

    read: int
    write: int

    @property
    def total(self) -> int:
        """Both sides together."""
        return self.read + self.write

    def __add__(self, other: Seeks) -> Seeks:
        return Seeks(self.read + other.read, self.write + other.write)


@dataclass(frozen=True)
class Plan:
    """How a problem is carried out, and what that costs.

    Attributes
    ----------
    problem
        What is to be done.
    order
        The axes, outermost first: read cells follow in lexicographic order of these.
    reads
        For each array axis, its read cells as they lie along it, and their marks.
    hold
        How data waits until it is written.
    strategy
        The name of the strategy that made the plan.
    slabs
        Where the read cells of an inner axis are others than `reads` says, if anywhere.
    backwards
        The axes that are swept from their far end.
    streams
        Whether blocks that are stacked along their slowest axis, and cut along no other, are moved
        as they lie in storage: each step goes on where the one before ended, in the same visit.
    """

    problem: Problem
    order: tuple[int, ...]
    reads: tuple[tuple[ReadRun, ...], ...]
    hold: Hold
    strategy: str
    slabs: Slabs | None = None
    backwards: frozenset[int] = frozenset()
    streams: bool = False

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.problem.shape))):
            message = f"the order names every axis once, outermost first: {self.order}"
            raise ValueError(message)
        if not self.backwards <= set(self.order):
            message = f"axes that are swept backwards are the plan's: {sorted(self.backwards)}"
            raise ValueError(message)
        lengths = tuple(axis.ends.length for axis in self.axes)
        if lengths != self.problem.shape:
            message = f"read cells cover {lengths} of an array of shape {self.problem.shape}"
            raise ValueError(message)
        if self.slabs is not None:
            self.slabs.check(self.order, self.axes)
            if self.streams:
                raise ValueError("what is read differently from slab to slab is not a stream")
        if self.problem.target.atomic and any(cut.pieces for cut in self.write_cuts):
            message = "an atomic target block is written whole, but the plan flushes within one"
            raise ValueError(message)

    @cached_property
    def axes(self) -> tuple[AxisPlan, ...]:
        """The plan along each array axis, where slabs do not have read cells of their own."""
        along = zip(self.problem.target.grid.axes, self.reads, strict=True)
        return tuple(
            AxisPlan(target, reads, axis in self.backwards)
            for axis, (target, reads) in enumerate(along)
        )

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The slabs of the array, those together that are read in the same cells."""
        return parts_of(self.axes, self.slabs)

    @property
    def longest_reads(self) -> tuple[int, ...]:
        """Length of the longest read cell along each axis."""
        return tuple(
            max(part.axes[axis].ends.longest for part in self.parts)
            for axis in range(len(self.axes))
        )

    @cached_property
    def write_cuts(self) -> tuple[CutCounts, ...]:
        """How the write cells cut the target's blocks along each axis."""
        return cut_side(self.problem.target, [axis.flushes for axis in self.axes])

    @cached_property
    def seeks(self) -> Seeks:
        """Runs that will be touched."""
        source, target = self.problem.source, self.problem.target
        read, write = source.grid.n_blocks, target.grid.n_blocks
        if not self.reads_stream:
            cuts = zip(self.parts, self._read_cuts, strict=True)
            read = sum(_count_runs(source, part.shape, cut) for part, cut in cuts)
        if not self.writes_stream:
            write = _count_runs(target, self.problem.shape, self.write_cuts)
        return Seeks(read, write)

    @cached_property
    def reads_stream(self) -> bool:
        """Whether every step reads on where the one before it ended, from block to block."""
        return self._streams(self.problem.source, self._read_cuts[0])

    @cached_property
    def writes_stream(self) -> bool:
        """Whether every cell is written where the one before it ended, from block to block."""
        return self._streams(self.problem.target, self.write_cuts)

    def _streams(self, side: Side, cuts: Sequence[CutCounts]) -> bool:
        return self.streams and streams(side, cuts) and side.layout.axes[0] not in self.backwards

    @cached_property
    def _read_cuts(self) -> list[tuple[CutCounts, ...]]:
        """How the read cells of each part cut the source's blocks along each axis."""
        return [part.count_cuts(self.problem.source) for part in self.parts]

    @property
    def read_openings(self) -> int:
        """Visits to source blocks."""
        if self.reads_stream:
            return self.problem.source.grid.n_blocks
        return sum(map(count_openings, self._read_cuts))

    @property
    def write_openings(self) -> int:
        """Visits to target blocks."""
        if self.writes_stream:
            return self.problem.target.grid.n_blocks
        return count_openings(self.write_cuts)

    @property
    def openings(self) -> int:
        """Visits to blocks, of both sides."""
        return self.read_openings + self.write_openings

    @property
    def decodes(self) -> int:
        """Times that an atomic source block is read and decoded, over all blocks."""
        return self.read_openings if self.problem.source.atomic else 0

    @cached_property
    def n_bytes_read(self) -> int:
        """Bytes of source blocks that are read, as they are in memory; gaps read through too."""
        source = self.problem.source
        if not source.read_whole:
            return self.problem.n_source_bytes

        def count(part: Part, axis: int, low: int, high: int) -> int:
            return source.count_moved(axis, part.axes[axis].ends, low, high)

        return self._sum_over_parts(count) * self.problem.source_itemsize

    @property
    def n_bytes_in_gaps(self) -> int:
        """Bytes that are read only because they lie between runs that are needed."""
        n_bytes = 0 if self.problem.source.atomic else self.n_bytes_read
        return max(0, n_bytes - self.problem.n_source_bytes)

    @property
    def n_bytes_written(self) -> int:
        """Bytes of target blocks that are written, as they are in memory."""
        return self.problem.n_bytes

    @property
    def scratch_bytes(self) -> int:
        """Disk space needed in between: none."""
        return 0

    @cached_property
    def disk_bytes(self) -> int:
        """Disk space that a run needs at the most, beyond what its source takes up."""
        lag = self.problem.consumed
        return self.n_bytes_written if lag is None else peak_when_consumed(self, lag)

    @property
    def coding_seconds(self) -> float:
        """About how long it takes to decode what is read and to encode what is written."""
        seconds = self.n_bytes_read * self.problem.source.coding.decode
        seconds += self.n_bytes_written * self.problem.target.coding.encode
        return seconds and seconds * self.problem.staging.slowdown(self.staging_bytes)

    @cached_property
    def n_placements(self) -> int:
        """Number of copies: parts of source blocks, read at once, that go to one write cell."""
        sources, targets = self.problem.source.grid.axes, self.problem.target.grid.axes

        def count(part: Part, axis: int, low: int, high: int) -> int:
            cut = (sources[axis], targets[axis], part.axes[axis].ends)
            return count_segments(*(each.clipped(low, high) for each in cut))

        return self._sum_over_parts(count)

    @cached_property
    def n_steps(self) -> int:
        """Number of read cells."""

        def count(part: Part, axis: int, low: int, high: int) -> int:
            ends = part.axes[axis].ends
            return ends.count_ends(high) - ends.count_ends(low)

        return self._sum_over_parts(count)

    def _sum_over_parts(self, count: Callable[[Part, int, int, int], int]) -> int:
        return sum(part.multiply(partial(count, part)) for part in self.parts)

    @cached_property
    def _held(self) -> Held:
        cells = [[part.memory(axis, self.hold) for axis in self.order] for part in self.parts]
        return most_held(cells, self.order.index(self.slabs.outer) if self.slabs else 0)

    @property
    def held_bytes(self) -> int:
        """The most bytes of array data held at any moment."""
        return self._held.peak * self.problem.itemsize

    @property
    def touched_bytes(self) -> int:
        """What is held, which has to be touched a first time, and what copies cost beside that.

        Pieces are put together to be written, which is a copy of all: it takes as long as to touch
        a part of it a first time.
        """
        n_copied = self.problem.n_bytes if self.hold is Hold.PIECES else 0
        return self.held_bytes + n_copied // _COPIES_PER_TOUCH

    def or_in_blocks(self, blocks: Plan) -> Plan:
        """Return the plan, or one that holds blocks if that is less work.

        It has to leave room for the staging wanted, unless it holds no more anyway.
        """
        leaves_room = blocks.held_bytes + self.problem.staging.preferred <= self.problem.budget
        is_less = blocks.touched_bytes <= self.touched_bytes
        if blocks.held_bytes <= self.held_bytes or (leaves_room and is_less):
            return blocks
        return self

    @property
    def carried_bytes(self) -> int:
        """The most bytes of array data carried from one step to the next."""
        return self._held.carried * self.problem.itemsize

    @property
    def staging_bytes(self) -> int:
        """Bytes between file and array: what the engine would like, as far as there is room."""
        budget = self.problem.budget
        return self.problem.staging.granted(
            budget, left=budget - self.held_bytes, cell=self.cell_bytes
        )

    @property
    def cell_bytes(self) -> int:
        """Bytes of a write cell, at the most."""
        longest = (min(axis.target.longest, axis.flushes.longest) for axis in self.axes)
        return prod(longest) * self.problem.itemsize

    @property
    def peak_bytes(self) -> int:
        """Everything the run will hold at the most."""
        return self.held_bytes + self.staging_bytes

    @property
    def fits(self) -> bool:
        """Whether the plan keeps within its problem's budget."""
        return self.peak_bytes <= self.problem.budget

    def steps(self) -> Iterator[Step]:
        """Yield the steps in order, lazily."""
        yield from self._steps(0, [None] * len(self.order))

    def _steps(self, depth: int, chosen: list[AxisStep | None]) -> Iterator[Step]:
        if depth == len(self.order):
            parts = [part for part in chosen if part is not None]
            yield Step(
                Region.of((part.start, part.stop) for part in parts),
                Region.of((part.done_start, part.done_stop) for part in parts),
            )
            return
        axis = self.order[depth]
        for cell in self._axis_within(axis, chosen).cells():
            chosen[axis] = cell
            yield from self._steps(depth + 1, chosen)

    def _axis_within(self, axis: int, chosen: list[AxisStep | None]) -> AxisPlan:
        """Return the plan along an axis within the cells chosen along those around it."""
        if self.slabs is not None and axis == self.slabs.inner:
            slab = chosen[self.slabs.outer]
            reads = self.slabs.reads_at(slab.start) if slab else None
            if reads is not None:
                return replace(self.axes[axis], reads=reads)
        return self.axes[axis]

    def write_cells(self, region: Region) -> Iterator[Region]:
        """Yield the write cells that overlap a step's cell, or lie in what it completes."""
        bounds = zip(self.axes, region.start, region.stop, strict=True)
        cells: Sequence[list[tuple[int, int]]] = [
            list(axis.write_cells(low, high)) for axis, low, high in bounds
        ]
        return map(Region.of, product(*cells))

    def count_write_cells(self, block: Region) -> int:
        """Return into how many write cells a target block is cut."""
        bounds = zip(self.axes, block.start, block.stop, strict=True)
        return prod(
            1 + axis.flushes.count_ends(stop - 1) - axis.flushes.count_ends(start)
            for axis, start, stop in bounds
        )

    def flushed_at(self, cuts: Sequence[Collection[int]]) -> Plan:
        """Return the same plan with reads that also end, and are flushed, at these positions.

        Write cells end there too, so what lies between such positions is written by itself. That
        takes no more memory, and costs the seeks of the blocks that are cut.

        Parameters
        ----------
        cuts
            For each axis, positions along it.

        Raises
        ------
        ValueError
            If a position lies outside of the array, or within an atomic target block.
        """
        along = zip(self.axes, cuts, strict=True)
        reads = tuple(axis.flushed_at(positions).reads for axis, positions in along)
        slabs = self.slabs
        if slabs is not None:
            slabs = slabs.flushed_at(cuts[slabs.inner], self.axes[slabs.inner])
        return replace(self, reads=reads, slabs=slabs)

    def reading_through(self, n_axes: int) -> Self:
        """Return the same plan with source blocks read whole along so many fastest axes."""
        return replace(self, problem=self.problem.reading_through(n_axes))

    def __str__(self) -> str:
        return describe_plan(self)


def _count_runs(side: Side, shape: Sequence[int], cuts: Sequence[CutCounts]) -> int:
    """Count the runs of a side's pieces; what is atomic is moved whole at every visit, in one."""
    if side.atomic:
        return count_openings(cuts)
    return count_runs(side.layout, shape, cuts, side.through)
