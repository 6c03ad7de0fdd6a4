"""MINC files keep the laws of stores: one file, compressed or not, and block files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dask_io.formats import make_target, open_source
from dask_io.stores.container import TargetOptions
from dask_io.stores.manifest import NAME
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target

DTYPES = ["u1", "i1", "<i2", ">i2", "<u4", "<f4", ">f8"]


class TestMincFile(StoreConformance):
    """One file, with an image in plain chunks."""

    n_examples = 2
    layouts = "C"
    regular = True
    padded = True
    dtypes: ClassVar[Any] = DTYPES
    options: ClassVar[TargetOptions] = TargetOptions(codec="none")

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / "x.mnc",
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
            options=self.options,
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - describes itself
        """Open it."""
        return open_source(folder / "x.mnc")


class TestCompressedMincFile(TestMincFile):
    """One file with compressed chunks, as minc-tools write it; it counts only as a whole."""

    resumable = False
    options = TargetOptions(codec="zlib:4")


class TestMincBlocks(StoreConformance):
    """A directory of block files with its manifest."""

    n_examples = 2
    layouts = "C"
    dtypes: ClassVar[Any] = DTYPES
    is_described: ClassVar[bool] = True

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / "blocks",
            format="minc",
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
        )

    def open_source(self, folder: Path, case: Case) -> Source:
        """Open it, without its manifest if only the files are to tell what is there."""
        if not self.is_described and case.grid.n_blocks:
            (folder / "blocks" / NAME).unlink(missing_ok=True)
        return open_source(folder / "blocks")


class TestFoundMincBlocks(TestMincBlocks):
    """A directory of block files that has lost its manifest."""

    is_described = False
