"""Reading a scale of a precomputed volume."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property, partial
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import DataError, StorageError, UsageError, list_names
from dask_io.formats.precomputed.names import GZIPPED, ChunkFileNames, could_be_file
from dask_io.formats.precomputed.sharding import ENTRY, bits_of, number_of, unpack_index
from dask_io.formats.precomputed.volume import (
    DOCUMENT,
    document_of,
    find_scale,
    read_scale,
)
from dask_io.storage.location import locate
from dask_io.storage.tally import Tally
from dask_io.stores.chunk_files import ChunkFiles, ChunkFolder
from dask_io.stores.chunked_source import ChunkedSource, Located
from dask_io.stores.json_documents import parse_json, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from dask_io.formats.precomputed.volume import Scale
    from dask_io.storage.location import Location
    from dask_io.stores.encoded import AsStored

FORMAT_NAME = "precomputed"
# Bytes of minishards' indices that are cached, and the largest that is read.
_MOST_CACHED, _LONGEST_INDEX = 16 * 2**20, 64 * 2**20
_ENTRY_BYTES = 24


@dataclass(frozen=True)
class StoredScale:
    """A scale of a volume at a place, as a document with only this scale describes it.

    Raises
    ------
    ValueError
        If it does not describe a supported array; the message completes "the file ...".
    """

    path: Location
    document: bytes

    def __post_init__(self) -> None:
        _ = self.scale

    @cached_property
    def scale(self) -> Scale:
        """The parsed document."""
        info = parse_json(self.document)
        return read_scale(info, find_scale(info, ""))

    @property
    def folder(self) -> ChunkFolder:
        """The files of the volume."""
        return ChunkFolder(self.path, (DOCUMENT,), could_be_file)

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the scale can be opened or created again."""
        return {
            "format": FORMAT_NAME,
            "shape": list(self.scale.spec().grid.shape),
            "folder": str(self.path.absolute()),
            "info": self.document.decode(),
        }


def read_description(described: Mapping[str, Any], at: Location | None) -> StoredScale:
    """Return place and document of a described scale, at its current location.

    Raises
    ------
    ValueError
        If the description is invalid; the message completes "its description ...".
    """
    folder, document = described.get("folder"), described.get("info")
    if not (isinstance(folder, str) and isinstance(document, str)):
        raise ValueError("is not that of a precomputed volume")  # noqa: TRY004 - wrong data
    try:
        return StoredScale(at or locate(folder), document.encode())
    except LookupError as error:
        raise ValueError("is not that of one scale") from error


def open_precomputed(path: Location, inside: str, *, strict: bool) -> ChunkedSource[ChunkFiles]:
    """Open a scale of a volume, by its key or its number.

    Raises
    ------
    DataError
        If the metadata is missing, damaged or not supported, or if a run is consuming the volume.
    UsageError
        If there are several scales, or none with this key.
    """
    info = read_json(path, DOCUMENT)
    if info is None:
        if not path.is_dir():
            raise StorageError(str(path), "no such directory", "check the path")
        raise DataError(str(path), ["it is not a precomputed volume: info is missing"])
    try:
        document = document_of(info, find_scale(info, inside))
        chunks = chunks_of(StoredScale(path, document))
    except LookupError as error:
        keys = list_names(f"{path}::/{key}" for key in error.args[0])
        several = f"{path} has several scales" if not inside else f"{path} has no scale {inside}"
        raise UsageError(f"{several}; give one, such as {keys}") from error
    except ValueError as error:
        raise DataError(str(path / DOCUMENT), [str(error)]) from error
    chunks.folder.refuse_consumed()
    return ChunkedSource(chunks, strict=strict)


def reopen_precomputed(
    described: Mapping[str, Any], at: Location | None, absent: AbstractSet[tuple[int, ...]]
) -> ChunkedSource[ChunkFiles]:
    """Open a described scale again; chunks may have been consumed.

    Raises
    ------
    ValueError
        If the description is invalid.
    DataError
        If the volume no longer exists, or is another one.
    """
    stored = read_description(described, at)
    chunks = chunks_of(stored)
    refuse_other(stored, may_be_gone=len(absent) == chunks.spec.grid.n_blocks)
    return ChunkedSource(chunks, strict=described.get("strict") is True)


