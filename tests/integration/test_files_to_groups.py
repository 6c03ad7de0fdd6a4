"""Files become groups of Zarr arrays, and groups become files; xarray finds the same in both."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import dask_io
from dask_io.errors import (
    BudgetTooSmallError,
    DataError,
    InterruptedRunError,
    TargetExistsError,
    UsageError,
)
from dask_io.formats.zarr.quiet import quiet
from tests.commands import invoke, run
from tests.model import save_model

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNKS = {"time": 3, "lat": -1, "lon": 7}
save = partial(save_model, for_xarray=True)


def load(place: Path, group: str = "") -> xr.Dataset:
    """Read a dataset as other tools do, its times, gaps and scales decoded."""
    with quiet():
        engine: Any = "zarr" if place.is_dir() else "netcdf4"
        with xr.open_dataset(place, engine=engine, group=group or None) as found:
            return found.load()


def dump(path: Path) -> list[str]:
    """All that the library of NetCDF finds in a file, but that a dimension has no end."""
    said = ["ncdump", "-n", "x", "-p", "9,17", str(path)]
    text = subprocess.run(said, check=True, capture_output=True, text=True).stdout
    return sorted(text.replace("UNLIMITED ; // (13 currently)", "13 ;").splitlines())


@pytest.mark.parametrize(
    ("version", "zarr_version"),
    [("NETCDF4", 2), ("NETCDF4", 3), ("NETCDF3_CLASSIC", 2), ("NETCDF3_64BIT_DATA", 3)],
)
def test_there_and_back(version: str, zarr_version: int, tmp_path: Path) -> None:
    """All three are the same to xarray, both files to ncdump; checksums hold."""
    source, group, back = (
        save(tmp_path / "a.nc", version),
        tmp_path / "b.zarr",
        tmp_path / "c.nc",
    )

    quick: Any = {"memory": "8MiB", "verify": True, "durability": "none"}
    done = dask_io.resplit(source, group, chunks=CHUNKS, format_version=zarr_version, **quick)
    again = dask_io.resplit(group, back, chunks={"time": 5}, **quick)

    assert (done.verified, done.not_kept) == (True, ("unlimited_dimensions",))
    assert (again.verified, again.not_kept) == (True, ())
    for inner in ("", *(["inner/most"] if version == "NETCDF4" else [])):
        xr.testing.assert_identical(load(group, inner), load(source, inner))
        xr.testing.assert_identical(load(back, inner), load(source, inner))
    if shutil.which("ncdump") is not None:
        assert dump(back) == dump(source)
    for one, other in ((source, group), (group, back)):
        assert dask_io.verify(one, other)


def test_what_becomes_of_chunks_and_codecs(tmp_path: Path) -> None:
    """Arrays that are re-split get what is asked for, others keep what they have."""
    source, group = save(tmp_path / "a.nc"), tmp_path / "b.zarr"
    dask_io.resplit(source, group, chunks=CHUNKS, codec="zstd:1", durability="none")
    dask_io.resplit(group, tmp_path / "c.nc", chunks={"time": 13}, codec="gzip:1")

    with quiet():
        made = zarr.open_group(group, mode="r")
        assert made.metadata.consolidated_metadata is not None
        found: Any = {name: made[name] for name in ("tas", "orog", "time_bnds", "lat")}
    assert found["tas"].chunks == (3, 10, 7)
    assert found["tas"].metadata.dimension_names == ("time", "lat", "lon")
    assert found["tas"].fill_value == -999
    assert (found["orog"].chunks, found["time_bnds"].chunks) == ((10, 7), (3, 2))
    assert found["lat"].chunks == (10,)
    assert found["tas"].attrs["_FillValue"] == -999
    assert "_FillValue" not in found["orog"].attrs
    with netCDF4.Dataset(tmp_path / "c.nc") as file:
        assert file["tas"].chunking() == [13, 10, 7]
        assert file["tas"].filters()["zlib"]
        assert file["tas"].getncattr("_FillValue").dtype == "i2"
        assert file["pr"].getncattr("missing_value").dtype == "f4"


def test_shards_of_what_was_a_file(tmp_path: Path) -> None:
    """By the names of its dimensions; without chunks by name, of those that it has."""
    source, group = save(tmp_path / "a.nc"), tmp_path / "b.zarr"
    dask_io.resplit(source, group, chunks=CHUNKS, shards={"time": 6, "lon": -1}, verify=True)

    with quiet():
        made = zarr.open_group(group, mode="r")
        found: Any = {name: made[name] for name in ("tas", "orog", "time_bnds", "lat")}
    assert (found["tas"].chunks, found["tas"].shards) == ((3, 10, 7), (6, 10, 21))
    assert (found["orog"].shards, found["time_bnds"].shards) == ((10, 21), (6, 2))
    assert found["lat"].shards is None
    xr.testing.assert_identical(load(group), load(source))
    with pytest.raises(UsageError, match="Zarr 2 has no shards; leave them out, or give format_v"):
        dask_io.resplit(source, tmp_path / "c.zarr", chunks=3, shards=-1, format_version=2)
    with pytest.raises(UsageError, match="format hdf5 has no shards; leave them out"):
        dask_io.resplit(source, tmp_path / "c.h5", chunks=CHUNKS, shards={"time": 6})


def test_a_file_of_one_variable_and_its_coordinates(tmp_path: Path) -> None:
    """In Zarr it is a group, as else the coordinates would be lost; without any it is an array."""
    values = np.arange(60, dtype="f4").reshape(6, 10)
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, length in {"y": 6, "x": 10}.items():
            file.createDimension(name, length)
        file.createVariable("v", "f4", ("y", "x"))[:] = values
    shutil.copy(tmp_path / "a.nc", tmp_path / "more.nc")
    with netCDF4.Dataset(tmp_path / "more.nc", "a") as file:
        file.createVariable("x", "f8", ("x",))[:] = np.arange(10)

    dask_io.resplit(tmp_path / "a.nc", tmp_path / "a.zarr", chunks=(3, -1))
    for place, chunks in (("b.zarr", (3, -1)), ("c.zarr", {"y": 3})):
        dask_io.resplit(tmp_path / "more.nc", tmp_path / place, chunks=chunks)
        xr.testing.assert_identical(load(tmp_path / place), load(tmp_path / "more.nc"))
        assert zarr.open_array(tmp_path / place / "v", mode="r").chunks == (3, 10)
        assert dask_io.verify(tmp_path / "more.nc", tmp_path / place)
    assert np.array_equal(np.asarray(dask_io.open(tmp_path / "a.zarr")), values)
    dask_io.resplit(f"{tmp_path}/more.nc::/v", tmp_path / "v.zarr", chunks=(3, -1))
    assert np.array_equal(np.asarray(dask_io.open(tmp_path / "v.zarr")), values)


def test_gaps_of_a_single_variable(tmp_path: Path) -> None:
    """Put into a group, and back into a file, xarray still knows them."""
    source = save(tmp_path / "a.nc")
    for name in ("pr", "tas"):
        dask_io.resplit(f"{source}::/{name}", f"{tmp_path}/b.zarr::/{name}", chunks=(4, -1, 5))
        dask_io.resplit(
            f"{tmp_path}/b.zarr::/{name}", f"{tmp_path}/{name}.nc::/{name}", chunks=(4, -1, 5)
        )
        expected = load(source)[name].values
        assert np.isnan(expected).any()
        assert np.array_equal(load(tmp_path / "b.zarr")[name].values, expected, equal_nan=True)
        found = load(tmp_path / f"{name}.nc")[name].values
        assert np.array_equal(found, expected, equal_nan=True)


def dataset() -> xr.Dataset:
    """A dataset as xarray saves it: packed, with times, texts of one length and of any."""
    made = xr.Dataset(
        {
            "t": (("time", "x"), np.arange(60.0).reshape(6, 10), {"units": "K", "about": {"a": 1}}),
            "n": ((), 7),
            "is": (("x",), np.arange(10) % 3 == 0),
            "one": ((), True),
        },
        coords={
            "time": xr.date_range("2000-01-01", periods=6),
            "word": (("x",), np.array([f"w{i}" for i in range(10)])),
            "text": (("x",), np.array(["ä" * i for i in range(10)], object)),
        },
        attrs={"title": "T", "numbers": [1.5, 2.5]},
    )
    made["t"].encoding = {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1, "chunks": (1, 10)}
    return made


@pytest.mark.parametrize("suffix", [".nc", ".h5"])
@pytest.mark.parametrize("version", [2, 3])
def test_groups_that_xarray_has_saved(version: int, suffix: str, tmp_path: Path) -> None:
    """Become files that it reads alike; what is no attribute of NetCDF is JSON there, and told."""
    with quiet():
        dataset().to_zarr(tmp_path / "a.zarr", zarr_format=version)
    (tmp_path / "a.zarr/README").write_text("a file")
    target = tmp_path / f"b{suffix}"

    done = dask_io.resplit(tmp_path / "a.zarr", target, chunks={"time": 4}, codec="gzip:1")

    assert done.not_kept == ("files", "types_of_attributes", "booleans")
    found, expected = load(target), load(tmp_path / "a.zarr")
    assert json.loads(found["t"].attrs.pop("about")) == expected["t"].attrs.pop("about")
    xr.testing.assert_identical(found, expected)
    assert dask_io.verify(tmp_path / "a.zarr", target)
    assert dask_io.verify(target)
    with h5py.File(target) as file:
        assert (file["t"].chunks, file["t"].dtype) == ((4, 10), "i2")
        assert file["t"].dims[0][0].name == "/time"


def test_trees_of_groups(tmp_path: Path) -> None:
    """Dimensions of one name are shared where they are one; coordinates may be texts."""
    whole = dataset().set_index(x="word").drop_vars("text")
    part = whole.isel(time=slice(0, 2))
    nodes = {
        "/": xr.Dataset(attrs={"a": "b"}),
        "/all": whole,
        "/some": part,
        "/some/in": part[["t"]],
    }
    places = [tmp_path / name for name in ("a.zarr", "b.nc", "c.zarr")]
    with quiet():
        xr.DataTree.from_dict(nodes).to_zarr(places[0], zarr_format=3)
    for one, other in pairwise(places):
        dask_io.resplit(one, other, chunks={"time": 1, "x": 5}, durability="none")

    with quiet():
        found = [xr.open_datatree(each).load() for each in places]
    for tree in found:
        for name in ("all/t", "some/t", "some/in/t"):
            del tree[name].attrs["about"]
    xr.testing.assert_identical(found[0], found[1])
    xr.testing.assert_identical(found[0], found[2])
    assert found[1]["some/in/t"].sizes == {"time": 2, "x": 10}


def test_hdf5_becomes_a_group(tmp_path: Path) -> None:
    """Names of axes, scales, groups and attributes come along; what cannot is told of."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("scan/1", "scan/2"):
            made = file.create_dataset(name, data=np.arange(24.0).reshape(4, 6), chunks=(1, 6))
            made.dims[0].label = "z"
        file["x"] = np.arange(6)
        file["x"].make_scale()
        file["scan/1"].dims[1].attach_scale(file["x"])
        file.create_dataset("rough", data=np.arange(9.0), chunks=(4,), scaleoffset=2)
        file["scan"].attrs["small"] = np.float32(0.1)
        file["also"] = h5py.SoftLink("/scan/1")

    done = dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.zarr", chunks={"z": 2})

    assert done.not_kept == ("links", "types_of_attributes", "codec")
    assert dask_io.verify(tmp_path / "a.h5", tmp_path / "b.zarr")
    found: Any = zarr.open_group(tmp_path / "b.zarr", mode="r")
    assert found["scan/1"].metadata.dimension_names == ("z", "x")
    assert found["scan/2"].metadata.dimension_names == ("z", None)
    assert (found["scan/1"].chunks, found["rough"].chunks) == ((2, 6), (4,))
    assert found["scan"].attrs["small"] == pytest.approx(0.1)


