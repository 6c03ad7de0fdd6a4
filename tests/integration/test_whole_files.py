"""Files of several arrays are re-split as a whole, and their own libraries find all in them."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import netCDF4
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import dask_io
from dask_io import api
from dask_io.errors import (
    BudgetTooSmallError,
    DataError,
    SamePlaceError,
    TargetExistsError,
    UsageError,
)
from dask_io.formats.hdf5.tree_content import _parts
from dask_io.planning import Series
from dask_io.storage.local import system
from tests.commands import invoke, run
from tests.model import CLASSIC
from tests.model import save_model as save

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CHUNKS = {"time": 3, "lat": -1, "lon": 7}
VERSIONS = ["NETCDF4", "NETCDF4_CLASSIC", *CLASSIC]


def dump(path: Path) -> str:
    """All that the library of NetCDF finds in a file."""
    said = ["ncdump", "-n", "x", "-p", "9,17", str(path)]
    return subprocess.run(said, check=True, capture_output=True, text=True).stdout


def chunks_of(path: Path) -> dict[str, Any]:
    """How the variables of a file are stored."""
    with netCDF4.Dataset(path) as file:
        return {name: one.chunking() for name, one in file.variables.items()}


@pytest.mark.skipif(shutil.which("ncdump") is None, reason="netcdf-bin is missing")
@pytest.mark.parametrize("version", VERSIONS)
def test_ncdump_finds_the_same_file(version: str, tmp_path: Path) -> None:
    """Dimensions, types, groups, attributes, texts, scalars and values; other chunks."""
    source = save(tmp_path / "a.nc", version)

    done = dask_io.resplit(source, tmp_path / "b.nc", chunks=CHUNKS, verify=True)

    assert dump(tmp_path / "b.nc") == dump(source)
    found, before = chunks_of(tmp_path / "b.nc"), chunks_of(source)
    assert (found["tas"], found["pr"], found["orog"]) == ([3, 10, 7], [3, 10, 7], [10, 7])
    assert found["time_bnds"] == [3, 2]
    if version in {"NETCDF4", "NETCDF4_CLASSIC"}:
        assert found["time"] == before["time"]
    with netCDF4.Dataset(tmp_path / "b.nc", "a") as file:
        filters = file["tas"].filters()
        assert (filters["zlib"], filters["complevel"]) == (
            version not in CLASSIC,
            2 * (version not in CLASSIC),
        )
        file["time"][13] = 13
        assert file["tas"].shape == (14, 10, 20)
    assert (done.verified, done.not_kept) == (True, ())


@pytest.mark.parametrize("version", VERSIONS)
def test_xarray_finds_the_same_dataset(version: str, tmp_path: Path) -> None:
    """And so does a comparison of the two files, or of one with its checksums."""
    source = save(tmp_path / "a.nc", version)
    dask_io.resplit(source, tmp_path / "b.nc", chunks=CHUNKS, memory="8MiB")

    with xr.open_dataset(source) as before, xr.open_dataset(tmp_path / "b.nc") as after:
        xr.testing.assert_identical(before, after)
        assert after.encoding["unlimited_dims"] == {"time"}
    assert dask_io.verify(source, tmp_path / "b.nc")
    assert dask_io.verify(tmp_path / "b.nc")
    assert dask_io.verify(f"{tmp_path}/b.nc::/tas").n_elements == 2600
    assert dask_io.verify(f"{tmp_path}/b.nc::/crs")
    with pytest.raises(UsageError, match="has no checksums"):
        dask_io.verify(f"{tmp_path}/b.nc::/absent")


@pytest.mark.parametrize("version", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_file_of_netcdf_is_one_of_hdf5_too(version: str, tmp_path: Path) -> None:
    """Under a name of HDF5 the library of NetCDF reads it all the same."""
    source = save(tmp_path / "a.nc", version)
    dask_io.resplit(source, tmp_path / "b.h5", chunks=CHUNKS, codec="lzf")

    assert dask_io.verify(source, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["tas"].compression == "lzf"
        assert file["orog"].dims[0][0].name == "/lat"
        assert file["lat"].compression is None


def make_hdf5(path: Path) -> Path:
    """Save datasets as h5py does: links, a scale of two, scalars, texts, filters that lose bits."""
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "scans"
        first = file.create_dataset(
            "scan/1", data=np.arange(240.0).reshape(4, 6, 10), chunks=(1, 6, 10), compression=4
        )
        file.create_dataset("scan/2", data=np.arange(240).reshape(4, 6, 10), track_times=False)
        file["scan"].attrs["by"] = "me"
        for number, label in enumerate("zyx"):
            first.dims[number].label = file["scan/2"].dims[number].label = label
        file["depth"] = np.arange(4.0)
        file["depth"].make_scale("depth of a slice")
        first.dims[0].attach_scale(file["depth"])
        file["also"] = file["scan/1"]
        file["latest"] = h5py.SoftLink("/scan/2")
        file["note"] = "a text of any length"
        file["lists"] = np.array([np.arange(2), np.arange(3)], h5py.vlen_dtype("i4"))
        file.create_dataset("rough", data=np.arange(9.0), chunks=(4,), scaleoffset=2)
        file.create_dataset("nothing", data=h5py.Empty("f4"))
        file.create_dataset("grows", (0, 3), "i2", maxshape=(None, 3), chunks=(5, 3))
    return path


def test_h5py_finds_the_same_file(tmp_path: Path) -> None:
    """Links, labels, scales, attributes, texts; what loses bits is copied as it is stored."""
    source = make_hdf5(tmp_path / "a.h5")

    done = dask_io.resplit(source, tmp_path / "b.h5", chunks={"z": 4, "x": 5}, verify=True)

    assert done.not_kept == ()
    assert dask_io.verify(source, tmp_path / "b.h5")
    with h5py.File(source) as before, h5py.File(tmp_path / "b.h5") as after:
        assert sorted(after) == sorted(before)
        assert after["also"] == after["scan/1"]
        assert after.get("latest", getlink=True).path == "/scan/2"
        assert after["scan/1"].dims[0][0] == after["depth"]
        assert [axis.label for axis in after["scan/1"].dims] == ["z", "y", "x"]
        assert (after["scan/1"].chunks, after["scan/1"].compression_opts) == ((4, 6, 5), 4)
        assert (after["scan/2"].chunks, after["grows"].chunks) == ((4, 6, 5), (5, 3))
        assert after["grows"].maxshape == (None, 3)
        assert (after.attrs["title"], after["scan"].attrs["by"]) == ("scans", "me")
        assert after["note"][()] == before["note"][()]
        assert [each.tolist() for each in after["lists"]] == [[0, 1], [0, 1, 2]]
        assert after["rough"].scaleoffset == 2
        assert np.array_equal(after["rough"][:], before["rough"][:])
        assert after["nothing"].shape is None


def test_chunks_by_position_are_for_arrays_of_so_many_axes(tmp_path: Path) -> None:
    """Datasets of HDF5 often have no names for their axes; those of others are left alone."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in "ab":
            file[name] = np.arange(60).reshape(6, 10)
        file["version"] = 3
    dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=(3, 5))
    dask_io.resplit(tmp_path / "b.h5", tmp_path / "c.h5", chunks=2, codec="gzip:1")
    with h5py.File(tmp_path / "b.h5") as file, h5py.File(tmp_path / "c.h5") as small:
        assert (file["a"].chunks, file["b"].chunks) == ((3, 5), (3, 5))
        assert (small["a"].chunks, small["b"].chunks) == ((2, 2), (2, 2))
        assert small["version"][()] == 3
    with pytest.raises(UsageError, match="by position if all arrays have"):
        dask_io.resplit(tmp_path / "a.h5", tmp_path / "d.h5", chunks=(3, 5, 2))
    assert not (tmp_path / "d.h5").exists()


