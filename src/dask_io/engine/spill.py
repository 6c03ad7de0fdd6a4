"""Run a plan of two passes, through scratch blocks next to the target."""

from __future__ import annotations

import glob
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xxhash import xxh3_64_hexdigest

from dask_io.engine.commit import Outlet
from dask_io.engine.measure import existing_folder
from dask_io.engine.run import Progress, run_plan
from dask_io.formats.creating import make_target
from dask_io.formats.opening import open_source
from dask_io.storage.location import is_url
from dask_io.storage.medium import Durability
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import SCRATCH, SCRATCH_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dask_io.engine.run import RunResult
    from dask_io.planning import SpillPlan
    from dask_io.stores.store import Source, Target


def run_spill(
    plan: SpillPlan,
    source: Source,
    outlet: Outlet,
    *,
    workers: int,
    on_progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Run both passes; the scratch blocks are always removed afterwards.

    Scratch blocks are not durable: a resumed run starts the first pass again.
    """
    # This reports problems with the target before the first pass.
    outlet.begin()
    target = outlet.target
    try:
        with _scratch_folder(target) as folder:
            scratch = make_target(
                folder,
                format="raw",
                grid=plan.scratch.grid,
                dtype=target.dtype,
                layout=plan.scratch.layout,
                durability=Durability.NONE,
            )
            scratch.tally.pace = target.tally.pace
            watch = _Halves(on_progress, target)
            first = run_plan(
                plan.first, source, Outlet(scratch), workers=workers, on_progress=watch.first
            )
            between = open_source(folder)
            between.tally.pace = target.tally.pace
            second = run_plan(
                plan.second, between, outlet, workers=workers, on_progress=watch.second
            )
    except BaseException:
        outlet.abandon()
        raise
    blocks_skipped, blocks_written = second.blocks_skipped, second.blocks_written
    both = first.followed_by(second)
    return replace(
        both,
        blocks_written=blocks_written,
        blocks_skipped=blocks_skipped,
        n_bytes_scratch=first.n_bytes_written,
        n_bytes_array=second.n_bytes_array,
        blocks_left_out=second.blocks_left_out,
    )


def remove_scratch(target: Target) -> None:
    """Remove scratch blocks that a killed run left next to a target that this run now owns."""
    folder, name = _scratch_place(target)
    for stale in folder.glob(f"{glob.escape(name)}{SCRATCH_TOKEN}{SCRATCH}"):
        # Only a folder can be ours; opening a pipe would wait for a writer.
        if stale.is_dir():
            shutil.rmtree(stale, ignore_errors=True)


def _scratch_place(target: Target) -> tuple[Path, str]:
    """Return the folder and the name prefix of scratch folders, next to a local target."""
    if is_url(target.place):
        name = xxh3_64_hexdigest(target.place.encode())
        return Path(tempfile.gettempdir()), f".dask-io-{name}."
    place = Path(target.place).absolute()
    # An array in a container may not have its own folder.
    folder = existing_folder(place.parent)
    return folder, f".{str(place.relative_to(folder)).replace('/', ':')}."


@contextmanager
def _scratch_folder(target: Target) -> Iterator[Path]:
    """Create a folder on the target's filesystem, and remove it with its content at the end."""
    remove_scratch(target)
    above, name = _scratch_place(target)
    with storage_errors(above):
        folder = Path(tempfile.mkdtemp(prefix=name, suffix=SCRATCH, dir=above))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Halves:
    """Reports the progress of two passes as that of one run."""

    def __init__(self, report: Callable[[Progress], None] | None, target: Target) -> None:
        self._report, self._n_blocks = report, target.grid.n_blocks

    def first(self, progress: Progress) -> None:
        self._report_both(progress, 0)

    def second(self, progress: Progress) -> None:
        self._report_both(progress, progress.n_bytes)

    def _report_both(self, progress: Progress, before: int) -> None:
        if self._report is not None:
            # The first pass writes scratch blocks, not those of the target.
            n_blocks = progress.n_blocks_written if before else 0
            self._report(
                Progress(
                    before + progress.n_bytes_written,
                    2 * progress.n_bytes,
                    n_blocks,
                    self._n_blocks,
                    before + progress.n_bytes_read,
                    progress.n_bytes_skipped,
                    progress.n_bytes_held,
                )
            )
