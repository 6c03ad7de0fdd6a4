"""One source for the chunks of every format: missing, wrong and changed chunks."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from dask_io.codecs.chain import Chain
from dask_io.errors import DataError, UsageError
from dask_io.geometry import Grid, Layout
from dask_io.stores.array_like import BlockArray
from dask_io.stores.chunked_source import ChunkedSource, Chunks, FetchedBytes, Located
from dask_io.stores.shards import ShardIndex, pack
from dask_io.stores.spec import ArraySpec

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.storage.tally import Tally

DTYPE = np.dtype("<i2")
ARRAY = np.arange(1, 31, dtype=DTYPE).reshape(5, 6)


class MemoryChunks(Chunks):
    """Chunks or shards in a dict."""

    format = "memory"

    def __init__(self, path: Path, spec: ArraySpec, stored: dict[tuple[int, ...], bytes]) -> None:
        self.path, self.spec, self.stored = path, spec, stored

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes of all of them."""
        return sum(map(len, self.stored.values()))

    @property
    def n_stored(self) -> int:
        """Number of them."""
        return len(self.stored)

    def describe(self) -> dict[str, Any]:
        """Return the path."""
        return {"path": str(self.path)}

    def locate(self, index: tuple[int, ...]) -> Located | None:
        """Look one up; its name is its path."""
        found = self.stored.get(index)
        return None if found is None else Located(self.path / str(index), len(found))

    def open(self, located: Located, tally: Tally) -> FetchedBytes:
        """Return the bytes by the name."""
        (content,) = (each for at, each in self.stored.items() if str(at) == located.name)
        view = memoryview(content)
        return FetchedBytes(str(located.path), len(view), lambda a, b: view[a:b], tally)

    def unchecked(self) -> list[tuple[str, tuple[int, ...]]]:
        """Yield all of them."""
        return [(str(index), index) for index in self.stored]


def make_spec(**changes: Any) -> ArraySpec:
    """Describe the array in chunks of two rows and four columns, the last ones padded."""
    known: dict[str, Any] = {"stored_shape": (2, 4), "fill_bytes": DTYPE.type(7).tobytes()}
    return ArraySpec(Grid.regular((5, 6), (2, 4)), DTYPE, Layout.c(2), **{**known, **changes})


def make_chunks(path: Path, spec: ArraySpec) -> MemoryChunks:
    """Store every chunk of the array, padded and encoded."""
    stored = {}
    for index in spec.grid.indices():
        values = np.ascontiguousarray(ARRAY[spec.grid.block(index).slices])
        raw = spec.padding.pad(values, memoryview(bytearray(spec.chunk_bytes)))
        stored[index] = bytes(raw if spec.codec is None else spec.codec.encode(raw))
    return MemoryChunks(path, spec, stored)


@pytest.fixture(params=["plain", "zlib"])
def chunks(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryChunks:
    """Store the array with a codec or without."""
    codec = Chain([{"id": "zlib", "level": 1}], DTYPE, 16) if request.param == "zlib" else None
    return make_chunks(tmp_path, make_spec(codec=codec))


def test_chunks_are_read_and_missing_ones_filled(chunks: MemoryChunks) -> None:
    """Padding is cut off, and a chunk that is not stored has the fill value."""
    source = ChunkedSource(chunks)
    assert np.array_equal(np.asarray(BlockArray(source)), ARRAY)
    assert source.n_absent == 0

    del chunks.stored[1, 0]
    expected = ARRAY.copy()
    expected[2:4, :4] = 7
    assert np.array_equal(np.asarray(BlockArray(source)), expected)
    assert source.n_absent == 1


def test_a_strict_source_refuses_missing_chunks(chunks: MemoryChunks) -> None:
    """When one is read, and when all are checked."""
    del chunks.stored[1, 0]
    source = ChunkedSource(chunks, strict=True)
    with pytest.raises(DataError, match="chunk 1,0 is missing; leave out strict=True"):
        np.asarray(BlockArray(source))
    with pytest.raises(DataError, match="1 of 6 chunks are missing"):
        source.check()


def test_chunks_of_wrong_sizes_are_listed(chunks: MemoryChunks) -> None:
    """A chunk that is too long, and one that is truncated unless its codec notices."""
    longest = chunks.spec.longest
    chunks.stored[0, 0] = bytes(longest + 1)
    chunks.stored[0, 1] = chunks.stored[0, 1][:-1]
    with pytest.raises(DataError, match=f"{longest + 1} bytes, expected {longest} at most"):
        ChunkedSource(chunks).check()
    with pytest.raises(DataError, match=r"is truncated|cannot be decoded"):
        BlockArray(ChunkedSource(chunks))[:2, 4:]


def test_a_fingerprint_changes_with_the_file(chunks: MemoryChunks) -> None:
    """By default, all chunks are in one file."""
    source = ChunkedSource(chunks)
    before = source.fingerprint((0, 0)), source.fingerprint((0, 1))
    assert before[0] != before[1]
    (chunks.path / "new").write_bytes(b"")
    assert source.fingerprint((0, 0)) != before[0]


def test_chunks_of_one_file_cannot_be_removed(chunks: MemoryChunks) -> None:
    """Unless a format says how."""
    source = ChunkedSource(chunks)
    assert source.is_indivisible
    with pytest.raises(UsageError, match="memory cannot remove single chunks"):
        source.discard((0, 0))


def test_sources_travel(chunks: MemoryChunks) -> None:
    """To other processes, with everything that they know."""
    again = pickle.loads(pickle.dumps(ChunkedSource(chunks)))  # noqa: S301 - our own
    assert np.array_equal(np.asarray(BlockArray(again)), ARRAY)


def test_chunks_in_shards(tmp_path: Path) -> None:
    """They are found by the shard's index, and removed when the last one is not needed."""
    spec = make_spec(index=ShardIndex((2, 2), ({"id": "crc32c"},), at_end=True))
    stored, scratch = {}, memoryview(bytearray(spec.chunk_bytes))
    for shard in spec.write_grid.indices():
        values, content = ARRAY[spec.write_grid.block(shard).slices], io.BytesIO()
        for piece in pack(values, spec, lambda chunk: spec.padding.pad(chunk, scratch).copy()):
            content.write(piece.tobytes())
        stored[shard] = content.getvalue()
    removed = []

    class Removable(MemoryChunks):
        is_indivisible = False

        def discard(self, index: tuple[int, ...]) -> None:
            removed.append(index)

    source = ChunkedSource(Removable(tmp_path, spec, stored))
    assert np.array_equal(np.asarray(BlockArray(source)), ARRAY)
    assert source.n_absent is None
    source.check()
    for index in ((0, 0), (0, 1), (1, 0), (2, 0)):
        source.discard(index)
    assert removed == []
    source.discard((1, 1))
    source.discard((2, 1))
    assert removed == [(0, 0), (1, 0)]
