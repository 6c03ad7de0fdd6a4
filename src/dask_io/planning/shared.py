"""Exact costs of plans that share one sweep: what they read and hold together."""

from __future__ import annotations

from collections import Counter
from functools import cache, lru_cache
from itertools import chain, pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.geometry import Axis, Region, cut_axis, orbits
from dask_io.geometry.union import count_boxes_runs, disjoint_boxes
from dask_io.planning.reads import Hold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dask_io.planning.plan import Plan
    from dask_io.planning.problem import Side


class SharedReads(NamedTuple):
    """The cost of reading the union of several windows."""

    runs: int = 0
    visits: int = 0
    n_elements: int = 0

    def times(self, n: int) -> SharedReads:
        """Return the cost of doing this `n` times."""
        return SharedReads(self.runs * n, self.visits * n, self.n_elements * n)

    def plus(self, other: SharedReads) -> SharedReads:
        """Return the cost of both."""
        return SharedReads(*map(sum, zip(self, other, strict=True)))


# Along one axis, the part of a block that one step reads: the length of the block, and for every
# window that overlaps the part its number, start and stop within the block.
_Kind = tuple[int, tuple[tuple[int, int, int], ...]]


def count_shared_reads(side: Side, ends: Sequence[Axis], windows: Sequence[Region]) -> SharedReads:
    """Count the reads of a side's blocks for several windows, each block once in each step.

    Equivalent parts of blocks are counted together, so the work grows with the number of windows,
    not of blocks.

    Parameters
    ----------
    side
        The blocks within the bounding box of all windows.
    ends
        The read cells along each axis of the box.
    windows
        The windows, relative to the box.

    Examples
    --------
    >>> from dask_io.geometry import Axis, Grid, Layout
    >>> from dask_io.planning import Side
    >>> side = Side(Grid.regular((10, 10), (5, 10)), Layout.c(2))
    >>> windows = [Region((0, 0), (4, 10)), Region((2, 5), (7, 10))]
    >>> count_shared_reads(side, side.grid.axes, windows)
    SharedReads(runs=4, visits=2, n_elements=55)
    """
    needed = {(window.start, window.stop) for window in windows if window.size}
    return _count_reads(side, tuple(ends), tuple(sorted(needed)))


# A search tries many bundles with the same reads.
@lru_cache(maxsize=256)
def _count_reads(
    side: Side,
    ends: tuple[Axis, ...],
    windows: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...],
) -> SharedReads:
    regions = [Region(*bounds) for bounds in windows]
    layout = side.layout
    parts = [
        _list_parts(side, ends[axis], axis, [region.bounds[axis] for region in regions])
        for axis in range(len(ends))
    ]

    @cache
    def kinds(axis: int, alive: tuple[int, ...]) -> dict[_Kind, int]:
        bounds = [(number, *regions[number].bounds[axis]) for number in alive]
        found: Counter[_Kind] = Counter()
        for n_parts, length, corner, low, high in parts[axis]:
            spans = tuple(
                (number, max(low, first) - corner, min(high, last) - corner)
                for number, first, last in bounds
                if max(low, first) < min(high, last)
            )
            if spans:
                found[length, spans] += n_parts
        return found

    @cache
    def count_visit(shape: tuple[int, ...], boxes: frozenset[Region]) -> SharedReads:
        if side.atomic:
            return SharedReads(1, 1, prod(shape))
        read = [layout.read_through(box, shape, side.through) for box in boxes]
        disjoint = disjoint_boxes(read, layout, shape)
        runs = count_boxes_runs(disjoint, layout, shape)
        return SharedReads(runs, 1, sum(box.size for box in disjoint))

    def count(chosen: tuple[_Kind, ...], alive: tuple[int, ...]) -> SharedReads:
        axis = len(chosen)
        if axis == len(ends):
            spans = [{number: (low, high) for number, low, high in kind} for _, kind in chosen]
            boxes = frozenset(Region.of(each[number] for each in spans) for number in alive)
            return count_visit(tuple(length for length, _ in chosen), boxes)
        total = SharedReads()
        for kind, n in kinds(axis, alive).items():
            still = tuple(number for number, _, _ in kind[1])
            total = total.plus(count((*chosen, kind), still).times(n))
        return total

    return count((), tuple(range(len(regions))))


