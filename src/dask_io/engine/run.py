"""Carry a plan out: read, place, write whole cells, free.

Memory is taken in the order of the plan's steps, by one thread, and given back when a write cell
has been written. The plan guarantees that a step fits once all cells completed before it
are written, so waiting for memory always ends, however many steps are under way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.engine.crew import Crew
from dask_io.engine.machine import ResidentMeter
from dask_io.engine.memory import Account, Buffers
from dask_io.engine.staging import share_staging
from dask_io.planning import Hold
from dask_io.stores.addressable import staged, view_as_array
from dask_io.stores.files import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dask_io.geometry import Region
    from dask_io.planning import Plan, Seeks, Step
    from dask_io.stores.store import BlockWriter, Source, Target

# Runs at least this long are worth a call of their own, past the page cache.
_LONG_RUN = 256 * 2**10


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come, in bytes of the array and in blocks."""

    n_bytes_written: int
    n_bytes: int
    n_blocks_written: int
    n_blocks: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did, as counted and measured while it ran."""

    seconds: float
    seeks: Seeks
    n_bytes_read: int
    n_bytes_written: int
    openings: int
    peak_memory: int
    held: int
    blocks_written: int
    verified: bool | None = None


@dataclass(slots=True)
class _Piece:
    """Part of the array in memory, in the target's layout."""

    region: Region
    array: NDArray[Any]
    buffer: memoryview

    @property
    def n_bytes(self) -> int:
        return self.region.size * self.array.dtype.itemsize


@dataclass(slots=True)
class _Cell:
    """A write cell that has been begun: what is there of it, and how much is missing."""

    region: Region
    missing: int
    pieces: list[_Piece] = field(default_factory=list)


