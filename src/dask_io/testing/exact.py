"""The least memory in which every block can be touched once, over all orders of source blocks.

`plan_sweep` follows a grid, axis by axis. Here source blocks may be read in any order, one whole
block per step, and a target block is written as soon as it is complete. Reading several blocks in
one step never takes less memory than reading them one after another. The least peak over all
orders is therefore a lower bound for every plan that moves whole blocks. (A plan that streams
moves a part of a block per step, and may need less.)

The memory in use depends only on the set of blocks that have been read. An order is a path through
these sets, and its peak is the largest value along the path. A best-first search finds the path
with the least peak. Time grows with the number of sets, so only tiny grids can be solved.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import product
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.geometry import Axis
    from dask_io.planning import Problem, Side


class TooManyStatesError(Exception):
    """The grid is too large to be solved exactly."""


def least_held(problem: Problem, *, most_states: int = 200_000) -> int:
    """Return the least number of bytes with which some order touches each block once.

    Raises
    ------
    TooManyStatesError
        If the search would visit more than `most_states` sets of blocks.

    Examples
    --------
    >>> from dask_io.planning import Problem
    >>> least_held(Problem.regular((20, 20), (5, 5), (7, 7), budget=1))
    102
    """
    blocks = _Blocks.of(problem)
    everything = (1 << len(blocks.sizes)) - 1
    # Ordered by the peak so far. Of equal ones, the set with the most blocks comes first.
    waiting = [(0, 0, 0)]
    least = {0: 0}
    while waiting:
        peak, _, done = heappop(waiting)
        if done == everything:
            return peak * problem.itemsize
        if len(least) > most_states:
            raise TooManyStatesError
        if peak > least[done]:
            continue
        for more, peak_after in blocks.steps(done, peak):
            if peak_after < least.get(more, peak_after + 1):
                least[more] = peak_after
                heappush(waiting, (peak_after, -more.bit_count(), more))
    raise AssertionError


def held_at_least(problem: Problem) -> int:
    """Return a lower bound of `least_held` that is fast to compute.

    When the first target block is complete, all source blocks that overlap it have been read and
    nothing has been written. Likewise, when the last source block has been read, no target block
    that overlaps it has been written. In both cases these blocks form a box, so the smallest box
    is the product of the smallest lengths along each axis.

    Examples
    --------
    >>> from dask_io.planning import Problem
    >>> held_at_least(Problem.regular((6, 6), (2, 2), (3, 3), budget=100))
    16
    """
    source, target = problem.source.grid.axes, problem.target.grid.axes
    first = prod(map(_shortest_aggregate, source, target))
    last = prod(map(_shortest_aggregate, target, source))
    return max(first, last) * problem.itemsize


def _shortest_aggregate(blocks: Axis, around: Axis) -> int:
    """Return the least length of consecutive whole blocks that cover a block of the other axis."""
    stop, shortest = 0, blocks.length
    for length in around.lengths():
        start, stop = stop, stop + length
        shortest = min(shortest, blocks.ceil(stop) - blocks.floor(start))
    return shortest


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Source blocks by number; a set of blocks is an integer with one bit per block.

    Attributes
    ----------
    sizes
        Number of elements of each source block.
    needs
        For each target block, the set of source blocks it needs and its number of elements.
    feeds
        For each source block, the target blocks that need it.
    """

    sizes: tuple[int, ...]
    needs: tuple[tuple[int, int], ...]
    feeds: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, problem: Problem) -> _Blocks:
        sources, targets = list(_boxes(problem.source)), list(_boxes(problem.target))
        overlap = [
            [number for number, source in enumerate(sources) if _overlaps(source, target)]
            for target in targets
        ]
        return cls(
            tuple(map(_size, sources)),
            tuple(
                (sum(1 << number for number in numbers), _size(target))
                for numbers, target in zip(overlap, targets, strict=True)
            ),
            tuple(
                tuple(index for index, numbers in enumerate(overlap) if number in numbers)
                for number in range(len(sources))
            ),
        )

    def steps(self, done: int, peak: int) -> Iterator[tuple[int, int]]:
        """Yield the sets with one more block, each with its peak.

        If reading a block neither exceeds the peak so far nor increases the memory in use
        afterwards, it is always best to read it first, and only that set is yielded.
        """
        held = self._held(done)
        left = [number for number in range(len(self.sizes)) if not done >> number & 1]
        for number in left:
            if held + self.sizes[number] <= peak and self._grows(done, number) <= 0:
                yield done | 1 << number, peak
                return
        for number in left:
            yield done | 1 << number, max(peak, held + self.sizes[number])

    def _held(self, done: int) -> int:
        read = sum(size for number, size in enumerate(self.sizes) if done >> number & 1)
        return read - sum(size for need, size in self.needs if need & ~done == 0)

    def _grows(self, done: int, number: int) -> int:
        """Return by how much the memory in use grows when a block is read."""
        after = done | 1 << number
        completed = (self.needs[index] for index in self.feeds[number])
        return self.sizes[number] - sum(size for need, size in completed if need & ~after == 0)


Box = tuple[tuple[int, int], ...]


def _boxes(side: Side) -> Iterator[Box]:
    """Yield the blocks of a side, last axis fastest."""
    axes = side.grid.axes
    return product(
        *([(axis.start_of(i), axis.start_of(i + 1)) for i in range(axis.n_blocks)] for axis in axes)
    )


def _overlaps(one: Box, other: Box) -> bool:
    pairs = zip(one, other, strict=True)
    return all(low < stop and start < high for (low, high), (start, stop) in pairs)


def _size(box: Box) -> int:
    return prod(high - low for low, high in box)
