"""Candidates for the read ends along one axis, each with its costs along this axis."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from dask_io.geometry import Axis
from dask_io.planning.cost import AxisCells, CutCounts, count_cuts
from dask_io.planning.envelope import upper_hull
from dask_io.planning.reads import AxisPlan, Hold, ReadRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dask_io.planning.sweep.segments import AxisPair, Segment

# Read cells with more runs than this are not considered.
_MOST_RUNS = 4096


@dataclass(frozen=True, slots=True)
class Choice:
    """Read ends along one axis, and their effect on memory and seeks.

    Attributes
    ----------
    reads
        The read cells and their marks, in reading order.
    cells
        The memory needs of the read cells.
    read_cuts, write_cuts
        The cuts of source blocks and of target blocks.
    backwards
        Whether reading starts at the end of the axis.
    n_cells
        Number of read cells.
    """

    reads: tuple[ReadRun, ...]
    cells: AxisCells
    read_cuts: CutCounts
    write_cuts: CutCounts
    backwards: bool = False
    n_cells: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_cells", sum(run.n_cells for run in self.reads))

    @property
    def longest(self) -> int:
        """Length of the longest read cell."""
        return max(run.length for run in self.reads)

    @property
    def array_reads(self) -> tuple[ReadRun, ...]:
        """The read cells in array order."""
        return self.reads[::-1] if self.backwards else self.reads

    @property
    def cuts(self) -> tuple[CutCounts, CutCounts]:
        """The cuts of source blocks and of target blocks."""
        return self.read_cuts, self.write_cuts


def choice_of(pair: AxisPair, reads: tuple[ReadRun, ...]) -> Choice:
    """Compute the costs of arbitrary read cells with the closed forms of a plan."""
    plan = AxisPlan(pair.target, reads)
    return Choice(
        reads,
        plan.memory(Hold.PIECES),
        count_cuts(pair.source, plan.ends, pair.source_partial),
        count_cuts(pair.target, plan.flushes, pair.target_partial),
        pair.backwards,
    )


def in_blocks(pair: AxisPair, choice: Choice) -> Choice:
    """Return the same read ends, with the memory for write cells held in blocks."""
    return replace(choice, cells=AxisPlan(pair.target, choice.reads).memory(Hold.BLOCKS))


def choice_by_segments(
    pair: AxisPair,
    segments: Sequence[Segment],
    reads_of: Callable[[Segment], Iterable[ReadRun]],
) -> Choice | None:
    """Compute the costs of read cells that are the same in equal segments.

    The result is that of `choice_of`, in a time that does not depend on the number of repetitions.
    It is None if the read cells have too many runs.
    """
    parts = [(segment, tuple(reads_of(segment))) for segment in segments]
    reads = _join(parts)
    if reads is None:
        return None
    kinds: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for segment, local in parts:
        for adds, start, done in _cells(segment, local):
            kinds.setdefault(adds, []).extend(
                (offset + start, offset + done) for offset in {segment.start, segment.last_start}
            )
    cells = tuple((adds, upper_hull(before)) for adds, before in kinds.items())
    return Choice(
        reads,
        AxisCells(pair.source.length, cells),
        _count_pieces([_Pieces.of_source(*part) for part in parts], pair.source_partial),
        _count_pieces([_Pieces.of_target(*part) for part in parts], pair.target_partial),
        pair.backwards,
    )


def _join(parts: Iterable[tuple[Segment, tuple[ReadRun, ...]]]) -> tuple[ReadRun, ...] | None:
    """Concatenate the reads of all segments; None if there are too many runs."""
    joined: list[ReadRun] = []
    for segment, reads in parts:
        runs, times = reads, segment.count
        # The last end is a boundary of both sides, so keep and flush are equivalent there.
        marks = {run.keep for run in reads[:-1]} or {reads[-1].keep}
        if len({run.length for run in reads}) == len(marks) == 1:
            n_cells = sum(run.n_cells for run in reads) * times
            runs, times = (ReadRun(reads[0].length, n_cells, marks.pop()),), 1
        if len(runs) * times + len(joined) > _MOST_RUNS:
            return None
        for run in runs * times:
            if joined and joined[-1].length == run.length and joined[-1].keep == run.keep:
                joined[-1] = ReadRun(run.length, joined[-1].n_cells + run.n_cells, run.keep)
            else:
                joined.append(run)
    return tuple(joined)


def _cells(
    segment: Segment, reads: tuple[ReadRun, ...]
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Yield for cells ``(added, completed)``, the start, and the completed position before."""
    start = done = 0
    for length, n_cells, keep in reads:
        if keep:
            for _ in range(n_cells):
                done_stop = max(done, segment.target_floor(start + length))
                yield (length, done_stop - done), start, done
                start, done = start + length, done_stop
            continue
        yield (length, start + length - done), start, done
        if n_cells > 1:
            # If nothing is carried, the first and the last cell are sufficient.
            for at in (start + length, start + (n_cells - 1) * length):
                yield (length, length), at, at
        start = done = start + n_cells * length


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The cuts of one side's blocks in equal segments: cuts by block number."""

    n_segments: int
    n_blocks: int
    cuts: Counter[int]

    @classmethod
    def of_source(cls, segment: Segment, reads: tuple[ReadRun, ...]) -> _Pieces:
        return cls.of(segment, segment.source, reads)

    @classmethod
    def of_target(cls, segment: Segment, reads: tuple[ReadRun, ...]) -> _Pieces:
        return cls.of(segment, segment.target, reads, only_flushed=True)

    @classmethod
    def of(
        cls,
        segment: Segment,
        inside: tuple[int, ...],
        reads: tuple[ReadRun, ...],
        *,
        only_flushed: bool = False,
    ) -> _Pieces:
        bounds, start = (0, *inside, segment.length), 0
        cuts: Counter[int] = Counter()
        for run in reads:
            if not (only_flushed and run.keep):
                for block, n_ends in _ends_by_block(bounds, start, run):
                    cuts[block] += n_ends
            start += run.length * run.n_cells
        return cls(segment.count, len(inside) + 1, cuts)


