"""A box in array coordinates."""

from __future__ import annotations

import re
from math import prod
from operator import add, sub
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_RANGE = re.compile(r"\s*(-?\d+)?\s*:\s*(-?\d+)?\s*")


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
        """Parse a region of an array of this shape, such as ``"0:100,:,-5:"``.

        Starts and stops may be omitted; negative ones count from the end. Trailing axes may be
        omitted.

        Raises
        ------
        ValueError
            If the syntax is invalid, or the region exceeds the array.

        Examples
        --------
        >>> str(Region.parse("2:5,:", (10, 6, 4)))
        '2:5,0:6,0:4'
        """
        parts = text.split(",") if text.strip() else []
        if len(parts) > len(shape):
            message = f"region {text!r} has {len(parts)} axes, but the array has {len(shape)}"
            raise ValueError(message)
        parts += [":"] * (len(shape) - len(parts))
        return cls.of(map(_bounds, parts, shape, range(len(shape))))

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


def _bounds(text: str, length: int, axis: int) -> tuple[int, int]:
    """Parse the start and stop along one axis."""
    match = _RANGE.fullmatch(text)
    if match is None:
        message = f"{text!r} is not a range; write it as 0:100, 5: or :"
        raise ValueError(message)
    low, high = (
        end + length if end < 0 else end for end in (int(match[1] or 0), int(match[2] or length))
    )
    if not 0 <= low <= high <= length:
        message = f"range {text} of axis {axis} is not within 0:{length}"
        raise ValueError(message)
    return low, high
