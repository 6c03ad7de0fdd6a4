"""The storage order of a block's elements, and the contiguous runs that result from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.geometry.region import Region


class Stored(NamedTuple):
    """The position of a region in a block's storage, in elements.

    Its first run starts at `first`, and each of its runs has `run` elements.
    """

    shape: tuple[int, ...]
    size: int
    first: int
    run: int

    @property
    def is_one_run(self) -> bool:
        """Whether it is contiguous and not empty."""
        return self.run == self.size > 0


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes in storage order, slowest first: C order is ``0, 1, 2``, F order ``2, 1, 0``.

    Examples
    --------
    >>> Layout.c(3).axes, Layout.f(3).axes, Layout((1, 0, 2)).name
    ((0, 1, 2), (2, 1, 0), '1,0,2')
    """

    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.axes) != list(range(len(self.axes))):
            message = f"a layout lists every axis once, slowest first: {self.axes}"
            raise ValueError(message)

    @classmethod
    def c(cls, n_axes: int) -> Layout:
        """Row-major: the last axis is the fastest."""
        return cls(tuple(range(n_axes)))

    @classmethod
    def f(cls, n_axes: int) -> Layout:
        """Column-major: the first axis is the fastest."""
        return cls(tuple(reversed(range(n_axes))))

    @classmethod
    def named(cls, name: str, n_axes: int) -> Layout:
        """Return the layout called ``"C"`` or ``"F"``."""
        return cls.f(n_axes) if name.upper() == "F" else cls.c(n_axes)

    @property
    def name(self) -> str:
        """C, F, or the axes slowest first."""
        if self.axes == tuple(range(len(self.axes))):
            return "C"
        if self.axes == tuple(reversed(range(len(self.axes)))):
            return "F"
        return ",".join(map(str, self.axes))

    @property
    def inverse(self) -> tuple[int, ...]:
        """For each array axis, its position in storage order."""
        return tuple(self.axes.index(axis) for axis in range(len(self.axes)))

    def strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the strides of a block of `shape`, in elements."""
        return _strides(self.axes, shape, 1)

    def byte_strides(self, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        """Return the strides of a block of `shape`, in bytes."""
        return _strides(self.axes, shape, itemsize)

    def run_length(self, region: Region, shape: tuple[int, ...]) -> int:
        """Return the number of elements in each contiguous run of a region.

        Examples
        --------
        >>> from dask_io.geometry.region import Region
        >>> Layout.c(2).run_length(Region((1, 0), (3, 5)), (4, 5))
        10
        """
        return _run_length(self.axes, region.shape, shape)

    def stored(self, region: Region, shape: tuple[int, ...]) -> Stored:
        """Return the position of a region in a block's storage.

        Examples
        --------
        >>> from dask_io.geometry.region import Region
        >>> Layout.c(2).stored(Region((1, 1), (3, 4)), (4, 5))
        Stored(shape=(2, 3), size=6, first=6, run=3)
        """
        return _stored(self.axes, region, shape)

    def runs(self, region: Region, shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """Yield ``(offset, length)`` of every run of a region in a block, in storage order.

        Offsets and lengths count elements; the region is relative to the block.

        Examples
        --------
        >>> from dask_io.geometry.region import Region
        >>> list(Layout.c(2).runs(Region((1, 1), (3, 4)), (4, 5)))
        [(6, 3), (11, 3)]
        """
        lengths, size, first, length = self.stored(region, shape)
        if not size:
            return
        if length == size:
            yield first, length
            return
        strides = self.strides(shape)
        outer = [axis for axis in self.axes if strides[axis] >= length]
        for index in product(*(range(lengths[axis]) for axis in outer)):
            at = sum(i * strides[axis] for i, axis in zip(index, outer, strict=True))
            yield first + at, length

    def end_of(self, region: Region, shape: tuple[int, ...]) -> int:
        """Return the offset just after the last element of a region.

        Examples
        --------
        >>> from dask_io.geometry.region import Region
        >>> Layout.c(2).end_of(Region((1, 1), (3, 4)), (4, 5))
        14
        """
        pairs = zip(region.stop, self.strides(shape), strict=True)
        return 1 + sum((high - 1) * stride for high, stride in pairs)

    def read_through(self, region: Region, shape: tuple[int, ...], n_axes: int) -> Region:
        """Extend a region to the whole block along the `n_axes` fastest axes.

        The result has fewer and longer runs, because it includes the gaps between the runs.

        Examples
        --------
        >>> from dask_io.geometry.region import Region
        >>> str(Layout.c(3).read_through(Region((1, 1, 1), (2, 3, 4)), (4, 5, 6), 1))
        '1:2,1:3,0:6'
        """
        whole = self.axes[len(self.axes) - n_axes :]
        return type(region).of(
            (0, length) if axis in whole else bounds
            for axis, (bounds, length) in enumerate(zip(region.bounds, shape, strict=True))
        )

    def count_runs(self, region: Region, shape: tuple[int, ...]) -> int:
        """Return the number of contiguous runs of a region."""
        return region.size and prod(region.shape) // self.run_length(region, shape)

    def slabs(self, region: Region, largest: int) -> Iterator[Region]:
        """Divide a region into boxes of at most `largest` elements, in storage order.

        Reading or writing the boxes in this order touches storage in the same order as the whole
        region does, so it needs no additional seeks.

        Examples
        --------
        >>> from dask_io.geometry.region import Region
        >>> [str(slab) for slab in Layout.c(2).slabs(Region((0, 0), (3, 4)), 8)]
        ['0:2,0:4', '2:3,0:4']
        """
        size, lengths = region.size, region.shape
        if size <= largest:
            if size:
                yield region
            return
        axis = next(axis for axis in self.axes if lengths[axis] > 1)
        step = max(1, largest // (size // lengths[axis]))
        for low in range(region.start[axis], region.stop[axis], step):
            high = min(low + step, region.stop[axis])
            yield from self.slabs(
                type(region)(
                    (*region.start[:axis], low, *region.start[axis + 1 :]),
                    (*region.stop[:axis], high, *region.stop[axis + 1 :]),
                ),
                largest,
            )


# Few shapes and regions occur, so the results are cached.


@lru_cache(maxsize=4096)
def _strides(axes: tuple[int, ...], shape: tuple[int, ...], stride: int) -> tuple[int, ...]:
    strides = [0] * len(shape)
    for axis in reversed(axes):
        strides[axis] = stride
        stride *= shape[axis]
    return tuple(strides)


@lru_cache(maxsize=4096)
def _stored(axes: tuple[int, ...], region: Region, shape: tuple[int, ...]) -> Stored:
    lengths = region.shape
    first = sum(map(mul, region.start, _strides(axes, shape, 1)))
    return Stored(lengths, prod(lengths), first, _run_length(axes, lengths, shape))


@lru_cache(maxsize=4096)
def _run_length(axes: tuple[int, ...], lengths: tuple[int, ...], shape: tuple[int, ...]) -> int:
    length = 1
    for axis in reversed(axes):
        length *= lengths[axis]
        if lengths[axis] != shape[axis]:
            break
    return length
