"""A region of a source, as a source of its own."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.stores.store import expect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.stores.files import Tally
    from dask_io.stores.store import Access, BlockReader, Source


@dataclass(frozen=True)
class Window:
    """What lies within a region of another source; positions count from the region's corner.

    Blocks that reach out of the region are read in part. Nothing else is touched.
    """

    whole: Source
    region: Region

    @property
    def place(self) -> str:
        """The whole source's place."""
        return self.whole.place

    @property
    def format(self) -> str:
        """Name of the format."""
        return self.whole.format

    @cached_property
    def grid(self) -> Grid:
        """The blocks' parts within the region."""
        return self.whole.grid.clipped(self.region)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.whole.dtype

    @property
    def layout(self) -> Layout:
        """How elements lie in each block."""
        return self.whole.layout

    @property
    def access(self) -> Access:
        """What a part of a block costs."""
        return self.whole.access

    @property
    def codec_bytes(self) -> int:
        """What a visit to a block holds besides its values."""
        return self.whole.codec_bytes

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the whole source says about the array, and which region of it this is."""
        return MappingProxyType({**self.whole.metadata, "region": self.region})

    @property
    def tally(self) -> Tally:
        """What has been moved so far."""
        return self.whole.tally

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes that the whole source occupies."""
        return self.whole.n_bytes_on_disk

    def describe(self) -> dict[str, Any]:
        """Return what it takes to open the whole source again."""
        return self.whole.describe()

    def check(self) -> None:
        """Look at every block's header, outside the region too."""
        self.whole.check()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a block of the whole source does."""
        return self.whole.fingerprint(self.whole.grid.unclipped(index, self.region))

    def discard(self, index: tuple[int, ...]) -> None:  # noqa: ARG002 - none can be
        """Refuse: what lies outside the region would be lost."""
        raise UsageError("blocks of which only a region is moved cannot be consumed")

    def discard_rest(self) -> None:
        """Keep the rest."""

    @contextmanager
    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> Iterator[BlockReader]:
        """Visit a block of the whole source."""
        stored = self.whole.grid.unclipped(index, self.region)
        low = self.whole.grid.block(stored).start
        # How far a block's part within the region lies from the block's own start.
        shift = tuple(min(0, a - b) for a, b in zip(low, self.region.start, strict=True))
        before = None if after is None else after.relative_to(shift)
        with self.whole.reader(stored, after=before) as reader:
            yield _ShiftedReader(reader, shift)


@dataclass(frozen=True, slots=True)
class _ShiftedReader:
    """One visit to a block of which only a part is seen."""

    reader: BlockReader
    shift: tuple[int, ...]

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        return self.reader.read_into(region.relative_to(self.shift), buffer)

    def expect(self, region: Region) -> None:
        expect(self.reader, region.relative_to(self.shift))

    def checksum(self, region: Region, staging: memoryview) -> int:
        return self.reader.checksum(region.relative_to(self.shift), staging)
