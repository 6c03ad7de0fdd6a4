"""Compare the engine with `cp -r` and the floor: ``python -m benchmarks.engine --help``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask_io
from benchmarks.engine.measuring import (
    FailedError,
    Timing,
    copy,
    discard,
    drop_caches,
    remove,
    run_contestant,
)
from benchmarks.engine.results import LEGEND, Round, Row, goals_to_text, rows_to_text
from benchmarks.engine.workloads import WORKLOADS, make_source
from dask_io.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.engine.workloads import Workload
    from dask_io.geometry import Grid

_ROOM_TO_SPARE = 64 * 2**20
_MEMORY_TO_VERIFY = "1GiB"
# For files below this size, buffered I/O may be faster than direct I/O.
_SMALL_FILE = 2 * 2**20


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and always remove its files."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    options.dir.mkdir(parents=True, exist_ok=True)
    _check_space(options)
    with tempfile.TemporaryDirectory(prefix="engine-", dir=options.dir) as folder:
        bench = _Bench(Path(folder), options)
        bench.introduce()
        rows = bench.run()
    _say(f"\n{rows_to_text(rows)}\n\n{LEGEND}\n\n{goals_to_text(rows)}")
    if options.json:
        found = {"machine": bench.machine(), "rows": [row.to_json() for row in rows]}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__)
    add = parser.add_argument
    add("--size", type=parse_bytes, default="2.5GiB", help="least bytes of each array")
    add(
        "--budgets",
        type=_budgets,
        default="256MiB,1GiB,4GiB",
        help="memory budgets, separated by commas",
    )
    add(
        "--workloads",
        type=_workloads,
        default=",".join(WORKLOADS),
        help="letters, separated by commas",
    )
    add("--repeats", type=int, default=3, help="number of rounds of cp, ours and floor")
    add("--workers", type=int, help="number of threads of ours and of the floor")
    add("--strategy", default="auto", help="as for dask-io resplit")
    add(
        "--dir",
        type=Path,
        default=Path(".benchmarks"),
        help="working directory, on the disk to measure",
    )
    add("--warm", action="store_true", help="do not drop the caches")
    add("--json", type=Path, metavar="FILE", help="write all timings to this file")
    return parser


def _budgets(text: str) -> list[int]:
    return [parse_bytes(part) for part in text.split(",")]


def _workloads(text: str) -> list[Workload]:
    try:
        return [WORKLOADS[name] for name in text.split(",")]
    except KeyError as error:
        known = ", ".join(f"{one.name} ({one.title})" for one in WORKLOADS.values())
        raise argparse.ArgumentTypeError(
            f"unknown workload {error}; choose one of {known}"
        ) from None


def _check_space(options: argparse.Namespace) -> None:
    """Stop if there is no room for three arrays, because the disk should not be nearly full."""
    largest = max(
        prod(one.grids(options.size)[0].shape) * one.itemsize for one in options.workloads
    )
    needed, free = 3 * largest + _ROOM_TO_SPARE, shutil.disk_usage(options.dir).free
    if needed > free:
        sys.exit(
            f"{options.dir}: {format_bytes(needed)} are needed, but {format_bytes(free)} are free; "
            "give a smaller --size or another --dir"
        )


class _Bench:
    """Runs the benchmark, with one source and one target on disk at a time."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder, self._options = folder, options
        self._prepare = os.sync if options.warm else drop_caches
        self._drops_caches = bool(self._prepare())

    def machine(self) -> dict[str, Any]:
        """Return the conditions of the measurement."""
        return {
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "caches_dropped": self._drops_caches,
            "version": dask_io.__version__,
        }

    def introduce(self) -> None:
        """Print the conditions of the measurement."""
        facts = self.machine()
        _say(
            f"{facts['cores']} cores, load {facts['load']:.1f}, {self._options.repeats} rounds, "
            f"in {self._options.dir.resolve()}"
        )
        if not self._drops_caches:
            why = "are not dropped" if self._options.warm else "cannot be dropped (not root)"
            _say(f"WARNING: caches {why}, so data may be read from memory")

    def run(self) -> list[Row]:
        """Measure all workloads at all budgets."""
        rows, remaining = [], list(self._options.workloads)
        while remaining:
            # Workloads with the same source come one after another.
            source_key = remaining[0].source_key
            same = [one for one in remaining if one.source_key == source_key]
            remaining = [one for one in remaining if one.source_key != source_key]
            rows += self._run_source(same)
        names = [one.name for one in self._options.workloads]
        return sorted(rows, key=lambda row: names.index(row.workload.name))

    def _run_source(self, workloads: list[Workload]) -> list[Row]:
        before, _ = workloads[0].grids(self._options.size)
        source = self._folder / ("source.npy" if before.n_blocks == 1 else "source")
        n_bytes = before.size * workloads[0].itemsize
        shape = " x ".join(map(str, before.shape))
        _note(
            f"writing {shape} {workloads[0].dtype}, {format_bytes(n_bytes)}, in blocks of {before}"
        )
        make_source(source, before, workloads[0].dtype)
        rows = []
        for workload in workloads:
            verify = True
            for budget in self._options.budgets:
                rows.append(self._run_budget(workload, source, budget, verify=verify))
                verify = verify and bool(rows[-1].failure)
        remove(source)
        return rows

    def _run_budget(self, workload: Workload, source: Path, budget: int, *, verify: bool) -> Row:
        before, after = workload.grids(self._options.size)
        n_bytes, rounds = before.size * workload.itemsize, []
        try:
            for number in range(self._options.repeats):
                timings = self._run_round(
                    workload, source, after, budget, first=number, verify=verify and number == 0
                )
                rounds.append(Round(**timings))
                seconds = ", ".join(f"{name} {one.seconds:.2f} s" for name, one in timings.items())
                _note(f"{workload.name} at {format_bytes(budget)}: {seconds}")
        except FailedError as error:
            _note(f"{workload.name} at {format_bytes(budget)}: {error}")
            return Row(workload, budget, n_bytes, [], str(error))
        return Row(workload, budget, n_bytes, rounds)

    def _run_round(
        self,
        workload: Workload,
        source: Path,
        after: Grid,
        budget: int,
        *,
        first: int,
        verify: bool,
    ) -> dict[str, Timing]:
        """Time the three one after another; each round starts with a different one."""
        target = self._folder / ("target.npy" if after.n_blocks == 1 else "target")
        runs: list[tuple[str, Callable[[], Timing]]] = [
            ("cp", lambda: copy(source, target, self._prepare)),
            ("ours", lambda: self._resplit(workload, source, target, after, budget)),
            ("floor", lambda: self._floor(workload, source, after)),
        ]
        timings = {}
        for name, run in runs[first % 3 :] + runs[: first % 3]:
            try:
                timings[name] = run()
                if name == "ours" and verify:
                    _verify(source, target)
            finally:
                for made in (target, self._folder / "floor"):
                    discard(made, self._folder / "aside")
        return timings

    def _resplit(
        self, workload: Workload, source: Path, target: Path, after: Grid, budget: int
    ) -> Timing:
        return run_contestant(
            "resplit",
            self._prepare,
            source=str(source),
            target=str(target),
            chunks=after.longest,
            memory=budget,
            order=workload.order,
            strategy=self._options.strategy,
            workers=self._options.workers,
        )

    def _floor(self, workload: Workload, source: Path, after: Grid) -> Timing:
        """Time the floor: for small files the faster of direct and buffered I/O."""
        # As many threads as the engine uses.
        job = dask_io.plan(source, chunks=after.longest, workers=self._options.workers)
        file_bytes, timings = prod(after.longest) * workload.itemsize, []
        for direct in (True, False) if file_bytes < _SMALL_FILE else (True,):
            discard(self._folder / "floor", self._folder / "aside")
            found = run_contestant(
                "floor",
                self._prepare,
                source=str(source),
                target=str(self._folder / "floor"),
                n_bytes=after.size * workload.itemsize,
                file_bytes=file_bytes,
                workers=job.workers,
                direct=direct,
            )
            timings.append(found)
        return min(timings, key=lambda each: each.seconds)


def _verify(source: Path, target: Path) -> None:
    found = dask_io.verify(source, target, memory=_MEMORY_TO_VERIFY)
    if not found:
        raise FailedError(
            f"the result is wrong; the first difference is at {found.first_difference}"
        )


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # this is a command


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  # this is a command


if __name__ == "__main__":
    main()
