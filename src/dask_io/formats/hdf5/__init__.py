"""HDF5: a dataset in a file, in chunks or not, with or without filters.

h5py reads and makes the metadata; values are read, decoded, encoded and, where HDF5 need not find
room for them first, written here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from dask_io.formats.hdf5.blocks import Hdf5Blocks
from dask_io.formats.registry import load_format
from dask_io.storage.files import peeking
from dask_io.stores.container import needs, on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.formats.hdf5.source import Hdf5Source
    from dask_io.formats.hdf5.target import Hdf5Target
    from dask_io.formats.hdf5.tree_target import TreeFile
    from dask_io.hierarchy.tree import Tree
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.block_format import Format
    from dask_io.stores.container import Wanted
    from dask_io.stores.store import Readback, Source, Target

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# It comes first, or behind what another program has put there.
_BEGINS_AT = (0, 512, 1024, 2048, 4096)


class _Dialect(Protocol):
    """A format that is HDF5 inside, and has rules for trees of other formats."""

    def convert_for_hdf5(self, tree: Tree) -> Tree:
        """Convert a tree by these rules, but keep every type of elements that HDF5 has."""


@dataclass(frozen=True)
class Hdf5Format:
    """Files that hold datasets, one of which is an array; also of formats that are HDF5 inside."""

    name: str = "hdf5"
    suffixes: tuple[str, ...] = (".h5", ".hdf5", ".hdf")
    blocks: Format | None = field(default_factory=Hdf5Blocks)
    native_formats: frozenset[str] = frozenset({"hdf5", "netcdf"})
    tree_versions: frozenset[int] = frozenset()

    def source_kind(self) -> type[Hdf5Source]:
        """Return what sources are."""
        with needs(self.name, "h5py"):
            from dask_io.formats.hdf5.source import Hdf5Source  # noqa: PLC0415 - slow, if needed
        return Hdf5Source

    def target_kind(self) -> type[Hdf5Target]:
        """Return what targets are."""
        with needs(self.name, "h5py"):
            from dask_io.formats.hdf5.target import Hdf5Target  # noqa: PLC0415 - as above
        return Hdf5Target

    def making(self) -> Callable[[Any, Wanted, str], None] | None:
        """Return what makes a dataset with all that another format wants beside it."""
        return None

    def recognises(self, path: Location) -> bool:
        """Look for the signature."""
        if not path.is_file():
            return False
        with peeking(path) as peek:
            head = peek(_BEGINS_AT[-1] + len(_SIGNATURE))
        return any(head.startswith(_SIGNATURE, start) for start in _BEGINS_AT)

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open a dataset; only metadata is read yet."""
        kind, file = self.source_kind(), on_disk(path, self.name)
        from dask_io.formats.hdf5.source import open_hdf5  # noqa: PLC0415 - as above

        return open_hdf5(file, inside, strict=strict, kind=kind)

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
        """Describe a target."""
        kind, make, file = self.target_kind(), self.making(), on_disk(path, self.name)
        from dask_io.formats.hdf5.target import make_hdf5  # noqa: PLC0415 - as above

        return make_hdf5(
            file,
            inside,
            wanted,
            overwrite=overwrite,
            durability=durability,
            reserve=reserve,
            kind=kind,
            make=make,
        )

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],  # noqa: ARG002 - no chunk can be removed alone
    ) -> Source:
        """Open a source again."""
        kind, file = self.source_kind(), None if at is None else on_disk(at, self.name)
        from dask_io.formats.hdf5.source import reopen_hdf5  # noqa: PLC0415 - as above

        return reopen_hdf5(described, file, kind=kind)

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open what was a target."""
        with needs(self.name, "h5py"):
            from dask_io.formats.hdf5.source import reopen_written  # noqa: PLC0415 - as above
        return reopen_written(described, on_disk(at, self.name))

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target again."""
        kind, file = self.target_kind(), on_disk(at, self.name)
        from dask_io.formats.hdf5.target import remake_hdf5  # noqa: PLC0415 - as above

        return remake_hdf5(described, file, durability=durability, reserve=reserve, kind=kind)

    def read_tree(self, path: Location, *, each: bool = False) -> Tree:
        """Read the metadata of everything in a file."""
        with needs(self.name, "h5py"):
            from dask_io.formats.hdf5.tree import read_tree  # noqa: PLC0415 - as above
        return read_tree(on_disk(path, self.name), each=each)

    def is_group(self, path: Location) -> bool:  # noqa: ARG002 - whatever it is
        """Tell that no directory is a group: a file holds all of them."""
        return False

    def can_hold(self, tree: Tree) -> bool:  # noqa: ARG002 - whatever its format
        """Hold trees of any format."""
        return True

    def convert(self, tree: Tree) -> Tree:
        """Convert a tree of another format as for NetCDF, but keep more types of elements."""
        if tree.format in self.native_formats:
            return tree
        # HDF5 has no rules for shared dimensions; those of NetCDF are the common ones.
        return cast("_Dialect", load_format("netcdf")).convert_for_hdf5(tree)

    def write_tree(
        self,
        path: Location,
        tree: Tree,
        wanted: Mapping[str, Wanted],
        *,
        version: int | None,  # noqa: ARG002 - there is no choice
        overwrite: bool,
        durability: Durability,
    ) -> TreeFile:
        """Describe a file for a tree."""
        with needs(self.name, "h5py"):
            from dask_io.formats.hdf5.tree_target import write_tree  # noqa: PLC0415 - as above
        file = on_disk(path, self.name)
        return write_tree(
            file, tree, wanted, format=self.name, overwrite=overwrite, durability=durability
        )

    def digests(self, path: Location, names: Collection[str]) -> dict[str, str]:
        """Return checksums of the values of datasets."""
        with needs(self.name, "h5py"):
            from dask_io.formats.hdf5.tree_content import Hdf5Model  # noqa: PLC0415 - as above
        return Hdf5Model(on_disk(path, self.name)).digests(names)


FORMAT = Hdf5Format()
