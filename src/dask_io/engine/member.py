"""One target of a run: it holds the data read for it until write cells are complete."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import product, starmap
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.engine.copying import copy
from dask_io.geometry import Region
from dask_io.journal.ledger import Written
from dask_io.planning import Hold
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.padded import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dask_io.engine.commit import Outlet
    from dask_io.engine.crew import Alone, Crew
    from dask_io.engine.memory import Account, Buffers
    from dask_io.geometry import Layout
    from dask_io.planning import Plan
    from dask_io.stores.store import BlockWriter

# Runs of at least this length are aligned in memory, so that each can be written with direct I/O.
# This takes less than 1 % more memory.
_LONG_RUN = 512 * 2**10
# A piece that fits in no hole of the memory is divided into parts, but not into parts smaller than
# this many bytes, or than this fraction of it.
_SMALLEST_PART, _MOST_HALVED = 64 * 2**10, 64
# The most ranges cached from step to step, cells of a cached range, and overlaps cached for each.
# For ranges with more cells, finding them again takes little time compared to moving them.
_MOST_RANGES, _MOST_CELLS, _MOST_OVERLAPS = 256, 16, 64


class Room(NamedTuple):
    """The memory and the threads that the targets of a run share.

    Complete cells that wait to be written count as `behind` if there is room, so that reading can
    continue. Then `held` is exactly as predicted by the plan.
    """

    held: Account
    behind: Account
    buffers: Buffers
    crew: Crew | Alone


@dataclass(slots=True)
class HeldPiece:
    """Part of the array in memory, in the target's layout, in runs of at least `run` elements."""

    region: Region
    array: NDArray[Any]
    buffer: memoryview
    run: int


@dataclass(slots=True)
class Cell:
    """A write cell that is being filled: its block, its pieces, and the missing elements."""

    region: Region
    index: tuple[int, ...]
    block: Region
    missing: int
    pieces: list[HeldPiece] = field(default_factory=list)


class CellRange(NamedTuple):
    """A write cell along one axis, and where its newest piece starts and ends."""

    start: int
    stop: int
    origin: int
    end: int


class Overlaps(NamedTuple):
    """The write cells that a range overlaps along one axis.

    For each: its start, and the intersection as a slice of its piece and of the range.
    """

    starts: tuple[int, ...]
    inside: tuple[slice, ...]
    taken: tuple[slice, ...]


class AxisWriteCells:
    """The write cells that a step fills along one axis.

    A step may have many blocks, and a block many small pieces, but there are few ranges along an
    axis. So the overlaps of each range are cached.
    """

    def __init__(self, ranges: list[CellRange]) -> None:
        self.ranges, self.starts = ranges, [each.start for each in ranges]
        self.is_short = len(ranges) <= _MOST_CELLS
        self._known: dict[tuple[int, int], Overlaps] = {}

    def overlaps(self, bounds: tuple[int, int]) -> Overlaps:
        """Return the cells that a range overlaps."""
        found = self._known.get(bounds)
        if found is None:
            found = Overlaps(*zip(*self._find(*bounds), strict=True))
            # Long ones are used for one step only.
            if not self.is_short or len(self._known) < _MOST_OVERLAPS:
                self._known[bounds] = found
        return found

    def _find(self, low: int, high: int) -> Iterator[tuple[int, slice, slice]]:
        for start, _, origin, last in self.ranges:
            begin, end = max(origin, low), min(last, high)
            if begin < end:
                yield start, slice(begin - origin, end - origin), slice(begin - low, end - low)


class StepCells(NamedTuple):
    """The write cells that a step fills, and the regions for which it needs new buffers."""

    along: list[AxisWriteCells]
    cells: dict[tuple[int, ...], Cell]
    regions: dict[tuple[int, ...], Region]
    n_bytes: int


class Filling(NamedTuple):
    """The write cells that a step fills, each with its newest pieces, by corner."""

    along: list[AxisWriteCells]
    cells: dict[tuple[int, ...], tuple[Cell, list[HeldPiece]]]


