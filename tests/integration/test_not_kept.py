"""What a source says about its array is kept, or else named."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import netCDF4
import numpy as np
import pytest
import zarr

import dask_io

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.arange(24, dtype="u1").reshape(4, 6) % 3
CLOUDS = {"clear": 0, "fog": 1, "haze": 2}


def make_zarr(path: Path, **said: Any) -> str:
    """Make an array of Zarr with attributes or other things that it says."""
    made = zarr.create_array(path, shape=VALUES.shape, chunks=(2, 3), dtype="u1", **said)
    made[...] = VALUES
    return str(path)


def make_enumeration(path: Path, kind: str) -> str:
    """Make a dataset of HDF5 whose values have names."""
    with h5py.File(path, "w") as file:
        dtype = h5py.enum_dtype(CLOUDS, kind)
        file.create_dataset("cloud", data=VALUES, dtype=dtype, chunks=(2, 3))
    return str(path)


def make_clouds(path: Path) -> str:
    """Have the library of NetCDF make variables of an enumeration, one along the other's axis."""
    with netCDF4.Dataset(path, "w") as file:
        kind = file.createEnumType(np.uint8, "cloud_t", CLOUDS)
        file.createDimension("y", 4)
        file.createDimension("x", 6)
        file.createVariable("flag", kind, ("x",))[:] = VALUES[0]
        cloud = file.createVariable("cloud", kind, ("y", "x"))
        cloud.ancillary_variables = "flag"
        cloud[:] = VALUES
    return str(path)


@pytest.mark.parametrize(
    ("attributes", "target", "lost"),
    [
        ({"a": {"b": [1]}}, "b.h5", ("types_of_attributes",)),
        ({"a": [2**70]}, "b.h5", ("types_of_attributes",)),
        ({"a": [2**63, -1]}, "b.h5", ("types_of_attributes",)),
        ({"DIMENSION_LIST": "a"}, "b.h5", ("some_attributes",)),
        ({" a": 1, "b" * 257: 2}, "b.nc", ("some_attributes",)),
        ({"_FillValue": 2**31}, "b.nc", ("some_attributes",)),
        ({"_FillValue": "none"}, "b.nc", ("some_attributes",)),
        ({"a": 2**70}, "b.h5", ("types_of_attributes",)),
        ({"a": [[1, 2], [3, 4]]}, "b.nc", ("types_of_attributes",)),
        ({"a": True}, "b.nc", ("types_of_attributes",)),
        ({"a": None}, "b.nc", ("some_attributes",)),
        ({"NAME": "a"}, "b.nc", ("some_attributes",)),
        ({"_ARRAY_DIMENSIONS": ["y", "x"]}, "b.nc", ("some_attributes",)),
        ({"_ARRAY_DIMENSIONS": ["y", "x"]}, "b.zarr", ()),
        ({"a": None, "b": [], "c": "", "d": [1.5, 2], "e": ["x"], "f": -3, "g": 2**63}, "b.h5", ()),
        ({"CLASS": [1, 2]}, "b.h5", ()),
        ({"CLASS": "DIMENSION_SCALE", "b": 1}, "b.h5", ("some_attributes",)),
        ({"CLASS": "IMAGE", "NAME": "a", "b": True, "c": "a" * 2**17}, "b.h5", ()),
        ({"b": [], "c": "", "d": [1.5, 2], "e": ["x", "y"], "f": -3, "g": "°"}, "b.nc", ()),
    ],
)
def test_attributes_of_zarr(
    attributes: Any, target: str, lost: tuple[str, ...], tmp_path: Path
) -> None:
    """Those that a target has no types for, or no place, are told of; others are the same there."""
    source = make_zarr(tmp_path / "a.zarr", attributes=attributes)

    done = dask_io.resplit(source, tmp_path / target, chunks=(3, 2))

    assert done.not_kept == lost
    if not lost:
        assert dask_io.info(tmp_path / target).metadata["attributes"] == attributes


