"""Reading a Zarr array."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property
from math import prod
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64_intdigest

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
from dask_io.formats.zarr.shards import Shards
from dask_io.formats.zarr.store import ZarrStore, read_description
from dask_io.storage.files import medium_of
from dask_io.storage.location import is_url
from dask_io.storage.medium import NOT_A_FILE
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.atomic import AtomicReader, Encoding
from dask_io.stores.chunked import Located, bytes_reused, read_chunk
from dask_io.stores.encoded import AsStored, StoredBytes
from dask_io.stores.filled import FilledReader, UnfilledReader
from dask_io.stores.listing import Problems
from dask_io.stores.store import Access, Extent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.formats.zarr.metadata import Metadata
    from dask_io.geometry import Grid, Region
    from dask_io.storage.location import Location
    from dask_io.storage.medium import FileInfo
    from dask_io.stores.encoded import EncodedReader
    from dask_io.stores.store import BlockReader

# Chunks that are looked for one by one when a run is planned: in some tenths of a second.
_MOST_LISTED = 2**16
# Folders that are known to lie in the array's directory: chunks are visited one after another.
_MOST_KNOWN = 1024


def open_zarr(path: Location, inside: str, *, strict: bool) -> ZarrSource:
    """Open an array in a directory, or in a group there.

    Raises
    ------
    DataError
        If its metadata is missing, unfinished, or none that can be trusted or is supported, or if
        a run has begun to use up its chunks.
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
            nothing = "it holds no Zarr array: there is no zarr.json and no .zarray"
            raise DataError(str(root), [nothing])
        site.refuse_consumed()
        return ZarrSource(site, documents, strict=strict)
    except ValueError as error:
        raise DataError(str(root / name), [str(error)]) from error


def reopen_zarr(
    described: Mapping[str, Any], at: Location | None, absent: AbstractSet[tuple[int, ...]]
) -> ZarrSource:
    """Open an array again that was described, of which chunks may have been used up.

    Raises
    ------
    ValueError
        If that is no description.
    DataError
        If the array is not there any more, or another one is.
    """
    site, documents = read_description(described, at)
    source = ZarrSource(site, documents, strict=described.get("strict") is True)
    _refuse_way_out(site)
    found = read_documents(site.root)
    if not found and len(absent) == source.grid.n_blocks:
        return source
    try:
        is_same = bool(found) and understand(found).stored_as == source.array.stored_as
    except ValueError:
        is_same = False
    if not is_same:
        problem = "is not the array that it was" if found else "is no Zarr array any more"
        raise DataError(source.place, [problem])
    return source


def reopen_written(described: Mapping[str, Any], at: Location | None) -> ZarrSource | AsStored:
    """Open an array that was a target, to compare what is in its files with what was written."""
    return as_written(reopen_zarr(described, at, frozenset()))


def as_written(source: ZarrSource) -> ZarrSource | AsStored:
    """Return a former target as a source with the blocks in which it was written."""
    is_whole = source.array.index is not None or source.site.medium.writes_whole
    if not is_whole:
        return source
    return AsStored(source.array.write_grid, source.dtype, source.tally, source.find_stored)


def _refuse_way_out(site: Place) -> None:
    if not leads_into(site.root, site.path.resolve()):
        raise DataError(str(site.root), [f"leads out of {site.path}"])


def _where_to_look(path: Location, inside: str) -> str:
    """Say what to do about a path that is not there."""
    known = _members(path, f"{path}::") if inside and is_group(read_documents(path)) else ""
    return f"name an array of {path}, such as {known}" if known else "check the path"


def _which_array(root: Location, path: Location, inside: str) -> str:
    group = f"{root} is a group"
    known = _members(root, f"{path}::/{inside}".rstrip("/"))
    if not known:
        return f"{group} that holds no array"
    return f"{group}; name an array in it, such as {known}"


def _members(group: Location, above: str) -> str:
    names = []
    for name, is_folder in medium_of(group).names(group).items():
        if is_folder and any((group / name / mark).is_file() for mark in (V3, V2, ".zgroup")):
            names.append(name)
        if len(names) > MOST_NAMES:
            break
    return list_names(f"{above}/{name}" for name in sorted(names))


