"""Measure HDF5 to HDF5 with other chunks, and `.nii.gz` to `.nii.gz`.

``python -m benchmarks.hdf5 --help``. HDF5 is compared with an h5py loop, as its users write it, and
with the codec alone: to decode all chunks of the source and to encode all chunks of the target,
from memory to memory, on all cores. `.nii.gz` is compared with nibabel. All take turns, with cold
caches, until the files are on the disk. A `*` marks rounds in which other processes were busy.
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
    discard,
    drop_caches,
    remove,
    run_contestant,
)
from benchmarks.zarr import smooth_with_noise
from dask_io.codecs.chain import Chain
from dask_io.errors import DaskIOError
from dask_io.formats.hdf5.filters import describe_filters, parse_filters
from dask_io.geometry import Grid
from dask_io.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

# Blocks along an axis of the source and of the target.
_BLOCKS = 7, 5
_FILTERS: dict[str, dict[str, Any]] = {
    "shuffle+gzip:1": {"shuffle": True, "compression": "gzip", "compression_opts": 1},
    "gzip:6": {"compression": "gzip", "compression_opts": 6},
    "none": {},
}
_NIFTI = "nii.gz"


class _Case(NamedTuple):
    """The paths of a source and a target, our options, and another contestant with its own."""

    source: Path
    target: Path
    options: dict[str, Any]
    other: str
    other_options: dict[str, Any]
    code: Callable[[], float] | None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and always remove its files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hdf5", description=__doc__)
    add = parser.add_argument
    add("--size", type=parse_bytes, default="256MiB", help="approximate bytes of the array")
    add("--memory", default="256MiB", help="memory budget")
    add("--cases", default=",".join((*_FILTERS, _NIFTI)), help="filters, or nii.gz")
    add("--repeats", type=int, default=3, help="number of rounds")
    add("--dir", type=Path, default=Path(".benchmarks"), help="directory on the disk to measure")
    add("--warm", action="store_true", help="do not drop the caches")
    options = parser.parse_args(arguments)
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hdf5-", dir=options.dir) as folder:
        try:
            bench = _Bench(Path(folder), options)
            for name in options.cases.split(","):
                sys.stdout.write(f"{name}: {bench.run(name)}\n")
                sys.stdout.flush()
        except (DaskIOError, FailedError) as error:
            sys.exit(str(error))


class _Bench:
    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder, self._options = folder, options
        self._prepare = os.sync if options.warm else drop_caches
        side = round((options.size / 2) ** (1 / 3))
        self._array = smooth_with_noise(side)
        self._chunks = [-(-side // n) for n in _BLOCKS]
        np.save(folder / "array.npy", self._array)
        shown, cores = format_bytes(self._array.nbytes), os.cpu_count()
        sys.stdout.write(f"{side} x {side} x {side} of int16, {shown}, chunks of ")
        sys.stdout.write(" to ".join(map(str, self._chunks)) + f", on {cores} cores\n")

    def run(self, name: str) -> str:
        """Measure one case, and return its figures."""
        case = self._nifti() if name == _NIFTI else self._hdf5(name)
        ours: list[Timing] = []
        others: list[Timing] = []
        alone: list[float] = []
        for _ in range(self._options.repeats):
            ours.append(self._time("resplit", case, case.options))
            others.append(self._time(case.other, case, case.other_options))
            if case.code:
                alone.append(case.code())
        remove(case.source)
        pairs = list(zip(ours, others, strict=True))
        mark = "*" if any(one.is_disturbed or two.is_disturbed for one, two in pairs) else ""
        seconds = [one.seconds for one in ours]
        found = f"{median(seconds):.2f} s{mark}, of {case.other} "
        found += _ratios([one.seconds / two.seconds for one, two in pairs])
        used = [one.cpu_seconds / two.cpu_seconds for one, two in pairs]
        found += f", of its CPU time {_ratios(used)}"
        if alone:
            compared = [one / two for one, two in zip(seconds, alone, strict=True)]
            found += f", of the codec alone {_ratios(compared)}"
        return found

    def _time(self, kind: str, case: _Case, options: dict[str, Any]) -> Timing:
        paths: dict[str, Any] = {"source": str(case.source), "target": str(case.target)}
        found = run_contestant(kind, self._prepare, **paths, **options)
        discard(case.target, self._folder / "discarded")
        return found

    def _hdf5(self, filters: str) -> _Case:
        if filters not in _FILTERS:
            raise FailedError(f"choose cases from {', '.join((*_FILTERS, _NIFTI))}, not {filters}")
        source = self._folder / "source.h5"
        before, after = self._chunks
        dask_io.split(self._folder / "array.npy", source, chunks=before, codec=filters)
        ours = {"chunks": after, "codec": filters, "memory": self._options.memory}
        other = {"chunks": after, **_FILTERS[filters]}
        code = None if filters == "none" else _Coding(filters, self._array, before, after)
        return _Case(source, self._folder / "target.h5", ours, "h5py", other, code)

    def _nifti(self) -> _Case:
        import nibabel  # noqa: PLC0415 - only for this case

        source = self._folder / "source.nii.gz"
        nibabel.save(nibabel.Nifti1Image(self._array, np.eye(4)), source)
        ours = {"chunks": -1, "codec": "gzip:1", "memory": self._options.memory}
        return _Case(source, self._folder / "target.nii.gz", ours, "nibabel", {}, None)


class _Coding:
    """Times the codec alone. Its data stays in memory, as fresh memory would cost time."""

    def __init__(self, filters: str, array: NDArray[Any], before: int, after: int) -> None:
        configs = describe_filters(parse_filters(filters, array.dtype), array.dtype)
        itemsize = array.dtype.itemsize
        self._from = Chain(configs, array.dtype, before**3 * itemsize)
        self._to = Chain(configs, array.dtype, after**3 * itemsize)
        self._chunks = list(_padded(array, after))
        self._encoded = [self._from.encode(chunk).copy() for chunk in _padded(array, before)]

    def __call__(self) -> float:
        """Return the seconds on all cores."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            start = time.perf_counter()
            list(pool.map(self._decode, self._encoded))
            list(pool.map(self._encode, self._chunks))
            return time.perf_counter() - start

    def _decode(self, data: NDArray[np.uint8]) -> None:
        self._from.decode(data, np.empty(self._from.n_bytes, np.uint8))

    def _encode(self, chunk: NDArray[np.uint8]) -> None:
        self._to.encode(chunk)


def _padded(array: NDArray[Any], length: int) -> Iterator[NDArray[np.uint8]]:
    """Yield the content of all chunks, of full size also at the edges."""
    grid = Grid.regular(array.shape, (length,) * array.ndim)
    for index in grid.indices():
        values = np.zeros((length,) * array.ndim, array.dtype)
        block = grid.block(index)
        values[tuple(map(slice, block.shape))] = array[block.slices]
        yield values.reshape(-1).view(np.uint8)


def _ratios(found: list[float]) -> str:
    return f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


if __name__ == "__main__":
    main()
