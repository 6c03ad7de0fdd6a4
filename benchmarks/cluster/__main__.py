"""Compare ways to rechunk a Zarr array on one dask.distributed cluster.

Ours (`dask_io.resplit` with a client), Dask's rechunk by tasks and by p2p, and cubed, which has an
environment of its own (`make bench-cluster` sets it up). Each run has its own process and a fresh
cluster on this machine, with the caches dropped; the time includes a final `sync`. Workers have
one thread each and the same memory limit. The table shows the time, also as a multiple of that of
Dask's tasks in the same rounds, the peak memory of a worker, the most bytes on the workers' disks,
and the number of tasks.

    python -m benchmarks.cluster --size 512MiB --limit 512MiB --workers 1,2,4
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from benchmarks.engine.disks import SlowDisk
from benchmarks.engine.measuring import drop_caches
from benchmarks.graph import clear, say
from dask_io import api
from dask_io.jobs.requests import Request
from dask_io.storage.local import system
from dask_io.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

WAYS = ("ours", "p2p", "tasks", "cubed")
CASES = ("series", "cubes")
_ITEM = np.dtype("f4")
_MOST_SECONDS = 1800
_CUBED = Path(".venv-peers/bin/python")


@dataclass(frozen=True)
class Case:
    """An array that is rechunked: maps to time series, or cubes to cubes of another size."""

    name: str
    n_bytes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """A cube of about `n_bytes`, with lengths that all chunks divide."""
        side = round((self.n_bytes / _ITEM.itemsize) ** (1 / 3) / 96) * 96
        return (max(side, 96),) * 3

    @property
    def before(self) -> tuple[int, ...]:
        """Chunks of the source."""
        side = self.shape[0]
        return (side // 32, side, side) if self.name == "series" else (side // 4,) * 3

    @property
    def after(self) -> tuple[int, ...]:
        """Chunks of the target."""
        side = self.shape[0]
        return (side, side // 8, side // 8) if self.name == "series" else (side // 6,) * 3


def make_source(folder: Path, case: Case) -> None:
    """Write the array as Zarr, one layer of chunks after another."""
    rng = np.random.default_rng(0)
    made = import_module("zarr").create_array(
        folder / "source.zarr", shape=case.shape, chunks=case.before, dtype=_ITEM, fill_value=-1
    )
    step = case.before[0]
    for start in range(0, case.shape[0], step):
        # Small integers, which compress about as well as measured data.
        values = rng.integers(0, 4000, (step, *case.shape[1:]), dtype="i4")
        made[start : start + step] = values.astype(_ITEM)


class Watch:
    """Samples the memory of worker processes, and the size of their directories."""

    def __init__(self, pids: dict[str, int], folder: Path) -> None:
        self.pids, self.folder = pids, folder
        self.peak_memory = self.peak_disk = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        n_samples = 0
        while not self._is_over.wait(0.02):
            for pid in self.pids.values():
                with suppress(OSError):
                    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
                    self.peak_memory = max(self.peak_memory, pages * os.sysconf("SC_PAGE_SIZE"))
            n_samples += 1
            if n_samples % 10 == 0:
                self.peak_disk = max(self.peak_disk, _size_of(self.folder))


def _size_of(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            if path.is_file() and not path.name.endswith((".lock", ".dirlock")):
                total += path.stat().st_size
    return total


@contextmanager
def cluster(n_workers: int, limit: str, folder: Path) -> Iterator[Any]:
    """Start workers on this machine, and yield a client."""
    distributed: Any = import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            local_directory=str(folder),
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


def count_tasks(client: Any) -> None:
    """Have the scheduler count the tasks that are done."""

    def count(dask_scheduler: Any) -> None:
        from distributed import SchedulerPlugin  # noqa: PLC0415  # on the scheduler

        class Counter(SchedulerPlugin):
            n_done = 0

            def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
                del key, start
                self.n_done += finish == "memory"

        dask_scheduler.add_plugin(Counter(), name="counter")

    client.run_on_scheduler(count)


def run(
    way: str,
    case: Case,
    folder: Path,
    n_workers: int,
    limit: str,
    *,
    slow_disk: list[float] | None = None,
) -> dict[str, Any]:
    """Run one way in this process; return its time, memory, disk and tasks, and what it counted.

    Each worker can have a slow disk: see `SlowDisk`.
    """
    local = folder / "local"
    local.mkdir()
    with cluster(n_workers, limit, local) as client:
        pids = client.run(os.getpid)
        client.run(_load)
        if slow_disk:
            client.run(_slow_down, *slow_disk)
        count_tasks(client)
        with Watch(pids, local) as watch:
            start = time.perf_counter()
            counted = move(way, case, folder, client, limit)
            os.sync()
            seconds = time.perf_counter() - start

        def tasks_of(dask_scheduler: Any) -> int:
            return int(dask_scheduler.plugins["counter"].n_done)

        n_tasks = client.run_on_scheduler(tasks_of)
    check(folder, case)
    return {
        "seconds": seconds,
        "memory": watch.peak_memory,
        "disk": watch.peak_disk,
        "tasks": n_tasks,
        **counted,
    }


def _load() -> None:
    """Import on a worker what all ways need, before time is measured."""
    for name in ("dask.array", "zarr", "dask_io.api"):
        import_module(name)


def _slow_down(seek_seconds: float, bytes_per_second: float) -> None:
    """Give a worker a slow disk."""
    system.calls = SlowDisk(seek_seconds, bytes_per_second)


def move(way: str, case: Case, folder: Path, client: Any, limit: str) -> dict[str, int]:
    """Rechunk the array in one way; return what was counted and predicted, if it was."""
    source, target = str(folder / "source.zarr"), folder / "target.zarr"
    if way == "ours":
        request = Request("resplit", source, target, case.after)
        with api.on_cluster(client, request) as job:
            done, parted = job.run(), job.parted
        assert isinstance(parted, api.PartedJob), "it moves one array"
        cut = parted.cut
        return {
            "parts": cut.count,
            "seeks": done.seeks.read + done.seeks.write,
            "seeks_predicted": cut.seeks.read + cut.seeks.write,
            "bytes_read": done.n_bytes_read,
        }
    if way == "cubed":
        cubed: Any = import_module("cubed")
        spec = cubed.Spec(str(folder / "local"), allowed_mem=int(0.6 * parse_bytes(limit)))
        dask: Any = import_module("cubed.runtime.executors.dask")
        # Asynchronous clients of this version of Dask do not know the workers, so it would fail.
        dask.check_runtime_memory = lambda *_: None
        executor = dask.DaskExecutor(compute_kwargs={"address": client.scheduler.address})
        array = cubed.from_zarr(source, spec=spec).rechunk(case.after)
        cubed.to_zarr(array, str(target), executor=executor)
    else:
        da: Any = import_module("dask.array")
        array = da.from_zarr(source).rechunk(case.after, method=way)
        made = import_module("zarr").create_array(
            target, shape=case.shape, chunks=case.after, dtype=_ITEM, fill_value=-1
        )
        array.store(made, lock=False)
    return {}


def check(folder: Path, case: Case) -> None:
    """Compare a few blocks of the target with the source."""
    zarr: Any = import_module("zarr")
    before, after = (zarr.open_array(folder / f"{name}.zarr") for name in ("source", "target"))
    assert after.chunks == case.after
    for corner in ((0, 0, 0), tuple(n - 10 for n in case.shape)):
        box = tuple(slice(n, n + 10) for n in corner)
        assert np.array_equal(before[box], after[box])


def measure(
    way: str, case: Case, folder: Path, n_workers: int, args: argparse.Namespace
) -> dict[str, Any]:
    """Run one way in its own process; an error is its result."""
    clear(folder / "target.zarr")
    clear(folder / "local")
    dropped = not args.warm and drop_caches()
    python = args.cubed if way == "cubed" else sys.executable
    command = [str(python), "-m", "benchmarks.cluster", "--size", args.size]
    command += ["--limit", args.limit, "--dir", str(folder)]
    command += ["--one", f"{way}:{case.name}:{n_workers}"]
    if args.slow_disk:
        command += ["--slow-disk", *map(str, args.slow_disk)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"more than {_MOST_SECONDS} s"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["?"])[-1][:80]}
    return {**json.loads(done.stdout.splitlines()[-1]), "dropped": dropped}


def show(case: str, n_workers: int, rounds: dict[str, list[dict[str, Any]]]) -> None:
    """Print a row for each way, with multiples of the time of Dask's tasks."""
    tasks = rounds.get("tasks", [])
    for way, found in rounds.items():
        failures = [each["failure"] for each in found if "failure" in each]
        if failures:
            say(f"| {case} | {n_workers} | {way} | failed: {failures[0]} | | | | |")
            continue
        middle = {key: median(each[key] for each in found) for key in found[0]}
        pairs = [
            one["seconds"] / other["seconds"]
            for one, other in zip(found, tasks, strict=False)
            if "seconds" in other
        ]
        say(
            f"| {case} | {n_workers} | {way} | {middle['seconds']:.1f} s "
            f"| {f'{median(pairs):.2f}' if pairs else ''} "
            f"| {format_bytes(int(middle['memory']))} | {format_bytes(int(middle['disk']))} "
            f"| {middle['tasks']:,.0f} |"
        )


