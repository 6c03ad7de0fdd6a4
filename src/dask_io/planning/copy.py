"""The copy strategy: what is stored alike on both sides is copied as it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dask_io.errors import BudgetTooSmallError, UsageError
from dask_io.planning.describe import describe_copy
from dask_io.planning.disk import peak_when_consumed
from dask_io.planning.plan import Seeks
from dask_io.planning.reread import box_plan

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Self

    from dask_io.planning.plan import Plan
    from dask_io.planning.problem import Problem, Staging


@dataclass(frozen=True)
class CopyPlan:
    """Every block of the target is copied from the source as it is stored there.

    Nothing is decoded and nothing is held: bytes go through staging, block by block.
    """

    problem: Problem
    strategy: str = "copy"

    def __str__(self) -> str:
        return describe_copy(self)

    @cached_property
    def moves(self) -> Plan:
        """The same moves, as if elements were moved."""
        return box_plan(self.problem, self.problem.target.grid.axes, self.strategy)

    @property
    def n_steps(self) -> int:
        """Number of blocks."""
        return self.problem.target.grid.n_blocks

    @property
    def seeks(self) -> Seeks:
        """Runs that will be touched: one for each block, on both sides."""
        return Seeks(self.n_steps, self.n_steps)

    @property
    def openings(self) -> int:
        """Visits to blocks, of both sides."""
        return self.seeks.total

    @property
    def coding_seconds(self) -> float:
        """None: blocks stay as they are stored."""
        return 0.0

    @property
    def n_placements(self) -> int:
        """Number of copies within memory: none."""
        return 0

    @property
    def decodes(self) -> int:
        """Times that a block is decoded: none is."""
        return 0

    @property
    def n_bytes_read(self) -> int:
        """Bytes of source blocks that are read, as they would be in memory."""
        return self.problem.n_bytes

    @property
    def n_bytes_in_gaps(self) -> int:
        """Blocks have no gaps."""
        return 0

    @property
    def n_bytes_written(self) -> int:
        """Bytes of target blocks that are written, as they would be in memory."""
        return self.problem.n_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of array data held: none."""
        return 0

    @property
    def touched_bytes(self) -> int:
        """What is held has to be touched: nothing."""
        return 0

    @property
    def staging_bytes(self) -> int:
        """Bytes between file and file: what the engine would like, as far as there is room."""
        staging = _staging(self.problem)
        return max(staging.minimum, min(staging.preferred, self.problem.budget))

    @property
    def peak_bytes(self) -> int:
        """Everything the run will hold at the most."""
        return self.staging_bytes

    @property
    def scratch_bytes(self) -> int:
        """Disk space needed in between: none."""
        return 0

    @cached_property
    def disk_bytes(self) -> int:
        """Disk space that a run needs at the most, beyond what its source takes up."""
        lag = self.problem.consumed
        return self.n_bytes_written if lag is None else peak_when_consumed(self.moves, lag)

    @property
    def fits(self) -> bool:
        """Whether the plan keeps within its problem's budget."""
        return self.peak_bytes <= self.problem.budget

    def reading_through(self, n_axes: int) -> Self:  # noqa: ARG002 - blocks have no parts
        """Return the same plan: blocks are read whole."""
        return self

    def flushed_at(self, cuts: Sequence[Collection[int]]) -> CopyPlan:
        """Return the same plan: there is nothing within a block to go on with."""
        assert not any(cuts), "blocks are copied whole"
        return self


def plan_copy(problem: Problem) -> CopyPlan:
    """Copy every block as it is stored, where source and target store blocks alike.

    Every block is touched once, whatever the budget, and no other plan does less. What is
    damaged in the source stays so: any other strategy decodes blocks, and would notice.

    Raises
    ------
    UsageError
        If blocks are not stored alike.
    BudgetTooSmallError
        If there is no room for the smallest staging.
    """
    if problem.copied is None:
        raise UsageError(
            "strategy copy copies blocks as they are stored, but source and target differ in "
            "chunks, shards, codec, type, order or fill value, or have no codec"
        )
    plan = CopyPlan(problem)
    if not plan.fits:
        raise BudgetTooSmallError(plan.peak_bytes, problem.budget, "piece of a block")
    return plan


def _staging(problem: Problem) -> Staging:
    assert problem.copied is not None, "only for blocks that are stored alike"
    return problem.copied
