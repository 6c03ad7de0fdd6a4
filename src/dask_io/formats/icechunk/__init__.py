"""Icechunk repositories: Zarr arrays of version 3, under version control.

icechunk stores chunks and history; chunks are encoded and decoded here, as for any Zarr array. A
source is one snapshot, which never changes. A target is one commit, to a repository on local disk.
"""

from __future__ import annotations

from dask_io.formats.icechunk.source import open_icechunk, reopen_icechunk, reopen_written
from dask_io.formats.icechunk.target import make_icechunk, remake_icechunk


class IcechunkFormat:
    """Directories with snapshots of Zarr arrays."""

    name = "icechunk"
    suffixes = (".icechunk",)

    open = staticmethod(open_icechunk)
    make = staticmethod(make_icechunk)
    reopen = staticmethod(reopen_icechunk)
    read_back = staticmethod(reopen_written)
    remake = staticmethod(remake_icechunk)


FORMAT = IcechunkFormat()
