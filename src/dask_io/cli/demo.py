"""The demo: resplit an example array within a budget, and compare with the naive strategy."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib import format as npy_format

from dask_io import api
from dask_io.cli.group import one_line, show
from dask_io.cli.reporting import recording, write_report
from dask_io.errors import InterruptedRunError, StorageError, UsageError
from dask_io.geometry import Grid, Region
from dask_io.planning.describe import table
from dask_io.report import text
from dask_io.report.progress import Watch, showing
from dask_io.report.summary import plan_summary
from dask_io.storage.os_errors import storage_errors
from dask_io.units import format_bytes, format_seconds, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dask_io.planning import AnyPlan

_DTYPE = np.dtype("<f8")
# Numbers of blocks along each axis. They have no common divisor, so the two grids share no inner
# boundary.
_SOURCE_BLOCKS, _TARGET_BLOCKS = 10, 7
_SMALLEST, _SHARE_OF_MEMORY = 2**20, 6
# Each naive seek is a system call. This many take about a minute.
_MOST_NAIVE_SEEKS = 4_000_000


@dataclass(frozen=True, slots=True)
class _Example:
    """The grids of the example array, and the budget."""

    source: Grid
    target: Grid
    memory: int
    workers: int | None

    @property
    def n_bytes(self) -> int:
        return self.source.size * _DTYPE.itemsize

    @property
    def chunks(self) -> tuple[int, ...]:
        return self.target.longest


def run_demo(
    *, size: str, memory: str | None, workers: int | None, folder: str | None, keep_files: bool
) -> None:
    """Resplit an example array, and show what a plan saves."""
    example = _make_example(size, memory, workers)
    with _temporary_folder(folder, example.n_bytes, keep_files=keep_files) as place:
        try:
            _compare(example, place)
        except InterruptedRunError:
            # The files are removed, so there is nothing to resume.
            raise KeyboardInterrupt from None
        if keep_files:
            show(f"\nThe arrays are in {one_line(str(place))}")


def _make_example(size: str, memory: str | None, workers: int | None) -> _Example:
    """Choose a shape of about the requested size, twice as long as it is wide."""
    try:
        requested = parse_bytes(size)
        budget = parse_bytes(memory) if memory is not None else None
    except ValueError as error:
        raise UsageError(str(error)) from None
    if requested < _SMALLEST:
        message = f"a demo with {format_bytes(requested)} is too small; give --size 1MiB or more"
        raise UsageError(message)
    side = round((requested / 2 / _DTYPE.itemsize) ** (1 / 3))
    shape = (side, side, 2 * side)
    source, target = (
        Grid.regular(shape, [-(-length // n_blocks) for length in shape])
        for n_blocks in (_SOURCE_BLOCKS, _TARGET_BLOCKS)
    )
    n_bytes = source.size * _DTYPE.itemsize
    return _Example(source, target, budget or n_bytes // _SHARE_OF_MEMORY, workers)


@contextmanager
def _temporary_folder(folder: str | None, n_bytes: int, *, keep_files: bool) -> Iterator[Path]:
    """Create a folder on a disk with room for the arrays, and remove it at the end."""
    root = Path(folder) if folder is not None else Path(tempfile.gettempdir())
    with storage_errors(root):
        root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(root).free
        # Source, target, a page for the header of each block, and some reserve.
        needed = 2 * n_bytes + n_bytes // 4 + 16 * 2**20
        if needed > free:
            reason = f"the demo needs {format_bytes(needed)}, but {format_bytes(free)} are free"
            raise StorageError(str(root), reason, "give a smaller --size or another --dir")
        place = Path(tempfile.mkdtemp(prefix="dask-io-demo-", dir=root))
    try:
        yield place
    finally:
        if not keep_files:
            shutil.rmtree(place, ignore_errors=True)


def _compare(example: _Example, place: Path) -> None:
    source = place / "source"
    shape, n_blocks = " x ".join(map(str, example.source.shape)), example.source.n_blocks
    show(
        f"Creating an array of {shape} {_DTYPE}, {format_bytes(example.n_bytes)}, in {n_blocks:,} "
        f"blocks of {example.source} (.npy)"
    )
    _make_source(example, source)

    blocks = api.open(source)
    job = api.plan(
        blocks,
        place / "resplit",
        chunks=example.chunks,
        memory=example.memory,
        workers=example.workers,
    )
    summary = plan_summary(job.plan, job.device)
    show(f"\nThe plan, with {format_bytes(example.memory)} of memory:\n\n{summary}")
    result = _run(job, "resplit", verify=True)
    show(f"\nDone: {text.run_text(job.plan, result)}\n{text.counts_text(job.plan, result)}")
    write_report(
        job.plan,
        job.device,
        source="the example array",
        target="its new blocks",
        result=result,
    )

    naive = api.plan(
        blocks,
        place / "naive",
        chunks=example.chunks,
        memory=example.memory,
        workers=example.workers,
        strategy="naive",
    )
    measured = None
    if naive.plan.seeks.total <= _MOST_NAIVE_SEEKS:
        show("\nNow the naive way: read one block at a time, and write its parts immediately.")
        shutil.rmtree(place / "resplit")
        measured = _run(naive, "naive", verify=False)
    show(f"\n{_comparison(job.plan, result, naive.plan, measured)}")


def _run(job: api.Job, label: str, *, verify: bool) -> api.RunResult:
    then = "verifying" if verify else ""
    with showing("auto", Watch(label, then, budget=job.plan.peak_bytes)) as update:
        return job.run(verify=verify, progress=recording(update))


def _make_source(example: _Example, folder: Path) -> None:
    """Write the array block by block, so that it need not fit in memory."""
    with storage_errors(folder):
        folder.mkdir()
        for index in example.source.indices():
            name = "_".join(map(str, ("b", *index)))
            values = _values(example.source.block(index))
            # Without `np.save`, because NumPy turns an interrupt in `tofile` into a TypeError.
            with (folder / f"{name}.npy").open("xb") as file:
                header = npy_format.header_data_from_array_1_0(values)
                npy_format.write_array_header_1_0(file, header)
                file.write(values.data)


def _values(region: Region) -> NDArray[np.float64]:
    """Return values that depend on the position only, so that every run has the same array."""
    sides = (
        np.arange(low, high, dtype=np.int64)
        for low, high in zip(region.start, region.stop, strict=True)
    )
    x, y, z = np.ix_(*sides)
    return ((x * 7919 + y * 104729 + z * 1299709) % 16777213).astype(_DTYPE)


def _comparison(
    plan: AnyPlan, result: api.RunResult, naive: AnyPlan, measured: api.RunResult | None
) -> str:
    """Compare the run with the naive one, which may only have been planned, in a table."""
    n_blocks = plan.problem.lower_bound
    ours = (
        f"{result.seeks.total:,}",
        format_seconds(result.seconds),
        format_bytes(result.held),
        f"{max(0, result.openings - n_blocks):,}",
    )
    if measured is None:
        seeks, reopened = naive.seeks.total, naive.openings - n_blocks
        theirs = (f"{seeks:,}", "not run", format_bytes(naive.held_bytes), f"{reopened:,}")
        note = "\nThe naive way was not run, because it would take too long; its counts are exact."
    else:
        theirs = (
            f"{measured.seeks.total:,}",
            format_seconds(measured.seconds),
            format_bytes(measured.held),
            f"{max(0, measured.openings - n_blocks):,}",
        )
        note = ""
    words = ("seeks", "time", "data held", "blocks reopened")
    rows = [("", plan.strategy, "naive"), *zip(words, ours, theirs, strict=True)]
    return (
        f"{table(rows)}{note}\n"
        "New files are still in the system's cache, where a seek is cheap. On a hard disk, a seek "
        "takes about 10 ms."
    )
