"""N5 datasets keep the laws of stores, with and without compression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dask_io.formats import make_target, open_source
from dask_io.stores.container import TargetOptions
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target


class TestN5(StoreConformance):
    """Uncompressed blocks of a dataset at the root of its container."""

    layouts = "C"
    regular = True
    n_examples = 5
    dtypes: ClassVar[Any] = ["u1", "i1", "<i2", "<u4", "<i8", "<f4", "<f8"]
    options: ClassVar[TargetOptions] = TargetOptions()
    path: ClassVar[str] = "x.n5"

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / self.path,
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
            options=self.options,
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - describes itself
        """Open it."""
        return open_source(folder / self.path)


class TestN5Gzip(TestN5):
    """Compressed blocks of a dataset in groups, all of them stored."""

    options = TargetOptions(codec="gzip:1", write_empty=True)
    path = "x.n5::/volumes/raw/s0"
