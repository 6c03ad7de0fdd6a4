"""Raw blocks: the elements and nothing else, in any order of axes.

Files do not describe themselves. A manifest or the user gives shape and dtype, and the sizes of the
files must match them exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.stores.block_format import Format

if TYPE_CHECKING:
    from dask_io.stores.block_format import Header, Peek


def parse_header(peek: Peek) -> Header:  # noqa: ARG001 - nothing to look at
    """Refuse: there is no header."""
    raise ValueError("has no header; give its shape and dtype")


def make_header(block: Header) -> bytes:  # noqa: ARG001 - any will do
    """Return nothing."""
    return b""


FORMAT = Format("raw", (".raw", ".bin", ".dat"), 0, parse_header, make_header)
