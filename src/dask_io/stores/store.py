"""The interface to storage: what the engine requires of every store, of any format.

A store describes an array cut into blocks. A source provides readers of single blocks, a target
provides writers. A visit to a block is one reader or writer, from when it is opened to when it is
closed. Parts of a block that are moved in storage order within one visit cost no more than the
block's runs.

Any number of visits may take place at once, to the same block or to different ones, from any
threads. A single reader or writer belongs to one thread at a time.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from dask_io.errors import UsageError
from dask_io.storage.medium import Writers

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
    """The cost of moving a part of a block."""

    ADDRESSABLE = "addressable"
    """Its runs: the block's bytes are stored as its layout states."""
    ATOMIC = "atomic"
    """The whole block: it is decoded or encoded as one."""


class Extent(NamedTuple):
    """Where a block's bytes are: a file of the store, and the offset of the first element."""

    name: str
    offset: int
    shape: tuple[int, ...]


class Footprint(NamedTuple):
    """The most files that a target takes, and whether it leaves out blocks of the fill value."""

    n_files: int
    leaves_out: bool = False


class Memory(NamedTuple):
    """The memory of one visit, as a store states it."""

    reused_bytes: int
    codec_bytes: int


class Store(Protocol):
    """An array cut into blocks."""

    @property
    def place(self) -> str:
        """The path or address, for messages."""

    @property
    def format(self) -> str:
        """Name of the format."""

    @property
    def grid(self) -> Grid:
        """Grid of the blocks."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements, as stored."""

    @property
    def layout(self) -> Layout:
        """Order of the elements in each block."""

    @property
    def access(self) -> Access:
        """The cost of moving a part of a block."""

    @property
    def reused_bytes(self) -> int:
        """Staging bytes that one visit uses, apart from the values it moves.

        They are for blocks that are encoded, decoded, assembled or padded.
        """

    @property
    def codec_bytes(self) -> int:
        """Other bytes that one visit holds at most, in libraries and between codecs."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """All metadata of the array except grid, dtype and layout."""

    @property
    def tally(self) -> Tally:
        """Counts of seeks, visits and bytes."""

    @property
    def is_indivisible(self) -> bool:
        """Whether single blocks can neither be removed nor kept of an interrupted run."""

    @property
    def n_absent(self) -> int | None:
        """Blocks of a source that are not stored and cost no visit; None if that is unknown."""

    @property
    def is_sequential(self) -> bool:
        """Whether blocks are parts of compressed streams, so that going back costs time."""

    @property
    def calls_functions(self) -> bool:
        """Whether a visit calls a function of the user, which may take long and use all cores."""

    @property
    def block_names(self) -> BlockNames | None:
        """The pattern of the names of block files; None if blocks are not such files."""

    @property
    def encoding(self) -> object | None:
        """Everything that determines the stored bytes, None if they cannot be copied verbatim.

        A source and a target with equal values store each block of the target in the same way.
        Then they are an `EncodedSource` and an `EncodedTarget`.
        """

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the store can be opened or created again."""


class StoreDefaults:
    """Members of most stores: every block is stored, can be removed, and is not copied."""

    is_indivisible = False
    is_sequential = False

    @property
    def calls_functions(self) -> bool:
        """Visits move data and call no function of the user."""
        return False

    @property
    def encoding(self) -> object | None:
        """Blocks are not copied verbatim."""
        return None

    @property
    def block_names(self) -> BlockNames | None:
        """Blocks are not files with a pattern of names."""
        return None

    @property
    def n_absent(self) -> int | None:
        """Every block is stored."""
        return 0


def inferred_in(store: Store) -> str:
    """Return what was inferred from the names of a store's files; empty if nothing was."""
    names = store.block_names
    return f"{names.pattern} ({names.meaning})" if names is not None and names.inferred else ""


class Checkable(Protocol):
    """One visit to a block whose checksum is known."""

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the `BlockWriter.checksum` of the region when it was written in one visit."""


class Readback(Protocol):
    """A written array, in the blocks in which it was written."""

    @property
    def grid(self) -> Grid:
        """The blocks that were written at once."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""

    @property
    def tally(self) -> Tally:
        """Counts of seeks, visits and bytes."""

    def reader(self, index: tuple[int, ...]) -> AbstractContextManager[Checkable]:
        """Visit a block."""


class BlockReader(Checkable, Protocol):
    """One visit to a block of a source."""

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Read a region, relative to the block's start, and return it as an array.

        Along the layout's fastest axis, its elements are contiguous. It may be a view of `buffer`,
        which has room for `ALIGNMENT` bytes more than the region at each end, and for the source's
        `reused_bytes`. Between the calls of a visit, nobody else writes to the buffer.
        """

    def expect(self, region: Region) -> None:
        """Prepare for a region, relative to the block's start, that will be read in parts."""


class Source(Store, Protocol):
    """A store that is read."""

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes that the store occupies, with headers."""

    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> AbstractContextManager[BlockReader]:
        """Visit a block.

        Several threads may share a visit, each with a part of a region. Then `after` is the part
        before, relative to the block's start. It does not count as a new visit, and reading on
        directly after that part is not a seek.
        """

    def check(self) -> None:
        """Check every block's header or size.

        Raises
        ------
        DataError
            If blocks do not match the grid; it lists them.
        """

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a block's name, size or time does."""

    def list_again(self) -> None:
        """Drop any cached listing of the blocks."""

    def describe_in_place(self) -> None:
        """Store the shape, if it is inferred from the blocks, before blocks are removed."""

    def discard(self, index: tuple[int, ...]) -> None:
        """Remove a block for good."""

    def discard_rest(self) -> None:
        """Remove the rest of the store after all blocks have been removed."""


