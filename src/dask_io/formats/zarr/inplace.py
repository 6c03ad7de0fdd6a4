"""Writing into an existing Zarr array, as Dask's `store` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.formats.zarr.target import ZarrTarget
from dask_io.storage.medium import Durability
from dask_io.stores.store import Unjournalled

if TYPE_CHECKING:
    from collections.abc import Collection

    from dask_io.formats.zarr.store import DocumentedArray
    from dask_io.journal.ledger import Written


class ZarrInPlace(Unjournalled, ZarrTarget):
    """An existing array whose chunks are replaced one by one; its metadata stays.

    There is no journal, so an interrupted run cannot be resumed, only started again. Chunks still
    appear whole. Two runs may write the same chunks at once, as happens on a cluster that has lost
    contact with one of them: each uses temporary names of its own.
    """

    def __init__(
        self,
        stored: DocumentedArray,
        *,
        write_empty: bool = False,
        durability: Durability = Durability.RENAME,
    ) -> None:
        super().__init__(
            stored, write_empty=write_empty, overwrite=True, durability=durability, reserve=False
        )

    def _forget_run(self) -> None:
        super()._forget_run()
        self._publisher = self._medium.publisher(self.site.root, self.durability, own_names=True)

    def create(self, job: bytes = b"{}") -> None:  # noqa: ARG002 - there is no journal
        """Reset the state of the run; the array exists."""
        self._forget_run()

    def commit(self, cells: Collection[Written]) -> None:
        """Replace old chunks by complete new ones."""
        name_of = self.array.keys.name_of
        names = {name_of(cell.index) for cell in cells}
        # Threads may report the last cell before others.
        last = {cell.index for cell in cells if cell.is_last}
        whole = set(map(name_of, last))
        left_out = {name_of(index) for index in last if self._is_left_out(index)}
        self._publisher.commit(names - left_out, whole - left_out)
        self._publisher.leave_out(left_out)
        # Chunks that are left out mean the fill value, so old ones are removed.
        self._medium.remove([self.site.root / name for name in left_out])

    def finish(self) -> None:
        """Reset the state of the run; all chunks are in place."""
        self._forget_run()

    def abandon(self, *, keep: bool = False) -> bool:  # noqa: ARG002 - there is no journal
        """Remove unfinished files; replaced chunks stay."""
        self._publisher.abandon()
        return False