def test_what_a_file_without_a_path_inside_means(tmp_path: Path) -> None:
    """One array, if all else belongs to it and comes along; otherwise all: nothing gets lost."""
    with netCDF4.Dataset(tmp_path / "one.nc", "w") as file:
        for name in "yx":
            file.createDimension(name, 6)
            file.createVariable(name, "f4", (name,))[:] = np.arange(6)
        file.createVariable("v", "i4", ("y", "x"))[:] = np.arange(36).reshape(6, 6)
    shutil.copy(tmp_path / "one.nc", tmp_path / "more.nc")
    with netCDF4.Dataset(tmp_path / "more.nc", "a") as file:
        file.createVariable("stray", "i4", ())[...] = 1

    assert api.info_group(tmp_path / "one.nc") is None
    assert dask_io.info(tmp_path / "one.nc").shape == (6, 6)
    for name in ("one.nc", "more.nc"):
        dask_io.resplit(tmp_path / name, tmp_path / f"of_{name}", chunks=(3, -1))
        places = tmp_path / name, tmp_path / f"of_{name}"
        with xr.open_dataset(places[0]) as before, xr.open_dataset(places[1]) as after:
            xr.testing.assert_identical(before, after)
    group = api.info_group(tmp_path / "more.nc")
    assert group is not None
    assert (set(group.arrays), set(group.others)) == ({"v", "y", "x"}, {"stray"})


