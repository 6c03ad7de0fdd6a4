"""Files that hold one block each: a header that HDF5 makes, then the elements, then the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dask_io.formats.hdf5.head import make_head, read_head

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from dask_io.geometry import Layout
    from dask_io.stores.block_format import Header


@dataclass(frozen=True, slots=True)
class Hdf5Blocks:
    """HDF5 files of one contiguous dataset, whose elements are the last thing in the file."""

    name: str = "hdf5"
    suffixes: tuple[str, ...] = (".h5", ".hdf5", ".hdf")
    longest_header: int = 2**16

    def parse_header(self, peek: Callable[[int], bytes]) -> Header:
        """Have HDF5 read what comes before the elements."""
        return read_head(peek(self.longest_header))

    def make_header(self, shape: tuple[int, ...], dtype: np.dtype[Any], layout: Layout) -> bytes:
        """Have HDF5 make what comes before the elements."""
        return make_head(shape, dtype, layout, self.longest_header)


FORMAT = Hdf5Blocks()
