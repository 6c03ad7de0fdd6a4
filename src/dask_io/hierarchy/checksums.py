"""Checksums of the values of arrays, and fingerprints of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64, xxh3_64_intdigest

from dask_io.storage.files import medium_of, pieces_of
from dask_io.storage.os_errors import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from dask_io.storage.location import Location


def identity_of(path: Path) -> int:
    """Return a number that changes when a file does."""
    with storage_errors(path):
        found = path.stat()
    return xxh3_64_intdigest(f"{found.st_size}\0{found.st_mtime_ns}".encode())


def digest(pieces: Iterable[Any]) -> str:
    """Return a checksum of the values of an array, given in pieces."""
    found = xxh3_64()
    for piece in map(np.asarray, pieces):
        if piece.dtype.kind in "UO":
            for each in piece.ravel():
                found.update(_as_bytes(each) + b"\0")
        else:
            found.update(piece.astype(piece.dtype.newbyteorder("<")).tobytes())
    return found.hexdigest()


def _as_bytes(value: Any) -> bytes:
    """Return a string, or a list of any length, as bytes."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else np.asarray(value).tobytes()


def digest_files(root: Location) -> str:
    """Return a checksum of all files in a directory, with their names."""
    found = xxh3_64()
    for name, _ in sorted(medium_of(root).files(root)):
        found.update(f"{name}\0".encode())
        for piece in pieces_of(root / name):
            found.update(piece)
    return found.hexdigest()


def digest_contents(files: Mapping[str, bytes]) -> str:
    """Return the checksum that files will have in a directory, as `digest_files`."""
    found = xxh3_64()
    for name in sorted(files):
        found.update(f"{name}\0".encode())
        found.update(files[name])
    return found.hexdigest()
