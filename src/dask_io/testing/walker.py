"""Execute a plan in memory, step by step, as an oracle to test the closed forms against.

The code is deliberately simple. Blocks are flat buffers, boundaries are lists, and every element
that is read, held or written is counted, so only small arrays can be walked.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dask_io.planning import Hold, Seeks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dask_io.geometry import Region
    from dask_io.planning import Bundle, Plan, Problem, Side, Step

# Start and stop along each axis.
Box: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Walked:
    """Counts from walking a plan; `Plan` has a closed form for each.

    `held_bytes` is the largest amount of array data in memory. `peak_bytes` adds the staging for
    which the budget leaves room.
    """

    read_seeks: int
    write_seeks: int
    openings: int
    n_steps: int
    read_bytes: int
    written_bytes: int
    held_bytes: int
    carried_bytes: int
    peak_bytes: int
    array_is_rebuilt: bool

    @property
    def seeks(self) -> Seeks:
        """Seeks on each side."""
        return Seeks(self.read_seeks, self.write_seeks)


def walk(plan: Plan, array: NDArray[Any] | None = None) -> Walked:
    """Execute a plan in memory, step by step, and count everything.

    Parameters
    ----------
    plan
        The plan to walk; its array must be small.
    array
        The array to move; by default random bytes.

    Raises
    ------
    AssertionError
        If a step completes other cells than the plan predicts.

    Examples
    --------
    >>> from dask_io.planning import Problem, plan_naive
    >>> walked = walk(plan_naive(Problem.regular((10, 6), (4, 3), (5, 6), budget=1000)))
    >>> walked.seeks, walked.held_bytes, walked.array_is_rebuilt
    (Seeks(read=6, write=20), 12, True)
    """
    problem = plan.problem
    # Opaque elements, so that NaNs and the padding of structured types are compared too.
    opaque = np.dtype((np.void, problem.itemsize))
    if array is None:
        noise = np.random.default_rng(0).bytes(problem.n_bytes)
        array = np.frombuffer(noise, opaque).reshape(problem.shape)
    original = np.ascontiguousarray(array).view(opaque).reshape(problem.shape)

    source, target = _Storage(problem.source, opaque, plan), _Storage(problem.target, opaque, plan)
    source.fill(original)
    memory = _Memory(plan, opaque)
    n_steps = held = carried = 0
    for step in plan.steps():
        n_steps += 1
        cell = _box(step.cell)
        for part, values in source.read(cell):
            memory.take(part, values)
        held = max(held, memory.held)
        complete = memory.complete()
        _check_step(plan, step, memory.touched_by(cell), complete)
        target.write((part, memory.array[_slices(part)]) for part in sorted(complete))
        memory.free(complete)
        carried = max(carried, memory.held)

    staging = _staging(problem, held, _cell_size(plan))
    return Walked(
        read_seeks=source.seeks,
        write_seeks=target.seeks,
        openings=source.openings + target.openings,
        n_steps=n_steps,
        read_bytes=source.moved * problem.source_itemsize,
        written_bytes=target.moved * problem.itemsize,
        held_bytes=held * problem.itemsize,
        carried_bytes=carried * problem.itemsize,
        peak_bytes=held * problem.itemsize + staging,
        array_is_rebuilt=target.holds(original),
    )


def walk_bundle(bundle: Bundle) -> Walked:
    """Execute a bundle in memory, step by step, and count everything.

    The steps follow from the common read cells alone; a cell that overlaps no window is skipped.
    Elements that several members need of a source block in one step count once.

    Raises
    ------
    AssertionError
        If the bundle predicts other steps.
    """
    opaque = np.dtype((np.void, bundle.itemsize))
    windows = [_box(window) for window in bundle.windows]
    shape = bundle.box.shape
    noise = np.random.default_rng(0).bytes(prod(shape) * bundle.itemsize)
    original = np.frombuffer(noise, opaque).reshape(shape)
    source = _Storage(bundle.source, opaque, bundle.members[0])
    source.fill(original)
    targets = [_Storage(member.problem.target, opaque, member) for member in bundle.members]
    memories = [_Memory(member, opaque) for member in bundle.members]
    n_steps = held = carried = 0
    predicted = bundle.steps()
    for cell in _cells_in_order(bundle):
        parts = {n: part for n, window in enumerate(windows) if (part := _overlap(cell, window))}
        if not parts:
            continue
        n_steps += 1
        step = next(predicted)
        assert _box(step.cell) == cell, f"{step} should read {cell}"
        own = {n: _moved(part, windows[n]) for n, part in parts.items()}
        assert own == {part.member: _box(part.step.cell) for part in step.parts}
        source.read_union(list(parts.values()))
        for n, part in parts.items():
            memories[n].take(own[n], original[_slices(part)])
        held = max(held, sum(memory.held for memory in memories))
        for n in parts:
            complete = memories[n].complete()
            values = memories[n].array
            targets[n].write((part, values[_slices(part)]) for part in sorted(complete))
            memories[n].free(complete)
        carried = max(carried, sum(memory.held for memory in memories))
    assert next(predicted, None) is None, "the bundle has more steps than are needed"

    cell_size = min(map(_cell_size, bundle.members))
    staging = _staging(bundle.members[0].problem, held, cell_size)
    stores = (source, *targets)
    return Walked(
        read_seeks=source.seeks,
        write_seeks=sum(target.seeks for target in targets),
        openings=sum(store.openings for store in stores),
        n_steps=n_steps,
        read_bytes=source.moved * bundle.members[0].problem.source_itemsize,
        written_bytes=sum(target.moved for target in targets) * bundle.itemsize,
        held_bytes=held * bundle.itemsize,
        carried_bytes=carried * bundle.itemsize,
        peak_bytes=held * bundle.itemsize + staging,
        array_is_rebuilt=all(
            target.holds(original[_slices(window)])
            for target, window in zip(targets, windows, strict=True)
        ),
    )


def _staging(problem: Problem, held: int, cell_size: int) -> int:
    """Return the bytes of staging: only what threads need, if there is no room to write behind."""
    rule, cell_bytes = problem.staging, cell_size * problem.itemsize
    granted = min(rule.preferred, problem.budget - held * problem.itemsize)
    behind = granted - rule.threads
    if rule.threads and 2 * behind < 3 * cell_bytes + 1:
        granted = min(granted, rule.threads)
    elif rule.threads and behind > 2**28:
        # Beyond that size, one and a half cells are enough.
        granted = rule.threads + max(2**28, 3 * cell_bytes // 2 + 1)
    return max(rule.needed(problem.budget), granted)


def _cells_in_order(bundle: Bundle, chosen: tuple[tuple[int, int], ...] = ()) -> Iterator[Box]:
    """Yield all common read cells, in lexicographic order of the bundle's axis order."""
    by_axis = dict(zip(bundle.order, chosen, strict=False))
    if len(chosen) == len(bundle.order):
        yield tuple(by_axis[axis] for axis in range(len(chosen)))
        return
    axis = bundle.order[len(chosen)]
    runs, slabs = bundle.reads[axis], bundle.members[0].slabs
    if slabs is not None and axis == slabs.inner:
        for start, stop, reads in slabs.ranges:
            if start <= by_axis[slabs.outer][0] < stop:
                runs = reads
    lengths = (length for length, times, _ in runs for _ in range(times))
    cells = list(pairwise(accumulate(lengths, initial=0)))
    for bounds in cells[::-1] if axis in bundle.members[0].backwards else cells:
        yield from _cells_in_order(bundle, (*chosen, bounds))


