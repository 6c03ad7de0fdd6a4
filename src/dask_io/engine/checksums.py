"""Compare a target with the checksums that were taken when it was written."""

from __future__ import annotations

from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from dask_io.engine.crew import Crew
from dask_io.engine.memory import Buffers
from dask_io.engine.verify import Verification
from dask_io.errors import DataError
from dask_io.stores.journal import read_lines
from dask_io.stores.ledger import Ledger, cells_in
from dask_io.stores.naming import printable

if TYPE_CHECKING:
    from dask_io.geometry import Region
    from dask_io.stores.ledger import Written
    from dask_io.stores.location import Location
    from dask_io.stores.store import Readback


def verify_checksums(
    written: Readback,
    journal: Location,
    *,
    workers: int,
    slab: int,
    array: int | None = None,
) -> Verification:
    """Read every cell that a journal tells of, and compare its checksum.

    Each thread needs `slab` bytes. If the target holds several arrays, `array` is the one meant.

    Raises
    ------
    DataError
        If the journal does not tell of the whole array.
    """
    grid, wrong = written.grid, _Wrong()
    try:
        n_durable = Ledger(grid, read_lines(journal, array)).n_blocks
    except ValueError as error:
        raise DataError(printable(str(journal)), [str(error)]) from error
    if n_durable < grid.n_blocks:
        told = f"tells of {n_durable:,} of {grid.n_blocks:,} blocks"
        raise DataError(printable(str(journal)), [told])
    buffers = Buffers(workers * slab)

    def check(cell: Written, staging: memoryview) -> None:
        inside = cell.region.relative_to(grid.block(cell.index).start)
        with written.reader(cell.index) as reader:
            if reader.checksum(inside, staging) != cell.checksum:
                wrong.add(cell.region)

    with Crew([buffers.lend(slab) for _ in range(workers)], on_stop=lambda: None) as crew:
        for cell in cells_in(read_lines(journal, array), grid):
            crew.add(partial(check, cell))
        crew.finish()
    return Verification(grid.size, 0 if wrong.first is None else None, wrong.first)


class _Wrong:
    """The first of the cells that are not what they were, from any thread."""

    def __init__(self) -> None:
        self.first: Region | None = None
        self._lock = Lock()

    def add(self, region: Region) -> None:
        with self._lock:
            if self.first is None or region.start < self.first.start:
                self.first = region
