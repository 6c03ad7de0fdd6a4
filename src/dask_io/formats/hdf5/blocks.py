"""HDF5 files that hold one block each: a header, then the elements, and nothing after them.

Each file contains one contiguous dataset. HDF5 writes the header; the elements are written without
HDF5.
"""

from __future__ import annotations

import io
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]

from dask_io.errors import DaskIOError
from dask_io.formats.hdf5.create import DEFAULT_NAME, creation_plist, touch
from dask_io.formats.hdf5.dataset import understand
from dask_io.formats.hdf5.file import find_dataset, understanding
from dask_io.formats.hdf5.filters import type_of
from dask_io.formats.isolation import WORKER, Limits
from dask_io.stores.block_format import Format, Header

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.stores.block_format import Peek

# File size reported to HDF5 when it reads a header alone. The real size is checked separately.
_ENDLESS = 2**62
_LONGEST = 2**16


def parse_header(peek: Peek) -> Header:
    """Read everything before the elements."""
    head = peek(_LONGEST)
    return WORKER.call(Limits.for_file(len(head)), _read_head, head)


def _read_head(head: bytes) -> Header:
    block = Path("block")
    try:
        with understanding(block), open_head(head) as file:
            dataset = find_dataset(file, block, "")
            array, offset = understand(dataset), dataset.id.get_offset()
            spec = array.spec
    except DaskIOError as error:
        reason = str(error).removeprefix("block: ")
        raise ValueError(f"is not an HDF5 file with one block: {reason}") from error
    if offset is None and not spec.grid.n_blocks:
        offset = len(head)
    if array.chunks is not None or offset is None or offset > len(head):
        raise ValueError("is not an HDF5 file with one block: its elements are not in one piece")
    return Header(array.shape, spec.dtype, spec.layout, offset)


def make_header(block: Header) -> bytes:
    """Return everything before the elements, as HDF5 writes it."""
    shape, dtype = block.shape, block.dtype

    def make(file: Any) -> Any:
        space, name = h5py.h5s.create_simple(shape), DEFAULT_NAME.encode()
        return h5py.h5d.create(file.id, name, type_of(dtype), space, creation_plist())

    return make_head(make, prod(shape) * dtype.itemsize, _LONGEST)


def open_head(head: bytes) -> Any:
    """Open a file from its first bytes; all others read as zeros."""
    return h5py.File(_Head(head, _ENDLESS), "r")


def make_head(make: Callable[[Any], Any], n_bytes: int, longest: int) -> bytes:
    """Return everything before the elements of a dataset at the end of a new file.

    Parameters
    ----------
    make
        Creates the dataset, and everything else in the file, and returns the dataset's identifier.
    n_bytes
        The size of the dataset.
    longest
        The greatest allowed size of the header.

    Raises
    ------
    ValueError
        If HDF5 cannot store it; the message completes "the format ...".
    """
    head = _Head(longest=longest)
    try:
        with h5py.File(head, "w") as file:
            made = make(file)
            file.flush()
            if n_bytes:
                touch(h5py.Dataset(made))
                file.flush()
            offset = made.get_offset()
    except (TypeError, RuntimeError, OSError) as error:
        raise ValueError(f"cannot hold the array: {error}") from error
    begin = head.size if offset is None else int(offset)
    if begin > longest:
        raise ValueError(f"allows headers of {longest} bytes; the metadata needs {begin}")
    assert head.size == begin + n_bytes, "the elements are not at the end of the file"
    return head.content[:begin].ljust(begin, b"\0")


class _Head(io.RawIOBase):
    """An in-memory file that stores only its first bytes, and discards later writes.

    It begins with the bytes of `head`, and grows with each write up to `longest` bytes.
    """

    def __init__(self, head: bytes = b"", size: int = 0, *, longest: int = 0) -> None:
        self._bytes, self.size, self._position = bytearray(head), size, 0
        self._longest = longest

    @property
    def content(self) -> bytes:
        """The first bytes."""
        return bytes(self._bytes)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def truncate(self, size: int | None = None) -> int:
        self.size = self._position if size is None else size
        return self.size

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        found = self._bytes[self._position : self._position + len(view)]
        view[: len(found)] = found
        view[len(found) :] = bytes(len(view) - len(found))
        self._position += len(view)
        return len(view)

    def write(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        kept = view[: max(0, self._longest - self._position)]
        missing = self._position + len(kept) - len(self._bytes)
        if kept and missing > 0:
            self._bytes += bytes(missing)
        self._bytes[self._position : self._position + len(kept)] = kept
        self._position += len(view)
        self.size = max(self.size, self._position)
        return len(view)


FORMAT = Format("hdf5", (".h5", ".hdf5", ".hdf"), _LONGEST, parse_header, make_header, order="C")