class ZarrSource(ZarrStore):
    """A Zarr array that is read; any number of chunks may be read at once.

    A chunk that is not stored is filled with the fill value, which costs no visit; if the source
    is `strict` it is an error. A shard's index is read once for all its chunks, as long as the
    indices in use take no more than 16 MiB.
    """

    def __init__(self, site: Place, documents: Mapping[str, bytes], *, strict: bool) -> None:
        super().__init__(site, documents)
        self._strict = strict
        self._folder = self.root.resolve()
        self._medium = site.medium
        self._find_file = self._medium.finder(self.root)
        self._shards = Shards(self.array) if self.array.index else None
        self._left = _Left(self.array)
        self._within: set[Path] = set()
        array = self.array
        self._encoding = Encoding(array.chunks, array.dtype, array.layout, array.chain.decode)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the array says, and the names of what groups around it do, if they are on disk."""
        return MappingProxyType(
            {**super().metadata, "attributes_of_groups": self._attributes_around}
        )

    @cached_property
    def _attributes_around(self) -> tuple[str, ...]:
        found = []
        for folder in self.site.groups if isinstance(self.root, Path) else []:
            with suppress(ValueError, DataError, StorageError):
                found += [f"{folder.name}@{name}" for name in attributes_of(read_documents(folder))]
        return tuple(found)

    def describe(self) -> dict[str, Any]:
        """Return what it takes to open the array again."""
        return {**super().describe(), "strict": self._strict}

    @property
    def grid(self) -> Grid:
        """The chunks; those of a shard are chunks of their own."""
        return self.array.read_grid

    @property
    def access(self) -> Access:
        """A part of a chunk costs its runs, if no codec is in the way."""
        return self.array.access

    @property
    def reused_bytes(self) -> int:
        """What a visit uses of staging besides the region asked for."""
        array, longest = self.array, self.array.chain.longest
        return bytes_reused(self._encoding, array.access, longest, has_padding=array.has_padding)

    @property
    def codec_bytes(self) -> int:
        """What a visit holds besides at most."""
        array = self.array
        if array.access is Access.ADDRESSABLE:
            return self._medium.bytes_to_read
        return self._medium.bytes_to_read + array.chain.decoding_bytes

    @property
    def copying_bytes(self) -> int:
        """What a visit to a file as it is stored holds at most, besides what it returns."""
        return self._medium.bytes_to_read

    @cached_property
    def n_bytes_on_disk(self) -> int:
        """Bytes of all files of the array."""
        return sum(size for _, size in self.site.files())

    @cached_property
    def n_absent(self) -> int | None:
        """Chunks that are not stored; None of shards, of many, and where it takes requests."""
        grid, keys = self.grid, self.array.keys
        if self.array.index or is_url(self.place) or grid.n_blocks > _MOST_LISTED:
            return None
        stored = (keys.parse(name) for name, _ in self.site.files())
        return grid.n_blocks - sum(index is not None and index in grid for index in stored)

    @contextmanager
    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> Iterator[BlockReader]:
        """Visit a chunk.

        Raises
        ------
        DataError
            If it cannot be what it should be by its size, or is missing and may not be.
        """
        array, shape, stored = self.array, self.grid.block(index).shape, self._find(index)
        if stored is None:
            yield FilledReader(array.fill, array.layout)
            return
        how, access = self._encoding, array.access
        with self._medium.reader(stored.path, self.tally) as file:
            visit = read_chunk(file, stored, shape, encoding=how, access=access, after=after)
            if isinstance(visit, AtomicReader):
                yield visit
            else:
                yield UnfilledReader(visit, array.fill, array.layout)

    @contextmanager
    def encoded(self, index: tuple[int, ...]) -> Iterator[EncodedReader | None]:
        """Visit a file, of a chunk or of a shard, as it is stored; None if it is not.

        Raises
        ------
        DataError
            If it is longer than it can be, or is missing and may not be.
        """
        name = self.array.keys.name_of(index)
        path, n_bytes = self.root / name, self.size_of(name)
        if n_bytes is None:
            self._refuse_missing(index, path)
            yield None
            return
        problem = "" if self.array.index else self._wrong_size(n_bytes)
        if problem:
            raise DataError(str(path), [problem])
        if n_bytes > (longest := self.array.file_bytes):
            # A shard may have gaps, but there must be room for all of it.
            problem = f"is too long: it has {n_bytes} bytes, expected {longest} at most"
            raise DataError(str(path), [problem], "choose another strategy than copy")
        with self._medium.reader(path, self.tally) as file:
            yield StoredBytes(file, n_bytes)

    @contextmanager
    def find_stored(self, index: tuple[int, ...]) -> Iterator[StoredBytes | None]:
        """Visit a file, of a chunk or of a shard, whatever it is; None if there is none."""
        name = self.array.keys.name_of(index)
        n_bytes = self.size_of(name)
        if n_bytes is None:
            yield None
            return
        with self._medium.reader(self.root / name, self.tally) as file:
            yield StoredBytes(file, n_bytes)

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a chunk does; those of a shard change together."""
        name = self._name_of(index)
        with storage_errors(self.root / name):
            found = self._find_file(name)
        if found is None:
            return xxh3_64_intdigest(f"{index}\0is not stored".encode())
        last = name.rpartition("/")[2]
        return xxh3_64_intdigest(f"{index}\0{last}\0{found.size}\0{found.mark}".encode())

    def list_again(self) -> None:
        """Drop the cached listing that is used to find objects."""
        self._find_file = self._medium.finder(self.root)

    def discard(self, index: tuple[int, ...]) -> None:
        """Remove a chunk's file, if it is there and holds no chunk that is still needed."""
        if self._left.is_last(index):
            # Whoever opens it from now on is not to take what is gone for the fill value.
            self._left.begin(self.site.mark_consumed)
            self._medium.remove([self.root / self._name_of(index)])

    def discard_rest(self) -> None:
        """Remove metadata and journal, and the directory if nothing else is in it."""
        names = map(self.array.keys.name_of, self.array.write_grid.indices())
        self.site.clear(self.root / name for name in names)

    def _name_of(self, index: tuple[int, ...]) -> str:
        return self.array.keys.name_of(
            self.array.index.shard_of(index) if self.array.index else index
        )

    def _find(self, index: tuple[int, ...]) -> Located | None:
        """Return where a chunk is and the bytes that it takes there; None if it is not stored."""
        array, shards = self.array, self._shards
        name = self._name_of(index)
        path = self.root / name
        found = self._look_at(name)
        if found is None:
            place = None
        elif shards is None:
            place = (0, found.size)
        else:
            place = shards.find(index, path, found.size, found.mark)
        if place is None:
            self._refuse_missing(index, path)
            return None
        offset, n_bytes = place
        problem = self._wrong_size(n_bytes)
        if problem:
            raise DataError(str(path), [problem])
        return Located(path, Extent(name, offset, array.chunks), n_bytes)

    def _refuse_missing(self, index: tuple[int, ...], path: Location) -> None:
        if self._strict:
            missing = f"chunk {','.join(map(str, index))} is missing"
            raise DataError(str(path), [missing], "leave out --strict to fill it in")

    def size_of(self, name: str) -> int | None:
        """Return the bytes of a file in the array's directory, None if there is none."""
        found = self._look_at(name)
        return None if found is None else found.size

    def _look_at(self, name: str) -> FileInfo | None:
        path = self.root / name
        with storage_errors(path):
            found = self._find_file(name)
        if found is None:
            return None
        if not self._is_within(path):
            raise DataError(str(path), [f"leads out of {self.place}"])
        if found.size == NOT_A_FILE:
            raise DataError(str(path), ["is not a file"])
        return found

    def _is_within(self, path: Location) -> bool:
        """Tell whether a chunk lies in the array's directory; folders are looked at once."""
        if not isinstance(path, Path) or path.is_symlink():
            return leads_into(path, self._folder)
        if path.parent not in self._within:
            if not leads_into(path.parent, self._folder):
                return False
            if len(self._within) == _MOST_KNOWN:
                self._within.clear()
            self._within.add(path.parent)
        return True

    def _wrong_size(self, n_bytes: int) -> str:
        """Say why a chunk cannot have so many bytes; empty if it can."""
        right = self.array.chain.longest
        if self.array.access is Access.ADDRESSABLE and n_bytes < right:
            return f"is truncated: its chunk has {n_bytes} bytes, expected {right}"
        if n_bytes > right:
            return f"is too long: its chunk has {n_bytes} bytes, expected {right} at most"
        return ""

    def check(self) -> None:
        """Look at the sizes of all chunks, and at the indices of all shards.

        Raises
        ------
        DataError
            If some cannot be right; it names them all.
        """
        problems, n_found = Problems(self.place), 0
        grid = self.array.write_grid
        for name, size in self.site.files():
            if self.array.has_chunk(name):
                n_found += 1
                for problem in self._problems_with(name, size):
                    problems.add(name, problem)
        if self._strict and n_found < grid.n_blocks:
            missing = f"{grid.n_blocks - n_found} of {grid.n_blocks} files of chunks are missing"
            problems.add(".", missing)
        problems.raise_if_any()

    def _problems_with(self, name: str, size: int) -> Iterator[str]:
        try:
            self.size_of(name)
            shards = self._shards
            sizes = shards.sizes(self.root / name, size) if shards else iter([size])
            yield from filter(None, map(self._wrong_size, sizes))
        except DataError as error:
            yield "; ".join(error.problems)


class _Left:
    """How many chunks of each file are still needed; safe to share between threads."""

    def __init__(self, array: Metadata) -> None:
        self._array = array
        self._n_left: dict[tuple[int, ...], int] = {}
        self._is_begun = False
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[_Left], tuple[Metadata]]:
        # Locks do not travel to other processes.
        return _Left, (self._array,)

    def begin(self, mark: Callable[[], None]) -> None:
        """Have it marked before the first file is removed."""
        with self._lock:
            if not self._is_begun:
                mark()
                self._is_begun = True

    def is_last(self, index: tuple[int, ...]) -> bool:
        """Count a chunk as not needed any more; tell whether its file is not, either."""
        if self._array.index is None:
            return True
        shard = self._array.index.shard_of(index)
        with self._lock:
            n_left = self._n_left.pop(shard, None) or self._count(shard)
            if n_left > 1:
                self._n_left[shard] = n_left - 1
            return n_left == 1

    def _count(self, shard: tuple[int, ...]) -> int:
        """Return how many chunks a shard holds: fewer at the far ends of the array."""
        lengths = zip(self._array.write_grid.block(shard).shape, self._array.chunks, strict=True)
        return prod(-(-length // chunk) for length, chunk in lengths)
