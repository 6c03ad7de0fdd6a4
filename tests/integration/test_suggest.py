"""`dask-io suggest`: chunks for how an array will be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import dask_io
from dask_io.errors import UsageError
from tests.commands import fail, run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def year(tmp_path: Path) -> str:
    """Make a year of small maps, as NetCDF."""
    values = np.zeros((365, 40, 60), "f4")
    xr.Dataset({"tas": (("time", "lat", "lon"), values)}).to_netcdf(
        tmp_path / "year.nc", encoding={"tas": {"chunksizes": (1, 40, 60), "zlib": True}}
    )
    return f"{tmp_path}/year.nc::/tas"


def test_the_suggested_command_runs(year: str, tmp_path: Path) -> None:
    """The last line is a command that makes the suggested chunks."""
    printed = run("suggest", year, "--access", "time series", "--access", "slices")
    *_, command = printed.strip().splitlines()
    target = tmp_path / "DST.zarr"

    _, *words = command.replace("DST.zarr", str(target)).split()
    run(*words)

    found = dask_io.suggest(year, access=["time series", "slices"])
    assert dask_io.info(target).grid.longest == found.chunks
    assert found.after[0].requests < found.before[0].requests == 365


@pytest.mark.parametrize("name", ["year.nc", "year.zarr"])
def test_a_whole_dataset_gets_the_chunks_of_its_largest_array(name: str, tmp_path: Path) -> None:
    """By dimension, so that the command makes them for all variables."""
    maps = np.zeros((365, 40, 60), "f4")
    axes = ("time", "lat", "lon")
    dataset = xr.Dataset({"tas": (axes, maps), "mask": (axes[1:], maps[0])})
    dataset = dataset.assign_coords(time=np.arange(365.0))
    encoding: Any = {"tas": {"chunksizes": (1, 40, 60)}}
    if name == "year.nc":
        dataset.to_netcdf(tmp_path / name, encoding=encoding)
    else:
        dataset.to_zarr(tmp_path / name, zarr_format=2)
    words = ["suggest", tmp_path / name, "--access", "time series", "--access", "slices"]
    printed = run(*words)

    assert "Suggested chunks for tas, the largest array" in printed
    *_, command = printed.strip().splitlines()
    target = tmp_path / "DST.zarr"
    _, *given = command.replace("DST.zarr", str(target)).split()
    run(*given)
    told = json.loads(run(*words, "--json"))
    assert (told["array"], told["dimensions"]) == ("tas", list(axes))
    assert dask_io.info(f"{target}::/tas").grid.longest == tuple(told["chunks"])
    assert dask_io.info(f"{target}::/mask").grid.longest == tuple(told["chunks"][1:])


def test_the_largest_array_has_the_most_bytes(tmp_path: Path) -> None:
    """Not the most elements, and not the first of several with the same number."""
    axes = ("time", "lat", "lon")
    arrays = {"a": np.zeros((20, 4, 6), "i2"), "b": np.zeros((20, 4, 6), "f8")}
    xr.Dataset({name: (axes, values) for name, values in arrays.items()}).to_zarr(
        tmp_path / "a.zarr", zarr_format=2
    )

    assert dask_io.suggest(tmp_path / "a.zarr", access="slices").array == "b"


def test_arrays_come_before_their_coordinates(tmp_path: Path) -> None:
    """In a message that asks for one array."""
    dataset = xr.Dataset({"tas": (("lat", "lon"), np.zeros((2, 3)))}, {"lat": [1, 2]})
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=2)
    with pytest.raises(UsageError, match=r"such as .*/tas, .*/lat"):
        dask_io.open(tmp_path / "a.zarr")


def test_json_and_python_agree(year: str) -> None:
    """`--json` prints what `dask_io.suggest` returns."""
    printed = json.loads(run("suggest", year, "--access", "along lat", "--json"))
    found = dask_io.suggest(year, access="along lat")

    assert printed["chunks"] == list(found.chunks)
    assert printed["accesses"][0]["extent"] == [1, 40, 1]
    assert printed["accesses"][0]["after"]["seconds"] == found.after[0].seconds


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "--access"),
        (["--access", "sideways"], "'sideways' is not understood"),
        (["--access", "along height"], "the axes are time, lat, lon"),
        (["--access", "along ²"], "the axes are time, lat, lon"),
        (["--access", "cubes ²"], "'cubes ²' is not understood"),
        (["--access", "0:400,:,:"], "not within 0:365"),
        (["--access", "cubes", "--chunk-size", "0"], "is not a positive size"),
    ],
)
def test_what_is_not_understood_is_explained(year: str, words: list[str], part: str) -> None:
    """A wrong access is one line that lists what is possible."""
    assert part in fail("suggest", year, *words, code=2)
