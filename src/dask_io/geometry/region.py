"""A box in array coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Region:
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
        """Return the region that covers an array of this shape."""
        stop = tuple(shape)
        return cls((0,) * len(stop), stop)

    @classmethod
    def of(cls, bounds: Iterable[tuple[int, int]]) -> Region:
        """Make a region of ``(start, stop)`` per axis."""
        pairs = tuple(bounds)
        return cls(tuple(low for low, _ in pairs), tuple(high for _, high in pairs))

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis."""
        return tuple(high - low for low, high in zip(self.start, self.stop, strict=True))

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The region as an index into the array."""
        return tuple(slice(low, high) for low, high in zip(self.start, self.stop, strict=True))

    def __and__(self, other: Region) -> Region:
        start = tuple(max(a, b) for a, b in zip(self.start, other.start, strict=True))
        stop = tuple(min(a, b) for a, b in zip(self.stop, other.stop, strict=True))
        return Region(start, tuple(max(low, high) for low, high in zip(start, stop, strict=True)))

    def relative_to(self, origin: tuple[int, ...]) -> Region:
        """Return the same box counted from `origin`."""
        return Region(
            tuple(low - zero for low, zero in zip(self.start, origin, strict=True)),
            tuple(high - zero for high, zero in zip(self.stop, origin, strict=True)),
        )

    def __str__(self) -> str:
        return ",".join(f"{low}:{high}" for low, high in zip(self.start, self.stop, strict=True))
