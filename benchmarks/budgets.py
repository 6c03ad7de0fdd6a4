"""Measure whether more memory is ever slower, with one array that is resplit in growing budgets.

``python -m benchmarks.budgets --help``. All budgets take turns in each round, and each round starts
with another one. Caches are dropped before each run, and the final sync is counted. Ratios are
medians of a budget's time to that of the next smaller budget in the same round. A star marks times
during which other processes used the machine, too.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import dask_io
from benchmarks.engine.measuring import Timing, discard, drop_caches, remove, run_contestant
from benchmarks.zarr import smooth_with_noise
from dask_io.planning.describe import table
from dask_io.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The lengths of blocks before and after, and the codec, for arrays of int16.
_CASES: dict[str, tuple[int, int, str | None]] = {
    "npy": (130, 180, None),
    "zarr-zstd": (130, 180, "zstd:3"),
}
# More memory may take this many times as long, because times vary.
_MOST = 1.1
HEADINGS = ("case", "budget", "seconds", "CPU s", "of the smaller budget", "seeks", "held, in all")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and always remove its files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budgets", description=__doc__)
    add = parser.add_argument
    add("--size", type=parse_bytes, default="512MiB", help="approximate bytes of each array")
    add("--budgets", default="32MiB,64MiB,128MiB,256MiB,512MiB,1GiB", help="smallest first")
    add("--cases", default=",".join(_CASES), help="names, separated by commas")
    add("--repeats", type=int, default=3, help="number of rounds")
    add("--dir", type=Path, default=Path(".benchmarks"), help="directory on the disk to measure")
    add("--warm", action="store_true", help="do not drop the caches")
    options = parser.parse_args(arguments)
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="budgets-", dir=options.dir) as folder:
        rows = [
            row
            for name in options.cases.split(",")
            for row in _measure(name, Path(folder), options)
        ]
    sys.stdout.write(f"{table([HEADINGS, *rows])}\n")


def _measure(name: str, folder: Path, options: argparse.Namespace) -> list[tuple[str, ...]]:
    """Return the rows of one case."""
    before, after, codec = _CASES[name]
    suffix = "" if codec is None else ".zarr"
    source, target = folder / f"source{suffix}", folder / f"target{suffix}"
    _make_source(source, options.size, before, codec)
    arguments: dict[str, Any] = {"chunks": after, "format": None if codec else "npy"}
    prepare: Callable[[], object] = os.sync if options.warm else drop_caches
    run = partial(run_contestant, "resplit", prepare, source=str(source), target=str(target))
    budgets = options.budgets.split(",")
    found: dict[str, list[Timing]] = {budget: [] for budget in budgets}
    for number in range(options.repeats):
        first = number % len(budgets)
        for budget in budgets[first:] + budgets[:first]:
            found[budget].append(run(memory=parse_bytes(budget), workers=None, **arguments))
            discard(target, folder / "aside")
    rows: list[tuple[str, ...]] = []
    smaller = None
    for budget, timings in found.items():
        plan = dask_io.plan(source, target, memory=budget, **arguments).plan
        shown = ", ".join(f"{t.seconds:.2f}{'*' if t.is_disturbed else ''}" for t in timings)
        rows.append(
            (
                name,
                budget,
                f"{median(t.seconds for t in timings):.2f} ({shown})",
                f"{median(t.cpu_seconds for t in timings):.2f}",
                _ratio(timings, smaller),
                str(plan.seeks.total),
                f"{plan.held_bytes >> 20}, {plan.peak_bytes >> 20} MiB",
            )
        )
        smaller = timings
    remove(source)
    return rows


def _ratio(timings: list[Timing], smaller: list[Timing] | None) -> str:
    if smaller is None:
        return ""
    ratios = [a.seconds / b.seconds for a, b in zip(timings, smaller, strict=True)]
    slower = " slower" if median(ratios) > _MOST else ""
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}){slower}"


def _make_source(source: Path, size: int, before: int, codec: str | None) -> None:
    """Write a cube of int16, smooth with noise, in blocks of the length `before`."""
    plain = source.with_name("plain.npy")
    np.save(plain, smooth_with_noise(round((size / 2) ** (1 / 3))))
    format_ = "npy" if codec is None else None
    dask_io.resplit(plain, source, chunks=before, codec=codec, format=format_, memory="512MiB")
    remove(plain)


if __name__ == "__main__":
    main()
