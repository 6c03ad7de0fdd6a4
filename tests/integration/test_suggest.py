"""`dask-io suggest`: chunks for how an array will be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import xarray as xr

import dask_io
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
