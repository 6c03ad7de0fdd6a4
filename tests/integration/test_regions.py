"""Parts of groups and files, by dimension and by the values of coordinates."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import dask_io
from dask_io.errors import DataError, InterruptedRunError, UsageError
from tests.commands import fail, invoke, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Zarr tells that it does not know the journal.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
HOURS = 96
FILES = ["a.nc", "classic.nc", "growing.nc"]
GROUPS = ["a.zarr", "old.zarr"]


def dataset() -> xr.Dataset:
    """Maps of each hour, with everything that the CF conventions attach to them."""
    rng = np.random.default_rng(0)
    hours = np.datetime64("2020-01-30", "ns") + np.arange(HOURS) * np.timedelta64(1, "h")
    maps = ("time", "lat", "lon")
    tas = xr.Variable(maps, rng.random((HOURS, 6, 8), "f4"), {"units": "K", "grid_mapping": "crs"})
    packed = xr.Variable(maps, rng.integers(0, 99, (HOURS, 6, 8)).astype("f8"))
    packed.encoding = {"dtype": "i2", "scale_factor": 0.5, "add_offset": 1.0, "_FillValue": -9}
    found = xr.Dataset(
        {
            "tas": tas,
            "pr": packed,
            "time_bnds": (("time", "bnds"), np.arange(2.0 * HOURS).reshape(HOURS, 2)),
            "names": (("lat", "bnds"), np.array([[f"{i}", "b" * i] for i in range(6)], object)),
            "crs": ((), 4326, {"grid_mapping_name": "latitude_longitude"}),
            "orog": (("lat", "lon"), np.arange(48.0).reshape(6, 8)),
        },
        coords={
            "time": ("time", hours, {"standard_name": "time", "bounds": "time_bnds"}),
            "lat": ("lat", np.linspace(75, -75, 6), {"units": "degrees_north"}),
            "lon": np.arange(8) * 45.0,
            "band": ("lat", np.arange(6)),
        },
        attrs={"title": "maps", "history": "made"},
    )
    found["time"].encoding = {"units": "hours since 1900-01-01", "dtype": "i4"}
    return found


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset in every format, in one folder that no test changes."""
    folder, data = tmp_path_factory.mktemp("regions"), dataset()
    data.to_netcdf(folder / "a.nc", encoding={"tas": {"chunksizes": (10, 3, 8), "zlib": True}})
    data.drop_vars("names").to_netcdf(folder / "classic.nc", format="NETCDF3_CLASSIC")
    data.to_netcdf(folder / "growing.nc", unlimited_dims=["time"])
    for name, version in zip(GROUPS, (3, 2), strict=True):
        data.to_zarr(
            folder / name,
            zarr_format=version,
            encoding={"tas": {"chunks": (10, 3, 8)}},
            consolidated=False,
        )
    return folder


def load(path: Path) -> xr.Dataset:
    """Everything in a group or a file, in memory."""
    with (
        xr.open_zarr(path, consolidated=False)
        if path.suffix == ".zarr"
        else xr.open_dataset(path) as found
    ):
        return found.load()


@pytest.mark.parametrize("target", ["b.nc", "b.zarr"])
@pytest.mark.parametrize("source", [*FILES, *GROUPS])
@pytest.mark.parametrize(
    ("region", "index"),
    [
        ("lat=1:4,time=-7:", {"lat": slice(1, 4), "time": slice(-7, None)}),
        ({"lon": 5, "bnds": (1, 2)}, {"lon": slice(5, 6), "bnds": slice(1, 2)}),
        ("time=2020-01-31:2020-02", {"time": slice(24, 48)}),
    ],
    ids=str,
)
def test_a_part_is_that_of_xarray(  # noqa: PLR0917 - cases
    sources: Path, source: str, target: str, region: Any, index: dict[str, slice], tmp_path: Path
) -> None:
    """All arrays along the dimensions are cut, also those of text; everything else is whole."""
    place = tmp_path / target
    done = dask_io.resplit(sources / source, place, chunks={"time": 12}, region=region, verify=True)

    expected = load(sources / source).isel(index)
    found = load(place)
    xr.testing.assert_identical(found, expected)
    assert found["pr"].encoding["_FillValue"] == -9
    assert isinstance(done, dask_io.RunResult)
    assert done.verified
    assert dask_io.verify(place)
    grows = source == "growing.nc"
    if target == "b.nc":
        assert found.encoding["unlimited_dims"] == ({"time"} if grows else set())
        with netCDF4.Dataset(place) as file:
            lengths = {name: dimension.size for name, dimension in file.dimensions.items()}
        assert lengths.items() >= {name: expected.sizes[name] for name in lengths}.items()


