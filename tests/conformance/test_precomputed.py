"""Precomputed volumes keep the laws of stores, in chunks and in shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import numpy as np
import obstore

from dask_io.formats import make_target, open_source
from dask_io.geometry import Grid, Layout
from dask_io.storage.location import locate
from dask_io.stores.container import TargetOptions
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from dask_io.stores import Source, Target


class TestPrecomputed(StoreConformance):
    """Chunks in files of their own, of three axes or with channels."""

    layouts = "F"
    regular = True
    n_examples = 5
    fewest_axes = 3
    dtypes: ClassVar[Any] = ["u1", "i1", "<i2", "<u4", "<u8", "<f4"]

    def random_case(self, generator: random.Random) -> Case:
        """Draw an array whose chunks have all channels."""
        case = super().random_case(generator)
        shape, chunks = case.grid.shape, [axis.chunk or 1 for axis in case.grid.axes]
        grid = Grid.regular(shape, (*chunks[:3], *shape[3:]))
        return Case(grid, case.dtype, case.layout, case.seed)

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / "x.precomputed",
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
            options=self.options_for(case),
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - describes itself
        """Open it."""
        return open_source(folder / "x.precomputed")

    def options_for(self, case: Case) -> TargetOptions:  # noqa: ARG002 - the same for all
        """Return the options of the target."""
        return TargetOptions()

    def test_arrays_without_elements(self, tmp_path: Path) -> None:
        """A volume has three axes, but may be empty."""
        folder = self.make_place(tmp_path, 0)
        case = Case(Grid.regular((0, 2, 5), (1, 2, 5)), np.dtype("u1"), Layout.f(3))
        self.write(folder, case)
        source = self.open_source(folder, case)
        source.check()
        assert (source.grid.shape, source.dtype) == ((0, 2, 5), case.dtype)


class TestPrecomputedSharded(TestPrecomputed):
    """Shards of one chunk each, so that what is read and written are of one grid."""

    def options_for(self, case: Case) -> TargetOptions:
        """Ask for shards as large as the chunks."""
        shards = tuple(axis.chunk or 1 for axis in case.grid.axes)
        return TargetOptions(shards=shards, write_empty=True)


class TestPrecomputedObjects(TestPrecomputedSharded):
    """Shards in an object store, in memory."""

    n_examples = 3
    appears_at_once = True

    def make_place(self, folder: Path, number: int) -> Any:  # noqa: ARG002 - none is needed
        """Return a place that nobody uses."""
        return locate(f"memory://conformance/{uuid4()}")

    def contents(self, place: Any) -> dict[str, bytes]:
        """Return all objects of a place."""
        listed = obstore.list(place.store, prefix=place.key).collect()
        return {
            each["path"].removeprefix(f"{place.key}/"): bytes(
                obstore.get(place.store, each["path"]).bytes()
            )
            for each in listed
        }
