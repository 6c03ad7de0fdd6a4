"""One target of a run: what has been read for it, until a write cell is complete and written."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.engine.copying import copy
from dask_io.geometry import Axis, Region
from dask_io.planning import Hold
from dask_io.stores.addressable import view_as_array
from dask_io.stores.files import ALIGNMENT
from dask_io.stores.ledger import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dask_io.engine.commit import Outlet
    from dask_io.engine.crew import Crew
    from dask_io.engine.memory import Account, Buffers
    from dask_io.geometry import Layout
    from dask_io.planning import AxisPlan, Plan
    from dask_io.stores.store import BlockWriter

# Runs at least this long are spread in memory, so that each can be written past the page cache:
# that takes less than a hundredth more.
_LONG_RUN = 512 * 2**10


class Room(NamedTuple):
    """What the targets of a run share: memory, and the threads that write.

    What is complete but not yet written counts as `behind` where there is room for it, so that
    reading can go on; what is `held` then is exactly what the plan says.
    """

    held: Account
    behind: Account
    buffers: Buffers
    crew: Crew


@dataclass(slots=True)
class Piece:
    """Part of the array in memory, in the target's layout; `run` elements lie together at least."""

    region: Region
    array: NDArray[Any]
    buffer: memoryview
    run: int

    @property
    def n_bytes(self) -> int:
        """Bytes of the array's elements."""
        return self.region.size * self.array.dtype.itemsize


@dataclass(slots=True)
class Cell:
    """A write cell that has been begun: what is there of it, and how much is missing."""

    region: Region
    missing: int
    pieces: list[Piece] = field(default_factory=list)


class Stretch(NamedTuple):
    """A write cell along one axis, and where the newest piece of it begins and ends."""

    start: int
    stop: int
    origin: int
    end: int


class Overlap(NamedTuple):
    """What a range has in common with a write cell, along one axis."""

    start: int
    inside: slice
    taken: slice
    length: int


class Along:
    """The write cells that a step fills along one axis.

    There may be many blocks in a step and many small pieces in a block, but few ranges along an
    axis: what each overlaps is worked out once.
    """

    def __init__(self, stretches: list[Stretch]) -> None:
        self.stretches = stretches
        self._known: dict[tuple[int, int], list[Overlap]] = {}

    def overlaps(self, bounds: tuple[int, int]) -> list[Overlap]:
        """Return where each cell begins that overlaps a range, and slices into piece and range."""
        found = self._known.get(bounds)
        if found is None:
            found = self._known[bounds] = list(self._overlaps(*bounds))
        return found

    def _overlaps(self, low: int, high: int) -> Iterator[Overlap]:
        for start, _, origin, last in self.stretches:
            begin, end = max(origin, low), min(last, high)
            if begin < end:
                inside, taken = slice(begin - origin, end - origin), slice(begin - low, end - low)
                yield Overlap(start, inside, taken, end - begin)


class Wanted(NamedTuple):
    """The write cells that a step fills, and for which of them what room has to be made."""

    along: list[Along]
    cells: list[Cell]
    regions: list[tuple[Cell, Region]]
    n_bytes: int


class Filling(NamedTuple):
    """What a step fills: write cells along each axis, and by its corner each with its piece."""

    along: list[Along]
    cells: dict[tuple[int, ...], tuple[Cell, NDArray[Any]]]


