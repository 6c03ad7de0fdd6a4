"""The spill strategy: two passes through scratch blocks, if memory is too small for one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm, prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dask_io.errors import BudgetTooSmallError
from dask_io.geometry import Grid, count_segments, cut_axis
from dask_io.planning.boxes import fitting_boxes
from dask_io.planning.problem import Side
from dask_io.planning.reread import box_plan
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Self

    from dask_io.geometry import Axis
    from dask_io.planning.copy import CopyPlan
    from dask_io.planning.plan import Plan, Seeks
    from dask_io.planning.problem import Problem


@dataclass(frozen=True)
class SpillPlan:
    """Two plans that run in order: from the source to scratch blocks, then to the target.

    The costs of both add up. The memory is that of the larger plan.
    """

    problem: Problem
    first: Plan
    second: Plan
    strategy: str = "spill"

    def __str__(self) -> str:
        space = format_bytes(self.scratch_bytes)
        head = f"spill plan: two passes, through {space} of scratch blocks of {self.scratch.grid}"
        total = (
            f"in all {self.seeks.total:,} seeks, {format_bytes(self.n_bytes_read)} read, "
            f"{format_bytes(self.n_bytes_written)} written, at most "
            f"{format_bytes(self.peak_bytes)} of memory"
        )
        return "\n".join([head, str(self.first), str(self.second), total])

    @property
    def passes(self) -> tuple[Plan, Plan]:
        """Both plans, in order."""
        return self.first, self.second

    @property
    def scratch(self) -> Side:
        """The scratch blocks."""
        return self.first.problem.target

    @property
    def seeks(self) -> Seeks:
        """Number of seeks, including those of scratch blocks."""
        return self.first.seeks + self.second.seeks

    @property
    def openings(self) -> int:
        """Visits to blocks, including scratch blocks."""
        return sum(each.openings for each in self.passes)

    @property
    def n_placements(self) -> int:
        """Number of copies in both passes."""
        return sum(each.n_placements for each in self.passes)

    @property
    def coding_seconds(self) -> float:
        """Estimated seconds to decode and encode; scratch blocks are not encoded."""
        return sum(each.coding_seconds for each in self.passes)

    @property
    def n_steps(self) -> int:
        """Number of read cells in both passes."""
        return sum(each.n_steps for each in self.passes)

    @property
    def decodes(self) -> int:
        """How many times source blocks are decoded, summed over all atomic blocks."""
        return self.first.decodes

    @property
    def n_bytes_read(self) -> int:
        """Bytes read, including scratch blocks."""
        return sum(each.n_bytes_read for each in self.passes)

    @property
    def n_bytes_written(self) -> int:
        """Bytes written, including scratch blocks."""
        return 2 * self.problem.n_bytes

    @property
    def held_bytes(self) -> int:
        """The most bytes of array data held at any moment."""
        return max(each.held_bytes for each in self.passes)

    @property
    def touched_bytes(self) -> int:
        """Memory touched for the first time, including an equivalent for copies; see `Plan`."""
        copying = sum(each.touched_bytes - each.held_bytes for each in self.passes)
        return self.held_bytes + copying

    @property
    def staging_bytes(self) -> int:
        """Bytes of staging in the pass with the larger peak."""
        return self.peak_bytes - self.held_bytes

    @property
    def peak_bytes(self) -> int:
        """Peak memory of the run, in bytes."""
        return max(each.peak_bytes for each in self.passes)

    @property
    def scratch_bytes(self) -> int:
        """Scratch space in bytes."""
        return self.problem.n_bytes

    @property
    def disk_bytes(self) -> int:
        """Peak disk space of the run, in addition to the source."""
        return self.scratch_bytes + self.problem.n_bytes

    def flushed_at(self, cuts: Sequence[Collection[int]]) -> SpillPlan:
        """Return this plan with write cells that also end at these positions; see `Plan`."""
        return replace(self, second=self.second.flushed_at(cuts))

    def reading_through(self, n_axes: int) -> Self:
        """Return this plan with source blocks read whole along the `n_axes` fastest axes.

        Scratch blocks are always read whole.
        """
        problem, first = self.problem.reading_through(n_axes), self.first.reading_through(n_axes)
        return replace(self, problem=problem, first=first)

    @property
    def fits(self) -> bool:
        """Whether both passes fit in the budget."""
        return all(each.fits for each in self.passes)


AnyPlan: TypeAlias = "Plan | SpillPlan | CopyPlan"
"""The plans that strategies return."""


def plan_spill(problem: Problem) -> SpillPlan:
    """Read every source block once, write every target block once, and use scratch space between.

    The first pass reads boxes of whole source blocks and divides each into scratch blocks. The
    second pass assembles boxes of whole target blocks from scratch blocks. A scratch block is the
    intersection of a box of each pass, so both passes move it whole, in one run. The boxes are
    chosen for the fewest, and so the largest, scratch blocks that memory allows. The two passes
    move twice the bytes, and need scratch space for the whole array.

    Raises
    ------
    BudgetTooSmallError
        If one source block or one target block does not fit.
    """
    largest = problem.holdable // max(1, problem.itemsize)
    sides = (problem.source.grid, problem.target.grid)
    first, second = (list(fitting_boxes(grid, largest)) for grid in sides)
    if not (first and second):
        block = max(prod(grid.longest) for grid in sides) * problem.itemsize
        required = problem.staging.budget_for(block)
        raise BudgetTooSmallError(required, problem.budget, "block")
    read_boxes, write_boxes = _with_fewest_pieces(first, second)
    return _plan_through(problem, read_boxes, write_boxes)


def _with_fewest_pieces(
    first: Sequence[tuple[Axis, ...]], second: Sequence[tuple[Axis, ...]]
) -> tuple[tuple[Axis, ...], tuple[Axis, ...]]:
    """Return the boxes of both passes whose intersections are the fewest scratch blocks."""
    totals = np.ones((len(first), len(second)))
    # There are few different lengths along each axis, but many pairs of boxes.
    for ours, theirs in zip(zip(*first, strict=True), zip(*second, strict=True), strict=True):
        (a, rows), (b, columns) = _numbered(ours), _numbered(theirs)
        counts = np.array([[float(_count_pieces(x, y)) for y in b] for x in a])
        totals *= counts[np.ix_(rows, columns)]
    row, column = map(int, np.unravel_index(totals.argmin(), totals.shape))
    return first[row], second[column]


def _numbered(axes: Sequence[Axis]) -> tuple[list[Axis], list[int]]:
    """Return the distinct axes, and for each axis its index among them."""
    numbers: dict[Axis, int] = {}
    places = [numbers.setdefault(axis, len(numbers)) for axis in axes]
    return list(numbers), places


def _count_pieces(first: Axis, second: Axis) -> int:
    """Return the number of scratch blocks along an axis.

    Two regular axes have common boundaries at the common multiples of their block lengths.

    Examples
    --------
    >>> from dask_io.geometry import Axis
    >>> _count_pieces(Axis.regular(12, 4), Axis.regular(12, 3))
    6
    """
    if first.chunk is None or second.chunk is None:
        return count_segments(first, second)
    n_common = (first.length - 1) // lcm(first.chunk, second.chunk)
    return first.n_blocks + second.n_blocks - 1 - n_common


def _plan_through(problem: Problem, first: tuple[Axis, ...], second: tuple[Axis, ...]) -> SpillPlan:
    grid = Grid(tuple(map(cut_axis, first, second)))
    scratch = Side(grid, problem.target.layout)
    return SpillPlan(
        problem,
        box_plan(replace(problem, target=scratch), first, "spill"),
        box_plan(replace(problem, source=scratch, converted=None), second, "spill"),
    )
