"""Shards: files that hold several chunks, and an index that says where each of them is."""

from __future__ import annotations

from collections import OrderedDict
from itertools import product
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dask_io.errors import DataError
from dask_io.geometry import Region
from dask_io.storage.files import open_reader
from dask_io.storage.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from dask_io.formats.zarr.metadata import Metadata
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Reader

    Visit: TypeAlias = Callable[[Location, Tally], AbstractContextManager[Reader]]

_ABSENT = 2**64 - 1
# Indices that are kept, so that each is read once unless chunks are visited wildly.
_MOST_KEPT = 16 * 2**20


class Shards:
    """The indices of an array's shards, read as they are needed; safe to share between threads.

    `visit` opens a shard, if it is no file. A shard is told from one that takes its place by its
    size and a `mark`.
    """

    def __init__(self, metadata: Metadata, visit: Visit = open_reader) -> None:
        assert metadata.index is not None, "only for arrays in shards"
        self._metadata, self._index = metadata, metadata.index
        self._visit = visit
        self._kept: OrderedDict[tuple[Location, int, str], NDArray[np.uint64]] = OrderedDict()
        self._most = max(1, _MOST_KEPT // self._index.chain.n_bytes)
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Shards], tuple[Metadata, Visit]]:
        # Locks do not travel to other processes.
        return Shards, (self._metadata, self._visit)

    def find(
        self, index: tuple[int, ...], path: Location, size: int, mark: str = ""
    ) -> tuple[int, int] | None:
        """Return offset and bytes of a chunk in its shard, None if it is not stored.

        Raises
        ------
        DataError
            If the index is broken, or says that the chunk lies outside the file.
        """
        entries = self._entries(path, size, mark)
        place = tuple(i % n for i, n in zip(index, self._index.counts, strict=True))
        offset, n_bytes = (int(number) for number in entries[place])
        if (offset, n_bytes) == (_ABSENT, _ABSENT):
            return None
        if offset + n_bytes > size:
            chunk = ",".join(map(str, index))
            problem = f"its index says that chunk {chunk} ends behind it"
            raise DataError(str(path), [problem], "the file is truncated or damaged")
        return offset, n_bytes

    def sizes(self, path: Location, size: int) -> Iterator[int]:
        """Yield the bytes of every chunk that a shard holds."""
        # As many as the index has entries, not as many as metadata may speak of.
        *counts, _ = self._entries(path, size).shape
        for place in product(*map(range, counts)):
            found = self.find(place, path, size)
            if found is not None:
                yield found[1]

    def _entries(self, path: Location, size: int, mark: str = "") -> NDArray[np.uint64]:
        shard = path, size, mark
        with self._lock:
            if shard in self._kept:
                self._kept.move_to_end(shard)
                return self._kept[shard]
            entries = self._kept[shard] = self._read(path, size)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return entries

    def _read(self, path: Location, size: int) -> NDArray[np.uint64]:
        chain, counts = self._index.chain, self._index.counts
        n_encoded = chain.longest
        if size < n_encoded:
            problem = f"is truncated: it has {size} bytes, but its index alone {n_encoded}"
            raise DataError(str(path), [problem])
        buffer, decoded = np.empty(n_encoded, np.uint8), np.empty(chain.n_bytes, np.uint8)
        offset = size - n_encoded if self._index.at_end else 0
        # As a header it is not counted.
        with self._visit(path, Tally()) as file:
            encoded = np.frombuffer(file.read(offset, n_encoded, buffer.data), np.uint8)
        try:
            chain.decode(encoded, decoded)
        except ValueError as error:
            raise DataError(str(path), [f"its index {error}"]) from error
        return decoded.view(self._index.dtype).reshape(*counts, 2)


def pack(
    shard: NDArray[Any],
    metadata: Metadata,
    encode: Callable[[NDArray[Any]], NDArray[np.uint8] | None],
) -> Iterator[NDArray[np.uint8]]:
    """Yield what makes up a shard's file, one piece after another: its chunks, then its index.

    `encode` returns None for a chunk that is to be left out. Nothing is yielded if all are.
    """
    assert metadata.index is not None, "only for arrays in shards"
    assert metadata.index.at_end, "we write the index last"
    counts, chunks = metadata.index.counts, metadata.chunks
    entries = np.full((*counts, 2), _ABSENT, metadata.index.dtype)
    offset = 0
    for place in product(*map(range, counts)):
        low = [i * n for i, n in zip(place, chunks, strict=True)]
        high = [min(a + n, m) for a, n, m in zip(low, chunks, shard.shape, strict=True)]
        if any(a >= b for a, b in zip(low, high, strict=True)):
            continue
        encoded = encode(shard[Region(tuple(low), tuple(high)).slices])
        if encoded is not None:
            entries[place] = offset, encoded.nbytes
            offset += encoded.nbytes
            yield encoded
    if offset:
        yield metadata.index.chain.encode(entries.reshape(-1).view(np.uint8))
