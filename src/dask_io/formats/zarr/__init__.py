"""Zarr arrays, versions 2 and 3.

zarr-python reads and makes the metadata; chunks are read, decoded, encoded and written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.source import open_zarr, reopen_written, reopen_zarr
from dask_io.formats.zarr.target import make_zarr, remake_zarr
from dask_io.formats.zarr.whole import open_group

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.hierarchy.whole import Whole
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import Wanted
    from dask_io.stores.store import Readback, Source, Target


@dataclass(frozen=True, slots=True)
class ZarrFormat:
    """Directories that hold an array's metadata and one file a chunk, or groups of those."""

    name: str = "zarr"
    suffixes: tuple[str, ...] = (".zarr",)

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open an array; only its metadata is read yet."""
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
        place = Place(path, inside)
        return make_zarr(place, wanted, overwrite=overwrite, durability=durability, reserve=reserve)

    def open_all(self, path: Location, *, each: bool = False) -> Whole:  # noqa: ARG002 - it always does
        """Look at everything in a group."""
        return open_group(path)

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],
    ) -> Source:
        """Open a source again."""
        return reopen_zarr(described, at, absent)

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open what was a target."""
        return reopen_written(described, at)

    def remake(
        self, described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
    ) -> Target:
        """Describe a target again."""
        return remake_zarr(described, at, durability=durability, reserve=reserve)


FORMAT = ZarrFormat()
