"""What is moved: an array in blocks of one shape, which becomes blocks of another shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from benchmarks.engine.contestant import NpyBlocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

Shape = tuple[int, ...]

# Lengths of the array are multiples of this number, so that all counts of blocks divide them.
_MULTIPLE = 140
_CHECKED_BYTES = 64 * 2**20
SUFFIXES = {"npy": "", "zarr": ".zarr", "hdf5": ".h5", "nifti": ".nii"}


@dataclass(frozen=True, slots=True)
class Workload:
    """An array to move.

    `before` and `after` are numbers of blocks along each axis or, if `small`, their length.
    """

    name: str
    title: str
    container: str
    peers: tuple[str, ...]
    dtype: str = "<i2"
    codec: str = "none"
    before: Shape = (10, 10, 10)
    after: Shape = (7, 7, 7)
    small: bool = False
    shards: Shape | None = None
    target: str = ""
    """Container of the target, if it is another one."""
    quick: bool = True

    def job(self, size: int) -> dict[str, Any]:
        """Return what every contestant is told about an array of about `size` bytes."""
        side = (size / np.dtype(self.dtype).itemsize) ** (1 / 3)
        multiple = 1 if self.small else max(map(math.lcm, self.before, self.after))
        shape = (max(1, round(side / multiple)) * multiple,) * 3

        def lengths(counts: Shape) -> Shape:
            return counts if self.small else tuple(map(int.__floordiv__, shape, counts))

        return {
            "container": self.container,
            "target_container": self.target or self.container,
            "shape": shape,
            "dtype": self.dtype,
            "codec": self.codec,
            "before": lengths(self.before),
            "after": lengths(self.after),
            "shards": self.shards and lengths(self.shards),
        }


_BLOCKS = ("memmap", "rechunkit", "dask")
_ZARR = ("tensorstore", "zarr-python", "zarrs", "rechunkit", "dask", "p2p", "cubed", "rechunker")
_HDF5 = ("h5py", "h5repack", "nccopy", "rechunkit")


def _zarr(name: str, title: str, **fields: Any) -> Workload:
    return Workload(name, title, "zarr", fields.pop("peers", _ZARR), **fields)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("blocks", "1000 `.npy` files to 343", "npy", _BLOCKS),
        _zarr("zarr", "Zarr, 1000 chunks to 343", codec="none"),
        _zarr("zarr-zstd", "Zarr, 1000 chunks to 343, Zstandard", codec="zstd"),
        _zarr("zarr-blosc", "Zarr, 1000 chunks to 343, Blosc (LZ4)", codec="blosc"),
        _zarr(
            "zarr-small",
            "Zarr, chunks of 64³ bytes to 100³",
            dtype="|u1",
            before=(64,) * 3,
            after=(100,) * 3,
            small=True,
        ),
        _zarr(
            "zarr-tiny",
            "Zarr, chunks of 32³ bytes to 50³",
            dtype="|u1",
            before=(32,) * 3,
            after=(50,) * 3,
            small=True,
            quick=False,
        ),
        _zarr(
            "sharded",
            "Zarr, 1000 chunks to 8000 in 125 shards",
            before=(10,) * 3,
            after=(20,) * 3,
            shards=(5,) * 3,
            peers=("tensorstore", "zarr-python", "zarrs", "dask"),
        ),
        _zarr(
            "climate",
            "Zarr, maps to time series, Zstandard",
            dtype="<f4",
            codec="zstd",
            before=(70, 1, 1),
            after=(1, 7, 7),
        ),
        Workload("hdf5", "HDF5, 1000 chunks to 343", "hdf5", _HDF5),
        Workload(
            "hdf5-gzip", "HDF5, 1000 chunks to 343, shuffle and gzip", "hdf5", _HDF5, codec="gzip"
        ),
        Workload(
            "nifti",
            "one `.nii` to Zarr",
            "nifti",
            ("nibabel", "dask"),
            before=(1, 1, 1),
            target="zarr",
        ),
    )
}


def regions(shape: Sequence[int], unit: Sequence[int], n_elements: int) -> Iterator[Any]:
    """Yield boxes of whole units in C order, each with at most `n_elements` if possible."""
    box = list(unit)
    for axis in reversed(range(len(shape))):
        others = prod(box) // box[axis]
        fitting = max(1, n_elements // (others * unit[axis])) * unit[axis]
        box[axis] = min(fitting, -(-shape[axis] // unit[axis]) * unit[axis])
        if box[axis] < shape[axis]:
            break
    starts = product(*(range(0, n, b) for n, b in zip(shape, box, strict=True)))
    for start in starts:
        yield tuple(slice(a, min(a + b, n)) for a, b, n in zip(start, box, shape, strict=True))


def make_source(path: Path, job: dict[str, Any], *, zarr_format: Literal[2, 3] = 3) -> None:
    """Write an array that is smooth, with noise in its lowest bits, like that of an instrument."""
    shape, before, dtype = job["shape"], job["before"], np.dtype(job["dtype"])
    noise = np.random.default_rng(0)
    plane = np.add.outer(*(np.sin(np.linspace(0, 12, n)) * 100 for n in shape[1:]))

    def layer(start: int, end: int) -> NDArray[Any]:
        heights = np.arange(start, end)[:, None, None] / 10
        values = plane[None] + heights + noise.integers(0, 16, (end - start, *shape[1:]), "i2")
        return np.asarray(values if dtype.kind == "f" else values.astype("i8"), dtype)

    out = _create(path, job, before, zarr_format)
    thickness = before[0] if before[0] < shape[0] else -(-shape[0] // 10)
    for start in range(0, shape[0], thickness):
        end = min(start + thickness, shape[0])
        out[start:end] = layer(start, end)
    if hasattr(out, "flush"):
        out.flush()


def _create(path: Path, job: dict[str, Any], chunks: Shape, zarr_format: Literal[2, 3]) -> Any:
    kind = job["container"]
    if kind == "npy":
        path.mkdir()
        return _NpyWriter(path, job["shape"], chunks)
    if kind == "zarr":
        from benchmarks.peers.contestants import create_zarr  # noqa: PLC0415 - imports Zarr

        return create_zarr(path, {**job, "shards": None}, chunks, zarr_format=zarr_format)
    if kind == "hdf5":
        from benchmarks.peers.contestants import create_hdf5  # noqa: PLC0415 - as above

        return create_hdf5(path, job, chunks)
    import nibabel  # noqa: PLC0415 - as above

    header = nibabel.Nifti1Image(np.zeros((1, 1, 1), job["dtype"]), np.eye(4)).header
    header.set_data_shape(job["shape"])
    header["vox_offset"] = 352
    with path.open("wb") as file:
        file.write(header.binaryblock + bytes(4))
        file.truncate(352 + prod(job["shape"]) * np.dtype(job["dtype"]).itemsize)
    return np.memmap(path, job["dtype"], "r+", 352, job["shape"], order="F")


@dataclass
class _NpyWriter:
    """Writes layers of whole blocks as `.npy` files."""

    folder: Path
    shape: Shape
    chunks: Shape

    def __setitem__(self, layer: slice, values: NDArray[Any]) -> None:
        z = layer.start // self.chunks[0]
        for y, x in product(
            *(range(-(-n // c)) for n, c in zip(self.shape[1:], self.chunks[1:], strict=True))
        ):
            part = values[
                :,
                y * self.chunks[1] : (y + 1) * self.chunks[1],
                x * self.chunks[2] : (x + 1) * self.chunks[2],
            ]
            np.save(self.folder / f"b_{z}_{y}_{x}.npy", part)


def differs(job: dict[str, Any], source: Path, target: Path) -> str:
    """Return where the target differs from the source, empty if nowhere."""
    before = open_array(source, job["container"], job, job["before"])
    after = open_array(target, job["target_container"], job, job["after"])
    if tuple(after.shape) != tuple(job["shape"]):
        return f"has the shape {tuple(after.shape)}"
    chunks = getattr(after, "chunks", None) or job["after"]
    if tuple(chunks) != tuple(job["after"]):
        return f"has chunks of {tuple(chunks)}"
    itemsize = np.dtype(job["dtype"]).itemsize
    for box in regions(job["shape"], job["shards"] or job["after"], _CHECKED_BYTES // itemsize):
        if not np.array_equal(before[box], after[box]):
            return f"differs in {box}"
    return ""


def open_array(path: Path, container: str, job: dict[str, Any], chunks: Shape) -> Any:
    """Open an array that can be sliced like one of NumPy."""
    if container == "npy":
        return NpyBlocks(path, job["shape"], chunks)
    if container == "zarr":
        import zarr  # noqa: PLC0415 - only for this container

        return zarr.open_array(path, mode="r")
    if container == "hdf5":
        import h5py  # type: ignore[import-untyped]  # noqa: PLC0415 - as above

        return h5py.File(path)["data"]
    return np.memmap(path, job["dtype"], "r", 352, tuple(job["shape"]), order="F")