def _list_parts(
    side: Side, ends: Axis, axis: int, windows: Sequence[tuple[int, int]]
) -> list[tuple[int, int, int, int, int]]:
    """List the kinds of parts of blocks that steps read.

    Parts of a kind have the same windows at the same relative positions. Each kind has the number
    of its parts and, for one of them, the length and start of the block, and the part's bounds.
    """
    if not ends.length:
        return []
    stored, blocks = side.stored.axes[axis], side.grid.axes[axis]
    origin = side.window.start[axis] if side.window else 0
    bounds = sorted({0, ends.length, *chain.from_iterable(windows)})
    limits = Axis.of(high - low for low, high in pairwise(bounds))
    parts = cut_axis(ends, blocks)
    kinds = orbits(parts, blocks, limits)
    found = []
    for index, n_parts in zip(kinds.first.tolist(), kinds.count.tolist(), strict=True):
        low, high = parts.start_of(index), parts.start_of(index + 1)
        corner = stored.floor(origin + low) - origin
        found.append((n_parts, stored.length_at(origin + low), corner, low, high))
    return found


class SharedHeld(NamedTuple):
    """The most elements that several plans hold together, and the number of steps of the sweep."""

    peak: int
    n_steps: int


def most_held_together(
    members: Sequence[Plan], ends: Sequence[Axis], origins: Sequence[tuple[int, ...]]
) -> SharedHeld:
    """Walk the steps of one sweep and return the most elements that its members hold at once.

    In a step, the members involved hold their cell and the data that they carried before. The
    other members hold the data that they carry.
    """
    walks = [_walk(*pair, ends) for pair in zip(members, origins, strict=True)]
    steps = np.unique(np.concatenate([walk.steps for walk in walks]))
    held = np.zeros(len(steps), np.int64)
    for walk in walks:
        if not len(walk.steps):
            continue
        last = np.searchsorted(walk.steps, steps, side="right") - 1
        begun = np.maximum(last, 0)
        now = np.where(walk.steps[begun] == steps, walk.peak[begun], walk.carried[begun])
        held += np.where(last < 0, 0, now)
    return SharedHeld(int(held.max(initial=0)), len(steps))


class _Walk(NamedTuple):
    """A member's steps, numbered in the common sweep, and the elements that it holds in each."""

    steps: NDArray[Any]
    peak: NDArray[Any]
    carried: NDArray[Any]


def _walk(plan: Plan, origin: tuple[int, ...], ends: Sequence[Axis]) -> _Walk:
    """List the elements that a plan holds in each step: the V of docs/explanation/plans.md."""
    order, shape = plan.order, plan.problem.shape
    steps: Any = 0
    before: Any = 0
    adds: Any = 1
    completes: Any = 1
    for depth, axis in enumerate(order):
        own, along = plan.axes[axis], [1] * len(order)
        along[depth] = -1
        n_inside = prod(ends[other].n_blocks for other in order[depth + 1 :])
        first = ends[axis].index_at(origin[axis]) if shape[axis] else 0
        steps = steps + n_inside * (first + np.arange(own.ends.n_blocks)).reshape(along)
        bounds = own.ends.starts_of(own.ends.indices(0, own.ends.n_blocks + 1))
        completed = np.maximum(own.target.floors(bounds), own.flushes.floors(bounds))
        if plan.hold is Hold.BLOCKS:
            bounds = np.minimum(own.target.ceils(bounds), own.flushes.ceils(bounds))
        size = prod(shape[other] for other in order[depth + 1 :])
        held, done = (ends.reshape(along) for ends in (bounds[:-1], completed[:-1]))
        before = before + size * (adds * held - completes * done)
        adds = adds * np.diff(bounds).reshape(along)
        completes = completes * np.diff(completed).reshape(along)
    peak = before + adds
    carried = peak - completes
    return _Walk(steps.ravel(), peak.ravel(), carried.ravel())