@pytest.mark.parametrize(("is_checked", "lost"), [(False, ()), (True, ("codec",))])
def test_codecs_of_one_array_and_of_all(
    is_checked: bool,  # noqa: FBT001 - a case
    lost: tuple[str, ...],
    tmp_path: Path,
) -> None:
    """A codec that Zarr 3 lacks is told of in both cases; Blosc stands for shuffle and zlib."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("a", "b"):
            file.create_dataset(
                name,
                data=VALUES,
                chunks=(2, 6),
                compression="gzip",
                shuffle=True,
                fletcher32=is_checked,
            )

    one = dask_io.resplit(f"{tmp_path}/a.h5::/a", tmp_path / "one.zarr", chunks=(4, 3))
    both = dask_io.resplit(tmp_path / "a.h5", tmp_path / "both.zarr", chunks=-1)

    assert one.not_kept == both.not_kept == lost


@pytest.mark.parametrize("target", ["b.h5", "b.nc", "b.zarr"])
def test_names_of_dimensions_have_one_place(target: str, tmp_path: Path) -> None:
    """They are no attribute any more where they have another place."""
    said = {"unit": "m", "_ARRAY_DIMENSIONS": ["y", "x"]}
    source = make_zarr(tmp_path / "a.zarr", zarr_format=2, attributes=said)
    version = 3 if target == "b.zarr" else None

    done = dask_io.resplit(source, tmp_path / target, chunks=(3, 2), format_version=version)

    found = dask_io.info(tmp_path / target).metadata
    assert done.not_kept == ()
    assert found["attributes"].keys() - {"_FillValue"} == {"unit"}
    assert found["dimension_names"] == ("y", "x")


def test_names_that_cannot_be_are_told_of(tmp_path: Path) -> None:
    """NetCDF has no two dimensions of one name; to Zarr they are names like others."""
    source = make_zarr(tmp_path / "a.zarr", dimension_names=("x", "x"))

    there = dask_io.resplit(source, tmp_path / "b.nc", chunks=(3, 2))
    same = dask_io.resplit(source, tmp_path / "b.zarr", chunks=(3, 2), format_version=2)

    assert (there.not_kept, same.not_kept) == (("dimension_names",), ())


def test_names_in_two_places_that_differ(tmp_path: Path) -> None:
    """Zarr 2 has one place for both, so that one of them is lost."""
    said = {"_ARRAY_DIMENSIONS": ["a", "b"]}
    source = make_zarr(tmp_path / "a.zarr", attributes=said, dimension_names=("y", "x"))

    done = dask_io.resplit(source, tmp_path / "b.zarr", chunks=(3, 2), format_version=2)

    assert done.not_kept == ("some_attributes",)
    assert dask_io.info(tmp_path / "b.zarr").metadata["dimension_names"] == ("y", "x")


def test_fields_that_others_have_put_in(tmp_path: Path) -> None:
    """They stay in documents of version 3, which zarr-python still reads, and are told of."""
    source = make_zarr(tmp_path / "a.zarr")
    document = json.loads((tmp_path / "a.zarr/zarr.json").read_bytes())
    extra = {"lab": {"must_understand": False, "device": "A"}}
    (tmp_path / "a.zarr/zarr.json").write_text(json.dumps({**document, **extra}))

    kept = dask_io.resplit(source, tmp_path / "b.zarr", chunks=(3, 2))
    lost = dask_io.resplit(source, tmp_path / "c.zarr", chunks=(3, 2), format_version=2)

    made = json.loads((tmp_path / "b.zarr/zarr.json").read_bytes())
    assert {name: made[name] for name in extra} == extra
    assert np.array_equal(zarr.open_array(tmp_path / "b.zarr")[...], VALUES)
    assert (kept.not_kept, lost.not_kept) == ((), ("extra_fields",))


@pytest.mark.parametrize("kind", ["u1", "<i2", "<u8"])
def test_names_of_values_reach_netcdf(kind: str, tmp_path: Path) -> None:
    """Its library sees a variable only if its type has a name, which is made up if need be."""
    source = make_enumeration(tmp_path / "a.h5", kind)

    done = dask_io.resplit(source, tmp_path / "b.nc", chunks=(3, 2))

    assert done.not_kept == ()
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file.enumtypes["cloud_t"].enum_dict == CLOUDS
        assert np.array_equal(file["cloud"][:], VALUES)


def test_names_of_values_that_netcdf_cannot_read(tmp_path: Path) -> None:
    """Its library has no enumerations of big-endian numbers: they become numbers."""
    source = make_enumeration(tmp_path / "a.h5", ">i2")

    done = dask_io.resplit(source, tmp_path / "b.nc", chunks=(3, 2))

    assert done.not_kept == ("names_of_values",)
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert np.array_equal(file["cloud"][:], VALUES)


@pytest.mark.parametrize("inside", ["::/cloud", ""])
def test_types_of_netcdf_keep_their_names(inside: str, tmp_path: Path) -> None:
    """Of the variable that is moved, of what belongs to it, and of all in a file."""
    source = make_clouds(tmp_path / "a.nc")

    done = dask_io.resplit(f"{source}{inside}", tmp_path / "b.nc", chunks={"x": 2})

    assert done.not_kept == ()
    said = [
        subprocess.run(["ncdump", "-n", "a", each], check=True, capture_output=True).stdout
        for each in (source, tmp_path / "b.nc")
    ]
    assert sorted(said[0].splitlines()) == sorted(said[1].splitlines())


def test_names_of_values_are_told_of(tmp_path: Path) -> None:
    """Zarr has no place for them, of one variable and of a file."""
    source = make_clouds(tmp_path / "a.nc")

    one = dask_io.resplit(f"{source}::/cloud", tmp_path / "b.zarr", chunks=(3, 2))
    whole = dask_io.resplit(source, tmp_path / "c.zarr", chunks={"x": 2})

    assert one.not_kept == ("coordinates", "names_of_values")
    assert whole.not_kept == ("names_of_values", "names_of_types")


def test_types_of_hdf5_keep_their_names(tmp_path: Path) -> None:
    """Elements are of the type of that name in the copy, of one dataset and of a file."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["types/record"] = np.dtype([("a", "i4"), ("b", "f4")])
        file["text"] = np.dtype(h5py.string_dtype())
        file.create_dataset("in/records", (9,), file["types/record"], chunks=(4,))
        file.create_dataset("one", (), file["types/record"])
        file.create_dataset("texts", data=["a", "b"], dtype=file["text"])

    one = dask_io.resplit(f"{tmp_path}/a.h5::/in/records", tmp_path / "b.h5", chunks=2)
    whole = dask_io.resplit(tmp_path / "a.h5", tmp_path / "c.h5", chunks=2)
    other = dask_io.resplit(f"{tmp_path}/a.h5::/in/records", tmp_path / "d.zarr", chunks=2)

    assert (one.not_kept, whole.not_kept) == ((), ())
    assert other.not_kept == ("names_of_types",)
    assert _types_in(tmp_path / "c.h5") == _types_in(tmp_path / "a.h5")
    assert _types_in(tmp_path / "b.h5") == ['"/types/record"']
    assert dask_io.info(tmp_path / "b.h5").shape == (9,)


