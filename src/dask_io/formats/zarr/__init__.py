"""Zarr arrays, versions 2 and 3.

zarr-python reads and makes the metadata; chunks are read, decoded, encoded and written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.stores.container import needs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.hierarchy.tree import Tree
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import Wanted
    from dask_io.stores.store import Readback, Source, Target

_MARKS = ("zarr.json", ".zarray", ".zgroup")


@dataclass(frozen=True, slots=True)
class ZarrFormat:
    """Directories that hold an array's metadata and one file a chunk, or groups of those."""

    name: str = "zarr"
    suffixes: tuple[str, ...] = (".zarr",)

    def recognises(self, path: Location) -> bool:
        """Look for the metadata of an array or of a group."""
        return any((path / mark).is_file() for mark in _MARKS)

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open an array; only its metadata is read yet."""
        with needs(self.name, "zarr"):
            from dask_io.formats.zarr.source import open_zarr  # noqa: PLC0415 - a second, if needed
        return open_zarr(path, inside, strict=strict)

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
        with needs(self.name, "zarr"):
            from dask_io.formats.zarr.place import Place  # noqa: PLC0415 - as above
            from dask_io.formats.zarr.target import make_zarr  # noqa: PLC0415 - as above
        place = Place(path, inside)
        return make_zarr(place, wanted, overwrite=overwrite, durability=durability, reserve=reserve)

    def read_tree(self, path: Location, *, each: bool = False) -> Tree:  # noqa: ARG002 - it always does
        """Read the metadata of everything in a group."""
        with needs(self.name, "zarr"):
            from dask_io.formats.zarr.tree import read_tree  # noqa: PLC0415 - as above
        return read_tree(path)

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],
    ) -> Source:
        """Open a source again."""
        with needs(self.name, "zarr"):
            from dask_io.formats.zarr.source import reopen_zarr  # noqa: PLC0415 - as above
        return reopen_zarr(described, at, absent)

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open what was a target."""
        with needs(self.name, "zarr"):
            from dask_io.formats.zarr.source import reopen_written  # noqa: PLC0415 - as above
        return reopen_written(described, at)

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target again."""
        with needs(self.name, "zarr"):
            from dask_io.formats.zarr.target import remake_zarr  # noqa: PLC0415 - as above
        return remake_zarr(described, at, durability=durability, reserve=reserve)


FORMAT = ZarrFormat()
