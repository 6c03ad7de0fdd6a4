"""The stored bytes of blocks, which are copied verbatim between stores with one encoding."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from dask_io.journal.ledger import NOTHING
from dask_io.storage.files import checksum_of_file
from dask_io.stores.store import Source, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import numpy as np

    from dask_io.geometry import Grid, Region
    from dask_io.storage.medium import Reader
    from dask_io.storage.tally import Tally
    from dask_io.stores.store import Checkable


class EncodedReader(Protocol):
    """One visit to the stored bytes of a block."""

    @property
    def n_bytes(self) -> int:
        """Number of bytes."""

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:
        """Read some of them, and return the part of the buffer that contains them."""


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
    """The stored bytes of blocks that were written whole, to verify their checksums.

    `find` visits a block; it yields None if the block is not stored.
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
    """One visit to a block that is not stored."""

    def checksum(self, region: Region, staging: memoryview) -> int:  # noqa: ARG002 - as of all
        return NOTHING


class EncodedSource(Source, Protocol):
    """A source whose stored bytes can be copied."""

    @property
    def copying_bytes(self) -> int:
        """Bytes that a visit to a stored block holds, apart from those it returns."""

    @property
    def encoded_grid(self) -> Grid:
        """The blocks that can be copied: chunks, or shards of several chunks."""

    def encoded(self, index: tuple[int, ...]) -> AbstractContextManager[EncodedReader | None]:
        """Visit the stored bytes of a block of this grid; None if it is not stored."""


class EncodedTarget(Target, Protocol):
    """A target that takes stored bytes of another store."""

    @property
    def copying_bytes(self) -> int:
        """Bytes held to write a stored block, apart from the pieces."""

    def write_encoded(
        self, index: tuple[int, ...], n_bytes: int, pieces: Iterator[memoryview]
    ) -> int:
        """Write the stored bytes of a block, given in pieces, and return their checksum."""


def can_copy(source: Source, target: Target) -> bool:
    """Tell whether both stores encode blocks in the same way."""
    return source.encoding is not None and source.encoding == target.encoding


def bytes_to_copy(source: Source, target: Target) -> int | None:
    """Return the bytes held to copy a stored block, apart from staging; None if it cannot be."""
    if not can_copy(source, target):
        return None
    copied_from, copied_to = cast("EncodedSource", source), cast("EncodedTarget", target)
    return copied_from.copying_bytes + copied_to.copying_bytes
