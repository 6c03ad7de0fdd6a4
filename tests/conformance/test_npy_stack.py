"""Stacks of Dask keep the laws of stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.formats import make_target, open_source
from dask_io.geometry import Grid
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from dask_io.stores import Source, Target


class TestNpyStack(StoreConformance):
    """Files along one axis, of any lengths, in C or F order."""

    layouts = "CF"

    def random_case(self, generator: random.Random) -> Case:
        """Cut one axis only."""
        case = super().random_case(generator)
        cut = generator.randrange(len(case.grid.axes))
        whole = Grid.regular(case.grid.shape, case.grid.shape).axes
        axes = [*whole[:cut], case.grid.axes[cut], *whole[cut + 1 :]]
        return Case(Grid(tuple(axes)), case.dtype, case.layout, case.seed)

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make a stack."""
        return make_target(
            folder / "stack",
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            format="npy-stack",
            overwrite=overwrite,
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - describes itself
        """Open it by what it holds."""
        return open_source(folder / "stack")
