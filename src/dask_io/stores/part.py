"""A region of a target, as a target of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from contextlib import AbstractContextManager

    import numpy as np

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.stores.files import Durability, Tally
    from dask_io.stores.ledger import Ledger, Written
    from dask_io.stores.store import Access, BlockWriter, Target


@dataclass(frozen=True)
class Part:
    """What lies within a region of another target; positions count from the region's corner.

    The region holds whole blocks: none would have to be read, changed and written again. The
    target is one that is filled in place, so that several parts of it can be, by several runs.

    Raises
    ------
    UsageError
        If the region cuts blocks.
    """

    whole: Target
    region: Region

    def __post_init__(self) -> None:
        axes = self.whole.grid.axes
        for axis, low, high in zip(axes, self.region.start, self.region.stop, strict=True):
            if axis.floor(low) != low or axis.ceil(high) != high:
                raise UsageError(
                    f"the region {self.region} of {self.whole.place} cuts blocks, which would "
                    "have to be read, changed and written again"
                )

    @property
    def place(self) -> str:
        """The whole target's place."""
        return self.whole.place

    @property
    def format(self) -> str:
        """Name of the format."""
        return self.whole.format

    @cached_property
    def grid(self) -> Grid:
        """The blocks within the region."""
        return self.whole.grid.clipped(self.region)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.whole.dtype

    @property
    def layout(self) -> Layout:
        """How elements lie in each block."""
        return self.whole.layout

    @property
    def access(self) -> Access:
        """What a part of a block costs."""
        return self.whole.access

    @property
    def codec_bytes(self) -> int:
        """What a visit to a block holds besides its values."""
        return self.whole.codec_bytes

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the whole target says about the array."""
        return self.whole.metadata

    @property
    def tally(self) -> Tally:
        """What has been moved so far."""
        return self.whole.tally

    @property
    def durability(self) -> Durability:
        """What blocks outlast once they are committed."""
        return self.whole.durability

    def describe(self) -> dict[str, Any]:
        """Return what it takes to make the whole target again."""
        return self.whole.describe()

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
        return self.whole.writer(self.whole.grid.unclipped(index, self.region))

    def commit(self, cells: Collection[Written]) -> None:
        """Commit blocks of the whole target."""
        self.whole.commit(
            [
                replace(
                    cell,
                    index=self.whole.grid.unclipped(cell.index, self.region),
                    region=cell.region.shifted_by(self.region.start),
                )
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
