"""The way out of a run: written cells become durable in batches, unneeded source blocks go."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from dask_io.errors import DataError, StorageError
from dask_io.stores.ledger import dropped_line_of, freed_line_of, join
from dask_io.stores.naming import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dask_io.geometry import Region
    from dask_io.stores.ledger import Ledger, Written
    from dask_io.stores.store import Source, Target

# A batch has so many cells, or bytes: syncing names and journal costs little then, and little
# has to be done again after a crash.
MOST_CELLS = 16
MOST_BYTES = 256 * 2**20


class Outlet:
    """A target of a run, with what the run does besides writing it.

    Cells that have been written are committed in batches, by the thread that completes one, while
    others go on.

    Parameters
    ----------
    target
        What is written. If there is a ledger, its `resume` has been called.
    job
        What another run needs to know to go on.
    ledger
        What is durable already and need not be written.
    consumption
        What removes source blocks, if they are to be removed.
    """

    def __init__(
        self,
        target: Target,
        job: bytes = b"{}",
        *,
        ledger: Ledger | None = None,
        consumption: Consumption | None = None,
    ) -> None:
        self.target, self.ledger = target, ledger
        self.is_resumable = False
        self._job, self._consumption = job, consumption
        self._is_begun = self._is_broken = False
        self._waiting: list[Written] = []
        self._n_bytes = 0
        self._n_blocks = ledger.n_blocks if ledger else 0
        self._lock = Lock()

    def check(self) -> None:
        """Refuse a target that cannot be begun; nothing is touched."""
        if self.ledger is None and not self._is_begun:
            self.target.check()

    def begin(self) -> None:
        """Make the target ready; a second call does nothing."""
        if self._is_begun:
            return
        if self.ledger is None:
            self.target.create(self._job)
        self._is_begun = True
        if self._consumption is not None:
            self._consumption.begin(self.ledger)

    def add(self, cell: Written, n_bytes: int) -> None:
        """Take a cell that has been written."""
        with self._lock:
            self._waiting.append(cell)
            self._n_bytes += n_bytes
            self._n_blocks += cell.is_last
            if len(self._waiting) < MOST_CELLS and self._n_bytes < MOST_BYTES:
                return
        self._flush()

    def _flush(self) -> None:
        """Commit all that is waiting."""
        with self._lock:
            batch, self._waiting, self._n_bytes = self._waiting, [], 0
        # After a sync that failed, another one may succeed although data is lost.
        if not batch or self._is_broken:
            return
        try:
            self.target.commit(batch)
            if self._consumption is not None:
                self._consumption.count(cell.region for cell in batch)
        except BaseException:
            self._is_broken = True
            raise

    def finish(self) -> None:
        """Complete the target: all of it has been written."""
        assert self._n_blocks == self.target.grid.n_blocks, "blocks are missing: the plan was wrong"
        self._flush()
        if self._consumption is not None:
            self._consumption.finish()
        self.target.finish()

    @property
    def has_blocks(self) -> bool:
        """Whether a block has been written, by this run or by another."""
        return self._n_blocks > 0

    def abandon(self, *, keep: bool = False) -> None:
        """Commit what has been written, as far as possible, and remove the rest.

        With `keep`, another run can go on even if there is nothing.
        """
        if self._is_begun:
            with suppress(Exception):
                self._flush()
        self.is_resumable |= self.target.abandon(keep=keep)


class Consumption:
    """Removes blocks of a source, each as soon as everything that it feeds is durable.

    `gone` are those that an earlier run has removed, or has noted that it will, each with the
    fingerprint that it had.
    """

    def __init__(
        self, source: Source, target: Target, gone: Mapping[tuple[int, ...], int] | None = None
    ) -> None:
        self._source, self._target, self._gone = source, target, gone or {}
        self._missing: dict[tuple[int, ...], int] = {}
        self._lock = Lock()

    def begin(self, ledger: Ledger | None) -> None:
        """Remove what an earlier run did not come to remove.

        Raises
        ------
        DataError
            If blocks are gone, and what they became is too.
        """
        if ledger is None:
            return
        free = self._count(ledger.regions())
        for index in self._gone.keys() - free:
            # What it became is not there any more; it may still be.
            if self._is_there(index):
                continue
            lost = f"block {join(index)} was consumed, and what it became is not there any more"
            raise DataError(printable(self._target.place), [lost], "restore it from a copy")
        # Only now is it certain that what was lost can be written anew.
        if ledger.lost:
            self._target.note(map(dropped_line_of, ledger.lost))
        self._free(free)

    def _is_there(self, index: tuple[int, ...]) -> bool:
        """Tell whether a block was not removed after all: one that is not stored has a mark too."""
        with suppress(StorageError):
            return self._source.fingerprint(index) == self._gone[index]
        return False

    def count(self, regions: Iterable[Region]) -> None:
        """Count regions that are durable now, and remove the blocks that only those needed."""
        self._free(self._count(regions))

    def _count(self, regions: Iterable[Region]) -> list[tuple[int, ...]]:
        """Return the blocks that nothing needs any more."""
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
        # Noted before it is done: what is not there must be known to be gone rightly.
        new = [index for index in indices if index not in self._gone]
        if new:
            self._target.note(
                freed_line_of(index, self._source.fingerprint(index)) for index in new
            )
        for index in indices:
            self._source.discard(index)

    def finish(self) -> None:
        """Remove what is left of a source without blocks."""
        self._source.discard_rest()
