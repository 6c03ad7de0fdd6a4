"""The seam to storage: what the engine asks of a store, whatever its format.

A store describes an array cut into blocks. A source lends readers of one block, a target lends
writers; a visit to a block is one reader or writer from its opening to its closing. Parts of a
block moved in storage order within one visit cost no more than the block's runs.

Any number of visits may be under way at once, to different blocks or to one, from any
threads. A single reader or writer belongs to one thread at a time.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from contextlib import AbstractContextManager

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.journal.ledger import Ledger, Written
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Durability
    from dask_io.storage.tally import Tally
    from dask_io.stores.block_names import BlockNames


class Access(StrEnum):
    """What moving a part of a block costs."""

    ADDRESSABLE = "addressable"
    """Its runs: bytes of the block lie where its layout says."""
    ATOMIC = "atomic"
    """The whole block: it is decoded or encoded as one."""


class Extent(NamedTuple):
    """Where a block's bytes are: a file of the store, and the offset of the first element."""

    name: str
    offset: int
    shape: tuple[int, ...]


class Store(Protocol):
    """An array cut into blocks, somewhere."""

    @property
    def place(self) -> str:
        """The path or address, as messages name it."""

    @property
    def format(self) -> str:
        """Name of the format."""

    @property
    def grid(self) -> Grid:
        """How the array is cut."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements, as stored."""

    @property
    def layout(self) -> Layout:
        """How elements lie in each block."""

    @property
    def access(self) -> Access:
        """What a part of a block costs."""

    @property
    def reused_bytes(self) -> int:
        """Bytes of staging that one visit uses besides those of the values asked for.

        For encoded blocks, for blocks that are decoded, put together or padded: 0 if values are
        moved as they are.
        """

    @property
    def codec_bytes(self) -> int:
        """Bytes of other memory that one visit holds at most.

        What libraries take for themselves, and what is between one codec and the next. What is
        kept between visits is not counted.
        """

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What else the store says about the array."""

    @property
    def tally(self) -> Tally:
        """What has been moved so far."""

    def describe(self) -> dict[str, Any]:
        """Return what it takes to open or make the store again, as plain values."""


@runtime_checkable
class Indivisible(Protocol):
    """A store of which nothing can be removed, or kept of a run that was cut short, but all."""

    @property
    def is_indivisible(self) -> bool:
        """Whether it is so."""


@runtime_checkable
class Gapped(Protocol):
    """A source of which blocks may not be stored: they are the fill value, and cost no visit."""

    @property
    def n_absent(self) -> int | None:
        """Blocks that are not stored; None where it would take too long to find out."""


def absent_in(store: Store) -> int | None:
    """Return how many blocks of a store are not stored, None if some may not be."""
    return store.n_absent if isinstance(store, Gapped) else 0


@runtime_checkable
class Slabbed(Protocol):
    """A source whose blocks are slabs of files that are not cut themselves."""

    @property
    def n_files(self) -> int:
        """Number of the files."""

    @property
    def note(self) -> str:
        """What a user should know about reading the slabs, in one line."""


def pieces_in(store: Store) -> int:
    """Return the number of blocks that a user would count: files, if blocks are slabs of them."""
    return store.n_files if isinstance(store, Slabbed) else store.grid.n_blocks


@runtime_checkable
class Named(Protocol):
    """A store whose blocks are files with numbers in their names, or a part of one."""

    @property
    def block_names(self) -> BlockNames | None:
        """The pattern of the names; None if the blocks are not such files."""


def block_names_of(store: Store) -> BlockNames | None:
    """Return the pattern of a store's block files, if it has one."""
    return store.block_names if isinstance(store, Named) else None


def inferred_in(store: Store) -> str:
    """Say what was inferred from the names of a store's files; empty if nothing was."""
    names = block_names_of(store)
    return f"{names.pattern} ({names.meaning})" if names is not None and names.inferred else ""


class Footprint(NamedTuple):
    """What a target takes at most: so many files, fewer if blocks of the fill value are not."""

    n_files: int
    leaves_out: bool = False


@runtime_checkable
class Fitted(Protocol):
    """A target that may take less than a file for each of its blocks."""

    @property
    def footprint(self) -> Footprint:
        """What it takes."""


def footprint_of(target: Store) -> Footprint:
    """Return what a target takes."""
    return target.footprint if isinstance(target, Fitted) else Footprint(target.grid.n_blocks)


class Checkable(Protocol):
    """One visit to a block whose checksum is known."""

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return what `BlockWriter.checksum` was when the region was written in one visit."""


class Readback(Protocol):
    """What has been written, in the blocks in which it was."""

    @property
    def grid(self) -> Grid:
        """What was written at once."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""

    @property
    def tally(self) -> Tally:
        """What has been moved so far."""

    def reader(self, index: tuple[int, ...]) -> AbstractContextManager[Checkable]:
        """Visit a block."""


class BlockReader(Checkable, Protocol):
    """One visit to a block of a source."""

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Read a region, counted from the block's start, and return it as an array.

        Along the layout's fastest axis its elements lie next to each other. It is a view of
        `buffer`, which has room for `ALIGNMENT` bytes more than the region at each end, and for
        the source's `reused_bytes`. Between the calls of a visit nobody else writes there.
        """

    def expect(self, region: Region) -> None:
        """Prepare for a region, counted from the block's start, that will be read part by part."""


