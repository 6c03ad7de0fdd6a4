"""Zarr arrays, versions 2 and 3.

zarr-python reads and makes the metadata; chunks are read, decoded, encoded and written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.formats.zarr.group import is_group_at
from dask_io.formats.zarr.ome_source import in_image, open_level
from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.source import reopen_written, reopen_zarr
from dask_io.formats.zarr.target import make_zarr, remake_zarr
from dask_io.formats.zarr.tree import convert, read_tree, reopen_tree, write_tree
from dask_io.hierarchy.checksums import digest_files

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.formats.zarr.tree_target import GroupTarget
    from dask_io.hierarchy.tree import Tree
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Readback, Source, Target


@dataclass(frozen=True, slots=True)
class ZarrFormat:
    """Directories that hold an array's metadata and one file a chunk, or groups of those."""

    name: str = "zarr"
    suffixes: tuple[str, ...] = (".zarr",)
    native_formats: frozenset[str] = frozenset({"zarr"})
    tree_versions: frozenset[int] = frozenset({2, 3})

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open an array, or the only level of an image; only metadata is read yet."""
        return open_level(path, inside, strict=strict)

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
        """Describe a target."""
        place = Place(path, inside)
        return make_zarr(place, wanted, overwrite=overwrite, durability=durability, reserve=reserve)

    def read_tree(self, path: Location, *, each: bool = False) -> Tree:  # noqa: ARG002 - it always does
        """Read the metadata of everything in a group."""
        return read_tree(path)

    def is_group(self, path: Location) -> bool:
        """Tell whether a directory is a group, not an array."""
        return is_group_at(path)

    def can_hold(self, tree: Tree) -> bool:  # noqa: ARG002 - whatever its format
        """Hold trees of any format."""
        return True

    def convert(self, tree: Tree) -> Tree:
        """Return a tree that a group can hold."""
        return convert(tree)

    def write_tree(
        self,
        path: Location,
        tree: Tree,
        wanted: Mapping[str, NewArray],
        *,
        version: int | None,
        overwrite: bool,
        durability: Durability,
    ) -> GroupTarget:
        """Describe a group for a tree."""
        return write_tree(
            path, tree, wanted, version=version, overwrite=overwrite, durability=durability
        )

    def reopen_tree(
        self,
        path: Location,
        described: Mapping[str, Any],
        names: Iterable[str],
        *,
        durability: Durability,
        tree: Tree | None = None,
        copies: Iterable[str] = (),
    ) -> GroupTarget:
        """Describe a group again."""
        return reopen_tree(path, described, names, durability=durability, tree=tree, copies=copies)

    def digests(self, path: Location, names: Collection[str]) -> dict[str, str]:
        """Return checksums of the files of arrays."""
        return {name: digest_files(path / name) for name in names}

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],
    ) -> Source:
        """Open a source again."""
        return in_image(reopen_zarr(described, at, absent))

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open what was a target."""
        return reopen_written(described, at)

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target again."""
        return remake_zarr(described, at, durability=durability, reserve=reserve)


FORMAT = ZarrFormat()
