"""Zarr arrays, versions 2 and 3, on local disk.

zarr-python reads and makes the metadata; chunks are read, decoded, encoded and written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dask_io.stores.container import needs

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores.container import Wanted
    from dask_io.stores.store import Source, Target

_MARKS = ("zarr.json", ".zarray", ".zgroup", ".zarr.json.part", "..zarray.part")


@dataclass(frozen=True, slots=True)
class ZarrFormat:
    """Directories that hold an array's metadata and one file a chunk, or groups of those."""

    name: str = "zarr"
    suffixes: tuple[str, ...] = (".zarr",)

    def recognises(self, path: Path) -> bool:
        """Look for the metadata of an array or of a group."""
        return any((path / mark).is_file() for mark in _MARKS)

    def open(self, path: Path, inside: str, *, strict: bool) -> Source:
        """Open an array; only its metadata is read yet."""
        with needs(self.name, "zarr"):
            from dask_io.stores.zarr.source import open_zarr  # noqa: PLC0415 - a second, if needed
        return open_zarr(path, inside, strict=strict)

    def make(
        self, path: Path, inside: str, wanted: Wanted, *, overwrite: bool, durable: bool
    ) -> Target:
        """Describe a target."""
        with needs(self.name, "zarr"):
            from dask_io.stores.zarr.target import make_zarr  # noqa: PLC0415 - as above
        return make_zarr(path, inside, wanted, overwrite=overwrite, durable=durable)


FORMAT = ZarrFormat()
