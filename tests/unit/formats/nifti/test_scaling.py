"""Slope and intercept of NIfTI files: what other formats keep of them, and what is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import nibabel as nib
import numpy as np
import pytest

import dask_io
from dask_io.formats.nifti.header import make_header, parse_header
from dask_io.formats.nifti.scaling import keep_scaling
from dask_io.geometry import Layout
from dask_io.stores.block_format import Header
from dask_io.stores.scaling import SCALING, Scaling

if TYPE_CHECKING:
    from pathlib import Path


def save(path: Path, dtype: str, slope: float, inter: float, *, kind: Any = nib.Nifti1Image) -> Any:
    """Save an array with a slope and an intercept, and return its real values."""
    array = np.arange(4 * 5 * 6).reshape(4, 5, 6).astype(dtype)
    image = kind(array, np.eye(4))
    image.header.set_slope_inter(slope, inter)
    nib.save(image, path)
    return real(path)


def real(path: Path) -> Any:
    """Return the real values that nibabel reads."""
    return np.asarray(nib.load(path).dataobj)


@pytest.mark.parametrize(
    ("dtype", "slope", "inter"), [("i2", 2, 1), ("u1", -0.1, 7.5), ("i4", 1e-3, 0)]
)
def test_real_values_survive_minc_and_back(
    dtype: str, slope: float, inter: float, tmp_path: Path
) -> None:
    """All files have the same real values for nibabel, and the slope comes back."""
    values = save(tmp_path / "x.nii", dtype, slope, inter)
    assert "scaling" not in dask_io.merge(tmp_path / "x.nii", tmp_path / "x.mnc").not_kept
    assert np.allclose(real(tmp_path / "x.mnc"), values, rtol=1e-6, atol=1e-9)
    assert "scaling" not in dask_io.merge(tmp_path / "x.mnc", tmp_path / "y.nii").not_kept
    assert np.allclose(real(tmp_path / "y.nii"), values, rtol=1e-6, atol=1e-9)
    fields = [nib.load(tmp_path / name).dataobj for name in ("x.nii", "y.nii")]
    assert fields[0].slope == pytest.approx(fields[1].slope, rel=1e-7)
    assert fields[0].inter == pytest.approx(fields[1].inter, rel=1e-7)


def test_slices_with_different_scaling_are_reported(tmp_path: Path) -> None:
    """NIfTI has one slope for the whole array, and stored integers are moved as they are."""
    save(tmp_path / "x.nii", "i2", 1, 0)
    dask_io.merge(tmp_path / "x.nii", tmp_path / "x.mnc")
    with h5py.File(tmp_path / "x.mnc", "r+") as file:
        image = file["minc-2.0/image/0"]
        n_slices = image["image"].shape[0]
        for name, values in (("image-min", np.zeros(n_slices)), ("image-max", np.arange(n_slices))):
            attributes = dict(image[name].attrs)
            del image[name]
            made = image.create_dataset(name, data=values + (name == "image-max"))
            made.attrs.update({**attributes, "dimorder": "xspace"})
    assert "scaling" in dask_io.merge(tmp_path / "x.mnc", tmp_path / "y.nii").not_kept


@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_a_format_without_scaling_reports_it(dtype: str, tmp_path: Path) -> None:
    """The slope is reported as lost, unless it is the identity; another NIfTI file has it."""
    save(tmp_path / "x.nii", dtype, 2, 1)
    for target in ("x.npy", "x.zarr"):
        assert "scaling" in dask_io.merge(tmp_path / "x.nii", tmp_path / target).not_kept
    assert dask_io.merge(tmp_path / "x.nii", tmp_path / "y.nii.gz").not_kept == ()
    # Zarr keeps the header for the way back.
    dask_io.merge(tmp_path / "x.zarr", tmp_path / "z.nii")
    assert (tmp_path / "z.nii").read_bytes() == (tmp_path / "x.nii").read_bytes()
    save(tmp_path / "one.nii", dtype, 1, 0)
    assert "scaling" not in dask_io.merge(tmp_path / "one.nii", tmp_path / "one.npy").not_kept


def test_numbers_that_are_no_scaling() -> None:
    """Slopes that are 0, not finite or too large are not translated, and cannot do harm."""
    block = Header((2,), np.dtype("<i2"), Layout.f(1))
    for slope, inter in ((0, 5), (np.nan, 0), (np.inf, 0), (2, np.nan), (1, 0)):
        header = nib.Nifti1Header(make_header(block)[:348], check=False)
        header["scl_slope"], header["scl_inter"] = slope, inter
        content = header.binaryblock + bytes(4)
        found = parse_header(lambda n_bytes, content=content: content[:n_bytes])  # type: ignore[misc]
        assert list(found.metadata) == ["headers"]
    flat = Scaling((0.0, 1.0), np.asarray(3.0), np.asarray(3.0))
    steep = Scaling((0.0, 1.0), np.asarray(0.0), np.asarray(1e300))
    for scaling in (flat, steep):
        assert keep_scaling({SCALING: scaling.to_json()}) == {}
