"""Run plans: read blocks, place their data, write complete cells, free memory.

A single plan runs as a bundle of one. One thread takes memory in the order of the bundle's steps,
for all members of a step at once. Memory is given back when a write cell has been written. The
bundle guarantees that a step fits after all cells completed before it have been written. So
waiting for memory always ends, no matter how many steps are in progress.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.engine.commit import check_sources
from dask_io.engine.crew import Alone, Crew
from dask_io.engine.machine import ResidentMeter
from dask_io.engine.member import Cell, Filling, Member, Room
from dask_io.engine.memory import Account, Buffers, reuse_freed_memory
from dask_io.engine.one_core import one_core
from dask_io.engine.staging import has_large_blocks, share_staging
from dask_io.errors import printable
from dask_io.geometry.union import disjoint_boxes
from dask_io.notebook import Displayed
from dask_io.planning import Bundle, Seeks
from dask_io.storage.location import is_url
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.tally import Traffic
from dask_io.stores.addressable import staged
from dask_io.stores.padded import plain
from dask_io.stores.store import Access
from dask_io.stores.views import TargetView
from dask_io.units import count, format_bytes, format_seconds, format_speed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dask_io.engine.commit import Outlet
    from dask_io.engine.copy import Copying
    from dask_io.geometry import Region
    from dask_io.planning import Plan, SharedStep
    from dask_io.stores.store import Source

# Runs of at least this length are read by a separate call, with direct I/O.
_LONG_RUN = 256 * 2**10
# A resumed run reads this many bytes of a gap rather than making a seek: less than a disk with an
# arm reads in that time, and more than an SSD.
_SEEK_BYTES = 256 * 2**10
# This fraction of the room to write behind stays free, so that there are holes for all buffers.
_SPARE = 3
# The most bytes of a block that one thread reads before another may continue.
_SHARE = 16 * 2**20
# A run of at most this many bytes and visits to blocks needs no threads.
_TINY, _FEW_VISITS = 2**20, 16
# One thread reads small blocks together, up to this many bytes: to hand on the interpreter for each
# of them takes as long as to read it. Complete cells are noticed as often. Queued reads take memory
# themselves, so there are not many in a task.
_TOGETHER = 2 * 2**20
_MOST_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run, in bytes of the array and in blocks.

    `n_bytes_read` is the part of `n_bytes` that has been read, 0 if it is unknown. Of what is
    written, an earlier run wrote `n_bytes_skipped`. `n_bytes_held` is the most array data in memory
    since the previous report, 0 if it is unknown.
    """

    n_bytes_written: int
    n_bytes: int
    n_blocks_written: int
    n_blocks: int
    n_bytes_read: int = 0
    n_bytes_skipped: int = 0
    n_bytes_held: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(Displayed):
    """The counts and measurements of a run.

    `peak_memory` is the growth of the process, None if it is unknown. `blocks_skipped` were written
    by an earlier run. `not_kept` lists the metadata of the source that the target's format cannot
    store. Of the bytes written, `n_bytes_scratch` went to scratch files.
    `n_bytes_array` is the size of the data that was written before it was encoded, 0 if unknown.
    Of `blocks_written`, `blocks_left_out` contain only the fill value and are not stored.
    """

    seconds: float
    seeks: Seeks
    n_bytes_read: int
    n_bytes_written: int
    openings: int
    peak_memory: int | None
    held: int
    blocks_written: int
    blocks_skipped: int = 0
    verified: bool | None = None
    not_kept: tuple[str, ...] = ()
    n_bytes_scratch: int = 0
    n_bytes_array: int = 0
    blocks_left_out: int = 0

    def describe(self, *, unit: str = "block") -> str:
        """Describe what the run wrote, in one line."""
        stored = self.n_bytes_written - self.n_bytes_scratch
        n_bytes, on_disk = self.n_bytes_array or stored, ""
        if stored < n_bytes:
            on_disk = f" in {format_bytes(stored)} on disk"
        left_out = self.blocks_left_out
        blocks = count(self.blocks_written - left_out, unit)
        done = (
            f"wrote {blocks}, {format_bytes(n_bytes)}{on_disk}, in "
            f"{format_seconds(self.seconds)} ({format_speed(n_bytes, self.seconds)})"
        )
        if left_out:
            have, are = ("has", "is") if left_out == 1 else ("have", "are")
            done += f"; {left_out:,} {have} only the fill value and {are} not stored"
        skipped = f"; {self.blocks_skipped:,} were already there" if self.blocks_skipped else ""
        verified = "; verified: read back and compared" if self.verified else ""
        names = printable(", ".join(self.not_kept).replace("_", " "))
        not_kept = f"; not kept: {names}" if names else ""
        return f"{done}{skipped}{verified}{not_kept}"

    def __str__(self) -> str:
        return self.describe()

    def _facts(self) -> Iterator[str]:
        yield count(self.blocks_written, "block")
        yield f"{format_bytes(self._n_bytes_moved)} written in {format_seconds(self.seconds)}"
        if self.blocks_skipped:
            yield f"{self.blocks_skipped:,} were already there"
        if self.verified:
            yield "verified"

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield (
            "written",
            f"{count(self.blocks_written, 'block')}, {format_bytes(self._n_bytes_moved)}",
        )
        if self.blocks_left_out:
            yield "only fill value", f"{count(self.blocks_left_out, 'block')}, not stored"
        if self.blocks_skipped:
            yield "already there", count(self.blocks_skipped, "block")
        speed = format_speed(self._n_bytes_moved, self.seconds)
        yield "time", f"{format_seconds(self.seconds)} ({speed})"
        yield "seeks", f"{self.seeks.read:,} read, {self.seeks.write:,} write"
        yield "array data held", format_bytes(self.held)
        if self.peak_memory is not None:
            yield "process grew by", format_bytes(self.peak_memory)
        if self.n_bytes_scratch:
            yield "scratch files", format_bytes(self.n_bytes_scratch)
        yield "verified", "yes, read back and compared" if self.verified else "no"
        if self.not_kept:
            yield "not kept", ", ".join(self.not_kept).replace("_", " ")

    @property
    def _n_bytes_moved(self) -> int:
        return self.n_bytes_array or self.n_bytes_written - self.n_bytes_scratch

    @classmethod
    def of_nothing(cls, blocks_skipped: int) -> RunResult:
        """Return the result of a run that had nothing to do."""
        return cls(0.0, Seeks(0, 0), 0, 0, 0, 0, 0, 0, blocks_skipped)

    def followed_by(self, other: RunResult) -> RunResult:
        """Return the combined result of two consecutive runs."""
        peaks = (self.peak_memory, other.peak_memory)
        return RunResult(
            seconds=self.seconds + other.seconds,
            seeks=self.seeks + other.seeks,
            n_bytes_read=self.n_bytes_read + other.n_bytes_read,
            n_bytes_written=self.n_bytes_written + other.n_bytes_written,
            openings=self.openings + other.openings,
            peak_memory=None if None in peaks else max(filter(None, peaks), default=0),
            held=max(self.held, other.held),
            blocks_written=self.blocks_written + other.blocks_written,
            blocks_skipped=self.blocks_skipped + other.blocks_skipped,
            verified=other.verified,
            not_kept=other.not_kept,
            n_bytes_scratch=self.n_bytes_scratch + other.n_bytes_scratch,
            n_bytes_array=self.n_bytes_array + other.n_bytes_array,
            blocks_left_out=self.blocks_left_out + other.blocks_left_out,
        )


