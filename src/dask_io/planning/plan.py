"""A plan: an axis order, read ends with keep or flush marks, and a way of holding.

Everything a plan costs follows from these in closed form, before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dask_io.geometry import Axis, Region, count_segments, orbits
from dask_io.planning.cost import (
    AxisCells,
    CutCounts,
    Held,
    count_moved,
    count_openings,
    count_runs,
    cut_side,
    most_held,
)
from dask_io.planning.describe import describe_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dask_io.planning.problem import Problem


class Hold(StrEnum):
    """How data is held that has been read and not yet written."""

    PIECES = "pieces"
    """Each piece, what one read cell and one write cell share, in a buffer of its own."""
    BLOCKS = "blocks"
    """Each write cell in one buffer of its full size, from its first piece on."""


class ReadRun(NamedTuple):
    """`n_cells` read cells of `length` elements, and whether what they leave incomplete is kept."""

    length: int
    n_cells: int
    keep: bool


@dataclass(frozen=True)
class AxisPlan:
    """The plan along one axis: its read cells, and where write cells end.

    Read cells end at `ends`. Write cells end where the target's blocks do and where read
    ends are flushed.

    Examples
    --------
    >>> axis = AxisPlan(Axis.regular(10, 4), (ReadRun(3, 2, True), ReadRun(4, 1, False)))
    >>> [(cell.start, cell.stop, cell.done_start, cell.done_stop) for cell in axis.cells()]
    [(0, 3, 0, 0), (3, 6, 0, 4), (6, 10, 4, 10)]
    """

    target: Axis
    reads: tuple[ReadRun, ...]

    @cached_property
    def ends(self) -> Axis:
        """The read cells, without their marks."""
        return Axis(tuple((run.length, run.n_cells) for run in self.reads))

    @cached_property
    def flushes(self) -> Axis:
        """The stretches between flushed ends; the last one ends with the axis."""
        runs: list[tuple[int, int]] = []
        kept = 0
        for length, count, keep in self.reads:
            if keep:
                kept += length * count
                continue
            runs += [(kept + length, 1), (length, count - 1)]
            kept = 0
        runs.append((kept, 1))
        return Axis(tuple((length, count) for length, count in runs if length * count))

    def write_floor(self, position: int) -> int:
        """Round a position down to where a write cell ends."""
        return max(self.target.floor(position), self.flushes.floor(position))

    def write_ceil(self, position: int) -> int:
        """Round a position up to where a write cell ends."""
        return min(self.target.ceil(position), self.flushes.ceil(position))

    def write_cells(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield ``(start, stop)`` of the write cells that overlap one read cell or its carry."""
        low, end = self.write_floor(start), self.write_ceil(stop)
        while low < end:
            high = min(self.target.start_of(self.target.index_at(low) + 1), self.next_flush(low))
            yield low, high
            low = high

    def next_flush(self, position: int) -> int:
        """Return the first flushed end after a position."""
        return self.flushes.start_of(self.flushes.index_at(position) + 1)

    def cells(self) -> Iterator[AxisStep]:
        """Yield the read cells in order, lazily."""
        start = done = 0
        for length, count, _ in self.reads:
            for _ in range(count):
                stop = start + length
                done_stop = self.write_floor(stop)
                yield AxisStep(start, stop, done, done_stop)
                start, done = stop, done_stop

    def memory(self, hold: Hold) -> AxisCells:
        """Return what its read cells mean for memory."""
        return _axis_memory(self, hold)

    def _memory(self, hold: Hold) -> AxisCells:
        target, flushes, ends = self.target, self.flushes, self.ends
        if not ends.n_blocks:
            return AxisCells(0, ())
        # Where every end is flushed, the target's boundaries change nothing.
        kinds = orbits(ends) if flushes == ends else orbits(ends, target, flushes)
        index = np.concatenate([kinds.first, kinds.last])
        bounds = np.stack([ends.starts_of(index), ends.starts_of(index + 1)])
        completed = np.maximum(target.floors(bounds), flushes.floors(bounds))
        if hold is Hold.BLOCKS:
            bounds = np.minimum(target.ceils(bounds), flushes.ceils(bounds))
        return AxisCells.of(bounds, completed, ends.length)


# A search tries many plans that differ along one axis only.
@lru_cache(maxsize=256)
def _axis_memory(axis: AxisPlan, hold: Hold) -> AxisCells:
    return axis._memory(hold)  # noqa: SLF001 - the cache is the method's own