def read_back_precomputed(
    described: Mapping[str, Any], at: Location
) -> ChunkedSource[ChunkFiles] | AsStored:
    """Open a former target, to verify its checksums."""
    stored = read_description(described, at)
    refuse_other(stored, may_be_gone=False)
    return ChunkedSource(WrittenFiles(stored)).as_written()


def refuse_other(stored: StoredScale, *, may_be_gone: bool) -> None:
    """Refuse a volume that does not have the described scale any more.

    Raises
    ------
    DataError
        If the scale is missing or another one.
    """
    found = read_json(stored.path, DOCUMENT)
    if found is None and may_be_gone:
        return
    problem = "is not a precomputed volume any more"
    if found is not None:
        problem = "is not the same array as before"
        try:
            scale = read_scale(found, find_scale(found, stored.scale.key))
        except (ValueError, LookupError):
            scale = None
        if scale is not None and scale.stored_as == stored.scale.stored_as:
            return
    raise DataError(str(stored.path), [problem])


def chunks_of(stored: StoredScale) -> ChunkFiles:
    """Return the chunks of a scale, in files of their own or in shards."""
    return PlainChunks(stored) if stored.scale.sharding is None else ShardedChunks(stored)


class ScaleFiles(ChunkFiles):
    """Files of a scale."""

    format = FORMAT_NAME
    stored: StoredScale

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the scale."""
        return MappingProxyType(self.stored.scale.described(self.spec))

    def describe(self) -> dict[str, Any]:
        """Return place and document."""
        return self.stored.describe()

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes of the files of the scale."""
        key = f"{self.stored.scale.key}/"
        return sum(size for name, size in self.folder.files() if name.startswith(key))

    def decoder(self, index: tuple[int, ...]) -> Callable[[Any, Any], None]:
        """Return how to decode a chunk, which is truncated at the edge."""
        return partial(self.stored.scale.codec.decode_shape, self.spec.grid.block(index).shape)


class PlainChunks(ScaleFiles):
    """Chunks of a scale, each in a file or object of its own, some compressed as a whole."""

    def __init__(self, stored: StoredScale) -> None:
        self.stored, scale = stored, stored.scale
        super().__init__(stored.folder, scale.spec(), ChunkFileNames(scale.key, scale.frame))

    def locate(self, index: tuple[int, ...]) -> Located | None:
        """Return the file of a chunk."""
        name = self.names.name_of(index)
        found = self.find(name)
        if found is not None:
            return found._replace(decode=self.decoder(index))
        found = self.find(name + GZIPPED)
        shape = self.spec.grid.block(index).shape
        unzip = partial(self.stored.scale.gzipped.decode_shape, shape)
        return None if found is None else found._replace(decode=unzip)

    def identify(self, index: tuple[int, ...]) -> str:
        """Return name, size and mark of a file."""
        found = self.locate(index)
        if found is None:
            return "is not stored"
        return f"{found.name}\0{found.n_bytes}\0{found.mark}"

    def discard(self, index: tuple[int, ...]) -> None:
        """Remove a chunk's file, if it exists."""
        super().discard(index)
        self.folder.medium.remove([self.path / (self.names.name_of(index) + GZIPPED)])


