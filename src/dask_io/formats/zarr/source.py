"""Reading a Zarr array."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import MOST_NAMES, DataError, StorageError, UsageError, list_names
from dask_io.formats.zarr.documents import (
    V2,
    V3,
    attributes_of,
    is_group,
    leads_into,
    read_documents,
)
from dask_io.formats.zarr.metadata import understand
from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.store import DocumentedArray, read_description
from dask_io.storage.files import medium_of
from dask_io.storage.location import is_url
from dask_io.stores.chunk_finder import ChunkFinder
from dask_io.stores.chunked_source import ChunkedSource, Chunks, Located

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.formats.zarr.metadata import ZarrArray
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Reader
    from dask_io.storage.tally import Tally
    from dask_io.stores.encoded import AsStored

# The most chunks that are counted one by one when a run is planned: it takes some tenths of a
# second.
_MOST_LISTED = 2**16


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
        site.refuse_consumed()
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
    if not leads_into(site.root, site.path.resolve()):
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
    return list_names(f"{above}/{name}" for name in sorted(names))


class ZarrChunks(Chunks):
    """The chunks or shards of a Zarr array, each in a file or object of its own."""

    format = "zarr"
    is_indivisible = False

    def __init__(self, stored: DocumentedArray) -> None:
        self.stored, self.site, self.array = stored, stored.site, stored.array
        self.spec, self.path = self.array.spec, self.site.root
        self._medium = self.site.medium
        self.bytes_to_read = self._medium.bytes_to_read
        self.is_written_whole = self._medium.writes_whole
        self._finder = ChunkFinder(self._medium, self.path)
        self._is_marked = False
        self._lock = Lock()

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

    @cached_property
    def n_bytes_on_disk(self) -> int:
        """Bytes of all files of the array."""
        return sum(size for _, size in self.site.files())

    @cached_property
    def n_stored(self) -> int | None:
        """Number of stored chunks; None of many, and where listing takes requests."""
        if is_url(self.place) or self.spec.write_grid.n_blocks > _MOST_LISTED:
            return None
        return sum(1 for _ in self.unchecked())

    def describe(self) -> dict[str, Any]:
        """Return place and documents."""
        return self.stored.describe(self.format)

    def locate(self, index: tuple[int, ...]) -> Located | None:
        """Return the file of a chunk or a shard.

        Raises
        ------
        DataError
            If it is not a regular file in the array's directory.
        """
        return self._finder.locate(self.array.keys.name_of(index))

    def open(self, located: Located, tally: Tally) -> Reader:
        """Open the file of a chunk or a shard."""
        return self._medium.reader(located.path, tally)

    def identify(self, index: tuple[int, ...]) -> str:
        """Return name, size and mark of a file."""
        return self._finder.identify(self.array.keys.name_of(index))

    def unchecked(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield all chunks or shards that are stored."""
        for name, _ in self.site.files():
            index = self.array.keys.parse(name)
            if index is not None and index in self.spec.write_grid:
                yield name, index

    def list_again(self) -> None:
        """Drop the cached listing of objects."""
        self._finder.list_again()

    def discard(self, index: tuple[int, ...]) -> None:
        """Remove a chunk's file, if it exists."""
        with self._lock:
            if not self._is_marked:
                # From now on, missing chunks must not be read as the fill value.
                self.site.mark_consumed()
                self._is_marked = True
        self._medium.remove([self.path / self.array.keys.name_of(index)])

    def discard_rest(self) -> None:
        """Remove metadata and journal, and the directory if it is empty."""
        names = map(self.array.keys.name_of, self.spec.write_grid.indices())
        self.site.clear(self.path / name for name in names)
