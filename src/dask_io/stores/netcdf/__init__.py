"""NetCDF: a variable in a file, of version 4, which is HDF5 inside, or for reading 3.

The library of NetCDF is not needed: h5py reads and makes the metadata of version 4, and the header
of version 3 says where values are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.stores.container import needs, on_disk
from dask_io.stores.files import storage_errors
from dask_io.stores.medium import peeking

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.stores.container import Wanted
    from dask_io.stores.files import Durability
    from dask_io.stores.location import Location
    from dask_io.stores.store import Readback, Source, Target
    from dask_io.stores.whole import Model, WholeFile, WholeTarget

_CLASSIC = b"CDF"


@dataclass(frozen=True, slots=True)
class NetcdfFormat:
    """Files that hold variables along named dimensions, one of which is an array."""

    name: str = "netcdf"
    suffixes: tuple[str, ...] = (".nc", ".nc4")
    blocks: None = None

    def recognises(self, path: Location) -> bool:
        """Look for how version 3 begins; version 4 begins as any HDF5 file."""
        return path.is_file() and _is_classic(path)

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open a variable; only metadata is read yet."""
        with needs(self.name, "h5py"):
            from dask_io.stores.hdf5.source import open_hdf5  # noqa: PLC0415 - slow, if needed
            from dask_io.stores.netcdf.source import (  # noqa: PLC0415 - as above
                Netcdf4Source,
                open_classic,
            )
        file = on_disk(path, self.name)
        if _is_classic(file):
            return open_classic(file, inside)
        return open_hdf5(file, inside, strict=strict, kind=Netcdf4Source)

    def make(
        self,
        path: Location,
        inside: str,
        wanted: Wanted,
        *,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> Target:
        """Describe a target, always of version 4."""
        with needs(self.name, "h5py"):
            from dask_io.stores.netcdf.target import make_netcdf  # noqa: PLC0415 - as above
        file = on_disk(path, self.name)
        return make_netcdf(
            file, inside, wanted, overwrite=overwrite, durability=durability, reserve=reserve
        )

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],  # noqa: ARG002 - no chunk can be removed alone
    ) -> Source:
        """Open a source again."""
        with needs(self.name, "h5py"):
            from dask_io.stores.hdf5.source import (  # noqa: PLC0415 - as above
                read_description,
                reopen_hdf5,
            )
            from dask_io.stores.netcdf.source import (  # noqa: PLC0415 - as above
                Netcdf4Source,
                reopen_classic,
            )
        file = None if at is None else on_disk(at, self.name)
        if _is_classic(read_description(described, file)[0]):
            return reopen_classic(described, file)
        return reopen_hdf5(described, file, kind=Netcdf4Source)

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open what was a target."""
        with needs(self.name, "h5py"):
            from dask_io.stores.hdf5.source import reopen_written  # noqa: PLC0415 - as above
        return reopen_written(described, on_disk(at, self.name))

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target again."""
        with needs(self.name, "h5py"):
            from dask_io.stores.hdf5.target import remake_hdf5  # noqa: PLC0415 - as above
            from dask_io.stores.netcdf.target import NetcdfTarget  # noqa: PLC0415 - as above
        file = on_disk(at, self.name)
        return remake_hdf5(
            described, file, durability=durability, reserve=reserve, kind=NetcdfTarget
        )

    def open_all(self, path: Location) -> WholeFile:
        """Look at everything in a file."""
        with needs(self.name, "h5py"):
            from dask_io.stores.netcdf.whole import (  # noqa: PLC0415 - as above
                open_classic_file,
                open_netcdf4,
            )
        file = on_disk(path, self.name)
        return open_classic_file(file) if _is_classic(file) else open_netcdf4(file)

    def make_all(
        self,
        path: Location,
        model: Model,
        wanted: Mapping[str, Wanted],
        *,
        overwrite: bool,
        durability: Durability,
    ) -> WholeTarget:
        """Describe a file like another one."""
        with needs(self.name, "h5py"):
            from dask_io.stores.hdf5.whole_target import make_all  # noqa: PLC0415 - as above
        file = on_disk(path, self.name)
        return make_all(
            file, model, wanted, format=self.name, overwrite=overwrite, durability=durability
        )


def _is_classic(path: Location) -> bool:
    with storage_errors(path), peeking(path) as peek:
        return peek(len(_CLASSIC)) == _CLASSIC


FORMAT = NetcdfFormat()
