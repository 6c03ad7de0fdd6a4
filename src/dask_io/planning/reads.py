"""The plan along one axis: its read cells, and where write cells end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from dask_io.geometry import Axis, orbits
from dask_io.planning.cost import AxisCells

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Disjoint ``(start, stop)`` ranges along an axis, in ascending order."""


class Hold(StrEnum):
    """How data is held between reading and writing."""

    PIECES = "pieces"
    """Each piece, the intersection of a read cell and a write cell, has its own buffer."""
    BLOCKS = "blocks"
    """Each write cell has one buffer of its full size, from its first piece on."""


class ReadRun(NamedTuple):
    """`n_cells` read cells of `length` elements, and whether they keep incomplete write cells."""

    length: int
    n_cells: int
    keep: bool


@dataclass(frozen=True)
class AxisPlan:
    """The plan along one axis: its read cells, and where write cells end.

    Read cells are between `ends`. Write cells end at the boundaries of target blocks and at flushed
    ends. If the axis is swept backwards, the last cell is read first, and the start of a cell is
    kept or flushed.

    Examples
    --------
    >>> axis = AxisPlan(Axis.regular(10, 4), (ReadRun(3, 2, True), ReadRun(4, 1, False)))
    >>> [(cell.start, cell.stop, cell.done_start, cell.done_stop) for cell in axis.cells()]
    [(0, 3, 0, 0), (3, 6, 0, 4), (6, 10, 4, 10)]
    """

    target: Axis
    reads: tuple[ReadRun, ...]
    backwards: bool = False

    @cached_property
    def mirrored(self) -> AxisPlan:
        """The same plan along the reversed axis, in the opposite direction."""
        return AxisPlan(self.target.mirrored, self.reads[::-1], not self.backwards)

    @cached_property
    def ends(self) -> Axis:
        """The read cells, without marks."""
        return Axis(tuple((run.length, run.n_cells) for run in self.reads))

    @cached_property
    def flushes(self) -> Axis:
        """The intervals between flushed ends; the last one ends with the axis."""
        if self.backwards:
            return self.mirrored.flushes.mirrored
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
        """Round a position down to a boundary of write cells."""
        return max(self.target.floor(position), self.flushes.floor(position))

    def write_ceil(self, position: int) -> int:
        """Round a position up to a boundary of write cells."""
        return min(self.target.ceil(position), self.flushes.ceil(position))

    def write_cells(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield ``(start, stop)`` of the write cells that overlap a range."""
        low, end = self.write_floor(start), self.write_ceil(stop)
        while low < end:
            high = min(self.target.start_of(self.target.index_at(low) + 1), self.next_flush(low))
            yield low, high
            low = high

    def next_flush(self, position: int) -> int:
        """Return the first flushed end after a position."""
        return self.flushes.start_of(self.flushes.index_at(position) + 1)

    def cells(self) -> Iterator[AxisStep]:
        """Yield the read cells in reading order, lazily."""
        if self.backwards:
            length = self.ends.length
            for start, stop, done_start, done_stop in self.mirrored.cells():
                yield AxisStep(
                    length - stop, length - start, length - done_stop, length - done_start
                )
            return
        start = done = 0
        for length, count, _ in self.reads:
            for _ in range(count):
                stop = start + length
                done_stop = self.write_floor(stop)
                yield AxisStep(start, stop, done, done_stop)
                start, done = stop, done_stop

    def flushed_at(self, positions: Iterable[int]) -> AxisPlan:
        """Return this plan with read cells that also end, and are flushed, at these positions."""
        if self.backwards:
            length = self.ends.length
            return self.mirrored.flushed_at(length - position for position in positions).mirrored
        return replace(self, reads=flush_at(self.reads, positions))

    def memory(self, hold: Hold, ranges: Ranges | None = None) -> AxisCells:
        """Return the memory needs of the read cells, or only of those within `ranges`."""
        if self.backwards:
            length = self.ends.length
            mirrored = ranges and tuple((length - b, length - a) for a, b in ranges[::-1])
            return self.mirrored.memory(hold, mirrored)
        return _axis_memory(self, hold, ranges)

    def _memory(self, hold: Hold, ranges: Ranges | None = None) -> AxisCells:
        target, flushes, ends = self.target, self.flushes, self.ends
        if not ends.n_blocks:
            return AxisCells(0, ())
        # If every end is flushed, the target's boundaries do not matter.
        others = () if flushes == ends else (target, flushes)
        if ranges is None:
            kinds = orbits(ends, *others)
            index = np.concatenate([kinds.first, kinds.last])
        else:
            limits = list(chain.from_iterable(ranges))
            intervals = pairwise(sorted({0, *limits, ends.length}))
            kinds = orbits(ends, *others, Axis.of(high - low for low, high in intervals))
            index = np.concatenate([kinds.first, kinds.last])
            # A cell after an odd number of limits is within a range.
            index = index[np.searchsorted(limits, ends.starts_of(index), "right") % 2 == 1]
        bounds = np.stack([ends.starts_of(index), ends.starts_of(index + 1)])
        completed = np.maximum(target.floors(bounds), flushes.floors(bounds))
        if hold is Hold.BLOCKS:
            bounds = np.minimum(target.ceils(bounds), flushes.ceils(bounds))
        return AxisCells.of(bounds, completed, ends.length)


# A search tries many plans that differ along only one axis.
@lru_cache(maxsize=256)
def _axis_memory(axis: AxisPlan, hold: Hold, ranges: Ranges | None) -> AxisCells:
    return axis._memory(hold, ranges)  # noqa: SLF001 - caches the method


class AxisStep(NamedTuple):
    """One read cell along one axis, and the range of write cells that it completes."""

    start: int
    stop: int
    done_start: int
    done_stop: int


def clip_reads(reads: Sequence[ReadRun], start: int, stop: int) -> tuple[ReadRun, ...]:
    """Clip read cells to a range; the marks stay with their ends.

    Examples
    --------
    >>> clip_reads([ReadRun(4, 3, keep=True)], 2, 9)
    (ReadRun(length=2, n_cells=1, keep=True), ReadRun(length=4, n_cells=1, keep=True), \
ReadRun(length=1, n_cells=1, keep=True))
    """
    clipped: list[ReadRun] = []
    position = 0
    for length, count, keep in reads:
        low, high = max(start, position), min(stop, position + length * count)
        if low < high:
            first = min((position - low) % length, high - low)
            whole, last = divmod(high - low - first, length)
            sizes = ((first, 1), (length, whole), (last, 1))
            clipped += [ReadRun(size, n, keep) for size, n in sizes if size * n]
        position += length * count
    return tuple(clipped)


def flush_at(reads: Sequence[ReadRun], positions: Iterable[int]) -> tuple[ReadRun, ...]:
    """Split read cells at these positions and flush there.

    Examples
    --------
    >>> flush_at([ReadRun(4, 2, keep=True)], [6])
    (ReadRun(length=4, n_cells=1, keep=True), ReadRun(length=2, n_cells=1, keep=False), \
ReadRun(length=2, n_cells=1, keep=True))
    """
    length = sum(run.length * run.n_cells for run in reads)
    bounds = sorted({0, *positions, length})
    if bounds[0] < 0 or bounds[-1] > length:
        message = f"positions to flush at exceed an axis of length {length}: {bounds}"
        raise ValueError(message)
    flushed: list[ReadRun] = []
    for low, high in pairwise(bounds):
        flushed += clip_reads(reads, low, high)
        if high < length:
            size, n_cells, keep = flushed.pop()
            parts = (ReadRun(size, n_cells - 1, keep), ReadRun(size, 1, keep=False))
            flushed += [run for run in parts if run.n_cells]
    return tuple(flushed)