class SourceDefaults(StoreDefaults):
    """Members of most sources: nothing is cached or inferred."""

    def list_again(self) -> None:
        """Do nothing: no listing is cached."""

    def describe_in_place(self) -> None:
        """Do nothing: the shape is stored."""


class BlockWriter(Protocol):
    """One visit to a block of a target."""

    @property
    def checksum(self) -> int:
        """Checksum of everything that this visit has written, in storage order."""

    def go_on_at(self, region: Region) -> None:
        """Continue the visit that wrote everything before a region.

        It is relative to the block's start. Beginning with it is not a seek.
        """

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Write a region, relative to the block's start; `array` has the target's layout.

        The staging buffer has room for the target's `reused_bytes`.
        """

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        """Write a region that is assembled in a staging buffer.

        `fill` is called with one part of the region after another, in storage order, and an array
        to fill. The buffer has room for an element and `ALIGNMENT` at each end, and for the
        target's `reused_bytes`.
        """


class Target(Store, Protocol):
    """A store that is written, by one run at a time.

    A block is written under a temporary name, in one visit or several, and gets its own name when
    it is complete. Committed blocks survive the run, so that another run can continue.
    """

    in_pieces: bool
    """Whether blocks are encoded in pieces: in less memory, but more slowly."""

    @property
    def converts_as_numpy(self) -> bool:
        """Whether it converts elements of other types as NumPy does."""

    @property
    def inferred_axes(self) -> str:
        """Names of the axes, if the format needs names and nothing gives them; else empty."""

    @property
    def piecewise(self) -> Memory | None:
        """The memory of a visit with `in_pieces`, None if the codecs need whole blocks."""

    @property
    def footprint(self) -> Footprint:
        """The files that the target takes."""

    @property
    def durability(self) -> Durability:
        """What committed blocks survive."""

    @property
    def writers(self) -> Writers:
        """Who may write different blocks at once."""

    def check(self) -> None:
        """Raise the errors that `create` would raise, without changing anything."""

    def create(self, job: bytes = b"{}") -> None:
        """Create the target; a journal with the job is written first.

        Raises
        ------
        TargetExistsError
            If the target exists and may not be overwritten.
        """

    def resume(self) -> Ledger:
        """Continue where an interrupted run ended; return the durable blocks."""

    def writer(self, index: tuple[int, ...]) -> AbstractContextManager[BlockWriter]:
        """Visit a block."""

    def commit(self, cells: Collection[Written]) -> None:
        """Make written cells durable, and record them in the journal.

        Complete blocks get their names. Threads may commit at once.
        """

    def note(self, lines: Iterable[str]) -> None:
        """Add other lines to the journal; they are as durable as cells."""

    def finish(self) -> None:
        """Complete the target after everything has been committed."""

    def abandon(self, *, keep: bool = False) -> bool:
        """Remove uncommitted blocks, and release the target so that another run can continue.

        Returns whether there is anything to continue, or `keep` asks to keep an empty target.
        Nothing happens unless `create` or `resume` succeeded.
        """


class TargetDefaults(StoreDefaults):
    """Members of most targets: each block is a file, and is encoded as a whole."""

    converts_as_numpy = True
    inferred_axes = ""
    in_pieces = False
    grid: Any

    @property
    def piecewise(self) -> Memory | None:
        """Blocks are encoded as a whole."""
        return None

    @property
    def writers(self) -> Writers:
        """Only threads of one process."""
        return Writers.THREADS

    @property
    def footprint(self) -> Footprint:
        """A file for each block."""
        return Footprint(self.grid.n_blocks)


class Unjournalled:
    """A target without a journal: nothing is refused or recorded, and no run can be resumed."""

    place: Any

    @property
    def writers(self) -> Writers:
        """Processes must not write the same blocks, which only their caller can prevent."""
        return Writers.THREADS

    def check(self) -> None:
        """Do nothing: the target is expected to exist."""

    def create(self, job: bytes = b"{}") -> None:
        """Do nothing: the target exists."""

    def resume(self) -> Ledger:
        """Refuse: there is no record of written blocks.

        Raises
        ------
        UsageError
            Always.
        """
        raise UsageError(f"{self.place} is filled without a journal, so no run can be resumed")

    def commit(self, cells: Collection[Written]) -> None:
        """Do nothing: there is no journal."""

    def note(self, lines: Iterable[str]) -> None:
        """Do nothing: there is no journal."""

    def finish(self) -> None:
        """Do nothing: blocks are in place."""

    def abandon(self, *, keep: bool = False) -> bool:  # noqa: ARG002 - there is no journal
        """Leave the written blocks; the run can only be started again."""
        return False


class SharedTarget(Target, Protocol):
    """A target that processes can write in parts, each with whole blocks; see `Writers`."""

    def join(self, number: int, count: int, region: Region) -> Ledger:
        """Write part `number` of `count`, which has a region of whole blocks.

        Another process has created the target. Returns the blocks of the part that are durable,
        relative to the region. `finish` then completes the part, not the target. If all blocks are
        durable, there is nothing to finish.
        """


@runtime_checkable
class Repairable(Target, Protocol):
    """A target whose damaged blocks can be replaced by the same blocks of another target."""

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
