"""Writing into a Zarr array that is there already, as Dask's `store` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from dask_io.errors import UsageError
from dask_io.formats.zarr.target import ZarrTarget
from dask_io.storage.local.publishing import Publisher
from dask_io.storage.medium import Durability

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from dask_io.formats.zarr.place import Place
    from dask_io.journal.ledger import Ledger, Written


class ZarrInPlace(ZarrTarget):
    """An array that exists and is filled: its metadata stays, chunks are replaced one by one.

    There is no journal, so a run that is cut short cannot be resumed, only done again. Chunks
    appear whole all the same. The same chunks may be written by two runs at once, as happens on a
    cluster that has lost sight of one of them: each writes aside under a name of its own.
    """

    def __init__(
        self,
        site: Place,
        documents: Mapping[str, bytes],
        *,
        write_empty: bool = False,
        durability: Durability = Durability.RENAME,
    ) -> None:
        super().__init__(
            site,
            documents,
            write_empty=write_empty,
            overwrite=True,
            durability=durability,
            reserve=False,
        )

    def _forget_run(self) -> None:
        super()._forget_run()
        if isinstance(self.root, Path):
            self._publisher = OwnNames(self.root, self.durability)

    def check(self) -> None:
        """Refuse nothing: the array is meant to be there."""

    def create(self, job: bytes = b"{}") -> None:  # noqa: ARG002 - there is no journal
        """Begin anew; the array is there."""
        self._forget_run()

    def resume(self) -> Ledger:
        """Refuse: nothing says what has been written.

        Raises
        ------
        UsageError
            Always.
        """
        raise UsageError(f"{self.place} is filled without a journal, so no run can be resumed")

    def commit(self, cells: Collection[Written]) -> None:
        """Put chunks that are whole in the place of what was there."""
        names = {self._file_of(cell.index)[0] for cell in cells}
        # Threads may tell of the last cell before they tell of others.
        whole = {self._file_of(cell.index)[0] for cell in cells if cell.is_last}
        left_out = {name for name in whole if self._is_left_out(name)}
        self._publisher.commit(names - left_out, whole - left_out)
        self._publisher.leave_out(left_out)
        # What was there would not be the fill value.
        self._medium.remove([self.root / name for name in left_out])

    def note(self, lines: Iterable[str]) -> None:
        """Note nothing: there is no journal."""

    def finish(self) -> None:
        """Leave the array as it is now."""
        self._forget_run()

    def abandon(self, *, keep: bool = False) -> bool:  # noqa: ARG002 - there is no journal
        """Remove files in the making; chunks that have been replaced stay."""
        self._publisher.abandon()
        return False


class OwnNames(Publisher):
    """Files in the making that no other process takes for its own."""

    def __init__(self, folder: Path, durability: Durability) -> None:
        super().__init__(folder, durability)
        self._mark = uuid4().hex[:12]

    def __reduce__(self) -> tuple[type[OwnNames], tuple[Path, Durability]]:
        return OwnNames, (self.folder, self.durability)

    def _partial(self, name: str) -> str:
        path = super()._partial(name)
        is_aside = self.durability is not Durability.NONE
        return f"{path.removesuffix('.part')}.{self._mark}.part" if is_aside else path