def stop_at(part: float) -> Callable[[dask_io.Progress], None]:
    """What interrupts a run when a part of it has been written."""

    def stop(progress: dask_io.Progress) -> None:
        if progress.n_bytes_written >= part * progress.n_bytes:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize(
    ("version", "part"), [("NETCDF4", 0.001), ("NETCDF3_CLASSIC", 0.5), ("NETCDF4", 0.99)]
)
def test_a_group_that_was_cut_short_is_resumed(version: str, part: float, tmp_path: Path) -> None:
    """Until the end no reader takes it for a group; the file may have been moved meanwhile."""
    source, target = save(tmp_path / "a.nc", version), tmp_path / "b.zarr"
    chosen: Any = {"chunks": CHUNKS, "workers": 1, "durability": "none"}
    with pytest.raises(InterruptedRunError, match=rf'dask_io\.resume\("{target}"\)$'):
        dask_io.resplit(source, target, progress=stop_at(part), **chosen)
    assert not (target / "zarr.json").exists()
    with pytest.raises(DataError, match="unfinished"):
        dask_io.info(target)
    with pytest.raises(TargetExistsError, match=r"dask_io\.resume"):
        dask_io.resplit(source, target, **chosen)
    expected = load(source)
    moved = source.rename(tmp_path / "moved.nc")

    done = dask_io.resume(tmp_path, source=str(moved), verify=True)

    assert (done.verified, done.not_kept) == (True, ("unlimited_dimensions",))
    xr.testing.assert_identical(load(target), expected)
    assert dask_io.verify(tmp_path)
    assert dask_io.resume(target, verify=True).blocks_written == 0


