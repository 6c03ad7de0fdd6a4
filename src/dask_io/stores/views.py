"""Views: a region of a source or a target, as a source or a target of its own."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from dask_io.errors import UsageError
from dask_io.stores.spec import crop_described
from dask_io.stores.store import (
    Source,
    SourceDefaults,
    Store,
    Target,
    TargetDefaults,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.journal.ledger import Ledger, Written
    from dask_io.storage.medium import Durability, Writers
    from dask_io.storage.tally import Tally
    from dask_io.stores.block_names import BlockNames
    from dask_io.stores.encoded import EncodedReader, EncodedSource, EncodedTarget
    from dask_io.stores.store import Access, BlockReader, BlockWriter, Memory

AnyStore = TypeVar("AnyStore", bound=Store)


@dataclass(frozen=True)
class _View(Generic[AnyStore]):
    """A region of another store; positions are relative to the region's start."""

    whole: AnyStore
    region: Region

    @property
    def place(self) -> str:
        """The whole store's place."""
        return self.whole.place

    @property
    def format(self) -> str:
        """Name of the format."""
        return self.whole.format

    @cached_property
    def grid(self) -> Grid:
        """The blocks, or their parts, within the region."""
        return self.whole.grid.clipped(self.region)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.whole.dtype

    @property
    def layout(self) -> Layout:
        """Order of the elements in each block."""
        return self.whole.layout

    @property
    def access(self) -> Access:
        """The cost of moving a part of a block."""
        return self.whole.access

    @property
    def reused_bytes(self) -> int:
        """Staging bytes of a visit, apart from its values."""
        return self.whole.reused_bytes

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds."""
        return self.whole.codec_bytes

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the whole store."""
        return self.whole.metadata

    @property
    def tally(self) -> Tally:
        """Counts of seeks, visits and bytes."""
        return self.whole.tally

    @property
    def encoding(self) -> object | None:
        """Equal for the same region of arrays that store their blocks in the same way."""
        return self.whole.encoding and (self.whole.encoding, self.region)

    @property
    def copying_bytes(self) -> int:
        """Bytes that a visit to a stored block holds, as of the whole store."""
        return cast("EncodedSource | EncodedTarget", self.whole).copying_bytes

    @property
    def calls_functions(self) -> bool:
        """Whether a visit calls a function of the user, as of the whole store."""
        return self.whole.calls_functions

    @property
    def block_names(self) -> BlockNames | None:
        """The pattern of the whole store's block files, if it has one."""
        return self.whole.block_names

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the whole store can be opened or created again."""
        return self.whole.describe()

    def stored(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Return the index of a block in the whole store."""
        return _shifted(index, self.whole.grid, self.region)


def _shifted(index: tuple[int, ...], grid: Grid, region: Region) -> tuple[int, ...]:
    """Return the index in a grid of a block whose index is relative to a region."""
    first = grid.index_at(region.start)
    return tuple(a + b for a, b in zip(first, index, strict=True))


