"""Commit written cells in batches, and remove source blocks that are no longer needed."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from dask_io.errors import DataError, StorageError
from dask_io.journal.ledger import CHANGED_LINE, NOTHING, dropped_line_of, freed_line_of, join

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dask_io.engine.identity import Identity
    from dask_io.geometry import Region
    from dask_io.journal.ledger import Ledger, Written
    from dask_io.stores.store import Target

# A batch has this many cells or bytes. So syncing names and journal costs little, and little work
# is lost after a crash.
MOST_CELLS = 16
MOST_BYTES = 256 * 2**20


class Outlet:
    """A target of a run, with its journal and the removal of source blocks.

    Written cells are committed in batches, by the thread that completes a batch, while other
    threads continue.

    Parameters
    ----------
    target
        The target. If there is a ledger, `resume` has been called.
    job
        Description of the job for the journal, so that another run can resume it.
    ledger
        The cells that are already durable.
    consumption
        Removes source blocks, if the run was started to consume the source.
    identity
        The state of the source when the run began, to detect changes at the end.
    """

    def __init__(
        self,
        target: Target,
        job: bytes = b"{}",
        *,
        ledger: Ledger | None = None,
        consumption: Consumption | None = None,
        identity: Identity | None = None,
    ) -> None:
        self.target, self.ledger = target, ledger
        # Source blocks that this run removes are checked before they are removed.
        removes = consumption is not None and consumption.removes
        self.watched = None if removes else identity
        self.is_resumable = False
        self._job, self._consumption = job, consumption
        self._is_begun = self._is_broken = False
        self._waiting: list[Written] = []
        self._n_bytes = 0
        self._n_blocks = ledger.n_blocks if ledger else 0
        self.n_left_out = 0
        self._lock = Lock()

    def check(self) -> None:
        """Refuse a target that cannot be created, without changing anything."""
        if self.ledger is None and not self._is_begun:
            self.target.check()

    def begin(self) -> None:
        """Create the target; a second call does nothing."""
        if self._is_begun:
            return
        if self.ledger is None:
            self.target.create(self._job)
        self._is_begun = True
        if self._consumption is not None:
            self._consumption.begin(self.ledger)

    def add(self, cell: Written, n_bytes: int) -> None:
        """Add a written cell."""
        with self._lock:
            self._waiting.append(cell)
            self._n_bytes += n_bytes
            self._n_blocks += cell.is_last
            is_block = cell.region == self.target.grid.block(cell.index)
            self.n_left_out += is_block and cell.checksum == NOTHING
            if len(self._waiting) < MOST_CELLS and self._n_bytes < MOST_BYTES:
                return
            # A single-file target gets its name with the last cells, so they wait for `finish`.
            if self._n_blocks == self.target.grid.n_blocks:
                return
        self._flush()

    def _flush(self) -> None:
        """Commit all waiting cells."""
        with self._lock:
            batch, self._waiting, self._n_bytes = self._waiting, [], 0
        # After a failed sync, another sync may succeed although data is lost.
        if not batch or self._is_broken:
            return
        try:
            self.target.commit(batch)
            if self._consumption is not None:
                self._consumption.count(cell.region for cell in batch)
        except BaseException:
            self._is_broken = True
            raise

    def find_change(self) -> DataError | None:
        """Return an error if the source has changed since the run began.

        The journal then records the change. Durable cells may hold old or new values, so no other
        run may use them.
        """
        identity = self.watched
        if identity is None:
            return None
        # If the source cannot be compared, nothing more becomes durable.
        self._is_broken = True
        changed = identity.find_changed()
        if not changed:
            self._is_broken = False
            return None
        return _changed_error(identity, changed, self.target, consumed=bool(identity.freed))

    def finish(self) -> None:
        """Complete the target after all cells have been written."""
        assert self._n_blocks == self.target.grid.n_blocks, "blocks are missing: the plan was wrong"
        self._flush()
        if self._consumption is not None:
            self._consumption.finish()
        self.target.finish()

    @property
    def has_blocks(self) -> bool:
        """Whether this or an earlier run has written a block."""
        return self._n_blocks > 0

    def abandon(self, *, keep: bool = False) -> None:
        """Commit the written cells as far as possible, and remove the rest.

        With `keep`, another run can resume even if nothing has been committed.
        """
        if self._is_begun:
            with suppress(Exception):
                self._flush()
        self.is_resumable |= self.target.abandon(keep=keep)


def check_sources(outlets: Sequence[Outlet]) -> None:
    """Refuse sources that have changed since the run began, before any target is complete.

    Raises
    ------
    DataError
        If one has changed; the error lists the first changed blocks.
    """
    # All listings are dropped before the first lookup, so that one new listing serves all.
    for outlet in outlets:
        if outlet.watched is not None:
            outlet.watched.source.list_again()
    found = [error for outlet in outlets if (error := outlet.find_change()) is not None]
    if found:
        raise found[0]


def _changed_error(
    identity: Identity, changed: Sequence[int], target: Target, *, consumed: bool
) -> DataError:
    """Return an error that lists changed source blocks, given by their flat numbers.

    The change is recorded in the target's journal, unless source blocks were `consumed`: only the
    target still holds their data then.
    """
    if not consumed:
        # If the journal cannot be written, the source still differs from the recorded state.
        with suppress(StorageError, OSError):
            target.note([CHANGED_LINE])
    return identity.error(changed, consumed=consumed)


class Consumption:
    """Removes source blocks, each as soon as all target data from it is durable.

    Parameters
    ----------
    identity
        The state of the source when the run began, and the blocks that an earlier run removed.
    target
        The target.
    removes
        Whether blocks are removed. Otherwise the remaining blocks stay, and the only task is to
        make sure that no data of the removed blocks is lost.
    """

    def __init__(self, identity: Identity, target: Target, *, removes: bool = True) -> None:
        self.removes = removes
        self._identity, self._target = identity, target
        self._source, self._gone = identity.source, identity.freed
        self._any_freed = bool(self._gone)
        # The sum of the fingerprints of all blocks that have been removed.
        self._total = sum(self._gone.values())
        self._missing: dict[tuple[int, ...], int] = {}
        self._lock = Lock()

    def begin(self, ledger: Ledger | None) -> None:
        """Prepare the source for the removal of blocks, and remove those no longer needed.

        Raises
        ------
        DataError
            If removed blocks are missing in the target, too.
        """
        if self.removes:
            self._source.describe_in_place()
        if ledger is None:
            return
        free = self._count(ledger.regions())
        for index in self._gone.keys() - free:
            # The target no longer has its data, but the source may still have the block.
            if self._is_there(index):
                continue
            lost = f"source block {join(index)} was consumed, but the target has lost its data"
            raise DataError(self._target.place, [lost], "restore it from a copy")
        # Only now is it certain that lost blocks can be written again.
        if ledger.lost:
            self._target.note(map(dropped_line_of, ledger.lost))
        if self.removes:
            self._free(free)

    def _is_there(self, index: tuple[int, ...]) -> bool:
        """Tell whether a block was not removed after all; absent blocks have a fingerprint, too."""
        with suppress(StorageError):
            return self._source.fingerprint(index) == self._gone[index]
        return False

    def count(self, regions: Iterable[Region]) -> None:
        """Count newly durable regions, and remove the blocks that are no longer needed."""
        if self.removes:
            self._free(self._count(regions))

    def _count(self, regions: Iterable[Region]) -> list[tuple[int, ...]]:
        """Return the blocks that are no longer needed."""
        free, grid = [], self._source.grid
        with self._lock:
            for region in regions:
                for index, part in grid.pieces(region):
                    missing = self._missing.pop(index, grid.block(index).size)
                    if missing > part.size:
                        self._missing[index] = missing - part.size
                    else:
                        free.append(index)
        return free

    def _free(self, indices: Sequence[tuple[int, ...]]) -> None:
        # The journal records the removal first, so that missing blocks are known to be removed.
        new = [index for index in indices if index not in self._gone]
        if new:
            found = {index: self._source.fingerprint(index) for index in new}
            self._refuse_changed(found)
            self._target.note(freed_line_of(index, mark) for index, mark in found.items())
            self._any_freed = True
            with self._lock:
                self._total += sum(found.values())
        for index in indices:
            self._source.discard(index)

    def _refuse_changed(self, found: Mapping[tuple[int, ...], int]) -> None:
        """Refuse to remove blocks that have changed since the run began."""
        identity = self._identity
        changed = [index for index, mark in found.items() if not identity.has(index, mark)]
        if changed:
            flat = sorted(map(self._source.grid.flat, changed))
            raise _changed_error(identity, flat, self._target, consumed=self._any_freed)

    def finish(self) -> None:
        """Remove the rest of a source whose blocks have been removed.

        Raises
        ------
        DataError
            If blocks have changed since the run began.
        """
        if self.removes:
            self._identity.refuse_other(self._total, consumed=True)
            self._source.discard_rest()
