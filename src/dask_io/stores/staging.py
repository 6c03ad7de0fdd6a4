"""Staging: memory of a thread between files and arrays, reused by one visit after another.

Touching fresh memory costs more than a copy within memory. So a visit takes all buffers that it
needs from the staging that it is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dask_io.storage.local.transport import address_of
from dask_io.storage.medium import ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from dask_io.stores.store import Store

# Large enough that a call's cost does not count, small enough to stay in a processor's cache.
SLAB = 4 * 2**20


def room_for(*sizes: int) -> int:
    """Return the bytes from which buffers of some sizes can be cut.

    Examples
    --------
    >>> room_for(1, 4096, 0)
    8192
    """
    return sum(_up(size) for size in sizes)


def cut(staging: memoryview, n_bytes: int) -> tuple[memoryview, memoryview]:
    """Split off a buffer; the rest begins at a multiple of `ALIGNMENT` if the whole does.

    Examples
    --------
    >>> [len(each) for each in cut(memoryview(bytes(10_000)), 5000)]
    [5000, 1808]
    """
    return staging[:n_bytes], staging[_up(n_bytes) :]


def new_staging(store: Store, n_bytes: int) -> memoryview:
    """Return staging for one visit to a store that moves values of this size."""
    n_bytes += 2 * ALIGNMENT + store.reused_bytes
    memory = memoryview(np.empty(n_bytes + ALIGNMENT, np.uint8).data)
    start = -address_of(memory) % ALIGNMENT
    return memory[start : start + n_bytes]


def lasting(piece: NDArray[np.uint8], scratch: memoryview) -> NDArray[np.uint8]:
    """Return a piece that does not change when scratch is reused: a copy if it is in scratch.

    Without a codec, a piece is still in the scratch buffer in which it was assembled.

    Examples
    --------
    >>> scratch = bytearray(b"ab")
    >>> pieces = [np.frombuffer(scratch, np.uint8), np.frombuffer(b"cd", np.uint8)]
    >>> [lasting(piece, memoryview(scratch)) is piece for piece in pieces]
    [False, True]
    """
    is_there = np.may_share_memory(piece, np.frombuffer(scratch, np.uint8))
    return piece.copy() if is_there else piece


def gathered(pieces: Iterable[memoryview], buffer: memoryview) -> Iterator[memoryview]:
    """Yield the concatenated content of pieces, one full buffer at a time.

    The buffer is aligned, so its content can be written past the page cache.

    Examples
    --------
    >>> pieces = map(memoryview, (b"abcde", b"", b"fg"))
    >>> [bytes(part) for part in gathered(pieces, memoryview(bytearray(3)))]
    [b'abc', b'def', b'g']
    """
    assert buffer, "there is nothing to gather in"
    n_filled = 0
    for piece in pieces:
        rest = piece
        while rest:
            taken, rest = rest[: len(buffer) - n_filled], rest[len(buffer) - n_filled :]
            buffer[n_filled : n_filled + len(taken)] = taken
            n_filled += len(taken)
            if n_filled == len(buffer):
                yield buffer
                n_filled = 0
    if n_filled:
        yield buffer[:n_filled]


def _up(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT
