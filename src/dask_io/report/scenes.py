"""The scenes of a report: the blocks of a plan and the steps that move them, of bounded size."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.planning import CopyPlan, Plan, Series, SpillPlan, Sweeps
from dask_io.planning.moments import moments_in_corner, sample_moments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dask_io.geometry import Axis
    from dask_io.planning import AnyPlan
    from dask_io.planning.problem import Side
    from dask_io.planning.reads import AxisPlan, AxisStep

# The most steps, blocks along an axis, boundaries along an axis, and scenes of a page.
_MOST_STEPS, _MOST_BLOCKS, _MOST_BOUNDARIES, _MOST_SCENES = 1500, 40, 300, 12
# About the most points of a curve of memory.
_MOST_POINTS = 600


class NamedPlan(NamedTuple):
    """A plan that moves elements from blocks to blocks, and its name among others."""

    name: str
    plan: Plan
    array: str = ""
    """The array that it moves, if there are several."""


def plans_in(plan: AnyPlan | Sweeps | Series) -> Iterator[NamedPlan]:
    """Yield the plans of single sweeps that a plan consists of, in the order of the run."""
    match plan:
        case Plan():
            yield NamedPlan("", plan)
        case CopyPlan():
            yield NamedPlan("", plan.moves)
        case SpillPlan():
            yield NamedPlan("pass 1: source to scratch blocks", plan.first)
            yield NamedPlan("pass 2: scratch blocks to target", plan.second)
        case Series():
            for name, each in plan.plans.items():
                for inner, found, _ in plans_in(each):
                    yield NamedPlan(f"{name}, {inner}" if inner else name, found, name)
        case Sweeps():
            members = zip(plan.groups, plan.bundles, strict=True)
            for group, bundle in members:
                for number, found in zip(group, bundle.members, strict=True):
                    yield NamedPlan(f"target {number + 1}", found)


def scenes_to_json(
    plan: AnyPlan | Sweeps | Series, names: Mapping[str, Sequence[str | None]]
) -> dict[str, Any]:
    """Return the scenes of a plan; the first ones if there are many.

    `names` are those of the axes of each array, or of a single array without a name.
    """
    found = list(plans_in(plan))
    return {
        "scenes": [
            {**_scene(each.plan), "name": each.name, "axes": names.get(each.array) or ()}
            for each in found[:_MOST_SCENES]
        ],
        "left_out": max(0, len(found) - _MOST_SCENES),
    }


def memory_curve(plan: AnyPlan | Sweeps | Series) -> list[tuple[float, int]]:
    """Return the predicted array data in memory, by the part of the bytes that has been moved.

    The curve is empty if several targets share one sweep, or the run has no steps.

    Examples
    --------
    >>> from dask_io.planning import Problem, plan_sweep
    >>> plan = plan_sweep(Problem.regular((12, 12), (4, 4), (6, 6), budget=65536))
    >>> [(round(part, 2), held) for part, held in memory_curve(plan)][:4]
    [(0.0, 0), (0.22, 64), (0.35, 28), (0.46, 60)]
    """
    if isinstance(plan, Sweeps) and any(len(bundle.members) > 1 for bundle in plan.bundles):
        return []
    plans = [each.plan for each in plans_in(plan)]
    total = sum(each.problem.n_bytes for each in plans)
    if isinstance(plan, CopyPlan) or not total or len(plans) > _MOST_POINTS:
        return []
    points, before = [(0.0, 0)], 0.0
    for each in plans:
        part = each.problem.n_bytes / total
        points += [(before + x * part, y) for x, y in _curve(each, _MOST_POINTS // len(plans))]
        before += part
    return points


def _curve(plan: Plan, most: int) -> Iterator[tuple[float, int]]:
    twice, itemsize = 2 * prod(plan.problem.shape), plan.problem.itemsize
    for moment in sample_moments(plan, max(8, most)):
        completed = moment.n_held - moment.n_carried
        moved = moment.n_read + moment.n_written
        yield (moved - completed) / twice, moment.n_held * itemsize
        yield moved / twice, moment.n_carried * itemsize


def _scene(plan: Plan) -> dict[str, Any]:
    problem, corner = plan.problem, _corner(plan)
    along: list[dict[AxisStep, int]] = [{} for _ in plan.axes]
    steps = []
    for moment in moments_in_corner(plan, corner):
        placed = zip(along, moment.along, strict=True)
        places = [table.setdefault(each, len(table)) for table, each in placed]
        held, carried = (n * problem.itemsize for n in (moment.n_held, moment.n_carried))
        steps.append([*places, moment.n_read * problem.itemsize, held, carried])
    bounds = [
        (length - size, length) if axis in plan.backwards else (0, size)
        for axis, (length, size) in enumerate(zip(problem.shape, corner, strict=True))
    ]
    return {
        "shape": problem.shape,
        "order": plan.order,
        "bytes": problem.n_bytes,
        "corner": bounds,
        "is_whole": tuple(corner) == problem.shape,
        "source": _side(problem.source, bounds),
        "target": _side(problem.target, bounds),
        "n_steps": plan.n_steps,
        # Each step has the number of its bounds along each axis, then bytes: read so far, held
        # before complete blocks are written, held afterwards.
        "along": [list(table) for table in along],
        # Whether what such a step writes along the axis consists of whole blocks.
        "whole": [
            [_is_whole(axis, each) for each in table]
            for axis, table in zip(problem.target.grid.axes, along, strict=True)
        ],
        "steps": steps,
    }


def _is_whole(axis: Axis, step: AxisStep) -> bool:
    start, stop = step.done_start, step.done_stop
    return stop <= start or (axis.floor(start) == start and axis.ceil(stop) == stop)


def _side(side: Side, bounds: Sequence[tuple[int, int]]) -> dict[str, Any]:
    return {
        "format": side.format,
        "blocks": side.grid.n_blocks,
        "longest": side.grid.longest,
        "bounds": [
            _boundaries(axis, *each) for axis, each in zip(side.grid.axes, bounds, strict=True)
        ],
    }


def _boundaries(axis: Axis, low: int, high: int) -> list[int] | None:
    """Return the boundaries between blocks within a range; None if they are too many to draw."""
    if low >= high:
        return []
    first, last = axis.index_at(low) + 1, axis.index_at(high - 1)
    if last - first > _MOST_BOUNDARIES:
        return None
    return [axis.start_of(index) for index in range(first, last + 1)]


def _corner(plan: Plan) -> tuple[int, ...]:
    """Return the size of the corner to show: the whole array, or where a long run begins."""
    size = list(plan.problem.shape)
    while True:
        cells = [_count_cells(along, length) for along, length in zip(plan.axes, size, strict=True)]
        sides = plan.problem.source.grid.axes, plan.problem.target.grid.axes
        # Blocks that are thin on one side only are drawn as a shade.
        blocks = [
            min(_count_blocks(grid[axis], length) for grid in sides)
            for axis, length in enumerate(size)
        ]
        longest = max(range(len(size)), key=lambda axis: (blocks[axis], cells[axis]), default=None)
        many_steps = prod(cells) > _MOST_STEPS
        if longest is None or not (many_steps or blocks[longest] > _MOST_BLOCKS):
            return tuple(size)
        if many_steps and blocks[longest] <= _MOST_BLOCKS:
            longest = max(range(len(size)), key=lambda axis: cells[axis])
        if cells[longest] <= 1 and blocks[longest] <= 1:
            return tuple(size)
        half = -(-size[longest] // 2)
        target = plan.problem.target.grid.axes[longest]
        whole = target.mirrored.ceil(half) if longest in plan.backwards else target.ceil(half)
        size[longest] = whole if whole < size[longest] else half


def _count_cells(along: AxisPlan, length: int) -> int:
    ends = (along.mirrored if along.backwards else along).ends
    return _count_blocks(ends, length)


def _count_blocks(axis: Axis, length: int) -> int:
    return 1 + axis.index_at(length - 1) if length else 0
