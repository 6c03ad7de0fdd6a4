"""Measure many small blocks, next to TensorStore, a loop over memory maps, and the floor.

``python -m benchmarks.small_blocks --help``. All run one after another in each round, and each
round starts with another one. Caches are dropped before each, and the final sync is counted. The
floor is the faster of direct and buffered I/O. A star marks times during which other processes used
the machine, too.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import dask_io
from benchmarks.engine.measuring import Timing, discard, drop_caches, remove, run_contestant
from benchmarks.engine.workloads import make_source
from dask_io.geometry import Grid
from dask_io.planning.describe import table
from dask_io.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Our time should be at most this part of a peer's.
_GOAL = 1 / 1.3


@dataclass(frozen=True, slots=True)
class Workload:
    """A cube of blocks that become blocks of another length; with a codec it is a Zarr array."""

    name: str
    dtype: str
    before: int
    after: int
    codec: str | None

    def grids(self, size: int) -> tuple[Grid, Grid]:
        """Return the grids before and after, of about `size` bytes."""
        side = round((size / np.dtype(self.dtype).itemsize) ** (1 / 3))
        before, after = (Grid.regular((side,) * 3, (n,) * 3) for n in (self.before, self.after))
        return before, after


WORKLOADS = {
    one.name: one
    for one in (
        Workload("zarr-u2", "<u2", 84, 60, "none"),
        Workload("zarr-u1", "|u1", 64, 100, "none"),
        Workload("zarr-zstd", "|u1", 64, 100, "zstd:3"),
        Workload("npy-u1", "|u1", 64, 100, None),
    )
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and always remove its files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_blocks", description=__doc__)
    add = parser.add_argument
    add("--size", type=parse_bytes, default="1GiB", help="approximate bytes of each array")
    add("--budget", type=parse_bytes, default="256MiB", help="memory budget")
    add("--workloads", default=",".join(WORKLOADS), help="names, separated by commas")
    add("--repeats", type=int, default=3, help="number of rounds")
    add("--workers", type=int, help="number of threads of ours and of the floor")
    add("--only", default="", help="contestants, separated by commas, instead of all")
    add(
        "--dir",
        type=Path,
        default=Path(".benchmarks"),
        help="working directory, on the disk to measure",
    )
    add("--warm", action="store_true", help="do not drop the caches")
    options = parser.parse_args(arguments)
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="small-", dir=options.dir) as folder:
        rows = [
            row
            for name in options.workloads.split(",")
            for row in _Bench(Path(folder), WORKLOADS[name], options).run()
        ]
    sys.stdout.write(f"{table([HEADINGS, *rows])}\n")


HEADINGS = ("workload", "contestant", "seconds", "CPU s", "ours takes", "goal")


class _Bench:
    def __init__(self, folder: Path, workload: Workload, options: argparse.Namespace) -> None:
        self._folder, self._workload, self._options = folder, workload, options
        self._prepare: Callable[[], object] = os.sync if options.warm else drop_caches
        self._before, self._after = workload.grids(options.size)
        self._source = folder / ("source" if workload.codec is None else "source.zarr")

    def run(self) -> list[tuple[str, ...]]:
        """Measure all contestants, and return the rows of the table."""
        self._make_source()
        contestants = self._contestants()
        names = [name for name in contestants if name in (self._options.only or name).split(",")]
        found: dict[str, list[Timing]] = {name: [] for name in names}
        for number in range(self._options.repeats):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                found[name].append(contestants[name]())
                discard(self._target, self._folder / "aside")
        remove(self._source)
        floors = [name for name in names if name.startswith("floor")]
        if floors:
            best = min(floors, key=lambda name: median(each.seconds for each in found[name]))
            found = {
                name: each for name, each in found.items() if name not in floors or name == best
            }
        return [self._row(name, timings, found["ours"]) for name, timings in found.items()]

    @property
    def _target(self) -> Path:
        return self._folder / ("target" if self._workload.codec is None else "target.zarr")

    def _row(self, name: str, timings: list[Timing], ours: list[Timing]) -> tuple[str, ...]:
        seconds = ", ".join(
            f"{each.seconds:.2f}{'*' if each.is_disturbed else ''}" for each in timings
        )
        ratio, goal = "", ""
        if name != "ours":
            ratios = [a.seconds / b.seconds for a, b in zip(ours, timings, strict=True)]
            ratio = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            goal = "" if name.startswith("floor") else f"{_GOAL:.2f}"
        return (
            self._workload.name,
            name,
            f"{median(each.seconds for each in timings):.2f} ({seconds})",
            f"{median(each.cpu_seconds for each in timings):.2f}",
            ratio,
            goal,
        )

    def _make_source(self) -> None:
        codec, grid = self._workload.codec, self._before
        plain = self._folder / "plain"
        make_source(plain, grid, self._workload.dtype)
        if codec is None:
            plain.rename(self._source)
            return
        dask_io.resplit(
            plain, self._source, chunks=self._workload.before, codec=codec, memory="1GiB"
        )
        remove(plain)

    def _contestants(self) -> dict[str, Callable[[], Timing]]:
        """Return how to time each contestant, ours first."""
        work, options = self._workload, self._options
        format_ = "npy" if work.codec is None else None
        job = dask_io.plan(
            self._source, self._target, chunks=work.after, workers=options.workers, format=format_
        )
        floor = {
            "n_bytes": self._after.size * np.dtype(work.dtype).itemsize,
            "file_bytes": prod(self._after.longest) * np.dtype(work.dtype).itemsize,
            "workers": job.workers,
        }
        found = {
            "ours": self._timer(
                "resplit",
                chunks=work.after,
                memory=options.budget,
                workers=options.workers,
                format=format_,
            )
        }
        if work.codec is None:
            shape = list(self._before.shape)
            found["memmap"] = self._timer(
                "memmap", shape=shape, before=[work.before] * 3, after=[work.after] * 3
            )
        else:
            found["tensorstore"] = self._timer(
                "tensorstore", chunks=work.after, memory=options.budget
            )
        if work.codec in {None, "none"}:
            found["floor-direct"] = self._timer("floor", **floor, direct=True)
            found["floor-buffered"] = self._timer("floor", **floor, direct=False)
        return found

    def _timer(self, kind: str, **arguments: Any) -> Callable[[], Timing]:
        places: dict[str, Any] = {"source": str(self._source), "target": str(self._target)}
        return partial(run_contestant, kind, self._prepare, **places, **arguments)


if __name__ == "__main__":
    main()
