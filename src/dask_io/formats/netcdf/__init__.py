"""NetCDF: a variable in a file, of version 4, which is HDF5 inside, or for reading 3.

The library of NetCDF is not needed: h5py reads and makes the metadata of version 4, and the header
of version 3 says where values are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.formats.hdf5 import Hdf5Format
from dask_io.formats.hdf5.source import read_description
from dask_io.formats.netcdf.conventions import make_described
from dask_io.formats.netcdf.source import Netcdf4Source, open_classic, reopen_classic
from dask_io.formats.netcdf.target import NetcdfTarget
from dask_io.formats.netcdf.whole import as_netcdf, open_classic_file, open_netcdf4
from dask_io.storage.files import peeking
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.container import on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.formats.hdf5.source import Hdf5Source
    from dask_io.formats.hdf5.target import Hdf5Target
    from dask_io.hierarchy.whole import Whole
    from dask_io.storage.location import Location
    from dask_io.stores.container import Wanted
    from dask_io.stores.store import Source

_CLASSIC = b"CDF"


@dataclass(frozen=True)
class NetcdfFormat(Hdf5Format):
    """Files that hold variables along named dimensions, one of which is an array.

    Targets are always of version 4.
    """

    name: str = "netcdf"
    suffixes: tuple[str, ...] = (".nc", ".nc4")
    source_kind: type[Hdf5Source] = Netcdf4Source
    target_kind: type[Hdf5Target] = NetcdfTarget
    making: Callable[[Any, Wanted, str], None] | None = make_described

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open a variable; only metadata is read yet."""
        file = on_disk(path, self.name)
        if not _is_classic(file):
            return super().open(path, inside, strict=strict)
        return open_classic(file, inside)

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],
    ) -> Source:
        """Open a source again."""
        file = None if at is None else on_disk(at, self.name)
        if _is_classic(read_description(described, file)[0]):
            return reopen_classic(described, file)
        return super().reopen(described, at, absent)

    def open_all(self, path: Location, *, each: bool = False) -> Whole:
        """Look at everything in a file."""
        file = on_disk(path, self.name)
        return open_classic_file(file) if _is_classic(file) else open_netcdf4(file, each=each)

    def hold(self, source: Whole, *, as_hdf5: bool) -> Whole:
        """Return what is in another format as this one holds it, or HDF5 in the same way."""
        return as_netcdf(source, is_strict=not as_hdf5)


def _is_classic(path: Location) -> bool:
    with storage_errors(path), peeking(path) as peek:
        return peek(len(_CLASSIC)) == _CLASSIC


FORMAT = NetcdfFormat()
