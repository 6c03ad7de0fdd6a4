"""A region of a source, as a source of its own."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.stores.store import Source, absent_in, expect, list_again
from dask_io.stores.within import Within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from dask_io.geometry import Region
    from dask_io.stores.store import BlockReader


@dataclass(frozen=True)
class Window(Within[Source]):
    """What lies within a region of another source.

    Blocks that reach out of the region are read in part. Nothing else is touched.
    """

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the whole source says about the array, and which region of it this is."""
        return MappingProxyType({**self.whole.metadata, "region": self.region})

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes that the whole source occupies."""
        return self.whole.n_bytes_on_disk

    @property
    def n_absent(self) -> int | None:
        """Blocks that are not stored; which of the whole source's these are is not looked for."""
        return absent_in(self.whole) and None

    def check(self) -> None:
        """Look at every block's header, outside the region too."""
        self.whole.check()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a block of the whole source does."""
        return self.whole.fingerprint(self.stored(index))

    def list_again(self) -> None:
        """Make the whole source list its blocks again."""
        list_again(self.whole)

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
        stored = self.stored(index)
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
