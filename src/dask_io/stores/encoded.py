"""Blocks as they are stored: encoded, and copied so where two stores encode them alike."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from dask_io.journal.ledger import NOTHING
from dask_io.storage.files import checksum_of_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import numpy as np

    from dask_io.geometry import Grid, Region
    from dask_io.storage.medium import Reader
    from dask_io.storage.tally import Tally
    from dask_io.stores.store import Checkable


class EncodedReader(Protocol):
    """One visit to a block's bytes as they are stored."""

    @property
    def n_bytes(self) -> int:
        """How many there are."""

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:
        """Read some of them, and return the part of the buffer that holds them."""


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """One visit to a block's bytes in a file."""

    file: Reader
    n_bytes: int
    offset: int = 0

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:
        """Read some of them."""
        return self.file.read(self.offset + offset, n_bytes, buffer)

    def checksum(self, region: Region, staging: memoryview) -> int:  # noqa: ARG002 - of all
        """Return the checksum of all of them."""
        return checksum_of_file(self.file, self.offset, self.n_bytes, staging)


@dataclass(frozen=True)
class AsStored:
    """Blocks that were written whole, as they are stored: to compare them with what was written.

    `find` visits one; it gives None if it is not stored.
    """

    grid: Grid
    dtype: np.dtype[Any]
    tally: Tally
    find: Callable[[tuple[int, ...]], AbstractContextManager[StoredBytes | None]]

    @contextmanager
    def reader(self, index: tuple[int, ...]) -> Iterator[Checkable]:
        """Visit a block."""
        with self.find(index) as stored:
            yield stored or _NotStored()


class _NotStored:
    """One visit to a block of which nothing is stored."""

    def checksum(self, region: Region, staging: memoryview) -> int:  # noqa: ARG002 - as of all
        return NOTHING


@runtime_checkable
class EncodedSource(Protocol):
    """A source whose blocks can be read as they are stored."""

    @property
    def encoding(self) -> object | None:
        """All that says what stored bytes mean, None if they cannot be copied.

        Of two stores with equal ones, a block of the target is stored in the source as
        the target would store it.
        """

    @property
    def copying_bytes(self) -> int:
        """What a visit to a block as it is stored holds at most, besides what it returns."""

    def encoded(self, index: tuple[int, ...]) -> AbstractContextManager[EncodedReader | None]:
        """Visit a block of the target's grid as it is stored; None if it is not."""


@runtime_checkable
class EncodedTarget(Protocol):
    """A target that takes blocks as they are to be stored."""

    @property
    def encoding(self) -> object | None:
        """As that of a source."""

    @property
    def copying_bytes(self) -> int:
        """What it takes to write a block as it is stored, besides the pieces."""

    def write_encoded(
        self, index: tuple[int, ...], n_bytes: int, pieces: Iterator[memoryview]
    ) -> int:
        """Write a block's bytes, given in pieces, and return their checksum.

        Without any, the block is one that is not stored.
        """


class Taken(NamedTuple):
    """What a visit to a block takes, as a store says it of itself."""

    reused_bytes: int
    codec_bytes: int


@runtime_checkable
class PiecewiseTarget(Protocol):
    """A target that can encode its blocks piece by piece: in less memory, but longer."""

    in_pieces: bool
    """Whether it does, from now on."""

    @property
    def piecewise(self) -> Taken | None:
        """What a visit takes if it does, None if its codecs cannot."""


def taken_in_pieces(target: object) -> Taken | None:
    """Return what a visit takes that encodes a block piece by piece, None if there is none."""
    return target.piecewise if isinstance(target, PiecewiseTarget) else None


def encode_in_pieces(target: object, *, wanted: bool) -> None:
    """Have a target encode its blocks piece by piece, or not, if it has the choice."""
    if isinstance(target, PiecewiseTarget):
        target.in_pieces = wanted


def bytes_to_copy(source: object, target: object) -> int | None:
    """Return what it takes, besides staging, to copy a target's block as a source stores it.

    None if the two do not store blocks alike.
    """
    if isinstance(source, EncodedSource) and isinstance(target, EncodedTarget):
        is_alike = source.encoding is not None and source.encoding == target.encoding
        return source.copying_bytes + target.copying_bytes if is_alike else None
    return None