def test_a_group_of_a_file_that_has_changed_is_not_gone_on_with(tmp_path: Path) -> None:
    """What is there would not fit what is read now."""
    source, target = save(tmp_path / "a.nc"), tmp_path / "b.zarr"
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(source, target, chunks=CHUNKS, workers=1, progress=stop_at(0.5))
    with netCDF4.Dataset(source, "a") as file:
        file["crs"][...] = 8
    with pytest.raises(DataError, match="have changed since the run began"):
        dask_io.resume(target)


def test_a_file_that_was_cut_short_leaves_nothing(tmp_path: Path) -> None:
    """As any that is written as a whole; one that is there stays until the new one is whole."""
    with quiet():
        dataset().to_zarr(tmp_path / "a.zarr", zarr_format=3)
    target = tmp_path / "b.nc"
    chosen: Any = {"chunks": {"time": 4}, "codec": "none"}
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(tmp_path / "a.zarr", target, progress=stop_at(0.5), **chosen)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]
    dask_io.resplit(tmp_path / "a.zarr", target, **chosen)
    with pytest.raises(TargetExistsError):
        dask_io.resplit(tmp_path / "a.zarr", target, **chosen)
    dask_io.resplit(tmp_path / "a.zarr", target, **{**chosen, "chunks": {"x": 5}}, overwrite=True)
    with netCDF4.Dataset(target, "a") as file:
        assert file["t"].chunking() == [1, 5]
        file.createVariable("mine", "i4", ())[...] = 1
    with pytest.raises(UsageError, match="would be lost: mine"):
        dask_io.resplit(tmp_path / "a.zarr", target, **chosen, overwrite=True)