def _types_in(path: Path) -> list[str]:
    """Return the types of all datasets, in h5dump's words."""
    run = subprocess.run(["h5dump", "-H", path], check=True, capture_output=True, text=True)
    words = [line.strip() for line in run.stdout.splitlines()]
    return [line.removeprefix("DATATYPE").strip() for line in words if line.endswith('"')]


def test_types_of_netcdf_3_are_kept_by_hdf5(tmp_path: Path) -> None:
    """Attributes have the types that they had, those of the file too; JSON has not all of them."""
    said: dict[str, Any] = {
        "scale": np.float32(0.1),
        "range": np.array([-1, 3], "i2"),
        "n": np.int32(3),
        "unit": "K",
        "empty": "",
    }
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 9)
        file.createVariable("v", "f4", ("x",)).setncatts(said)
        file.level = np.int16(4)

    kept = dask_io.resplit(f"{tmp_path}/a.nc::v", tmp_path / "b.h5", chunks=2)
    lost = dask_io.resplit(f"{tmp_path}/a.nc::v", tmp_path / "b.zarr", chunks=2)

    assert kept.not_kept == ()
    assert lost.not_kept == ("types_of_attributes", "attributes_of_the_file")
    with h5py.File(tmp_path / "b.h5") as made:
        types = {name: made["v"].attrs.get_id(name).dtype for name in said}
        assert [types[name].str[1:] for name in ("scale", "range", "n")] == ["f4", "i2", "i4"]
        assert made["v"].attrs["unit"] == b"K"
        assert made.attrs["level"] == 4
        assert made.attrs.get_id("level").dtype.itemsize == 2


