"""Reading an array of a snapshot."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import icechunk

from dask_io.codecs.chain import Chain
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
from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.source import is_same_array
from dask_io.formats.zarr.store import DocumentedArray, read_description
from dask_io.stores.chunked_source import ChunkedSource, Chunks, FetchedBytes, Located

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.storage.location import Location
    from dask_io.storage.tally import Tally
    from dask_io.stores.encoded import AsStored
    from dask_io.stores.spec import ArraySpec

# Both icechunk and Python hold the bytes that are read, and may not release them at once.
_N_COPIES = 3


def open_icechunk(path: Location, inside: str, *, strict: bool) -> ChunkedSource[IcechunkChunks]:
    """Open an array of a repository.

    Raises
    ------
    DataError
        If there is no array, or it is damaged or not supported.
    UsageError
        If it is a group, or the version does not exist.
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
        chunks = IcechunkChunks(DocumentedArray(site, documents), tree)
    except ValueError as error:
        raise DataError(place, [str(error)]) from error
    return ChunkedSource(chunks, strict=strict)


def reopen_icechunk(
    described: Mapping[str, Any],
    at: Location | None,
    absent: AbstractSet[tuple[int, ...]] = frozenset(),  # noqa: ARG001 - a snapshot keeps all
) -> ChunkedSource[IcechunkChunks]:
    """Open a described array again.

    A source is the same snapshot, whatever was committed after it. A target is the current state
    of its branch.

    Raises
    ------
    ValueError
        If the description is invalid.
    DataError
        If the snapshot no longer exists, or the branch has another array.
    """
    return ChunkedSource(_reopen_chunks(described, at), strict=described.get("strict") is True)


def reopen_written(
    described: Mapping[str, Any], at: Location
) -> ChunkedSource[IcechunkChunks] | AsStored:
    """Open a former target, to verify its checksums."""
    return reopen_icechunk(described, at).as_written()


def _reopen_chunks(described: Mapping[str, Any], at: Location | None) -> IcechunkChunks:
    stored = read_description(described, at)
    path, (version, array) = stored.site.path, Address.parse(stored.site.inside)
    repository = open_repository(path)
    snapshot = described.get("snapshot") or find_snapshot(repository, path, version)
    tree = _tree_at(repository, path, str(snapshot))
    found = tree.documents(array)
    if not is_same_array(found, stored.array):
        problem = "is not the same array as before" if found else "is not an array any more"
        raise DataError(place_of(stored.site), [problem])
    return IcechunkChunks(stored, tree)


def _tree_at(repository: icechunk.Repository, path: Location, snapshot: str) -> Tree:
    with repository_errors(str(path)):
        return Tree(repository.readonly_session(snapshot_id=snapshot), path)


def _which_array(site: Place, members: list[str]) -> str:
    above = place_of(site).rstrip("/")
    if not members:
        return f"{place_of(site)} is a group without arrays"
    listed = list_names(f"{above}/{name}" for name in members)
    return f"{place_of(site)} is a group; give an array in it, such as {listed}"


def whole_chunks(spec: ArraySpec) -> ArraySpec:
    """Return the description of an array whose chunks are always read and written whole."""
    codec = spec.codec or Chain((), spec.dtype, spec.chunk_bytes)
    return replace(spec, codec=codec, encoding=None)


class IcechunkChunks(Chunks):
    """The chunks or shards of an array of a snapshot, which icechunk reads.

    Chunks in files outside the repository are not supported.
    """

    format = "icechunk"
    reads_into_staging = False

    def __init__(self, stored: DocumentedArray, tree: Tree) -> None:
        self.stored, self.site, self.array, self.tree = stored, stored.site, stored.array, tree
        self.address, self.spec = Address.parse(self.site.inside), whole_chunks(self.array.spec)
        self.bytes_to_read = _N_COPIES * self.spec.longest

    def __reduce__(self) -> tuple[Callable[..., IcechunkChunks], tuple[dict[str, Any], Location]]:
        # Sessions cannot be pickled: the snapshot is opened again.
        return _reopen_chunks, (self.describe(), self.site.root)

    @property
    def place(self) -> str:
        """The repository, and the array in it."""
        return place_of(self.site)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the array, and the snapshot."""
        return {**self.array.described(), "snapshot": self.tree.session.snapshot_id}

    def describe(self) -> dict[str, Any]:
        """Return place, documents and snapshot."""
        return {**self.stored.describe(self.format), "snapshot": self.tree.session.snapshot_id}

    @cached_property
    def n_bytes_on_disk(self) -> int:
        """Bytes of the array's chunks and metadata."""
        return self.tree.size_below(self.address.array)

    @cached_property
    def n_stored(self) -> int:
        """Number of stored chunks or shards."""
        return len(self.tree.chunks(self.address.array))

    def locate(self, index: tuple[int, ...]) -> Located | None:
        """Return the key of a chunk or a shard.

        Raises
        ------
        DataError
            If it is outside the repository.
        """
        kind = self.tree.kind(self.address.array, index)
        if kind == icechunk.ChunkType.UNINITIALIZED:
            return None
        name = self.array.keys.name_of(index)
        if kind == icechunk.ChunkType.VIRTUAL:
            problem = f"{name} is in a file outside the repository, which is not read"
            raise DataError(self.place, [problem], "copy it into the repository first")
        key = self.address.key(name)
        return Located(self.tree.path / key, self.tree.size(key))

    def open(self, located: Located, tally: Tally) -> FetchedBytes:
        """Visit a chunk or a shard."""
        place = str(located.path)
        key = place.removeprefix(f"{self.tree.path}/")
        fetch = lambda start, stop: self.tree.read(key, start, stop).data  # noqa: E731 - shorter
        return FetchedBytes(place, located.n_bytes, fetch, tally)

    def identify(self, index: tuple[int, ...]) -> str:  # noqa: ARG002 - as of the whole snapshot
        """Return the snapshot, which never changes."""
        return f"{self.tree.session.snapshot_id}\0{self.address.array}"

    def unchecked(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield all chunks or shards that are stored."""
        for index in self.tree.chunks(self.address.array):
            yield self.array.keys.name_of(index), index
