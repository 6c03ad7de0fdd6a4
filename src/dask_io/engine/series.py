"""Report the progress of several runs as that of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.engine.run import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from dask_io.stores.store import Target


class SeriesProgress:
    """Combines the progress of several runs."""

    def __init__(
        self, report: Callable[[Progress], None] | None, targets: Sequence[Target]
    ) -> None:
        self._report = report
        total = size_of(targets)
        self._n_bytes, self._n_blocks = total.n_bytes, total.n_blocks
        self._before = self._with_next = (0, 0)
        # What earlier runs wrote of the arrays so far.
        self._n_skipped: dict[int, int] = {}

    def of_next(self, *targets: Target) -> Callable[[Progress], None] | None:
        """Return the progress callback for the next run, which writes one or more targets."""
        report, following = self._report, size_of(targets)
        n_bytes, n_blocks = self._before = self._with_next
        self._with_next = (n_bytes + following.n_bytes, n_blocks + following.n_blocks)
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


def add_up(parts: Collection[Progress], total: Progress) -> Progress:
    """Return the progress of parts that run at once, as that of one run of the size of `total`."""
    return Progress(
        min(sum(each.n_bytes_written for each in parts), total.n_bytes),
        total.n_bytes,
        min(sum(each.n_blocks_written for each in parts), total.n_blocks),
        total.n_blocks,
        sum(each.n_bytes_read for each in parts),
        sum(each.n_bytes_skipped for each in parts),
        sum(each.n_bytes_held for each in parts),
    )


def size_of(targets: Iterable[Target]) -> Progress:
    """Return the progress of a run that has written nothing of some targets yet."""
    sizes = [(each.grid.size * each.dtype.itemsize, each.grid.n_blocks) for each in targets]
    return Progress(0, sum(size for size, _ in sizes), 0, sum(n_blocks for _, n_blocks in sizes))