def describe(args: argparse.Namespace) -> str:
    """Return what the figures depend on, in one line."""
    versions = [f"{name} {version(name)}" for name in ("dask-io", "distributed", "zarr")]
    if args.cubed.exists():
        code = "from importlib.metadata import version; print(version('cubed'))"
        command = [str(args.cubed), "-c", code]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        versions.append(f"cubed {found.stdout.strip()}")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (
        f"{date.today()}, {os.cpu_count()} cores, {format_bytes(memory)} of memory, "  # noqa: DTZ011
        f"Python {platform.python_version()}, {', '.join(versions)}; array of {args.size}, "
        f"{args.limit} per worker, median of {args.repeats}"
    )


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    add = parser.add_argument
    add("--size", default="512MiB", help="bytes of the array")
    add("--limit", default="512MiB", help="memory limit of each worker")
    add("--workers", default="1,2,4", help="numbers of workers")
    add("--cases", default=",".join(CASES), help="cases")
    add("--ways", default=",".join(WAYS), help="ways to rechunk")
    add("--repeats", type=int, default=3, help="number of rounds; the median is shown")
    add("--warm", action="store_true", help="do not drop the caches")
    add("--dir", type=Path, help="working directory")
    add("--cubed", type=Path, default=_CUBED, help="Python interpreter that has cubed")
    add(
        "--slow-disk",
        type=float,
        nargs=2,
        metavar=("SECONDS", "BYTES"),
        help="seconds per seek and bytes per second of a slow disk that each worker has",
    )
    add("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        way, name, n_workers = args.one.split(":")
        case = Case(name, parse_bytes(args.size))
        found = run(way, case, args.dir, int(n_workers), args.limit, slow_disk=args.slow_disk)
        say(json.dumps(found))
        return
    ways = [way for way in args.ways.split(",") if way != "cubed" or args.cubed.exists()]
    say(f"{describe(args)}\n")
    say("| case | workers | way | time | of tasks | memory of a worker | worker disk | tasks |")
    say("|---|---|---|---|---|---|---|---|")
    for name in args.cases.split(","):
        case = Case(name, parse_bytes(args.size))
        with TemporaryDirectory(dir=args.dir) as place:
            folder = Path(place)
            make_source(folder, case)
            for n_workers in map(int, args.workers.split(",")):
                rounds: dict[str, list[dict[str, Any]]] = {}
                for _ in range(args.repeats):
                    for way in ways:
                        found = measure(way, case, folder, n_workers, args)
                        rounds.setdefault(way, []).append(found)
                show(name, n_workers, rounds)


if __name__ == "__main__":
    main()
