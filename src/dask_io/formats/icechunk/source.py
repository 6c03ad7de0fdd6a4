"""Reading an array of a snapshot."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import icechunk
from xxhash import xxh3_64_intdigest

from dask_io.errors import DataError, UsageError, list_names
from dask_io.formats.icechunk.repository import (
    Address,
    Tree,
    find_snapshot,
    open_repository,
    place_of,
    repository_errors,
)
from dask_io.formats.zarr.documents import is_group
from dask_io.formats.zarr.metadata import understand
from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.shards import Shards
from dask_io.formats.zarr.store import ZarrStore, read_description
from dask_io.storage.tally import Visit
from dask_io.stores.atomic import AtomicReader, Encoding, bytes_to_decode
from dask_io.stores.encoded import AsStored, StoredBytes
from dask_io.stores.filled import FilledReader
from dask_io.stores.listing import Problems
from dask_io.stores.store import Access, Extent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dask_io.geometry import Grid, Region
    from dask_io.storage.location import Location
    from dask_io.storage.tally import Tally
    from dask_io.stores.store import BlockReader

# What is read is held by icechunk and by Python, and what was read before not always given back.
_N_COPIES = 3


def open_icechunk(path: Location, inside: str, *, strict: bool) -> IcechunkSource:
    """Open an array of a repository.

    Raises
    ------
    DataError
        If it has none there, or none that can be trusted or is supported.
    UsageError
        If it is a group, or there is no such version.
    """
    site, (version, array) = Place(path, inside), Address.parse(inside)
    repository = open_repository(path)
    tree = _tree_at(repository, path, find_snapshot(repository, path, version))
    documents = tree.documents(array)
    place = place_of(site)
    try:
        if is_group(documents) or (not array and not documents):
            raise UsageError(_which_array(site, tree.members(array)))
        if not documents:
            raise DataError(place, ["there is no array of this name"])
        return IcechunkSource(site, documents, tree, strict=strict)
    except ValueError as error:
        raise DataError(place, [str(error)]) from error


def reopen_icechunk(described: Mapping[str, Any], at: Location | None) -> IcechunkSource:
    """Open an array again that was described.

    A source is the same snapshot, whatever came after it. What was a target is what its branch
    has now.

    Raises
    ------
    ValueError
        If that is no description.
    DataError
        If the snapshot is not there any more, or the branch has another array.
    """
    site, documents = read_description(described, at)
    path, (version, array) = site.path, Address.parse(site.inside)
    repository = open_repository(path)
    snapshot = described.get("snapshot") or find_snapshot(repository, path, version)
    tree = _tree_at(repository, path, str(snapshot))
    found = tree.documents(array)
    try:
        is_same = bool(found) and understand(found).stored_as == understand(documents).stored_as
    except ValueError:
        is_same = False
    if not is_same:
        problem = "is not the array that it was" if found else "is no array any more"
        raise DataError(place_of(site), [problem])
    return IcechunkSource(site, documents, tree, strict=described.get("strict") is True)


def reopen_written(described: Mapping[str, Any], at: Location) -> IcechunkSource | AsStored:
    """Open an array that was a target, to compare what is stored with what was written."""
    source = reopen_icechunk(described, at)
    if not source.array.index:
        return source
    return AsStored(source.array.write_grid, source.dtype, source.tally, source.find_stored)


def _tree_at(repository: icechunk.Repository, path: Location, snapshot: str) -> Tree:
    with repository_errors(str(path)):
        return Tree(repository.readonly_session(snapshot_id=snapshot), path)


def _which_array(site: Place, members: list[str]) -> str:
    above = place_of(site).rstrip("/")
    if not members:
        return f"{place_of(site)} is a group that holds no array"
    listed = list_names(f"{above}/{name}" for name in members)
    return f"{place_of(site)} is a group; name an array in it, such as {listed}"


class IcechunkSource(ZarrStore):
    """An array of a snapshot that is read; any number of chunks may be read at once.

    A chunk is read whole, by icechunk; one in a shard by its place there. A chunk that is not
    stored is filled with the fill value, which costs no visit; if the source is `strict` it is an
    error, and so is always a chunk that lies in a file outside the repository.
    """

    def __init__(
        self, site: Place, documents: Mapping[str, bytes], tree: Tree, *, strict: bool
    ) -> None:
        super().__init__(site, documents)
        self.address, self.tree, self._strict = Address.parse(site.inside), tree, strict
        array = self.array
        self._encoding = Encoding(array.chunks, array.dtype, array.layout, array.chain.decode)
        self._shards = Shards(array, self._visit) if array.index else None

    def __reduce__(self) -> tuple[Callable[..., IcechunkSource], tuple[dict[str, Any], Location]]:
        # Sessions do not travel to other processes: the snapshot is opened anew.
        return reopen_icechunk, (self.describe(), self.root)

    @property
    def place(self) -> str:
        """The repository, and the array in it."""
        return place_of(self.site)

    @property
    def format(self) -> str:
        """Name of the format."""
        return "icechunk"

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What any Zarr array says about itself, and the snapshot."""
        return {**super().metadata, "snapshot": self._snapshot}

    def describe(self) -> dict[str, Any]:
        """Return what it takes to open the array again."""
        return {**super().describe(), "strict": self._strict, "snapshot": self._snapshot}

    @property
    def _snapshot(self) -> str:
        return self.tree.session.snapshot_id

    @property
    def grid(self) -> Grid:
        """The chunks; those of a shard are chunks of their own."""
        return self.array.read_grid

    @property
    def access(self) -> Access:
        """A part of a chunk means that all of it is read."""
        return Access.ATOMIC

    @property
    def is_indivisible(self) -> bool:
        """Nothing is ever removed from a snapshot."""
        return True

    @property
    def reused_bytes(self) -> int:
        """What a visit uses of staging besides the region asked for."""
        return bytes_to_decode(self.array.chunk_bytes, 0)

    @property
    def codec_bytes(self) -> int:
        """What a visit holds besides at most."""
        chain = self.array.chain
        return _N_COPIES * chain.longest + chain.decoding_bytes

    @cached_property
    def n_bytes_on_disk(self) -> int:
        """Bytes of the array's chunks and of what describes it."""
        return self.tree.size_below(self.address.array)

    @cached_property
    def n_absent(self) -> int | None:
        """Chunks that are not stored; None of shards."""
        if self._shards is not None:
            return None
        return self.grid.n_blocks - len(self.tree.chunks(self.address.array))

    @contextmanager
    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> Iterator[BlockReader]:
        """Visit a chunk.

        Raises
        ------
        DataError
            If it cannot be what it should be by its size, lies elsewhere, or is missing and may
            not be.
        """
        array, found = self.array, self._find(index)
        if found is None:
            yield FilledReader(array.fill, array.layout)
            return
        key, offset, n_bytes = found
        with _Visit(self.tree, key, self.tally) as visit:
            if after is not None:
                visit.go_on_from(offset)
            extent = Extent(key, offset, array.chunks)
            place, shape = self.tree.path / key, self.grid.block(index).shape
            yield AtomicReader(visit, place, extent, n_bytes, shape, self._encoding)

    @contextmanager
    def find_stored(self, index: tuple[int, ...]) -> Iterator[StoredBytes | None]:
        """Visit a shard as it is stored; None if it is not."""
        n_bytes = self.size_of(index)
        if n_bytes is None:
            yield None
            return
        key = self.address.key(self.array.keys.name_of(index))
        with _Visit(self.tree, key, self.tally) as visit:
            yield StoredBytes(visit, n_bytes)

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that is another for every chunk, and in every snapshot."""
        return xxh3_64_intdigest(f"{self._snapshot}\0{self.address.array}\0{index}".encode())

    def discard(self, index: tuple[int, ...]) -> None:  # noqa: ARG002 - none can be
        """Refuse: a repository keeps its history."""
        raise UsageError("an icechunk repository keeps its history, so nothing can be consumed")

    def discard_rest(self) -> None:
        """Keep the rest."""

    def _find(self, index: tuple[int, ...]) -> tuple[str, int, int] | None:
        """Return the key of a chunk, and where it begins and how long it is there."""
        array = self.array
        stored = array.index.shard_of(index) if array.index else index
        key = self.address.key(array.keys.name_of(stored))
        place: tuple[int, int] | None = None
        size = self.size_of(stored)
        if size is not None:
            path = self.tree.path / key
            place = (0, size) if self._shards is None else self._shards.find(index, path, size)
        if place is None:
            if self._strict:
                missing = f"chunk {','.join(map(str, index))} is missing"
                raise DataError(self.place, [missing], "leave out --strict to fill it in")
            return None
        if problem := self._wrong_size(place[1]):
            raise DataError(f"{self.tree.path}/{key}", [problem])
        return key, *place

    def size_of(self, stored: tuple[int, ...]) -> int | None:
        """Return the bytes of a chunk or shard, None if it is not stored.

        Raises
        ------
        DataError
            If it lies outside the repository.
        """
        kind = self.tree.kind(self.address.array, stored)
        if kind == icechunk.ChunkType.UNINITIALIZED:
            return None
        if kind == icechunk.ChunkType.VIRTUAL:
            name = self.array.keys.name_of(stored)
            problem = f"{name} is in a file outside the repository, which is not read"
            raise DataError(self.place, [problem], "copy it into the repository first")
        return self.tree.size(self.address.key(self.array.keys.name_of(stored)))

    def _visit(self, path: Location, tally: Tally) -> _Visit:
        """Visit what a path in the repository stands for."""
        return _Visit(self.tree, str(path).removeprefix(f"{self.tree.path}/"), tally)

    def _wrong_size(self, n_bytes: int) -> str:
        """Say why a chunk cannot have so many bytes; empty if it can."""
        longest = self.array.chain.longest
        if n_bytes <= longest:
            return ""
        return f"is too long: its chunk has {n_bytes} bytes, expected {longest} at most"

    def check(self) -> None:
        """Look at the sizes of all chunks, and at the indices of all shards.

        Raises
        ------
        DataError
            If some cannot be right; it names them all.
        """
        problems, grid = Problems(self.place), self.array.write_grid
        stored = self.tree.chunks(self.address.array)
        for index in stored:
            name = self.array.keys.name_of(index)
            for problem in self._problems_with(index, self.tree.path / self.address.key(name)):
                problems.add(name, problem)
        if self._strict and len(stored) < grid.n_blocks:
            missing = f"{grid.n_blocks - len(stored)} of {grid.n_blocks} chunks are missing"
            problems.add(".", missing)
        problems.raise_if_any()

    def _problems_with(self, index: tuple[int, ...], path: Location) -> Iterator[str]:
        try:
            size = self.size_of(index) or 0
            sizes = self._shards.sizes(path, size) if self._shards else iter([size])
            yield from filter(None, map(self._wrong_size, sizes))
        except DataError as error:
            yield "; ".join(error.problems)


class _Visit(Visit):
    """One visit to a chunk or a shard, which is read as a file is."""

    def __init__(self, tree: Tree, key: str, tally: Tally) -> None:
        super().__init__(tally, tally.read)
        self._tree, self._key = tree, key

    @property
    def size(self) -> int:
        """Bytes of it."""
        return self._tree.size(self._key)

    def expect(self, start: int, stop: int) -> None:
        """Leave it to icechunk what to read at once."""

    def peek(self, n_bytes: int) -> bytes:
        """Return the first bytes, without counting."""
        return self._tree.read(self._key, 0, n_bytes).tobytes()

    def peek_into(
        self,
        buffer: memoryview,  # noqa: ARG002 - icechunk has its own
        n_bytes: int,
        *,
        to_end: bool = False,  # noqa: ARG002 - its size is known
    ) -> memoryview:
        """Return the first bytes, without counting."""
        return self._tree.read(self._key, 0, n_bytes).data

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:  # noqa: ARG002 - as above
        """Read bytes from an offset on, into memory of icechunk's."""
        self.count(offset, n_bytes)
        found = self._tree.read(self._key, offset, offset + n_bytes)
        if found.nbytes < n_bytes:
            problem = f"ends {n_bytes - found.nbytes} bytes before the data does"
            place = f"{self._tree.path}/{self._key}"
            raise DataError(place, [problem], "the repository is damaged")
        return found.data

    def read_runs(self, runs: Iterable[tuple[int, int]], buffer: memoryview) -> None:
        """Read runs, each an offset and a number of bytes, one behind the other."""
        for offset, n_bytes in runs:
            buffer[:n_bytes] = self.read(offset, n_bytes, buffer)
            buffer = buffer[n_bytes:]