class AxisStep(NamedTuple):
    """One read cell along one axis, and the stretch of write cells that ends within it."""

    start: int
    stop: int
    done_start: int
    done_stop: int


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
        For each array axis, its read cells and their marks.
    hold
        How data waits until it is written.
    strategy
        The name of the strategy that made the plan.
    """

    problem: Problem
    order: tuple[int, ...]
    reads: tuple[tuple[ReadRun, ...], ...]
    hold: Hold
    strategy: str

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.problem.shape))):
            message = f"the order names every axis once, outermost first: {self.order}"
            raise ValueError(message)
        lengths = tuple(axis.ends.length for axis in self.axes)
        if lengths != self.problem.shape:
            message = f"read cells cover {lengths} of an array of shape {self.problem.shape}"
            raise ValueError(message)
        if self.problem.target.atomic and any(cut.pieces for cut in self.write_cuts):
            message = "an atomic target block is written whole, but the plan flushes within one"
            raise ValueError(message)

    @cached_property
    def axes(self) -> tuple[AxisPlan, ...]:
        """The plan along each array axis."""
        targets = self.problem.target.grid.axes
        return tuple(
            AxisPlan(target, reads) for target, reads in zip(targets, self.reads, strict=True)
        )

    @cached_property
    def read_cuts(self) -> tuple[CutCounts, ...]:
        """How the read cells cut the source's blocks along each axis."""
        return cut_side(self.problem.source, self._ends)

    @cached_property
    def write_cuts(self) -> tuple[CutCounts, ...]:
        """How the write cells cut the target's blocks along each axis."""
        return cut_side(self.problem.target, [axis.flushes for axis in self.axes])

    @cached_property
    def seeks(self) -> Seeks:
        """Runs that will be touched."""
        problem = self.problem
        sides = ((problem.source, self.read_cuts), (problem.target, self.write_cuts))
        read, write = (
            # What is atomic is moved whole at every visit, in one run.
            count_openings(cuts) if side.atomic else count_runs(side.layout, problem.shape, cuts)
            for side, cuts in sides
        )
        return Seeks(read, write)

    @property
    def openings(self) -> int:
        """Visits to blocks, of both sides."""
        return count_openings(self.read_cuts) + count_openings(self.write_cuts)

    @property
    def decodes(self) -> int:
        """Times that an atomic source block is read and decoded, over all blocks."""
        return count_openings(self.read_cuts) if self.problem.source.atomic else 0

    @cached_property
    def n_bytes_read(self) -> int:
        """Bytes of source blocks that are read, as they are in memory; more than once if reread."""
        source = self.problem.source
        if not source.atomic:
            return self.problem.n_bytes
        moved = (count_moved(*pair) for pair in zip(source.grid.axes, self._ends, strict=True))
        return prod(moved) * self.problem.itemsize

    @property
    def n_bytes_written(self) -> int:
        """Bytes of target blocks that are written, as they are in memory."""
        return self.problem.n_bytes

    @property
    def scratch_bytes(self) -> int:
        """Disk space needed in between: none."""
        return 0

    @property
    def _ends(self) -> list[Axis]:
        return [axis.ends for axis in self.axes]

    @cached_property
    def n_placements(self) -> int:
        """Number of copies: parts of source blocks, read at once, that go to one write cell."""
        sources, targets = self.problem.source.grid.axes, self.problem.target.grid.axes
        return prod(map(count_segments, sources, targets, self._ends))

    @property
    def n_steps(self) -> int:
        """Number of read cells."""
        return prod(axis.ends.n_blocks for axis in self.axes)

    @cached_property
    def _held(self) -> Held:
        return most_held([self.axes[axis].memory(self.hold) for axis in self.order])

    @property
    def held_bytes(self) -> int:
        """The most bytes of array data held at any moment."""
        return self._held.peak * self.problem.itemsize

    @property
    def carried_bytes(self) -> int:
        """The most bytes of array data carried from one step to the next."""
        return self._held.carried * self.problem.itemsize

    @property
    def staging_bytes(self) -> int:
        """Bytes between file and array: what the engine would like, as far as there is room."""
        staging = self.problem.staging
        budget = self.problem.budget
        return max(staging.needed(budget), min(staging.preferred, budget - self.held_bytes))

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
        for cell in self.axes[axis].cells():
            chosen[axis] = cell
            yield from self._steps(depth + 1, chosen)

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

    def flushed_at(self, cuts: Sequence[Sequence[int]]) -> Plan:
        """Return the same plan with flushed read ends added, at positions along each axis."""
        reads = tuple(map(_flush_at, self.reads, cuts))
        return replace(self, reads=reads)

    def __str__(self) -> str:
        return describe_plan(self)


def _flush_at(reads: tuple[ReadRun, ...], cuts: Sequence[int]) -> tuple[ReadRun, ...]:
    """Cut read cells at positions, and flush there."""
    found: list[ReadRun] = []
    start, left = 0, sorted(cuts)
    for run in reads:
        done = 0
        while left and left[0] <= start + run.length * run.n_cells:
            whole, rest = divmod(left[0] - start - done * run.length, run.length)
            inside = max(0, whole - (rest == 0))
            found.append(run._replace(n_cells=inside))
            begin = start + (done + inside) * run.length
            end, keep = begin + run.length, run.keep
            while left and left[0] <= end:
                position = left.pop(0)
                found.append(ReadRun(position - begin, 1, keep=False))
                begin = position
            found.append(ReadRun(end - begin, 1, keep))
            done += inside + 1
        found.append(run._replace(n_cells=run.n_cells - done))
        start += run.length * run.n_cells
    return tuple(run for run in found if run.length * run.n_cells > 0)
