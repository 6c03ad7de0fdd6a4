"""Measure Zarr to Zarr: with a codec beside the codec alone, without one beside `cp -r`.

``python -m benchmarks.zarr --help``. With a codec, the yardstick is to decode all chunks of the
source and to encode all chunks of the target, from memory to memory, on all cores.
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
from typing import TYPE_CHECKING, Any

import numpy as np

import dask_io
from benchmarks.engine.measuring import copy, discard, drop_caches, remove, run_contestant
from dask_io.stores.zarr.place import Place
from dask_io.stores.zarr.source import ZarrSource, open_zarr
from dask_io.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

GOALS = {"codec": 1.15, "cp -r": 0.6}
# Blocks along an axis of the source and of the target.
_BLOCKS = 7, 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark; files made for it are removed, however it ends."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zarr", description=__doc__)
    add = parser.add_argument
    add("--size", type=parse_bytes, default="512MiB", help="bytes of the array, about")
    add("--memory", default="256MiB", help="budget")
    add("--codec", default="zstd:3", help="as for dask-io")
    add("--repeats", type=int, default=3, help="rounds")
    add("--workers", type=int, help="threads of ours")
    add("--dir", type=Path, default=Path(".benchmarks"), help="where to work, on the disk meant")
    add("--warm", action="store_true", help="leave the machine's caches alone")
    options = parser.parse_args(arguments)
    options.dir.mkdir(parents=True, exist_ok=True)
    prepare = os.sync if options.warm else drop_caches
    with tempfile.TemporaryDirectory(prefix="zarr-", dir=options.dir) as folder:
        bench = _Bench(Path(folder), options, prepare)
        found = {
            options.codec: bench.run(options.codec, "codec"),
            "none": bench.run("none", "cp -r"),
        }
    for codec, (kind, rounds) in found.items():
        ratios = [ours / other for ours, other in rounds]
        ours, other = (median(column) for column in zip(*rounds, strict=True))
        sys.stdout.write(
            f"codec {codec}: {ours:.2f} s, {kind} {other:.2f} s, ratio "
            f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), goal {GOALS[kind]}\n"
        )


class _Bench:
    def __init__(
        self, folder: Path, options: argparse.Namespace, prepare: Callable[[], object]
    ) -> None:
        self._folder, self._options, self._prepare = folder, options, prepare
        side = round((options.size / 2) ** (1 / 3))
        self._source_chunks, self._target_chunks = (-(-side // n) for n in _BLOCKS)
        self._array = _smooth_with_noise(side)
        shown = format_bytes(self._array.nbytes)
        chunks = f"chunks of {self._source_chunks} to {self._target_chunks}"
        sys.stdout.write(f"{side} x {side} x {side} of int16, {shown}, {chunks}, on ")
        sys.stdout.write(f"{os.cpu_count()} cores, budget {options.memory}\n")
        np.save(folder / "array.npy", self._array)

    def run(self, codec: str, kind: str) -> tuple[str, list[tuple[float, float]]]:
        """Return for every round what ours took, and what it is measured with."""
        source, target = self._folder / "source.zarr", self._folder / "target.zarr"
        remove(source)
        whole = self._folder / "array.npy"
        dask_io.split(whole, source, chunks=self._source_chunks, codec=codec)
        options: dict[str, Any] = {"chunks": self._target_chunks, "memory": self._options.memory}
        if self._options.workers:
            options["workers"] = self._options.workers
        rounds = []
        for _ in range(self._options.repeats):
            ours = run_contestant(
                "resplit", self._prepare, source=str(source), target=str(target), **options
            )
            self._discard(target)
            if kind == "codec":
                other = self._time_codec(source)
            else:
                other = copy(source, target, self._prepare).seconds
                self._discard(target)
            rounds.append((ours.seconds, other))
        return kind, rounds

    def _discard(self, path: Path) -> None:
        discard(path, self._folder / "discarded")

    def _time_codec(self, place: Path) -> float:
        """Decode all chunks of the source, encode all of the target, from memory to memory."""
        source = open_zarr(place, "", strict=True)
        target = dask_io.plan(place, self._folder / "t.zarr", chunks=self._target_chunks).target
        assert target is not None
        encoded = [
            np.fromfile(place / source.array.keys.name_of(index), np.uint8)
            for index in source.grid.indices()
        ]
        made = ZarrSource(Place(self._folder / "t.zarr"), target.documents, strict=False)  # type: ignore[attr-defined]
        chunks = [self._padded(index, made) for index in made.grid.indices()]

        def decode(data: NDArray[np.uint8]) -> None:
            source.array.chain.decode(data, np.empty(source.array.chunk_bytes, np.uint8))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            start = time.perf_counter()
            list(pool.map(decode, encoded))
            list(pool.map(lambda chunk: made.array.chain.encode(chunk).nbytes, chunks))
            return time.perf_counter() - start

    def _padded(self, index: tuple[int, ...], made: ZarrSource) -> NDArray[np.uint8]:
        values = np.zeros(made.array.chunks, made.dtype)
        block = made.grid.block(index)
        values[tuple(map(slice, block.shape))] = self._array[block.slices]
        return values.reshape(-1).view(np.uint8)


def _smooth_with_noise(side: int) -> NDArray[Any]:
    """Return an array as instruments make them: smooth, with noise in the lowest bits."""
    axis = np.sin(np.linspace(0, 12, side)) * 300
    plane, noise = axis[:, None] + axis[None, :], np.random.default_rng(0)
    result = np.empty((side, side, side), "<i2")
    for z in range(side):
        result[z] = (axis[z] + plane).astype("<i2") + noise.integers(0, 8, plane.shape, np.int16)
    return result


if __name__ == "__main__":
    main()
