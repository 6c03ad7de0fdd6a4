"""Files that may come from anywhere, and what reads them: `SUBJECTS`, each to be broken.

A subject is an array as Dask IO or its format's own library writes it. One of its files is
replaced by anything. Whatever that is, it is read, or refused by an error of ours: nothing else
may be raised, and time and memory stay bounded.
"""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import netCDF4
import nibabel as nib
import numpy as np
import tifffile
import zarr

import dask_io
from dask_io.errors import DaskIOError
from dask_io.stores.space import Affine, Space, SpaceAxis

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_Make: TypeAlias = "Callable[[Path], None]"
_NRRD = "NRRD0004\ntype: short\ndimension: 2\nsizes: 6 5\nendian: little\nencoding: gzip\n\n"
_META = "NDims = 2\nDimSize = 6 5\nElementType = MET_SHORT\nCompressedData = True\n"
_META += "ElementDataFile = LOCAL\n"
ARRAY = np.arange(30, dtype="<i2").reshape(6, 5)
# What is read of an array that claims to be larger: the claim itself is no fault.
_MOST = 2**16
_VOLUME = "x.precomputed"


@dataclass(frozen=True)
class Subject:
    """How an array is made, which of its files is broken, and how it is used."""

    make: Callable[[Path], None]
    file: str
    use: Callable[[Path], None]

    def try_with(self, folder: Path, content: bytes) -> None:
        """Put something else in place of the file, and use the array."""
        (folder / self.file).write_bytes(content)
        with suppress(DaskIOError):
            self.use(folder)


def _read(name: str) -> Callable[[Path], None]:
    def read(folder: Path) -> None:
        array = dask_io.open(f"{folder}/{name}")
        dask_io.info(array)
        if array.source.grid.size * array.dtype.itemsize <= _MOST:
            _ = array[...]

    return read


def _resume(folder: Path) -> None:
    dask_io.resume(folder / "out", memory="1MiB", workers=1)


def _verify(folder: Path) -> None:
    dask_io.verify(folder / "out", memory="1MiB", workers=1)


def _make_npy(folder: Path) -> None:
    np.save(folder / "x.npy", ARRAY)


