"""Writing a variable: a dataset of HDF5 with what NetCDF 4 wants beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask_io.stores.hdf5.create import DEFAULT_NAME, make_template
from dask_io.stores.hdf5.target import Hdf5Target
from dask_io.stores.netcdf.conventions import describe, refuse_types

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores.container import Wanted
    from dask_io.stores.files import Durability


class NetcdfTarget(Hdf5Target):
    """A variable that is written, in a file of its own; any number of blocks at once."""

    format = "netcdf"


def make_netcdf(
    path: Path,
    inside: str,
    wanted: Wanted,
    *,
    overwrite: bool,
    durability: Durability,
    reserve: bool,
) -> NetcdfTarget:
    """Describe a variable in a file of its own; nothing is touched.

    Raises
    ------
    UsageError
        If NetCDF cannot hold it, or cannot honour a wish.
    """
    refuse_types(wanted.dtype)
    original: Any = wanted.metadata.get("netcdf") or wanted.metadata.get("hdf5")
    named = inside or (original.inside if original else DEFAULT_NAME)
    return NetcdfTarget(
        path,
        named,
        make_template(wanted, named, describe=describe),
        write_empty=wanted.wishes.write_empty,
        overwrite=overwrite,
        durability=durability,
        reserve=reserve,
    )
