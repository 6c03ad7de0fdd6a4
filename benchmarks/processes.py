"""Compare one process that has several threads with several processes, on this machine.

A cube of bytes in small blocks is re-split into other small blocks. Each run starts with the caches
dropped and ends when its files are on the disk, and the ways take turns. A ratio above 1 says that
several processes are faster.

    python -m benchmarks.processes --size 512MiB --before 64 --after 100 --kinds npy,zarr
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

import dask_io
from benchmarks.engine.measuring import drop_caches
from dask_io.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FORMATS = {"npy": ("", None), "zarr": (".zarr", "none"), "zstd": (".zarr", "zstd:3")}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each kind of source and target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processes", description=__doc__)
    add = parser.add_argument
    add("--size", default="512MiB", help="size of the array")
    add("--before", type=int, default=64, help="length of a source block along each axis")
    add("--after", type=int, default=100, help="length of a target block along each axis")
    add(
        "--kinds",
        default="npy,zarr",
        help="of npy, zarr (without a codec), and zstd in zarr",
    )
    add("--memory", default="256MiB", help="memory budget of the whole run")
    add("--processes", type=int, default=2, help="number of processes")
    add("--repeats", type=int, default=3, help="runs of each way")
    add("--warm", action="store_true", help="keep the caches")
    add("--dir", type=Path, help="folder for temporary data")
    options = parser.parse_args(arguments)
    with TemporaryDirectory(dir=options.dir) as folder:
        for kind in options.kinds.split(","):
            sys.stdout.write(f"{_compare(Path(folder), kind, options)}\n")
            sys.stdout.flush()


def _compare(folder: Path, kind: str, options: argparse.Namespace) -> str:
    suffix, codec = _FORMATS[kind]
    prepare = os.sync if options.warm else drop_caches
    source, target = folder / f"{kind}-source{suffix}", folder / f"{kind}-target{suffix}"
    side = max(options.after, round(parse_bytes(options.size) ** (1 / 3)))
    # Small integers compress about as well as measured data.
    values = np.random.default_rng(0).integers(0, 16, (side,) * 3, "u1")
    np.save(folder / "whole.npy", values)
    dask_io.split(folder / "whole.npy", source, chunks=options.before, codec=codec)
    (folder / "whole.npy").unlink()

    def run(processes: int | None) -> float:
        shutil.rmtree(target, ignore_errors=True)
        prepare()
        began = time.perf_counter()
        dask_io.resplit(
            source, target, chunks=options.after, memory=options.memory, processes=processes
        )
        os.sync()
        return time.perf_counter() - began

    ways: dict[str, Callable[[], float]] = {
        "one process": lambda: run(None),
        f"{options.processes} processes": lambda: run(options.processes),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(options.repeats):
        for way, measure in ways.items():
            seconds[way].append(measure())
    one, several = (median(found) for found in seconds.values())
    shutil.rmtree(source)
    shutil.rmtree(target)
    listed = ", ".join(f"{way} {median(found):.2f} s" for way, found in seconds.items())
    return f"{kind}: {listed}; ratio {one / several:.2f}"


if __name__ == "__main__":
    main()