def test_the_plan_says_that_nothing_is_gone_on_with(tmp_path: Path) -> None:
    """Each array is planned within the budget, and the file counts only as a whole."""
    source = save(tmp_path / "a.nc")

    job = dask_io.plan(source, tmp_path / "b.nc", chunks=CHUNKS, memory="4MiB")

    assert isinstance(job, dask_io.SeriesJob)
    assert set(job.plan.plans) == {
        *("tas", "pr", "orog", "time", "time_bnds", "lat", "letters_of", "sky", "track"),
        *("inner/q", "inner/z"),
    }
    assert all(plan.problem.target.grain == "container" for plan in job.plan.plans.values())
    assert job.plan.peak_bytes <= 4 * 2**20
    assert job.plan.seeks.total == job.plan.lower_bound
    result = job.run()
    assert (result.seeks, result.held) == (job.plan.seeks, job.plan.held_bytes)
    with pytest.raises(BudgetTooSmallError):
        dask_io.plan(source, tmp_path / "c.nc", chunks=CHUNKS, memory="1KiB")


@pytest.mark.parametrize("version", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_job_travels_to_other_processes(version: str, tmp_path: Path) -> None:
    """What is done there is what would have been done here."""
    source = save(tmp_path / "a.nc", version)
    job = dask_io.plan(source, tmp_path / "b.nc", chunks=CHUNKS)

    there = pickle.loads(pickle.dumps(job))  # noqa: S301 - our own

    assert str(there.plan) == str(job.plan)
    there.run(verify=True)
    assert dask_io.verify(source, tmp_path / "b.nc")


def stop_at(part: float) -> Callable[[dask_io.Progress], None]:
    """What interrupts a run when a part of it has been written."""

    def stop(progress: dask_io.Progress) -> None:
        if progress.n_bytes_written >= part * progress.n_bytes:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("part", [0.01, 0.5, 0.99])
def test_a_run_that_is_interrupted_leaves_nothing(part: float, tmp_path: Path) -> None:
    """No file has the name, none is aside, and there is no journal."""
    source = save(tmp_path / "a.nc")
    with pytest.raises(dask_io.errors.InterruptedRunError):
        dask_io.resplit(source, tmp_path / "b.nc", chunks=CHUNKS, progress=stop_at(part))
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]
    dask_io.resplit(source, tmp_path / "b.nc", chunks=CHUNKS)
    assert dask_io.verify(tmp_path / "b.nc")
    assert dask_io.resume(tmp_path / "b.nc", verify=True).blocks_written == 0


