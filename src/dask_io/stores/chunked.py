"""Chunks that are all stored in one way, wherever a format finds their bytes.

A format describes and locates: it says how chunks are stored, and where each one is. A visit is
the same for all formats.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from dask_io.stores.addressable import AddressableReader
from dask_io.stores.atomic import AtomicReader, bytes_to_decode
from dask_io.stores.padded import PaddedReader, is_padded, scratch_bytes, stretches
from dask_io.stores.store import Access

if TYPE_CHECKING:
    from dask_io.geometry import Region
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Reader
    from dask_io.stores.atomic import Encoding
    from dask_io.stores.store import Extent


class Located(NamedTuple):
    """Where a chunk's bytes are: a file or an object, its extent there as stored, and its size."""

    path: Location
    extent: Extent
    n_bytes: int


def read_chunk(
    file: Reader,
    located: Located,
    shape: tuple[int, ...],
    *,
    encoding: Encoding,
    access: Access,
    after: Region | None,
) -> AddressableReader | AtomicReader | PaddedReader:
    """Visit a chunk of a file that is open; `shape` is the part of it that lies in the array.

    `after` is a part that another thread has read, see `Source.reader`.
    """
    path, extent, n_bytes = located
    if access is Access.ATOMIC:
        if after is not None:
            file.go_on_from(extent.offset)
        return AtomicReader(file, path, extent, n_bytes, shape, encoding)
    _, dtype, layout, _ = encoding
    padded = is_padded(shape, extent.shape, layout)
    if after is not None:
        end = layout.end_of(after, extent.shape)
        if padded:
            end = [*stretches(after, shape, extent.shape, layout)][-1].stop
        file.go_on_from(extent.offset + end * dtype.itemsize)
    if padded:
        return PaddedReader(shape, extent, dtype, layout, file)
    return AddressableReader(file, extent, dtype, layout)


def bytes_reused(encoding: Encoding, access: Access, longest: int, *, has_padding: bool) -> int:
    """Return the bytes of staging that a visit uses besides those of the region asked for.

    An encoded chunk takes at most `longest` bytes.
    """
    n_bytes = prod(encoding.chunks) * encoding.dtype.itemsize
    if access is Access.ATOMIC:
        return bytes_to_decode(n_bytes, longest)
    return scratch_bytes(n_bytes, encoding.dtype.itemsize) if has_padding else 0
