"""Icechunk repositories: Zarr arrays of version 3, under version control.

icechunk keeps chunks and history; what a chunk holds is encoded and decoded here, as for any
Zarr array. A source is one snapshot, which nothing can change. A target is one commit, to a
repository on local disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.formats.icechunk.source import open_icechunk, reopen_icechunk, reopen_written
from dask_io.formats.icechunk.target import make_icechunk, remake_icechunk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Readback, Source, Target


@dataclass(frozen=True, slots=True)
class IcechunkFormat:
    """Directories that hold snapshots of Zarr arrays, and what names them."""

    name: str = "icechunk"
    suffixes: tuple[str, ...] = (".icechunk",)

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open an array; only its metadata is read yet."""
        return open_icechunk(path, inside, strict=strict)

    def make(
        self,
        path: Location,
        inside: str,
        wanted: NewArray,
        *,
        overwrite: bool,
        durability: Durability,
        reserve: bool,  # noqa: ARG002 - icechunk writes chunks at once
    ) -> Target:
        """Describe a target."""
        return make_icechunk(path, inside, wanted, overwrite=overwrite, durability=durability)

    def reopen(
        self,
        described: Mapping[str, Any],
        at: Location | None,
        absent: AbstractSet[tuple[int, ...]],  # noqa: ARG002 - no snapshot ever loses a chunk
    ) -> Source:
        """Open a source again."""
        return reopen_icechunk(described, at)

    def read_back(self, described: Mapping[str, Any], at: Location) -> Readback:
        """Open what was a target."""
        return reopen_written(described, at)

    def remake(
        self,
        described: Mapping[str, Any],
        at: Location,
        *,
        durability: Durability,
        reserve: bool,  # noqa: ARG002 - as above
    ) -> Target:
        """Describe a target again."""
        return remake_icechunk(described, at, durability=durability)


FORMAT = IcechunkFormat()
