"""Variables of NetCDF, with all that belongs to them, read by its own library and others."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import dask_io
from dask_io.errors import DataError, InterruptedRunError, UsageError
from dask_io.formats import hdf5, netcdf, open_source
from dask_io.formats.netcdf.conventions import to_netcdf_attributes
from dask_io.stores import Access

from .conftest import VALUES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

CLASSIC = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
VERSIONS = ["NETCDF4", "NETCDF4_CLASSIC", *CLASSIC]


def stored(path: Path, name: str = "tas") -> NDArray[Any]:
    """Read values as they are stored, with the library of NetCDF."""
    with netCDF4.Dataset(path) as file:
        file[name].set_auto_maskandscale(False)
        return np.asarray(file[name][...])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_variable_is_read_as_it_is_stored(version: str, make_file: Callable[[str], Path]) -> None:
    """Nothing is masked or scaled, and the fill value, names and attributes are the file's."""
    place = f"{make_file(version)}::tas"

    info = dask_io.info(place)

    assert np.array_equal(np.asarray(dask_io.open(place)), VALUES)
    assert info.format == "netcdf"
    assert info.metadata["dimension_names"] == ("time", "lat", "lon")
    assert info.metadata["fill_value"] == -999
    assert info.metadata["attributes"]["scale_factor"] == 0.1
    assert info.metadata["attributes"]["flags"] == [1, 2, 3]
    assert info.metadata["attributes"]["units"] == "K"


@pytest.mark.parametrize("version", CLASSIC)
def test_records_of_version_3_are_blocks(version: str, make_file: Callable[[str], Path]) -> None:
    """They alternate with those of other variables; each is read by offset, in one seek."""
    source = open_source(f"{make_file(version)}::tas")
    opened = dask_io.open(f"{make_file(version)}::tas")

    assert source.grid.counts == (13, 1, 1)
    assert source.access is Access.ADDRESSABLE
    assert np.array_equal(opened[3:6, :, :], VALUES[3:6])
    assert opened.source.tally.read.seeks == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_all_that_belongs_to_a_variable_is_kept(
    version: str, make_file: Callable[[str], Path], tmp_path: Path
) -> None:
    """Coordinates, bounds, mapping, attributes, what may grow; xarray finds no difference."""
    path = make_file(version)

    done = dask_io.resplit(f"{path}::tas", tmp_path / "b.nc", chunks=(13, 5, 5), verify=True)

    assert done.not_kept == ()
    assert np.array_equal(stored(tmp_path / "b.nc"), VALUES)
    with xr.open_dataset(path) as before, xr.open_dataset(tmp_path / "b.nc") as after:
        xr.testing.assert_identical(before, after)
        assert after.encoding["unlimited_dims"] == {"time"}
        assert after["tas"].encoding["chunksizes"] == (13, 5, 5)
    with netCDF4.Dataset(tmp_path / "b.nc", "a") as file:
        assert file["tas"].scale_factor == 0.1
        file["time"][13] = 13
        assert file["tas"].shape == (14, 10, 20)