def test_what_is_damaged_is_found(tmp_path: Path) -> None:
    """In the array that has it, by checksums and by comparison."""
    source, target = save(tmp_path / "a.nc", "NETCDF3_CLASSIC"), tmp_path / "b.nc"
    dask_io.resplit(source, target, chunks=CHUNKS)
    for name, values in (("orog", 1.0), ("pr", 2.0)):
        with netCDF4.Dataset(target, "a") as file:
            file[name][0] = values
        found = dask_io.verify(target)
        assert not found
        assert found.place is not None
        assert found.place.endswith(("orog", "pr"))
        assert not dask_io.verify(source, target)
        assert dask_io.verify(f"{target}::/tas")
    with netCDF4.Dataset(target, "a") as file:
        file["crs"][...] = 8
    with netCDF4.Dataset(target, "a") as file:
        file["orog"][:] = netCDF4.Dataset(source)["orog"][:]
    with pytest.raises(DataError, match="array crs differs"):
        dask_io.verify(source, target)
    for place in (target, f"{target}::/crs"):
        with pytest.raises(DataError, match="crs: differs from what was written"):
            dask_io.verify(place)


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"chunks": {"tim": 3}}, "no array has a dimension 'tim'; the dimensions are bnds"),
        ({"chunks": (3, 3, 3)}, "by position if all arrays have"),
        ({"chunks": {0: 3}}, "give chunks by dimension name, as time=24"),
        ({"region": "0:1"}, "give ranges by dimension name, as in bnds=0:10: the dimensions are"),
        ({"consume": True}, "consume is for one array"),
        ({"format": "zarr"}, "has the suffix of netcdf, but format is zarr"),
    ],
)
def test_what_a_file_cannot_be_asked_for(chosen: dict[str, Any], said: str, tmp_path: Path) -> None:
    """It is refused before anything is touched."""
    source = save(tmp_path / "a.nc")
    with pytest.raises(UsageError, match=said):
        dask_io.resplit(source, tmp_path / "b.nc", **{"chunks": CHUNKS, **chosen})
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


@pytest.mark.parametrize(
    "chosen",
    [
        {"codec": "nonsense"},
        {"strategy": "nonsense"},
        {"device": "nonsense"},
        {"memory": "nonsense"},
        {"max_rate": "nonsense"},
        {"workers": 0},
    ],
)
@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_a_wrong_option_is_no_fault_of_an_array(
    chosen: dict[str, Any], suffix: str, tmp_path: Path
) -> None:
    """It is told in the very words in which it is told of one."""
    source = save(tmp_path / "a.nc")
    with pytest.raises(UsageError) as of_one:
        dask_io.plan(f"{source}::/tas", tmp_path / f"one.{suffix}", chunks=-1, **chosen)
    with pytest.raises(UsageError) as of_all:
        dask_io.plan(source, tmp_path / f"b.{suffix}", chunks=CHUNKS, **chosen)
    assert str(of_all.value) == str(of_one.value)


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    """Other formats, a file that is there, the source itself, a path inside a file."""
    source = save(tmp_path / "a.nc")
    with pytest.raises(UsageError, match="array track: Zarr 3 cannot hold"):
        dask_io.resplit(source, tmp_path / "b.zarr", chunks=CHUNKS)
    assert not (tmp_path / "b.zarr").exists()
    for name in ("b", "b.npy"):
        with pytest.raises(UsageError, match=r"give one array, as in .*a\.nc::/tas"):
            dask_io.resplit(source, tmp_path / name, chunks=CHUNKS)
    with pytest.raises(UsageError, match=r"give a dataset of .*a\.nc, such as"):
        dask_io.resplit(source, f"{tmp_path}/b.nc::/tas", chunks=CHUNKS)
    with pytest.raises(SamePlaceError):
        dask_io.resplit(source, source, chunks=CHUNKS)
    (tmp_path / "b.nc").write_text("mine")
    with pytest.raises(TargetExistsError):
        dask_io.resplit(source, tmp_path / "b.nc", chunks=CHUNKS)
    assert (tmp_path / "b.nc").read_text() == "mine"
    with pytest.raises(UsageError, match=r"netcdf can only be written to local disk, .*x/b\.zarr"):
        dask_io.resplit(source, "memory://x/b.nc", chunks=CHUNKS)


