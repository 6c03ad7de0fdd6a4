"""NetCDF files: version 4, which is HDF5 inside, and version 3 for reading.

The NetCDF library is not needed: h5py reads and writes the metadata of version 4, and the header of
version 3 contains the offsets of all values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.formats.hdf5.dialects import Hdf5Format, read_description
from dask_io.formats.netcdf.conventions import make_described
from dask_io.formats.netcdf.source import NETCDF4, open_classic, reopen_classic
from dask_io.formats.netcdf.tree import read_classic_tree, read_netcdf4_tree, to_netcdf
from dask_io.storage.files import peeking
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.container import on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.formats.hdf5.dialects import Dialect
    from dask_io.hierarchy.tree import Tree
    from dask_io.storage.location import Location
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Source

_CLASSIC = b"CDF"


@dataclass(frozen=True)
class NetcdfFormat(Hdf5Format):
    """Files with variables along named dimensions; targets are always of version 4."""

    name: str = "netcdf"
    suffixes: tuple[str, ...] = (".nc", ".nc4")
    native_formats: frozenset[str] = frozenset({"netcdf"})
    dialect: Dialect = NETCDF4
    making: Callable[[Any, NewArray, str], None] | None = make_described

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open a variable; only metadata is read."""
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

    def read_tree(self, path: Location, *, each: bool = False) -> Tree:
        """Read the metadata of everything in a file."""
        file = on_disk(path, self.name)
        return read_classic_tree(file) if _is_classic(file) else read_netcdf4_tree(file, each=each)

    def can_hold(self, tree: Tree) -> bool:
        """Hold trees of any format except HDF5, which may contain anything."""
        return tree.format != "hdf5"

    def convert(self, tree: Tree) -> Tree:
        """Convert a tree of another format."""
        return tree if tree.format in self.native_formats else to_netcdf(tree, is_strict=True)

    def convert_for_hdf5(self, tree: Tree) -> Tree:
        """Convert a tree by the same rules, but keep all types of elements that HDF5 has."""
        return to_netcdf(tree, is_strict=False)


def _is_classic(path: Location) -> bool:
    with storage_errors(path), peeking(path) as peek:
        return peek(len(_CLASSIC)) == _CLASSIC


FORMAT = NetcdfFormat()
