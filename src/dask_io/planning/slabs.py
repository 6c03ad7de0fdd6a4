"""Read cells that differ from slab to slab, and the parts of a plan in which they do not."""

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


class Stretch(NamedTuple):
    """The read cells of the inner axis, from `start` to `stop` along the outer one."""

    start: int
    stop: int
    reads: tuple[ReadRun, ...]


@dataclass(frozen=True)
class Slabs:
    """Stretches of an axis in which another, further inside, has read cells of its own.

    Only kept ends differ: what is flushed is flushed in every slab, so write cells are the same
    everywhere. A slab that has room to spare is read in fewer cells than one that has not.

    Attributes
    ----------
    outer, inner
        The axis that the slabs follow one another along, and the one that is read differently.
    stretches
        Where, in ascending order, at least one; each ends where read cells of the outer axis do.
    """

    outer: int
    inner: int
    stretches: tuple[Stretch, ...]

    def check(self, order: Sequence[int], axes: Sequence[AxisPlan]) -> None:
        """Raise a ValueError unless these are slabs of a plan with this order and these axes."""
        if not self.stretches or not {self.outer, self.inner} <= set(order):
            raise ValueError(f"slabs name axes of the plan and at least one stretch: {self}")
        if order.index(self.outer) >= order.index(self.inner):
            raise ValueError(f"axis {self.inner} is not inside axis {self.outer}: {order}")
        usual, ends = axes[self.inner], axes[self.outer].ends
        bounds = [0, *(at for each in self.stretches for at in (each.start, each.stop))]
        if any(low > high for low, high in pairwise([*bounds, ends.length])):
            raise ValueError(f"stretches of slabs overlap or reach out of the array: {bounds[1:]}")
        for start, stop, reads in self.stretches:
            if start == stop or ends.floor(start) < start or ends.floor(stop) < stop:
                raise ValueError(f"slabs from {start} to {stop} are not whole read cells")
            other = replace(usual, reads=reads)
            if (other.ends.length, other.flushes) != (usual.ends.length, usual.flushes):
                raise ValueError(f"slabs from {start} to {stop} are flushed where others are not")

    def reads_at(self, position: int) -> tuple[ReadRun, ...] | None:
        """Return the inner axis' read cells in one slab; None if they are the usual ones."""
        found = (each.reads for each in self.stretches if each.start <= position < each.stop)
        return next(found, None)

    def flushed_at(self, positions: Collection[int], usual: AxisPlan) -> Slabs:
        """Return the same slabs with the inner axis cut and flushed at these positions too."""
        stretches = (
            each._replace(reads=replace(usual, reads=each.reads).flushed_at(positions).reads)
            for each in self.stretches
        )
        return replace(self, stretches=tuple(stretches))


@dataclass(frozen=True)
class Part:
    """Slabs of a plan in which each axis has the same read cells throughout.

    What is counted in a part is a product over the axes, or a sum of such products. Along the
    axis that the slabs lie along, only what is within them counts.

    Attributes
    ----------
    axis
        The axis that the slabs lie along.
    ranges
        Where, as ``(start, stop)`` in ascending order.
    axes
        The plan along each axis.
    """

    axis: int
    ranges: Ranges
    axes: tuple[AxisPlan, ...]

    def ranges_of(self, axis: int) -> Ranges:
        """Return the part's ranges along an axis: all of it, but for the slabs' own."""
        return self.ranges if axis == self.axis else ((0, self.axes[axis].ends.length),)

    @property
    def shape(self) -> tuple[int, ...]:
        """The part's length along each axis."""
        ranges = map(self.ranges_of, range(len(self.axes)))
        return tuple(sum(stop - start for start, stop in each) for each in ranges)

    def multiply(self, count: Callable[[int, int, int], int]) -> int:
        """Multiply over all axes what ``count(axis, start, stop)`` finds in the ranges of each."""
        return prod(
            sum(count(axis, start, stop) for start, stop in self.ranges_of(axis))
            for axis in range(len(self.axes))
        )

    def count_cuts(self, side: Side) -> tuple[CutCounts, ...]:
        """Count along each axis how the read cells cut a side's blocks."""
        return tuple(
            count_cuts_between(blocks, plan.ends, self.ranges_of(axis), partial)
            for axis, (blocks, plan, partial) in enumerate(
                zip(side.grid.axes, self.axes, side.partial, strict=True)
            )
        )

    def memory(self, axis: int, hold: Hold) -> AxisCells:
        """Return what the read cells along an axis mean for memory."""
        return self.axes[axis].memory(hold, self.ranges if axis == self.axis else None)


def parts_of(axes: tuple[AxisPlan, ...], slabs: Slabs | None) -> tuple[Part, ...]:
    """Take a plan apart into parts without differences; one if it has no slabs of its own.

    Examples
    --------
    >>> from dask_io.geometry import Axis
    >>> from dask_io.planning.reads import AxisPlan, ReadRun
    >>> axis = AxisPlan(Axis.regular(6, 3), (ReadRun(2, 3, keep=True),))
    >>> whole = (ReadRun(6, 1, keep=True),)
    >>> found = parts_of((axis, axis), Slabs(0, 1, (Stretch(2, 4, whole),)))
    >>> [(part.ranges, part.axes[1].ends.n_blocks) for part in found]
    [(((0, 2), (4, 6)), 3), (((2, 4),), 1)]
    """
    if slabs is None:
        return (Part(0, ((0, axes[0].ends.length if axes else 0),), axes),)
    ranges: dict[tuple[ReadRun, ...], list[tuple[int, int]]] = {}
    for start, stop, reads in _everywhere(axes, slabs):
        found = ranges.setdefault(reads, [])
        goes_on = found and found[-1][1] == start
        found.append((found.pop()[0] if goes_on else start, stop))
    usual, before, after = axes[slabs.inner], axes[: slabs.inner], axes[slabs.inner + 1 :]
    return tuple(
        Part(slabs.outer, tuple(found), (*before, replace(usual, reads=reads), *after))
        for reads, found in ranges.items()
    )


def _everywhere(axes: Sequence[AxisPlan], slabs: Slabs) -> Iterator[Stretch]:
    """Yield the stretches, and the usual read cells before, between and after them."""
    usual, position = axes[slabs.inner].reads, 0
    for each in slabs.stretches:
        if position < each.start:
            yield Stretch(position, each.start, usual)
        yield each
        position = each.stop
    length = axes[slabs.outer].ends.length
    if position < length:
        yield Stretch(position, length, usual)