class Member:
    """The target of a plan that is being written; positions are those of the plan.

    Durable cells are neither held nor written. `on_written` is called with the bytes of every
    written cell, and whether it completed a block.
    """

    def __init__(
        self, plan: Plan, outlet: Outlet, room: Room, on_written: Callable[[int, bool], None]
    ) -> None:
        self.plan, self.outlet, self.room = plan, outlet, room
        self.target, self.ledger = outlet.target, outlet.ledger or None
        self.layout, self.itemsize = self.target.layout, self.target.dtype.itemsize
        self.on_written = on_written
        self.moved = plain(self.target.dtype)
        self.in_pieces = plan.hold is Hold.PIECES
        # Cells that outlast a step along the outermost axis are held for many steps.
        self.outer = plan.order[0]
        self.is_backward = self.outer in plan.backwards
        self.cuts_blocks = any(cut.pieces for cut in plan.write_cuts)
        self.streams = plan.writes_stream and self.ledger is None
        # Steps have the same ranges along most axes.
        self.known: dict[tuple[int, int, int], AxisWriteCells] = {}
        self.cells: dict[tuple[int, ...], Cell] = {}
        self.cells_missing: dict[tuple[int, ...], int] = {}
        self.lock = Lock()

    def begin(self, region: Region) -> StepCells:
        """Begin the write cells of a region that will be read, and count the memory they need."""
        along = [self._axis_cells(axis, *bounds) for axis, bounds in enumerate(region.bounds)]
        corners = product(*(each.starts for each in along))
        ranges = product(*(each.ranges for each in along))
        cells: dict[tuple[int, ...], Cell] = {}
        regions: dict[tuple[int, ...], Region] = {}
        with self.lock:
            for corner, parts in zip(corners, ranges, strict=True):
                cell = self.cells.get(corner)
                if cell is None or self.in_pieces:
                    _, stop, origin, end = zip(*parts, strict=True)
                    cell = cell or self._begin_cell(Region(corner, stop))
                    if cell is None:
                        continue
                    regions[corner] = Region(origin, end)
                cells[corner] = cell
        n_elements = sum(each.size for each in regions.values())
        return StepCells(along, cells, regions, n_elements * self.itemsize)

    def _axis_cells(self, axis: int, low: int, high: int) -> AxisWriteCells:
        """Return the write cells of a range along an axis, from a cache if there are few."""
        found = self.known.get((axis, low, high))
        if found is None:
            found = _find_axis_cells(self.plan, axis, low, high)
            if found.is_short and len(self.known) < _MOST_RANGES:
                self.known[axis, low, high] = found
        return found

    def _begin_cell(self, region: Region) -> Cell | None:
        """Return a new cell, None if it is already durable."""
        index = self.target.grid.index_at(region.start)
        if self.ledger is not None and self.ledger.covers(index, region):
            return None
        cell = Cell(region, index, self.target.grid.block(index), region.size)
        self.cells[region.start] = cell
        return cell

    def needed(self, region: Region) -> Region:
        """Return the bounding box of the part of a region that is not durable yet."""
        if self.ledger is None:
            return region
        parts = [cell & region for cell in self._missing_cells(region)]
        if not parts:
            return Region(region.start, region.start)
        return Region(
            tuple(map(min, zip(*(part.start for part in parts), strict=True))),
            tuple(map(max, zip(*(part.stop for part in parts), strict=True))),
        )

    def _missing_cells(self, region: Region) -> Iterator[Region]:
        """Yield the write cells of a region that are not durable yet."""
        ledger, index_at = self.ledger, self.target.grid.index_at
        for cell in self.plan.write_cells(region):
            if ledger is None or not ledger.covers(index_at(cell.start), cell):
                yield cell

    def make_pieces(self, step_cells: StepCells, step: Region) -> Filling:
        """Make the buffers for which memory has been taken; return them by cell."""
        begin, end = step.bounds[self.outer]
        cells = {}
        for corner, cell in step_cells.cells.items():
            newest = cell.pieces
            if corner in step_cells.regions:
                low, high = cell.region.bounds[self.outer]
                lasting = low < begin if self.is_backward else end < high
                newest = self._make_pieces(step_cells.regions[corner], cell.block, lasting=lasting)
                cell.pieces.extend(newest)
            cells[corner] = cell, newest
        return Filling(step_cells.along, cells)

    def _make_pieces(self, region: Region, block: Region, *, lasting: bool) -> list[HeldPiece]:
        """Make one piece for a region, or several if no hole in memory is long enough for one."""
        itemsize, shape = self.itemsize, region.shape
        size = run = prod(shape)
        strides, n_bytes = self.layout.byte_strides(shape, itemsize), size * itemsize
        phase = 0
        if self.cuts_blocks:
            # If memory address and file offset have the same remainder modulo `ALIGNMENT`, the
            # buffer can be written with direct I/O.
            stored = self.layout.stored(region.relative_to(block.start), block.shape)
            phase = stored.first * itemsize % ALIGNMENT
            if not self.in_pieces and stored.run * itemsize >= _LONG_RUN:
                strides, n_bytes = _spread(shape, block.shape, self.layout, itemsize)
                run = stored.run
        least = max(_SMALLEST_PART, n_bytes // _MOST_HALVED) if size > 1 else n_bytes
        buffer = self._lend(n_bytes, least, phase=phase, lasting=lasting)
        if buffer is None:
            return self._make_parts(region, max(least, itemsize), lasting=lasting)
        return [self._make_piece(region, buffer, strides, run)]

    def _make_parts(self, region: Region, least: int, *, lasting: bool) -> list[HeldPiece]:
        """Make pieces for the halves of a region, recursively down to `least` bytes.

        They are assembled before they are written, so their alignment does not matter.
        """
        pieces = []
        for half in _halves(region, self.layout):
            buffer = self._lend(half.size * self.itemsize, least, lasting=lasting)
            if buffer is None:
                pieces += self._make_parts(half, least, lasting=lasting)
            else:
                strides = self.layout.byte_strides(half.shape, self.itemsize)
                pieces.append(self._make_piece(half, buffer, strides, half.size))
        return pieces

    def _lend(
        self, n_bytes: int, least: int, *, phase: int = 0, lasting: bool
    ) -> memoryview | None:
        """Return a buffer, None if no hole is long enough and the piece can be divided."""
        buffer = self.room.buffers.lend_inside(n_bytes, phase=phase, lasting=lasting)
        if buffer is None and n_bytes <= least:
            return self.room.buffers.lend_outside(n_bytes)
        return buffer

    def _make_piece(
        self, region: Region, buffer: memoryview, strides: tuple[int, ...], run: int
    ) -> HeldPiece:
        array = np.ndarray(region.shape, self.moved, buffer, strides=strides)
        return HeldPiece(region, array, buffer, run)

    def place(
        self, region: Region, values: NDArray[Any], filling: Filling
    ) -> list[tuple[Cell, int]]:
        """Copy the values read for a region to the pieces that it overlaps.

        Return how many elements each cell got, for `count_placed`.
        """
        along, cells = filling.along, filling.cells
        placed: list[tuple[Cell, int]] = []
        overlaps = zip(*map(AxisWriteCells.overlaps, along, region.bounds), strict=True)
        for corner, inside, taken in zip(*starmap(product, overlaps), strict=True):
            if corner in cells:
                cell, pieces = cells[corner]
                part = values[taken]
                if len(pieces) == 1:
                    copy(part, pieces[0].array[inside], self.layout)
                else:
                    self._place_in_parts(part, inside, pieces)
                placed.append((cell, part.size))
        return placed

    def _place_in_parts(
        self, values: NDArray[Any], inside: tuple[slice, ...], pieces: list[HeldPiece]
    ) -> None:
        """Copy values to several pieces; `inside` is relative to the first one."""
        bounds = ((each.start, each.stop) for each in inside)
        whole = Region.of(bounds).shifted_by(pieces[0].region.start)
        for piece in pieces:
            part = whole & piece.region
            if part.size:
                found = piece.array[part.slices_from(piece.region.start)]
                copy(values[part.slices_from(whole.start)], found, self.layout)

    def count_placed(self, placed: list[tuple[Cell, int]]) -> None:
        """Count the elements placed in write cells, and queue complete cells for writing."""
        complete = []
        with self.lock:
            for cell, n_elements in placed:
                cell.missing -= n_elements
                if not cell.missing:
                    del self.cells[cell.region.start]
                    complete.append(cell)
        for cell in complete:
            self._queue_write(cell)

    def _queue_write(self, cell: Cell) -> None:
        """Queue a complete cell for writing; it counts as staging if staging has room."""
        n_bytes = cell.region.size * self.itemsize
        account = self.room.held
        if self.room.behind.take_if_free(n_bytes):
            self.room.held.give_back(n_bytes)
            account = self.room.behind
        self.room.crew.add_urgent(partial(self._write, cell, n_bytes, account))

    def _write(self, cell: Cell, n_bytes: int, account: Account, staging: memoryview) -> None:
        """Write a complete cell, free its memory, and pass it on to be committed."""
        first, *others = cell.pieces
        inside = cell.region.relative_to(cell.block.start)
        with self.target.writer(cell.index) as writer:
            if self.streams and any(inside.start):
                writer.go_on_at(inside)
            if others:
                self._write_pieces(staging, cell, writer)
            elif first.run == first.array.size:
                writer.write_from(inside, first.array, staging)
            else:
                for part in self.layout.slabs(inside, first.run):
                    values = first.array[part.slices_from(inside.start)]
                    writer.write_from(part, values, staging)
            checksum = writer.checksum
        while cell.pieces:
            self.room.buffers.take_back(cell.pieces.pop().buffer)
        account.give_back(n_bytes)
        is_last = self._is_last(cell)
        self.outlet.add(Written(cell.index, cell.region, checksum, is_last), n_bytes)
        self.on_written(n_bytes, is_last)

    def _write_pieces(self, staging: memoryview, cell: Cell, writer: BlockWriter) -> None:
        """Assemble a cell from its pieces and write it in sequence."""
        origin = cell.block.start
        whole = cell.region.relative_to(origin)
        pieces = [(piece.region.relative_to(origin), piece.array) for piece in cell.pieces]

        def fill(slab: Region, values: NDArray[Any]) -> None:
            values = values.view(self.moved)
            for inside, array in pieces:
                if slab == whole:
                    # Most small cells are assembled at once.
                    copy(array, values[inside.slices_from(whole.start)], self.layout)
                elif (part := slab & inside).size:
                    held = array[part.slices_from(inside.start)]
                    copy(held, values[part.slices_from(slab.start)], self.layout)

        writer.write_filled(whole, staging, fill)

    def _is_last(self, cell: Cell) -> bool:
        """Count a cell of a block as written; tell whether it completed the block."""
        if not self.cuts_blocks:
            return True
        with self.lock:
            missing = self.cells_missing.pop(cell.index, None)
            if missing is None:
                missing = self._count_cells(cell.index, cell.block)
            if missing > 1:
                self.cells_missing[cell.index] = missing - 1
            return missing == 1

    def _count_cells(self, index: tuple[int, ...], block: Region) -> int:
        """Return the number of cells of a block that have to be written."""
        if self.ledger is None or index not in self.ledger.parts:
            return self.plan.count_write_cells(block)
        return sum(1 for _ in self._missing_cells(block))


def _find_axis_cells(plan: Plan, axis: int, low: int, high: int) -> AxisWriteCells:
    """Return the write cells of a range, each with the range of its buffer."""
    cells = plan.axes[axis].write_cells(low, high)
    if plan.hold is Hold.PIECES:
        return AxisWriteCells([CellRange(a, b, max(a, low), min(b, high)) for a, b in cells])
    return AxisWriteCells([CellRange(a, b, a, b) for a, b in cells])


def _halves(region: Region, layout: Layout) -> tuple[Region, Region]:
    """Divide a region in two along the slowest axis longer than 1."""
    axis = next(axis for axis in layout.axes if region.shape[axis] > 1)
    bounds = list(region.bounds)
    low, high = bounds[axis]
    middle = (low + high) // 2
    first, second = (
        Region.of([*bounds[:axis], part, *bounds[axis + 1 :]])
        for part in ((low, middle), (middle, high))
    )
    return first, second


def _spread(
    shape: tuple[int, ...], block: tuple[int, ...], layout: Layout, itemsize: int
) -> tuple[tuple[int, ...], int]:
    """Return the byte strides and the size of a buffer for part of a block, with aligned runs.

    Each run has the same remainder modulo `ALIGNMENT` in memory as in the file.
    """
    strides, n_bytes, is_run = [0] * len(shape), itemsize, True
    in_file = layout.strides(block)
    for axis in reversed(layout.axes):
        if not is_run:
            n_bytes += (in_file[axis] * itemsize - n_bytes) % ALIGNMENT
        strides[axis] = n_bytes
        n_bytes *= shape[axis]
        is_run = is_run and shape[axis] == block[axis]
    return tuple(strides), n_bytes