class ShardedChunks(ScaleFiles):
    """Chunks of a scale in shards; the indices of minishards are read when needed."""

    is_indivisible = True

    def __init__(self, stored: StoredScale) -> None:
        self.stored, scale = stored, stored.scale
        assert scale.sharding is not None, "other chunks have files of their own"
        self._sharding, self._bits = scale.sharding, bits_of(scale.frame.counts)
        super().__init__(stored.folder, scale.spec(), ChunkFileNames(scale.key, scale.frame))

    def _forget(self) -> None:
        super()._forget()
        self._cached: OrderedDict[tuple[Located, int], NDArray[np.uint64]] = OrderedDict()
        self._n_cached, self._reading = 0, Lock()

    def __getstate__(self) -> dict[str, Any]:
        # Locks cannot be pickled.
        left_out = {"_cached", "_n_cached", "_reading"}
        return {key: value for key, value in super().__getstate__().items() if key not in left_out}

    @property
    def n_stored(self) -> None:
        """Unknown: the indices of all shards would have to be read."""

    def unchecked(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield nothing: chunks are checked when they are read."""
        return iter(())

    def discard(self, index: tuple[int, ...]) -> None:  # noqa: ARG002 - never
        """Refuse: a shard contains several chunks."""
        raise UsageError(f"{self.place} has shards, so its chunks cannot be consumed one by one")

    def _shard_of(self, index: tuple[int, ...]) -> tuple[str, int, int]:
        """Return the file of a chunk's shard, its minishard, and its number."""
        scale = self.stored.scale
        number = number_of(scale.frame.xyz(index), self._bits)
        shard, minishard = self._sharding.place_of(number)
        return f"{scale.key}/{self._sharding.file_of(shard)}", minishard, number

    def identify(self, index: tuple[int, ...]) -> str:
        """Return name, size and mark of the shard."""
        found = self.find(self._shard_of(index)[0])
        if found is None:
            return "is not stored"
        return f"{found.name}\0{found.n_bytes}\0{found.mark}"

    def locate(self, index: tuple[int, ...]) -> Located | None:
        """Return where a chunk is in its shard.

        Raises
        ------
        DataError
            If the shard's index is damaged, or the chunk would be outside the file.
        """
        name, minishard, number = self._shard_of(index)
        shard = self.find(name)
        if shard is None:
            return None
        entries = self._entries(shard, minishard)
        at = int(np.searchsorted(entries[0], np.uint64(number)))
        if at == entries.shape[1] or int(entries[0, at]) != number:
            return None
        offset, n_bytes = self._sharding.index_bytes + int(entries[1, at]), int(entries[2, at])
        if offset + n_bytes > shard.n_bytes:
            chunk = ",".join(map(str, index))
            problem = f"according to its index, chunk {chunk} ends after the file does"
            raise DataError(str(shard.path), [problem], "the file is truncated or damaged")
        return shard._replace(offset=offset, n_bytes=n_bytes, decode=self.decoder(index))

    def _entries(self, shard: Located, minishard: int) -> NDArray[np.uint64]:
        with self._reading:
            key = (shard, minishard)
            if key in self._cached:
                self._cached.move_to_end(key)
                return self._cached[key]
            entries = self._cached[key] = self._read(shard, minishard)
            self._n_cached += entries.nbytes
            while self._n_cached > _MOST_CACHED and len(self._cached) > 1:
                _, dropped = self._cached.popitem(last=False)
                self._n_cached -= dropped.nbytes
            return entries

    def _read(self, shard: Located, minishard: int) -> NDArray[np.uint64]:
        start, path = self._sharding.index_bytes, str(shard.path)
        if shard.n_bytes < start:
            problem = f"is truncated: it has {shard.n_bytes} bytes, but its index alone {start}"
            raise DataError(path, [problem])
        place = np.frombuffer(self._fetch(shard, ENTRY * minishard, ENTRY), "<u8")
        low, high = int(place[0]), int(place[1])
        if low == high:
            return np.empty((3, 0), np.uint64)
        most = min(self.spec.grid.n_blocks, _LONGEST_INDEX // _ENTRY_BYTES)
        if low > high or start + high > shard.n_bytes or high - low > _LONGEST_INDEX:
            raise DataError(path, ["has an index with an impossible place"])
        try:
            return unpack_index(self._sharding, self._fetch(shard, start + low, high - low), most)
        except ValueError as error:
            raise DataError(path, [str(error)]) from error

    def _fetch(self, shard: Located, offset: int, n_bytes: int) -> bytes:
        # Like a header, it is not counted.
        with self.open(shard, Tally()) as file:
            return bytes(file.read(offset, n_bytes, memoryview(bytearray(n_bytes + 2 * 4096))))


class WrittenFiles(ScaleFiles):
    """The files of a scale as they are written: chunks, or shards that are boxes."""

    def __init__(self, stored: StoredScale) -> None:
        self.stored, scale = stored, stored.scale
        super().__init__(stored.folder, scale.spec(in_shards=True), scale.names())

    def decoder(self, index: tuple[int, ...]) -> Callable[[Any, Any], None]:
        """Return how to decode a chunk; shards are only compared."""
        return super().decoder(index) if self.spec.index is None else _refuse_to_decode


def _refuse_to_decode(*_: object) -> None:
    raise AssertionError("shards are only compared")
