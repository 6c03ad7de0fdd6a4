"""Writing a Zarr array."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.formats.zarr.create import describe_new
from dask_io.formats.zarr.documents import read_documents
from dask_io.formats.zarr.metadata import understand
from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.source import ZarrChunks
from dask_io.formats.zarr.store import DocumentedArray, read_description
from dask_io.stores.chunk_files import ChunkFilesTarget, is_valid
from dask_io.stores.chunked_source import ChunkedSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.stores.container import NewArray
    from dask_io.stores.encoded import AsStored


def make_zarr(
    path: Location,
    inside: str,
    wanted: NewArray,
    *,
    overwrite: bool,
    durability: Durability,
    reserve: bool,
) -> ZarrTarget:
    """Describe an array in a directory, or in a group of one; nothing is touched.

    Raises
    ------
    UsageError
        If Zarr cannot hold it, or does not support an option.
    """
    place = Place(path, inside)
    return ZarrTarget(
        DocumentedArray(place, describe_new(_as_around(place, wanted))),
        write_empty=wanted.options.write_empty,
        overwrite=overwrite,
        durability=durability,
        reserve=reserve,
    )


def _as_around(place: Place, wanted: NewArray) -> NewArray:
    """Use the Zarr version of the groups around the array, or readers would not find it."""
    version, options = place.version_around(), wanted.options
    if version is None:
        return wanted
    if options.format_version not in {None, version}:
        raise UsageError(
            f"{place.path} is a group of Zarr {version}, in which readers find no "
            f"array of version {options.format_version}; choose version {version}, or another place"
        )
    return replace(wanted, options=replace(options, format_version=version))


def remake_zarr(
    described: Mapping[str, Any], at: Location, *, durability: Durability, reserve: bool
) -> ZarrTarget:
    """Describe a target of an earlier run again.

    Raises
    ------
    ValueError
        If the description is invalid.
    """
    return ZarrTarget(
        read_description(described, at),
        write_empty=described.get("write_empty") is True,
        overwrite=False,
        durability=durability,
        reserve=reserve,
    )


class ZarrTarget(ChunkFilesTarget):
    """A Zarr array that is written; the metadata is written last."""

    format = "zarr"

    def __init__(
        self,
        stored: DocumentedArray,
        *,
        write_empty: bool,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> None:
        self.stored, self.site, self.array = stored, stored.site, stored.array
        super().__init__(
            self.site.folder,
            self.array.spec,
            self.array.keys,
            write_empty=write_empty,
            overwrite=overwrite,
            durability=durability,
            reserve=reserve,
        )

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the array."""
        return MappingProxyType(self.array.described())

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the target can be created again."""
        return {**self.stored.describe(self.format), "write_empty": self.write_empty}

    def look_back(self) -> ChunkedSource[ZarrChunks] | AsStored:
        """Open the written array, even if its metadata has changed."""
        return ChunkedSource(ZarrChunks(self.stored)).as_written()

    def is_described(self) -> bool:
        """Tell whether the array's metadata is valid."""
        return is_valid(lambda: understand(read_documents(self.site.root)))

    def _check_place(self, *, is_new: bool) -> None:
        # A run that writes a whole group makes its arrays while the group is unfinished.
        (self.site.refuse_neighbours if is_new else self.site.refuse_way_out)()

    def _old_files(self) -> list[Location]:
        return self.site.old_files()

    def _remove_old(self, old: list[Location]) -> None:
        self.site.remove(old)

    def _complete(self) -> None:
        self.site.describe(self.stored.documents)