def test_text_that_is_none_is_told_of(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 stay the same in HDF5, but not in JSON."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 4)
        file.createVariable("v", "f4", ("x",)).setncattr("unit", b"\xb0C")

    kept = dask_io.resplit(f"{tmp_path}/a.nc::v", tmp_path / "b.h5", chunks=2)
    lost = dask_io.resplit(tmp_path / "b.h5", tmp_path / "b.zarr", chunks=2)

    assert (kept.not_kept, lost.not_kept) == ((), ("types_of_attributes",))
    with h5py.File(tmp_path / "b.h5") as made:
        assert made["v"].attrs["unit"] == b"\xb0C"


def test_characters_of_netcdf_3_have_a_fill_value(tmp_path: Path) -> None:
    """It is what is not stored in the target, too."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 4)
        file.createVariable("v", "S1", ("x",), fill_value="-")[:2] = ["a", "b"]

    dask_io.resplit(f"{tmp_path}/a.nc::v", tmp_path / "b.zarr", chunks=2)

    assert dask_io.info(tmp_path / "b.zarr").metadata["fill_value"] == b"-"
    assert np.asarray(zarr.open_array(tmp_path / "b.zarr")[...]).tolist() == [
        b"a",
        b"b",
        b"-",
        b"-",
    ]


def test_groups_and_scales_of_one_dataset(tmp_path: Path) -> None:
    """What its groups say comes along if they are there; a scale stays one, under its name."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("day/x", data=np.arange(9), chunks=(4,))
        made.make_scale("distance")
        file["day"].attrs["who"] = "me"
        file.create_dataset("day/other", data=np.arange(9))

    same = dask_io.resplit(f"{tmp_path}/a.h5::/day/x", tmp_path / "b.h5", chunks=2)
    other = dask_io.resplit(f"{tmp_path}/a.h5::/day/x", f"{tmp_path}/c.h5::/y", chunks=2)

    assert (same.not_kept, other.not_kept) == ((), ("attributes_of_groups",))
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["day"].attrs["who"] == "me"
        assert file["day/x"].is_scale
        assert file["day/x"].attrs["NAME"] == b"distance"
    assert dask_io.info(tmp_path / "c.h5").metadata["dimension_names"] == ("x",)


def test_groups_of_zarr_become_files(tmp_path: Path) -> None:
    """Attributes of all arrays that one file has no types for are told of, names too."""
    group = zarr.create_group(tmp_path / "a.zarr")
    for name in ("a", "b"):
        group.create_array(name, data=VALUES, dimension_names=("x", "x"), attributes={"n": {}})

    done = dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.nc", chunks=(2, 2))

    assert done.not_kept == ("types_of_attributes", "dimension_names")


def test_what_images_of_hdf5_say(tmp_path: Path) -> None:
    """They say by the names of scales what they are, which is theirs to say."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=VALUES, track_order=True)
        file["x"].attrs.update({"CLASS": np.bytes_("IMAGE"), "long": np.zeros(2**14)})

    kept = dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=2)
    other = dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.zarr", chunks=2)
    lost = dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.nc", chunks=2)

    assert (kept.not_kept, other.not_kept) == ((), ())
    assert lost.not_kept == ("some_attributes",)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["x"].attrs["CLASS"] == b"IMAGE"
        assert file["x"].attrs["long"].shape == (2**14,)


def test_attributes_of_types_that_numpy_does_not_have(tmp_path: Path) -> None:
    """HDF5 copies them bit by bit; others have none like them."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        scalar = h5py.h5s.create(h5py.h5s.SCALAR)
        for owner in (file, file.create_group("in"), file.create_dataset("in/x", data=VALUES)):
            h5py.h5a.create(owner.id, b"time", h5py.h5t.UNIX_D32LE, scalar)

    kept = dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=2)
    lost = dask_io.resplit(f"{tmp_path}/a.h5::/in/x", tmp_path / "b.zarr", chunks=2)

    assert kept.not_kept == ()
    assert lost.not_kept == ("some_attributes", "attributes_of_the_file", "attributes_of_groups")


@pytest.mark.parametrize("target", ["b.nc", "b.zarr"])
@pytest.mark.parametrize("inside", ["::/x", ""])
def test_variables_with_the_name_of_a_dimension(target: str, inside: str, tmp_path: Path) -> None:
    """NetCDF stores them by another name, beside a dataset that stands for the dimension."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("y", 4)
        file.createDimension("x", 6)
        file.createVariable("x", "u1", ("y", "x"))[:] = VALUES

    done = dask_io.resplit(f"{tmp_path}/a.nc{inside}", tmp_path / target, chunks=2)

    assert done.not_kept == ()
    assert dask_io.info(tmp_path / target).shape == VALUES.shape
    if target == "b.nc":
        with netCDF4.Dataset(tmp_path / target) as file:
            assert np.array_equal(file["x"][:], VALUES)
    with pytest.raises(dask_io.errors.UsageError, match="is a dimension without values"):
        dask_io.resplit(f"{tmp_path}/a.nc::/y", tmp_path / "c.zarr", chunks=2)


@pytest.mark.parametrize("inside", ["::/t", ""])
def test_coordinates_of_several_axes(inside: str, tmp_path: Path) -> None:
    """They have the name of their first dimension, and NetCDF notes the others by numbers."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("station", 4)
        file.createDimension("length", 6)
        file.createVariable("station", "u1", ("station", "length"))[:] = VALUES
        file.createVariable("t", "f4", ("station",))[:] = 1

    done = dask_io.resplit(f"{tmp_path}/a.nc{inside}", tmp_path / "b.nc", chunks=2)
    one = dask_io.resplit(f"{tmp_path}/a.nc::/station", tmp_path / "b.zarr", chunks=2)
    same = dask_io.resplit(f"{tmp_path}/a.nc::/station", tmp_path / "c.nc", chunks=2)

    assert (done.not_kept, one.not_kept, same.not_kept) == ((), (), ("dimension_names",))
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["station"].dimensions == ("station", "length")
        assert np.array_equal(file["station"][:], VALUES)
    with netCDF4.Dataset(tmp_path / "c.nc") as file:
        assert file["station"].dimensions == ("station_0", "length")
    assert dask_io.info(tmp_path / "b.zarr").metadata["dimension_names"] == ("station", "length")


