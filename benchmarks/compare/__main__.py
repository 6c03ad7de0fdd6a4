"""Compare this tree with an earlier commit: ``python -m benchmarks.compare --help``.

Both trees run the same workloads in processes of their own, in the same environment. They take
turns, and each round starts with the other one. Caches are dropped before each run that moves data,
and the final sync is counted. The exit code is 1 if the current tree fails, if it makes other
seeks, moves other bytes or decodes other blocks than the base, or if it takes more than
``--threshold`` times the seconds, the CPU seconds or the memory in every round that no other
process disturbed. Less than 20 ms or 4 MiB more is ignored.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.compare.results import LEGEND, Round, Row, rows_to_text
from benchmarks.compare.trees import take_base, take_current
from benchmarks.compare.workloads import WORKLOADS
from benchmarks.engine.measuring import (
    FailedError,
    Timing,
    discard,
    drop_caches,
    remove,
    run_contestant,
    run_dask_io,
)
from dask_io.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.compare.workloads import Workload

_STARTS = 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, print a table, and always remove all files."""
    options = _parser().parse_args(arguments)
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="compare-", dir=options.dir) as folder:
        place = Path(folder)
        try:
            trees = {
                "base": take_base(options.base, place / "base"),
                "current": take_current(place / "current"),
            }
        except FailedError as error:
            sys.exit(str(error))
        for name, tree in trees.items():
            _say(f"{name}: {tree}")
        rows = _Bench(place, options).run()
    _say(f"\n{rows_to_text(rows, options.threshold)}\n\n{LEGEND}")
    if options.json:
        found = {"trees": trees, "rows": [row.to_json(options.threshold) for row in rows]}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    worse = [row.name for row in rows if row.findings(options.threshold)]
    if worse:
        sys.exit(f"worse than the base: {', '.join(worse)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    add = parser.add_argument
    add(
        "--base",
        help="commit, or folder with a src, to compare with; by default where the branch left "
        "main, the newest tag before the current commit, or its parent",
    )
    add("--size", type=parse_bytes, default="256MiB", help="approximate bytes of each array")
    add("--workloads", type=_workloads, default=",".join(WORKLOADS), help="separated by commas")
    add("--repeats", type=int, default=3, help="number of rounds")
    add("--threshold", type=float, default=1.1, help="the most that a ratio may be")
    add("--dir", type=Path, default=Path(".benchmarks"), help="directory on the disk to measure")
    add("--warm", action="store_true", help="do not drop the caches")
    add("--json", type=Path, metavar="FILE", help="write all timings to this file")
    return parser


def _workloads(text: str) -> list[Workload]:
    names = text.split(",")
    if unknown := set(names) - WORKLOADS.keys():
        raise argparse.ArgumentTypeError(
            f"unknown workloads {', '.join(sorted(unknown))}; choose from {', '.join(WORKLOADS)}"
        )
    return [one for name, one in WORKLOADS.items() if name in names]


class _Bench:
    """Runs the workloads, with one source and one target on disk at a time."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder, self._options = folder, options
        self._prepare = os.sync if options.warm else drop_caches
        if not self._prepare() and not options.warm:
            _note("WARNING: caches cannot be dropped (not root), so data may be read from memory")

    def run(self) -> list[Row]:
        """Measure all workloads."""
        rows = []
        for make, workloads in groupby(self._options.workloads, attrgetter("make")):
            source = make(self._folder, self._options.size)
            rows += [self._measure(one, source) for one in workloads]
            remove(source)
        return rows

    def _measure(self, workload: Workload, source: Path) -> Row:
        rounds: list[Round] = []
        for number in range(self._options.repeats):
            timings: dict[str, Timing] = {}
            failures: dict[str, str] = {}
            for tree in ("base", "current") if number % 2 == 0 else ("current", "base"):
                try:
                    timings[tree] = self._time(workload, source, self._folder / tree)
                except FailedError as error:
                    failures[tree] = str(error)
            if failures:
                _note(f"{workload.name}: {failures}")
                return Row(workload.name, [], failures)
            rounds.append(Round(**timings))
            seconds = ", ".join(f"{name} {one.seconds:.2f} s" for name, one in timings.items())
            _note(f"{workload.name}: {seconds}")
        return Row(workload.name, rounds, {})

    def _time(self, workload: Workload, source: Path, tree: Path) -> Timing:
        options, target = workload.options(self._options.size), self._folder / workload.target
        if workload.kind == "command":
            place = [str(source)] if source.exists() else []
            return _time_starts([*options["words"], *place], tree)
        if workload.kind != "plan_shape":
            options |= {"source": str(source), "target": str(target)}
        try:
            return run_contestant(workload.kind, self._prepare, tree=tree, **options)
        finally:
            discard(target, self._folder / "aside")


def _time_starts(words: list[str], tree: Path) -> Timing:
    """Time a command several times, as it is short, and return the medians.

    Caches are warm, because reading the imports from the disk would hide everything else.
    """
    found = [run_dask_io(words, os.sync, tree=tree) for _ in range(_STARTS)]
    of = attrgetter("seconds", "cpu_seconds", "other_cores")
    seconds, cpu_seconds, others = map(median, zip(*map(of, found), strict=True))
    return Timing(seconds, cpu_seconds, other_cores=others)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # this is a command


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  # this is a command


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    main()