def run_plan(
    plan: Plan,
    source: Source,
    target: Target,
    *,
    workers: int,
    on_progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Carry out a plan with at most `workers` threads.

    An error, or an interrupt, leaves no unfinished file behind; blocks that are there
    are whole.
    """
    started, meter = time.perf_counter(), ResidentMeter()
    read_before, written_before = replace(source.tally.read), replace(target.tally.write)
    target.create()
    try:
        run = _Run(plan, source, target, workers, on_progress)
        run.carry_out()
        target.finish()
    except BaseException:
        target.abandon()
        raise
    read = _moved_since(read_before, source.tally.read)
    write = _moved_since(written_before, target.tally.write)
    return RunResult(
        seconds=time.perf_counter() - started,
        seeks=type(plan.seeks)(read.seeks, write.seeks),
        n_bytes_read=read.n_bytes,
        n_bytes_written=write.n_bytes,
        openings=read.visits + write.visits,
        peak_memory=meter.growth(),
        held=run.held.peak,
        blocks_written=run.n_blocks_written,
    )


def _moved_since(before: Traffic, now: Traffic) -> Traffic:
    """Return what one run moved: a store may be used for several."""
    return Traffic(
        now.seeks - before.seeks, now.visits - before.visits, now.n_bytes - before.n_bytes
    )


class _Run:
    """One plan under way."""

    def __init__(
        self,
        plan: Plan,
        source: Source,
        target: Target,
        workers: int,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.plan, self.source, self.target = plan, source, target
        self.on_progress = on_progress
        self.moved = moved_dtype(target.dtype)
        n_workers, staging_bytes = share_staging(plan.staging_bytes, plan.problem, workers)
        # What is complete but not yet written counts as staging where there is room for it, so
        # that reading can go on; what is held then is exactly what the plan says.
        self.held = Account(plan.held_bytes)
        self.behind = Account(plan.staging_bytes - n_workers * staging_bytes)
        self.buffers = Buffers(plan.peak_bytes)
        stagings = [self.buffers.lend(staging_bytes) for _ in range(n_workers)]
        self.crew = Crew(stagings, on_stop=self.held.close)
        self.cells: dict[tuple[int, ...], _Cell] = {}
        self.cells_missing: dict[tuple[int, ...], int] = {}
        self.lock = Lock()
        self.n_bytes_written = self.n_blocks_written = 0

    def carry_out(self) -> None:
        with self.crew:
            for step in self.plan.steps():
                pieces = self._make_room(step)
                if pieces is None:
                    break
                for index, region in self.source.grid.pieces(step.cell):
                    self.crew.add(partial(self._read, index, region, pieces))
            self.crew.finish()

    def _make_room(self, step: Step) -> dict[tuple[int, ...], _Piece] | None:
        """Take memory for what a step reads; None if the run has been stopped."""
        with self.lock:
            cells = [
                self.cells.setdefault(region.start, _Cell(region, region.size))
                for region in self.plan.write_cells(step.cell)
            ]
        if self.plan.hold is Hold.BLOCKS:
            wanted = [(cell, cell.region) for cell in cells if not cell.pieces]
        else:
            wanted = [(cell, cell.region & step.cell) for cell in cells]
        itemsize = self.target.dtype.itemsize
        if not self.held.take(sum(region.size for _, region in wanted) * itemsize):
            return None
        for cell, region in wanted:
            cell.pieces.append(self._make_piece(region))
        return {cell.region.start: cell.pieces[-1] for cell in cells}

    def _make_piece(self, region: Region) -> _Piece:
        n_bytes = region.size * self.target.dtype.itemsize
        buffer = self.buffers.lend(n_bytes)
        array = view_as_array(buffer[:n_bytes], region.shape, self.moved, self.target.layout)
        return _Piece(region, array, buffer)

    def _read(
        self,
        index: tuple[int, ...],
        region: Region,
        pieces: dict[tuple[int, ...], _Piece],
        staging: memoryview,
    ) -> None:
        """Read a region of one source block, slab by slab, and place it."""
        block = self.source.grid.block(index)
        origin, largest = (
            block.start,
            self._slab_size(region.relative_to(block.start), block, staging),
        )
        with self.source.reader(index) as reader:
            for slab in self.source.layout.slabs(region, largest):
                values = reader.read_into(slab.relative_to(origin), staging).view(self.moved)
                for cell in self.plan.write_cells(slab):
                    part, piece = slab & cell, pieces[cell.start]
                    inside = part.relative_to(piece.region.start).slices
                    piece.array[inside] = values[part.relative_to(slab.start).slices]
                    self._placed(cell.start, part.size)

    def _slab_size(self, region: Region, block: Region, staging: memoryview) -> int:
        """Return how many elements of a region are read at once: long runs one by one."""
        itemsize = self.source.dtype.itemsize
        run = self.source.layout.run_length(region, block.shape)
        largest = staged(staging, self.source.dtype)
        return min(run, largest) if run * itemsize >= _LONG_RUN else largest

    def _placed(self, start: tuple[int, ...], n_elements: int) -> None:
        """Count what has arrived in a write cell, and have it written when it is complete."""
        with self.lock:
            cell = self.cells[start]
            cell.missing -= n_elements
            if cell.missing:
                return
            del self.cells[start]
        n_bytes = sum(piece.n_bytes for piece in cell.pieces)
        account = self.held
        if self.behind.take_if_free(n_bytes):
            self.held.give_back(n_bytes)
            account = self.behind
        self.crew.add_urgent(partial(self._write, cell, account))

    def _write(self, cell: _Cell, account: Account, staging: memoryview) -> None:
        """Write a complete cell, free it, and publish its block if that was the last one."""
        grid, (first, *others) = self.target.grid, cell.pieces
        index = tuple(
            axis.index_at(start) for axis, start in zip(grid.axes, cell.region.start, strict=True)
        )
        block = grid.block(index)
        with self.target.writer(index) as writer:
            if others:
                self._write_pieces(staging, cell, writer, block.start)
            else:
                writer.write_from(cell.region.relative_to(block.start), first.array)
        n_bytes = sum(piece.n_bytes for piece in cell.pieces)
        while cell.pieces:
            self.buffers.take_back(cell.pieces.pop().buffer)
        account.give_back(n_bytes)
        whole = self._is_last(index, block)
        if whole:
            self.target.publish(index)
        self._report(n_bytes, int(whole))

    def _write_pieces(
        self, staging: memoryview, cell: _Cell, writer: BlockWriter, origin: tuple[int, ...]
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
                missing = self.plan.count_write_cells(block)
            if missing > 1:
                self.cells_missing[index] = missing - 1
            return missing == 1

    def _report(self, n_bytes: int, n_blocks: int) -> None:
        with self.lock:
            self.n_bytes_written += n_bytes
            self.n_blocks_written += n_blocks
            progress = Progress(
                self.n_bytes_written,
                self.plan.problem.n_bytes,
                self.n_blocks_written,
                self.target.grid.n_blocks,
            )
        if self.on_progress is not None:
            self.on_progress(progress)


def moved_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type as which elements are moved: NumPy copies fields without what is between."""
    return dtype if dtype.names is None else np.dtype((np.void, dtype.itemsize))