@pytest.mark.skipif(shutil.which("ncdump") is None, reason="netcdf-bin is missing")
@pytest.mark.parametrize("version", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_ncdump_says_the_same(
    version: str, make_file: Callable[[str], Path], tmp_path: Path
) -> None:
    """Of the file that was read and of the one that was written."""
    path = make_file(version)
    dask_io.resplit(f"{path}::tas", tmp_path / "b.nc", chunks=(13, 5, 5))

    def dump(path: Path) -> list[str]:
        ncdump = ["ncdump", "-n", "x", "-p", "9,17", str(path)]
        said = subprocess.run(ncdump, check=True, capture_output=True, text=True).stdout
        return sorted(" ".join(said.split()).split(";"))

    assert dump(tmp_path / "b.nc") == dump(path)


@pytest.mark.parametrize("version", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_a_region_has_its_part_of_the_coordinates(
    version: str, make_file: Callable[[str], Path], tmp_path: Path
) -> None:
    """What lies along its axes is cut as they are."""
    path = make_file(version)

    dask_io.resplit(
        f"{path}::tas", tmp_path / "b.nc", chunks=(2, 5, 5), region="3:9,2:4,:", codec="none"
    )

    with xr.open_dataset(path) as before, xr.open_dataset(tmp_path / "b.nc") as after:
        xr.testing.assert_identical(before.isel(time=slice(3, 9), lat=slice(2, 4)), after)


def test_what_other_formats_cannot_hold_is_named(
    make_file: Callable[[str], Path], tmp_path: Path
) -> None:
    """Variables that belong to the one moved are kept by NetCDF only, and by HDF5 if scales."""
    place = f"{make_file('NETCDF4')}::tas"

    assert set(dask_io.info(place).metadata["coordinates"]) == {"time", "lat", "time_bnds", "crs"}
    lost = {"types_of_attributes", "unlimited_dimensions", "coordinates", "attributes_of_the_file"}
    for target, names in (
        ("b.zarr", lost),
        ("b.h5", {"coordinates"}),
        ("b.npy", {*lost, "attributes", "codec", "dimension_names"} - {"types_of_attributes"}),
    ):
        assert {*dask_io.resplit(place, tmp_path / target, chunks=-1).not_kept} == names
    place = f"{make_file('NETCDF4')}::lat"
    assert dask_io.resplit(place, tmp_path / "c.h5", chunks=3).not_kept == ()
    place = f"{make_file('NETCDF3_CLASSIC')}::lat"
    moved = dask_io.resplit(place, tmp_path / "d.zarr", chunks=3)
    assert moved.not_kept == ("attributes_of_the_file",)
    assert dask_io.resplit(place, tmp_path / "d.nc", chunks=3).not_kept == ()


def test_other_formats_become_variables(tmp_path: Path) -> None:
    """Names of axes become dimensions; axes without a name get one."""
    np.save(tmp_path / "a.npy", VALUES)
    dask_io.resplit(tmp_path / "a.npy", f"{tmp_path}/b.nc::/v", chunks=(5, 5, 5), fill_value=-999)

    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["v"].dimensions == ("dim_0", "dim_1", "dim_2")
        assert file["v"].getncattr("_FillValue") == -999
        assert not any(dimension.isunlimited() for dimension in file.dimensions.values())
    assert np.array_equal(stored(tmp_path / "b.nc", "v"), VALUES)


def test_a_coordinate_may_be_what_is_moved(
    make_file: Callable[[str], Path], tmp_path: Path
) -> None:
    """A variable with the name of its dimension stays one; of another dimension it is refused."""
    path = make_file("NETCDF4")
    dask_io.resplit(f"{path}::lat", tmp_path / "b.nc", chunks=3)

    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["lat"].dimensions == ("lat",)
        assert file["lat"].units == "degrees_north"
    assert np.array_equal(stored(tmp_path / "b.nc", "lat"), np.linspace(-90, 90, 10, dtype="f4"))
    with pytest.raises(UsageError, match="variable lat has the name of a dimension"):
        dask_io.resplit(f"{path}::tas", f"{tmp_path}/c.nc::lat", chunks=5)


@pytest.mark.parametrize("codec", ["none", "shuffle+zlib:1"])
@pytest.mark.parametrize("suffix", ["npy", "zarr", "h5", "nc"])
def test_truth_becomes_numbers_that_xarray_knows_again(
    suffix: str, codec: str, tmp_path: Path
) -> None:
    """NetCDF has no booleans: what is stored are bytes, and the summary says so."""
    truth = np.random.default_rng(5).integers(0, 2, (9, 7)).astype(bool)
    source, made = tmp_path / f"a.{suffix}", f"{tmp_path}/b.nc::/v"
    if suffix == "nc":
        # Files that are NetCDF but for their booleans.
        with h5py.File(source, "w") as file:
            file.create_dataset("v", data=truth, chunks=(9, 2)).attrs["units"] = "1"
    else:
        np.save(tmp_path / "start.npy", truth)
        dask_io.resplit(tmp_path / "start.npy", source, chunks=-1)

    done = dask_io.resplit(source, made, chunks=(4, 7), codec=codec, memory="4MiB", verify=True)

    with xr.open_dataset(tmp_path / "b.nc") as found:
        assert found["v"].dtype == bool
        assert np.array_equal(found["v"], truth)
    assert "booleans" in done.not_kept
    assert dask_io.verify(source, made)
    opened = dask_io.open(made)
    assert opened.dtype == "i1"
    assert np.asarray(opened).tobytes() == truth.tobytes()
    assert opened.source.metadata["attributes"]["dtype"] == "bool"


def test_truth_is_gone_on_with(tmp_path: Path) -> None:
    """A run that was cut short converts what is missing as the first one did."""
    truth = np.random.default_rng(6).integers(0, 2, (64, 64)).astype(bool)
    np.save(tmp_path / "a.npy", truth)

    def stop(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "b.nc", chunks=8, progress=stop)
    done = dask_io.resume(tmp_path / "b.nc", verify=True)

    assert done.blocks_skipped > 0
    assert done.not_kept == ("booleans",)
    with xr.open_dataset(tmp_path / "b.nc") as found:
        assert found["data"].dtype == bool
        assert np.array_equal(found["data"], truth)


def test_truth_in_several_targets(tmp_path: Path) -> None:
    """What is written together is stored as one type."""
    truth = np.random.default_rng(5).integers(0, 2, (9, 7)).astype(bool)
    np.save(tmp_path / "a.npy", truth)

    regions = ["0:3,:", "3:9,1:4"]
    dask_io.extract(
        tmp_path / "a.npy", tmp_path / "parts", regions=regions, chunks=2, format="netcdf"
    )

    for number, part in enumerate((truth[0:3], truth[3:9, 1:4])):
        with xr.open_dataset(tmp_path / f"parts/region_00{number}.nc") as found:
            assert found["data"].dtype == bool
            assert np.array_equal(found["data"], part)
    with pytest.raises(UsageError, match="the targets store elements as bool and int8"):
        dask_io.resplit(tmp_path / "a.npy", [tmp_path / "b.nc", tmp_path / "b.zarr"], chunks=[2, 3])


def test_truth_that_is_asked_for_otherwise(tmp_path: Path) -> None:
    """As numbers it is not marked; and what would be converted twice is refused."""
    np.save(tmp_path / "a.npy", np.array([True, False, True]))
    np.save(tmp_path / "b.npy", np.array([0, 7, 1]))

    done = dask_io.resplit(tmp_path / "a.npy", tmp_path / "a.nc", chunks=2, dtype="i1")

    assert done.not_kept == ()
    assert dask_io.info(tmp_path / "a.nc").metadata["attributes"] == {}
    with pytest.raises(UsageError, match="netcdf stores bool as int8, but elements are int64"):
        dask_io.resplit(
            tmp_path / "b.npy", tmp_path / "b.nc", chunks=2, dtype="?", casting="unsafe"
        )


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("value", [True, False])
def test_what_is_not_stored_of_truth(version: Any, tmp_path: Path, *, value: bool) -> None:
    """The fill value is a number in chunks that are absent, but stands for no gap to xarray."""
    made = zarr.create_array(
        tmp_path / "a.zarr",
        shape=(6, 4),
        chunks=(2, 4),
        dtype="?",
        fill_value=value,
        zarr_format=version,
    )
    made[2:4] = not value
    dask_io.resplit(tmp_path / "a.zarr", f"{tmp_path}/b.nc::/v", chunks=(2, 4), codec="zlib:1")
    dask_io.resplit(tmp_path / "a.zarr", tmp_path / "c.nc", chunks=-1, codec="none", fill_value=0)

    with h5py.File(tmp_path / "b.nc") as file:
        assert file["v"].fillvalue == int(value)
        assert file["v"].id.get_num_chunks() == 1
    for path, name in ((tmp_path / "b.nc", "v"), (tmp_path / "c.nc", "data")):
        with xr.open_dataset(path) as found:
            assert found[name].dtype == bool
            assert np.array_equal(found[name], np.asarray(made[...]))


@pytest.mark.parametrize("dtype", ["<f2", "<c8", "S3", "U3", "M8[s]", "V4"])
def test_what_netcdf_has_no_type_for(dtype: str, tmp_path: Path) -> None:
    """It is refused before anything is made, and the format is named that can hold it."""
    np.save(tmp_path / "a.npy", np.zeros(4, dtype))

    with pytest.raises(UsageError, match="NetCDF has no type for elements of") as refused:
        dask_io.resplit(tmp_path / "a.npy", tmp_path / "b.nc", chunks=2)

    other = ".h5" if "write .h5 instead" in str(refused.value) else ".zarr"
    dask_io.resplit(tmp_path / "a.npy", tmp_path / f"b{other}", chunks=2)
    assert dask_io.verify(tmp_path / "a.npy", tmp_path / f"b{other}")


def test_variables_are_named(make_file: Callable[[str], Path], tmp_path: Path) -> None:
    """One that nothing else describes is meant; if there are several, one has to be named."""
    for version in ("NETCDF4", "NETCDF3_CLASSIC"):
        path = make_file(version)
        with pytest.raises(UsageError, match=r"such as .*::/tas, .*::/time_bnds"):
            dask_io.open(path)
        with pytest.raises(UsageError, match=r"::/pr (is not there; name|does not exist; give) a"):
            dask_io.open(f"{path}::pr")
    dask_io.resplit(f"{make_file('NETCDF4')}::tas", tmp_path / "b.h5", chunks=5)
    dask_io.resplit(tmp_path / "b.h5", tmp_path / "only.nc", chunks=5)
    assert dask_io.open(tmp_path / "only.nc").shape == VALUES.shape


def test_what_is_too_large_to_be_copied_along(tmp_path: Path) -> None:
    """It is named, and nothing is written."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 5 * 2**20)
        file.createVariable("x", "f8", ("x",))
        file.createVariable("v", "i1", ("x",))[:] = 1

    with pytest.raises(UsageError, match=r"belong to v are too large.* 41943040 bytes including x"):
        dask_io.resplit(f"{tmp_path}/a.nc::v", tmp_path / "b.nc", chunks=2**20)


def test_what_is_too_large_together_is_not_copied_along(tmp_path: Path) -> None:
    """It is kept in the journal, of which more would not be read again."""
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, length in (("y", 3_000_000), ("x", 3_000_000)):
            file.createDimension(name, length)
            file.createVariable(name, "f8", (name,))
        file.createVariable("v", "i1", ("y", "x"), chunksizes=(1000, 1000))
    with pytest.raises(UsageError, match=r"belong to v are too large.* 48000000 bytes"):
        dask_io.plan(f"{tmp_path / 'a.nc'}::/v", tmp_path / "b.nc", chunks=(1000, 1000))


def test_a_run_is_resumed(make_file: Callable[[str], Path], tmp_path: Path) -> None:
    """From a variable of either version, to one."""

    def stop(progress: dask_io.Progress) -> None:
        if 2 * progress.n_bytes_written >= progress.n_bytes:
            raise KeyboardInterrupt

    for version in ("NETCDF4", "NETCDF3_CLASSIC"):
        target = tmp_path / f"to_{version}.zarr"
        with pytest.raises(dask_io.errors.InterruptedRunError):
            dask_io.resplit(f"{make_file(version)}::tas", target, chunks=(1, 5, 20), progress=stop)
        assert dask_io.resume(target, verify=True).blocks_skipped > 0
        with netCDF4.Dataset(make_file(version), "a") as file:
            file["tas"][0] = 0
        assert np.array_equal(np.asarray(dask_io.open(target)), VALUES)


def test_files_of_version_3_that_are_broken(
    make_file: Callable[[str], Path], tmp_path: Path
) -> None:
    """Cut short anywhere, or with a header that cannot be: one line."""
    content = make_file("NETCDF3_CLASSIC").read_bytes()
    broken = tmp_path / "broken.nc"
    for n_bytes in (3, 4, 7, 100, 500, len(content) - 100):
        broken.write_bytes(content[:n_bytes])
        with pytest.raises(DataError):
            dask_io.open(f"{broken}::tas")
    broken.write_bytes(b"CDF\x07" + content[4:])
    with pytest.raises(DataError, match="is not a NetCDF 3 file"):
        dask_io.open(f"{broken}::tas")


def test_files_are_never_opened_in_this_process(
    make_file: Callable[[Any], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What HDF5 makes of a broken one may crash it: another process looks into them."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a file of others is opened here")

    path = make_file("NETCDF4")
    dask_io.info(f"{path}::tas")
    modules = hdf5.create, hdf5.source, hdf5.tree, hdf5.tree_content, hdf5.overwrite
    for module in (*modules, netcdf.source):
        monkeypatch.setattr(module, "reading", refuse)

    dask_io.resplit(f"{path}::tas", tmp_path / "b.nc", chunks=5, verify=True)
    dask_io.resplit(f"{path}::tas", tmp_path / "b.nc", chunks=4, overwrite=True)
    dask_io.resplit(path, tmp_path / "c.nc", chunks={"time": 3}, verify=True)
    assert dask_io.verify(path, tmp_path / "c.nc")


@pytest.mark.parametrize(
    ("value", "elements", "kind"),
    [([-1, 9], "i2", "i2"), ([0.0, 9.0], "i2", "f8"), ([0.0, 9.0], "f4", "f4"), (9, "f4", "f4")],
)
def test_what_speaks_of_values_from_elsewhere(value: Any, elements: str, kind: str) -> None:
    """It has their type, but fractions beside whole numbers are about what these are scaled to."""
    made = to_netcdf_attributes({"attributes": {"valid_range": value}}, np.dtype(elements))

    assert np.asarray(made["valid_range"]).dtype == kind
    assert np.array_equal(made["valid_range"], value)
