"""A model as a NetCDF file, as its library saves one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

CLASSIC = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
_LENGTHS = {"time": None, "lat": 10, "lon": 20, "bnds": 2, "letters": 4}


def save_model(path: Path, version: Any = "NETCDF4", *, for_xarray: bool = False) -> Path:
    """Save scales, bounds, scalars, texts and groups.

    Either with types of its own and a dimension without variables, or, for xarray, with gaps,
    coordinates of two axes and groups in groups.
    """
    with netCDF4.Dataset(path, "w", format=version) as file:
        file.setncatts({"title": "a model", "levels": np.array([1, 2], "i4")})
        for name, length in _LENGTHS.items():
            file.createDimension(name, length)
        _add_fields(file, for_xarray=for_xarray)
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts({"units": "days since 2000-01-01", "bounds": "time_bnds"})
        time[:] = np.arange(13)
        file.createVariable("time_bnds", "f8", ("time", "bnds"))[:] = np.arange(26).reshape(13, 2)
        file.createVariable("lat", "f4", ("lat",))[:] = np.linspace(-90, 90, 10)
        crs = file.createVariable("crs", "i4", (), fill_value=-1 if for_xarray else None)
        crs.grid_mapping_name = "latitude_longitude"
        crs[...] = 7
        letters = np.frombuffer(b"abcd" * 10, "S1").reshape(10, 4)
        file.createVariable("letters_of", "S1", ("lat", "letters"))[:] = letters
        if for_xarray:
            file.empty = ""
            file.createVariable("place", "f4", ("lat", "lon"))[:] = 1
        else:
            file.createDimension("unused", 7)
        if version == "NETCDF4":
            _add_new(file, for_xarray=for_xarray)
    return path


def _add_fields(file: Any, *, for_xarray: bool) -> None:
    """Add two packed variables, and one that is not."""
    random = np.random.default_rng(0)
    how: Any = {}
    if file.data_model not in CLASSIC:
        how = {"zlib": True, "complevel": 2, "chunksizes": (4, 5, 20)}
    for name, kind, gap in (("tas", "i2", -999), ("pr", "f4", 1e20 if for_xarray else -999)):
        made = file.createVariable(name, kind, ("time", "lat", "lon"), fill_value=gap, **how)
        made.set_auto_maskandscale(False)
        made.setncatts({"units": "K", "scale_factor": 0.1, "grid_mapping": "crs"})
        values = random.integers(-99, 99, (13, 10, 20)).astype(kind)
        if for_xarray:
            made.setncatts({"missing_value": np.array(gap, kind), "coordinates": "place"})
            values[random.random(values.shape) < 0.1] = gap
        made[:] = values
    # Zeros, and what its library takes for gaps by default, are values.
    height = np.zeros((10, 20)) if for_xarray else random.normal(size=(10, 20))
    file.createVariable("orog", "f8", ("lat", "lon"))[:] = height


def _add_new(file: Any, *, for_xarray: bool) -> None:
    """Add what only NetCDF 4 has."""
    station = file.createVariable("station", str, ("lat",))
    station[:] = np.array([f"s{i}ß" * (i % 3) for i in range(10)], object)
    station.setncattr_string("long_name", "Bahnhöfe")
    inner = file.createGroup("inner/most" if for_xarray else "inner")
    inner.note = "a group"
    inner.createDimension("z", 3)
    kind, value = ("u8", 2**63) if for_xarray else ("f4", 1.5)
    inner.createVariable("q", kind, ("z", "lat"), zlib=True, chunksizes=(1, 10))[:] = value
    inner.createVariable("z", "i4", ("z",))[:] = [1, 2, 3]
    if for_xarray:
        file.createVariable("name", str, ())[...] = "a text"
        return
    sky = file.createEnumType("u1", "cloud", {"clear": 0, "cloudy": 1})
    file.createVariable("sky", sky, ("time", "lat"))[:] = np.ones((13, 10), "u1")
    point = file.createCompoundType(np.dtype([("x", "f4"), ("y", "i2")]), "point")
    file.createVariable("track", point, ("lat",))[:] = np.zeros(10, [("x", "f4"), ("y", "i2")])
