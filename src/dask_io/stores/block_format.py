"""What a format of block files is: how a file begins, and nothing else.

A format whose blocks are no such files is a `Container`. A format module holds one object that
fulfils either. Another package adds its own through the entry point group ``dask_io.formats``
and proves it with `dask_io.testing.conformance`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from dask_io.geometry import Layout


@dataclass(frozen=True, slots=True)
class Header:
    """What a block file says about itself, and where its data begins."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: Layout
    offset: int


class Format(Protocol):
    """A kind of file that holds one block: a header, then its elements, then the end."""

    @property
    def name(self) -> str:
        """What users call it."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings of its files, each with its dot; new files get the first."""

    @property
    def longest_header(self) -> int:
        """Bytes of the longest header accepted; 0 if files do not describe themselves."""

    def parse_header(self, peek: Callable[[int], bytes]) -> Header:
        """Read a header; ``peek(n)`` returns the first n bytes of the file, or all if fewer.

        Raises
        ------
        ValueError
            If there is no header that can be trusted; the message completes "the file ...".
        """

    def make_header(self, shape: tuple[int, ...], dtype: np.dtype[Any], layout: Layout) -> bytes:
        """Return what comes before the data of a block.

        Raises
        ------
        ValueError
            If the format cannot hold this; the message completes "the format ...".
        """
