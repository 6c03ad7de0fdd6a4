"""Streams: sides that can be moved in storage order, so that some cuts need no seeks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dask_io.geometry import Grid, cut_axis
from dask_io.planning.sweep.structures import space_between

if TYPE_CHECKING:
    from dask_io.planning.plan import Plan
    from dask_io.planning.problem import Side
    from dask_io.planning.sweep.structures import Space


def streamed_space(space: Space) -> Space | None:
    """Return the space in which streams are cut at the boundaries of the other side, if any.

    A plan that cuts no block of that space touches every block of this space once.
    """
    sides = space.source, space.target
    forwards = frozenset(side.layout.axes[0] for side in sides if _is_stream(side))
    if not forwards or any(space.pairs[axis].is_long for axis in forwards):
        return None
    cut = _cut(*sides), _cut(*sides[::-1])
    return None if cut == sides else space_between(*cut, forwards)


def _cut(side: Side, other: Side) -> Side:
    """Cut a side along its slowest axis if it is a stream."""
    if not _is_stream(side):
        return side
    axes, slowest = list(side.grid.axes), side.layout.axes[0]
    axes[slowest] = cut_axis(axes[slowest], other.grid.axes[slowest])
    return replace(side, stored=Grid(tuple(axes)), window=None)


def as_stream(plan: Plan) -> Plan:
    """Convert a plan of the streamed space: streams are moved piece by piece.

    If the target is a stream, nothing is kept along its slowest axis.
    """
    target, reads = plan.problem.target, list(plan.reads)
    if _is_stream(target):
        slowest = target.layout.axes[0]
        reads[slowest] = tuple(run._replace(keep=False) for run in reads[slowest])
    return replace(plan, reads=tuple(reads), streams=True)


def _is_stream(side: Side) -> bool:
    """Tell whether a side can be moved in storage order if it is cut along no other axis."""
    return side.is_stacked and not any(any(side.partial[axis]) for axis in side.layout.axes[1:])
