"""Blocks as they are stored: encoded, and copied so where two stores encode them alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


class EncodedReader(Protocol):
    """One visit to a block's bytes as they are stored."""

    @property
    def n_bytes(self) -> int:
        """How many there are."""

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:
        """Read some of them, and return the part of the buffer that holds them."""


@runtime_checkable
class EncodedSource(Protocol):
    """A source whose blocks can be read as they are stored."""

    @property
    def encoding(self) -> object | None:
        """All that says what stored bytes mean, None if they cannot be copied.

        Of two stores with equal ones, a block of the target is stored in the source as
        the target would store it.
        """

    def encoded(self, index: tuple[int, ...]) -> AbstractContextManager[EncodedReader | None]:
        """Visit a block of the target's grid as it is stored; None if it is not."""


@runtime_checkable
class EncodedTarget(Protocol):
    """A target that takes blocks as they are to be stored."""

    @property
    def encoding(self) -> object | None:
        """As that of a source."""

    def write_encoded(
        self, index: tuple[int, ...], n_bytes: int, pieces: Iterator[memoryview]
    ) -> int:
        """Write a block's bytes, given in pieces, and return their checksum.

        Without any, the block is one that is not stored.
        """


def can_copy(source: object, target: object) -> bool:
    """Whether the blocks of a target can be copied from a source as they are stored."""
    if isinstance(source, EncodedSource) and isinstance(target, EncodedTarget):
        return source.encoding is not None and source.encoding == target.encoding
    return False
