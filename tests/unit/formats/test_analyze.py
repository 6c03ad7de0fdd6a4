"""Analyze 7.5: read as nibabel reads it, and nothing is trusted."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError, UsageError
from dask_io.formats import open_source
from dask_io.formats.analyze import parse_header
from dask_io.formats.nifti.header import parse_header as parse_nifti

DATA = Path(nib.__file__).parent / "tests/data"
SHAPE = (5, 6, 7)


def save(folder: Path, kind: Any, dtype: str, shape: tuple[int, ...] = SHAPE) -> Any:
    """Save a pair with nibabel, and return its image."""
    array = (np.arange(np.prod(shape)) % 200).reshape(shape).astype(dtype)
    image = kind(array, None, header=kind.header_class(endianness=">" if ">" in dtype else "<"))
    image.header.set_data_dtype(dtype)
    image.header.set_zooms((2.0, 3.0, 4.0, 1.0)[: len(shape)])
    with (folder / "x.hdr").open("wb") as header, (folder / "x.img").open("wb") as data:
        header.write(image.header.binaryblock)
        data.write(array.tobytes("F"))
    return nib.load(folder / "x.hdr")


@pytest.mark.parametrize("name", ["x.hdr", "x.img"])
@pytest.mark.parametrize("dtype", ["u1", "<i2", ">i2", ">i4", "<f4", ">f8", "<c8"])
def test_values_are_those_of_nibabel(name: str, dtype: str, tmp_path: Path) -> None:
    """A pair without the magic of NIfTI is opened by its content, from either file."""
    there = save(tmp_path, nib.AnalyzeImage, dtype)
    info = dask_io.info(tmp_path / name)
    assert (info.format, info.shape, info.dtype) == ("analyze", SHAPE, np.dtype(dtype))
    assert np.array_equal(dask_io.open(tmp_path / name)[...], np.asarray(there.dataobj))
    dask_io.split(tmp_path / name, tmp_path / "b", chunks=3, workers=1)
    assert np.array_equal(dask_io.open(tmp_path / "b")[...], np.asarray(there.dataobj))


@pytest.mark.parametrize("shape", [SHAPE, (*SHAPE, 2)])
def test_the_origin_of_spm_is_a_position(shape: tuple[int, ...], tmp_path: Path) -> None:
    """It is where nibabel finds it; without an origin, only the size of voxels is known."""
    save(tmp_path, nib.Spm99AnalyzeImage, "<i2", shape)
    affine = dask_io.info(tmp_path / "x.hdr").metadata["space"].affine
    assert (affine.steps[:3], affine.coordinates) == ((2.0, 3.0, 4.0), ())
    content = bytearray((tmp_path / "x.hdr").read_bytes())
    content[253:259] = struct.pack("<3h", 3, 2, 6)
    (tmp_path / "x.hdr").write_bytes(content)
    affine = dask_io.info(tmp_path / "x.hdr").metadata["space"].affine
    expected = nib.load(tmp_path / "x.hdr").affine
    assert affine.coordinates == ("right", "anterior", "superior")
    assert np.array_equal(np.array(affine.matrix)[:, :3], expected[:3, :3])
    assert np.array_equal(affine.origin, expected[:3, 3])


@pytest.mark.parametrize("fields", [{112: 0.5, 116: 3.0}, {124: 10.0, 128: 2.0}])
def test_the_scaling_of_spm_is_kept(fields: dict[int, float], tmp_path: Path) -> None:
    """Stored values are moved, and the target's scaling gives nibabel's real values."""
    save(tmp_path, nib.Spm2AnalyzeImage, "<i2")
    content = bytearray((tmp_path / "x.hdr").read_bytes())
    content[140:148] = struct.pack("<2i", 100, 20)
    for at, value in fields.items():
        content[at : at + 4] = struct.pack("<f", value)
    (tmp_path / "x.hdr").write_bytes(content)
    there = nib.load(tmp_path / "x.hdr")
    dask_io.resplit(tmp_path / "x.hdr", tmp_path / "y.nii", chunks=-1, workers=1)
    back = nib.load(tmp_path / "y.nii")
    assert np.array_equal(back.dataobj.get_unscaled(), there.dataobj.get_unscaled())
    assert np.allclose(back.get_fdata(), there.get_fdata(), rtol=1e-6)


def test_a_real_header_is_read() -> None:
    """The header that nibabel tests with."""
    content = (DATA / "analyze.hdr").read_bytes()
    there = nib.AnalyzeHeader(content)
    header = parse_header(lambda n_bytes: content[:n_bytes])
    assert (header.shape, header.dtype) == (there.get_data_shape(), there.get_data_dtype())
    assert header.space is not None
    assert header.space.affine is not None
    assert header.space.affine.steps[:3] == there.get_zooms()[:3]


def test_the_format_may_be_given(tmp_path: Path) -> None:
    """Also for a directory of pairs, where the suffix alone means NIfTI."""
    save(tmp_path, nib.AnalyzeImage, "<i2")
    for suffix in (".hdr", ".img"):
        (tmp_path / f"x{suffix}").rename(tmp_path / f"x_0_0_0{suffix}")
    with pytest.raises(DataError, match="not a NIfTI file; open it as format analyze"):
        dask_io.info(tmp_path)
    assert open_source(tmp_path, format="analyze").grid.shape == SHAPE
    np.save(tmp_path / "a.npy", np.zeros(SHAPE, "u1"))
    with pytest.raises(UsageError, match="format analyze is read, but not written"):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "y.hdr", chunks=-1, format="analyze")


@pytest.mark.parametrize(
    ("at", "value", "problem"),
    [
        (0, b"\0\0\0\0", "does not begin with the header's length"),
        (40, struct.pack("<h", 0), "has 0 axes"),
        (40, struct.pack("<h", 9), "has 0 axes"),
        (42, struct.pack("<h", -5), "impossible shape"),
        (70, struct.pack("<h", 1), "type 1, which is not supported"),
        (72, struct.pack("<h", 12), "12 bits per voxel"),
        (108, struct.pack("<f", -1.0), "has its data at byte -1"),
        (108, struct.pack("<f", float("nan")), "has its data at byte nan"),
        (108, struct.pack("<f", 1e30), "has its data at byte 1e"),
    ],
)
def test_hostile_headers_are_refused_in_one_line(
    at: int, value: bytes, problem: str, tmp_path: Path
) -> None:
    """Nothing is trusted, and nothing large is made."""
    save(tmp_path, nib.AnalyzeImage, "<i2")
    content = bytearray((tmp_path / "x.hdr").read_bytes())
    content[at : at + len(value)] = value
    with pytest.raises(ValueError, match=problem):
        parse_header(lambda n_bytes: bytes(content[:n_bytes]))
    with pytest.raises(ValueError, match="ends within its header"):
        parse_header(lambda _: bytes(content[:300]))
    with pytest.raises(ValueError, match=r"Analyze|NIfTI|truncated"):
        parse_nifti(lambda n_bytes: bytes(content[:n_bytes]), is_pair=True)