def _ends_by_block(bounds: tuple[int, ...], start: int, run: ReadRun) -> Iterator[tuple[int, int]]:
    """Yield the number of each block in which reads from `start` on end, and how many end."""
    position, left = start + run.length, run.n_cells
    while left:
        block = bisect_right(bounds, position)
        if bounds[block - 1] == position:
            n_ends = 1
        else:
            n_ends = min(left, (bounds[block] - 1 - position) // run.length + 1)
            yield block, n_ends
        position += n_ends * run.length
        left -= n_ends


def _count_pieces(parts: list[_Pieces], partial: tuple[bool, bool]) -> CutCounts:
    """Sum over segments; a first or last block that is part of a larger one counts as cut."""
    n_blocks = sum(part.n_segments * part.n_blocks for part in parts)
    n_cut = sum(part.n_segments * len(part.cuts) for part in parts)
    n_cuts = sum(part.n_segments * part.cuts.total() for part in parts)
    first, last = parts[0], parts[-1]
    if partial[0] and 1 not in first.cuts:
        n_cut += 1
    if partial[1] and last.n_blocks not in last.cuts and not (partial[0] and n_blocks == 1):
        n_cut += 1
    return CutCounts(n_blocks - n_cut, n_cut + n_cuts)


def read_between(ends: Sequence[int], *, keep: bool) -> list[ReadRun]:
    """Return reads between consecutive positions, all with the same mark."""
    return [ReadRun(high - low, 1, keep) for low, high in pairwise(ends)]


def divide(length: int, n_parts: int, *, keep: bool) -> list[ReadRun]:
    """Divide a range into at most `n_parts` equal, flushed reads; `keep` marks the last read.

    Examples
    --------
    >>> divide(10, 3, keep=True)
    [ReadRun(length=4, n_cells=2, keep=False), ReadRun(length=2, n_cells=1, keep=True)]
    """
    size = -(-length // n_parts)
    n_whole = (length - 1) // size
    whole = [ReadRun(size, n_whole, keep=False)] if n_whole else []
    return [*whole, ReadRun(length - n_whole * size, 1, keep)]


def read_source_blocks(pair: AxisPair, n_blocks: int, *, keep: bool) -> Choice:
    """Read `n_blocks` source blocks at a time, from the start of the axis."""
    reads = []
    for length, count in pair.source.runs:
        whole, rest = divmod(count, n_blocks)
        parts = ((length * n_blocks, whole), (length * rest, 1))
        reads += [ReadRun(size, n, keep) for size, n in parts if size * n]
    return choice_of(pair, tuple(reads))


def read_target_blocks(pair: AxisPair) -> Choice:
    """Read the range of one target block at a time."""
    return choice_of(pair, tuple(ReadRun(*run, keep=True) for run in pair.target.runs))


def read_whole(pair: AxisPair) -> Choice:
    """Read the whole axis at once."""
    return choice_of(pair, (ReadRun(pair.source.length, 1, keep=True),))


def read_elements(pair: AxisPair) -> Choice:
    """Read every element separately and flush it; these are the finest possible ends."""
    length = pair.source.length
    every = Axis(((1, length),))
    return Choice(
        (ReadRun(1, length, keep=False),),
        AxisCells(length, (((1, 1), tuple(sorted({(0, 0), (length - 1, length - 1)}))),)),
        count_cuts(pair.source, every, pair.source_partial),
        count_cuts(pair.target, every, pair.target_partial),
        pair.backwards,
    )