@pytest.mark.parametrize("version", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_file_is_overwritten_if_nothing_gets_lost(version: str, tmp_path: Path) -> None:
    """Until the new file is whole the old one stays; what only the old one has is named."""
    source, target = save(tmp_path / "a.nc", version), tmp_path / "b.nc"
    dask_io.resplit(source, target, chunks={"time": 1})
    with pytest.raises(dask_io.errors.InterruptedRunError):
        dask_io.resplit(source, target, chunks=CHUNKS, overwrite=True, progress=stop_at(0.5))
    assert chunks_of(target)["tas"][0] == 1
    dask_io.resplit(source, target, chunks=CHUNKS, overwrite=True, verify=True)
    assert chunks_of(target)["tas"] == [3, 10, 7]
    with netCDF4.Dataset(target, "a") as file:
        file["tas"].remark = "goes with the variable"
        file.createVariable("mine", "i4", ())[...] = 1
        file.mine_too = "an attribute"
    with pytest.raises(UsageError, match="would be lost: @mine_too, mine; choose"):
        dask_io.resplit(source, target, chunks=CHUNKS, overwrite=True)


def spoil_link(file: Any) -> None:
    """Make a link to another file."""
    file["away"] = h5py.ExternalLink("other.h5", "/x")


def spoil_external(file: Any) -> None:
    """Make a dataset that lies in another file."""
    file.create_dataset("away", (4,), "i4", external=[("other.raw", 0, 16)])


def spoil_references(file: Any) -> None:
    """Make a dataset of references."""
    file["away"] = np.array([file["a"].ref], h5py.ref_dtype)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_link, "away in .* cannot be copied: it is a link to another file"),
        (spoil_external, "away in .* it has a dataset whose values are in other files"),
        (spoil_references, "away in .* cannot be copied: it holds references"),
    ],
)
def test_what_cannot_be_copied_is_named(
    spoil: Callable[[Any], None], said: str, tmp_path: Path
) -> None:
    """Nothing is left out unsaid, and nothing outside of the file is read."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"], file["b"] = np.arange(6), np.arange(6)
        spoil(file)
    with pytest.raises(UsageError, match=said):
        dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=3)
    found = api.info_group(tmp_path / "a.h5")
    assert found is not None
    assert (set(found.arrays), set(found.others)) == ({"a", "b"}, {"away"})
    assert not list(tmp_path.glob("*b.h5*"))


def test_an_array_that_is_truncated_is_not_copied(tmp_path: Path) -> None:
    """Not even as it is stored: the file is wrong."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=np.arange(6), chunks=(3,), compression="gzip")
        file["b"] = np.arange(6)
        offset = file["a"].id.get_chunk_info(0).byte_offset
    content = (tmp_path / "a.h5").read_bytes()
    old, new = (n.to_bytes(8, "little") for n in (offset, len(content) - 3))
    assert content.count(old) == 1
    (tmp_path / "a.h5").write_bytes(content.replace(old, new))
    with pytest.raises(DataError, match="is truncated"):
        dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=3)


def test_references_among_attributes_are_told_of(tmp_path: Path) -> None:
    """They would lead nowhere in another file."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"], file["b"] = np.arange(6), np.arange(6)
        file["a"].attrs["see"] = file["b"].ref
    done = invoke("resplit", tmp_path / "a.h5", tmp_path / "b.h5", "--chunks", "3")
    assert done.exit_code == 0
    assert "; not kept: references" in done.stdout


def test_a_user_block_is_told_of(tmp_path: Path) -> None:
    """What another program has put before the file is not HDF5's."""
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512) as file:
        file["a"], file["b"] = np.arange(6), np.arange(6)
    assert dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks=3).not_kept == (
        "user_block",
    )
    assert dask_io.verify(tmp_path / "a.h5", tmp_path / "b.h5")


