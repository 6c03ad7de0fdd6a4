"""Writing a variable: a dataset of HDF5 with what NetCDF 4 wants beside it."""

from __future__ import annotations

from dask_io.formats.hdf5.target import Hdf5Target


class NetcdfTarget(Hdf5Target):
    """A variable that is written, in a file of its own; any number of blocks at once."""

    format = "netcdf"