class _Storage:
    """One side: its blocks as flat buffers in its layout, and a record of all visits."""

    def __init__(self, side: Side, dtype: np.dtype[Any], plan: Plan) -> None:
        # Relative to the window's corner, so a block that begins before it has a negative start.
        corner = side.window.start if side.window else (0,) * len(side.stored.axes)
        bounds = [
            list(pairwise(accumulate(axis.lengths(), initial=-zero)))
            for axis, zero in zip(side.stored.axes, corner, strict=True)
        ]
        self.inside: Box = tuple((0, length) for length in side.grid.shape)
        self.buffers: dict[Box, NDArray[Any]] = {}
        # The position of each element of a block in its buffer.
        self.places: dict[Box, NDArray[np.int64]] = {}
        self.times_written: dict[Box, NDArray[np.int64]] = {}
        self.moved = 0
        # The block of every visit, and the positions visited in its buffer.
        self.visits: list[tuple[Box, NDArray[np.int64]]] = []
        self.others = side.layout.axes[1:]
        self.streams = plan.streams
        # Axes along which a block is always read as a whole.
        self.whole = side.layout.axes if side.atomic else side.layout.axes[::-1][: side.through]
        for block in filter(self._takes_part, product(*bounds)):
            shape = [high - low for low, high in block]
            self.buffers[block] = np.zeros(prod(shape), dtype)
            self.times_written[block] = np.zeros(prod(shape), np.int64)
            places = np.arange(prod(shape)).reshape([shape[axis] for axis in side.layout.axes])
            self.places[block] = places.transpose(np.argsort(side.layout.axes))

    def fill(self, array: NDArray[Any]) -> None:
        """Put an array into the blocks without counting."""
        for block, buffer in self.buffers.items():
            part = _overlap(block, self.inside)
            buffer[self.places[block][_slices(part, block)]] = array[_slices(part)]

    def holds(self, array: NDArray[Any]) -> bool:
        """Whether the blocks contain exactly this array, with each element written once."""
        for block, buffer in self.buffers.items():
            part = _overlap(block, self.inside)
            places = self.places[block][_slices(part, block)]
            times = np.bincount(places.ravel(), minlength=len(buffer))
            if buffer[places].tobytes() != array[_slices(part)].tobytes():
                return False
            if not np.array_equal(times, self.times_written[block]):
                return False
        return True

    def _takes_part(self, block: Box) -> bool:
        return bool(_overlap(block, self.inside))

    def read(self, box: Box) -> Iterator[tuple[Box, NDArray[Any]]]:
        """Yield the part of a box in each block."""
        for block, buffer in self.buffers.items():
            if part := _overlap(block, box):
                self._visit(block, self._read_for(part, block))
                yield part, buffer[self.places[block][_slices(part, block)]]

    def read_union(self, boxes: Sequence[Box]) -> None:
        """Read the union of boxes, visiting each block once."""
        for block in self.buffers:
            parts = [part for box in boxes if (part := _overlap(block, box))]
            if parts:
                places = [self._read_for(part, block) for part in parts]
                self._visit(block, np.unique(np.concatenate(places)))

    def _read_for(self, part: Box, block: Box) -> NDArray[np.int64]:
        """Return the positions that are read when a part of a block is needed."""
        wider = tuple(
            block[axis] if axis in self.whole else part[axis] for axis in range(len(block))
        )
        return self.places[block][_slices(wider, block)].ravel()

    def write(self, parts: Iterable[tuple[Box, NDArray[Any]]]) -> None:
        """Write boxes, each of which lies in one block, visiting each block once."""
        touched: dict[Box, list[NDArray[np.int64]]] = {}
        for box, values in parts:
            block = next(block for block in self.buffers if _overlap(block, box))
            places = self.places[block][_slices(box, block)]
            self.buffers[block][places] = values
            self.times_written[block][places] += 1
            touched.setdefault(block, []).append(places.ravel())
        for block, visited in touched.items():
            self._visit(block, np.concatenate(visited))

    def _visit(self, block: Box, places: NDArray[np.int64]) -> None:
        self.moved += len(places)
        self.visits.append((block, np.sort(places)))

    @property
    def seeks(self) -> int:
        """One seek per visit, and one wherever two positions are not adjacent."""
        inside = sum(int((np.diff(places) != 1).sum()) for _, places in self.visits)
        return self.openings + inside

    @property
    def openings(self) -> int:
        """Number of visits, without those that continue a stream."""
        return len(self.visits) - (self._n_continued() if self.streams else 0)

    def _n_continued(self) -> int:
        """Count visits that start where the last one ended; 0 unless planes are moved in order."""
        if len({tuple(block[axis] for axis in self.others) for block in self.buffers}) != 1:
            return 0
        for block, places in self.visits:
            plane = prod(block[axis][1] - block[axis][0] for axis in self.others)
            is_one_run = places[-1] - places[0] + 1 == len(places)
            if not is_one_run or places[0] % plane or len(places) % plane:
                return 0
        again = [
            places[-1] + 1 == next_places[0]
            for (block, places), (next_block, next_places) in pairwise(self.visits)
            if block == next_block
        ]
        # Each block must have been moved completely before the next one.
        n_blocks = len({block for block, _ in self.visits})
        is_in_order = all(again) and len(self.visits) - len(again) == n_blocks
        return len(again) if is_in_order else 0


