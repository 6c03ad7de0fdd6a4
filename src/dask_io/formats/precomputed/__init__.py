"""Precomputed volumes of Neuroglancer: a JSON document, and chunks or shards of each scale.

Any number of chunks may be read or written at once. No library of Neuroglancer is needed.
"""

from __future__ import annotations

from dask_io.formats.precomputed.source import (
    FORMAT_NAME,
    open_precomputed,
    read_back_precomputed,
    reopen_precomputed,
)
from dask_io.formats.precomputed.target import make_precomputed, remake_precomputed


class PrecomputedFormat:
    """Directories with a volume in one or more scales."""

    name = FORMAT_NAME
    suffixes = (".precomputed",)

    open = staticmethod(open_precomputed)
    make = staticmethod(make_precomputed)
    reopen = staticmethod(reopen_precomputed)
    read_back = staticmethod(read_back_precomputed)
    remake = staticmethod(remake_precomputed)


FORMAT = PrecomputedFormat()