def test_names_that_version_4_has_no_place_for(tmp_path: Path) -> None:
    """A variable with the name of a dimension along another one is named before anything runs."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
        for name in "yx":
            file.createDimension(name, 2)
        for name in ("v", "w"):
            file.createVariable(name, "i4", ("y", "x"))[:] = 1
        file.createVariable("x", "i4", ("y",))[:] = 1
    with pytest.raises(UsageError, match=r"x in .* it has the name of a dimension, but"):
        dask_io.resplit(tmp_path / "a.nc", tmp_path / "b.nc", chunks={"x": 1})


def test_an_array_of_texts_cannot_be_re_split(tmp_path: Path) -> None:
    """One of a single axis is copied, one of several is named."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name in "yx":
            file.createDimension(name, 2)
        file.createVariable("v", "i4", ("y", "x"))[:] = 1
        file.createVariable("t", str, ("y", "x"))[:] = np.array([["a", "b"], ["c", "d"]], object)
    with pytest.raises(UsageError, match="array t cannot be re-split: it holds"):
        dask_io.resplit(tmp_path / "a.nc", tmp_path / "b.nc", chunks={"x": 1})


def test_the_command_line(tmp_path: Path) -> None:
    """A dry run shows all plans, a run sums them up, `info` lists the arrays."""
    source, target = save(tmp_path / "a.nc"), tmp_path / "b.nc"
    chunks = ["--chunks", "time=3,lat=-1,lon=7"]

    assert "in all 11 arrays" in run("resplit", source, target, *chunks, "--dry-run")
    told = json.loads(run("resplit", source, target, *chunks, "--json", "--quiet"))
    assert set(told["plan"]["arrays"]) >= {"tas", "inner/q"}
    assert told["result"]["seeks"] == {
        kind: told["plan"]["seeks"][kind] for kind in ("read", "write")
    }
    assert "tas" in run("info", target)
    assert "equal" in run("verify", source, target)
    assert "nothing left to do" in run("resume", target)
    absent = invoke("verify", source, tmp_path / "absent.nc")
    assert (absent.exit_code, "absent.nc: no such file" in absent.stderr) == (3, True)


TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


@settings(max_examples=10)
@given(data=st.data())
def test_any_variables(data: st.DataObject) -> None:
    """Whatever dimensions, types and filters there are, what is read back is what was there."""
    lengths = {name: data.draw(st.integers(1, 6), name) for name in "abc"}
    unlimited = data.draw(st.sampled_from(["", *lengths]))
    chosen = st.dictionaries(
        st.sampled_from(list(lengths)), st.integers(1, 7) | st.just(-1), min_size=1
    )
    axes = st.permutations(list(lengths)).flatmap(
        lambda names: st.integers(0, 3).map(lambda n: tuple(names[:n]))
    )
    kinds = data.draw(st.lists(st.tuples(axes, st.sampled_from(TYPES)), min_size=1, max_size=4))
    expected: dict[str, NDArray[Any]] = {}
    with TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.nc", Path(folder) / "out.nc"
        with netCDF4.Dataset(source, "w") as file:
            for name, length in lengths.items():
                file.createDimension(name, None if name == unlimited else length)
            for number, (names, kind) in enumerate([((*lengths,), "i2"), *kinds]):
                zlib = bool(names) and data.draw(st.booleans())
                made = file.createVariable(f"v{number}", kind, names, zlib=zlib)
                made.set_auto_maskandscale(False)
                shape = tuple(lengths[name] for name in names)
                values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
                made[...] = expected[f"v{number}"] = values
        dask_io.resplit(source, target, chunks=data.draw(chosen), workers=1)
        with netCDF4.Dataset(target) as file:
            for name, values in expected.items():
                file[name].set_auto_maskandscale(False)
                assert np.array_equal(np.asarray(file[name][...]), values)
            for name in lengths:
                assert file.dimensions[name].isunlimited() == (name == unlimited)
        assert dask_io.verify(source, target)


