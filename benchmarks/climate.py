"""A year of hourly maps becomes columns of time, compressed, within a budget; beside rechunker.

``python -m benchmarks.climate --help``. The array of (8760, 721, 1440) float32 is made smaller by
one factor along every axis. rechunker is run by a Python that has it (``--rechunker``), if one is
named: it needs an older zarr-python than ours.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dask_io
from dask_io.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

_YEAR = (8760, 721, 1440)
# Hours of a source's chunk, and how many columns a target's chunk has along each axis.
_HOURS, _COLUMNS = 24, (12, 24)

# What all contestants share: bytes by system calls, the most memory, seconds.
_MEASURE = """
import json, sys, time
def io():
    with open("/proc/self/io") as file:
        return {k: int(v) for k, v in (line.split(": ") for line in file)}
def memory(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))
def begin():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return io(), memory("VmRSS"), time.perf_counter()
arguments = json.loads(sys.argv[1])
"""
_OURS = """
import dask_io
dask_io.info(arguments["source"])
before, resident, start = begin()
job = dask_io.plan(arguments["source"], arguments["target"], chunks=arguments["chunks"],
                   memory=arguments["memory"])
done = job.run()
reads, writes, predicted = done.seeks.read, done.seeks.write, job.plan.peak_bytes
strategy = job.plan.strategy
"""
_RECHUNKER = """
import zarr, rechunker
counts = {"get": 0, "set": 0}
store = zarr.storage.DirectoryStore
read, write = store._fromfile, store._tofile
def counted_read(name):
    counts["get"] += not name.rpartition("/")[2].startswith(".")
    return read(name)
def counted_write(value, name):
    counts["set"] += 1
    return write(value, name)
store._fromfile, store._tofile = staticmethod(counted_read), staticmethod(counted_write)
source = zarr.open_array(arguments["source"], mode="r")
before, resident, start = begin()
rechunker.rechunk(source, tuple(arguments["chunks"]), arguments["memory"],
                  arguments["target"], temp_store=arguments["target"] + ".temp").execute()
reads, writes, predicted, strategy = counts["get"], counts["set"], None, ""
"""
_REPORT = """
seconds, after = time.perf_counter() - start, io()
growth = memory("VmHWM") - resident
print(json.dumps({"seconds": seconds, "read": after["rchar"] - before["rchar"],
                  "written": after["wchar"] - before["wchar"], "growth": growth,
                  "chunk_reads": int(reads), "chunk_writes": int(writes), "predicted": predicted,
                  "strategy": strategy}))
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all contestants once; files made for it are removed, however it ends."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.climate", description=__doc__)
    add = parser.add_argument
    add("--factor", type=int, default=5, help="by which every axis is shorter")
    add("--memory", type=parse_bytes, help="budget; by default a sixth of the array")
    add("--codec", default="zstd:1", help="as for dask-io")
    add("--rechunker", metavar="PYTHON", help="a Python that has rechunker")
    add("--dir", type=Path, default=Path(".benchmarks"), help="where to work, on the disk meant")
    options = parser.parse_args(arguments)
    shape = tuple(length // options.factor for length in _YEAR)
    memory = options.memory or int(np.prod(shape)) * 4 // 6
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="climate-", dir=options.dir) as folder:
        source, target = Path(folder, "year.zarr"), Path(folder, "columns.zarr")
        array = _maps(shape)
        np.save(Path(folder, "year.npy"), array)
        chunks = (_HOURS, *shape[1:])
        dask_io.split(
            Path(folder, "year.npy"), source, chunks=chunks, codec=options.codec, format_version=2
        )
        columns = [shape[0], *_COLUMNS]
        on_disk = format_bytes(dask_io.info(source).n_bytes_on_disk)
        sys.stdout.write(
            f"{' x '.join(map(str, shape))} of float32, {format_bytes(array.nbytes)} "
            f"({on_disk} as {options.codec}), chunks of {chunks} to {tuple(columns)}, "
            f"budget {format_bytes(memory)}\n"
        )
        contestants = [("Dask IO", sys.executable, _OURS)]
        if options.rechunker:
            contestants.append(("rechunker", options.rechunker, _RECHUNKER))
        for name, python, code in contestants:
            told = {
                "source": str(source),
                "target": str(target),
                "chunks": columns,
                "memory": memory,
            }
            found = _run(python, code, told)
            held = np.array_equal(np.asarray(dask_io.open(target)), array)
            shutil.rmtree(target)
            shutil.rmtree(f"{target}.temp", ignore_errors=True)
            sys.stdout.write(
                f"{name} {found['strategy']}: {_told(found)}, {'right' if held else 'WRONG'}\n"
            )


def _run(python: str, code: str, told: dict[str, Any]) -> dict[str, Any]:
    command = [python, "-c", _MEASURE + code + _REPORT, json.dumps(told)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _told(found: dict[str, Any]) -> str:
    read, written, growth = (format_bytes(found[key]) for key in ("read", "written", "growth"))
    planned = found["predicted"]
    predicted = f" (predicted {format_bytes(planned)})" if planned is not None else ""
    return (
        f"{found['seconds']:.1f} s, {found['chunk_reads']:,} chunk reads, "
        f"{found['chunk_writes']:,} chunk writes, {read} read, {written} written, "
        f"{growth} more memory{predicted}"
    )


def _maps(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return temperatures: smooth over the globe and the day, with a little noise."""
    hours, lat, lon = (np.linspace(0, 1, n, dtype=np.float32) for n in shape)
    random = np.random.default_rng(0)
    array = np.empty(shape, np.float32)
    still = 280 + 20 * np.cos(lat[:, None] * 3) + 5 * np.sin(lon[None, :] * 12)
    for hour, part in enumerate(hours):
        noise = random.integers(0, 16, shape[1:]) / np.float32(16)
        array[hour] = still + 8 * np.sin(part * 2300) + noise
    return array


if __name__ == "__main__":
    main()
