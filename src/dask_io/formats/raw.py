"""Raw blocks: the elements and nothing else, in any order of axes.

Files do not describe themselves: a manifest or the user says what is in them, and their size
must match it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from dask_io.geometry import Layout
    from dask_io.stores.block_format import Header


@dataclass(frozen=True, slots=True)
class RawFormat:
    """Files without a header."""

    name: str = "raw"
    suffixes: tuple[str, ...] = (".raw", ".bin", ".dat")
    longest_header: int = 0

    def parse_header(self, peek: Callable[[int], bytes]) -> Header:  # noqa: ARG002 - nothing to look at
        """Refuse: there is no header."""
        raise ValueError("has no header; give its shape and dtype")

    def make_header(
        self,
        shape: tuple[int, ...],  # noqa: ARG002 - any will do
        dtype: np.dtype[Any],  # noqa: ARG002
        layout: Layout,  # noqa: ARG002
    ) -> bytes:
        """Return nothing."""
        return b""


FORMAT = RawFormat()