def test_what_groups_around_an_array_say(tmp_path: Path) -> None:
    """It is said of more than the one array, so that it is not kept with it."""
    group = zarr.create_group(tmp_path / "a.zarr", attributes={"title": "all"})
    group.create_array("in/x", data=VALUES)

    done = dask_io.resplit(f"{tmp_path}/a.zarr::/in/x", tmp_path / "b.zarr", chunks=2)

    assert done.not_kept == ("attributes_of_groups",)


def test_names_of_types_that_are_taken(tmp_path: Path) -> None:
    """NetCDF gets another name, HDF5 none, and neither is refused or unreadable."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"] = h5py.enum_dtype(CLOUDS, "u1")
        made = file.create_dataset("x", data=VALUES, dtype=file["t"], chunks=(2, 3))
        made.dims[0].label = "t"

    there = dask_io.resplit(f"{tmp_path}/a.h5::/x", tmp_path / "b.nc", chunks=2)
    moved = dask_io.resplit(f"{tmp_path}/a.h5::/x", f"{tmp_path}/c.h5::/t/x", chunks=2)

    assert (there.not_kept, moved.not_kept) == ((), ("names_of_types",))
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file.enumtypes["t_1"].enum_dict == CLOUDS
        assert file["x"].dimensions == ("t", "dim_1")


def test_types_that_are_equal_stay_two(tmp_path: Path) -> None:
    """Each with what is said about it; a type that is no enumeration is none of NetCDF."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("one", "two"):
            file[name] = np.dtype("i4")
            file[name].attrs["is"] = name
            file.create_dataset(f"of_{name}", (9,), file[name], chunks=(4,))

    done = dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=2)
    other = dask_io.resplit(f"{tmp_path}/a.h5::/of_two", tmp_path / "b.nc", chunks=2)

    assert (done.not_kept, other.not_kept) == ((), ("names_of_types",))
    assert _types_in(tmp_path / "b.h5") == ['"/one"', '"/two"']
    with h5py.File(tmp_path / "b.h5") as file:
        assert [file[name].attrs["is"] for name in ("one", "two")] == ["one", "two"]
    subprocess.run(["ncdump", tmp_path / "b.nc"], check=True, capture_output=True)


def test_a_file_with_a_type_of_ours_is_replaced(tmp_path: Path) -> None:
    """The type of a dataset belongs to it, so that nothing is lost with it."""
    dask_io.resplit(make_enumeration(tmp_path / "a.h5", "u1"), tmp_path / "b.nc", chunks=2)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["cloud"] = VALUES

    dask_io.resplit(tmp_path / "c.h5", tmp_path / "b.nc", chunks=2, overwrite=True)

    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert not file.enumtypes


def test_scales_of_hdf5_are_coordinates_of_netcdf(tmp_path: Path) -> None:
    """Those that have the names of dimensions, cut as the region is; and what the file says."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("t", data=VALUES, chunks=(2, 3), maxshape=(None, 6))
        for number, (name, kind) in enumerate((("time", "f8"), ("x", "i2"))):
            file[name] = np.arange(VALUES.shape[number], dtype=kind)
            file[name].attrs["scale"] = np.float32(2)
            file[name].make_scale(name)
            made.dims[number].attach_scale(file[name])
        file.attrs["title"] = "all"

    done = dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.nc", chunks=2, region="1:3,2:")

    assert done.not_kept == ()
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["time"][:].tolist() == [1, 2]
        assert file["x"][:].tolist() == [2, 3, 4, 5]
        assert file["x"].getncattr("scale").dtype == "f4"
        assert file.dimensions["time"].isunlimited()
        assert file.title == "all"