class _Memory:
    """Elements that have been read and not yet written."""

    def __init__(self, plan: Plan, dtype: np.dtype[Any]) -> None:
        self.hold = plan.hold
        self.array = np.zeros(plan.problem.shape, dtype)
        self.is_held = np.zeros(plan.problem.shape, bool)
        self.touched: set[Box] = set()
        self.cells = set(product(*(_write_bounds(plan, axis) for axis in range(len(plan.reads)))))

    def take(self, part: Box, values: NDArray[Any]) -> None:
        """Store elements that were read."""
        self.array[_slices(part)] = values
        self.is_held[_slices(part)] = True
        self.touched |= self.touched_by(part)

    def touched_by(self, box: Box) -> set[Box]:
        """Return the unwritten write cells that overlap a box."""
        return {cell for cell in self.cells if _overlap(cell, box)}

    def complete(self) -> set[Box]:
        """Return the write cells that are complete."""
        return {cell for cell in self.touched if self.is_held[_slices(cell)].all()}

    def free(self, cells: set[Box]) -> None:
        """Free cells that have been written."""
        for cell in cells:
            self.is_held[_slices(cell)] = False
        self.touched -= cells
        self.cells -= cells

    @property
    def held(self) -> int:
        """Number of elements held: only those read, or all of every cell that has been begun."""
        if self.hold is Hold.PIECES:
            return int(self.is_held.sum())
        return sum(prod(high - low for low, high in cell) for cell in self.touched)


