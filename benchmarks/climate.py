"""Turn a year of hourly maps into time series, compared with rechunker and Dask.

``python -m benchmarks.climate --help``. The standard example is (8760, 721, 1440) float32, 36 GB,
with one chunk per day. It becomes time series with 1 GB of memory. This benchmark does the same at
a fraction of the size, with as many chunks, and with the same fraction of the array in memory.

Each tool runs in its own process. rechunker 0.5 only works with zarr 2 and an old Dask, so it needs
its own Python environment, with ``rechunker zarr<3 numcodecs<0.16 dask[array]==2024.8.0``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The example: 365 chunks of one day, and 1/36 of the array in memory.
N_DAYS, N_HOURS, N_ROWS, N_COLUMNS = 365, 24, 721, 1440
PARTS = 36.4
N_TILES = 18
LEVEL = 3


class Example:
    """The example at a fraction of the size along each axis."""

    def __init__(self, scale: float) -> None:
        hours = max(1, round(N_HOURS * scale))
        tiles = [max(1, round(n * scale / N_TILES)) for n in (N_ROWS, N_COLUMNS)]
        self.shape = (N_DAYS * hours, *(N_TILES * tile for tile in tiles))
        self.before = (hours, *self.shape[1:])
        self.after = (self.shape[0], *tiles)

    @property
    def n_bytes(self) -> int:
        """Bytes of the array."""
        return 4 * self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def budget(self) -> int:
        """Bytes of memory."""
        return int(self.n_bytes / PARTS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark or, in a subprocess, one of the tools."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.climate", description=__doc__)
    add = parser.add_argument
    add("--scale", type=float, default=0.3, help="fraction of each axis: 0.3 is 1 GB, 1 is 36 GB")
    add("--memory", type=int, help="bytes; by default 1/36 of the array")
    add(
        "--peers",
        type=lambda text: text.split(","),
        default="ours,dask",
        help="tools: ours,dask,rechunker",
    )
    add(
        "--rechunker",
        metavar="PYTHON",
        default=sys.executable,
        help="interpreter with rechunker",
    )
    add(
        "--dir",
        type=Path,
        default=Path(".benchmarks"),
        help="working directory, on the disk to measure",
    )
    add("--warm", action="store_true", help="do not drop the caches")
    add(
        "--contestant", nargs=4, metavar=("NAME", "SOURCE", "TARGET", "JOB"), help=argparse.SUPPRESS
    )
    options = parser.parse_args(arguments)
    if options.contestant:
        name, source, target, job = options.contestant
        run = CONTESTANTS[name]
        _say(json.dumps(_measured(run, Path(source), Path(target), json.loads(job))))
        return
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="climate-", dir=options.dir) as folder:
        _compare(Path(folder), options)


def _load(name: str) -> Any:
    """Import a module that only some environments have."""
    return import_module(name)


def _compare(folder: Path, options: argparse.Namespace) -> None:
    dask_io = _load("dask_io")

    example = Example(options.scale)
    budget, source = options.memory or example.budget, folder / "maps.zarr"
    _say(
        f"{example.shape} float32, {example.n_bytes / 1e9:.2f} GB, chunks {example.before} to "
        f"{example.after}, zstd:{LEVEL}, budget {budget / 1e6:.1f} MB"
    )
    _make_source(source, example)
    on_disk = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    _say(f"on disk {on_disk / 1e9:.2f} GB")
    first: dict[str, Any] | None = None
    for name in options.peers:
        target = folder / f"{name}.zarr"
        if not options.warm:
            _drop_caches()
        job = json.dumps({"chunks": example.after, "budget": budget})
        places = (str(source.resolve()), str(target.resolve()))
        python = options.rechunker if name == "rechunker" else sys.executable
        done = subprocess.run(
            [python, "-m", "benchmarks.climate", "--contestant", name, *places, job],
            cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout.splitlines()[-1])
        is_same = dask_io.verify(source, target).equal
        shutil.rmtree(target)
        first = first or found
        _say(_line(name, found, first, budget, is_same=is_same))


def _line(
    name: str, found: dict[str, Any], first: dict[str, Any], budget: int, *, is_same: bool
) -> str:
    text = (
        f"{name:10} {found['seconds']:6.1f} s ({found['seconds'] / first['seconds']:.2f})  "
        f"memory {found['memory'] / 1e6:6.1f} MB ({found['memory'] / budget:.2f} of the budget)  "
        f"read {found['read'] / 1e9:.2f} GB, wrote {found['written'] / 1e9:.2f} GB  "
        f"chunk reads {found['reads']:,}, writes {found['writes']:,}  "
        f"{'equal' if is_same else 'DIFFERENT'}"
    )
    return f"{text}\n{found['plan']}" if found.get("plan") else text


def _make_source(path: Path, example: Example) -> None:
    """Write hourly maps: moving waves, with the noise of an instrument."""
    np = _load("numpy")
    zarr = _load("zarr")
    zstd = _load("numcodecs").Zstd(level=LEVEL)

    made = zarr.create_array(
        path,
        shape=example.shape,
        chunks=example.before,
        dtype="f4",
        zarr_format=2,
        compressors=zstd,
    )
    hours, rows, columns = example.before
    chance = np.random.default_rng(0)
    across = np.sin(np.linspace(0, 12, columns))[None, None, :]
    down = np.cos(np.linspace(0, 3, rows))[None, :, None]
    for start in range(0, example.shape[0], hours):
        when = (np.arange(start, start + hours) / example.shape[0])[:, None, None]
        field = 280 + 20 * down + 8 * across * np.sin(6 * when) + 10 * np.sin(40 * when)
        noise = chance.integers(-8, 8, (hours, rows, columns)) / 16
        made[start : start + hours] = (np.round(field * 16) / 16 + noise).astype("f4")


def _drop_caches() -> None:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        _say("WARNING: caches cannot be dropped (not root)")


def _measured(
    run: Callable[[Path, Path, dict[str, Any]], dict[str, Any]],
    source: Path,
    target: Path,
    job: dict[str, Any],
) -> dict[str, Any]:
    """Run a tool, and return its time, memory and bytes as measured by the system."""
    run(source, target, {**job, "only_import": True})
    counts = {"reads": 0, "writes": 0}
    Path("/proc/self/clear_refs").write_text("5")
    resident, io = _status("VmRSS"), _io()
    started = time.perf_counter()
    found = run(source, target, {**job, "counts": counts})
    return {
        "seconds": time.perf_counter() - started,
        "memory": _status("VmHWM") - resident,
        "read": _io()["rchar"] - io["rchar"],
        "written": _io()["wchar"] - io["wchar"],
        **counts,
        **found,
    }


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def _io() -> dict[str, int]:
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(number) for name, number in (line.split(": ") for line in lines)}


def _run_ours(source: Path, target: Path, job: dict[str, Any]) -> dict[str, Any]:
    dask_io = _load("dask_io")

    planned = dask_io.plan(source, target, chunks=tuple(job["chunks"]), memory=job["budget"])
    if job.get("only_import"):
        return {}
    plan, result = planned.plan, planned.run()
    summary = (
        f"  {plan.strategy}: seeks {plan.seeks.read:,} + {plan.seeks.write:,} predicted, "
        f"{result.seeks.read:,} + {result.seeks.write:,} counted, {plan.problem.lower_bound:,} at "
        f"least; memory {plan.peak_bytes / 1e6:.1f} MB predicted"
    )
    return {"reads": result.seeks.read, "writes": result.seeks.write, "plan": summary}


def _run_dask(source: Path, target: Path, job: dict[str, Any]) -> dict[str, Any]:
    dask = _load("dask")
    da = _load("dask.array")
    zarr = _load("zarr")
    zstd = _load("numcodecs").Zstd(level=LEVEL)

    if job.get("only_import"):
        return {}
    counts = job["counts"]
    _count(zarr.storage.LocalStore, counts, "get", "set")
    with dask.config.set({"array.chunk-size": job["budget"] // 4}):
        maps = da.from_zarr(zarr.open_array(source, mode="r"))
        array = maps.rechunk(tuple(job["chunks"]))
        made = zarr.create_array(
            target,
            shape=array.shape,
            chunks=tuple(job["chunks"]),
            dtype="f4",
            zarr_format=2,
            compressors=zstd,
        )
        da.store(array, made, lock=False)
    return {}


def _run_rechunker(source: Path, target: Path, job: dict[str, Any]) -> dict[str, Any]:
    rechunker = _load("rechunker")
    zarr = _load("zarr")
    zstd = _load("numcodecs").Zstd(level=LEVEL)

    if job.get("only_import"):
        return {}
    _count(zarr.storage.DirectoryStore, job["counts"], "__getitem__", "__setitem__")
    between = target.with_suffix(".temporary")
    # The limit applies to one worker, and there is one worker per core.
    max_mem = job["budget"] // (os.cpu_count() or 1)
    plan = rechunker.rechunk(
        zarr.open(str(source), mode="r"),
        tuple(job["chunks"]),
        max_mem,
        str(target),
        temp_store=str(between),
        target_options={"compressor": zstd},
    )
    plan.execute()
    shutil.rmtree(between, ignore_errors=True)
    chunks = None if plan._intermediate is None else plan._intermediate.chunks  # noqa: SLF001 - nowhere else
    return {"plan": f"  through chunks of {chunks}"}


def _count(kind: Any, counts: dict[str, int], reading: str, writing: str) -> None:
    """Count the chunks that are read and written through a zarr-python store."""

    def counted(name: str, count: str) -> Callable[..., Any]:
        really = getattr(kind, name)

        def call(self: Any, key: str, *arguments: Any, **options: Any) -> Any:
            counts[count] += not key.rsplit("/", 1)[-1].startswith((".z", "zarr.json"))
            return really(self, key, *arguments, **options)

        return call

    setattr(kind, reading, counted(reading, "reads"))
    setattr(kind, writing, counted(writing, "writes"))


CONTESTANTS = {"ours": _run_ours, "dask": _run_dask, "rechunker": _run_rechunker}


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - its purpose


if __name__ == "__main__":
    main()
