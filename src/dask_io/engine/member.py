"""One target of a run: what has been read for it, until a write cell is complete and written."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import product
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.geometry import Region
from dask_io.planning import Hold
from dask_io.stores.addressable import view_as_array
from dask_io.stores.ledger import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from dask_io.engine.commit import Outlet
    from dask_io.engine.crew import Crew
    from dask_io.engine.memory import Account, Buffers
    from dask_io.planning import AxisPlan, Plan
    from dask_io.stores.store import BlockWriter


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
    """Part of the array in memory, in the target's layout."""

    region: Region
    array: NDArray[Any]
    buffer: memoryview

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


class Wanted(NamedTuple):
    """The write cells that a step fills, and for which of them what room has to be made."""

    cells: list[Cell]
    regions: list[tuple[Cell, Region]]
    n_bytes: int


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
        self.cells: dict[tuple[int, ...], Cell] = {}
        self.cells_missing: dict[tuple[int, ...], int] = {}
        self.lock = Lock()

    def begin(self, region: Region) -> Wanted:
        """Begin the write cells of a region that will be read, and say what memory they need."""
        with self.lock:
            cells = [
                self.cells.setdefault(cell.start, Cell(cell, cell.size))
                for cell in self._missing_cells(region)
            ]
        if self.plan.hold is Hold.BLOCKS:
            regions = [(cell, cell.region) for cell in cells if not cell.pieces]
        else:
            regions = [(cell, cell.region & region) for cell in cells]
        n_elements = sum(each.size for _, each in regions)
        return Wanted(cells, regions, n_elements * self.target.dtype.itemsize)

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
        cells, ledger = self.plan.write_cells(region), self.ledger
        if ledger is None:
            return cells
        return (cell for cell in cells if not ledger.covers(self._index_of(cell), cell))

    def _index_of(self, cell: Region) -> tuple[int, ...]:
        """Return the block of a write cell."""
        axes = self.target.grid.axes
        return tuple(axis.index_at(start) for axis, start in zip(axes, cell.start, strict=True))

    def make_pieces(self, wanted: Wanted) -> dict[tuple[int, ...], Piece]:
        """Make the buffers for which memory has been taken; return each cell's newest."""
        for cell, region in wanted.regions:
            cell.pieces.append(self._make_piece(region))
        return {cell.region.start: cell.pieces[-1] for cell in wanted.cells}

    def _make_piece(self, region: Region) -> Piece:
        n_bytes = region.size * self.target.dtype.itemsize
        buffer = self.room.buffers.lend(n_bytes)
        array = view_as_array(buffer, region.shape, self.moved, self.target.layout)
        return Piece(region, array, buffer)

    def place(
        self,
        region: Region,
        values: NDArray[Any],
        pieces: dict[tuple[int, ...], Piece],
        corner: tuple[int, ...],
    ) -> None:
        """Put what has been read of a region where it belongs; its step begins at `corner`.

        There may be many small pieces, so what can be is worked out axis by axis.
        """
        along = [
            list(self._overlaps(*axis))
            for axis in zip(self.plan.axes, region.bounds, corner, strict=True)
        ]
        placed = []
        for overlaps in product(*along):
            cell, inside, taken, lengths = zip(*overlaps, strict=True)
            if cell in pieces:
                pieces[cell].array[inside] = values[taken]
                placed.append((cell, prod(lengths)))
        self._count_placed(placed)

    def _overlaps(
        self, axis: AxisPlan, bounds: tuple[int, int], corner: int
    ) -> Iterator[tuple[int, slice, slice, int]]:
        """Yield the write cells of a stretch: start, slices into the piece and the stretch, length.

        Pieces begin where their cell does, or with what is read at once if that is later.
        """
        low, high = bounds
        first = corner if self.plan.hold is Hold.PIECES else 0
        for start, stop in axis.write_cells(low, high):
            begin, end, origin = max(start, low), min(stop, high), max(start, first)
            inside = slice(begin - origin, end - origin)
            yield start, inside, slice(begin - low, end - low), end - begin

    def _count_placed(self, placed: list[tuple[tuple[int, ...], int]]) -> None:
        """Count what has arrived in write cells, and have those written that are complete."""
        complete = []
        with self.lock:
            for start, n_elements in placed:
                cell = self.cells[start]
                cell.missing -= n_elements
                if not cell.missing:
                    complete.append(self.cells.pop(start))
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
        (first, *others), index = cell.pieces, self._index_of(cell.region)
        block = self.target.grid.block(index)
        with self.target.writer(index) as writer:
            if others:
                self._write_pieces(staging, cell, writer, block.start)
            else:
                writer.write_from(cell.region.relative_to(block.start), first.array)
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

        def fill(slab: Region, values: NDArray[Any]) -> None:
            for piece in cell.pieces:
                inside = piece.region.relative_to(origin)
                part = slab & inside
                if part.size:
                    held = piece.array[part.relative_to(inside.start).slices]
                    values.view(self.moved)[part.relative_to(slab.start).slices] = held

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


def moved_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type as which elements are moved: NumPy copies fields without what is between."""
    return dtype if dtype.names is None else np.dtype((np.void, dtype.itemsize))
