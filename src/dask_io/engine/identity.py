"""Detect whether a source has changed since a run began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dask_io.errors import DataError, StorageError
from dask_io.journal.ledger import join
from dask_io.stores.views import SourceView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dask_io.stores.store import Source

# The most fingerprints that a run keeps, 8 bytes each: 8 MiB in all.
MOST_KEPT = 2**20
_BITS = 2**64
_MOST_NAMED = 3


class Identity:
    """The fingerprints that the blocks of a source have when a run begins.

    Parameters
    ----------
    source
        The source.
    freed
        Blocks that an earlier run removed or was about to remove, with their fingerprints.
    keep
        Whether every fingerprint is kept, so that changed blocks can be listed. Otherwise only
        the sum is kept.
    """

    def __init__(
        self,
        source: Source,
        freed: Mapping[tuple[int, ...], int] | None = None,
        *,
        keep: bool | None = None,
    ) -> None:
        self.source, self.freed = source, freed or {}
        n_blocks = source.grid.n_blocks
        keep = n_blocks <= MOST_KEPT if keep is None else keep
        self._kept = np.fromiter(self._look(), np.uint64, n_blocks) if keep else None
        self.total = self._sum() if self._kept is None else int(self._kept.sum())
        """The sum of all fingerprints, as stored in the journal."""

    def _look(self, *, again: bool = False) -> Iterator[int]:
        """Yield the current fingerprint of every block; with `again`, blocks may be missing."""
        for index in self.source.grid.indices():
            known = self.freed.get(index)
            if known is None:
                known = self._find(index) if again else self.source.fingerprint(index)
            yield known % _BITS

    def _find(self, index: tuple[int, ...]) -> int:
        """Return the fingerprint of a block, or a different one if the block is missing."""
        try:
            return self.source.fingerprint(index)
        except StorageError as error:
            if not error.is_absent:
                raise
            return 1 if self._kept is None else int(self._kept[self.source.grid.flat(index)]) + 1

    def _sum(self, *, again: bool = False) -> int:
        return sum(self._look(again=again)) % _BITS

    def has(self, index: tuple[int, ...], fingerprint: int) -> bool:
        """Tell whether a block had this fingerprint; True if it is unknown."""
        kept, flat = self._kept, self.source.grid.flat(index)
        return kept is None or int(kept[flat]) == fingerprint % _BITS

    def find_changed(self) -> Sequence[int]:
        """Return the flat indices of the changed blocks; all blocks if only the sum is known.

        Blocks that an earlier run has removed are omitted.
        """
        n_blocks = self.source.grid.n_blocks
        if self._kept is None:
            return range(0 if self._sum(again=True) == self.total else n_blocks)
        now = np.fromiter(self._look(again=True), np.uint64, n_blocks)
        return [int(flat) for flat in np.flatnonzero(now != self._kept)]

    def index_of(self, flat: int) -> tuple[int, ...]:
        """Return the index of a block, given its flat index."""
        return tuple(map(int, np.unravel_index(flat, self.source.grid.counts)))

    def error(self, changed: Sequence[int], *, consumed: bool) -> DataError:
        """Return the error that lists the first changed blocks.

        With `consumed`, source blocks have been removed, so no run can start over.
        """
        problem = "changed while it was being read"
        if self._can_name:
            names = [f"block {join(self._stored(flat))}" for flat in changed[:_MOST_NAMED]]
            n_more = len(changed) - len(names)
            problem += f": {', '.join(names)}{f' and {n_more} more' if n_more else ''}"
        return self._error(problem, consumed=consumed)

    @property
    def _can_name(self) -> bool:
        """Whether it is known which blocks changed, and the source is not one file."""
        whole = self.source.whole if isinstance(self.source, SourceView) else self.source
        is_one_file = whole.is_indivisible
        return self._kept is not None and not is_one_file and whole.grid.n_blocks > 1

    def _stored(self, flat: int) -> tuple[int, ...]:
        """Return the index of a block in the whole source."""
        index, source = self.index_of(flat), self.source
        return source.stored(index) if isinstance(source, SourceView) else index

    def refuse_other(self, total: int, *, consumed: bool | None = None) -> None:
        """Refuse a source whose sum of fingerprints differs.

        `consumed` tells whether source blocks have been removed; by default, whether an earlier
        run removed some.

        Raises
        ------
        DataError
            If the sum of its fingerprints differs.
        """
        if self.total != total % _BITS:
            consumed = bool(self.freed) if consumed is None else consumed
            raise self._error("has changed since the run began", consumed=consumed)

    def _error(self, problem: str, *, consumed: bool) -> DataError:
        advice = (
            "restore its original content: only the target contains the consumed blocks"
            if consumed
            else "start again: run the first command with --overwrite"
        )
        return DataError(self.source.place, [problem], advice)


def take_identities(sources: Iterable[Source]) -> dict[Source, Identity]:
    """Return the identities of all sources of a run; `MOST_KEPT` limits their total."""
    distinct = dict.fromkeys(sources)
    keep = sum(source.grid.n_blocks for source in distinct) <= MOST_KEPT
    return {source: Identity(source, keep=keep) for source in distinct}