class Source(Store, Protocol):
    """A store that is read."""

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes that the store occupies, headers included."""

    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> AbstractContextManager[BlockReader]:
        """Visit a block.

        Several threads may share a visit, each with a part of a region. `after` then is the part
        before one's own, counted from the block's start: it is no new visit, and to read on
        right behind that part is no seek.
        """

    def check(self) -> None:
        """Look at every block's header, and name all that do not fit.

        Raises
        ------
        DataError
            If blocks do not match the grid.
        """

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a block does, by its name, its size and its time."""

    def discard(self, index: tuple[int, ...]) -> None:
        """Remove a block for good."""

    def discard_rest(self) -> None:
        """Remove what else belongs to the store, once all blocks have been discarded."""


@runtime_checkable
class Listed(Protocol):
    """A source that may look up its blocks in a cached listing."""

    def list_again(self) -> None:
        """Drop the listing; a new one is made at the next lookup of a block."""


def list_again(source: Source) -> None:
    """Make a source list its blocks again, if it uses a cached listing."""
    if isinstance(source, Listed):
        source.list_again()


@runtime_checkable
class Guessable(Protocol):
    """A source whose shape may be inferred from the blocks that are there."""

    def describe_in_place(self) -> None:
        """Write down what the source is, so that what is left of it is not taken for all of it."""


class BlockWriter(Protocol):
    """One visit to a block of a target."""

    @property
    def checksum(self) -> int:
        """Checksum of what this visit has written, in storage order."""

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Write a region, counted from the block's start; `array` lies in the target's layout.

        The staging buffer has room for the target's `reused_bytes`.
        """

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Write a region that is put together in a staging buffer.

        `fill` is called with one part of the region after another, in storage order, and an
        array to fill with it. The buffer has room for an element and `ALIGNMENT` at each end, and
        for the target's `reused_bytes`.
        """


@runtime_checkable
class Continuing(Protocol):
    """A writer of parts of blocks, of which several may count as one visit."""

    def go_on_at(self, region: Region) -> None:
        """Be told of a region, counted from the block's start, before which all has been written.

        It is no new visit, and to begin with that region is no seek.
        """


def go_on(writer: BlockWriter, region: Region) -> None:
    """Have a writer count as part of the visit that wrote what lies before a region."""
    if _is_continuing(type(writer)):
        cast("Continuing", writer).go_on_at(region)


@cache
def _is_continuing(kind: type) -> bool:
    return issubclass(kind, Continuing)


class Target(Store, Protocol):
    """A store that is written, by one run at a time.

    A block is written under a temporary name, in one visit or several, and appears under
    its own name when it is whole. What has been committed outlasts the run, so that another
    can go on with the rest.
    """

    @property
    def durability(self) -> Durability:
        """What blocks outlast once they are committed."""

    def check(self) -> None:
        """Refuse what `create` would refuse, but touch nothing."""

    def create(self, job: bytes = b"{}") -> None:
        """Make the place ready for blocks; a journal with the job is the first thing there.

        Raises
        ------
        TargetExistsError
            If something is there that is not to be overwritten.
        """

    def resume(self) -> Ledger:
        """Go on where another run ended; return what is durable and need not be written."""

    def writer(self, index: tuple[int, ...]) -> AbstractContextManager[BlockWriter]:
        """Visit a block."""

    def commit(self, cells: Collection[Written]) -> None:
        """Make cells that have been written durable, and note that in the journal.

        Blocks that are whole now appear under their names. Threads may commit at once.
        """

    def note(self, lines: Iterable[str]) -> None:
        """Add other lines to the journal; they are as durable as cells."""

    def finish(self) -> None:
        """Make the target complete: everything has been committed.

        The next `create` finds a target that exists.
        """

    def abandon(self, *, keep: bool = False) -> bool:
        """Remove what has not been committed, and let another run go on with the rest.

        Returns whether there is a rest, or `keep` says that another run will begin with nothing.
        Nothing happens unless `create` or `resume` succeeded.
        """


@runtime_checkable
class Repairable(Target, Protocol):
    """A target whose damaged blocks can be replaced by the same blocks written elsewhere."""

    @property
    def is_replaced_whole(self) -> bool:
        """Whether all blocks are replaced together, because they are in one file."""

    def look_back(self) -> Readback:
        """Open the written blocks; a visit to a missing or damaged block raises an error.

        Raises
        ------
        DataError
            If it is one file that cannot be read at all.
        """

    def is_described(self) -> bool:
        """Tell whether the metadata files of the array exist and are valid."""

    def describe_again(self) -> None:
        """Write the metadata files of the array."""

    def refuse_loss(self, path: Location) -> None:
        """Refuse to replace a file that holds more than this target does.

        Raises
        ------
        UsageError
            If it does.
        """

    def take_blocks(self, other: Repairable, indices: Iterable[tuple[int, ...]]) -> None:
        """Replace these blocks by durable blocks of another target, each in one step.

        Blocks that the other target leaves out are removed.
        """

    def path_of(self, index: tuple[int, ...]) -> Location:
        """Return the file of a block; it does not exist if the block was left out."""
