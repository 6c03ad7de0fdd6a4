"""Images made from arrays keep the laws of stores, in both versions of OME-Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dask_io.formats import make_target, open_source
from dask_io.stores.container import TargetOptions
from dask_io.testing.conformance import Case, StoreConformance
from tests.conformance.test_zarr import TestZarr2, TestZarr3

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target


class TestOmeZarr04(StoreConformance):
    """Uncompressed chunks of Zarr 2, in nested directories."""

    n_examples = 5
    fewest_axes = 2
    layouts = TestZarr2.layouts
    regular = True
    padded = True
    dtypes = TestZarr2.dtypes
    options: ClassVar[TargetOptions] = TargetOptions(format_version=2)

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / "x.zarr",
            format="ome-zarr",
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
            options=self.options,
            metadata={"dimension_names": tuple("czyx"[-len(case.grid.axes) :])},
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - describes itself
        """Open it."""
        return open_source(folder / "x.zarr")


class TestOmeZarr05(TestOmeZarr04):
    """Compressed chunks of Zarr 3."""

    layouts = TestZarr3.layouts
    dtypes = TestZarr3.dtypes
    options = TargetOptions(format_version=3, codec="gzip:1")