class Member:
    """A plan's target under way; positions are those of the plan.

    What is durable already is neither held nor written. `on_written` is told the bytes of every
    cell that has been written, and whether that made a block whole.
    """

    def __init__(
        self, plan: Plan, outlet: Outlet, room: Room, on_written: Callable[[int, bool], None]
    ) -> None:
        self.plan, self.outlet, self.room = plan, outlet, room
        self.target, self.ledger = outlet.target, outlet.ledger or None
        self.on_written = on_written
        self.moved = moved_dtype(self.target.dtype)
        self.cuts_blocks = any(cut.pieces for cut in plan.write_cuts)
        self.cells: dict[tuple[int, ...], Cell] = {}
        self.cells_missing: dict[tuple[int, ...], int] = {}
        self.lock = Lock()

    def begin(self, region: Region) -> Wanted:
        """Begin the write cells of a region that will be read, and say what memory they need."""
        in_pieces = self.plan.hold is Hold.PIECES
        along = [
            Along(list(_stretches(axis, low, high, in_pieces=in_pieces)))
            for axis, (low, high) in zip(self.plan.axes, region.bounds, strict=True)
        ]
        cells, regions = [], []
        with self.lock:
            for parts in product(*(each.stretches for each in along)):
                corner, stop, origin, end = zip(*parts, strict=True)
                cell = self.cells.get(corner) or self._begin_cell(Region(corner, stop))
                if cell is not None:
                    cells.append(cell)
                    if in_pieces or not cell.pieces:
                        regions.append((cell, Region(origin, end)))
        n_elements = sum(each.size for _, each in regions)
        return Wanted(along, cells, regions, n_elements * self.target.dtype.itemsize)

    def _begin_cell(self, region: Region) -> Cell | None:
        """Return a new cell, None if it is durable already."""
        if self._is_durable(region):
            return None
        cell = self.cells[region.start] = Cell(region, region.size)
        return cell

    def needed(self, region: Region) -> Region:
        """Return the smallest box around what is not durable yet of a region."""
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
        return (cell for cell in self.plan.write_cells(region) if not self._is_durable(cell))

    def _is_durable(self, cell: Region) -> bool:
        return self.ledger is not None and self.ledger.covers(self._block_of(cell)[0], cell)

    def make_pieces(self, wanted: Wanted) -> Filling:
        """Make the buffers for which memory has been taken; return each cell with its newest."""
        for cell, region in wanted.regions:
            cell.pieces.append(self._make_piece(region))
        cells = {cell.region.start: (cell, cell.pieces[-1].array) for cell in wanted.cells}
        return Filling(wanted.along, cells)

    def _make_piece(self, region: Region) -> Piece:
        layout, itemsize = self.target.layout, self.target.dtype.itemsize
        if not self.cuts_blocks:
            buffer = self.room.buffers.lend(region.size * itemsize)
            array = view_as_array(buffer, region.shape, self.moved, layout)
            return Piece(region, array, buffer, region.size)
        # What begins in memory as far behind a multiple of `ALIGNMENT` as it will in its file can
        # be written past the page cache as it is.
        _, block = self._block_of(region)
        first, run = next(layout.runs(region.relative_to(block.start), block.shape))
        is_spread = self.plan.hold is Hold.BLOCKS and run * itemsize >= _LONG_RUN
        strides, n_bytes = _strides(region.shape, block.shape, layout, itemsize, spread=is_spread)
        buffer = self.room.buffers.lend(n_bytes, phase=first * itemsize % ALIGNMENT)
        array = np.ndarray(region.shape, self.moved, buffer, strides=strides)
        return Piece(region, array, buffer, run if is_spread else region.size)

    def _block_of(self, region: Region) -> tuple[tuple[int, ...], Region]:
        """Return the target's block that a part of it belongs to."""
        grid = self.target.grid
        index = tuple(map(Axis.index_at, grid.axes, region.start))
        return index, grid.block(index)

    def place(self, region: Region, values: NDArray[Any], filling: Filling) -> None:
        """Put what has been read of a region where it belongs."""
        placed = []
        for overlaps in product(*map(Along.overlaps, filling.along, region.bounds)):
            corner, inside, taken, lengths = zip(*overlaps, strict=True)
            if corner in filling.cells:
                cell, array = filling.cells[corner]
                copy(values[taken], array[inside], self.target.layout)
                placed.append((cell, prod(lengths)))
        self._count_placed(placed)

    def _count_placed(self, placed: list[tuple[Cell, int]]) -> None:
        """Count what has arrived in write cells, and have those written that are complete."""
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
        """Have a complete cell written; until then it counts as staging if there is room."""
        n_bytes = sum(piece.n_bytes for piece in cell.pieces)
        account = self.room.held
        if self.room.behind.take_if_free(n_bytes):
            self.room.held.give_back(n_bytes)
            account = self.room.behind
        self.room.crew.add_urgent(partial(self._write, cell, account))

    def _write(self, cell: Cell, account: Account, staging: memoryview) -> None:
        """Write a complete cell, free it, and have it committed."""
        first, *others = cell.pieces
        index, block = self._block_of(cell.region)
        inside = cell.region.relative_to(block.start)
        with self.target.writer(index) as writer:
            if others:
                self._write_pieces(staging, cell, writer, block.start)
            else:
                for part in self.target.layout.slabs(inside, first.run):
                    writer.write_from(part, first.array[part.relative_to(inside.start).slices])
            checksum = writer.checksum
        n_bytes = sum(piece.n_bytes for piece in cell.pieces)
        while cell.pieces:
            self.room.buffers.take_back(cell.pieces.pop().buffer)
        account.give_back(n_bytes)
        is_last = self._is_last(index, block)
        self.outlet.add(Written(index, cell.region, checksum, is_last), n_bytes)
        self.on_written(n_bytes, is_last)

    def _write_pieces(
        self, staging: memoryview, cell: Cell, writer: BlockWriter, origin: tuple[int, ...]
    ) -> None:
        """Put a cell together from its pieces and write it in sequence."""
        pieces = [(piece.region.relative_to(origin), piece.array) for piece in cell.pieces]

        def fill(slab: Region, values: NDArray[Any]) -> None:
            values = values.view(self.moved)
            for inside, array in pieces:
                part = slab & inside
                if part.size:
                    held = array[part.relative_to(inside.start).slices]
                    copy(held, values[part.relative_to(slab.start).slices], self.target.layout)

        writer.write_filled(cell.region.relative_to(origin), staging, fill)

    def _is_last(self, index: tuple[int, ...], block: Region) -> bool:
        """Count a cell of a block as written; tell whether the block is whole now."""
        with self.lock:
            missing = self.cells_missing.pop(index, None)
            if missing is None:
                missing = self._count_cells(index, block)
            if missing > 1:
                self.cells_missing[index] = missing - 1
            return missing == 1

    def _count_cells(self, index: tuple[int, ...], block: Region) -> int:
        """Return how many cells of a block are to be written."""
        if self.ledger is None or index not in self.ledger.parts:
            return self.plan.count_write_cells(block)
        return sum(1 for _ in self._missing_cells(block))


