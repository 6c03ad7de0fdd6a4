"""Compare Dask IO with what its users would pick instead, on the same data in the same run.

`make bench-peers` sets up two environments, and runs the quick set in about ten minutes; PEERS_ARGS
passes options on, such as ``--full``. All contestants run one after another in each round, and each
round starts with another one. Caches are dropped before each, and the final sync is counted. Each
gets the budget in its own way, and its target is compared with the source in the first round. Runs
that other programs disturbed are marked, and repeated once at the end of their round.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.measuring import (
    FailedError,
    copy,
    discard,
    drop_caches,
    remove,
    run_contestant,
)
from benchmarks.peers import results
from benchmarks.peers.measuring import Found, measure
from benchmarks.peers.workloads import SUFFIXES, WORKLOADS, Workload, differs, make_source
from dask_io.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.engine.measuring import Timing

_QUICK = {"size": "512MiB", "budgets": "128MiB", "repeats": 1}
_FULL = {"size": "2.6GiB", "budgets": "256MiB,1GiB,4GiB", "repeats": 3}
_FLOORS = ("direct", "buffered")
_FLOOR_THREADS = 6


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, always remove its files, and show and store what was found."""
    options = _parse(arguments)
    options.dir.mkdir(parents=True, exist_ok=True)
    found = []
    with tempfile.TemporaryDirectory(prefix="peers-", dir=options.dir) as folder:
        for workload in options.chosen:
            bench = _Bench(Path(folder), workload, options)
            for budget in options.budgets.split(","):
                row = bench.run(budget)
                found.append(row)
                sys.stdout.write(f"{results.table(row)}\n\n")
                sys.stdout.flush()
            bench.clear()
    document = results.document(found, options)
    sys.stdout.write(f"{results.verdict(document)}\n")
    if options.out:
        results.write(document, options.out)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--full", action="store_true", help="all workloads, larger, in three budgets, three times")
    add("--size", help="approximate bytes of each array")
    add("--budgets", help="memory budgets, separated by commas")
    add("--workloads", help=f"any of {','.join(WORKLOADS)}")
    add("--only", help="contestants, separated by commas, instead of all")
    add("--repeats", type=int, help="number of rounds; the median counts")
    add("--timeout", type=float, default=600, help="seconds after which a run is ended")
    add("--system-calls", action="store_true", help="count system calls in one more run of each")
    add("--warm", action="store_true", help="do not drop the caches")
    add("--dir", type=Path, default=Path(".benchmarks"), help="working directory, on the disk")
    add("--rechunker", type=Path, default=Path(".venv-rechunker/bin/python"), help="its Python")
    add("--out", type=Path, help="folder for the data, tables and plot; docs/peers for the docs")
    options = parser.parse_args(arguments)
    for name, value in (_FULL if options.full else _QUICK).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    names = options.workloads.split(",") if options.workloads else list(WORKLOADS)
    options.chosen = [
        WORKLOADS[name]
        for name in names
        if options.workloads or options.full or WORKLOADS[name].quick
    ]
    return options


