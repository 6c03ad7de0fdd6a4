"""Blocks that are not stored because every element of them is the fill value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64

from dask_io.journal.ledger import NOTHING
from dask_io.stores.addressable import slabs_to_check, view_as_array, view_as_bytes
from dask_io.stores.padded import fill_with, repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dask_io.geometry import Layout, Region
    from dask_io.stores.addressable import AddressableReader
    from dask_io.stores.padded import PaddedReader


@dataclass(frozen=True, slots=True)
class FilledReader:
    """A visit to a block that is not stored; nothing is read."""

    fill: NDArray[Any]
    layout: Layout

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Fill a region."""
        raw = np.frombuffer(buffer, np.uint8, region.size * self.fill.dtype.itemsize)
        fill_with(self.fill, raw)
        return view_as_array(raw.data, region.shape, self.fill.dtype, self.layout)

    def expect(self, region: Region) -> None:
        """Nothing is read."""

    def checksum(self, region: Region, staging: memoryview) -> int:  # noqa: ARG002 - as of all
        """Nothing was written."""
        return NOTHING


@dataclass(frozen=True, slots=True)
class UnfilledReader:
    """One visit to a stored block that may contain the fill value in parts."""

    reader: AddressableReader | PaddedReader
    fill: NDArray[Any]
    layout: Layout

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Read a region."""
        return self.reader.read_into(region, buffer)

    def expect(self, region: Region) -> None:
        """Announce a region that will be read in parts."""
        self.reader.expect(region)

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of a region's bytes; `NOTHING` if it is all fill value."""
        found, is_filled = xxh3_64(), True
        self.expect(region)
        for slab in slabs_to_check(region, staging, self.fill.dtype, self.layout):
            raw = view_as_bytes(self.read_into(slab, staging), self.layout)
            found.update(raw)
            is_filled = is_filled and holds_only(np.frombuffer(raw, np.uint8), self.fill)
        return NOTHING if is_filled else found.intdigest()


def holds_only(raw: NDArray[np.uint8], fill: NDArray[Any]) -> bool:
    """Tell whether bytes repeat one element.

    Examples
    --------
    >>> nan = np.array(np.nan)
    >>> holds_only(np.full(3, nan).view(np.uint8), nan)
    True
    >>> holds_only(np.array([0.0, -0.0]).view(np.uint8), np.array(0.0))
    False
    """
    element = fill.tobytes()
    # Most blocks differ in their first element.
    if raw.nbytes and raw[: len(element)].tobytes() != element:
        return False
    pattern = np.frombuffer(repeated(element), np.uint8)
    parts = range(0, raw.nbytes, pattern.nbytes)
    return all(
        np.array_equal(part, pattern[: part.nbytes])
        for part in (raw[start : start + pattern.nbytes] for start in parts)
    )
