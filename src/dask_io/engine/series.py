"""Report the progress of consecutive runs as that of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.engine.run import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dask_io.stores.store import Target


class SeriesProgress:
    """Combines the progress of several runs."""

    def __init__(
        self, report: Callable[[Progress], None] | None, targets: Sequence[Target]
    ) -> None:
        self._report = report
        self._n_bytes = sum(each.grid.size * each.dtype.itemsize for each in targets)
        self._n_blocks = sum(each.grid.n_blocks for each in targets)
        self._before = self._with_next = (0, 0)
        # What earlier runs wrote of the arrays so far.
        self._n_skipped: dict[int, int] = {}

    def of_next(self, target: Target) -> Callable[[Progress], None] | None:
        """Return the progress callback for the next run."""
        report, grid = self._report, target.grid
        n_bytes, n_blocks = self._before = self._with_next
        size = grid.size * target.dtype.itemsize
        self._with_next = (n_bytes + size, n_blocks + grid.n_blocks)
        if report is None:
            return None

        def report_total(progress: Progress) -> None:
            written = n_bytes + progress.n_bytes_written
            blocks = n_blocks + progress.n_blocks_written
            read = n_bytes + progress.n_bytes_read
            self._n_skipped[n_bytes] = progress.n_bytes_skipped
            skipped = sum(self._n_skipped.values())
            counts = (written, self._n_bytes, blocks, self._n_blocks, read, skipped)
            report(Progress(*counts, progress.n_bytes_held))

        return report_total
