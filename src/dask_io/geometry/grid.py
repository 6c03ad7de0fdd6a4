"""An array divided into blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from operator import add, contains, floordiv, ge, mul
from typing import TYPE_CHECKING

from dask_io.geometry.axis import Axis
from dask_io.geometry.region import Region

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True)
class Grid:
    """A shape divided into blocks; the index of a block has a number for each axis.

    Examples
    --------
    >>> grid = Grid.regular((10, 6), (4, 3))
    >>> grid.shape, grid.n_blocks, str(grid.block((2, 1)))
    ((10, 6), 6, '8:10,3:6')
    """

    axes: tuple[Axis, ...]

    @classmethod
    def regular(cls, shape: Sequence[int], chunks: Sequence[int]) -> Grid:
        """Divide a shape into equal blocks; the last along each axis may be shorter."""
        pairs = zip(shape, chunks, strict=True)
        return cls(tuple(Axis.regular(length, chunk) for length, chunk in pairs))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis."""
        return tuple(axis.length for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks along each axis."""
        return tuple(axis.n_blocks for axis in self.axes)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return prod(self.counts)

    @property
    def longest(self) -> tuple[int, ...]:
        """Length of the longest block along each axis."""
        return tuple(axis.longest for axis in self.axes)

    @cached_property
    def _chunks(self) -> tuple[int, ...]:
        """Block length along each axis; empty if an axis is irregular."""
        chunks = tuple(axis.chunk or 0 for axis in self.axes)
        return chunks if all(chunks) else ()

    @cached_property
    def _steps(self) -> tuple[int, ...]:
        """Difference of the flat index of neighbouring blocks, for each axis."""
        return tuple(prod(self.counts[axis + 1 :]) for axis in range(len(self.axes)))

    def block(self, index: Sequence[int]) -> Region:
        """Return the region of a block.

        Raises
        ------
        IndexError
            If the index is out of bounds.
        """
        if self._chunks:
            return _regular_block(self._chunks, self.shape, tuple(index))
        if index not in self:
            raise _no_block(index, self.shape)
        start, stop = zip(*map(Axis.bounds_of, self.axes, index), strict=True)
        return Region(start, stop)

    def __contains__(self, index: Sequence[int]) -> bool:
        """Whether a block with this index exists."""
        return len(index) == len(self.counts) and all(map(contains, map(range, self.counts), index))

    def index_at(self, position: Sequence[int]) -> tuple[int, ...]:
        """Return the index of the block that contains an element."""
        if self._chunks:
            return tuple(map(floordiv, position, self._chunks))
        return tuple(map(Axis.index_at, self.axes, position))

    def flat(self, index: Sequence[int]) -> int:
        """Return the flat index of a block in C order."""
        return sum(map(mul, index, self._steps))

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yield the index of every block in C order."""
        return product(*map(range, self.counts))

    def pieces(self, region: Region) -> Iterator[tuple[tuple[int, ...], Region]]:
        """Yield every block that overlaps a region, with their intersection.

        Examples
        --------
        >>> grid = Grid.regular((10, 6), (4, 3))
        >>> [(index, str(part)) for index, part in grid.pieces(Region((3, 0), (5, 3)))]
        [((0, 0), '3:4,0:3'), ((1, 0), '4:5,0:3')]
        """
        bounds = zip(self.axes, region.start, region.stop, strict=True)
        for parts in product(*(list(axis.pieces(low, high)) for axis, low, high in bounds)):
            index, start, stop = zip(*parts, strict=True)
            yield index, Region(start, stop)

    def clipped(self, region: Region) -> Grid:
        """Return the part of the grid within a region, as a new grid."""
        bounds = zip(self.axes, region.start, region.stop, strict=True)
        return Grid(tuple(axis.clipped(low, high) for axis, low, high in bounds))

    def __str__(self) -> str:
        return " x ".join(map(_lengths, self.axes))


# Several callers ask for the same block within a short time.
@lru_cache(maxsize=1024)
def _regular_block(
    chunks: tuple[int, ...], shape: tuple[int, ...], index: tuple[int, ...]
) -> Region:
    start = tuple(map(mul, index, chunks))
    if len(index) != len(shape) or min(start) < 0 or any(map(ge, start, shape)):
        raise _no_block(index, shape)
    return Region(start, tuple(map(min, map(add, start, chunks), shape)))


def _no_block(index: Sequence[int], shape: tuple[int, ...]) -> IndexError:
    return IndexError(f"block {tuple(index)} is out of bounds for an array of shape {shape}")


def _lengths(axis: Axis) -> str:
    """Return the block length of an axis, or the range of lengths if they differ."""
    if axis.chunk is not None:
        return str(axis.chunk)
    return f"({min(length for length, _ in axis.runs)} to {axis.longest})"