def test_what_is_copied_as_it_is_has_checksums(tmp_path: Path) -> None:
    """Scalars and texts too, in groups and in files, are compared with what was written."""
    source, group, target = save(tmp_path / "a.nc"), tmp_path / "b.zarr", tmp_path / "c.nc"
    dask_io.resplit(source, group, chunks=CHUNKS, durability="none")
    dask_io.resplit(group, target, chunks=CHUNKS)
    (group / "crs/c").write_bytes(np.int32(8).tobytes())
    with netCDF4.Dataset(target, "a") as file:
        file["station"][1] = "another"
    with pytest.raises(DataError, match=r"b\.zarr::/crs: differs from what was written"):
        dask_io.verify(group)
    with pytest.raises(DataError, match=r"b\.zarr::/crs: differs from what was written"):
        dask_io.resume(group, verify=True)
    with pytest.raises(DataError, match=r"c\.nc::/station: differs from what was written"):
        dask_io.verify(target)
    with pytest.raises(DataError, match="array crs differs"):
        dask_io.verify(source, group)
    assert dask_io.verify(f"{target}::/crs")


def spoil_type(group: Any) -> None:
    """Add an array of a type that NetCDF has not."""
    group.create_array("b", shape=(4,), dtype="f2", chunks=(2,), dimension_names=("y",))


def spoil_lengths(group: Any) -> None:
    """Add an array that means another dimension by the same name."""
    group.create_array("b", shape=(5,), dtype="i4", chunks=(2,), dimension_names=("y",))


def spoil_name(group: Any) -> None:
    """Add an array that has the name of a dimension, and lies along another one, too."""
    group.create_array("y", shape=(4, 3), dtype="i4", chunks=(2, 2), dimension_names=("y", "x"))


