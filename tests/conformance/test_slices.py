"""Folders of slices keep the laws of stores: written by pattern, found again, opened one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import pytest

from dask_io.errors import UsageError
from dask_io.formats import make_target, open_source
from dask_io.formats.npy import FORMAT
from dask_io.formats.places import refuse_unfinished
from dask_io.geometry import Axis, Grid
from dask_io.stores.block_names import BlockNames
from dask_io.stores.listing import scan
from dask_io.stores.manifest import NAME
from dask_io.stores.stack import open_stack
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from dask_io.storage.location import Location
    from dask_io.stores import Source, Target


class TestNpySlices(StoreConformance):
    """A folder of slices that has lost its manifest, opened by the pattern."""

    n_examples = 3
    layouts = "CF"
    fewest_axes = 3
    axis: ClassVar[int] = 0
    pattern: ClassVar[str] = "v1 {{é}} {0:slice:from7:02}.npy"

    def random_case(self, generator: random.Random) -> Case:
        """Draw an array that is cut into single slices along one axis."""
        case = super().random_case(generator)
        axes = [
            Axis.regular(n, 1 if axis == self.axis else n) for axis, n in enumerate(case.grid.shape)
        ]
        return replace(case, grid=Grid(tuple(axes)))

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / "slices" / self.pattern.replace(":slice", ""),
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
        )

    def open_source(self, folder: Path, case: Case) -> Source:
        """Open it by its pattern; an array without elements by its manifest."""
        if not case.grid.n_blocks:
            return open_source(folder / "slices")
        (folder / "slices" / NAME).unlink(missing_ok=True)
        return open_source(folder / "slices" / self.pattern)


class TestSlicesAlongTheLastAxis(TestNpySlices):
    """Slices along axis 2, in files with the other axes."""

    n_examples = 2
    axis = 2
    pattern = "x{2:slice}.npy"

    def test_arrays_without_elements(self, tmp_path: Path) -> None:
        """Slices along axis 2 do not hold an array whose chunks are longer there."""
        with pytest.raises(UsageError, match="use chunks of -1,-1,1"):
            super().test_arrays_without_elements(tmp_path)


def open_block_file(path: Location) -> Source:
    """Open one file as a source, as formats do whose files are more than a header and elements."""
    return open_source(path)


class TestStack(TestNpySlices):
    """Slices that are opened one by one."""

    def open_source(self, folder: Path, case: Case) -> Source:
        """Open it as a stack of files."""
        if not case.grid.n_blocks:
            return open_source(folder / "slices")
        refuse_unfinished(folder / "slices")
        names = BlockNames(self.pattern, len(case.grid.axes))
        format_ = replace(FORMAT, open_file=open_block_file)
        return open_stack(folder / "slices", scan(folder / "slices"), format_, names)
