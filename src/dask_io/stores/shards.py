"""Shards: files that contain several chunks, and an index of their offsets and sizes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dask_io.codecs.chain import Chain
from dask_io.errors import DataError
from dask_io.geometry import Region
from dask_io.storage.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from dask_io.codecs.codec import Config
    from dask_io.storage.medium import Reader
    from dask_io.stores.chunked_source import Located
    from dask_io.stores.spec import ArraySpec

    Open: TypeAlias = Callable[[Located, Tally], AbstractContextManager[Reader]]

_ABSENT = 2**64 - 1
# Bytes of indices that are cached, so that each is read once if chunks are visited in order.
_MOST_CACHED = 16 * 2**20


@dataclass(frozen=True)
class ShardIndex:
    """How shards record where their chunks are.

    Attributes
    ----------
    counts
        Chunks of a shard along each axis.
    codecs
        How the index is encoded.
    at_end
        Whether the index is at the end of the shard, not at its start.
    entry_bytes
        Bytes of the index for each chunk, at most.
    """

    counts: tuple[int, ...]
    codecs: tuple[Config, ...]
    at_end: bool
    entry_bytes: int = 16

    def shard_of(self, chunk: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shard that contains a chunk."""
        return tuple(i // n for i, n in zip(chunk, self.counts, strict=True))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an offset or a size."""
        return np.dtype("<u8")

    @cached_property
    def chain(self) -> Chain:
        """How it is encoded."""
        return Chain(self.codecs, self.dtype, self.entry_bytes * prod(self.counts))


class Shards:
    """The indices of an array's shards, read when needed; safe to share between threads.

    `open_file` opens a shard. A shard that replaces another is recognised by its size and mark.
    """

    def __init__(self, index: ShardIndex, open_file: Open) -> None:
        self._index, self._open = index, open_file
        self._cached: OrderedDict[Located, NDArray[np.uint64]] = OrderedDict()
        self._most = max(1, _MOST_CACHED // index.chain.n_bytes)
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Shards], tuple[ShardIndex, Open]]:
        # Locks cannot be pickled.
        return Shards, (self._index, self._open)

    def find(self, index: tuple[int, ...], shard: Located) -> Located | None:
        """Return where a chunk is in its shard, None if it is not stored.

        Raises
        ------
        DataError
            If the index is damaged, or the chunk would be outside the file.
        """
        entries = self._entries(shard)
        place = tuple(i % n for i, n in zip(index, self._index.counts, strict=True))
        offset, n_bytes = (int(number) for number in entries[place])
        if (offset, n_bytes) == (_ABSENT, _ABSENT):
            return None
        if offset + n_bytes > shard.n_bytes:
            chunk = ",".join(map(str, index))
            problem = f"according to its index, chunk {chunk} ends after the file does"
            raise DataError(str(shard.path), [problem], "the file is truncated or damaged")
        return shard._replace(offset=offset, n_bytes=n_bytes)

    def sizes(self, shard: Located) -> Iterator[int]:
        """Yield the bytes of every chunk in a shard."""
        # The index may have fewer entries than the metadata states.
        *counts, _ = self._entries(shard).shape
        for place in product(*map(range, counts)):
            found = self.find(place, shard)
            if found is not None:
                yield found.n_bytes

    def _entries(self, shard: Located) -> NDArray[np.uint64]:
        with self._lock:
            if shard in self._cached:
                self._cached.move_to_end(shard)
                return self._cached[shard]
            entries = self._cached[shard] = self._read(shard)
            if len(self._cached) > self._most:
                self._cached.popitem(last=False)
            return entries

    def _read(self, shard: Located) -> NDArray[np.uint64]:
        chain, counts = self._index.chain, self._index.counts
        path, size, n_encoded = shard.path, shard.n_bytes, chain.longest
        if size < n_encoded:
            problem = f"is truncated: it has {size} bytes, but its index alone {n_encoded}"
            raise DataError(str(path), [problem])
        buffer, decoded = np.empty(n_encoded, np.uint8), np.empty(chain.n_bytes, np.uint8)
        offset = size - n_encoded if self._index.at_end else 0
        # Like a header, it is not counted.
        with self._open(shard, Tally()) as file:
            encoded = np.frombuffer(file.read(offset, n_encoded, buffer.data), np.uint8)
        try:
            chain.decode(encoded, decoded)
        except ValueError as error:
            raise DataError(str(path), [f"its index {error}"]) from error
        return decoded.view(self._index.dtype).reshape(*counts, 2)


def pack(
    shard: NDArray[Any],
    spec: ArraySpec,
    encode: Callable[[NDArray[Any]], NDArray[np.uint8] | None],
) -> Iterator[NDArray[np.uint8]]:
    """Yield the content of a shard in pieces: its chunks, then its index.

    `encode` returns None for a chunk to leave out. Nothing is yielded if all are left out.
    """
    assert spec.index is not None, "only for arrays in shards"
    assert spec.index.at_end, "we write the index last"
    counts, chunks = spec.index.counts, spec.chunks
    entries = np.full((*counts, 2), _ABSENT, spec.index.dtype)
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
        yield spec.index.chain.encode(entries.reshape(-1).view(np.uint8))
