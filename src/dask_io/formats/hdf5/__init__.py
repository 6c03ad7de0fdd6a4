"""HDF5: a dataset in a file, in chunks or not, with or without filters.

h5py reads and creates the metadata. Values are read, decoded and encoded here. They are also
written here if their places in the file are fixed; otherwise HDF5 writes them.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from dask_io.formats.hdf5.create import DEFAULT_NAME, make_template
from dask_io.formats.hdf5.source import HDF5, Dialect, open_hdf5, read_description, reopen_hdf5
from dask_io.formats.hdf5.target import Hdf5Target
from dask_io.formats.hdf5.tree import read_tree
from dask_io.formats.hdf5.tree_content import Hdf5Model
from dask_io.formats.hdf5.tree_target import write_tree
from dask_io.formats.registry import load_format
from dask_io.stores.container import on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.formats.hdf5.tree_target import TreeFile
    from dask_io.hierarchy.tree import Tree
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Readback, Source, Target


class _Dialect(Protocol):
    """A format based on HDF5 with rules for trees of other formats."""

    def convert_for_hdf5(self, tree: Tree) -> Tree:
        """Convert a tree by these rules, but keep every type of elements that HDF5 has."""


@dataclass(frozen=True)
class Hdf5Format:
    """Files with datasets, each of which is an array; also files of formats based on HDF5."""

    name: str = "hdf5"
    suffixes: tuple[str, ...] = (".h5", ".hdf5", ".hdf")
    native_formats: frozenset[str] = frozenset({"hdf5", "netcdf"})
    tree_versions: frozenset[int] = frozenset()
    dialect: Dialect = HDF5
    making: Callable[[Any, NewArray, str], None] | None = None
    """Creates a dataset with everything that another format stores next to it."""

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open a dataset; only metadata is read yet."""
        file = on_disk(path, self.name)
        return open_hdf5(file, inside, strict=strict, dialect=self.dialect)

    def make(
        self,
        path: Location,
        inside: str,
        wanted: NewArray,
        *,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> Target:
        """Describe a dataset in a file of its own; nothing is touched.

        Raises
        ------
        UsageError
            If HDF5 cannot hold it, or does not support an option.
        """
        # A dataset of a source based on HDF5 keeps its name.
        original = wanted.metadata.get("hdf5") or wanted.metadata.get("netcdf")
        named = inside or (original.inside if original else wanted.name or DEFAULT_NAME)
        return Hdf5Target(
            on_disk(path, self.name),
            named,
            make_template(wanted, named, make=self.making),
            dialect=self.dialect,
            write_empty=wanted.options.write_empty,
            overwrite=overwrite,
            durability=durability,
            reserve=reserve,
        )

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],  # noqa: ARG002 - no chunk can be removed alone
    ) -> Source:
        """Open a source again."""
        file = None if at is None else on_disk(at, self.name)
        return reopen_hdf5(described, file, dialect=self.dialect)

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open a former target, to verify its checksums."""
        return reopen_hdf5(described, on_disk(at, self.name)).as_written()

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target of an earlier run again.

        Raises
        ------
        ValueError
            If the description is invalid.
        """
        path, inside = read_description(described, on_disk(at, self.name))
        template = described.get("template")
        if not isinstance(template, str):
            raise ValueError("is not that of an HDF5 dataset")  # noqa: TRY004 - wrong data
        try:
            return Hdf5Target(
                path,
                inside,
                b64decode(template, validate=True),
                dialect=self.dialect,
                write_empty=described.get("write_empty") is True,
                overwrite=False,
                durability=durability,
                reserve=reserve,
            )
        except (KeyError, OSError, RuntimeError) as error:
            raise ValueError(f"is not that of an HDF5 dataset: {error}") from error

    def read_tree(self, path: Location, *, each: bool = False) -> Tree:
        """Read the metadata of everything in a file."""
        return read_tree(on_disk(path, self.name), each=each)

    def is_group(self, path: Location) -> bool:  # noqa: ARG002 - whatever it is
        """Return False: groups are inside a file, so no directory is one."""
        return False

    def can_hold(self, tree: Tree) -> bool:  # noqa: ARG002 - whatever its format
        """Return True: trees of any format can be converted."""
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
        wanted: Mapping[str, NewArray],
        *,
        version: int | None,  # noqa: ARG002 - there is no choice
        overwrite: bool,
        durability: Durability,
    ) -> TreeFile:
        """Describe a file for a tree."""
        file = on_disk(path, self.name)
        return write_tree(
            file, tree, wanted, format=self.name, overwrite=overwrite, durability=durability
        )

    def digests(self, path: Location, names: Collection[str]) -> dict[str, str]:
        """Return checksums of the values of datasets."""
        return Hdf5Model(on_disk(path, self.name)).digests(names)


FORMAT = Hdf5Format()