def _cell_size(plan: Plan) -> int:
    """Return the largest size of a write cell: it ends with a block or at a flushed end."""
    size = 1
    for axis, blocks in enumerate(plan.problem.target.grid.axes):
        flushed = pairwise(sorted({0, *_flushed(plan, axis), plan.problem.shape[axis]}))
        longest = max((high - low for low, high in flushed), default=0)
        size *= min(longest, max(blocks.lengths(), default=0))
    return size


def _write_bounds(plan: Plan, axis: int) -> list[tuple[int, int]]:
    """List the write cells along an axis: the target's blocks, cut at every flushed end."""
    ends = set(accumulate(plan.problem.target.grid.axes[axis].lengths(), initial=0))
    return list(pairwise(sorted(ends.union(_flushed(plan, axis)))))


def _flushed(plan: Plan, axis: int) -> Iterator[int]:
    """Yield the ends of read cells along an axis that are flushed."""
    end = 0
    for length, count, keep in plan.reads[axis]:
        for _ in range(count):
            start, end = end, end + length
            if not keep:
                yield start if axis in plan.backwards else end


def _check_step(plan: Plan, step: Step, touched: set[Box], complete: set[Box]) -> None:
    """Check the cells that a step predicts against the elements in memory."""
    within = {
        cell
        for cell in touched | complete
        if all(
            low >= done_low and high <= done_high
            for (low, high), (done_low, done_high) in zip(cell, _box(step.done), strict=True)
        )
    }
    assert within == complete, f"{step} completes {sorted(complete)}"
    listed = [_box(cell) for cell in plan.write_cells(step.done)]
    assert sorted(listed) == sorted(complete), f"{step} completes {sorted(complete)}"
    listed = [_box(cell) for cell in plan.write_cells(step.cell)]
    assert sorted(listed) == sorted(touched), f"{step} touches {sorted(touched)}"


def _box(region: Region) -> Box:
    return tuple(zip(region.start, region.stop, strict=True))


def _moved(box: Box, window: Box) -> Box:
    """Return a box relative to a window's corner."""
    pairs = zip(box, window, strict=True)
    return tuple((low - zero, high - zero) for (low, high), (zero, _) in pairs)


def _overlap(one: Box, other: Box) -> Box:
    """Return the overlap of two boxes, an empty tuple if they do not overlap."""
    shared = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return shared if all(low < high for low, high in shared) else ()


def _slices(box: Box, within: Sequence[tuple[int, int]] = ()) -> tuple[slice, ...]:
    """Return a box as an index into the array, or into a block of it."""
    origin = [low for low, _ in within] or [0] * len(box)
    return tuple(
        slice(low - zero, high - zero) for (low, high), zero in zip(box, origin, strict=True)
    )
