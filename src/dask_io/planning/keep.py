"""The keep strategy: the published algorithm, generalized and exact."""

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
    """Length of the buffer along each axis, and whether remainders along it are kept."""

    lengths: tuple[int, ...]
    kept: tuple[bool, ...]

    def stretched(self, axis: int, length: int, *, keep: bool) -> _Buffer:
        return _Buffer(
            (*self.lengths[:axis], length, *self.lengths[axis + 1 :]),
            (*self.kept[:axis], keep, *self.kept[axis + 1 :]),
        )


def plan_keep(problem: Problem) -> Plan:
    """Keep incomplete target blocks in memory, and write every block once.

    The buffer grows in storage order, fastest axis first, to the aggregate: whole source blocks
    that cover a target block. If the aggregate does not fit along an axis, the length of a target
    block is used. If this does not fit either, the axis gets the length that fits and is flushed,
    and so are all slower axes. Atomic target blocks are never flushed in part. If memory is left,
    the buffer grows beyond the aggregate by whole source blocks, along the axis with the largest
    remainder. This axis is swept innermost. Whole target blocks are held if this is less work than
    assembling them from pieces.

    With enough memory, every block is touched once. `plan_sweep` needs less memory for this.

    Raises
    ------
    BudgetTooSmallError
        If not even one element fits in addition to the staging.
    """
    n_axes, unit = len(problem.shape), "element with its staging"
    smallest = _Buffer((1,) * n_axes, (False,) * n_axes)
    if problem.target.atomic:
        unit = "target block"
        smallest = _Buffer(tuple(max(1, n) for n in problem.target.grid.longest), (True,) * n_axes)
    least = _plan(problem, smallest)
    if not least.fits:
        required = problem.staging.budget_for(least.held_bytes)
        raise BudgetTooSmallError(required, problem.budget, unit)

    def fits(buffer: _Buffer) -> bool:
        # At least the buffer itself is held, which rules out most large buffers quickly.
        cell = prod(map(min, buffer.lengths, problem.shape)) * problem.itemsize
        return cell <= problem.holdable and _plan(problem, buffer).fits

    def fits_easily(buffer: _Buffer) -> bool:
        wanted = problem.staging.preferred
        return fits(buffer) and _plan(problem, buffer).held_bytes + wanted <= problem.budget

    buffer, complete = _stretch_to_aggregate(problem, smallest, fits)
    if complete and fits_easily(buffer):
        # A buffer beyond the aggregate saves no seeks, so staging has priority.
        buffer = _stretch_beyond(problem, buffer, fits_easily)
    plan = _plan(problem, buffer)
    return plan.or_in_blocks(replace(plan, hold=Hold.BLOCKS))


def _plan(problem: Problem, buffer: _Buffer) -> Plan:
    reads = tuple(
        tuple(ReadRun(*run, keep) for run in Axis.regular(extent, length).runs)
        for extent, length, keep in zip(problem.shape, buffer.lengths, buffer.kept, strict=True)
    )
    # The sort is stable: axes with equal remainders stay in storage order.
    order = sorted(problem.source.layout.axes, key=lambda axis: _remainder(problem, buffer, axis))
    return Plan(problem, tuple(order), reads, Hold.PIECES, "keep")


def _remainder(problem: Problem, buffer: _Buffer, axis: int) -> Fraction:
    """Return the largest fraction of an axis that can remain after a read."""
    extent, length = problem.shape[axis], buffer.lengths[axis]
    if length >= extent or not buffer.kept[axis]:
        return Fraction(0)
    target = problem.target.grid.axes[axis].longest
    return Fraction(target - gcd(length, target), extent)


def _stretch_to_aggregate(
    problem: Problem, buffer: _Buffer, fits: Callable[[_Buffer], bool]
) -> tuple[_Buffer, bool]:
    """Extend each axis to its aggregate, fastest first; tell whether all aggregates fit."""
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
    """Extend an axis as far as memory allows, and flush the remainder."""
    n_fitting = _largest(target, lambda n: fits(buffer.stretched(axis, n, keep=False)))
    return buffer.stretched(axis, n_fitting, keep=False)


def _stretch_beyond(problem: Problem, buffer: _Buffer, fits: Callable[[_Buffer], bool]) -> _Buffer:
    """Add whole source blocks along every axis, the axis with the largest remainder first."""
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
    """Return a large number up to `limit` that fits, by bisection; 1 must fit."""
    low, high = 1, limit
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
