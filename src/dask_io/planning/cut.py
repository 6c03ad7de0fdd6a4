"""Cut a problem into parts that write disjoint boxes of whole target blocks.

Source blocks that extend over a cut are read for both parts. The cost of a cut is counted by
planning each part as a problem of its own. Parts that are equal up to their position have the same
plan, so only one of each kind is planned.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise, product
from math import ceil, prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dask_io.geometry import Axis, Grid, Region
from dask_io.planning.cost import CutCounts, count_cuts, count_openings, count_runs
from dask_io.planning.device import SECONDS_PER_OPENING, predict_seconds
from dask_io.planning.plan import Seeks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from dask_io.planning.device import Device
    from dask_io.planning.problem import Problem
    from dask_io.planning.spill import AnyPlan

PARTS_PER_WORKER = 4
"""How many parts each worker gets, so that all finish at about the same time."""
LONGEST_PART = 300.0
"""Seconds after which a part should be done, so that little work is lost with a worker."""
# Every part opens the source and the target again.
_SECONDS_PER_PART = 0.2
# Parts that are shorter than this, in seconds, are not worth the time to start them.
_SHORTEST_PART = 5.0
MOST_PARTS = 4096
"""The most parts, unless there are more workers: schedulers slow down with more tasks."""
# Kinds of parts that are planned at most; with more kinds, similar ones count as equal.
_MOST_KINDS = 64
# Cuts that are compared by their estimates, and cuts that are compared by planning a part.
_MOST_ESTIMATED, _MOST_COMPARED = 20_000, 4
# Numbers of parts that are compared, if the number is not given.
_MOST_COUNTS = 48


def divide(axis: Axis, n_parts: int) -> Axis:
    """Join the blocks of an axis into a number of parts of about equal length.

    Examples
    --------
    >>> divide(Axis.regular(70, 10), 3).runs, divide(Axis.of([1, 1, 6, 4]), 2).runs
    (((30, 1), (20, 2)), ((8, 1), (4, 1)))
    """
    n_blocks = axis.n_blocks
    assert 0 < n_parts <= n_blocks, "every part needs a block"
    if axis.chunk is not None:
        # Longer parts first: there are few different parts, and the last block may be shorter.
        short, n_long = divmod(n_blocks, n_parts)
        ends = [n * short + min(n, n_long) for n in range(n_parts + 1)]
    else:
        ends = [0]
        for part in range(1, n_parts):
            position = axis.length * part // n_parts
            low, high = axis.floor(position), axis.ceil(position)
            nearest = axis.count_ends(low if position - low <= high - position else high)
            ends.append(min(max(nearest, ends[-1] + 1), n_blocks - (n_parts - part)))
        ends.append(n_blocks)
    starts = [axis.start_of(end) for end in ends]
    return Axis.of(stop - start for start, stop in pairwise(starts))


def cut_problem(problem: Problem, region: Region) -> Problem:
    """Return the problem of one part: a region of whole target blocks.

    If blocks can be copied verbatim, they are the same on both sides, so those of a part can, too.
    """
    source, target = problem.source, problem.target
    window = region.shifted_by(source.window.start) if source.window else region
    return replace(
        problem,
        source=replace(source, window=window),
        target=replace(target, stored=target.grid.clipped(region), window=None),
    )


@dataclass(frozen=True, slots=True)
class PartCost:
    """The predicted cost of one part."""

    seconds: float
    seeks: Seeks
    n_bytes_read: int
    n_bytes_written: int
    memory: int

    @classmethod
    def of(cls, plan: AnyPlan, device: Device) -> PartCost:
        """Return the cost of a plan."""
        return cls(
            predict_seconds(plan, device),
            plan.seeks,
            plan.n_bytes_read,
            plan.n_bytes_written,
            plan.peak_bytes,
        )


@dataclass(frozen=True, slots=True)
class Redundant:
    """What parts read more than one process would, because cuts cross source blocks.

    It is at least 0 on each side: smaller parts may need fewer seeks than one process.
    """

    n_bytes: int
    seeks: int
    is_exact: bool


class _Kinds(NamedTuple):
    """The kinds of parts along one axis: the kind of each part, and the first part of each kind."""

    of_part: tuple[int, ...]
    first: tuple[int, ...]
    n_parts: tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    """An array cut into parts, with their costs; parts are numbered from 0, in C order.

    Attributes
    ----------
    grid
        The parts.
    is_exact
        Whether every kind of part has been planned. Otherwise there are very many kinds, and the
        costs of similar parts are taken as equal.
    """

    grid: Grid
    kinds: tuple[_Kinds, ...]
    costs: dict[tuple[int, ...], PartCost]
    is_exact: bool = True

    @property
    def count(self) -> int:
        """Number of parts."""
        return self.grid.n_blocks

    def region(self, number: int) -> Region:
        """Return the region of a part."""
        return self.grid.block(self._index(number))

    def cost(self, number: int) -> PartCost:
        """Return the cost of a part."""
        index = self._index(number)
        along = zip(self.kinds, index, strict=True)
        return self.costs[tuple(kinds.of_part[each] for kinds, each in along)]

    def _index(self, number: int) -> tuple[int, ...]:
        return tuple(map(int, np.unravel_index(number, self.grid.counts)))

    @cached_property
    def counted(self) -> tuple[tuple[PartCost, int], ...]:
        """The different costs, each with the number of parts that have it."""
        return tuple(
            (cost, prod(axis.n_parts[kind] for axis, kind in zip(self.kinds, found, strict=True)))
            for found, cost in self.costs.items()
        )

    @property
    def seeks(self) -> Seeks:
        """Seeks of all parts."""
        return Seeks(
            sum(cost.seeks.read * n for cost, n in self.counted),
            sum(cost.seeks.write * n for cost, n in self.counted),
        )

    @property
    def n_bytes_read(self) -> int:
        """Bytes that all parts read."""
        return sum(cost.n_bytes_read * n for cost, n in self.counted)

    @property
    def seconds(self) -> float:
        """Predicted seconds of all parts, one after another."""
        return sum(cost.seconds * n for cost, n in self.counted)

    @property
    def longest(self) -> float:
        """Predicted seconds of the longest part."""
        return max((cost.seconds for cost in self.costs.values()), default=0.0)

    @property
    def balance(self) -> float:
        """The average time of a part, as a fraction of the longest: 1 is perfect."""
        return self.seconds / self.count / self.longest if self.longest else 1.0

    @property
    def memory(self) -> int:
        """Peak memory of the part that needs most, in bytes."""
        return max((cost.memory for cost in self.costs.values()), default=0)

    def redundant(self, whole: AnyPlan) -> Redundant:
        """Return what the parts read more than `whole`, the plan of one process."""
        return Redundant(
            max(0, self.n_bytes_read - whole.n_bytes_read),
            max(0, self.seeks.read - whole.seeks.read),
            self.is_exact,
        )

    def predict_seconds(self, workers: int) -> float:
        """Predict the seconds that workers take, if each works on one part at a time."""
        return max(self.longest, self.seconds / max(1, min(workers, self.count)))


class _AxisCut(NamedTuple):
    """One axis cut into a number of parts, and its contribution to the cost."""

    parts: Axis
    cuts: CutCounts
    moved: int
    """Elements that are read if source blocks are read whole along the axis."""
    excess: float
    """Length of the longest part, as a multiple of the average."""


class _Estimates:
    """Estimates of cuts, if each part touches every block that it needs once."""

    def __init__(self, problem: Problem, device: Device) -> None:
        self.problem, self.device = problem, device
        self._known: dict[tuple[int, int], _AxisCut] = {}

    def along(self, axis: int, n_parts: int) -> _AxisCut:
        """Return an axis in parts."""
        found = self._known.get((axis, n_parts))
        if found is None:
            source, target = self.problem.source, self.problem.target.grid.axes[axis]
            parts = divide(target, n_parts)
            cuts = count_cuts(source.grid.axes[axis], parts, source.partial[axis])
            moved = replace(source, atomic=True).count_moved(axis, parts, 0, parts.length)
            excess = parts.longest * n_parts / parts.length
            found = self._known[axis, n_parts] = _AxisCut(parts, cuts, moved, excess)
        return found

    def seconds(self, counts: Sequence[int]) -> float:
        """Estimate the time of the longest part."""
        problem, device = self.problem, self.device
        axes = [self.along(axis, n_parts) for axis, n_parts in enumerate(counts)]
        opening = device.request_latency / device.concurrency + SECONDS_PER_OPENING
        seconds = count_openings([axis.cuts for axis in axes]) * opening
        encoding = problem.n_bytes * problem.target.coding.encode
        writing = problem.n_bytes / device.write_bandwidth
        seconds += min(
            seeks * device.seconds_per_seek
            + max(
                n_bytes / device.read_bandwidth + writing,
                n_bytes * problem.source.coding.decode + encoding,
            )
            for seeks, n_bytes in self._reads(axes)
        )
        return seconds / prod(counts) * prod(axis.excess for axis in axes)

    def _reads(self, axes: Sequence[_AxisCut]) -> Iterator[tuple[int, int]]:
        """Yield the seeks and bytes of every way to read: gaps between runs may be read through."""
        problem, cuts = self.problem, [axis.cuts for axis in axes]
        source, shape = problem.source, problem.shape
        if source.atomic:
            n_bytes = prod(axis.moved for axis in axes) * problem.source_itemsize
            yield count_openings(cuts), n_bytes
            return
        for through in range(max(1, len(shape))):
            whole = source.layout.axes[len(shape) - through :]
            lengths = (cut.moved if axis in whole else shape[axis] for axis, cut in enumerate(axes))
            seeks = count_runs(source.layout, shape, cuts, through)
            yield seeks, prod(lengths) * problem.source_itemsize

    def grid(self, counts: Sequence[int]) -> Grid:
        """Return the parts."""
        return Grid(tuple(self.along(axis, n).parts for axis, n in enumerate(counts)))


def choose_counts(seconds: float, n_blocks: int, workers: int) -> range:
    """Return numbers of parts that suit a run of so many seconds with one worker.

    Each worker gets several parts. A part takes some seconds at least and some minutes at most, as
    far as there are target blocks, and not too many parts for a scheduler.

    Examples
    --------
    >>> choose_counts(seconds=7200, n_blocks=10**6, workers=8)[0]
    32
    >>> choose_counts(seconds=10**8, n_blocks=10**6, workers=8)[0]
    4096
    >>> choose_counts(seconds=60, n_blocks=5, workers=8)[0]
    5
    """
    most = max(MOST_PARTS, workers)
    worthwhile = max(workers, int(seconds / _SHORTEST_PART))
    wanted = max(min(PARTS_PER_WORKER * workers, worthwhile), ceil(seconds / LONGEST_PART))
    first = max(1, min(wanted, most, n_blocks))
    return range(first, max(first + 1, min(first + _MOST_COUNTS, most + 1, n_blocks + 1)))


def plan_cut(
    problem: Problem,
    counts: Iterable[int],
    device: Device,
    plan: Callable[[Region], AnyPlan],
    *,
    workers: int | None = None,
) -> Cut:
    """Cut a problem into parts so that workers are done as soon as possible.

    Parameters
    ----------
    problem
        The whole problem.
    counts
        The possible numbers of parts. If the target's blocks cannot be divided into any of them,
        there are fewer parts.
    device
        The device for which time is predicted.
    plan
        Plans one part, given its region.
    workers
        Number of workers; by default as many as parts.
    """
    if not problem.target.grid.n_blocks:
        return _plan_kinds(_begin_cut(problem, problem.target.grid), device, plan)
    best = best_grids(problem, counts, device, workers=workers)
    cuts = [_begin_cut(problem, grid) for grid in islice(best, _MOST_COMPARED)]
    chosen = cuts[0]
    if len(cuts) > 1:
        # Estimates do not know how much memory a part needs.
        def seconds(cut: Cut) -> float:
            longest = predict_seconds(plan(_largest(cut)), device)
            return _predict_rounds(longest, cut.grid, workers)

        chosen = min(cuts, key=seconds)
    return _plan_kinds(chosen, device, plan)


def best_grids(
    problem: Problem, counts: Iterable[int], device: Device, *, workers: int | None = None
) -> Iterator[Grid]:
    """Yield possible parts, in the order of their estimated time; see `plan_cut`."""
    estimates, numbers = _Estimates(problem, device), list(counts)
    blocks = problem.target.grid.counts
    if not any(_can_split(count, blocks) for count in numbers):
        numbers = [largest_count(problem.target.grid, numbers[0])]
    found = [each for count in numbers for each in islice(_splits(count, blocks), _MOST_ESTIMATED)]

    def seconds(split: Sequence[int]) -> float:
        return _predict_rounds(estimates.seconds(split), estimates.grid(split), workers)

    return map(estimates.grid, sorted(found, key=seconds))


def _predict_rounds(longest: float, parts: Grid, workers: int | None) -> float:
    """Predict the time of a worker that has the longest part and, in other rounds, average ones."""
    rounds = 1 if workers is None else ceil(parts.n_blocks / workers)
    excess = prod(axis.longest * axis.n_blocks / axis.length for axis in parts.axes)
    return longest * (1 + (rounds - 1) / excess) + rounds * _SECONDS_PER_PART


def largest_count(blocks: Grid, most: int) -> int:
    """Return the largest possible number of parts up to a limit: 0 if there are no blocks.

    Examples
    --------
    >>> grid = Grid.regular((60, 60), (30, 30))
    >>> [largest_count(grid, most) for most in (1, 2, 3, 100)]
    [1, 2, 2, 4]
    """
    numbers = range(min(most, blocks.n_blocks), 0, -1)
    return next((count for count in numbers if _can_split(count, blocks.counts)), 0)


def cost_cut(
    problem: Problem, grid: Grid, device: Device, plan: Callable[[Region], AnyPlan]
) -> Cut:
    """Return the costs of given parts, as `plan_cut` does."""
    return _plan_kinds(_begin_cut(problem, grid), device, plan)


def _plan_kinds(cut: Cut, device: Device, plan: Callable[[Region], AnyPlan]) -> Cut:
    costs = {
        kind: PartCost.of(plan(cut.grid.block(index)), device)
        for kind, index in _representatives(cut.kinds)
    }
    return replace(cut, costs=costs)


def _can_split(count: int, blocks: Sequence[int]) -> bool:
    return next(_splits(count, blocks), None) is not None


def _splits(count: int, blocks: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of parts along each axis whose product is `count`."""
    if not blocks:
        if count == 1:
            yield ()
        return
    rest = prod(blocks[1:])
    for first in _divisors(count):
        if first <= blocks[0] and count // first <= rest:
            for others in _splits(count // first, blocks[1:]):
                yield (first, *others)


def _divisors(number: int) -> list[int]:
    low = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*low, *(number // n for n in low)})


def _largest(cut: Cut) -> Region:
    """Return the region of a part that is longest along every axis."""
    lengths = [list(axis.lengths()) for axis in cut.grid.axes]
    return cut.grid.block([along.index(max(along)) for along in lengths])


def _begin_cut(problem: Problem, grid: Grid) -> Cut:
    """Find the kinds of parts; if there are too many, parts that are similar are of one kind."""
    for n_words in (3, 2, 1, 0):
        kinds = tuple(
            _find_kinds(problem, axis, parts, n_words) for axis, parts in enumerate(grid.axes)
        )
        if prod(len(each.first) for each in kinds) <= _MOST_KINDS:
            return Cut(grid, kinds, {}, n_words == 3)  # noqa: PLR2004 - all words
    raise AssertionError("without words, there is one kind")


def _find_kinds(problem: Problem, axis: int, parts: Axis, n_words: int) -> _Kinds:
    """Group the parts along an axis by the first words that describe them.

    The words are the target's blocks, the number of the source's blocks, and these in detail.
    Without words, all parts count as the longest one.
    """
    source, target = problem.source, problem.target.grid.axes[axis]
    stored = source.stored.axes[axis]
    origin = source.window.start[axis] if source.window else 0

    def words(low: int, high: int) -> Hashable:
        first, last = origin + low, origin + high
        touched = stored.clipped(first, last)
        beyond = (first - stored.floor(first), stored.ceil(last) - last)
        found = (target.clipped(low, high).runs, touched.n_blocks, (touched.runs, beyond))
        return found[:n_words]

    if not n_words:
        longest = max(range(parts.n_blocks), key=lambda part: parts.length_at(parts.start_of(part)))
        return _Kinds((0,) * parts.n_blocks, (longest,), (parts.n_blocks,))
    number: dict[Hashable, int] = {}
    of_part, first_of, low = [], [], 0
    for part, length in enumerate(parts.lengths()):
        kind = words(low, low + length)
        if kind not in number:
            number[kind] = len(number)
            first_of.append(part)
        of_part.append(number[kind])
        low += length
    counted = Counter(of_part)
    return _Kinds(
        tuple(of_part), tuple(first_of), tuple(counted[kind] for kind in range(len(number)))
    )


def _representatives(
    kinds: Sequence[_Kinds],
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield every combination of kinds, with the index of a part that is of these kinds."""
    for found in product(*(range(len(axis.first)) for axis in kinds)):
        yield found, tuple(axis.first[kind] for axis, kind in zip(kinds, found, strict=True))
