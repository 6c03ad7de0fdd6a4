"""The strategies of Hayot-Sasson et al. (2017) to split one file and to merge into one file.

Both read as much of the one big file as fits in memory, write it, and carry nothing. They differ
in the unit: whole blocks of the other side, or single elements. They are included for comparison.
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
    """Split or merge as many neighbouring whole blocks at a time as fit in memory.

    Every block is touched once. The big file is touched once for each cluster, if memory holds all
    blocks at one position along the slowest axis. A cluster smaller than a row of blocks needs a
    seek for each row of elements. `plan_multiple` is better then.

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
    """Split or merge contiguous ranges of the big file that are as long as memory allows.

    The big file is touched once for each range. Each range reopens every block that it overlaps:
    with one seek if ranges are whole planes of the big file and the blocks have the same storage
    order, with many seeks if memory is smaller than a plane.

    A range is a box: whole rows, whole planes, and so on, never a row and a half.

    Raises
    ------
    BudgetTooSmallError
        If not even one element fits in addition to the staging.
    UsageError
        If neither the source nor the target is one block, or target blocks are atomic.
    """
    layout, _, _ = _big_and_small(problem, "multiple")
    elements = tuple(Axis.regular(length, 1) for length in problem.shape)
    unit = "element with its staging"
    return _plan(problem, layout, elements, strategy="multiple", unit=unit)


def is_for_previous(problem: Problem) -> bool:
    """Tell whether the source or the target is one block, and target blocks are not atomic."""
    n_fewest = min(problem.source.grid.n_blocks, problem.target.grid.n_blocks)
    return n_fewest <= 1 and not problem.target.atomic


def _big_and_small(problem: Problem, strategy: str) -> tuple[Layout, tuple[Axis, ...], str]:
    """Return the layout of the side that is one block, and the blocks of the other."""
    if problem.target.atomic:
        raise UsageError(
            f"strategy {strategy} writes parts of blocks, but this target needs whole blocks; "
            "use --strategy auto"
        )
    if not is_for_previous(problem):
        n_source, n_target = problem.source.grid.n_blocks, problem.target.grid.n_blocks
        raise UsageError(
            f"strategy {strategy} needs one source block or one target block, but there are "
            f"{n_source} source blocks and {n_target} target blocks; use --strategy auto"
        )
    if problem.target.grid.n_blocks <= 1:
        return problem.target.layout, problem.source.grid.axes, "source"
    return problem.source.layout, problem.target.grid.axes, "target"


def _plan(
    problem: Problem, layout: Layout, units: tuple[Axis, ...], *, strategy: str, unit: str
) -> Plan:
    """Read boxes of whole units, extended in storage order as far as memory allows."""
    smallest = prod(axis.longest for axis in units) * problem.itemsize
    if problem.holdable < smallest:
        required = problem.staging.budget_for(smallest)
        raise BudgetTooSmallError(required, problem.budget, unit)
    cells = stretch(units, layout, problem.holdable // problem.itemsize)
    reads = tuple(tuple(ReadRun(*run, keep=False) for run in axis.runs) for axis in cells)
    return Plan(problem, layout.axes, reads, Hold.BLOCKS, strategy)


def stretch(units: Sequence[Axis], layout: Layout, room: int) -> tuple[Axis, ...]:
    """Join units into boxes of at most `room` elements, extended in storage order.

    A box has at least one unit, even if this exceeds `room`.

    Examples
    --------
    >>> from dask_io.geometry import Layout
    >>> [axis.runs for axis in stretch([Axis.regular(8, 2)] * 2, Layout.c(2), 40)]
    [((4, 2),), ((8, 1),)]
    """
    cells, box = list(units), [max(1, axis.longest) for axis in units]
    # An empty array always fits.
    room = max(room, prod(box))
    for axis in reversed(layout.axes):
        longest = room * box[axis] // prod(box)
        cells[axis] = _grouped(units[axis], longest)
        if longest < units[axis].length:
            break
        box[axis] = max(1, units[axis].length)
    return tuple(cells)


def _grouped(axis: Axis, longest: int) -> Axis:
    """Join neighbouring blocks into cells of at most this length; no block is longer.

    Examples
    --------
    >>> _grouped(Axis.regular(10, 3), 7).runs, _grouped(Axis.of([2, 2, 5, 1]), 6).runs
    (((6, 1), (4, 1)), ((4, 1), (6, 1)))
    """
    runs: list[tuple[int, int]] = []
    # Length of the cell that is not full yet.
    open_length = 0
    for length, count in axis.runs:
        n_joining = min(count, (longest - open_length) // length)
        open_length += n_joining * length
        if n_joining == count:
            continue
        in_cell = longest // length
        n_cells, n_rest = divmod(count - n_joining - 1, in_cell)
        runs += [(open_length, 1), (in_cell * length, n_cells)]
        open_length = (n_rest + 1) * length
    runs.append((open_length, 1))
    return Axis(tuple((length, count) for length, count in runs if length * count))
