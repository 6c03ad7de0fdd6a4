"""Compare a Dask program with `dask_io.optimize` to rechunk by tasks and by p2p.

An array is stored in slabs along its first axis. The program rechunks it to columns along this axis
and stores them. Each program runs in its own process, with the caches dropped. Results are shown as
multiples of ours.

    python -m benchmarks.graph --size 512MiB --memory 256MiB
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import dask_io
from benchmarks.engine.measuring import drop_caches
from dask_io.geometry import Grid, Layout
from dask_io.planning import Side, read_cost
from dask_io.units import format_bytes, parse_bytes

METHODS = ("plan", "tasks", "p2p")
FORMATS = ("zarr", "hdf5", "raw")
_ITEM = np.dtype("f4")
_N_SLABS, _N_COLUMNS = 32, 8


@dataclass(frozen=True)
class Workload:
    """An array of a given size that is rechunked from slabs to columns."""

    n_bytes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """A cube of about `n_bytes`."""
        side = round((self.n_bytes / _ITEM.itemsize) ** (1 / 3) / _N_SLABS) * _N_SLABS
        return (max(side, _N_SLABS),) * 3

    @property
    def slabs(self) -> tuple[int, ...]:
        """Chunks of the source."""
        first, *others = self.shape
        return (first // _N_SLABS, *others)

    @property
    def columns(self) -> tuple[int, ...]:
        """Chunks of the target."""
        first, *others = self.shape
        return (first, *(-(-length // _N_COLUMNS) for length in others))

    def read_by_dask(self, kind: str) -> tuple[int, ...]:
        """Chunks in which Dask reads: slabs, or cubes of a file without chunks."""
        if kind != "raw":
            return self.slabs
        return tuple(-(-length // _N_COLUMNS) for length in self.shape)


def make_source(kind: str, folder: Path, work: Workload) -> None:
    """Write the array, slab by slab."""
    rng, (n, slab, *_) = np.random.default_rng(0), (work.shape[0], *work.slabs)
    parts = (rng.random((slab, *work.shape[1:]), _ITEM) for _ in range(0, n, slab))
    starts = range(0, n, slab)
    if kind == "raw":
        with (folder / "source.raw").open("wb") as file:
            for part in parts:
                part.tofile(file)
        return
    if kind == "hdf5":
        with import_module("h5py").File(folder / "source.h5", "w") as file:
            made = file.create_dataset("a", work.shape, _ITEM)
            for start, part in zip(starts, parts, strict=True):
                made[start : start + slab] = part
        return
    zarr: Any = import_module("zarr")
    made = zarr.create_array(
        folder / "source.zarr",
        shape=work.shape,
        chunks=work.slabs,
        dtype=_ITEM,
        compressors=None,
        fill_value=-1,
    )
    for start, part in zip(starts, parts, strict=True):
        made[start : start + slab] = part


def program(kind: str, folder: Path, work: Workload, method: str) -> Any:
    """Return the delayed result of the program, and the file that must stay open."""
    da: Any = import_module("dask.array")
    if kind == "zarr":
        array, kept = da.from_zarr(str(folder / "source.zarr")), None
    elif kind == "hdf5":
        kept = import_module("h5py").File(folder / "source.h5", "r")
        array = da.from_array(kept["a"], chunks=work.slabs)
    else:
        kept = None
        opened = dask_io.open(folder / "source.raw", shape=work.shape, dtype=_ITEM)
        array = da.from_array(opened, chunks=work.read_by_dask(kind))
    array = array.rechunk(work.columns, method="p2p" if method == "p2p" else "tasks")
    target = import_module("zarr").create_array(
        folder / "target.zarr",
        shape=work.shape,
        chunks=work.columns,
        dtype=_ITEM,
        compressors=None,
        fill_value=-1,
    )
    return array.store(target, lock=False, compute=False), kept


def run(kind: str, folder: Path, work: Workload, method: str, memory: str) -> dict[str, Any]:
    """Run the program in this process; return its time, memory, tasks and seeks."""
    dask: Any = import_module("dask")
    import_module("dask.array")
    context: Any = dask_io.optimize(memory=memory) if method == "plan" else nullcontext()
    cluster: Any = nullcontext()
    if method == "p2p":
        cluster = import_module("distributed").Client(
            n_workers=1,
            threads_per_worker=len(os.sched_getaffinity(0)),
            processes=False,
            dashboard_address="127.0.0.1:0",
            local_directory=str(folder),
        )
    with cluster, context:
        stored, _kept = program(kind, folder, work, method)
        n_tasks = len(dict(dask.optimize(stored)[0].dask))
        plans = dask_io.explain(stored).plans if method == "plan" else ()
        before = _resident()
        start = time.perf_counter()
        stored.compute()
        os.sync()
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    seeks = sum(plan.seeks.total for plan in plans) if plans else _seeks_of_dask(kind, work)
    return {"seconds": seconds, "peak": peak, "tasks": n_tasks, "seeks": seeks}


def _seeks_of_dask(kind: str, work: Workload) -> int:
    """Count the seeks of all chunks that Dask reads and writes, as a plan counts them."""
    stored = work.slabs if kind == "zarr" else work.shape
    side = Side(Grid.regular(work.shape, stored), Layout.c(3))
    reads = read_cost(side, Grid.regular(work.shape, work.read_by_dask(kind)).axes)
    return reads + Grid.regular(work.shape, work.columns).n_blocks


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(kind: str, folder: Path, method: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run the program in its own process."""
    clear(folder / "target.zarr")
    drop_caches()
    command = [sys.executable, "-m", "benchmarks.graph", "--size", args.size, "--memory"]
    command += [args.memory, "--one", f"{kind}:{method}", "--dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{kind} by {method}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def clear(path: Path) -> None:
    """Remove a directory and its content, if it exists."""
    for file in sorted(path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    if path.exists():
        path.rmdir()


def show(kind: str, rounds: dict[str, list[dict[str, Any]]]) -> None:
    """Print a row for each method, with multiples of the plan's figures."""
    middle = {
        method: {key: median(each[key] for each in found) for key in found[0]}
        for method, found in rounds.items()
    }
    ours = middle["plan"]
    for method, found in middle.items():
        ratios = [
            f"{found['seconds']:.2f} s ({found['seconds'] / ours['seconds']:.2f})",
            f"{format_bytes(int(found['peak']))} ({found['peak'] / ours['peak']:.1f})",
            f"{found['tasks']:,.0f}",
            f"{found['seeks']:,.0f}",
        ]
        say(f"| {kind} | {method} | {' | '.join(ratios)} |")


def say(line: str) -> None:
    """Print a line and flush."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="512MiB", help="bytes of the array")
    parser.add_argument("--memory", default="256MiB", help="the budget of plans")
    parser.add_argument("--formats", default=",".join(FORMATS), help="formats of the source")
    parser.add_argument("--methods", default=",".join(METHODS), help="methods, including plan")
    parser.add_argument(
        "--repeats", type=int, default=3, help="number of rounds; the median is shown"
    )
    parser.add_argument("--dir", type=Path, help="working directory")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    work = Workload(parse_bytes(args.size))
    if args.one:
        kind, method = args.one.split(":")
        say(json.dumps(run(kind, args.dir, work, method, args.memory)))
        return
    say("| source | way | time | peak memory | tasks | seeks |")
    say("|---|---|---|---|---|---|")
    for kind in args.formats.split(","):
        with TemporaryDirectory(dir=args.dir) as name:
            folder = Path(name)
            make_source(kind, folder, work)
            rounds: dict[str, list[dict[str, Any]]] = {}
            for _ in range(args.repeats):
                for method in args.methods.split(","):
                    rounds.setdefault(method, []).append(measure(kind, folder, method, args))
            show(kind, rounds)


if __name__ == "__main__":
    main()
