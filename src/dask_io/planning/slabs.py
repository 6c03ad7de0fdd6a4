"""Slabs of an array with different read cells, and groups of slabs with the same read cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from dask_io.planning.cost import CutCounts, count_cuts_between

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from dask_io.planning.cost import AxisCells
    from dask_io.planning.problem import Side
    from dask_io.planning.reads import AxisPlan, Hold, Ranges, ReadRun


class SlabRange(NamedTuple):
    """The read cells of the inner axis, from `start` to `stop` along the outer axis."""

    start: int
    stop: int
    reads: tuple[ReadRun, ...]


@dataclass(frozen=True)
class Slabs:
    """Ranges of an outer axis in which an inner axis has different read cells.

    Only kept ends differ. Flushed ends are the same in all slabs, so write cells are the same. A
    slab with memory to spare is read in fewer cells.

    Attributes
    ----------
    outer, inner
        The axis along which the slabs are stacked, and the axis that is read differently.
    ranges
        At least one range, in ascending order; their ends are ends of outer read cells.
    """

    outer: int
    inner: int
    ranges: tuple[SlabRange, ...]

    def check(self, order: Sequence[int], axes: Sequence[AxisPlan]) -> None:
        """Raise a ValueError if the slabs do not match a plan with this order and these axes."""
        if not self.ranges or not {self.outer, self.inner} <= set(order):
            raise ValueError(f"slabs need two axes of the plan and at least one range: {self}")
        if order.index(self.outer) >= order.index(self.inner):
            raise ValueError(f"axis {self.inner} is not inside axis {self.outer}: {order}")
        usual, ends = axes[self.inner], axes[self.outer].ends
        bounds = [0, *(at for each in self.ranges for at in (each.start, each.stop))]
        if any(low > high for low, high in pairwise([*bounds, ends.length])):
            raise ValueError(f"ranges of slabs overlap or exceed the array: {bounds[1:]}")
        for start, stop, reads in self.ranges:
            if start == stop or ends.floor(start) < start or ends.floor(stop) < stop:
                raise ValueError(f"slabs from {start} to {stop} are not whole read cells")
            other = replace(usual, reads=reads)
            if (other.ends.length, other.flushes) != (usual.ends.length, usual.flushes):
                raise ValueError(f"slabs from {start} to {stop} have different flushed ends")

    def reads_at(self, position: int) -> tuple[ReadRun, ...] | None:
        """Return the inner axis' read cells in one slab, None if they do not differ."""
        found = (each.reads for each in self.ranges if each.start <= position < each.stop)
        return next(found, None)

    def flushed_at(self, positions: Collection[int], usual: AxisPlan) -> Slabs:
        """Return these slabs with the inner axis also cut and flushed at these positions."""
        ranges = (
            each._replace(reads=replace(usual, reads=each.reads).flushed_at(positions).reads)
            for each in self.ranges
        )
        return replace(self, ranges=tuple(ranges))


@dataclass(frozen=True)
class UniformSlabs:
    """Slabs of a plan that all have the same read cells.

    Counts are products over the axes, or sums of such products. Along the axis of the slabs, only
    their ranges count.

    Attributes
    ----------
    axis
        The axis along which the slabs are stacked.
    ranges
        The slabs, as ``(start, stop)`` in ascending order.
    axes
        The plan along each axis.
    """

    axis: int
    ranges: Ranges
    axes: tuple[AxisPlan, ...]

    def ranges_of(self, axis: int) -> Ranges:
        """Return the ranges along an axis: the whole axis, unless it is that of the slabs."""
        return self.ranges if axis == self.axis else ((0, self.axes[axis].ends.length),)

    @property
    def shape(self) -> tuple[int, ...]:
        """Total length along each axis."""
        ranges = map(self.ranges_of, range(len(self.axes)))
        return tuple(sum(stop - start for start, stop in each) for each in ranges)

    def multiply(self, count: Callable[[int, int, int], int]) -> int:
        """Sum ``count(axis, start, stop)`` over the ranges of each axis; return the product."""
        return prod(
            sum(count(axis, start, stop) for start, stop in self.ranges_of(axis))
            for axis in range(len(self.axes))
        )

    def count_cuts(self, side: Side) -> tuple[CutCounts, ...]:
        """Count the cuts of a side's blocks by the read cells, along each axis."""
        return tuple(
            count_cuts_between(blocks, plan.ends, self.ranges_of(axis), partial)
            for axis, (blocks, plan, partial) in enumerate(
                zip(side.grid.axes, self.axes, side.partial, strict=True)
            )
        )

    def memory(self, axis: int, hold: Hold) -> AxisCells:
        """Return the memory needs of the read cells along an axis."""
        return self.axes[axis].memory(hold, self.ranges if axis == self.axis else None)


def divide_into_uniform_slabs(
    axes: tuple[AxisPlan, ...], slabs: Slabs | None
) -> tuple[UniformSlabs, ...]:
    """Group the slabs of a plan by their read cells; without `slabs` there is one group.

    Examples
    --------
    >>> from dask_io.geometry import Axis
    >>> from dask_io.planning.reads import AxisPlan, ReadRun
    >>> axis = AxisPlan(Axis.regular(6, 3), (ReadRun(2, 3, keep=True),))
    >>> whole = (ReadRun(6, 1, keep=True),)
    >>> found = divide_into_uniform_slabs((axis, axis), Slabs(0, 1, (SlabRange(2, 4, whole),)))
    >>> [(each.ranges, each.axes[1].ends.n_blocks) for each in found]
    [(((0, 2), (4, 6)), 3), (((2, 4),), 1)]
    """
    if slabs is None:
        return (UniformSlabs(0, ((0, axes[0].ends.length if axes else 0),), axes),)
    ranges: dict[tuple[ReadRun, ...], list[tuple[int, int]]] = {}
    for start, stop, reads in _all_ranges(axes, slabs):
        found = ranges.setdefault(reads, [])
        continues = found and found[-1][1] == start
        found.append((found.pop()[0] if continues else start, stop))
    usual, before, after = axes[slabs.inner], axes[: slabs.inner], axes[slabs.inner + 1 :]
    return tuple(
        UniformSlabs(slabs.outer, tuple(found), (*before, replace(usual, reads=reads), *after))
        for reads, found in ranges.items()
    )


def _all_ranges(axes: Sequence[AxisPlan], slabs: Slabs) -> Iterator[SlabRange]:
    """Yield the ranges of the slabs, and the ranges before, between and after them."""
    usual, position = axes[slabs.inner].reads, 0
    for each in slabs.ranges:
        if position < each.start:
            yield SlabRange(position, each.start, usual)
        yield each
        position = each.stop
    length = axes[slabs.outer].ends.length
    if position < length:
        yield SlabRange(position, length, usual)