def spoil_dimension(group: Any) -> None:
    """Add an array along a dimension that is called as none can be."""
    group.create_array("b", shape=(4,), dtype="i4", chunks=(2,), dimension_names=("../y",))


def spoil_group(group: Any) -> None:
    """Add a group that has the name of a dimension."""
    group.create_group("y")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_dimension, r"has a dimension with the invalid name \.\./y"),
        (spoil_group, "has both a group and a dimension y, which one file cannot hold"),
        (spoil_type, "b in .* cannot be copied: it has elements of float16, for which NetCDF"),
        (spoil_lengths, "dimension y of 4 and of 5 elements, which one file cannot hold"),
        (spoil_name, "y in .* it has the name of a dimension, but does not lie along it alone"),
    ],
)
def test_what_netcdf_cannot_hold(spoil: Callable[[Any], None], said: str, tmp_path: Path) -> None:
    """It is named before anything is touched."""
    with quiet():
        group = zarr.create_group(tmp_path / "a.zarr")
        for name in ("a", "c"):
            group.create_array(
                name, shape=(4, 3), dtype="i4", chunks=(2, 2), dimension_names=("y", "x")
            )
        spoil(group)
    with pytest.raises(UsageError, match=said):
        dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.nc", chunks={"x": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.parametrize("version", [2, 3])
def test_what_would_run_is_not_read(version: int, tmp_path: Path) -> None:
    """A codec that runs what chunks say, or one that nobody knows, is named and never run."""
    with quiet():
        group = zarr.create_group(tmp_path / "a.zarr", zarr_format=version)  # type: ignore[arg-type]
        for name in ("v", "w"):
            group.create_array(name, shape=(4,), dtype="i4", chunks=(2,))[...] = 1
        group.create_array("text", shape=(), dtype=str, compressors=None)[...] = "a"
    kinds: Any = {2: (".zarray", "filters", {"id": "pickle"})}
    kinds[3] = ("zarr.json", "codecs", {"name": "numcodecs.pickle", "configuration": {}})
    file, key, codec = kinds[version]
    path = tmp_path / "a.zarr/text" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), key: [codec]}))
    (chunk,) = (each for each in path.parent.rglob("*") if each.name in {"0", "c"})
    chunk.write_bytes(b"cos\nsystem\n(S'touch %s'\ntR." % str(tmp_path / "ran").encode())
    with pytest.raises(DataError, match=r"text: has codec (numcodecs\.)?pickle, which is not supp"):
        dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.nc", chunks=4)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


def test_what_zarr_cannot_hold(tmp_path: Path) -> None:
    """Lists of any length are named, and so is what is asked of a group that it cannot be."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"], file["b"] = np.arange(6), np.arange(6)
        file["lists"] = np.array([np.arange(2), np.arange(3)], h5py.vlen_dtype("i4"))
    with pytest.raises(UsageError, match=r"Zarr cannot hold .*a\.h5::/lists: it holds"):
        dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.zarr", chunks=3)
    source = save(tmp_path / "a.nc")
    wrong: list[tuple[Any, str]] = [
        ({"region": "0:3"}, "give ranges by dimension name, as in bnds=0:10: the dimensions are"),
        ({"format_version": 4}, "version 4 of Zarr is not known"),
        ({"chunks": {"tim": 3}}, "no array has a dimension 'tim'"),
    ]
    for chosen, said in wrong:
        with pytest.raises(UsageError, match=said):
            dask_io.resplit(source, tmp_path / "b.zarr", **{"chunks": CHUNKS, **chosen})
    assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize(("n_texts", "length"), [(3_000_000, 0), (4, 9_000_000)])
def test_what_is_held_in_memory_is_small(n_texts: int, length: int, tmp_path: Path) -> None:
    """Texts that cannot be moved in blocks are refused if they are many, or long."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.arange(6)
        made = file.create_dataset("texts", (n_texts,), h5py.string_dtype(), chunks=(n_texts,))
        if length:
            made[...] = ["a" * length] * n_texts
    with pytest.raises(UsageError, match=r"a\.h5::/texts is too large to be read at once"):
        dask_io.plan(tmp_path / "a.h5", tmp_path / "b.zarr", chunks=3)


@pytest.mark.parametrize("name", ["a/../x", ".dask-io", "zarr.json", "new\nline", "back\\slash"])
def test_names_that_lead_elsewhere(name: str, tmp_path: Path) -> None:
    """Nothing outside of the group is written, and nothing that makes it another one."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = np.arange(6)
        folder = file
        for part in name.split("/")[:-1]:
            # HDF5 itself takes any name for what it is.
            folder = h5py.Group(h5py.h5g.create(folder.id, part.encode()))
        folder[name.rpartition("/")[2]] = np.arange(6)
    with pytest.raises(UsageError, match="a group of Zarr does not allow the name"):
        dask_io.resplit(tmp_path / "a.h5", tmp_path / "in/b.zarr", chunks=3)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


@pytest.mark.parametrize("version", [2, 3])
def test_gaps_that_are_no_numbers_and_axes_without_elements(version: int, tmp_path: Path) -> None:
    """Both are as usual as any others."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 4)
        for name in ("v", "w"):
            made = file.createVariable(name, "f4", ("x",), fill_value=np.nan)
            made.setncatts({"missing_value": np.float32(np.nan), "valid_max": np.float32(np.inf)})
            made[:] = [0, np.nan, 3, 4]
        file.createVariable("t", "f8", ("t",))
        file.createVariable("of_t", str, ("t",))
        file.createVariable("later", "i2", ("t", "x"))
    group, back = tmp_path / "b.zarr", tmp_path / "c.nc"
    dask_io.resplit(tmp_path / "a.nc", group, chunks={"x": 3}, format_version=version)
    dask_io.resplit(group, back, chunks={"x": 4})
    for place in (group, back):
        xr.testing.assert_identical(load(place), load(tmp_path / "a.nc"))
    with netCDF4.Dataset(back) as file:
        assert file["v"].getncattr("valid_max").dtype == "f4"


def test_attributes_that_netcdf_has_no_types_for(tmp_path: Path) -> None:
    """Truth becomes a number, what is nested JSON, what has no value is left out; all is told."""
    with quiet():
        group = zarr.create_group(tmp_path / "a.zarr")
        group.attrs.update({"yes": True, "nested": {"a": [1]}, "nothing": None, "many": 2**40})
        group.attrs["_NCProperties"] = "of another file"
        for name in ("v", "w"):
            group.create_array(name, shape=(4,), dtype="i4", chunks=(2,), dimension_names=("x",))
    done = dask_io.resplit(tmp_path / "a.zarr", tmp_path / "b.nc", chunks={"x": 4})
    assert done.not_kept == ("some_attributes", "types_of_attributes")
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        found = {name: file.getncattr(name) for name in file.ncattrs()}
    assert found == {"yes": 1, "nested": '{"a": [1]}', "many": 2**40}


@pytest.mark.parametrize("way", ["to a group", "to a file"])
def test_the_plan_is_what_runs(way: str, tmp_path: Path) -> None:
    """One budget for all; it travels to other processes, and costs there what it says here."""
    source, target = save(tmp_path / "a.nc"), tmp_path / "b.zarr"
    if way == "to a file":
        dask_io.resplit(source, target, chunks=CHUNKS, durability="none")
        source, target = target, tmp_path / "c.nc"

    job = dask_io.plan(source, target, chunks={"time": 5}, memory="4MiB", workers=1)

    assert isinstance(job, dask_io.SeriesJob)
    assert job.plan.peak_bytes <= 4 * 2**20
    result = pickle.loads(pickle.dumps(job)).run()  # noqa: S301 - our own
    assert (result.seeks, result.held) == (job.plan.seeks, job.plan.held_bytes)


def test_the_command_line(tmp_path: Path) -> None:
    """`plan` shows for groups and files what a dry run shows, and the summary what is not kept."""
    source, group, target = save(tmp_path / "a.nc"), tmp_path / "b.zarr", tmp_path / "c.nc"
    chunks = ["--chunks", "time=3,lat=-1,lon=7"]

    dry = json.loads(run("resplit", source, group, *chunks, "--dry-run", "--json"))
    told = json.loads(run("plan", source, *chunks, "--json"))
    assert not group.exists()
    assert told.keys() == dry.keys()
    assert told["arrays"].keys() == dry["arrays"].keys() >= {"tas", "inner/most/q"}
    assert told["seeks"]["read"] == dry["seeks"]["read"]
    told = run("plan", source, *chunks)
    assert "in all 10 arrays" in told
    assert "written as " in told
    quick = ["--durability", "none"]
    done = run("resplit", source, group, *chunks, *quick, "--quiet", "--json")
    assert json.loads(done)["result"]["not_kept"] == ["unlimited_dimensions"]
    assert "in all 10 arrays" in run("plan", group, *chunks)
    shown = run("resplit", group, target, *chunks)
    assert "not kept" not in shown
    assert "equal" in run("verify", target)
    assert "nothing left to do" in run("resume", tmp_path)
    with pytest.raises(UsageError, match="this job has no target"):
        dask_io.plan(source, chunks=CHUNKS).run()


