"""NetCDF variables keep the laws of stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dask_io.formats import make_target, open_source
from dask_io.stores.container import TargetOptions
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target


class TestNetcdf(StoreConformance):
    """Plain chunks along dimensions that end."""

    layouts = "C"
    regular = True
    padded = True
    dtypes: ClassVar[Any] = ["u1", "<i2", ">i2", "<f4", ">f8", "<u8", "S1"]
    options: ClassVar[TargetOptions] = TargetOptions(codec="none")
    path: ClassVar[str] = "x.nc"

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


class TestNetcdfZlib(TestNetcdf):
    """Compressed chunks of a variable in a group; the file counts only as a whole."""

    resumable = False
    options = TargetOptions(codec="shuffle+zlib:1")
    path = "x.nc4::/model/tas"