@dataclass
class _Bench:
    """One workload: its source is made once, for all budgets."""

    folder: Path
    workload: Workload
    options: argparse.Namespace
    job: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        work = self.workload
        self.job = work.job(parse_bytes(self.options.size))
        self.source = self.folder / f"source{SUFFIXES[work.container]}"
        self.target = self.folder / f"target{SUFFIXES[work.target or work.container]}"
        self.source2 = self.folder / "source2.zarr"
        self.temporary = self.folder / "temporary"
        make_source(self.source, self.job)
        if "rechunker" in self.contestants and self.options.rechunker.exists():
            make_source(self.source2, self.job, zarr_format=2)

    @property
    def contestants(self) -> list[str]:
        """Names of those that move the array, ours first."""
        names = ["ours", *self.workload.peers]
        return [name for name in names if name in (self.options.only or name).split(",")]

    def clear(self) -> None:
        """Remove the sources, and what is left of the targets."""
        for path in (self.source, self.source2, self.folder / "aside"):
            remove(path)

    def run(self, budget: str) -> results.Row:
        """Measure all contestants and yardsticks with one budget."""
        row = results.Row(self.workload.name, self.workload.title, budget, parse_bytes(budget))
        job = {
            **self.job,
            "budget": row.budget,
            "source": str(self.source),
            "source2": str(self.source2),
            "target": str(self.target),
            "temporary": str(self.temporary),
        }
        timers: dict[str, Callable[[], Found]] = {
            "cp": partial(copy_, self.source, self.target, self._prepare),
            **{f"floor-{kind}": partial(self._floor, kind) for kind in _FLOORS},
            **{name: partial(self._measure, name, job) for name in self.contestants},
        }
        names = list(timers)
        for number in range(self.options.repeats):
            first = number % len(names)
            disturbed = []
            for name in names[first:] + names[:first]:
                self._try(row, name, timers[name], job, check=number == 0)
                if name in row.found and row.found[name][-1].is_disturbed:
                    disturbed.append(name)
            for name in disturbed:
                row.again(name, partial(self._once, timers[name]))
        if self.options.system_calls:
            self._count_system_calls(row, job)
        return row

    def _try(
        self,
        row: results.Row,
        name: str,
        timer: Callable[[], Found],
        job: dict[str, Any],
        *,
        check: bool,
    ) -> None:
        if name in row.failures:
            return
        try:
            row.found.setdefault(name, []).append(timer())
            if check and name in self.contestants:
                wrong = differs(job, self.source, self.target)
                if wrong:
                    row.failures[name] = f"wrong: {wrong}"
        except FailedError as error:
            row.fail(name, str(error))
        finally:
            self._discard()

    def _once(self, timer: Callable[[], Found]) -> Found:
        try:
            return timer()
        finally:
            self._discard()

    def _measure(self, name: str, job: dict[str, Any], trace: Path | None = None) -> Found:
        python = self.options.rechunker if name == "rechunker" else Path(sys.executable)
        if not python.exists():
            raise FailedError(results.NOT_INSTALLED)
        self.temporary.mkdir(exist_ok=True)
        return measure(
            name, job, self._prepare, python=python, timeout=self.options.timeout, trace=trace
        )

    def _floor(self, kind: str) -> Found:
        """Time the floor: as many bytes as the source has, in as many files as the target has."""
        files = [self.source, *self.source.rglob("*")]
        n_bytes = sum(path.stat().st_size for path in files if path.is_file())
        counts = [-(-n // b) for n, b in zip(self.job["shape"], self._unit, strict=True)]
        n_files = 1 if self.target.suffix == ".h5" else counts[0] * counts[1] * counts[2]
        found = run_contestant(
            "floor",
            self._prepare,
            source=str(self.source),
            target=str(self.target),
            n_bytes=n_bytes,
            file_bytes=-(-n_bytes // n_files),
            workers=_FLOOR_THREADS,
            direct=kind == "direct",
        )
        return _timed(found)

    @property
    def _unit(self) -> Sequence[int]:
        unit: Sequence[int] = self.job["shards"] or self.job["after"]
        return unit

    def _count_system_calls(self, row: results.Row, job: dict[str, Any]) -> None:
        trace = self.folder / "trace"
        for name in self.contestants:
            if name not in row.failures:
                try:
                    row.system_calls[name] = self._measure(name, job, trace).system_calls
                except FailedError as error:
                    sys.stderr.write(f"{name} was not traced: {error}\n")
                finally:
                    self._discard()

    def _prepare(self) -> None:
        if self.options.warm:
            os.sync()
        else:
            drop_caches()

    def _discard(self) -> None:
        aside = self.folder / "aside"
        for path in (self.target, self.temporary):
            discard(path, aside)


def copy_(source: Path, target: Path, prepare: Callable[[], object]) -> Found:
    """Time `cp -r`."""
    return _timed(copy(source, target, prepare))


def _timed(found: Timing) -> Found:
    return Found(found.seconds, found.cpu_seconds, found.other_cores)


if __name__ == "__main__":
    main()
