"""Write a variable: an HDF5 dataset with the metadata of NetCDF 4."""

from __future__ import annotations

from dask_io.formats.hdf5.target import Hdf5Target


class NetcdfTarget(Hdf5Target):
    """A variable that is written to a new file; many threads may write blocks at once."""

    format = "netcdf"
