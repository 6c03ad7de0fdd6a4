"""Axes, resolution and offset of N5 datasets and precomputed volumes, by several conventions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import nibabel as nib
import numpy as np
import pytest
import tensorstore as ts

import dask_io
from dask_io.stores.space import is_close

if TYPE_CHECKING:
    from pathlib import Path

ARRAY = np.arange(1, 25, dtype="<u2").reshape(2, 3, 4)


def make(folder: Path, attributes: dict[str, Any]) -> Any:
    """Write a dataset with these attributes, and open it."""
    np.save(folder / "a.npy", ARRAY)
    dask_io.resplit(folder / "a.npy", folder / "a.n5", chunks=2)
    document = folder / "a.n5/attributes.json"
    document.write_text(json.dumps({**json.loads(document.read_bytes()), **attributes}))
    return dask_io.open(folder / "a.n5").source.metadata


COSEM = {
    "transform": {
        "axes": ["z", "y", "x"],
        "units": ["nm"] * 3,
        "scale": [30.0, 8.0, 4.0],
        "translate": [60.0, 0.0, 2.0],
    }
}
PLAIN = {
    "axes": ["x", "y", "z"],
    "units": ["nm"] * 3,
    "resolution": [4, 8, 30],
    "offset": [2, 0, 60],
}


@pytest.mark.parametrize("attributes", [COSEM, PLAIN])
def test_conventions_agree(tmp_path: Path, attributes: dict[str, Any]) -> None:
    """The same space is read from both conventions, and other attributes stay."""
    found = make(tmp_path, {**attributes, "note": "mine"})

    assert found["attributes"] == {"note": "mine"}
    assert found["dimension_names"] == ("z", "y", "x")
    assert found["space"].affine.steps == (30.0, 8.0, 4.0)
    assert found["space"].affine.origin == (60.0, 0.0, 2.0)
    assert {axis.unit for axis in found["space"].axes} == {"nm"}


def test_levels_of_a_pyramid_lie_in_the_centre(tmp_path: Path) -> None:
    """The resolution of a downsampled level is multiplied, and its first element moves."""
    pixels = {"dimensions": [4.0, 8.0, 30.0], "unit": "nm"}
    found = make(tmp_path, {"pixelResolution": pixels, "downsamplingFactors": [2, 2, 1]})

    assert found["space"].affine.steps == (30.0, 16.0, 8.0)
    assert found["space"].affine.origin == (0.0, 4.0, 2.0)
    assert found["attributes"] == {}


@pytest.mark.parametrize(
    "attributes",
    [
        {"resolution": "big"},
        {"transform": {"scale": [1, 2], "translate": [0, 0, 0]}},
        {"pixelResolution": {"dimensions": [1, 2, None]}},
        {"transform": {"scale": [1e400, 1, 1], "translate": [0, 0, 0]}},
        {"dask_io": {"space": {"axes": 5}}},
    ],
)
def test_invalid_attributes_stay_as_they_are(tmp_path: Path, attributes: dict[str, Any]) -> None:
    """Attributes that do not describe a space are the user's."""
    found = make(tmp_path, attributes)

    assert found.get("space") is None
    assert found["attributes"].keys() == attributes.keys()


def test_a_region_moves_its_offset(tmp_path: Path) -> None:
    """All conventions of an extracted part agree with where it lies."""
    make(tmp_path, COSEM)
    dask_io.extract(tmp_path / "a.n5", tmp_path / "b.n5", regions="1:2,1:3,:")

    found = json.loads((tmp_path / "b.n5/attributes.json").read_bytes())
    assert found["transform"]["translate"] == [90.0, 8.0, 2.0]
    assert found["offset"] == [2.0, 8.0, 90.0]
    assert found["resolution"] == [4.0, 8.0, 30.0]
    spec = {"driver": "n5", "kvstore": {"driver": "file", "path": str(tmp_path / "b.n5")}}
    opened = ts.open(spec).result()
    assert opened.domain.labels == ("x", "y", "z")
    assert opened.dimension_units[0] == ts.Unit(4, "nm")


@pytest.mark.parametrize("middle", ["m.n5", "m.precomputed"])
@pytest.mark.parametrize("is_turned", [False, True])
def test_nifti_returns_to_its_place(tmp_path: Path, middle: str, *, is_turned: bool) -> None:
    """A NIfTI image that goes through another format lies where it lay, rotated or not."""
    affine = np.array([[2.0, 0, 0, -20], [0, 1.5, 0, 30], [0, 0, 3, 6], [0, 0, 0, 1]])
    if is_turned:
        affine[:2, :2] = [[0.0, -1.5], [2.0, 0.1]]
    image = nib.Nifti1Image(ARRAY, affine)
    image.header.set_xyzt_units("mm")
    nib.save(image, tmp_path / "a.nii")
    dask_io.resplit(tmp_path / "a.nii", tmp_path / middle, chunks=2)
    dask_io.resplit(tmp_path / middle, tmp_path / "b.nii", chunks=-1)

    back = nib.load(tmp_path / "b.nii")
    assert np.allclose(back.affine, affine)
    assert np.array_equal(np.asarray(back.dataobj), ARRAY)


@pytest.mark.parametrize("middle", ["m.n5", "m.precomputed"])
def test_ome_zarr_returns_to_its_place(tmp_path: Path, middle: str) -> None:
    """Scale and translation of an OME-Zarr image survive, and so does the order of its axes."""
    make(tmp_path, COSEM)
    for source, target in (("a.n5", "a.ome.zarr"), ("a.ome.zarr", middle), (middle, "b.ome.zarr")):
        dask_io.resplit(tmp_path / source, tmp_path / target, chunks=2)

    first, last = (dask_io.open(tmp_path / name) for name in ("a.ome.zarr", "b.ome.zarr"))
    before, after = (each.source.metadata["space"] for each in (first, last))
    assert is_close(before, after, ARRAY.shape)
    assert np.array_equal(last[...], ARRAY)
    if middle == "m.precomputed":
        scale = json.loads((tmp_path / middle / "info").read_bytes())["scales"][0]
        assert scale["resolution"] == [4, 8, 30]
        assert scale["size"] == [4, 3, 2]