@pytest.mark.parametrize("target", ["b.nc", "b.zarr"])
@pytest.mark.parametrize("source", [*FILES, *GROUPS])
def test_one_variable_takes_its_coordinates_along(
    sources: Path, source: str, target: str, tmp_path: Path
) -> None:
    """Those of its dimensions, those that it names, and those that they name in turn; cut, too."""
    place = tmp_path / target
    region = "time=2020-01-31T12:2020-02-01,lat=@50:@-30"
    dask_io.extract(f"{sources / source}::/tas", place, regions=region, verify=True)

    whole = load(sources / source)
    others = {*whole.variables} - {"tas", "time", "lat", "lon", "crs", "time_bnds"}
    coordinates = str(whole["tas"].encoding.get("coordinates", ""))
    others -= {*coordinates.split()}
    expected = whole.drop_vars(others).isel(time=slice(36, 48), lat=slice(1, 4))
    xr.testing.assert_identical(load(place), expected)
    assert dask_io.verify(place)


def test_chunks_of_a_part(sources: Path, tmp_path: Path) -> None:
    """Arrays keep their chunks, unless others are given: by name, or for the one variable."""
    region = "time=5:29"
    dask_io.extract(sources / "a.zarr", tmp_path / "kept.zarr", regions=[region])
    dask_io.extract(sources / "a.zarr", tmp_path / "named.zarr", regions=region, chunks={"lon": 4})
    one = f"{sources / 'a.zarr'}::/tas"
    dask_io.extract(one, tmp_path / "one.zarr", regions="5:29", chunks=(8, 6, 8))

    def chunks(name: str) -> tuple[int, ...]:
        found = zarr.open_array(tmp_path / name / "tas", mode="r")
        return found.chunks

    assert chunks("kept.zarr") == (10, 3, 8)
    assert chunks("named.zarr") == (10, 3, 4)
    assert chunks("one.zarr") == (8, 6, 8)
    xr.testing.assert_identical(load(tmp_path / "kept.zarr"), load(tmp_path / "named.zarr"))


def test_shards_of_a_part(tmp_path: Path) -> None:
    """They contain whole chunks, although the chunks are shorter now."""
    group = zarr.create_group(tmp_path / "a.zarr")
    for name in ("t", "u"):
        made = group.create_array(
            name,
            shape=(40, 6),
            chunks=(10, 3),
            shards=(20, 6),
            dtype="i4",
            dimension_names=["x", "y"],
        )
        made[...] = np.arange(240).reshape(40, 6)

    dask_io.extract(tmp_path / "a.zarr", tmp_path / "b.zarr", regions="x=3:10", verify=True)

    found = zarr.open_array(tmp_path / "b.zarr" / "t", mode="r")
    assert np.array_equal(found[...], np.arange(240).reshape(40, 6)[3:10])
    assert found.shards is not None


def test_an_array_alone(sources: Path, tmp_path: Path) -> None:
    """With an option for single arrays, inside of a group, and in block files."""
    one = f"{sources / 'a.zarr'}::/tas"
    expected = dataset()["tas"].values[:5]
    zarr.create_group(tmp_path / "group.zarr")
    for target in ("in.zarr::/x", "group.zarr/x", "f8.zarr", "x.npy"):
        options = {"dtype": "f8"} if target == "f8.zarr" else {}
        dask_io.extract(one, tmp_path / target, regions="time=0:5", **options)  # type: ignore[arg-type]
        assert np.array_equal(dask_io.open(tmp_path / target)[...], expected)


