"""A region of a target, as a target of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dask_io.errors import UsageError
from dask_io.stores.store import Target
from dask_io.stores.within import Within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from contextlib import AbstractContextManager

    from dask_io.stores.files import Durability
    from dask_io.stores.ledger import Ledger, Written
    from dask_io.stores.store import BlockWriter


@dataclass(frozen=True)
class Part(Within[Target]):
    """What lies within a region of another target.

    The region holds whole blocks: none would have to be read, changed and written again. The
    target is one that is filled in place, so that several parts of it can be, by several runs.

    Raises
    ------
    UsageError
        If the region cuts blocks.
    """

    def __post_init__(self) -> None:
        axes = self.whole.grid.axes
        for axis, low, high in zip(axes, self.region.start, self.region.stop, strict=True):
            if axis.floor(low) != low or axis.ceil(high) != high:
                raise UsageError(
                    f"the region {self.region} of {self.whole.place} cuts blocks, which would "
                    "have to be read, changed and written again"
                )

    @property
    def durability(self) -> Durability:
        """What blocks outlast once they are committed."""
        return self.whole.durability

    def check(self) -> None:
        """Refuse what the whole target refuses."""
        self.whole.check()

    def create(self, job: bytes = b"{}") -> None:
        """Make the whole target ready."""
        self.whole.create(job)

    def resume(self) -> Ledger:
        """Do as the whole target does, which keeps no journal."""
        return self.whole.resume()

    def writer(self, index: tuple[int, ...]) -> AbstractContextManager[BlockWriter]:
        """Visit a block."""
        return self.whole.writer(self.stored(index))

    def commit(self, cells: Collection[Written]) -> None:
        """Commit blocks of the whole target."""
        corner = self.region.start
        self.whole.commit(
            [
                replace(cell, index=self.stored(cell.index), region=cell.region.shifted_by(corner))
                for cell in cells
            ]
        )

    def note(self, lines: Iterable[str]) -> None:
        """Have the whole target note it."""
        self.whole.note(lines)

    def finish(self) -> None:
        """Complete the whole target, as far as this region goes."""
        self.whole.finish()

    def abandon(self, *, keep: bool = False) -> bool:
        """Remove what has not been committed."""
        return self.whole.abandon(keep=keep)
