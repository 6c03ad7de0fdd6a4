"""Variables in groups of NetCDF 4, with what belongs to them in these and the ones around."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import dask_io
from dask_io.formats.netcdf.related_variables import RelatedVariables, Variable

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(240, dtype="f4").reshape(8, 5, 6)


def save(path: Path, *, other_x: bool = False) -> Path:
    """Save a variable whose dimensions and coordinates are in its group and in those around."""
    with netCDF4.Dataset(path, "w") as file:
        file.title = "a model"
        file.createDimension("time", None)
        file.createDimension("x", 6)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(8)
        day: Any = file.createGroup("day")
        day.note = "of every day"
        day.createDimension("y", 5)
        day.createVariable("y", "i4", ("y",))[:] = np.arange(5)
        day.createVariable("height", "f4", ("y", "x"))[:] = 1.5
        deep: Any = day.createGroup("deep")
        if other_x:
            deep.createDimension("x", 6)
            deep.createVariable("x", "i2", ("x",))[:] = 7
        tas = deep.createVariable("tas", "f4", ("time", "y", "x"), chunksizes=(1, 5, 6))
        tas.setncatts({"units": "K", "coordinates": "height"})
        tas[:] = VALUES
    return path


def groups(path: Path) -> dict[str, xr.Dataset]:
    """Read all groups as other tools do."""
    found = xr.open_groups(path)
    try:
        return {name: each.load() for name, each in found.items()}
    finally:
        for each in found.values():
            each.close()


@pytest.mark.skipif(shutil.which("ncdump") is None, reason="netcdf-bin is missing")
@pytest.mark.parametrize("other_x", [True, False])
def test_everything_stays_in_its_group(tmp_path: Path, *, other_x: bool) -> None:
    """Dimensions, coordinates and attributes; what has one name in two groups is not mixed up."""
    path, made = save(tmp_path / "a.nc", other_x=other_x), tmp_path / "b.nc"

    done = dask_io.resplit(f"{path}::/day/deep/tas", made, chunks=(8, 2, 2), verify=True)

    assert done.not_kept == ()
    before, after = groups(path), groups(made)
    assert before.keys() == after.keys()
    for name, each in before.items():
        xr.testing.assert_identical(each, after[name])
    # Variables come in another order.
    said = [
        subprocess.run(["ncdump", "-h", "-n", "a", each], check=True, capture_output=True).stdout
        for each in (path, made)
    ]
    assert sorted(said[0].splitlines()) == sorted(said[1].splitlines())
    with netCDF4.Dataset(made, "a") as file:
        file["time"][8] = 8
        assert file["day/deep/tas"].shape == (9, 5, 6)


@pytest.mark.parametrize("inside", ["tas", "mean/tas"])
def test_a_variable_that_moves_takes_all_along(inside: str, tmp_path: Path) -> None:
    """Into its new group, where xarray finds it; but for what the old ones say, which is told."""
    path, made = save(tmp_path / "a.nc"), tmp_path / "b.nc"
    region = "2:6,1:,:3"

    done = dask_io.resplit(f"{path}::/day/deep/tas", f"{made}::/{inside}", chunks=2, region=region)

    assert done.not_kept == ("attributes_of_groups",)
    found = groups(made)[f"/{inside}".removesuffix("/tas") or "/"]
    assert np.array_equal(found["tas"], VALUES[2:6, 1:, :3])
    assert np.array_equal(found["y"], [1, 2, 3, 4])
    assert found["time"].shape == (4,)
    assert found["height"].shape == (4, 3)
    assert groups(made)["/"].attrs == {"title": "a model"}


def test_what_cannot_be_in_one_group_is_left_out_and_told(tmp_path: Path) -> None:
    """Of two dimensions of one name, the variable's own is kept, and what lies along it."""
    path, made = save(tmp_path / "a.nc", other_x=True), tmp_path / "b.nc"

    done = dask_io.resplit(f"{path}::/day/deep/tas", f"{made}::/tas", chunks=2)

    assert done.not_kept == ("coordinates", "attributes_of_groups")
    (found,) = groups(made).values()
    assert np.array_equal(found["x"], np.full(6, 7))
    assert set(found.variables) == {"tas", "time", "x", "y"}


@pytest.mark.parametrize("inside", ["both/v", "v"])
def test_dimensions_of_one_name_along_one_variable(inside: str, tmp_path: Path) -> None:
    """They are two where the variable is, and get two names where they cannot be."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 3)
        both: Any = file.createGroup("both")
        both.createDimension("x", 4)
    # By its names the library of NetCDF cannot make such a variable.
    with h5py.File(tmp_path / "a.nc", "r+") as file:
        made = file["both"].create_dataset("v", data=np.arange(12, dtype="i2").reshape(3, 4))
        made.dims[0].attach_scale(file["x"])
        made.dims[1].attach_scale(file["both/x"])

    dask_io.resplit(f"{tmp_path}/a.nc::/both/v", f"{tmp_path}/b.nc::/{inside}", chunks=2)

    with h5py.File(tmp_path / "b.nc") as file:
        assert np.array_equal(file[inside], np.arange(12).reshape(3, 4))
        along = [axis[0].name for axis in file[inside].dims]
        assert along == (["/x", "/both/x"] if "/" in inside else ["/x", "/x_1"])
        assert [file[name].shape for name in along] == [(3,), (4,)]


def test_coordinates_that_are_named_by_a_path(tmp_path: Path) -> None:
    """They are found wherever they are, but not by way of links to other files."""
    path, made = save(tmp_path / "a.nc"), tmp_path / "c.nc"
    with netCDF4.Dataset(tmp_path / "b.nc", "w") as file:
        file.createDimension("z", 3)
        file.createVariable("secret", "f4", ("z",))[:] = 1
    with h5py.File(path, "r+") as file:
        file["elsewhere"] = h5py.ExternalLink(str(tmp_path / "b.nc"), "/")
        file["day/deep/tas"].attrs["coordinates"] = "/day/height /elsewhere/secret /"

    dask_io.resplit(f"{path}::/day/deep/tas", made, chunks=(8, 2, 2))

    assert set(dask_io.info(f"{path}::/day/deep/tas").metadata["coordinates"]) == {
        "time",
        "y",
        "height",
    }
    assert set(groups(made)["/day"].variables) == {"y", "height"}


paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)


@given(data=st.data(), inside=paths)
def test_what_moves_fits_together(data: st.DataObject, inside: str) -> None:
    """All is in the new group, and every name there means one thing of one length."""
    lengths = data.draw(st.dictionaries(paths, st.integers(1, 3), min_size=1))
    along = st.lists(st.sampled_from(sorted(lengths)), max_size=3).map(tuple)
    names = data.draw(st.lists(paths, unique=True, max_size=4))
    variables = tuple(
        Variable(name, axes, np.zeros([lengths[each] for each in axes]), {"was": name})
        for name, axes in ((name, data.draw(along)) for name in names)
    )
    around = RelatedVariables("other/v", data.draw(along), variables=variables)

    moved = around.at(inside)

    group = inside.rpartition("/")[0]
    known = dict(zip(moved.dimensions, around.dimensions, strict=True))
    for each in moved.variables:
        before = next(one for one in variables if one.name == each.attributes["was"])
        for new, old in zip(
            (each.name, *each.dimensions), (before.name, *before.dimensions), strict=True
        ):
            assert known.setdefault(new, old) == old
    assert all(path.rpartition("/")[0] == group for path in known)
    assert len(set(known.values())) == len(known)
    assert moved.at(inside) == moved
