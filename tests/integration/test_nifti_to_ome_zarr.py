"""NIfTI volumes become OME-Zarr images and come back with the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import nibabel as nib
import numpy as np
import pytest
import zarr

import dask_io
from tests.commands import fail, invoke

if TYPE_CHECKING:
    from pathlib import Path

AFFINE = np.array(
    [[-2.0, 0.1, 0.0, 90.0], [0.1, 2.0, 0.0, -126.0], [0.0, 0.0, 2.5, -72.0], [0.0, 0.0, 0.0, 1.0]]
)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """An oblique volume with units, slope and intercept, and an extension."""
    array = np.arange(12 * 10 * 8, dtype="<i2").reshape(12, 10, 8)
    image = nib.Nifti1Image(array, AFFINE)
    image.header.set_xyzt_units("mm", "sec")
    image.header.set_slope_inter(2.0, 1.0)
    image.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"mine"))
    nib.save(image, tmp_path / "a.nii")
    return tmp_path / "a.nii"


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("b.zarr", {"format": "ome-zarr"}),
        ("b.zarr", {"format": "ome-zarr", "format_version": 2, "codec": "zstd:3"}),
        ("b.zarr", {"format": "ome-zarr", "order": "C"}),
        ("b.zarr", {}),
        ("b.h5", {"order": "C"}),
        ("b.nc", {"order": "C"}),
    ],
)
def test_the_way_back_is_bit_identical(
    target: str, options: dict[str, Any], volume: Path, tmp_path: Path
) -> None:
    """Through images, plain Zarr, HDF5 and NetCDF: header, extensions and data."""
    dask_io.resplit(volume, tmp_path / target, chunks=(5, 5, 5), **options)
    back = dask_io.merge(tmp_path / target, tmp_path / "back.nii")

    # A new Zarr array is compressed, and a plain NIfTI file is not.
    assert back.not_kept == (("codec",) if target == "b.zarr" else ())
    assert (tmp_path / "back.nii").read_bytes() == volume.read_bytes()


def test_regions_of_an_image_keep_their_place(volume: Path, tmp_path: Path) -> None:
    """As nibabel crops the volume itself."""
    dask_io.resplit(volume, tmp_path / "b.zarr", chunks=(5, 5, 5), format="ome-zarr")
    dask_io.extract(tmp_path / "b.zarr", tmp_path / "roi.nii", regions=["5:10,3:,4:8"])

    expected = nib.load(volume).slicer[5:10, 3:, 4:8]
    found = nib.load(tmp_path / "roi.nii")
    assert np.allclose(found.affine, expected.affine, rtol=1e-6)
    assert np.array_equal(found.get_fdata(), expected.get_fdata())


def test_a_smaller_level_keeps_its_place(volume: Path, tmp_path: Path) -> None:
    """Another program adds a level with a scale and a translation; its directions are known."""
    dask_io.resplit(volume, tmp_path / "b.ome.zarr", chunks=(5, 5, 5))
    group = zarr.open_group(tmp_path / "b.ome.zarr")
    small = nib.load(volume).get_fdata()[::2, ::2, ::2].astype("<i2")
    group.create_array("1", data=small, chunks=(6, 5, 4))
    about: Any = group.attrs["ome"]
    (first,) = about["multiscales"][0]["datasets"]
    scale, shift = (step[step["type"]] for step in first["coordinateTransformations"])
    moved = [low + n / 2 for n, low in zip(scale, shift, strict=True)]
    second = [
        {"type": "scale", "scale": [2 * n for n in scale]},
        {"type": "translation", "translation": moved},
    ]
    about["multiscales"][0]["datasets"].append({"path": "1", "coordinateTransformations": second})
    group.attrs["ome"] = about

    back = dask_io.merge(f"{tmp_path / 'b.ome.zarr'}::/1", tmp_path / "small.nii")

    assert "space" not in back.not_kept
    expected = AFFINE @ [[2, 0, 0, 0.5], [0, 2, 0, 0.5], [0, 0, 2, 0.5], [0, 0, 0, 1]]
    assert nib.load(tmp_path / "small.nii").affine == pytest.approx(expected, abs=1e-4)
    dask_io.merge(f"{tmp_path / 'b.ome.zarr'}::/0", tmp_path / "back.nii")
    assert (tmp_path / "back.nii").read_bytes() == volume.read_bytes()


def test_a_series_of_volumes_is_refused(tmp_path: Path) -> None:
    """OME-Zarr wants time first, but in NIfTI it is the last axis."""
    nib.save(nib.Nifti1Image(np.zeros((4, 5, 6, 3), "f4"), AFFINE), tmp_path / "a.nii")

    command = ("resplit", tmp_path / "a.nii", tmp_path / "b.zarr", "--chunks", "2")
    line = fail(*command, "--format", "ome-zarr", code=2)

    assert "time comes first, then channel, then space" in line


@pytest.mark.parametrize(
    ("steps", "names", "lines", "not_kept"),
    [
        (
            (-2, 2, 2),
            "x,y,z",
            ["other programs show the image mirrored or rotated", "that x points to left"],
            ("orientation_for_other_readers",),
        ),
        ((2, 2, 2), "x,y,z", [], ("directions_for_other_readers",)),
        (
            (2, 2, 2),
            "z,y,x",
            ["the axis named z points to right"],
            ("directions_for_other_readers",),
        ),
    ],
)
def test_what_other_programs_do_not_see_is_reported(
    steps: tuple[int, ...], names: str, lines: list[str], not_kept: tuple[str, ...], tmp_path: Path
) -> None:
    """A mirrored image, and names that contradict directions, before anything is written."""
    nib.save(nib.Nifti1Image(np.zeros((4, 5, 6), "f4"), np.diag([*steps, 1])), tmp_path / "a.nii")

    command = ("resplit", tmp_path / "a.nii", tmp_path / "b.ome.zarr", "--chunks", "2")
    said = invoke(*command, "--axes", names).stderr

    assert all(line in said for line in lines)
    assert ("other programs show" in said) == ("other programs show" in "".join(lines))
    assert ("points to" in said) == bool(lines)
    done = dask_io.resplit(tmp_path / "a.nii", tmp_path / "c.ome.zarr", chunks=2)
    assert done.not_kept == not_kept