def _stretches(axis: AxisPlan, low: int, high: int, *, in_pieces: bool) -> Iterator[Stretch]:
    """Yield the write cells of a range, each with the piece of it that is held, or all of it."""
    for start, stop in axis.write_cells(low, high):
        if in_pieces:
            yield Stretch(start, stop, max(start, low), min(stop, high))
        else:
            yield Stretch(start, stop, start, stop)


def _strides(
    shape: tuple[int, ...],
    block: tuple[int, ...],
    layout: Layout,
    itemsize: int,
    *,
    spread: bool,
) -> tuple[list[int], int]:
    """Return how far apart in memory the elements of a part of a block lie, and its bytes.

    If it is spread, each of its runs begins as far behind a multiple of `ALIGNMENT` as in the file.
    """
    strides, n_bytes, is_run = [0] * len(shape), itemsize, True
    in_file = layout.strides(block)
    for axis in reversed(layout.axes):
        if spread and not is_run:
            n_bytes += (in_file[axis] * itemsize - n_bytes) % ALIGNMENT
        strides[axis] = n_bytes
        n_bytes *= shape[axis]
        is_run = is_run and shape[axis] == block[axis]
    return strides, n_bytes


def moved_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type as which elements are moved: NumPy copies fields without what is between."""
    return dtype if dtype.names is None else np.dtype((np.void, dtype.itemsize))
