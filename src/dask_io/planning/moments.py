"""Moments of a run: single steps, and the memory at each, without the steps in between.

The memory at a step follows from its place alone (see docs/explanation/plans.md). So a picture of a
run with a billion steps takes as long as that of a run with a thousand.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from dask_io.planning.reads import AxisPlan, AxisStep, Hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dask_io.planning.plan import Plan

    # Chooses some of the read cells along an axis, by their numbers in reading order.
    _Choose = Callable[[int, AxisPlan], Sequence[int]]


class Moment(NamedTuple):
    """A step of a run, and the number of elements read, written and held.

    Attributes
    ----------
    along
        The step along each axis.
    n_read
        Elements that have been read once the step's cell has been read.
    n_written
        Elements that have been written once the step's complete cells have been written.
    n_held
        Elements in memory before these are written.
    n_carried
        Elements in memory after these have been written.
    """

    along: tuple[AxisStep, ...]
    n_read: int
    n_written: int
    n_held: int
    n_carried: int


def sample_moments(plan: Plan, most: int) -> Iterator[Moment]:
    """Yield at most about `most` moments, evenly spread over the run; all of a short run.

    Examples
    --------
    >>> from dask_io.planning import Problem, plan_sweep
    >>> plan = plan_sweep(Problem.regular((12, 12), (4, 4), (6, 6), budget=65536))
    >>> [(each.n_read, each.n_held, each.n_carried) for each in sample_moments(plan, 100)]
    [(64, 64, 28), (96, 60, 24), (128, 56, 20), (144, 36, 0)]
    """
    n_chosen, left = {}, most
    for depth, axis in enumerate(plan.order):
        n_cells = max(each.axes[axis].ends.n_blocks for each in plan.uniform_slabs)
        share = round(left ** (1 / (len(plan.order) - depth)))
        # Axes with few cells leave more moments to the others.
        n_chosen[axis] = n_cells if plan.n_steps <= most else min(n_cells, max(2, share))
        left = max(1, left // max(1, n_chosen[axis]))

    def choose(axis: int, along: AxisPlan) -> Sequence[int]:
        return _spread(along.ends.n_blocks, n_chosen[axis])

    yield from _moments(plan, choose)


def moments_in_corner(plan: Plan, shape: Sequence[int]) -> Iterator[Moment]:
    """Yield the moments of all steps that read a part of the corner where the run begins.

    Axes that are swept backwards begin at their end.
    """

    def choose(axis: int, along: AxisPlan) -> Sequence[int]:
        ends = along.ends
        last = min(shape[axis], ends.length) - 1
        return range(1 + ends.index_at(last)) if last >= 0 else ()

    yield from _moments(plan, choose)


def _spread(n_cells: int, most: int) -> Sequence[int]:
    """Return numbers of cells that are evenly spread, with the first and the last."""
    if n_cells <= most:
        return range(n_cells)
    return sorted({place * (n_cells - 1) // (most - 1) for place in range(most)})


class _Place(NamedTuple):
    """The bounds of a step along one axis in reading direction: read, touched and done."""

    read: tuple[int, int]
    touched: tuple[int, int]
    done: tuple[int, int]


def _moments(plan: Plan, choose: _Choose) -> Iterator[Moment]:
    if not plan.order:
        return
    yield from _within(plan, choose, {})


def _within(plan: Plan, choose: _Choose, chosen: dict[int, _Place]) -> Iterator[Moment]:
    if len(chosen) == len(plan.order):
        yield _moment(plan, chosen)
        return
    axis = plan.order[len(chosen)]
    along = _forwards(plan, axis, chosen)
    for number in choose(axis, along):
        start, stop = along.ends.start_of(number), along.ends.start_of(number + 1)
        done = along.write_floor(start), along.write_floor(stop)
        touched = along.write_ceil(start), along.write_ceil(stop)
        yield from _within(plan, choose, {**chosen, axis: _Place((start, stop), touched, done)})


def _forwards(plan: Plan, axis: int, chosen: dict[int, _Place]) -> AxisPlan:
    """Return the plan along an axis, mirrored if it is swept backwards."""
    along, slabs = plan.axes[axis], plan.slabs
    if slabs is not None and axis == slabs.inner:
        start, _ = _as_stored(plan, slabs.outer, chosen[slabs.outer].read)
        reads = slabs.reads_at(start)
        along = along if reads is None else replace(along, reads=reads)
    return along.mirrored if along.backwards else along


def _moment(plan: Plan, chosen: dict[int, _Place]) -> Moment:
    lengths = [plan.axes[axis].ends.length for axis in plan.order]
    places = [chosen[axis] for axis in plan.order]
    n_before, n_cell = _volume([place.read for place in places], lengths)
    n_done, n_completed = _volume([place.done for place in places], lengths)
    n_taken = n_before + n_cell
    if plan.hold is Hold.BLOCKS:
        n_taken = sum(_volume([place.touched for place in places], lengths))
    along = tuple(
        AxisStep(
            *_as_stored(plan, axis, chosen[axis].read), *_as_stored(plan, axis, chosen[axis].done)
        )
        for axis in range(len(lengths))
    )
    n_written = n_done + n_completed
    return Moment(along, n_before + n_cell, n_written, n_taken - n_done, n_taken - n_written)


def _as_stored(plan: Plan, axis: int, bounds: tuple[int, int]) -> tuple[int, int]:
    """Return bounds in the coordinates of the array, given those in reading direction."""
    along = plan.axes[axis]
    if not along.backwards:
        return bounds
    return along.ends.length - bounds[1], along.ends.length - bounds[0]


def _volume(bounds: Sequence[tuple[int, int]], lengths: Sequence[int]) -> tuple[int, int]:
    """Return the elements before a cell in the order of the steps, and those of the cell."""
    before, n_outer = 0, 1
    for depth, (low, high) in enumerate(bounds):
        before += n_outer * low * prod(lengths[depth + 1 :])
        n_outer *= high - low
    return before, n_outer
