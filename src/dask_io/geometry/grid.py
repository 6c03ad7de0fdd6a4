"""An array cut into blocks."""

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
    """A shape cut along each axis; a block is named by its number along each of them.

    Examples
    --------
    >>> grid = Grid.regular((10, 6), (4, 3))
    >>> grid.shape, grid.n_blocks, str(grid.block((2, 1)))
    ((10, 6), 6, '8:10,3:6')
    """

    axes: tuple[Axis, ...]

    @classmethod
    def regular(cls, shape: Sequence[int], chunks: Sequence[int]) -> Grid:
        """Cut a shape into equal blocks, shorter at the far ends."""
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
        """Length of a block along each axis; empty if one of them is irregular."""
        chunks = tuple(axis.chunk or 0 for axis in self.axes)
        return chunks if all(chunks) else ()

    @cached_property
    def _steps(self) -> tuple[int, ...]:
        """By how much the number of a block grows from one to the next along each axis."""
        return tuple(prod(self.counts[axis + 1 :]) for axis in range(len(self.axes)))

    def block(self, index: Sequence[int]) -> Region:
        """Return the region of a block.

        Raises
        ------
        IndexError
            If there is no such block.
        """
        if self._chunks:
            return _regular_block(self._chunks, self.shape, tuple(index))
        if index not in self:
            raise _no_block(index, self.shape)
        start, stop = zip(*map(Axis.bounds_of, self.axes, index), strict=True)
        return Region(start, stop)

    def __contains__(self, index: Sequence[int]) -> bool:
        """Whether there is a block of this index."""
        return len(index) == len(self.counts) and all(map(contains, map(range, self.counts), index))

    def index_at(self, position: Sequence[int]) -> tuple[int, ...]:
        """Return the index of the block that holds an element."""
        if self._chunks:
            return tuple(map(floordiv, position, self._chunks))
        return tuple(map(Axis.index_at, self.axes, position))

    def flat(self, index: Sequence[int]) -> int:
        """Return the number of a block when all are counted, last axis fastest."""
        return sum(map(mul, index, self._steps))

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yield the index of every block, last axis fastest."""
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
        """Return the blocks' parts within a region as a grid of their own."""
        bounds = zip(self.axes, region.start, region.stop, strict=True)
        return Grid(tuple(axis.clipped(low, high) for axis, low, high in bounds))

    def __str__(self) -> str:
        return " x ".join(map(_lengths, self.axes))


# A block is asked for by all who have to do with it, soon after one another.
@lru_cache(maxsize=1024)
def _regular_block(
    chunks: tuple[int, ...], shape: tuple[int, ...], index: tuple[int, ...]
) -> Region:
    start = tuple(map(mul, index, chunks))
    if len(index) != len(shape) or min(start) < 0 or any(map(ge, start, shape)):
        raise _no_block(index, shape)
    return Region(start, tuple(map(min, map(add, start, chunks), shape)))


def _no_block(index: Sequence[int], shape: tuple[int, ...]) -> IndexError:
    return IndexError(f"there is no block {tuple(index)} in this grid of an array of {shape}")


def _lengths(axis: Axis) -> str:
    """Return the length of an axis' blocks, or the range of lengths if they are uneven."""
    if axis.chunk is not None:
        return str(axis.chunk)
    return f"({min(length for length, _ in axis.runs)} to {axis.longest})"
