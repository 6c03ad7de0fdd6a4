"""The strategies of Hayot-Sasson et al. (2017) for one file to many and many to one.

Both fill memory with as much as fits of the one big file, read it and write it, and carry
nothing. They differ in the unit: whole blocks of the side with many, or single elements. They are
here to be compared with.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dask_io.errors import BudgetTooSmallError, UsageError
from dask_io.geometry import Axis
from dask_io.planning.plan import Plan
from dask_io.planning.reads import Hold, ReadRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.geometry import Layout
    from dask_io.planning.problem import Problem


def plan_clustered(problem: Problem) -> Plan:
    """Split or merge as many whole blocks at a time as fit, next to each other in the big file.

    Blocks are touched once each. The big file is touched once for each cluster only if
    memory holds all blocks that share its slowest axis; a cluster of less than a row of
    blocks costs a seek for each row of elements. `plan_multiple` is better then.

    Raises
    ------
    BudgetTooSmallError
        If one block does not fit.
    UsageError
        If neither the source nor the target is one block, or target blocks are atomic.
    """
    layout, blocks, word = _big_and_small(problem, "clustered")
    return _plan(problem, layout, blocks, strategy="clustered", unit=f"{word} block")


def plan_multiple(problem: Problem) -> Plan:
    """Split or merge ranges of the big file, as long as fit.

    The big file is touched once for each range. Every block that a range goes through is opened
    again for it: one seek as long as ranges are whole planes of the big file and the blocks
    lie in the same order, many if memory is smaller than such a plane.

    A range is a box here: whole rows, or whole planes, and so on, and never a row and a half.

    Raises
    ------
    BudgetTooSmallError
        If not even one element fits besides the staging.
    UsageError
        If neither the source nor the target is one block, or target blocks are atomic.
    """
    layout, _, _ = _big_and_small(problem, "multiple")
    elements = tuple(Axis.regular(length, 1) for length in problem.shape)
    unit = "element and the staging it needs"
    return _plan(problem, layout, elements, strategy="multiple", unit=unit)


def is_for_previous(problem: Problem) -> bool:
    """Tell whether the source or the target is one block, and target blocks may be cut."""
    n_fewest = min(problem.source.grid.n_blocks, problem.target.grid.n_blocks)
    return n_fewest <= 1 and not problem.target.atomic


def _big_and_small(problem: Problem, strategy: str) -> tuple[Layout, tuple[Axis, ...], str]:
    """Return the layout of the side that is one block, and the blocks of the other."""
    if problem.target.atomic:
        raise UsageError(
            f"strategy {strategy} writes blocks in parts, but the target's are written whole; "
            "use --strategy auto"
        )
    if not is_for_previous(problem):
        n_source, n_target = problem.source.grid.n_blocks, problem.target.grid.n_blocks
        raise UsageError(
            f"strategy {strategy} splits one block or merges into one, but here {n_source} blocks "
            f"become {n_target}; use --strategy auto"
        )
    if problem.target.grid.n_blocks <= 1:
        return problem.target.layout, problem.source.grid.axes, "source"
    return problem.source.layout, problem.target.grid.axes, "target"


def _plan(
    problem: Problem, layout: Layout, units: tuple[Axis, ...], *, strategy: str, unit: str
) -> Plan:
    """Read boxes of whole units, stretched in storage order as far as memory goes."""
    smallest = prod(axis.longest for axis in units) * problem.itemsize
    if problem.holdable < smallest:
        required = problem.staging.budget_for(smallest)
        raise BudgetTooSmallError(required, problem.budget, unit)
    cells = stretch(units, layout, problem.holdable // problem.itemsize)
    reads = tuple(tuple(ReadRun(*run, keep=False) for run in axis.runs) for axis in cells)
    return Plan(problem, layout.axes, reads, Hold.BLOCKS, strategy)


def stretch(units: Sequence[Axis], layout: Layout, room: int) -> tuple[Axis, ...]:
    """Join units to boxes of at most `room` elements, stretched in storage order.

    A box is one unit at the least, whatever room there is.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> [axis.runs for axis in stretch([Axis.regular(8, 2)] * 2, Layout.c(2), 40)]
    [((4, 2),), ((8, 1),)]
    """
    cells, box = list(units), [max(1, axis.longest) for axis in units]
    # An empty array fits any room.
    room = max(room, prod(box))
    for axis in reversed(layout.axes):
        longest = room * box[axis] // prod(box)
        cells[axis] = _grouped(units[axis], longest)
        if longest < units[axis].length:
            break
        box[axis] = max(1, units[axis].length)
    return tuple(cells)


def _grouped(axis: Axis, longest: int) -> Axis:
    """Join neighbours to cells of at most this length; each of them alone is no longer.

    Examples
    --------
    >>> _grouped(Axis.regular(10, 3), 7).runs, _grouped(Axis.of([2, 2, 5, 1]), 6).runs
    (((6, 1), (4, 1)), ((4, 1), (6, 1)))
    """
    runs: list[tuple[int, int]] = []
    begun = 0
    for length, count in axis.runs:
        n_joining = min(count, (longest - begun) // length)
        begun += n_joining * length
        if n_joining == count:
            continue
        # The last cell stays open for what follows.
        in_cell = longest // length
        n_cells, n_begun = divmod(count - n_joining - 1, in_cell)
        runs += [(begun, 1), (in_cell * length, n_cells)]
        begun = (n_begun + 1) * length
    runs.append((begun, 1))
    return Axis(tuple((length, count) for length, count in runs if length * count))
