"""OME-Zarr as a format of targets: images with one level, made from one array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.formats.zarr.ome_source import in_image, open_level
from dask_io.formats.zarr.ome_target import make_image_target, remake_image_target
from dask_io.formats.zarr.source import reopen_written, reopen_zarr

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.store import Readback, Source, Target


@dataclass(frozen=True, slots=True)
class OmeZarrFormat:
    """Groups of Zarr arrays that are the levels of an image; new images have one level."""

    name: str = "ome-zarr"
    suffixes: tuple[str, ...] = (".ome.zarr",)

    def open(self, path: Location, inside: str, *, strict: bool) -> Source:
        """Open a level, or an image that has only one; only metadata is read yet."""
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
        return make_image_target(
            path, inside, wanted, overwrite=overwrite, durability=durability, reserve=reserve
        )

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
        return remake_image_target(described, at, durability=durability, reserve=reserve)


FORMAT = OmeZarrFormat()
