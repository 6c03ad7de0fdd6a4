"""A file of NetCDF, as its own library writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VALUES = np.random.default_rng(3).integers(-999, 999, (13, 10, 20)).astype("i2")


@pytest.fixture
def make_file(tmp_path: Path) -> Callable[[Any], Path]:
    """Return what makes a file of a version, with a variable and all that can belong to one."""

    def make(version: Any) -> Path:
        path = tmp_path / f"{version}.nc"
        with netCDF4.Dataset(path, "w", format=version) as file:
            file.title, file.Conventions = "a model", "CF-1.8"
            lengths = {"time": None, "lat": 10, "lon": 20, "bnds": 2}
            for name, length in lengths.items():
                file.createDimension(name, length)
            fill(file, is_new=version == "NETCDF4")
        return path

    return make


def fill(file: Any, *, is_new: bool) -> None:
    """Put variables into a file."""
    how = {"zlib": True, "complevel": 2, "chunksizes": (4, 5, 20)} if is_new else {}
    tas = file.createVariable("tas", "i2", ("time", "lat", "lon"), fill_value=-999, **how)
    tas.set_auto_maskandscale(False)
    tas.setncatts({"scale_factor": 0.1, "add_offset": 273.15, "units": "K", "grid_mapping": "crs"})
    tas.flags = np.array([1, 2, 3], "i2")
    tas[:] = VALUES
    time = file.createVariable("time", "f8", ("time",))
    time.setncatts({"units": "days since 2000-01-01", "bounds": "time_bnds"})
    time[:] = np.arange(13)
    bounds = file.createVariable("time_bnds", "f8", ("time", "bnds"))
    bounds[:] = np.arange(26).reshape(13, 2)
    lat = file.createVariable("lat", "f4", ("lat",))
    lat.units = "degrees_north"
    lat[:] = np.linspace(-90, 90, 10)
    crs = file.createVariable("crs", "i4", ())
    crs.grid_mapping_name = "latitude_longitude"
    crs[...] = 7