@pytest.mark.parametrize("codec", [None, "gzip:1"])
def test_what_looks_like_the_fill_value_backwards_is_stored(
    codec: str | None, tmp_path: Path
) -> None:
    """NetCDF 3 is big-endian: -32768 is 128 to who reads it the other way around."""
    values = np.arange(40).reshape(10, 4)
    values[4:8] = 128
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("t", None)
        file.createDimension("x", 4)
        file.createVariable("v", "i2", ("t", "x"), fill_value=-32768)[:] = values
        file.createVariable("w", "i4", ("t", "x"))[:] = values

    dask_io.resplit(tmp_path / "a.nc", tmp_path / "b.nc", chunks={"t": 4}, codec=codec)

    assert dask_io.verify(f"{tmp_path}/a.nc::/v", f"{tmp_path}/b.nc::/v")
    with netCDF4.Dataset(tmp_path / "b.nc", "a") as file:
        file.set_auto_mask(False)
        assert np.array_equal(file["v"][...], values)
        # What is behind the last record comes to light when there are more of them.
        file["w"][10:12] = 0
        assert file["v"][10:12].tolist() == [[-32768] * 4] * 2


def test_large_chunks_that_are_copied_are_looked_at_once(tmp_path: Path) -> None:
    """What another filter has made of them is decoded by HDF5, as a whole."""
    values = np.random.default_rng(0).random((2000, 400))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("rounded", data=values, chunks=(2000, 100), scaleoffset=3)
        parts = [part for part, _ in _parts(made)]
        assert parts == [np.s_[0:2000, n : n + 100] for n in range(0, 400, 100)]
        file.create_dataset("a", data=np.arange(100.0), chunks=(10,)).dims[0].label = "q"
        assert _parts(file["a"]) == [(np.s_[0:100,], np.s_[0:100,])]

    dask_io.resplit(tmp_path / "a.h5", tmp_path / "b.h5", chunks={"q": 50}, verify=True)

    with h5py.File(tmp_path / "a.h5") as old, h5py.File(tmp_path / "b.h5") as new:
        assert np.array_equal(old["rounded"][...], new["rounded"][...])


def test_many_small_arrays_are_planned_and_synced_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal arrays share one plan, need no threads, and no sync of the journal for each array."""
    syncs: list[int] = []
    sync = system.calls.fdatasync

    def count_sync(fd: int) -> None:
        syncs.append(fd)
        sync(fd)

    n_syncs = {}
    for n_arrays in (3, 30):
        source, target = tmp_path / f"{n_arrays}.h5", tmp_path / f"new-{n_arrays}.h5"
        values = {f"g/a{n}": np.arange(24.0).reshape(4, 6) + n for n in range(n_arrays)}
        with h5py.File(source, "w") as file:
            for name, each in values.items():
                file.create_dataset(name, data=each, chunks=(2, 3))
        with monkeypatch.context() as patch:
            patch.setattr(system.calls, "fdatasync", count_sync)
            patch.setattr("dask_io.engine.crew.Thread.start", _refuse_thread)
            job = api.plan(source, target, chunks=(4, 6))
            assert isinstance(job.plan, Series)
            assert len({id(plan) for plan in job.plan.plans.values()}) == 1
            job.run(verify=False)
        n_syncs[n_arrays] = len(syncs)
        syncs.clear()
        with h5py.File(target) as file:
            for name, each in values.items():
                np.testing.assert_array_equal(file[name][:], each)
        assert invoke("verify", target).exit_code == 0
    assert n_syncs[30] == n_syncs[3] > 0


def _refuse_thread(_: object) -> None:
    raise AssertionError("a thread was started")
