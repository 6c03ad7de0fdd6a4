"""TIFF files keep the laws of stores: as blocks, as one file, in tiles, and compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

from dask_io.errors import UsageError
from dask_io.formats import make_target, open_source
from dask_io.geometry import Grid, Layout
from dask_io.stores.container import TargetOptions
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from dask_io.stores import Source, Target


class TestTiffDirectory(StoreConformance):
    """A directory of .tif blocks with its manifest."""

    layouts = "C"
    n_examples = 4
    dtypes = ("u1", "i1", "<i2", ">i2", "<u4", ">i8", "<f2", "<f4", ">f8", "<c8", ">c16")
    path: ClassVar[str] = "blocks"
    format: ClassVar[str | None] = "tiff"

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / self.path,
            format=self.format,
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - files describe it
        """Open it."""
        return open_source(folder / self.path)

    def test_arrays_without_elements(self, tmp_path: Path) -> None:
        """TIFF has no images without elements, so they are refused."""
        grid = Grid.regular((3, 0), (3, 1))
        with pytest.raises(UsageError, match="without elements"):
            self.make_target(tmp_path, Case(grid, np.dtype("u1"), Layout.c(2)))


class TestOneTiff(TestTiffDirectory):
    """One .tif file, whose elements follow its header."""

    path = "scan.tif"
    format = None
    one_block = True


class TestOneBigTiff(TestOneTiff):
    """One BigTIFF file."""

    path = "scan.btf"
    n_examples = 2


class TestTiles(TestTiffDirectory):
    """One file in tiles that are not compressed."""

    path = "scan.tif"
    format = None
    n_examples = 3
    padded = True
    codec: ClassVar[str | None] = None

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / self.path,
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
            options=TargetOptions(codec=self.codec),
        )

    def random_case(self, generator: random.Random) -> Case:
        """Draw an array of two or three axes, with tiles of multiples of 16."""
        page = [generator.randint(17, 40), generator.randint(33, 50)]
        chunks = [16, generator.choice([16, 32])]
        leading = generator.choice([[], [2]])
        grid = Grid.regular([*leading, *page], [*(1 for _ in leading), *chunks])
        dtype = np.dtype(generator.choice(self.dtypes))
        return Case(grid, dtype, Layout.c(len(grid.axes)), generator.randrange(2**32))


class TestCompressedTiles(TestTiles):
    """One file in compressed tiles, which cannot be continued by another run."""

    codec = "zstd"
    resumable = False


class TestCompressedStrips(TestCompressedTiles):
    """One file in compressed strips; the last one of a page is shorter."""

    codec = "zlib:1"

    def random_case(self, generator: random.Random) -> Case:
        """Draw an array of pages whose rows are not a multiple of those of a strip."""
        shape = (generator.randint(1, 3), generator.randint(8, 12), generator.randint(1, 9))
        grid = Grid.regular(shape, (1, generator.choice([5, 7]), shape[2]))
        dtype = np.dtype(generator.choice(self.dtypes))
        return Case(grid, dtype, Layout.c(3), generator.randrange(2**32))
