"""The keep strategy, as published, made general and exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, prod
from typing import TYPE_CHECKING

from dask_io.errors import BudgetTooSmallError
from dask_io.geometry import Axis
from dask_io.planning.plan import Plan
from dask_io.planning.reads import Hold, ReadRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.planning.problem import Problem


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Length of the buffer along each axis, and along which axes what is left over is kept."""

    lengths: tuple[int, ...]
    kept: tuple[bool, ...]

    def stretched(self, axis: int, length: int, *, keep: bool) -> _Buffer:
        return _Buffer(
            (*self.lengths[:axis], length, *self.lengths[axis + 1 :]),
            (*self.kept[:axis], keep, *self.kept[axis + 1 :]),
        )


def plan_keep(problem: Problem) -> Plan:
    """Keep in memory what does not yet fill a target block, and write every block once.

    The buffer is stretched in storage order, fastest axis first, to the aggregate: whole
    source blocks that cover a target block. An axis that does not fit its aggregate takes
    the target's length; one that does not fit that either takes what fits and is flushed, and so
    are all slower ones. Atomic target blocks are never flushed in part. If memory is left,
    the buffer grows beyond the aggregate by whole source blocks along the axis with the
    largest remainder. The axis with the largest remainder is swept innermost. Whole target blocks
    are held where that is less work than to put them together from pieces.

    With plenty of memory every block is touched once. `plan_sweep` gets there with less.

    Raises
    ------
    BudgetTooSmallError
        If not even one element fits besides the staging.
    """
    n_axes, unit = len(problem.shape), "element and the staging it needs"
    smallest = _Buffer((1,) * n_axes, (False,) * n_axes)
    if problem.target.atomic:
        unit = "target block"
        smallest = _Buffer(tuple(max(1, n) for n in problem.target.grid.longest), (True,) * n_axes)
    least = _plan(problem, smallest)
    if not least.fits:
        required = problem.staging.budget_for(least.held_bytes)
        raise BudgetTooSmallError(required, problem.budget, unit)

    def fits(buffer: _Buffer) -> bool:
        # The buffer alone is held at least; most that is too large need no closer look.
        cell = prod(map(min, buffer.lengths, problem.shape)) * problem.itemsize
        return cell <= problem.holdable and _plan(problem, buffer).fits

    def fits_easily(buffer: _Buffer) -> bool:
        wanted = problem.staging.preferred
        return fits(buffer) and _plan(problem, buffer).held_bytes + wanted <= problem.budget

    buffer, complete = _stretch_to_aggregate(problem, smallest, fits)
    if complete and fits_easily(buffer):
        # Beyond the aggregate no seek is saved, so staging goes first.
        buffer = _stretch_beyond(problem, buffer, fits_easily)
    plan = _plan(problem, buffer)
    return plan.or_in_blocks(replace(plan, hold=Hold.BLOCKS))


def _plan(problem: Problem, buffer: _Buffer) -> Plan:
    reads = tuple(
        tuple(ReadRun(*run, keep) for run in Axis.regular(extent, length).runs)
        for extent, length, keep in zip(problem.shape, buffer.lengths, buffer.kept, strict=True)
    )
    # A stable sort: axes with equal remainders stay in storage order.
    order = sorted(problem.source.layout.axes, key=lambda axis: _remainder(problem, buffer, axis))
    return Plan(problem, tuple(order), reads, Hold.PIECES, "keep")


def _remainder(problem: Problem, buffer: _Buffer, axis: int) -> Fraction:
    """Return the largest part of an axis that can be left over after a read."""
    extent, length = problem.shape[axis], buffer.lengths[axis]
    if length >= extent or not buffer.kept[axis]:
        return Fraction(0)
    target = problem.target.grid.axes[axis].longest
    return Fraction(target - gcd(length, target), extent)


def _stretch_to_aggregate(
    problem: Problem, buffer: _Buffer, fits: Callable[[_Buffer], bool]
) -> tuple[_Buffer, bool]:
    """Stretch each axis to its aggregate, fastest first; tell whether all of them got there."""
    for axis in reversed(problem.source.layout.axes):
        extent = max(1, problem.shape[axis])
        source = max(1, problem.source.grid.axes[axis].longest)
        target = max(1, problem.target.grid.axes[axis].longest)
        aggregate = min(source * -(-target // source), extent)
        longer = [buffer.stretched(axis, n, keep=True) for n in (aggregate, target)]
        fitting = next(filter(fits, longer), None)
        if fitting is None:
            return _stretch_partly(buffer, axis, target, fits), False
        buffer = fitting
    return buffer, True


def _stretch_partly(
    buffer: _Buffer, axis: int, target: int, fits: Callable[[_Buffer], bool]
) -> _Buffer:
    """Stretch an axis as far as memory goes, and flush what is left over."""
    n_fitting = _largest(target, lambda n: fits(buffer.stretched(axis, n, keep=False)))
    return buffer.stretched(axis, n_fitting, keep=False)


def _stretch_beyond(problem: Problem, buffer: _Buffer, fits: Callable[[_Buffer], bool]) -> _Buffer:
    """Add whole source blocks, along the axis with the largest remainder first."""
    axes = range(len(buffer.lengths))
    for axis in sorted(axes, key=lambda axis: -_remainder(problem, buffer, axis)):
        buffer = _stretch_axis(problem, buffer, axis, fits)
    return buffer


def _stretch_axis(
    problem: Problem, buffer: _Buffer, axis: int, fits: Callable[[_Buffer], bool]
) -> _Buffer:
    """Add as many whole source blocks along one axis as fit."""
    source, extent = problem.source.grid.axes[axis].longest, problem.shape[axis]
    length = buffer.lengths[axis]
    if length >= extent or length % source:
        return buffer

    def longer(n_blocks: int) -> _Buffer:
        return buffer.stretched(axis, min(n_blocks * source, extent), keep=True)

    n_now, n_all = length // source, -(-extent // source)
    n_more = _largest(n_all - n_now + 1, lambda n: fits(longer(n_now + n - 1)))
    return longer(n_now + n_more - 1)


def _largest(limit: int, fits: Callable[[int], bool]) -> int:
    """Return a large number up to `limit` that fits, knowing that 1 does, by bisection."""
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
