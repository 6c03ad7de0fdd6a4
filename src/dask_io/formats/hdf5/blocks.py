"""Files that hold one block each: a header that HDF5 makes, then the elements, then the end.

They are HDF5 files of one contiguous dataset, whose elements are the last thing in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.formats.hdf5.head import make_head, read_head
from dask_io.stores.block_format import Format

if TYPE_CHECKING:
    from dask_io.stores.block_format import Header, Peek

_LONGEST_HEADER = 2**16


def parse_header(peek: Peek) -> Header:
    """Read what comes before the elements."""
    return read_head(peek(_LONGEST_HEADER))


def make_header(block: Header) -> bytes:
    """Return what comes before the elements."""
    return make_head(block.shape, block.dtype, block.layout, _LONGEST_HEADER)


FORMAT = Format("hdf5", (".h5", ".hdf5", ".hdf"), _LONGEST_HEADER, parse_header, make_header)