@dataclass(frozen=True)
class SourceView(_View[Source], SourceDefaults):
    """A region of another source.

    Blocks that extend beyond the region are read in part. Blocks outside it are not read. If a
    user gave values of coordinates, `resolved` tells which indices they are.
    """

    resolved: str = field(default="", compare=False)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the whole source, and the region."""
        described = crop_described(self.whole.metadata, self.region)
        return MappingProxyType({**described, "region": self.region})

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes that the whole source occupies."""
        return self.whole.n_bytes_on_disk

    @property
    def n_absent(self) -> int | None:
        """Number of blocks that are not stored; None if only the whole source's number is known."""
        return self.whole.n_absent and None

    def check(self) -> None:
        """Check every block's header, also outside the region."""
        self.whole.check()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a block of the whole source does."""
        return self.whole.fingerprint(self.stored(index))

    def list_again(self) -> None:
        """Make the whole source list its blocks again."""
        self.whole.list_again()

    def discard(self, index: tuple[int, ...]) -> None:  # noqa: ARG002 - none can be
        """Refuse: data outside the region would be lost."""
        raise UsageError("a source cannot be consumed if only a region of it is moved")

    def discard_rest(self) -> None:
        """Keep the rest."""

    @property
    def encoded_grid(self) -> Grid:
        """The blocks that can be copied, within the region."""
        return cast("EncodedSource", self.whole).encoded_grid.clipped(self.region)

    def encoded(self, index: tuple[int, ...]) -> AbstractContextManager[EncodedReader | None]:
        """Visit the stored bytes of a block of the whole source."""
        whole = cast("EncodedSource", self.whole)
        return whole.encoded(_shifted(index, whole.encoded_grid, self.region))

    @contextmanager
    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> Iterator[BlockReader]:
        """Visit a block of the whole source."""
        stored = self.stored(index)
        low = self.whole.grid.block(stored).start
        # Offset of the part within the region from the block's own start.
        shift = tuple(min(0, a - b) for a, b in zip(low, self.region.start, strict=True))
        before = None if after is None else after.relative_to(shift)
        with self.whole.reader(stored, after=before) as reader:
            yield _ShiftedReader(reader, shift)


def resolved_in(stores: Iterable[Source]) -> str:
    """Return the indices of values that users gave for regions; empty if they gave none."""
    views = (each for each in stores if isinstance(each, SourceView))
    return ", ".join(dict.fromkeys(each.resolved for each in views if each.resolved))


@dataclass(frozen=True, slots=True)
class _ShiftedReader:
    """One visit to the part of a block that is in the region."""

    reader: BlockReader
    shift: tuple[int, ...]

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        return self.reader.read_into(region.relative_to(self.shift), buffer)

    def expect(self, region: Region) -> None:
        self.reader.expect(region.relative_to(self.shift))

    def checksum(self, region: Region, staging: memoryview) -> int:
        return self.reader.checksum(region.relative_to(self.shift), staging)


@dataclass(frozen=True)
class TargetView(_View[Target], TargetDefaults):
    """A region of another target.

    The region consists of whole blocks, so that no block has to be read, changed and rewritten. The
    target is filled in place, and several runs may fill different regions of it.

    Raises
    ------
    UsageError
        If the region cuts blocks.
    """

    def __post_init__(self) -> None:
        axes = self.whole.grid.axes
        for axis, low, high in zip(axes, self.region.start, self.region.stop, strict=True):
            if axis.floor(low) != low or axis.ceil(high) != high:
                raise UsageError(
                    f"the region {self.region} of {self.whole.place} cuts blocks, which would "
                    "have to be read, changed and written again"
                )

    @property
    def durability(self) -> Durability:
        """What committed blocks survive."""
        return self.whole.durability

    @property
    def writers(self) -> Writers:
        """Who may write different blocks at once."""
        return self.whole.writers

    @property
    def piecewise(self) -> Memory | None:
        """The memory of a visit that encodes in pieces, as of the whole target."""
        return self.whole.piecewise

    def check(self) -> None:
        """Raise the errors that the whole target raises."""
        self.whole.check()

    def create(self, job: bytes = b"{}") -> None:
        """Create the whole target."""
        self.whole.create(job)

    def resume(self) -> Ledger:
        """Resume the whole target, which has no journal."""
        return self.whole.resume()

    def writer(self, index: tuple[int, ...]) -> AbstractContextManager[BlockWriter]:
        """Visit a block."""
        return self.whole.writer(self.stored(index))

    def write_encoded(
        self, index: tuple[int, ...], n_bytes: int, pieces: Iterator[memoryview]
    ) -> int:
        """Write the stored bytes of a block of the whole target."""
        whole = cast("EncodedTarget", self.whole)
        return whole.write_encoded(self.stored(index), n_bytes, pieces)

    def commit(self, cells: Collection[Written]) -> None:
        """Commit blocks of the whole target."""
        corner = self.region.start
        self.whole.commit(
            [
                replace(cell, index=self.stored(cell.index), region=cell.region.shifted_by(corner))
                for cell in cells
            ]
        )

    def note(self, lines: Iterable[str]) -> None:
        """Add lines to the journal of the whole target."""
        self.whole.note(lines)

    def finish(self) -> None:
        """Complete this region of the whole target."""
        self.whole.finish()

    def abandon(self, *, keep: bool = False) -> bool:
        """Remove uncommitted blocks."""
        return self.whole.abandon(keep=keep)