class Sweep(NamedTuple):
    """A bundle, its source (relative to the bundle's box), and an outlet for each member."""

    bundle: Bundle
    source: Source
    outlets: tuple[Outlet, ...]

    def run(self, workers: int, counter: Counter) -> int:
        """Run the bundle, and return the most bytes of array data that were held."""
        run = _Run(self, workers, counter)
        run.walk_steps()
        return run.room.held.peak


def run_plan(
    plan: Plan,
    source: Source,
    outlet: Outlet,
    *,
    workers: int,
    on_progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Run a plan with at most `workers` threads; see `run_sweeps`."""
    sweep = Sweep(Bundle.of(plan), source, (outlet,))
    return run_sweeps([sweep], workers=workers, on_progress=on_progress)


def run_sweeps(
    sweeps: Sequence[Sweep | Copying],
    *,
    workers: int,
    on_progress: Callable[[Progress], None] | None = None,
    leader: Outlet | None = None,
) -> RunResult:
    """Run bundles with one source, one after another, with at most `workers` threads.

    If there are several outlets, one is the `leader`, whose journal lists all targets. It begins
    first and finishes last, so that its journal knows every target that exists.

    After an error or an interrupt, all existing blocks are complete, and another run can resume
    from the committed cells.
    """
    started, meter = time.perf_counter(), ResidentMeter()
    source, outlets = sweeps[0].source, [outlet for sweep in sweeps for outlet in sweep.outlets]
    targets = [outlet.target for outlet in outlets]
    read_before = replace(source.tally.read)
    written_before = [replace(target.tally.write) for target in targets]
    progress = Counter(outlets, on_progress)
    held = 0
    unfinished = sorted(outlets, key=lambda outlet: outlet is not leader)
    try:
        # Nothing is changed before all targets have been checked.
        for outlet in unfinished:
            outlet.check()
        for outlet in unfinished:
            outlet.begin()
        for sweep in sweeps:
            held = max(held, sweep.run(workers, progress))
        check_sources(outlets)
        while unfinished:
            unfinished[-1].finish()
            unfinished.pop()
    except BaseException:
        # Of targets that are written together, either all can be resumed or none.
        any_done = len(unfinished) < len(outlets) or any(each.has_blocks for each in outlets)
        keep = len(outlets) > 1 and any_done
        for outlet in reversed(unfinished):
            outlet.abandon(keep=keep)
            keep = keep or outlet.is_resumable
        raise
    read = _moved_since(read_before, source.tally.read)
    write = [
        _moved_since(before, target.tally.write)
        for before, target in zip(written_before, targets, strict=True)
    ]
    return RunResult(
        seconds=time.perf_counter() - started,
        seeks=Seeks(read.seeks, sum(each.seeks for each in write)),
        n_bytes_read=read.n_bytes,
        n_bytes_written=sum(each.n_bytes for each in write),
        openings=read.visits + sum(each.visits for each in write),
        peak_memory=meter.growth(),
        held=held,
        blocks_written=progress.n_blocks_written - progress.n_blocks_skipped,
        blocks_skipped=progress.n_blocks_skipped,
        n_bytes_array=progress.n_bytes_written - progress.n_bytes_skipped,
        blocks_left_out=sum(outlet.n_left_out for outlet in outlets),
    )


def _moved_since(before: Traffic, now: Traffic) -> Traffic:
    """Return the traffic of one run; several runs may use a store."""
    return Traffic(
        now.seeks - before.seeks, now.visits - before.visits, now.n_bytes - before.n_bytes
    )


class Counter:
    """Counts what is read for all targets and written to them, and reports progress.

    The callback is called under a lock of its own, so that progress never goes backwards, and a
    slow callback stops nobody from counting. An exception that it raises ends the run.
    """

    def __init__(
        self, outlets: Iterable[Outlet], on_progress: Callable[[Progress], None] | None
    ) -> None:
        self.n_bytes = self.n_blocks = self.n_bytes_written = self.n_blocks_skipped = 0
        for outlet in outlets:
            grid, itemsize = outlet.target.grid, outlet.target.dtype.itemsize
            self.n_bytes += grid.size * itemsize
            self.n_blocks += grid.n_blocks
            if outlet.ledger is not None:
                self.n_bytes_written += outlet.ledger.size * itemsize
                self.n_blocks_skipped += outlet.ledger.n_blocks
        self.n_blocks_written = self.n_blocks_skipped
        self.n_bytes_read = self.n_bytes_skipped = self.n_bytes_written
        self.most_held = 0
        self.held: Account | None = None
        self.on_progress = on_progress
        self.lock, self.reporting = Lock(), Lock()
        self.unreported: deque[Progress] = deque()

    def add_read(self, n_bytes: int) -> None:
        """Count bytes of the targets that are read; the next written cell reports them."""
        with self.lock:
            self.n_bytes_read += n_bytes

    def note_held(self) -> None:
        """Note the array data in memory, just after memory was taken."""
        with self.lock:
            self.most_held = max(self.most_held, self._held)

    def add(self, n_bytes: int, is_block: bool) -> None:  # noqa: FBT001 - few callers
        """Count a written cell, and whether it completed a block."""
        with self.lock:
            self.n_bytes_written += n_bytes
            self.n_blocks_written += is_block
            if self.on_progress is None:
                return
            counts = (self.n_bytes_written, self.n_bytes, self.n_blocks_written, self.n_blocks)
            held, self.most_held = max(self.most_held, self._held), self._held
            self.unreported.append(Progress(*counts, self.n_bytes_read, self.n_bytes_skipped, held))
        with self.reporting:
            self.on_progress(self.unreported.popleft())

    @property
    def _held(self) -> int:
        return 0 if self.held is None else self.held.used


class _StepMember(NamedTuple):
    """A member in one step: the region that it needs, in the box's coordinates, and its cells."""

    member: Member
    region: Region
    origin: tuple[int, ...]
    filling: Filling

    def needs(self, region: Region) -> Region:
        """Return the part of a region that the member needs."""
        found = region & self.region
        if self.member.ledger is None or not found.size:
            return found
        return self.member.needed(found.relative_to(self.origin)).shifted_by(self.origin)

    def place(self, region: Region, values: NDArray[Any]) -> list[tuple[Cell, int]]:
        """Copy values to the member's pieces; return how many elements each cell got."""
        # Most runs have one target that starts where the source does.
        moved = region.relative_to(self.origin) if any(self.origin) else region
        return self.member.place(moved, values, self.filling)


class _NeededPart(NamedTuple):
    """The part of a source block that a member needs, in the box's coordinates."""

    member: _StepMember
    region: Region


def _is_tiny(sweep: Sweep) -> bool:
    """Tell whether a run takes less time than starting threads; requests take longer."""
    bundle = sweep.bundle
    n_bytes = bundle.n_bytes_read + bundle.n_bytes_written
    return n_bytes <= _TINY and bundle.openings <= _FEW_VISITS and _is_local(sweep)


def _is_interpreted(sweep: Sweep) -> bool:
    """Tell whether threads compete for the interpreter more than for the disk or the cores.

    Processes that fill parts of one target compete for the cores, and could choose the same one.
    Functions of the user may take long, and start threads that outlive the run.
    """
    targets = [outlet.target for outlet in sweep.outlets]
    if any(store.calls_functions for store in (sweep.source, *targets)):
        return False
    is_part = any(isinstance(target, TargetView) for target in targets)
    sides = [sweep.bundle.source, *(member.problem.target for member in sweep.bundle.members)]
    is_coded = any(side.is_coded for side in sides)
    is_large = has_large_blocks(sides, sweep.source.dtype.itemsize)
    return not is_part and not is_coded and not is_large and _is_local(sweep)


def _is_local(sweep: Sweep) -> bool:
    places = [sweep.source.place, *(outlet.target.place for outlet in sweep.outlets)]
    return not any(map(is_url, places))


class _Read(NamedTuple):
    """The needed parts of a source block, and what an earlier task has read of it."""

    block: tuple[int, ...]
    parts: list[_NeededPart]
    after: Region | None = None

    @property
    def size(self) -> int:
        """Number of elements, at most."""
        return sum([part.region.size for part in self.parts])


class _Placed:
    """The elements that a task has placed in write cells since these were last told."""

    def __init__(self, most: int, counter: Counter) -> None:
        self._most, self._counter, self._n_elements = most, counter, 0
        self._cells: defaultdict[Member, list[tuple[Cell, int]]] = defaultdict(list)

    def add(self, member: Member, cells: list[tuple[Cell, int]], n_elements: int) -> None:
        """Add elements that were placed, `n_elements` at most; tell the cells if they are many."""
        self._cells[member] += cells
        self._n_elements += n_elements
        if self._n_elements >= self._most:
            self.tell()

    def tell(self) -> None:
        """Count the elements in their cells, and queue complete cells for writing."""
        for member, cells in self._cells.items():
            n_elements = sum([n_elements for _, n_elements in cells])
            self._counter.add_read(n_elements * member.itemsize)
            member.count_placed(cells)
        self._cells.clear()
        self._n_elements = 0


class _Run:
    """The run of one bundle."""

    def __init__(self, sweep: Sweep, workers: int, counter: Counter) -> None:
        self.bundle, self.source = bundle, source = sweep.bundle, sweep.source
        self.counter = counter
        problems = [member.problem for member in bundle.members]
        share = share_staging(bundle.staging_bytes, problems, workers)
        reuse_freed_memory(share.codec_bytes)
        # Codecs allocate their own memory.
        buffers = Buffers(bundle.peak_bytes - share.n_workers * share.codec_bytes)
        self.n_workers = share.n_workers
        stagings = [buffers.lend(share.staging) for _ in range(share.n_workers)]
        held = counter.held = Account(bundle.held_bytes)
        behind = Account(share.behind - share.behind // _SPARE)
        is_tiny = _is_tiny(sweep)
        crew = Alone(stagings[0]) if is_tiny else Crew(stagings, on_stop=held.close)
        self.room = Room(held, behind, buffers, crew)
        # To choose a core takes longer than to move a tiny array, which needs no threads.
        on_one = not is_tiny and _is_interpreted(sweep)
        self.cores = one_core() if on_one else nullcontext()
        self.members = [
            Member(plan, outlet, self.room, counter.add)
            for plan, outlet in zip(bundle.members, sweep.outlets, strict=True)
        ]
        self.moved, itemsize = plain(source.dtype), source.dtype.itemsize
        self.is_atomic = source.access is Access.ATOMIC
        # Decoded blocks are passed on whole, if staging has room. Other reads may fill the staging
        # buffer, unless codecs need part of it.
        self.largest_slab = max(1, (len(stagings[0]) - 2 * ALIGNMENT) // itemsize)
        if not self.is_atomic and any(problem.reused_bytes for problem in problems):
            self.largest_slab = staged(stagings[0], source.dtype)
        self.through = 0 if self.is_atomic else bundle.source.through
        self.largest_share = max(1, _SHARE // itemsize)
        self.together = max(1, _TOGETHER // itemsize)
        is_large = prod(source.grid.longest) > self.largest_share
        # With a single member and no ledger, the member needs the whole cell of each step.
        self.needs_all = len(self.members) == 1 and self.members[0].ledger is None
        self.streams = self.needs_all and bundle.members[0].reads_stream
        # The block and region that were read last: a stream continues there.
        self.read_last: dict[tuple[int, ...], Region] = {}
        self.shares_blocks = not self.is_atomic and (is_large or self.through > 0 or self.streams)

    def walk_steps(self) -> None:
        """Take memory and queue reads for one step after another, until all are done."""
        with self.cores, self.room.crew as crew:
            for step in self.bundle.steps():
                members = self._make_room(step)
                if members is None:
                    break
                for reads in self._tasks(step.cell, members):
                    crew.add(partial(self._read_all, reads))
            crew.finish()

    def _tasks(self, cell: Region, members: list[_StepMember]) -> Iterator[list[_Read]]:
        """Yield the reads of a step: small blocks together, shares of large ones one by one.

        Every thread gets some of them, because a read may wait for a network.
        """
        waiting: list[_Read] = []
        n_elements = 0
        n_each = -(-self.source.grid.clipped(cell).n_blocks // self.n_workers)
        most = min(_MOST_TOGETHER, n_each)
        for index, region in self.source.grid.pieces(cell):
            for read in self._shares(index, self._parts(members, index, region)):
                waiting.append(read)
                n_elements += read.size
                if n_elements >= self.together or len(waiting) >= most:
                    yield waiting
                    waiting, n_elements = [], 0
        if waiting:
            yield waiting

    def _make_room(self, step: SharedStep) -> list[_StepMember] | None:
        """Take memory for the data of a step; None if the run has been stopped."""
        cells = [self.members[part.member].begin(part.step.cell) for part in step.parts]
        if not self.room.held.take(sum(each.n_bytes for each in cells)):
            return None
        self.counter.note_held()
        members = []
        for part, each in zip(step.parts, cells, strict=True):
            member, origin = self.members[part.member], self.bundle.windows[part.member].start
            cell = part.step.cell
            filling = member.make_pieces(each, cell)
            members.append(_StepMember(member, cell.shifted_by(origin), origin, filling))
        return members

    def _parts(
        self, members: list[_StepMember], index: tuple[int, ...], region: Region
    ) -> list[_NeededPart]:
        """Return the parts of a region of a block that members need."""
        if self.needs_all:
            return [_NeededPart(members[0], region)]
        parts = []
        for member in members:
            needed = member.needs(region)
            if needed.size:
                if not self.is_atomic and member.member.ledger is not None:
                    needed = self._with_gaps(index, needed, region & member.region)
                parts.append(_NeededPart(member, needed))
        return parts

    def _with_gaps(self, index: tuple[int, ...], needed: Region, planned: Region) -> Region:
        """Return what to read of a block, of which an earlier run needed the other parts.

        The plan reads all of `planned`. What is needed of it now may be many short runs: they are
        read with the gaps between them, up to what the plan reads, if the seeks cost more.
        """
        block, layout = self.source.grid.block(index), self.source.layout
        n_axes = len(block.shape)

        def extended(n: int) -> Region:
            inside = layout.read_through(needed.relative_to(block.start), block.shape, n)
            return inside.shifted_by(block.start) & planned

        def cost(part: Region) -> int:
            n_runs = layout.count_runs(part.relative_to(block.start), block.shape)
            return n_runs * _SEEK_BYTES + part.size * self.source.dtype.itemsize

        return min((extended(n) for n in range(n_axes + 1)), key=cost)

    def _shares(self, index: tuple[int, ...], parts: list[_NeededPart]) -> Iterable[_Read]:
        """Divide a large part of a block among threads."""
        if len(parts) == 1 and self.shares_blocks:
            return self._cut(index, parts[0])
        return [_Read(index, parts)] if parts else []

    def _cut(self, index: tuple[int, ...], part: _NeededPart) -> Iterator[_Read]:
        after, (member, region) = self.read_last.get(index), part
        if self.through:
            (region,) = self._read_through(index, [part])
        for share in self.source.layout.slabs(region, self.largest_share):
            yield _Read(index, [_NeededPart(member, share)], after)
            after = share
        if self.streams:
            self.read_last = {index: region}

    def _read_all(self, reads: list[_Read], staging: memoryview) -> None:
        """Read parts of source blocks one after another."""
        placed = _Placed(self.together, self.counter)
        for read in reads:
            self._read(read, placed, staging)
        placed.tell()

    def _read(self, read: _Read, placed: _Placed, staging: memoryview) -> None:
        """Read the needed parts of one source block, slab by slab, and place them."""
        index, parts, after = read
        block = self.source.grid.block(index)
        origin = block.start
        before = None if after is None else after.relative_to(origin)
        with self.source.reader(index, after=before) as reader:
            for box in self._boxes(index, parts):
                largest = self._slab_size(box, block)
                slabs = iter((box,))
                if box.size > largest:
                    reader.expect(box.relative_to(origin))
                    slabs = self.source.layout.slabs(box, largest)
                for slab in slabs:
                    values = reader.read_into(slab.relative_to(origin), staging)
                    self._place(slab, values.view(self.moved), parts, placed)

    def _place(
        self, slab: Region, values: NDArray[Any], parts: list[_NeededPart], placed: _Placed
    ) -> None:
        """Pass its part of a slab to each member."""
        if len(parts) == 1 and not self.through:
            each = parts[0].member
            placed.add(each.member, each.place(slab, values), values.size)
            return
        for member, _ in parts:
            # Gaps that are read through may extend beyond the step's cell.
            part = slab & member.region
            if part.size:
                cells = member.place(part, values[part.slices_from(slab.start)])
                placed.add(member.member, cells, part.size)

    def _boxes(self, index: tuple[int, ...], parts: list[_NeededPart]) -> list[Region]:
        """Return the boxes of a block to read, each element once, in reading order."""
        return [parts[0].region] if len(parts) == 1 else self._read_through(index, parts)

    def _read_through(self, index: tuple[int, ...], parts: list[_NeededPart]) -> list[Region]:
        """Return disjoint boxes of a block that contain the parts and the gaps to read through."""
        # Runs are those of the stored block, not of its part within the box.
        side, box = self.bundle.source, self.bundle.box
        first = (axis.index_at(low) for axis, low in zip(side.stored.axes, box.start, strict=True))
        stored = side.stored.block([a + b for a, b in zip(first, index, strict=True)])
        corner = stored.relative_to(box.start).start
        inside = [
            side.layout.read_through(part.region.relative_to(corner), stored.shape, self.through)
            for part in parts
        ]
        boxes = disjoint_boxes(inside, side.layout, stored.shape)
        return [found.shifted_by(corner) for found in boxes]

    def _slab_size(self, region: Region, block: Region) -> int:
        """Return the number of elements to read at once: long runs are read one by one."""
        if self.is_atomic or region == block:
            return self.largest_slab
        shape = block.shape
        if self.through:
            # Gaps that are read through may extend beyond the block's part within the box.
            shape = tuple(map(max, shape, region.shape))
        run = self.source.layout.run_length(region, shape)
        is_long = run * self.source.dtype.itemsize >= _LONG_RUN
        return min(run, self.largest_slab) if is_long else self.largest_slab
