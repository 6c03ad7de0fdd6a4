"""Compare a target with the checksums in its journal."""

from __future__ import annotations

import errno
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from dask_io.engine.crew import Crew
from dask_io.engine.memory import Buffers
from dask_io.engine.run import Progress
from dask_io.engine.verify import Verification
from dask_io.errors import DaskIOError, DataError, StorageError
from dask_io.journal.journal import read_lines
from dask_io.journal.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dask_io.geometry import Grid, Region
    from dask_io.journal.ledger import Written
    from dask_io.storage.location import Location
    from dask_io.stores.store import Readback

    Lines = Callable[[], Iterator[list[str]]]

# Errors when reading a missing file, or bad sectors.
_DAMAGE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO})


def verify_checksums(
    written: Readback,
    journal: Location,
    *,
    workers: int,
    slab: int,
    lines: Lines | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Verification:
    """Read every cell listed in a journal, and compare its checksum.

    Each thread needs `slab` bytes. `lines` are as for `cells_of`.

    Raises
    ------
    DataError
        If the journal does not cover the whole array.
    """
    wrong, checked = _Wrong(), _Checked(written, on_progress)

    def check(cell: Written, staging: memoryview) -> None:
        if not _matches(written, cell, staging):
            wrong.add(cell.region)
        checked.add(cell)

    _check_each(cells_of(journal, written.grid, lines), check, workers, slab)
    first = wrong.first
    return Verification(written.grid.size, 0 if first is None else None, first)


def is_damage(error: DaskIOError) -> bool:
    """Tell whether an error means missing or damaged data, not, for example, a lock."""
    return is_wrong(error) or (
        isinstance(error, StorageError) and getattr(error.__cause__, "errno", None) in _DAMAGE
    )


def is_wrong(error: DaskIOError) -> bool:
    """Tell whether an error means that data was read but is wrong."""
    return isinstance(error, DataError)


def find_damaged(
    written: Readback,
    cells: Iterable[Written],
    *,
    workers: int,
    slab: int,
    counts: Callable[[DaskIOError], bool] = is_damage,
    on_progress: Callable[[Progress], None] | None = None,
) -> set[tuple[int, ...]]:
    """Return every block that is missing, unreadable, or does not match its checksums.

    Each thread needs `slab` bytes. `counts` tells which errors are damage; others are raised.
    """
    damaged: set[tuple[int, ...]] = set()
    checked = _Checked(written, on_progress)

    def check(cell: Written, staging: memoryview) -> None:
        try:
            is_right = _matches(written, cell, staging)
        except DaskIOError as error:
            if not counts(error):
                raise
            is_right = False
        if not is_right:
            damaged.add(cell.index)
        checked.add(cell)

    _check_each(cells, check, workers, slab)
    return damaged


def cells_of(journal: Location, grid: Grid, lines: Lines | None = None) -> Iterator[Written]:
    """Return the cells of a complete target, with the checksums in its journal.

    If the journal is that of several arrays, `lines` returns the lines about one of them.

    Raises
    ------
    DataError
        If the journal does not cover the whole array.
    """
    lines = lines or partial(read_lines, journal)
    try:
        ledger = Ledger(grid, lines())
    except ValueError as error:
        raise DataError(str(journal), [str(error)]) from error
    if ledger.n_blocks < grid.n_blocks:
        problem = f"is damaged: it lists only {ledger.n_blocks:,} of {grid.n_blocks:,} blocks"
        advice = "compare the target with its source (dask-io verify SRC DST), or write it again"
        raise DataError(str(journal), [problem], advice)
    return ledger.cells(lines())


def _matches(written: Readback, cell: Written, staging: memoryview) -> bool:
    inside = cell.region.relative_to(written.grid.block(cell.index).start)
    with written.reader(cell.index) as reader:
        return reader.checksum(inside, staging) == cell.checksum


def _check_each(
    cells: Iterable[Written],
    check: Callable[[Written, memoryview], None],
    workers: int,
    slab: int,
) -> None:
    buffers = Buffers(workers * slab)
    with Crew([buffers.lend(slab) for _ in range(workers)], on_stop=lambda: None) as crew:
        for cell in cells:
            crew.add(partial(check, cell))
        crew.finish()


class _Checked:
    """Counts what has been read back, and reports it; threads share it."""

    def __init__(self, written: Readback, on_progress: Callable[[Progress], None] | None) -> None:
        self._n_bytes = written.grid.size * written.dtype.itemsize
        self._itemsize, self._n_blocks = written.dtype.itemsize, written.grid.n_blocks
        self._grid, self._on_progress = written.grid, on_progress
        self._left: dict[tuple[int, ...], int] = {}
        self._bytes_done = self._blocks_done = 0
        self._lock = Lock()

    def add(self, cell: Written) -> None:
        if self._on_progress is None:
            return
        with self._lock:
            self._bytes_done += cell.region.size * self._itemsize
            # A block may consist of several cells.
            left = self._left.pop(cell.index, None) or self._grid.block(cell.index).size
            if left > cell.region.size:
                self._left[cell.index] = left - cell.region.size
            else:
                self._blocks_done += 1
            done = self._bytes_done, self._n_bytes, self._blocks_done, self._n_blocks
            self._on_progress(Progress(*done))


class _Wrong:
    """The first cell with a wrong checksum; threads share it."""

    def __init__(self) -> None:
        self.first: Region | None = None
        self._lock = Lock()

    def add(self, region: Region) -> None:
        with self._lock:
            if self.first is None or region.start < self.first.start:
                self.first = region
