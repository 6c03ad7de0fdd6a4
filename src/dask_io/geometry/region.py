"""A box in array coordinates."""

from __future__ import annotations

import re
from math import prod
from operator import add, sub
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_BOUNDS = re.compile(r"(\d+):(\d+)", re.ASCII)


class Region(NamedTuple):
    """A half-open box: along each axis from `start` up to, not including, `stop`.

    Examples
    --------
    >>> a, b = Region((0, 0), (4, 6)), Region((2, 4), (8, 8))
    >>> a & b
    Region(start=(2, 4), stop=(4, 6))
    >>> (a & b).size, str(a & b)
    (4, '2:4,4:6')
    """

    start: tuple[int, ...]
    stop: tuple[int, ...]

    @classmethod
    def whole(cls, shape: Iterable[int]) -> Region:
        """Return the region that covers a whole array of this shape."""
        stop = tuple(shape)
        return cls((0,) * len(stop), stop)

    @classmethod
    def of(cls, bounds: Iterable[tuple[int, int]]) -> Region:
        """Return the region with this ``(start, stop)`` along each axis."""
        start, stop = zip(*bounds, strict=True)
        return cls(start, stop)

    @classmethod
    def parse(cls, text: str, shape: tuple[int, ...]) -> Region:
        """Return the region of an array of this shape that `str` has described.

        Raises
        ------
        ValueError
            If the text does not describe one, or it exceeds the array.
        """
        found = [_BOUNDS.fullmatch(part) for part in text.split(",")]
        bounds = [(int(each[1]), int(each[2])) for each in found if each is not None]
        if not len(bounds) == len(found) == len(shape) or not all(
            low <= high <= length for (low, high), length in zip(bounds, shape, strict=True)
        ):
            message = f"{text!r} is not a region of an array of shape {shape}"
            raise ValueError(message)
        return cls.of(bounds)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis."""
        return tuple(map(sub, self.stop, self.start))

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Start and stop along each axis."""
        return tuple(zip(*self, strict=True))

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(map(sub, self.stop, self.start))

    @property
    def slices(self) -> tuple[slice, ...]:
        """The region as an index into the array."""
        return tuple(map(slice, self.start, self.stop))

    def slices_from(self, origin: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the region as an index into an array that begins at `origin`."""
        return tuple(map(slice, map(sub, self.start, origin), map(sub, self.stop, origin)))

    def __and__(self, other: Region) -> Region:
        start = tuple(map(max, self.start, other.start))
        stop = tuple(map(min, self.stop, other.stop))
        return Region(start, tuple(map(max, start, stop)))

    def relative_to(self, origin: tuple[int, ...]) -> Region:
        """Return the region in coordinates relative to `origin`."""
        return Region(tuple(map(sub, self.start, origin)), tuple(map(sub, self.stop, origin)))

    def shifted_by(self, offset: tuple[int, ...]) -> Region:
        """Return the region shifted by `offset`."""
        return Region(tuple(map(add, self.start, offset)), tuple(map(add, self.stop, offset)))

    def __str__(self) -> str:
        return ",".join(f"{low}:{high}" for low, high in zip(self.start, self.stop, strict=True))