def stop_at(part: float) -> Callable[[dask_io.Progress], None]:
    """What interrupts a run when a part of it has been written."""

    def stop(progress: dask_io.Progress) -> None:
        if progress.n_bytes_written >= part * progress.n_bytes:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("source", ["a.nc", *GROUPS])
@pytest.mark.parametrize("inside", ["", "::/tas"])
def test_a_part_of_a_group_is_resumed(
    sources: Path, source: str, inside: str, tmp_path: Path
) -> None:
    """The journal knows the part, and the variable; and what is damaged later is repaired."""
    place, region = tmp_path / "b.zarr", "time=2020-01-31:2020-02-01,lat=1:4"
    with pytest.raises(InterruptedRunError):
        dask_io.extract(
            f"{sources / source}{inside}",
            place,
            regions=region,
            chunks={"time": 2},
            progress=stop_at(0.5),
            workers=1,
        )
    dask_io.resume(place, verify=True)

    expected = load(sources / source).isel(time=slice(24, 48), lat=slice(1, 4))
    found = load(place)
    xr.testing.assert_identical(found, expected[[*found.variables]])
    assert set(found.data_vars) == (
        {"tas", "crs", "time_bnds"} if inside else set(expected.data_vars)
    )

    files = (path for path in sorted((place / "tas").rglob("*")) if path.is_file())
    damaged = next(path for path in files if path.name in {"0", "0.0.0"})
    damaged.write_bytes(b"nothing")
    if not inside:
        shutil.rmtree(place / "names")
        with pytest.raises(DataError):
            dask_io.verify(place)
    dask_io.repair(place)
    assert dask_io.verify(place)
    xr.testing.assert_identical(load(place), found)


KILLED = """
import os, sys, dask_io
dask_io.extract(*sys.argv[1:3], regions=sys.argv[3], progress=lambda _: os._exit(9))
"""


@pytest.mark.parametrize("source", ["a.nc", "classic.nc", "a.zarr", "a.zarr::/tas"])
def test_a_part_in_a_file_is_resumed(sources: Path, source: str, tmp_path: Path) -> None:
    """It is written again, from the same part of the source."""
    place, region = tmp_path / "b.nc", "time=24:48,lat=1:4"
    words = [sys.executable, "-c", KILLED, f"{sources / source}", str(place), region]
    assert subprocess.run(words, check=False, timeout=120).returncode == 9
    assert not place.exists()
    dask_io.resume(place, verify=True)

    expected = load(sources / source.partition("::")[0]).isel(time=slice(24, 48), lat=slice(1, 4))
    found = load(place)
    xr.testing.assert_identical(found, expected[[*found.variables]])


def test_a_source_without_the_variable_is_not_resumed(sources: Path, tmp_path: Path) -> None:
    """It is no longer the source that the run began with."""
    source, place = shutil.copytree(sources / "a.zarr", tmp_path / "a.zarr"), tmp_path / "b.zarr"
    with pytest.raises(InterruptedRunError):
        dask_io.extract(f"{source}::/tas", place, regions="5:9", progress=stop_at(0), workers=1)
    shutil.rmtree(source / "tas")
    with pytest.raises(DataError, match=r"a\.zarr: no longer has an array tas"):
        dask_io.resume(place)


