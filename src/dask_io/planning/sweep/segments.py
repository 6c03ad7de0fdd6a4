"""One axis of source and target, divided at their common boundaries."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dask_io.geometry import Axis

# The most boundaries that are listed, for a whole axis or one period of it.
_LISTED = 4096
# If there are more different segments than this, neighbours are merged.
_MOST_SEGMENTS = 16


@dataclass(frozen=True, slots=True)
class Segment:
    """A range between two neighbouring common boundaries, and its repetitions.

    Attributes
    ----------
    start
        Start of the first repetition.
    length
        Length of one repetition.
    count
        Number of contiguous repetitions.
    source, target
        The boundaries inside one repetition, relative to its start.
    """

    start: int
    length: int
    count: int
    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def last_start(self) -> int:
        """Start of the last repetition."""
        return self.start + (self.count - 1) * self.length

    @property
    def boundaries(self) -> list[int]:
        """The boundaries of both sides, including both ends."""
        return sorted({0, *self.source, *self.target, self.length})

    def source_floor(self, position: int) -> int:
        """Round a position down to a boundary of the source."""
        return _floor(self.source, position, self.length)

    def target_floor(self, position: int) -> int:
        """Round a position down to a boundary of the target."""
        return _floor(self.target, position, self.length)

    def parts(self, most: int) -> tuple[Segment, ...]:
        """Divide the repetitions into at most `most` groups."""
        size = -(-self.count // most)
        return tuple(
            Segment(
                self.start + first * self.length,
                self.length,
                min(size, self.count - first),
                self.source,
                self.target,
            )
            for first in range(0, self.count, size)
        )


def _floor(inside: tuple[int, ...], position: int, length: int) -> int:
    if position >= length:
        return length
    index = bisect_right(inside, position)
    return inside[index - 1] if index else 0


@dataclass(frozen=True)
class AxisPair:
    """The blocks of source and target along one axis.

    The first and the last block of each may be part of a larger block (`Side.partial`). For an
    axis that is swept backwards, the blocks are in reverse order.

    Examples
    --------
    >>> from dask_io.geometry import Axis
    >>> pair = AxisPair(Axis.regular(14_100, 350), Axis.regular(14_100, 500))
    >>> [(segment.length, segment.count) for segment in pair.segments]
    [(3500, 4), (100, 1)]
    """

    source: Axis
    target: Axis
    source_partial: tuple[bool, bool] = (False, False)
    target_partial: tuple[bool, bool] = (False, False)
    backwards: bool = False

    @cached_property
    def mirrored(self) -> AxisPair:
        """The same axis in reverse order."""
        return AxisPair(
            self.source.mirrored,
            self.target.mirrored,
            self.source_partial[::-1],
            self.target_partial[::-1],
            not self.backwards,
        )

    @property
    def is_symmetric(self) -> bool:
        """Whether the reverse order is the same."""
        return (self.source, self.target) == (self.mirrored.source, self.mirrored.target)

    @cached_property
    def segments(self) -> tuple[Segment, ...] | None:
        """The segments of the axis; None if there are too many boundaries to list."""
        if self.source.n_blocks + self.target.n_blocks <= _LISTED:
            found = _segments(0, _boundaries(self.source), _boundaries(self.target))
            return tuple(_fewer(found, len(found) // _MOST_SEGMENTS + 1))
        return self._periods()

    @property
    def is_long(self) -> bool:
        """Whether there are so many boundaries that read ends may have too many runs."""
        return self.source.n_blocks + self.target.n_blocks > _LISTED

    def _periods(self) -> tuple[Segment, ...] | None:
        """Divide two regular axes at the common multiples of their block lengths."""
        chunks = self.source.chunk, self.target.chunk
        if chunks[0] is None or chunks[1] is None:
            return None
        period, length = lcm(chunks[0], chunks[1]), self.source.length
        n_periods = length // period
        if not n_periods or sum(period // chunk for chunk in chunks if chunk) > _LISTED:
            return None
        inside = (tuple(range(chunk, period, chunk)) for chunk in chunks if chunk)
        whole = Segment(0, period, n_periods, *inside)
        start = n_periods * period
        rest = (axis.clipped(start, length) for axis in (self.source, self.target))
        return (whole, *_segments(start, *map(_boundaries, rest)))


def _boundaries(axis: Axis) -> NDArray[Any]:
    return axis.starts_of(axis.indices(0, axis.n_blocks + 1))


def _segments(start: int, source: NDArray[Any], target: NDArray[Any]) -> list[Segment]:
    """Divide listed boundaries at common boundaries; equal neighbours become one segment."""
    common = np.intersect1d(source, target, assume_unique=True)
    found: list[Segment] = []
    for low, high in zip(common.tolist(), common[1:].tolist(), strict=False):
        inside = tuple(
            tuple(
                (each[np.searchsorted(each, low) + 1 : np.searchsorted(each, high)] - low).tolist()
            )
            for each in (source, target)
        )
        segment = Segment(start + low, high - low, 1, *inside)
        if found and _alike(found[-1], segment):
            before = found.pop()
            segment = Segment(before.start, segment.length, before.count + 1, *inside)
        found.append(segment)
    return found


def _fewer(segments: list[Segment], size: int) -> Iterator[Segment]:
    """Merge every `size` segments into one."""
    if size == 1:
        yield from segments
        return
    for index in range(0, len(segments), size):
        group = segments[index : index + size]
        start = group[0].start
        copies = [part for segment in group for part in segment.parts(segment.count)]
        inside = (
            tuple(
                copy.start - start + at
                for copy in copies
                for at in (0, *getattr(copy, side))
                if copy.start + at > start
            )
            for side in ("source", "target")
        )
        length = copies[-1].start + copies[-1].length - start
        yield Segment(start, length, 1, *inside)


def _alike(one: Segment, other: Segment) -> bool:
    return (one.length, one.source, one.target) == (other.length, other.source, other.target)
