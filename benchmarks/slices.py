"""Turn a folder of TIFF slices that is larger than the budget into a sharded OME-Zarr image.

``python -m benchmarks.slices --help``. The other contestant is the loop that most people write with
tifffile and zarr-python: read as many slices as a shard is deep, and write them. Both run in a
process of their own, one after the other in every round, and the final sync is counted. The memory
is what a process takes more than before it starts to work.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import tifffile
import zarr
from zarr.codecs import ZstdCodec

import dask_io
from benchmarks.engine.measuring import drop_caches
from dask_io.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PATTERN = "slice_{:05}.tif"
_ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark or, in a subprocess, one of the contestants."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slices", description=__doc__)
    add = parser.add_argument
    add("--size", type=parse_bytes, default="512MiB", help="bytes of the volume, about")
    add("--memory", type=parse_bytes, default="16MiB", help="our budget")
    add("--chunks", type=int, default=32, help="length of a chunk along each axis")
    add("--shards", type=int, default=64, help="length of a shard along each axis")
    add("--codec", default="none", help="codec of the image: none, or zstd with its level")
    add("--compression", help="compression of the slices, such as zlib; by default none")
    add("--repeats", type=int, default=3, help="rounds")
    add(
        "--dir",
        type=Path,
        default=Path(".benchmarks"),
        help="where to work, on the disk to measure",
    )
    add("--warm", action="store_true", help="do not drop the machine's caches")
    add("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.contestant:
        _contend(json.loads(options.contestant))
        return
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="slices-", dir=options.dir) as folder:
        _measure(Path(folder).resolve(), options)


def _measure(folder: Path, options: argparse.Namespace) -> None:
    scan = folder / "scan"
    size = _make(scan, options.size, options.compression)
    prepare = os.sync if options.warm else drop_caches
    budget = format_bytes(options.memory)
    _say(f"slices of {format_bytes(size)} in a budget of {budget}")
    found: dict[str, list[dict[str, Any]]] = {"ours": [], "loop": []}
    for number in range(options.repeats):
        # The order alternates, so that neither always has the quieter machine.
        for name in list(found)[:: 1 if number % 2 == 0 else -1]:
            target = folder / f"{name}.ome.zarr"
            prepare()
            job = {
                "name": name,
                "scan": str(scan),
                "target": str(target),
                "memory": options.memory,
                "chunks": options.chunks,
                "shards": options.shards,
                "codec": options.codec,
            }
            command = [sys.executable, "-m", "benchmarks.slices", "--contestant", json.dumps(job)]
            done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=True, text=True)
            found[name].append(json.loads(done.stdout))
            _compare(scan, target)
            shutil.rmtree(target)
    for name, rounds in found.items():
        seconds = median(each["seconds"] for each in rounds)
        memory = max(each["memory"] for each in rounds)
        rate = size / seconds / 1e6
        _say(f"{name}: {seconds:.2f} s, {rate:.0f} MB/s, {format_bytes(memory)} of memory")
    ratios = [
        ours["seconds"] / loop["seconds"]
        for ours, loop in zip(found["ours"], found["loop"], strict=True)
    ]
    _say(f"ours takes {median(ratios):.2f} times as long as the loop; both images are equal")


def _contend(job: dict[str, Any]) -> None:
    """Run one contestant in this process, and print its time and memory."""
    run: Callable[[dict[str, Any]], None] = {"ours": _run_ours, "loop": _run_loop}[job["name"]]
    before = _resident("VmRSS")
    begin = time.perf_counter()
    run(job)
    os.sync()
    seconds = time.perf_counter() - begin
    _say(json.dumps({"seconds": seconds, "memory": max(0, _resident("VmHWM") - before)}))


def _run_ours(job: dict[str, Any]) -> None:
    dask_io.resplit(
        job["scan"],
        job["target"],
        chunks=job["chunks"],
        shards=job["shards"],
        codec=job["codec"],
        memory=job["memory"],
        spacing="5,0.5,0.5",
        unit="micrometer",
    )


def _run_loop(job: dict[str, Any]) -> None:
    """Write slabs that are as deep as a shard, as zarr-python needs to write each shard once."""
    names, shards = sorted(Path(job["scan"]).glob("*.tif")), job["shards"]
    first = tifffile.imread(names[0])
    shape = (len(names), *first.shape)
    group = zarr.create_group(job["target"])
    name, _, level = job["codec"].partition(":")
    codecs = [ZstdCodec(level=int(level or 0))] if name == "zstd" else None
    array: Any = group.create_array(
        "0",
        shape=shape,
        dtype=first.dtype,
        chunks=(job["chunks"],) * 3,
        shards=(shards,) * 3,
        compressors=codecs,
    )
    for start in range(0, len(names), shards):
        slab = np.stack([tifffile.imread(path) for path in names[start : start + shards]])
        array[start : start + shards] = slab


def _compare(scan: Path, target: Path) -> None:
    """Compare slices all over the volume with the image."""
    names: list[Path] = sorted(scan.glob("*.tif"))
    array: Any = zarr.open_array(target / "0", mode="r")
    for number in range(0, len(names), max(1, len(names) // 7)):
        if not np.array_equal(array[number], tifffile.imread(names[number])):
            sys.exit(f"slice {number} of {target.name} differs")


def _make(folder: Path, n_bytes: int, compression: str | None) -> int:
    """Write slices of 16-bit integers, twice as wide as the stack is deep; return their bytes."""
    depth = max(8, round(math.cbrt(n_bytes / 8)))
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(depth):
        picture = generator.integers(0, 4000, (2 * depth, 2 * depth)).astype("<u2")
        tifffile.imwrite(folder / _PATTERN.format(number), picture, compression=compression)
    return 8 * depth * depth * depth


def _resident(field: str) -> int:
    """Return the bytes that this process takes now, or has taken at most."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
