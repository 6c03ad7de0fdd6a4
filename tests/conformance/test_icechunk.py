"""Arrays in icechunk repositories keep the laws of stores, but for what a commit changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import icechunk

from dask_io.formats import make_target, open_source
from dask_io.stores.container import TargetOptions
from dask_io.testing.conformance import DTYPES, Case, StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target


class TestIcechunk(StoreConformance):
    """Uncompressed chunks of an array that is alone in its repository."""

    regular = True
    padded = True
    resumable = False
    # Version 3 of Zarr knows one byte order for all fields of a record, none of them an array.
    dtypes: ClassVar[Any] = [
        *(dtype for dtype in DTYPES if isinstance(dtype, str)),
        [("a", "<i2"), ("b", "u1"), ("c", "<f4")],
    ]
    options: ClassVar[TargetOptions] = TargetOptions()
    path: ClassVar[str] = "x.icechunk"

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / self.path,
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
            options=self.options_for(case),
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - describes itself
        """Open it."""
        return open_source(folder / self.path)

    def options_for(self, case: Case) -> TargetOptions:  # noqa: ARG002 - the same for all
        """Return what is asked for besides."""
        return self.options

    def visible(self, folder: Path) -> set[str]:
        """Return the snapshots that readers can choose from."""
        storage = icechunk.local_filesystem_storage(str(folder / "x.icechunk"))
        repository = icechunk.Repository.open(storage)
        return {snapshot.id for snapshot in repository.ancestry(branch="main")}


class TestIcechunkZstd(TestIcechunk):
    """Compressed chunks of an array in groups."""

    options = TargetOptions(codec="zstd:3+crc32c")
    path = "x.icechunk::/day/1"


class TestIcechunkSharded(TestIcechunk):
    """Shards of one chunk each, so that what is read and written are of one grid."""

    path = "x.icechunk::/@main/day"

    def options_for(self, case: Case) -> TargetOptions:
        """Ask for shards as large as the chunks."""
        shards = tuple(axis.chunk or 1 for axis in case.grid.axes)
        return TargetOptions(codec="lz4", shards=shards, write_empty=True)
