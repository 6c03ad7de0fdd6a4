"""Staging: memory of a thread between files and arrays, which one visit after another uses again.

Fresh memory costs more to touch than a copy within memory. So what a visit needs besides the
values that it moves, it cuts off the staging that it is given.
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
    """Cut a buffer off; what is left begins at a multiple of `ALIGNMENT` if the whole does.

    Examples
    --------
    >>> [len(each) for each in cut(memoryview(bytes(10_000)), 5000)]
    [5000, 1808]
    """
    return staging[:n_bytes], staging[_up(n_bytes) :]


def new_staging(store: Store, n_bytes: int) -> memoryview:
    """Return staging for one visit to a store, of which values of this size are asked."""
    n_bytes += 2 * ALIGNMENT + store.reused_bytes
    memory = memoryview(np.empty(n_bytes + ALIGNMENT, np.uint8).data)
    start = -address_of(memory) % ALIGNMENT
    return memory[start : start + n_bytes]


def lasting(piece: NDArray[np.uint8], scratch: memoryview) -> NDArray[np.uint8]:
    """Return a piece that stays as it is when scratch is used again: a copy if it lies there.

    What no codec changes is still where it was put together.

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
    """Yield what pieces hold, one behind the other, a buffer at a time.

    So it goes past the page cache, wherever in memory the pieces lie and however long they are.

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