def test_what_hdf5_stores(tmp_path: Path) -> None:
    """Scales, labels, lossy filters, texts of any length and growing datasets are cut as well."""
    values = np.random.default_rng(0).random((50, 8))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        lossy = file.create_dataset("g/lossy", data=values, chunks=(20, 8), scaleoffset=3)
        text = file.create_dataset(
            "g/text", (50,), h5py.string_dtype(), maxshape=(None,), chunks=(16,)
        )
        text[...] = [f"line {n}" for n in range(50)]
        file["fixed"] = np.arange(50)
        file["other"] = np.arange(8.0)
        for dataset in (lossy, text, file["fixed"]):
            dataset.dims[0].label = "x"
        file["scale"] = np.linspace(0, 1, 50)
        file["scale"].make_scale("my scale")
        file["fixed"].dims[0].attach_scale(file["scale"])
        file["g"].attrs["note"] = "kept"
    with h5py.File(tmp_path / "a.h5") as file:
        expected = file["g/lossy"][7:45]

    dask_io.extract(tmp_path / "a.h5", tmp_path / "b.h5", regions="x=7:45", verify=True)

    with h5py.File(tmp_path / "b.h5") as file:
        assert np.array_equal(file["g/lossy"][...], expected)
        assert file["g/text"].asstr()[...].tolist() == [f"line {n}" for n in range(7, 45)]
        assert (file["g/text"].maxshape, file["g/text"].chunks) == ((None,), (16,))
        assert file["fixed"][...].tolist() == list(range(7, 45))
        assert file["other"].shape == (8,)
        assert file["g"].attrs["note"] == "kept"
        assert file["fixed"].dims[0].label == "x"


