"""Reading a Zarr array."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import MOST_NAMES, DataError, StorageError, UsageError, list_names
from dask_io.formats.zarr.documents import (
    V2,
    V3,
    attributes_of,
    is_group,
    read_documents,
)
from dask_io.formats.zarr.metadata import understand
from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.store import DocumentedArray, read_description
from dask_io.storage.files import medium_of
from dask_io.stores.chunk_files import ChunkFiles
from dask_io.stores.chunked_source import ChunkedSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.formats.zarr.metadata import ZarrArray
    from dask_io.storage.location import Location
    from dask_io.stores.encoded import AsStored


def open_zarr(path: Location, inside: str, *, strict: bool) -> ChunkedSource[ZarrChunks]:
    """Open an array in a directory, or in a group of one.

    Raises
    ------
    DataError
        If its metadata is missing, damaged or not supported, or if a run is consuming it.
    UsageError
        If it is a group.
    """
    site = Place(path, inside)
    root = site.root
    _refuse_way_out(site)
    documents = read_documents(root)
    if not documents and not root.is_dir():
        raise StorageError(str(root), "no such directory", _where_to_look(path, inside))
    name = V3 if V3 in documents else V2
    try:
        if is_group(documents):
            raise UsageError(_which_array(root, path, inside))
        if name not in documents:
            nothing = "it contains no Zarr array: zarr.json and .zarray are missing"
            raise DataError(str(root), [nothing])
        site.folder.refuse_consumed()
        return ChunkedSource(ZarrChunks(DocumentedArray(site, documents)), strict=strict)
    except ValueError as error:
        raise DataError(str(root / name), [str(error)]) from error


def reopen_zarr(
    described: Mapping[str, Any], at: Location | None, absent: AbstractSet[tuple[int, ...]]
) -> ChunkedSource[ZarrChunks]:
    """Open a described array again; chunks may have been consumed.

    Raises
    ------
    ValueError
        If the description is invalid.
    DataError
        If the array no longer exists, or is another one.
    """
    stored = read_description(described, at)
    chunks, root = ZarrChunks(stored), stored.site.root
    _refuse_way_out(stored.site)
    found = read_documents(root)
    is_consumed = not found and len(absent) == chunks.spec.grid.n_blocks
    if not is_consumed and not is_same_array(found, stored.array):
        problem = "is not the same array as before" if found else "is not a Zarr array any more"
        raise DataError(chunks.place, [problem])
    return ChunkedSource(chunks, strict=described.get("strict") is True)


def reopen_written(
    described: Mapping[str, Any], at: Location
) -> ChunkedSource[ZarrChunks] | AsStored:
    """Open a former target, to verify its checksums."""
    return reopen_zarr(described, at, frozenset()).as_written()


def is_same_array(documents: Mapping[str, bytes], array: ZarrArray) -> bool:
    """Tell whether documents describe an array with the same chunks."""
    try:
        return bool(documents) and understand(documents).stored_as == array.stored_as
    except ValueError:
        return False


def _refuse_way_out(site: Place) -> None:
    if site.leads_out():
        raise DataError(str(site.root), [f"leads out of {site.path}"])


def _where_to_look(path: Location, inside: str) -> str:
    """Return advice about a path that does not exist."""
    known = _members(path, f"{path}::") if inside and is_group(read_documents(path)) else ""
    return f"give an array of {path}, such as {known}" if known else "check the path"


def _which_array(root: Location, path: Location, inside: str) -> str:
    group = f"{root} is a group"
    known = _members(root, f"{path}::/{inside}".rstrip("/"))
    if not known:
        return f"{group} without arrays"
    return f"{group}; give an array in it, such as {known}"


def _members(group: Location, above: str) -> str:
    names = []
    for name, is_folder in medium_of(group).names(group).items():
        if is_folder and any((group / name / mark).is_file() for mark in (V3, V2, ".zgroup")):
            names.append(name)
        if len(names) > MOST_NAMES:
            break
    names.sort(key=lambda name: (_is_coordinate_at(group / name), name))
    return list_names(f"{above}/{name}" for name in names)


def _is_coordinate_at(root: Location) -> bool:
    """Tell whether an array holds the values of its own dimension."""
    with suppress(ValueError, DataError, StorageError):
        return understand(read_documents(root)).dimension_names == (root.name,)
    return False


class ZarrChunks(ChunkFiles):
    """The chunks or shards of a Zarr array, each in a file or object of its own."""

    format = "zarr"

    def __init__(self, stored: DocumentedArray) -> None:
        self.stored, self.site, self.array = stored, stored.site, stored.array
        super().__init__(self.site.folder, self.array.spec, self.array.keys)

    def __reduce__(self) -> tuple[type[ZarrChunks], tuple[DocumentedArray]]:
        # Locks cannot be pickled.
        return ZarrChunks, (self.stored,)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the array, and names of attributes of the groups around it, on disk."""
        groups = {"attributes_of_groups": self._attributes_around}
        return MappingProxyType({**self.array.described(), **groups})

    @cached_property
    def _attributes_around(self) -> tuple[str, ...]:
        found = []
        for folder in self.site.groups if isinstance(self.path, Path) else []:
            with suppress(ValueError, DataError, StorageError):
                found += [f"{folder.name}@{name}" for name in attributes_of(read_documents(folder))]
        return tuple(found)

    def describe(self) -> dict[str, Any]:
        """Return place and documents."""
        return self.stored.describe(self.format)

    def discard_rest(self) -> None:
        """Remove the rest of the array, also from groups that consolidate it."""
        super().discard_rest()
        self.site.update_groups()
