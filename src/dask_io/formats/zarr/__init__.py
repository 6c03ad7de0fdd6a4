"""Zarr arrays, versions 2 and 3.

Usual metadata is read and created here, all other by zarr-python. Chunks are read, decoded, encoded
and written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.formats.zarr.group import is_group_at
from dask_io.formats.zarr.ome_source import open_level, reopen_level
from dask_io.formats.zarr.source import reopen_written
from dask_io.formats.zarr.target import make_zarr, remake_zarr
from dask_io.formats.zarr.tree import convert, read_tree, reopen_tree, write_tree
from dask_io.hierarchy.checksums import digest_files

if TYPE_CHECKING:
    from collections.abc import Collection

    from dask_io.hierarchy.tree import Tree
    from dask_io.storage.location import Location


class ZarrFormat:
    """Directories with an array's metadata and a file for each chunk, or groups of arrays."""

    name = "zarr"
    suffixes = (".zarr",)
    native_formats = frozenset({"zarr"})
    tree_versions = frozenset({2, 3})

    open = staticmethod(open_level)
    make = staticmethod(make_zarr)
    reopen = staticmethod(reopen_level)
    read_back = staticmethod(reopen_written)
    remake = staticmethod(remake_zarr)
    is_group = staticmethod(is_group_at)
    convert = staticmethod(convert)
    write_tree = staticmethod(write_tree)
    reopen_tree = staticmethod(reopen_tree)

    def read_tree(self, path: Location, *, each: bool = False) -> Tree:  # noqa: ARG002 - it always does
        """Read the metadata of everything in a group."""
        return read_tree(path)

    def can_hold(self, tree: Tree) -> bool:  # noqa: ARG002 - of any format
        """Return True: trees of any format can be converted."""
        return True

    def digests(self, path: Location, names: Collection[str]) -> dict[str, str]:
        """Return checksums of the files of arrays."""
        return {name: digest_files(path / name) for name in names}


FORMAT = ZarrFormat()
