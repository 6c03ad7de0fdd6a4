"""Staging that visits cut to size."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dask_io.storage.local.transport import address_of
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.staging import cut, gathered, new_staging, room_for


@dataclass
class Needing:
    """As much of a store as is asked here."""

    reused_bytes: int


@given(sizes=st.lists(st.integers(0, 20_000), max_size=5), n_bytes=st.integers(0, 10_000))
def test_there_is_room_for_what_is_asked_for(sizes: list[int], n_bytes: int) -> None:
    """Each buffer is as long as it should be and begins where it can be read past the cache."""
    store: Any = Needing(room_for(*sizes))
    staging = new_staging(store, n_bytes)
    assert len(staging) == n_bytes + 2 * ALIGNMENT + store.reused_bytes
    for size in sizes:
        assert address_of(staging) % ALIGNMENT == 0
        buffer, staging = cut(staging, size)
        assert len(buffer) == size
    assert len(staging) == n_bytes + 2 * ALIGNMENT


@given(pieces=st.lists(st.binary(max_size=20)), size=st.integers(1, 30))
def test_what_is_gathered_is_all_there_is(pieces: list[bytes], size: int) -> None:
    """In order, in as few parts as there can be."""
    parts = [bytes(part) for part in gathered(map(memoryview, pieces), memoryview(bytearray(size)))]
    assert b"".join(parts) == b"".join(pieces)
    assert all(len(part) == size for part in parts[:-1])
    assert all(parts)
