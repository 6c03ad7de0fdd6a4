"""NetCDF: a variable in a file, of version 4, which is HDF5 inside, or for reading 3.

The library of NetCDF is not needed: h5py reads and makes the metadata of version 4, and the header
of version 3 says where values are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.stores.container import needs
from dask_io.stores.files import peeking, storage_errors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from dask_io.stores.container import Wanted
    from dask_io.stores.files import Durability
    from dask_io.stores.store import Readback, Source, Target

_CLASSIC = b"CDF"


@dataclass(frozen=True, slots=True)
class NetcdfFormat:
    """Files that hold variables along named dimensions, one of which is an array."""

    name: str = "netcdf"
    suffixes: tuple[str, ...] = (".nc", ".nc4")
    blocks: None = None

    def recognises(self, path: Path) -> bool:
        """Look for how version 3 begins; version 4 begins as any HDF5 file."""
        return path.is_file() and _is_classic(path)

    def open(self, path: Path, inside: str, *, strict: bool) -> Source:
        """Open a variable; only metadata is read yet."""
        with needs(self.name, "h5py"):
            from dask_io.stores.hdf5.source import open_hdf5  # noqa: PLC0415 - slow, if needed
            from dask_io.stores.netcdf.source import (  # noqa: PLC0415 - as above
                Netcdf4Source,
                open_classic,
            )
        if _is_classic(path):
            return open_classic(path, inside)
        return open_hdf5(path, inside, strict=strict, kind=Netcdf4Source)

    def make(
        self,
        path: Path,
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
        return make_netcdf(
            path, inside, wanted, overwrite=overwrite, durability=durability, reserve=reserve
        )

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Path | None,
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
        if _is_classic(read_description(described, at)[0]):
            return reopen_classic(described, at)
        return reopen_hdf5(described, at, kind=Netcdf4Source)

    def read_back(self, described: Mapping[str, Any], at: Path) -> Readback:
        """Open what was a target."""
        with needs(self.name, "h5py"):
            from dask_io.stores.hdf5.source import reopen_written  # noqa: PLC0415 - as above
        return reopen_written(described, at)

    def remake(
        self, described: Mapping[str, Any], at: Path, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target again."""
        with needs(self.name, "h5py"):
            from dask_io.stores.hdf5.target import remake_hdf5  # noqa: PLC0415 - as above
            from dask_io.stores.netcdf.target import NetcdfTarget  # noqa: PLC0415 - as above
        return remake_hdf5(described, at, durability=durability, reserve=reserve, kind=NetcdfTarget)


def _is_classic(path: Path) -> bool:
    with storage_errors(path), peeking(path) as peek:
        return peek(len(_CLASSIC)) == _CLASSIC


FORMAT = NetcdfFormat()
