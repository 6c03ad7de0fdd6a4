"""The copy strategy: copy blocks verbatim if both sides store them in the same way."""

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
    """Copy every block of the target verbatim from the source.

    Blocks are not decoded, and no array data is held. Bytes pass through staging block by block.
    """

    problem: Problem
    strategy: str = "copy"

    def __str__(self) -> str:
        return describe_copy(self)

    @cached_property
    def moves(self) -> Plan:
        """The equivalent plan that moves decoded elements."""
        return box_plan(self.problem, self.problem.target.grid.axes, self.strategy)

    @property
    def n_steps(self) -> int:
        """Number of blocks."""
        return self.problem.target.grid.n_blocks

    @property
    def seeks(self) -> Seeks:
        """Seeks: one for each block, on both sides."""
        return Seeks(self.n_steps, self.n_steps)

    @property
    def openings(self) -> int:
        """Visits to blocks of both sides."""
        return self.seeks.total

    @property
    def coding_seconds(self) -> float:
        """Time to decode and encode: 0, because blocks stay encoded."""
        return 0.0

    @property
    def n_placements(self) -> int:
        """Number of copies within memory: 0."""
        return 0

    @property
    def decodes(self) -> int:
        """How many times a source block is decoded: 0."""
        return 0

    @property
    def n_bytes_read(self) -> int:
        """Decoded size of the source blocks that are read."""
        return self.problem.n_bytes

    @property
    def n_bytes_in_gaps(self) -> int:
        """Bytes read in gaps: 0, because blocks are read whole."""
        return 0

    @property
    def n_bytes_written(self) -> int:
        """Decoded size of the target blocks that are written."""
        return self.problem.n_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of array data held: 0."""
        return 0

    @property
    def touched_bytes(self) -> int:
        """Memory touched for the first time: 0, because no array data is held."""
        return 0

    @property
    def staging_bytes(self) -> int:
        """Bytes of staging: the preferred amount, limited by the budget."""
        staging = _staging(self.problem)
        return max(staging.minimum, min(staging.preferred, self.problem.budget))

    @property
    def peak_bytes(self) -> int:
        """Peak memory of the run, in bytes."""
        return self.staging_bytes

    @property
    def scratch_bytes(self) -> int:
        """Scratch space in bytes: 0."""
        return 0

    @cached_property
    def disk_bytes(self) -> int:
        """Peak disk space of the run, in addition to the source."""
        lag = self.problem.consumed
        return self.n_bytes_written if lag is None else peak_when_consumed(self.moves, lag)

    @property
    def fits(self) -> bool:
        """Whether the plan fits in the budget."""
        return self.peak_bytes <= self.problem.budget

    def reading_through(self, n_axes: int) -> Self:  # noqa: ARG002 - blocks have no parts
        """Return the same plan: blocks are read whole."""
        return self

    def flushed_at(self, cuts: Sequence[Collection[int]]) -> CopyPlan:
        """Return the same plan: blocks are written whole."""
        assert not any(cuts), "blocks are copied whole"
        return self


def plan_copy(problem: Problem) -> CopyPlan:
    """Copy every block verbatim, if source and target store blocks in the same way.

    Every block is touched once with any budget, and no other plan does less. Damaged source blocks
    stay undetected: all other strategies decode blocks and would report the damage.

    Raises
    ------
    UsageError
        If source and target store blocks differently.
    BudgetTooSmallError
        If the smallest staging does not fit in the budget.
    """
    if problem.copied is None:
        raise UsageError(
            "strategy copy copies encoded blocks, but source and target differ in chunks, shards, "
            "codec, dtype, order or fill value, or have no codec; use --strategy auto"
        )
    plan = CopyPlan(problem)
    if not plan.fits:
        raise BudgetTooSmallError(plan.peak_bytes, problem.budget, "piece of a block")
    return plan


def _staging(problem: Problem) -> Staging:
    assert problem.copied is not None, "source and target must store blocks in the same way"
    return problem.copied