def test_all_arrays_are_explained(tmp_path: Path) -> None:
    """One after another, as each would be alone, below what they cost together."""
    source = save(tmp_path / "a.nc")
    one = ["plan", f"{source}::/tas", "--memory=1GiB", "--chunks=3,-1,7"]
    all_of = ["plan", source, "--memory=1GiB", "--chunks=time=3,lat=-1,lon=7"]

    together, explained = run(*all_of), run(*all_of, "--explain")
    told = json.loads(run(*all_of, "--explain", "--json"))

    plans, _, hint = together.rstrip().rpartition("\n")
    assert hint == "--explain compares all strategies, and shows the details"
    assert explained.startswith(f"{plans}\n\narray tas: ")
    alone, _, words = run(*one, "--explain").rpartition("\n\n")
    assert f"\n\narray tas: {alone}\n\narray " in explained
    assert explained.endswith(words)
    plans_of = [name for name in told["arrays"] if f"\n\narray {name}: " in explained]
    small = explained.partition("below 1 % of the largest array: ")[2].partition("\n")[0]
    assert sorted([*plans_of, *small.split(", ")]) == sorted(told["arrays"])
    assert "tas" in plans_of
    assert "lat" in small
    alone = json.loads(run(*one, "--explain", "--json"))
    assert {**told["arrays"]["tas"], "inferred": None} == alone
    plain = json.loads(run(*all_of, "--json"))
    assert {**told, "arrays": None} == {**plain, "arrays": None}


TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


@settings(max_examples=5)
@given(data=st.data())
def test_any_variables(data: st.DataObject) -> None:
    """Whatever dimensions, types, gaps and filters there are, values are the same in all places."""
    lengths = {name: data.draw(st.integers(1, 6), name) for name in "abc"}
    axes = st.permutations(list(lengths)).flatmap(
        lambda names: st.integers(0, 3).map(lambda n: tuple(names[:n]))
    )
    kinds = data.draw(st.lists(st.tuples(axes, st.sampled_from(TYPES)), min_size=1, max_size=4))
    version = data.draw(st.sampled_from([2, 3]))
    chosen = st.dictionaries(st.sampled_from("abc"), st.integers(1, 7) | st.just(-1), min_size=1)
    with TemporaryDirectory() as folder:
        source, group, back = (Path(folder) / name for name in ("a.nc", "b.zarr", "c.nc"))
        with netCDF4.Dataset(source, "w") as file:
            for name, length in lengths.items():
                file.createDimension(name, length)
            for number, (names, kind) in enumerate([(("a", "b", "c"), "i2"), *kinds]):
                gap = data.draw(st.sampled_from([None, 1]))
                made = file.createVariable(f"v{number}", kind, names, fill_value=gap)
                made.set_auto_maskandscale(False)
                shape = tuple(lengths[name] for name in names)
                made[...] = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
        quick: Any = {"workers": 1, "durability": "none"}
        dask_io.resplit(source, group, chunks=data.draw(chosen), format_version=version, **quick)
        dask_io.resplit(group, back, chunks=data.draw(chosen), **quick)
        xr.testing.assert_identical(load(group), load(source))
        xr.testing.assert_identical(load(back), load(source))
        assert dask_io.verify(source, back)
        with netCDF4.Dataset(source) as one, netCDF4.Dataset(back) as other:
            for name, made in one.variables.items():
                assert other[name].dtype == made.dtype
                assert other[name].ncattrs() == made.ncattrs()