def test_groups_in_files(tmp_path: Path) -> None:
    """Dimensions of an outer group are cut in inner groups, too; their lengths must agree."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", 20)
        file.createVariable("time", "f8", ("time",))[:] = np.arange(20)
        inner = file.createGroup("inner")
        inner.createDimension("bare", 4)
        inner.createVariable("t", "f4", ("time", "bare"))[:] = np.arange(80).reshape(20, 4)
        other = file.createGroup("other")
        other.createDimension("bare", 5)
        other.createVariable("t", "f4", ("bare",))[:] = np.arange(5)

    dask_io.extract(tmp_path / "a.nc", tmp_path / "b.nc", regions="time=5:7")

    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["inner/t"][...].tolist() == np.arange(80).reshape(20, 4)[5:7].tolist()
        assert file["time"][...].tolist() == [5, 6]
    with pytest.raises(UsageError, match=r"dimension bare has 4 elements in inner/t, but 5 in oth"):
        dask_io.extract(tmp_path / "a.nc", tmp_path / "c.nc", regions="bare=0:1")
    one = f"{tmp_path / 'a.nc'}::/inner/t"
    dask_io.extract(one, tmp_path / "c.npy", regions="time=@5:@7")
    assert np.load(tmp_path / "c.npy").tolist() == np.arange(80).reshape(20, 4)[5:7].tolist()
    with pytest.raises(UsageError, match="has no coordinate bare in which values could be found"):
        dask_io.extract(one, tmp_path / "d.npy", regions="bare=@5:@7")


def write_groups(place: Path, **groups: xr.Dataset) -> Path:
    """Write groups into a new file or Zarr group; the outermost one is called `root`."""
    for name, each in groups.items():
        group = None if name == "root" else name
        if place.suffix == ".zarr":
            each.to_zarr(place, group=group, mode="a", consolidated=False)
        else:
            each.to_netcdf(place, group=group, mode="a")
    return place


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_a_coordinate_has_the_length_of_its_dimension(suffix: str, tmp_path: Path) -> None:
    """The dimension of an outer group may have the same name, but is another one then."""
    root = xr.Dataset({"data": ("x", np.arange(100)), "x": np.arange(100)})
    low = xr.Dataset({"data": (("x", "y"), np.arange(100).reshape(50, 2)), "y": [0, 1]})
    one = f"{write_groups(tmp_path / f'a{suffix}', root=root, low=low)}::/low/data"

    for target in ("b.npy", f"b{suffix}"):
        with pytest.raises(UsageError, match="has no coordinate x in which values could be found"):
            dask_io.extract(one, tmp_path / target, regions="x=@10:@20")
    dask_io.extract(one, tmp_path / f"c{suffix}", regions="10:20")
    found = dask_io.open(f"{tmp_path / f'c{suffix}'}::/low/data")
    assert found[:, 0].tolist() == list(range(20, 40, 2))


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_groups_with_coordinates_of_their_own(suffix: str, tmp_path: Path) -> None:
    """Values are only cut from all groups if they have the same indices in each."""
    groups = {
        name: xr.Dataset({"data": ("x", np.arange(10)), "x": np.arange(10) + first})
        for name, first in (("a", 0), ("b", 100))
    }
    place = write_groups(tmp_path / f"a{suffix}", **groups)
    advice = "3 is at index 3 of a/x, but at index 0 of b/x; give indices, or one group, as in "
    with pytest.raises(UsageError, match=f"{advice}.*::/b"):
        dask_io.extract(place, tmp_path / "b.zarr", regions="x=@3:@5")
    shown = invoke("extract", place, tmp_path / "c.zarr", "--region", "x=3:5")
    assert (shown.exit_code, "in the region" in shown.stderr) == (0, False)
    dask_io.extract(f"{place}::/b/data", tmp_path / "d.zarr", regions="x=@103:@105")
    assert dask_io.open(tmp_path / "d.zarr::/b/data")[...].tolist() == [3, 4]
    if suffix == ".zarr":
        dask_io.extract(f"{place}::/b", tmp_path / "e.zarr", regions="x=@103:@105")
        assert dask_io.open(tmp_path / "e.zarr::/data")[...].tolist() == [3, 4]


@pytest.mark.parametrize("verb", ["resplit", "merge", "split", "extract", "plan"])
def test_every_verb_takes_names(verb: str, sources: Path, tmp_path: Path) -> None:
    """The same part by name, by number, by position and by value, of one array."""
    expected = dataset()["tas"].values[24:48, 1:4]
    chunks = [] if verb in {"merge", "extract"} else ["--chunks", "time=8"]
    times, latitudes = "2020-01-31 to 2020-01-31T23:00", "45 to -15"
    said = {
        "time=24:48,lat=1:4": f"in the region, time=24:48 are indices, {times}, lat=1:4 are "
        f"indices, {latitudes}; for values write lat=@1:@4\n",
        "lat=@50:@-30,time=2020-01-31:2020-02": "in the region, time=2020-01-31:2020-02 is 24:48, "
        f"{times}, lat=@50:@-30 is 1:4, {latitudes}\n",
    }
    for number, region in enumerate(
        ("time=24:48,lat=1:4", "1=1:4,0=24:48", "24:48,1:4", "lat=@50:@-30,time=2020-01-31:2020-02")
    ):
        source = f"{sources / ('classic.nc' if verb == 'split' else 'a.nc')}::/tas"
        target = [] if verb == "plan" else [tmp_path / f"{number}.npy"]
        if verb in {"resplit", "split"}:
            target = [tmp_path / f"{number}.zarr"]
        done = invoke(verb, source, *target, *chunks, "--region", region)
        assert done.exit_code == 0, done.output
        assert said.get(region, "") in done.stderr
        assert ("in the region" in done.stderr) == (region in said)
        if target:
            assert np.array_equal(dask_io.open(target[0])[...], expected)
        else:
            assert "24:48,1:4,0:8" in done.stdout


def test_names_that_the_user_gives(tmp_path: Path) -> None:
    """Axes named on the command line name the ranges."""
    np.save(tmp_path / "a.npy", np.arange(20).reshape(4, 5))
    words = ["--axes", "y,x", "--chunks", "-1", "--format", "npy"]
    run("resplit", tmp_path / "a.npy", tmp_path / "b", *words, "--region", "x=2:4")
    assert (
        dask_io.open(tmp_path / "b")[...].tolist() == np.arange(20).reshape(4, 5)[:, 2:4].tolist()
    )


def test_several_regions_by_name(sources: Path, tmp_path: Path) -> None:
    """Of one array, as before; of a whole file they go one by one."""
    (tmp_path / "list.txt").write_text("time=0:3\nlat=1,time=2020-01-31T00:2020-01-31T02  # two\n")
    words = ["--regions-file", tmp_path / "list.txt"]
    run("extract", f"{sources / 'a.nc'}::/tas", tmp_path / "out", *words, "--format", "npy")
    values = dataset()["tas"].values
    assert np.array_equal(np.load(tmp_path / "out/region_000.npy"), values[:3])
    assert np.array_equal(np.load(tmp_path / "out/region_001.npy"), values[24:26, 1:2])
    line = fail("extract", sources / "a.nc", tmp_path / "no", *words, code=2)
    assert "extract the regions one by one" in line


def test_a_dry_run_of_a_part(sources: Path, tmp_path: Path) -> None:
    """It shows the cost of the part, and is what the run takes."""
    words = [sources / "a.nc", tmp_path / "b.nc", "--region", "time=2020-01-31:2020-02"]
    shown = invoke("extract", *words, "--dry-run")
    assert "time=2020-01-31:2020-02 is 24:48" in shown.stderr
    assert "24 x 6 x 8" in shown.stdout
    assert not (tmp_path / "b.nc").exists()
    told = json.loads(run("extract", *words, "--json", "--quiet"))
    assert told["result"]["seeks"] == {
        kind: told["plan"]["seeks"][kind] for kind in ("read", "write")
    }


@pytest.mark.parametrize(
    ("region", "said"),
    [
        ("tim=0:3", "no array has a dimension 'tim'; the dimensions are bnds, lat, lon, time"),
        ("0:3", "holds several arrays; give ranges by dimension name, as in bnds=0:10"),
        ("time=0:97", "range 0:97 of time is not within 0:96"),
        ("time=3:3", "range 3:3 of time is empty; give at least one element"),
        ("time=2021-01:", r"range 2021-01: of time is empty \(time=2021-01: is 96:96\)"),
        ("lat=@-30:@30", "range @-30:@30 of lat goes backwards, from index 4 to 2"),
        ("lat=2020-01:", "lat has no time for 2020-01: its units are 'degrees_north'"),
        ("bnds=@0:", "has no coordinate bnds in which values could be found; give indices"),
    ],
)
def test_what_is_no_part_of_a_group(region: str, said: str, sources: Path, tmp_path: Path) -> None:
    """It is refused before anything is written."""
    for source in ("a.nc", "a.zarr"):
        with pytest.raises(UsageError, match=said):
            dask_io.extract(sources / source, tmp_path / "b.zarr", regions=region)
    assert not list(tmp_path.iterdir())


def test_a_file_of_one_variable_takes_positions(tmp_path: Path) -> None:
    """Its axes are those of the variable, so that positions are clear."""
    data = dataset()[["tas"]].drop_vars("band")
    data["tas"].attrs.clear()
    del data["time"].attrs["bounds"]
    data.to_netcdf(tmp_path / "a.nc")
    dask_io.extract(tmp_path / "a.nc", tmp_path / "b.zarr", regions=":,1:4")
    with xr.open_zarr(tmp_path / "b.zarr", consolidated=False) as found:
        xr.testing.assert_identical(found.load(), load(tmp_path / "a.nc").isel(lat=slice(1, 4)))


def test_images_are_cut_by_level(tmp_path: Path) -> None:
    """Positions in the levels of a pyramid differ."""
    group = zarr.create_group(tmp_path / "a.zarr")
    axes: list[Any] = [{"name": name, "type": "space"} for name in "yx"]
    levels: list[Any] = []
    for number in range(2):
        length = 8 >> number
        made = group.create_array(f"{number}", shape=(length, length), dtype="u1")
        made[...] = number
        scale = {"type": "scale", "scale": [2.0**number] * 2}
        levels.append({"path": str(number), "coordinateTransformations": [scale]})
    image: Any = {
        "version": "0.5",
        "multiscales": [{"axes": axes, "datasets": levels, "name": "i"}],
    }
    group.attrs["ome"] = image
    with pytest.raises(UsageError, match=r"an image .* give one level, as in .*a\.zarr::/0"):
        dask_io.extract(tmp_path / "a.zarr", tmp_path / "b.zarr", regions="y=0:2")
