"""Measure Zarr to Zarr, compared with the codec alone or, without a codec, with `cp -r`.

``python -m benchmarks.zarr --help``. With a codec, the yardstick is to decode all chunks of the
source and to encode all chunks of the target, from memory to memory, on all cores. The speed of a
machine varies, so the yardstick is measured before and after each run, and ratios use the mean of
both. Its data stays in memory, because a run right after gigabytes were freed is slower. A `*`
marks figures during which other processes were busy.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

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
from dask_io.errors import DaskIOError
from dask_io.formats.zarr.source import open_zarr
from dask_io.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dask_io.stores.spec import ArraySpec

GOALS = {"codec": 1.15, "cp -r": 0.6}
# Blocks along an axis of the source and of the target.
_BLOCKS = 7, 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and always remove its files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zarr", description=__doc__)
    add = parser.add_argument
    add("--size", type=parse_bytes, default="2GiB", help="approximate bytes of the array")
    add("--budgets", default="256MiB,1GiB", help="memory budgets, separated by commas")
    add("--codecs", default="zstd:3", help="as for dask-io, separated by commas")
    add("--repeats", type=int, default=3, help="number of rounds")
    add("--workers", type=int, help="number of threads")
    add(
        "--dir",
        type=Path,
        default=Path(".benchmarks"),
        help="working directory, on the disk to measure",
    )
    add("--warm", action="store_true", help="do not drop the caches")
    options = parser.parse_args(arguments)
    options.dir.mkdir(parents=True, exist_ok=True)
    prepare = os.sync if options.warm else drop_caches
    with tempfile.TemporaryDirectory(prefix="zarr-", dir=options.dir) as folder:
        try:
            _measure(_Bench(Path(folder), options, prepare), options)
        except (DaskIOError, FailedError) as error:
            sys.exit(str(error))


def _measure(bench: _Bench, options: argparse.Namespace) -> None:
    for codec in (*options.codecs.split(","), "none"):
        kind = "cp -r" if codec == "none" else "codec"
        bench.make_source(codec)
        for budget in options.budgets.split(","):
            found = _report(kind, *bench.run(kind, budget))
            sys.stdout.write(f"codec {codec} in {budget}: {found}\n")


def _report(kind: str, ours: list[Timing], others: list[Timing]) -> str:
    seconds, other_seconds = ([each.seconds for each in side] for side in (ours, others))
    cpu, other_cpu = ([each.cpu_seconds for each in side] for side in (ours, others))
    mark = "*" if any(each.is_disturbed for each in (*ours, *others)) else ""
    return (
        f"{median(seconds):.2f} s{mark}, {kind} {median(other_seconds):.2f} s, "
        f"ratio {_compare(seconds, other_seconds)}, goal {GOALS[kind]}; "
        f"of CPU time {_compare(cpu, other_cpu)}"
    )


def _compare(ours: list[float], others: list[float]) -> str:
    """Return the ratio of our times to the mean of the yardstick before and after each."""
    ratios = [
        2 * each / (before + after)
        for each, before, after in zip(ours, others, others[1:], strict=False)
    ]
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


class _Coding(NamedTuple):
    """The chunks to decode and to encode, in memory."""

    source: ArraySpec
    target: ArraySpec
    encoded: list[NDArray[np.uint8]]
    chunks: list[NDArray[np.uint8]]

    def decode(self, data: NDArray[np.uint8]) -> None:
        """Decode a chunk of the source into new memory."""
        codec = self.source.codec
        assert codec is not None, "chunks are compressed"
        codec.decode(data, np.empty(self.source.chunk_bytes, np.uint8))

    def encode(self, chunk: NDArray[np.uint8]) -> None:
        """Encode a chunk of the target."""
        codec = self.target.codec
        assert codec is not None, "chunks are compressed"
        codec.encode(chunk)


class _Bench:
    def __init__(
        self, folder: Path, options: argparse.Namespace, prepare: Callable[[], object]
    ) -> None:
        self._folder, self._options, self._prepare = folder, options, prepare
        self._source = folder / "source.zarr"
        self._coding: _Coding | None = None
        side = round((options.size / 2) ** (1 / 3))
        self._source_chunks, self._target_chunks = (-(-side // n) for n in _BLOCKS)
        self._array = smooth_with_noise(side)
        shown = format_bytes(self._array.nbytes)
        chunks = f"chunks of {self._source_chunks} to {self._target_chunks}"
        sys.stdout.write(f"{side} x {side} x {side} of int16, {shown}, {chunks}, on ")
        sys.stdout.write(f"{os.cpu_count()} cores\n")
        np.save(folder / "array.npy", self._array)

    def make_source(self, codec: str) -> None:
        """Write the source array with a codec."""
        self._coding = None
        remove(self._source)
        dask_io.split(
            self._folder / "array.npy", self._source, chunks=self._source_chunks, codec=codec
        )

    def run(self, kind: str, budget: str) -> tuple[list[Timing], list[Timing]]:
        """Return our timings, and those of the yardstick before and after each."""
        other = self._time_codec if kind == "codec" else self._time_copy
        ours, others = [], [other()]
        for _ in range(self._options.repeats):
            ours.append(self._time_ours(budget))
            others.append(other())
        return ours, others

    def _time_ours(self, budget: str) -> Timing:
        options: dict[str, Any] = {"chunks": self._target_chunks, "memory": budget}
        if self._options.workers:
            options["workers"] = self._options.workers
        source, target = str(self._source), self._folder / "target.zarr"
        found = run_contestant(
            "resplit", self._prepare, source=source, target=str(target), **options
        )
        self._discard(target)
        return found

    def _time_copy(self) -> Timing:
        target = self._folder / "target.zarr"
        found = copy(self._source, target, self._prepare)
        self._discard(target)
        return found

    def _discard(self, path: Path) -> None:
        discard(path, self._folder / "discarded")

    def _time_codec(self) -> Timing:
        """Decode all chunks of the source, encode all of the target, from memory to memory."""
        self._coding = coding = self._coding or self._load_coding()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            start, cpu_start = time.perf_counter(), time.process_time()
            list(pool.map(coding.decode, coding.encoded))
            list(pool.map(coding.encode, coding.chunks))
            return Timing(time.perf_counter() - start, time.process_time() - cpu_start)

    def _load_coding(self) -> _Coding:
        """Load all chunks to decode and to encode into memory."""
        place = self._source
        source = open_zarr(place, "", strict=True)
        job = dask_io.plan(dask_io.open(place), self._folder / "t.zarr", chunks=self._target_chunks)
        target = job.named_target
        encoded = [
            np.fromfile(place / source.chunks.array.keys.name_of(index), np.uint8)
            for index in source.grid.indices()
        ]
        made: ArraySpec = target.spec  # type: ignore[attr-defined]
        chunks = [self._padded(index, made) for index in made.grid.indices()]
        return _Coding(source.spec, made, encoded, chunks)

    def _padded(self, index: tuple[int, ...], made: ArraySpec) -> NDArray[np.uint8]:
        values = np.zeros(made.chunks, made.dtype)
        block = made.grid.block(index)
        values[tuple(map(slice, block.shape))] = self._array[block.slices]
        return values.reshape(-1).view(np.uint8)


def smooth_with_noise(side: int) -> NDArray[Any]:
    """Return an array like that of an instrument: smooth, with noise in the lowest bits."""
    axis = np.sin(np.linspace(0, 12, side)) * 300
    plane, noise = axis[:, None] + axis[None, :], np.random.default_rng(0)
    result = np.empty((side, side, side), "<i2")
    for z in range(side):
        result[z] = (axis[z] + plane).astype("<i2") + noise.integers(0, 8, plane.shape, np.int16)
    return result


if __name__ == "__main__":
    main()
