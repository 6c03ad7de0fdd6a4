"""A plan: an axis order, read ends marked keep or flush, and how data is held.

All costs of a plan are computed from these in closed form, before anything runs.
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
from dask_io.planning.slabs import divide_into_uniform_slabs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Self

    from dask_io.planning.problem import Problem, Side
    from dask_io.planning.reads import AxisStep, ReadRun
    from dask_io.planning.slabs import Slabs, UniformSlabs

# Copying this many bytes within memory takes as long as touching one byte for the first time.
_COPIES_PER_TOUCH = 16


@dataclass(frozen=True, slots=True)
class Step:
    """Read `cell`, which completes all write cells in `done`; then write these."""

    cell: Region
    done: Region


@dataclass(frozen=True, slots=True)
class Seeks:
    """Number of seeks on each side: each contiguous run touched is one."""

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
    """How to solve a problem, and the cost.

    Attributes
    ----------
    problem
        The problem.
    order
        The axes, outermost first. Read cells are read in lexicographic order of these axes.
    reads
        For each array axis, its read cells in array order, and their marks.
    hold
        How data is held until it is written.
    strategy
        The name of the strategy that made the plan.
    slabs
        The slabs, if any, in which the read cells of an inner axis differ from `reads`.
    backwards
        The axes that are swept backwards.
    streams
        Whether blocks that are stacked along their slowest axis, and cut along no other axis, are
        moved in storage order: each step continues the visit where the previous one ended.
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
            message = f"the order must list every axis once, outermost first: {self.order}"
            raise ValueError(message)
        if not self.backwards <= set(self.order):
            message = f"axes swept backwards must be axes of the plan: {sorted(self.backwards)}"
            raise ValueError(message)
        lengths = tuple(axis.ends.length for axis in self.axes)
        if lengths != self.problem.shape:
            message = f"read cells cover {lengths}, but the array has shape {self.problem.shape}"
            raise ValueError(message)
        if self.slabs is not None:
            self.slabs.check(self.order, self.axes)
            if self.streams:
                raise ValueError("a plan whose read cells differ between slabs cannot be a stream")
        if self.problem.target.atomic and any(cut.pieces for cut in self.write_cuts):
            message = "atomic target blocks must be written whole, but the plan flushes within one"
            raise ValueError(message)

    @cached_property
    def axes(self) -> tuple[AxisPlan, ...]:
        """The plan along each array axis, outside of the slabs that differ."""
        along = zip(self.problem.target.grid.axes, self.reads, strict=True)
        return tuple(
            AxisPlan(target, reads, axis in self.backwards)
            for axis, (target, reads) in enumerate(along)
        )

    @cached_property
    def uniform_slabs(self) -> tuple[UniformSlabs, ...]:
        """The slabs of the array, grouped by their read cells."""
        return divide_into_uniform_slabs(self.axes, self.slabs)

    @property
    def longest_reads(self) -> tuple[int, ...]:
        """Length of the longest read cell along each axis."""
        return tuple(
            max(slabs.axes[axis].ends.longest for slabs in self.uniform_slabs)
            for axis in range(len(self.axes))
        )

    @cached_property
    def write_cuts(self) -> tuple[CutCounts, ...]:
        """The cuts of target blocks by write cells along each axis."""
        return cut_side(self.problem.target, [axis.flushes for axis in self.axes])

    @cached_property
    def seeks(self) -> Seeks:
        """Number of seeks."""
        source, target = self.problem.source, self.problem.target
        read, write = source.grid.n_blocks, target.grid.n_blocks
        if not self.reads_stream:
            cuts = zip(self.uniform_slabs, self._read_cuts, strict=True)
            read = sum(_count_runs(source, slabs.shape, cut) for slabs, cut in cuts)
        if not self.writes_stream:
            write = _count_runs(target, self.problem.shape, self.write_cuts)
        return Seeks(read, write)

    @cached_property
    def reads_stream(self) -> bool:
        """Whether every step continues reading where the previous step ended."""
        return self._streams(self.problem.source, self._read_cuts[0])

    @cached_property
    def writes_stream(self) -> bool:
        """Whether every cell is written where the previous cell ended."""
        return self._streams(self.problem.target, self.write_cuts)

    def _streams(self, side: Side, cuts: Sequence[CutCounts]) -> bool:
        return self.streams and streams(side, cuts) and side.layout.axes[0] not in self.backwards

    @cached_property
    def _read_cuts(self) -> list[tuple[CutCounts, ...]]:
        """The cuts of source blocks by read cells along each axis, for each group of slabs."""
        return [slabs.count_cuts(self.problem.source) for slabs in self.uniform_slabs]

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
        """Visits to blocks of both sides."""
        return self.read_openings + self.write_openings

    @property
    def decodes(self) -> int:
        """How many times source blocks are decoded, summed over all atomic blocks."""
        return self.read_openings if self.problem.source.atomic else 0

    @cached_property
    def n_bytes_read(self) -> int:
        """Bytes of decoded source blocks that are read, including gaps."""
        source = self.problem.source
        if not source.read_whole:
            return self.problem.n_source_bytes

        def count(slabs: UniformSlabs, axis: int, low: int, high: int) -> int:
            return source.count_moved(axis, slabs.axes[axis].ends, low, high)

        return self._sum_over_slabs(count) * self.problem.source_itemsize

    @property
    def n_bytes_in_gaps(self) -> int:
        """Bytes that are read only because they are between needed runs."""
        n_bytes = 0 if self.problem.source.atomic else self.n_bytes_read
        return max(0, n_bytes - self.problem.n_source_bytes)

    @property
    def n_bytes_written(self) -> int:
        """Bytes of target blocks that are written, before encoding."""
        return self.problem.n_bytes

    @property
    def scratch_bytes(self) -> int:
        """Scratch space in bytes: 0."""
        return 0

    @cached_property
    def disk_bytes(self) -> int:
        """Peak disk space of the run, in addition to the source."""
        lag = self.problem.consumed
        return self.n_bytes_written if lag is None else peak_when_consumed(self, lag)

    @property
    def coding_seconds(self) -> float:
        """Estimated seconds to decode the source and to encode the target."""
        seconds = self.n_bytes_read * self.problem.source.coding.decode
        seconds += self.n_bytes_written * self.problem.target.coding.encode
        return seconds and seconds * self.problem.staging.slowdown(self.staging_bytes)

    @cached_property
    def n_placements(self) -> int:
        """Number of copies: one for each intersection of source block, read and write cell."""
        sources, targets = self.problem.source.grid.axes, self.problem.target.grid.axes

        def count(slabs: UniformSlabs, axis: int, low: int, high: int) -> int:
            cut = (sources[axis], targets[axis], slabs.axes[axis].ends)
            return count_segments(*(each.clipped(low, high) for each in cut))

        return self._sum_over_slabs(count)

    @cached_property
    def n_steps(self) -> int:
        """Number of read cells."""

        def count(slabs: UniformSlabs, axis: int, low: int, high: int) -> int:
            ends = slabs.axes[axis].ends
            return ends.count_ends(high) - ends.count_ends(low)

        return self._sum_over_slabs(count)

    def _sum_over_slabs(self, count: Callable[[UniformSlabs, int, int, int], int]) -> int:
        return sum(slabs.multiply(partial(count, slabs)) for slabs in self.uniform_slabs)

    @cached_property
    def _held(self) -> Held:
        cells = [
            [slabs.memory(axis, self.hold) for axis in self.order] for slabs in self.uniform_slabs
        ]
        return most_held(cells, self.order.index(self.slabs.outer) if self.slabs else 0)

    @property
    def held_bytes(self) -> int:
        """The most bytes of array data held at any moment."""
        return self._held.peak * self.problem.itemsize

    @property
    def touched_bytes(self) -> int:
        """Memory touched for the first time, including an equivalent for copies.

        Pieces are assembled before they are written, which copies all data. A copy takes as long
        as touching a fraction of the data for the first time.
        """
        n_copied = self.problem.n_bytes if self.hold is Hold.PIECES else 0
        return self.held_bytes + n_copied // _COPIES_PER_TOUCH

    def or_in_blocks(self, blocks: Plan) -> Plan:
        """Return this plan, or the given plan that holds blocks, if that is less work.

        That plan must leave room for the preferred staging, unless it holds no more than this one.
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
        """Bytes of staging: the preferred amount, limited by the memory left."""
        budget = self.problem.budget
        return self.problem.staging.granted(
            budget, left=budget - self.held_bytes, cell=self.cell_bytes
        )

    @property
    def cell_bytes(self) -> int:
        """Bytes of the largest write cell."""
        longest = (min(axis.target.longest, axis.flushes.longest) for axis in self.axes)
        return prod(longest) * self.problem.itemsize

    @property
    def peak_bytes(self) -> int:
        """Peak memory of the run, in bytes."""
        return self.held_bytes + self.staging_bytes

    @property
    def fits(self) -> bool:
        """Whether the plan fits in the budget."""
        return self.peak_bytes <= self.problem.budget

    def steps(self) -> Iterator[Step]:
        """Yield the steps in order, lazily."""
        yield from self._steps(0, [None] * len(self.order))

    def _steps(self, depth: int, chosen: list[AxisStep | None]) -> Iterator[Step]:
        if depth == len(self.order):
            along = [step for step in chosen if step is not None]
            yield Step(
                Region.of((step.start, step.stop) for step in along),
                Region.of((step.done_start, step.done_stop) for step in along),
            )
            return
        axis = self.order[depth]
        for cell in self._axis_within(axis, chosen).cells():
            chosen[axis] = cell
            yield from self._steps(depth + 1, chosen)

    def _axis_within(self, axis: int, chosen: list[AxisStep | None]) -> AxisPlan:
        """Return the plan along an axis, given the cells chosen along the outer axes."""
        if self.slabs is not None and axis == self.slabs.inner:
            slab = chosen[self.slabs.outer]
            reads = self.slabs.reads_at(slab.start) if slab else None
            if reads is not None:
                return replace(self.axes[axis], reads=reads)
        return self.axes[axis]

    def write_cells(self, region: Region) -> Iterator[Region]:
        """Yield the write cells that overlap a step's `cell`, or are in its `done` region."""
        bounds = zip(self.axes, region.start, region.stop, strict=True)
        cells: Sequence[list[tuple[int, int]]] = [
            list(axis.write_cells(low, high)) for axis, low, high in bounds
        ]
        return map(Region.of, product(*cells))

    def count_write_cells(self, block: Region) -> int:
        """Return the number of write cells of a target block."""
        bounds = zip(self.axes, block.start, block.stop, strict=True)
        return prod(
            1 + axis.flushes.count_ends(stop - 1) - axis.flushes.count_ends(start)
            for axis, start, stop in bounds
        )

    def flushed_at(self, cuts: Sequence[Collection[int]]) -> Plan:
        """Return this plan with read cells that also end at these positions and are flushed there.

        Write cells end there, too, so the regions between the positions are written separately.
        This needs no additional memory, but seeks for the blocks that are cut.

        Parameters
        ----------
        cuts
            For each axis, positions along it.

        Raises
        ------
        ValueError
            If a position is outside of the array, or inside an atomic target block.
        """
        along = zip(self.axes, cuts, strict=True)
        reads = tuple(axis.flushed_at(positions).reads for axis, positions in along)
        slabs = self.slabs
        if slabs is not None:
            slabs = slabs.flushed_at(cuts[slabs.inner], self.axes[slabs.inner])
        return replace(self, reads=reads, slabs=slabs)

    def reading_through(self, n_axes: int) -> Self:
        """Return this plan with source blocks read whole along the `n_axes` fastest axes."""
        return replace(self, problem=self.problem.reading_through(n_axes))

    def __str__(self) -> str:
        return describe_plan(self)


def _count_runs(side: Side, shape: Sequence[int], cuts: Sequence[CutCounts]) -> int:
    """Count the runs of a side's pieces; each visit to an atomic block is one run."""
    if side.atomic:
        return count_openings(cuts)
    return count_runs(side.layout, shape, cuts, side.through)
