"""What is compared: short runs that take different ways through the package."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import dask_io
from benchmarks.engine.measuring import remove
from benchmarks.engine.workloads import WORKLOADS as ENGINE
from benchmarks.engine.workloads import make_source
from benchmarks.zarr import smooth_with_noise

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MEMORY = 64 * 2**20
# Blocks along an axis of the source and of the target, for containers.
_BLOCKS = 7, 5
# One array in a group for each of so many bytes, and not more arrays than that.
_BYTES_OF_AN_ARRAY, _MOST_ARRAYS = 2**20, 200


@dataclass(frozen=True, slots=True)
class Workload:
    """One thing to measure.

    `kind` is a contestant of `benchmarks.engine.contestant`, or ``command`` for a command of Dask
    IO with the words in `options`. `make` makes the source for an array of so many bytes.
    """

    name: str
    kind: str
    make: Callable[[Path, int], Path]
    options: Callable[[int], dict[str, Any]]
    target: str = "target"


def _nothing(folder: Path, _: int) -> Path:
    return folder / "nothing"


def _tenths(folder: Path, size: int) -> Path:
    return _make_blocks("a", folder / "source", size)


def _one_file(folder: Path, size: int) -> Path:
    return _make_blocks("c", folder / "source.npy", size)


def _small_blocks(folder: Path, size: int) -> Path:
    return _make_blocks("f", folder / "source", size)


def _make_blocks(name: str, source: Path, size: int) -> Path:
    make_source(source, ENGINE[name].grids(size)[0], ENGINE[name].dtype)
    return source


def _plain_zarr(folder: Path, size: int) -> Path:
    return _make_container(folder / "source.zarr", "none", size)


def _zarr(folder: Path, size: int) -> Path:
    return _make_container(folder / "source.zarr", "zstd:3", size)


def _hdf5(folder: Path, size: int) -> Path:
    return _make_container(folder / "source.h5", "shuffle+gzip:1", size)


def _make_container(source: Path, codec: str, size: int) -> Path:
    plain, side = source.with_name("plain.npy"), _side(size)
    np.save(plain, smooth_with_noise(side))
    dask_io.split(plain, source, chunks=-(-side // _BLOCKS[0]), codec=codec)
    remove(plain)
    return source


def _group(folder: Path, size: int) -> Path:
    import zarr  # noqa: PLC0415 - only for this source

    source = folder / "source.zarr"
    group = zarr.open_group(source, mode="w")
    for number in range(max(2, min(_MOST_ARRAYS, size // _BYTES_OF_AN_ARRAY))):
        data = np.arange(24, dtype="i4").reshape(4, 6) + number
        group.create_array(f"array{number}", data=data, chunks=(2, 3))
    return source


def _side(size: int) -> int:
    """Return the length of a cube of int16."""
    return round(math.cbrt(size / 2))


def _engine(name: str) -> Callable[[int], dict[str, Any]]:
    def options(size: int) -> dict[str, Any]:
        return {"chunks": ENGINE[name].grids(size)[1].longest, "memory": _MEMORY}

    return options


def _container(size: int) -> dict[str, Any]:
    return {"chunks": -(-_side(size) // _BLOCKS[1]), "memory": _MEMORY}


def _region(size: int) -> dict[str, Any]:
    side = _side(size)
    return {"regions": ",".join([f"{side // 4}:{3 * side // 4}"] * 3), "memory": _MEMORY}


def _billion(_: int) -> dict[str, Any]:
    array = {"shape": [350_000] * 3, "dtype": "<f2", "before": 350, "after": 500}
    return {**array, "memory": 64 * 2**30}


WORKLOADS = {
    one.name: one
    for one in (
        Workload("blocks-up", "resplit", _tenths, _engine("a")),
        Workload("blocks-down", "resplit", _tenths, _engine("b")),
        Workload("merge", "resplit", _tenths, _engine("d"), "target.npy"),
        Workload("split", "resplit", _one_file, _engine("c")),
        Workload("small-blocks", "resplit", _small_blocks, _engine("f")),
        Workload("zarr-none", "resplit", _plain_zarr, _container, "target.zarr"),
        Workload("zarr-zstd", "resplit", _zarr, _container, "target.zarr"),
        Workload("extract", "extract", _zarr, _region, "target.npy"),
        Workload("info", "command", _zarr, lambda _: {"words": ["info"]}),
        Workload("hdf5-gzip", "resplit", _hdf5, _container, "target.h5"),
        Workload(
            "group",
            "resplit_group",
            _group,
            lambda _: {"chunks": [4, 6], "memory": _MEMORY},
            "target.zarr",
        ),
        Workload("plan", "plan_shape", _nothing, _billion),
        Workload("version", "command", _nothing, lambda _: {"words": ["--version"]}),
    )
}
"""All workloads, by name. Those with the same source come one after another."""