def _make_file(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        _make_npy(folder)
        dask_io.resplit(folder / "x.npy", folder / name, chunks=-1, durability="none")

    return make


def _make_chunks(name: str, **options: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        np.save(folder / "x.npy", np.stack([ARRAY + 1, ARRAY + 2]))
        made: Any = {"chunks": (2, 3, 5), "durability": "none", "workers": 1, **options}
        dask_io.resplit(folder / "x.npy", folder / name, **made)

    return make


def _make_nifti(suffix: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        image = nib.Nifti1Image(ARRAY, np.eye(4))
        image.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"a note"))
        nib.save(image, folder / f"x{suffix}")

    return make


def _make_mgh(suffix: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        image = nib.freesurfer.MGHImage(ARRAY[..., np.newaxis], np.eye(4))
        nib.save(image, folder / f"x{suffix}")

    return make


def _make_analyze(folder: Path) -> None:
    image = nib.Spm2AnalyzeImage(ARRAY[..., np.newaxis], np.eye(4))
    image.header.set_data_dtype(ARRAY.dtype)
    header = image.header.copy()
    header["origin"][:3] = 1
    (folder / "x.hdr").write_bytes(header.binaryblock)
    (folder / "x.img").write_bytes(ARRAY.tobytes("F"))


def _make_compressed(name: str, header: str, data: Callable[[bytes], bytes]) -> _Make:
    def make(folder: Path) -> None:
        (folder / name).write_bytes(header.encode() + data(ARRAY.tobytes("F")))

    return make


def _make_blocks(folder: Path) -> None:
    _make_npy(folder)
    dask_io.resplit(folder / "x.npy", folder / "out", chunks=3, memory="1MiB", durability="none")


def _make_zarr(**options: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        made = zarr.create_array(
            folder / "x.zarr", shape=ARRAY.shape, dtype=ARRAY.dtype, chunks=(3, 5), **options
        )
        made[...] = ARRAY

    return make


def _make_image(version: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        # Other readers would not see this map, so that the image has an attribute of ours, too.
        affine = Affine(((0.5, 0.1), (0.0, -2.0)), (10.0, -3.0), ("right", "anterior"))
        space = Space((SpaceAxis("y", "mm"), SpaceAxis("x", "mm")), affine)
        made = zarr.create_array(folder / "a.zarr", shape=ARRAY.shape, dtype=ARRAY.dtype)
        made[...] = ARRAY
        made.attrs["dask_io"] = {"space": space.to_json()}
        options: Any = {"format": "ome-zarr", "format_version": version, "durability": "none"}
        dask_io.resplit(folder / "a.zarr", folder / "x.zarr", chunks=3, **options)

    return make


def _make_minc(folder: Path) -> None:
    _make_npy(folder)
    dask_io.resplit(folder / "x.npy", folder / "x.mnc", chunks=-1, durability="none")


def _make_minc_blocks(folder: Path) -> None:
    _make_minc(folder)
    dask_io.resplit(folder / "x.mnc", folder / "b", chunks=3, durability="none", workers=1)


def _make_minc_1(folder: Path) -> None:
    with netCDF4.Dataset(folder / "x.mnc", "w", format="NETCDF3_CLASSIC") as file:
        for name, length in zip(("yspace", "xspace"), ARRAY.shape, strict=True):
            file.createDimension(name, length)
            file.createVariable(name, "i4").setncatts({"step": 2.0, "start": -1.0})
        image = file.createVariable("image", "i2", ("yspace", "xspace"))
        image.setncatts({"signtype": "signed__", "valid_range": [0.0, 100.0]})
        image[...] = ARRAY
        for name, value in (("image-min", 0.0), ("image-max", 1.0)):
            file.createVariable(name, "f8", ("yspace",))[...] = value


def _make_tiff(**options: Any) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        pages = np.stack([np.pad(ARRAY, 8)] * 2).astype("u2")
        tifffile.imwrite(folder / "x.tif", pages, **options)

    return make


def _make_tiff_blocks(folder: Path) -> None:
    _make_npy(folder)
    dask_io.resplit(
        folder / "x.npy", folder / "b", chunks=3, format="tiff", durability="none", workers=1
    )


SUBJECTS = {
    "tiff": Subject(_make_tiff(), "x.tif", _read("x.tif")),
    "tiff-page": Subject(_make_file("x.tif"), "x.tif", _read("x.tif")),
    "tiff-block": Subject(_make_tiff_blocks, "b/b_1_1.tif", _read("b")),
    "tiff-zlib": Subject(
        _make_tiff(compression="zlib", tile=(16, 16), predictor=True), "x.tif", _read("x.tif")
    ),
    "tiff-lzw": Subject(_make_tiff(compression="lzw", rowsperstrip=5), "x.tif", _read("x.tif")),
    "tiff-jpeg": Subject(
        _make_tiff(compression="jpeg2000", tile=(16, 16)), "x.tif", _read("x.tif")
    ),
    "tiff-ome": Subject(
        _make_tiff(ome=True, metadata={"axes": "ZYX", "PhysicalSizeX": 0.5}),
        "x.tif",
        _read("x.tif"),
    ),
    "tiff-imagej": Subject(
        _make_tiff(imagej=True, resolution=(2, 2), metadata={"axes": "ZYX", "unit": "um"}),
        "x.tif",
        _read("x.tif"),
    ),
    "minc-1": Subject(_make_minc_1, "x.mnc", _read("x.mnc::/real")),
    "minc-2": Subject(_make_minc, "x.mnc", _read("x.mnc::/real")),
    "minc-block": Subject(_make_minc_blocks, "b/b_1_1.mnc", _read("b")),
    "minc-manifest": Subject(_make_minc_blocks, "b/dask-io.json", _read("b")),
    "n5": Subject(_make_chunks("x.n5"), "x.n5/attributes.json", _read("x.n5")),
    "n5-block": Subject(_make_chunks("x.n5", codec="gzip:1"), "x.n5/0/0/0", _read("x.n5")),
    "precomputed": Subject(_make_chunks(_VOLUME), f"{_VOLUME}/info", _read(_VOLUME)),
    "precomputed-shard": Subject(
        _make_chunks(_VOLUME, shards=(4, 6, 5)), f"{_VOLUME}/1_1_1/0.shard", _read(_VOLUME)
    ),
    "npy": Subject(_make_npy, "x.npy", _read("x.npy")),
    "fits": Subject(_make_file("x.fits"), "x.fits", _read("x.fits")),
    "metaimage": Subject(_make_file("x.mha"), "x.mha", _read("x.mha")),
    "mrc": Subject(_make_file("x.mrc"), "x.mrc", _read("x.mrc")),
    "nrrd": Subject(_make_file("x.nrrd"), "x.nrrd", _read("x.nrrd")),
    "nrrd-detached": Subject(_make_file("x.nhdr"), "x.nhdr", _read("x.nhdr")),
    "nrrd-gzip": Subject(
        _make_compressed("x.nrrd", _NRRD, gzip.compress), "x.nrrd", _read("x.nrrd")
    ),
    "metaimage-detached": Subject(_make_file("x.mhd"), "x.mhd", _read("x.mhd")),
    "metaimage-zlib": Subject(
        _make_compressed("x.mha", _META, zlib.compress), "x.mha", _read("x.mha")
    ),
    "mgh": Subject(_make_mgh(".mgh"), "x.mgh", _read("x.mgh")),
    "mgh-gzip": Subject(_make_mgh(".mgz"), "x.mgz", _read("x.mgz")),
    "analyze": Subject(_make_analyze, "x.hdr", _read("x.img")),
    "nifti": Subject(_make_nifti(".nii"), "x.nii", _read("x.nii")),
    "nifti-pair": Subject(_make_nifti(".img"), "x.hdr", _read("x.img")),
    "nifti-gzip": Subject(_make_nifti(".nii.gz"), "x.nii.gz", _read("x.nii.gz")),
    "manifest": Subject(_make_blocks, "out/dask-io.json", _read("out")),
    "resume": Subject(_make_blocks, "out/.dask-io/journal", _resume),
    "verify": Subject(_make_blocks, "out/.dask-io/journal", _verify),
    "zarr-2": Subject(_make_zarr(zarr_format=2), "x.zarr/.zarray", _read("x.zarr")),
    "zarr-3": Subject(_make_zarr(), "x.zarr/zarr.json", _read("x.zarr")),
    "zarr-chunk": Subject(_make_zarr(), "x.zarr/c/0/0", _read("x.zarr")),
    "ome-zarr-2": Subject(_make_image(2), "x.zarr/.zattrs", _read("x.zarr")),
    "ome-zarr-3": Subject(_make_image(3), "x.zarr/zarr.json", _read("x.zarr")),
    "zarr-shard": Subject(_make_zarr(shards=(6, 5)), "x.zarr/c/0/0", _read("x.zarr")),
}