@pytest.mark.parametrize("name", [None, "b.nc", "b.zarr"])
def test_memory_that_is_too_small_is_told_for_all_arrays_at_once(
    name: str | None, tmp_path: Path
) -> None:
    """What the error asks for does, and what is a byte less does not."""
    source, target = save(tmp_path / "a.nc"), name and tmp_path / name
    how: dict[str, Any] = {"chunks": {"time": -1, "lat": -1, "lon": -1}, "codec": "gzip:1"}

    with pytest.raises(BudgetTooSmallError, match="of array ") as told:
        dask_io.plan(source, target, memory=1, **how)

    with pytest.raises(BudgetTooSmallError):
        dask_io.plan(source, target, memory=told.value.required - 1, **how)
    assert dask_io.plan(source, target, memory=told.value.required, **how).plan.peak_bytes


def test_a_group_that_is_unfinished_is_replaced_or_resumed(tmp_path: Path) -> None:
    """The error says no more than can be done; what was resumed is told in a line an array."""
    source, target = save(tmp_path / "a.nc"), tmp_path / "b.zarr"
    chosen: Any = {"chunks": CHUNKS, "workers": 1, "durability": "none"}
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(source, target, progress=stop_at(0.5), **chosen)

    with pytest.raises(TargetExistsError, match=r"or replace it with overwrite=True$"):
        dask_io.plan(source, target, **chosen)
    with pytest.raises(InterruptedRunError):
        dask_io.resplit(source, target, progress=stop_at(0.3), overwrite=True, **chosen)

    *arrays, last = run("resume", target).splitlines()
    assert all(" wrote " in line for line in arrays)
    assert not any("coordinates" in line for line in arrays)
    assert last == f"{target}: is complete"


@pytest.mark.parametrize("version", [2, 3])
def test_axes_without_names_go_there_and_back(version: int, tmp_path: Path) -> None:
    """Datasets of HDF5 of different lengths, cut by position; a list beside them is copied."""
    source, group, back = tmp_path / "a.h5", tmp_path / "b.zarr", tmp_path / "c.h5"
    with h5py.File(source, "w") as file:
        file["image"] = np.arange(60, dtype="u2").reshape(3, 4, 5)
        file["inner/mask"] = np.arange(8, dtype="i1").reshape(2, 2, 2)
        file["words"] = np.array(["one", "two"], dtype=object)

    how: dict[str, Any] = {"chunks": (2, 2, 2), "durability": "none"}
    dask_io.resplit(source, group, format_version=version, **how)
    dask_io.resplit(group, back, **how)

    assert dask_io.verify(source, group)
    assert dask_io.verify(source, back)
    with h5py.File(back) as file:
        assert (file["image"].shape, file["image"].chunks) == ((3, 4, 5), (2, 2, 2))
        assert [*file["words"].asstr()] == ["one", "two"]


def save_short(path: Path, n_records: int) -> Path:
    """Save two variables along an unlimited dimension of thirty, one with fewer records."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 6)
        for name, stored in (("t", 30), ("u", n_records)):
            file.createVariable(name, "f4", ("time", "x"))[:stored] = 1
    return path


@pytest.mark.parametrize("n_records", [20, 0])
def test_records_that_are_not_stored_are_not_forgotten(n_records: int, tmp_path: Path) -> None:
    """NetCDF shows them as gaps; a group whose arrays differ in length could not be opened."""
    short, target = save_short(tmp_path / "a.nc", n_records), tmp_path / "out.zarr"
    with pytest.raises(UsageError, match=f"stores {n_records} of the 30 records along time .* u;"):
        dask_io.resplit(short, target, chunks={"time": 10})
    assert not target.exists()
    dask_io.resplit(short, tmp_path / "b.nc", chunks={"time": 10})
    with xr.open_dataset(short) as before, xr.open_dataset(tmp_path / "b.nc") as after:
        assert after.identical(before)


def test_strict_is_for_one_array(tmp_path: Path) -> None:
    """What to do about it is said."""
    whole = save(tmp_path / "a.nc")
    found = invoke("info", whole, "--strict")
    assert found.exit_code == 2
    assert "--strict is for one array" in found.stderr
    assert "give one array, as in" in found.stderr


def test_an_array_that_is_gone_is_wrong_data(tmp_path: Path) -> None:
    """The group is where it should be, so it is not the path that is to be checked."""
    dask_io.resplit(save(tmp_path / "a.nc"), tmp_path / "b.zarr", chunks=CHUNKS)
    shutil.rmtree(tmp_path / "b.zarr/tas")
    with pytest.raises(DataError, match="array tas is missing"):
        dask_io.verify(tmp_path / "b.zarr")
