"""Open, read, write, copy and move files on any medium."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xxhash import xxh3_64

from dask_io.storage.local.disk import DISK
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Medium, Reader

_PIECE = 2**20


def medium_of(path: Location) -> Medium:
    """Return the medium of a path."""
    return DISK if isinstance(path, Path) else path.medium


def open_reader(path: Location, tally: Tally) -> Reader:
    """Open a file for reading."""
    return medium_of(path).reader(path, tally)


def size_of(path: Location) -> int:
    """Return the size of a file, `NOT_A_FILE` for anything else.

    Raises
    ------
    StorageError
        If the path does not exist.
    """
    with storage_errors(path):
        found = medium_of(path).find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return found.size


@contextmanager
def peeking(path: Location) -> Iterator[Callable[[int], bytes]]:
    """Open a file to read its first bytes, without counting."""
    with open_reader(path, Tally()) as file:
        yield file.peek


def read_whole(path: Location, longest: int) -> bytes:
    """Read a small file, but at most `longest` bytes and one more."""
    with open_reader(path, Tally()) as file:
        return file.peek(min(longest, file.size) + 1)


def write_whole(path: Location, content: bytes) -> None:
    """Write a small file, which appears when it is complete and durable."""
    medium_of(path).write_whole(path, content)


def pieces_of(path: Location) -> Iterator[bytes]:
    """Yield the content of a file, piece by piece."""
    with open_reader(path, Tally()) as file:
        n_bytes = file.size
        buffer = memoryview(bytearray(min(n_bytes, _PIECE)))
        for offset in range(0, n_bytes, _PIECE):
            yield bytes(file.read(offset, min(_PIECE, n_bytes - offset), buffer))


def copy_file(source: Location, target: Location) -> None:
    """Copy a file piece by piece; the copy appears when it is complete and durable."""
    with open_reader(source, Tally()) as file:
        n_bytes = file.size
    medium_of(target).write_pieces(target, n_bytes, partial(pieces_of, source))


def move_file(source: Location, target: Location) -> None:
    """Replace a file by another, durable file; readers see either the old or the new file.

    Objects cannot be renamed. They are copied, and the original stays.
    """
    if isinstance(source, Path) and isinstance(target, Path):
        DISK.move(source, target)
    else:
        copy_file(source, target)


def checksum_of_file(file: Reader, offset: int, n_bytes: int, staging: memoryview) -> int:
    """Return the checksum of bytes in a file, read through a staging buffer."""
    found, largest = xxh3_64(), len(staging) - 2 * ALIGNMENT
    file.expect(offset, offset + n_bytes)
    for start in range(offset, offset + n_bytes, largest):
        found.update(file.read(start, min(largest, offset + n_bytes - start), staging))
    return found.intdigest()
