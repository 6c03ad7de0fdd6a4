"""Formats of a header and its data keep the laws of stores: MRC, NRRD, MetaImage and FITS.

MGH and Analyze are only read, so they have no targets to test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dask_io.formats import make_target, open_source
from dask_io.geometry import Grid, Layout
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from dask_io.stores import Source, Target

_INTEGERS = ("<i2", ">i2", "<u2", "<i4", ">u4", "<i8", ">u8")


class OneFormat(StoreConformance):
    """A directory of blocks that say where they lie."""

    n_examples = 5
    format: ClassVar[str]

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make a directory of blocks."""
        n_axes = len(case.grid.axes)
        axes = (SpaceAxis(None, "angstrom", AxisType.SPACE),) * n_axes
        space = Space(axes, Affine.scaled((0.5,) * n_axes, (1.0,) * n_axes))
        kind: Any = {"grid": case.grid, "dtype": case.dtype, "layout": case.layout}
        return make_target(
            folder / "blocks",
            format=self.format,
            overwrite=overwrite,
            metadata={"space": space},
            **kind,
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - it has a manifest
        """Open it."""
        return open_source(folder / "blocks")


class TestNrrd(OneFormat):
    """Blocks of NRRD, in either byte order."""

    layouts = "F"
    format = "nrrd"
    dtypes = ("u1", "i1", "<f4", ">f8", *_INTEGERS)


class TestMetaImage(OneFormat):
    """Blocks of MetaImage, in either byte order."""

    layouts = "F"
    format = "metaimage"
    dtypes = ("u1", "i1", "<f4", ">f8", *_INTEGERS)


class TestFits(OneFormat):
    """Blocks of FITS, which end with zeros."""

    layouts = "C"
    format = "fits"
    dtypes = ("u1", ">i2", ">i4", ">i8", ">f4", ">f8")


class TestMrc(OneFormat):
    """Blocks of MRC, which have 2 to 4 axes."""

    layouts = "C"
    format = "mrc"
    dtypes: ClassVar[Sequence[Any]] = ("i1", "<i2", ">u2", "<f2", ">f4", "<c8")

    def random_case(self, generator: random.Random) -> Case:
        """Draw an array that MRC can hold."""
        case = super().random_case(generator)
        while len(case.grid.axes) == 1:
            case = super().random_case(generator)
        return case

    def test_arrays_without_elements(self, tmp_path: Path) -> None:
        """MRC has no arrays of one axis, but others may be empty."""
        folder = self.make_place(tmp_path, 0)
        case = Case(Grid.regular((0, 2, 5), (1, 2, 5)), np.dtype("i1"), Layout.c(3))
        self.write(folder, case)
        source = self.open_source(folder, case)
        source.check()
        assert (source.grid.shape, source.dtype) == ((0, 2, 5), case.dtype)


class TestOneFitsFile(TestFits):
    """One FITS file, without a manifest."""

    one_block = True

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make a file."""
        kind: Any = {"grid": case.grid, "dtype": case.dtype, "layout": case.layout}
        return make_target(folder / "image.fits", overwrite=overwrite, **kind)

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - it says all
        """Open it."""
        return open_source(folder / "image.fits")


class OnePath(OneFormat):
    """A path with a suffix: one file, or blocks named by a pattern."""

    n_examples = 2
    layouts = "F"
    dtypes: ClassVar[Sequence[Any]] = ("u1", ">f8", *_INTEGERS)
    path: ClassVar[str]

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        kind: Any = {"grid": case.grid, "dtype": case.dtype, "layout": case.layout}
        return make_target(self.path_in(folder, case), overwrite=overwrite, **kind)

    def open_source(self, folder: Path, case: Case) -> Source:
        """Open it."""
        return open_source(self.path_in(folder, case))

    def path_in(self, folder: Path, case: Case) -> Path:
        """Return the path, with as many fields as the array has axes."""
        fields = [f"{{{axis}}}" for axis in range(len(case.grid.axes))]
        return folder / self.path.replace("FIELDS", "_".join(fields))


class TestDetachedNrrd(OnePath):
    """Blocks whose headers are in .nhdr files."""

    path = "blocks/b_FIELDS.nhdr"


class TestOneDetachedNrrd(TestDetachedNrrd):
    """One .nhdr file and its data."""

    one_block = True
    path = "scan.nhdr"


class TestDetachedMetaImage(OnePath):
    """Blocks whose headers are in .mhd files."""

    path = "blocks/b_FIELDS.mhd"


class TestOneDetachedMetaImage(TestDetachedMetaImage):
    """One .mhd file and its data."""

    one_block = True
    path = "scan.mhd"


class TestGzipMrc(OnePath, TestMrc):
    """Blocks of .mrc.gz."""

    layouts = "C"
    dtypes = ("i1", "<i2", ">f4")
    path = "blocks/b_FIELDS.mrc.gz"
