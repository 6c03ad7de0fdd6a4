"""Run the experiments of the report: one file of JSON and one picture for each.

``python -m benchmarks.experiments --help``. By default arrays have 0.08 of the published length
along each axis (44 MB instead of 86 GB), and all experiments take some minutes. Run the full
size with ``--scale 1`` on a server with 300 GB of free disk space.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.experiments import (
    cache,
    cluster,
    growth,
    memory,
    model,
    orders,
    split_merge,
    strategies,
)
from benchmarks.experiments.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EXPERIMENTS = {
    "model": model,
    "strategies": strategies,
    "memory": memory,
    "split-merge": split_merge,
    "orders": orders,
    "cache": cache,
    "growth": growth,
    "cluster": cluster,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiments, and always remove the arrays."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("experiments", nargs="*", metavar="NAME", help=f"of {', '.join(EXPERIMENTS)}; or all")
    add("--scale", type=float, default=Setting.scale, help="part of the published lengths")
    add("--repeats", type=int, default=Setting.repeats, help="runs of which the median counts")
    add("--cases", type=int, default=Setting.cases, help="number of random problems")
    add(
        "--configurations",
        default=_listed(Setting.configurations),
        help="published configurations",
    )
    add("--blocks", type=int, default=Setting.blocks, help="most blocks that are stored as files")
    add(
        "--workers",
        type=int,
        default=Setting.workers,
        help="most threads, processes and workers of a cluster",
    )
    add("--powers", default=_listed(Setting.powers), help="simulated sizes, as powers of two")
    add("--delays", default=_listed(Setting.delays), help="milliseconds of a seek on slow disks")
    add("--warm", action="store_true", help="do not drop the caches")
    add("--out", type=Path, default=Path("docs/experiments"), help="folder for the results")
    add("--dir", type=Path, default=Path(".benchmarks"), help="folder on the disk to measure")
    add("--redraw", action="store_true", help="only draw what was found before")
    options = parser.parse_args(arguments)
    unknown = set(options.experiments) - set(EXPERIMENTS)
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(EXPERIMENTS)}")
    for folder in (options.dir, options.out):
        folder.mkdir(parents=True, exist_ok=True)
    for name in options.experiments or EXPERIMENTS:
        path = options.out / f"{name}.json"
        if not options.redraw:
            path.write_text(_record(name, options), encoding="utf-8")
        found = json.loads(path.read_text(encoding="utf-8"))["found"]
        path.with_suffix(".svg").write_text(EXPERIMENTS[name].picture(found), encoding="utf-8")
        sys.stdout.write(f"{path}\n")
        sys.stdout.flush()


def _listed(numbers: Iterable[float]) -> str:
    return ",".join(map(str, numbers))


def _record(name: str, options: argparse.Namespace) -> str:
    """Run an experiment, and return what it found, and under which conditions, as JSON."""
    with tempfile.TemporaryDirectory(prefix="experiment-", dir=options.dir) as folder:
        setting = Setting(
            Path(folder),
            options.scale,
            options.repeats,
            options.cases,
            tuple(map(int, options.configurations.split(","))),
            options.warm,
            options.blocks,
            options.workers,
            tuple(map(int, options.powers.split(","))),
            tuple(map(float, options.delays.split(","))),
        )
        found = EXPERIMENTS[name].run(setting)
    record = {"experiment": name, **setting.conditions(), "found": found}
    return f"{json.dumps(record, indent=1)}\n"


if __name__ == "__main__":
    main()
