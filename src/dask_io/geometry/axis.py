"""One axis of a grid: the boundaries of blocks along one dimension of an array."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

# Longer axes use Python integers instead of 64-bit integers.
_LARGEST_INT64 = 2**62

# With at most this many runs, a loop over them is faster than a binary search.
_FEW_RUNS = 8


@dataclass(frozen=True)
class Axis:
    """The blocks along one dimension, as a run-length list of ``(length, count)``.

    A regular axis of a billion blocks is one or two runs, so no cost here grows with the number
    of blocks. Blocks are numbered from 0. Positions count elements. Both ends of the axis are
    boundaries. An axis of length 0 has no blocks.

    Examples
    --------
    >>> axis = Axis.regular(10, 4)
    >>> axis.runs, axis.length, axis.n_blocks
    (((4, 2), (2, 1)), 10, 3)
    >>> axis.floor(9), axis.ceil(9), axis.index_at(9)
    (8, 10, 2)
    """

    runs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        merged: list[tuple[int, int]] = []
        for length, count in self.runs:
            if length < 1 or count < 1:
                message = f"a run of blocks needs a positive length and count: {(length, count)}"
                raise ValueError(message)
            if merged and merged[-1][0] == length:
                merged[-1] = (length, merged[-1][1] + count)
            else:
                merged.append((int(length), int(count)))
        object.__setattr__(self, "runs", tuple(merged))

    @classmethod
    def regular(cls, length: int, chunk: int) -> Axis:
        """Divide `length` elements into blocks of `chunk` elements; the last may be shorter."""
        whole, rest = divmod(length, chunk)
        return cls(tuple((size, n) for size, n in ((chunk, whole), (rest, 1)) if size * n))

    @classmethod
    def of(cls, lengths: Iterable[int]) -> Axis:
        """Return an axis whose blocks have these lengths, in order."""
        return cls(tuple((length, sum(1 for _ in same)) for length, same in groupby(lengths)))

    @cached_property
    def run_ends(self) -> tuple[int, ...]:
        """Boundaries of the runs: 0, every position where the block length changes, the end."""
        ends = [0]
        for length, count in self.runs:
            ends.append(ends[-1] + length * count)
        return tuple(ends)

    @cached_property
    def _run_indices(self) -> tuple[int, ...]:
        """Index of the first block of each run, followed by the number of blocks."""
        indices = [0]
        for _, count in self.runs:
            indices.append(indices[-1] + count)
        return tuple(indices)

    @property
    def length(self) -> int:
        """Number of elements."""
        return self.run_ends[-1]

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self._run_indices[-1]

    @property
    def longest(self) -> int:
        """Length of the longest block; 0 if there are no blocks."""
        return max((length for length, _ in self.runs), default=0)

    @property
    def chunk(self) -> int | None:
        """Block length of a regular axis, None if the axis is irregular.

        Examples
        --------
        >>> Axis.regular(10, 4).chunk, Axis.of([3, 4, 3]).chunk
        (4, None)
        """
        match self.runs:
            case []:
                return 1
            case [(length, _)]:
                return length
            case [(length, _), (rest, 1)] if rest < length:
                return length
        return None

    def length_at(self, position: int) -> int:
        """Return the length of the block that contains `position`."""
        return self.runs[bisect_right(self.run_ends, position) - 1][0]

    def lengths(self) -> Iterator[int]:
        """Yield the length of every block, lazily."""
        for length, count in self.runs:
            yield from repeat(length, count)

    def start_of(self, index: int) -> int:
        """Return the position at which block `index` starts; ``n_blocks`` gives the end."""
        run = min(bisect_right(self._run_indices, index) - 1, len(self.runs) - 1)
        if run < 0:
            return 0
        return self.run_ends[run] + (index - self._run_indices[run]) * self.runs[run][0]

    def bounds_of(self, index: int) -> tuple[int, int]:
        """Return the positions at which block `index` starts and ends.

        Examples
        --------
        >>> [Axis.regular(10, 4).bounds_of(index) for index in (0, 2)]
        [(0, 4), (8, 10)]
        """
        run = bisect_right(self._run_indices, index) - 1
        length = self.runs[run][0]
        start = self.run_ends[run] + (index - self._run_indices[run]) * length
        return start, start + length

    def count_ends(self, position: int) -> int:
        """Count the blocks that end at or before `position`.

        Examples
        --------
        >>> [Axis.regular(10, 4).count_ends(x) for x in (0, 3, 4, 9, 10)]
        [0, 0, 1, 2, 3]
        """
        if position >= self.length:
            return self.n_blocks
        run = bisect_right(self.run_ends, position) - 1
        return self._run_indices[run] + (position - self.run_ends[run]) // self.runs[run][0]

    def index_at(self, position: int) -> int:
        """Return the index of the block that contains `position`."""
        return self.count_ends(position)

    def first_from(self, position: int) -> int:
        """Return the index of the first block that starts at or after `position`."""
        index = self.count_ends(position)
        return index if self.start_of(index) == position else index + 1

    def floor(self, position: int) -> int:
        """Round a position down to a boundary."""
        return self.start_of(self.count_ends(position))

    def ceil(self, position: int) -> int:
        """Round a position up to a boundary."""
        return self.start_of(self.first_from(position))

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield ``(index, start, stop)`` of every block's intersection with a range, lazily.

        Examples
        --------
        >>> list(Axis.regular(10, 4).pieces(3, 10))
        [(0, 3, 4), (1, 4, 8), (2, 8, 10)]
        """
        if start >= stop:
            return
        index = self.index_at(start)
        while start < stop:
            end = min(self.start_of(index + 1), stop)
            yield index, start, end
            index, start = index + 1, end

    def grouped(self, n_blocks: int) -> Axis:
        """Join every `n_blocks` blocks into one; the last group may have fewer.

        Examples
        --------
        >>> Axis.regular(10, 2).grouped(3).runs
        ((6, 1), (4, 1))
        """
        runs: list[tuple[int, int]] = []
        # Number of blocks and total length of the group that is not full yet.
        n_open = open_length = 0
        for length, count in self.runs:
            n_first = min(count, -n_open % n_blocks)
            n_open, open_length = n_open + n_first, open_length + n_first * length
            if n_open == n_blocks:
                runs.append((open_length, 1))
                n_open = open_length = 0
            n_groups, n_rest = divmod(count - n_first, n_blocks)
            if n_groups:
                runs.append((length * n_blocks, n_groups))
            n_open, open_length = n_open + n_rest, open_length + n_rest * length
        return Axis((*runs, (open_length, 1)) if open_length else tuple(runs))

    @property
    def mirrored(self) -> Axis:
        """The blocks in reverse order."""
        return Axis(self.runs[::-1])

    def clipped(self, start: int, stop: int) -> Axis:
        """Return the part of the axis within a range, as a new axis."""
        if start <= 0 and stop >= self.length:
            return self
        runs: list[tuple[int, int]] = []
        for (length, _), run_start, run_stop in zip(
            self.runs, self.run_ends, self.run_ends[1:], strict=False
        ):
            low, high = max(start, run_start), min(stop, run_stop)
            if low >= high:
                continue
            first = min(-(low - run_start) % length, high - low)
            whole, last = divmod(high - low - first, length)
            runs += [(size, n) for size, n in ((first, 1), (length, whole), (last, 1)) if size * n]
        return Axis(tuple(runs))

    # The same lookups, vectorized.

    @cached_property
    def _tables(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        lengths = [length for length, _ in self.runs] or [1]
        dtype = np.int64 if self.length < _LARGEST_INT64 else object
        return (
            np.array(self.run_ends[:-1] or [0], dtype),
            np.array(self._run_indices[:-1] or [0], dtype),
            np.array(lengths, dtype),
        )

    def starts_of(self, indices: NDArray[Any]) -> NDArray[Any]:
        """Return `start_of` for an array of block indices."""
        ends, firsts, lengths = self._tables
        if len(ends) > _FEW_RUNS:
            run = np.maximum(np.searchsorted(firsts, indices, side="right") - 1, 0)
            return np.asarray(ends[run] + (indices - firsts[run]) * lengths[run])
        starts = np.asarray(indices * lengths[0])
        for end, first, length in zip(ends[1:], firsts[1:], lengths[1:], strict=True):
            beyond = indices >= first
            starts[beyond] = end + (indices[beyond] - first) * length
        return starts

    def counts_ends(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return `count_ends` for an array of positions."""
        ends, firsts, lengths = self._tables
        if len(ends) > _FEW_RUNS:
            run = np.maximum(np.searchsorted(ends, positions, side="right") - 1, 0)
            counts = np.asarray(firsts[run] + (positions - ends[run]) // lengths[run])
        else:
            counts = np.asarray(positions // lengths[0])
            for end, first, length in zip(ends[1:], firsts[1:], lengths[1:], strict=True):
                beyond = positions >= end
                counts[beyond] = first + (positions[beyond] - end) // length
        counts[positions >= self.length] = self.n_blocks
        return counts

    def floors(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return `floor` for an array of positions."""
        return self.starts_of(self.counts_ends(positions))

    def ceils(self, positions: NDArray[Any]) -> NDArray[Any]:
        """Return `ceil` for an array of positions."""
        indices = self.counts_ends(positions)
        starts = self.starts_of(indices)
        return np.where(starts == positions, starts, self.starts_of(indices + 1))

    def indices(self, start: int, stop: int) -> NDArray[Any]:
        """Return the block indices from `start` to `stop` as an array for the lookups above."""
        if self.length < _LARGEST_INT64:
            return np.arange(start, stop, dtype=np.int64)
        return np.array(list(range(start, stop)), dtype=object)
