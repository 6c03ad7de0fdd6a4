"""HDF5 datasets keep the laws of stores: contiguous and chunked, with filters and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dask_io.formats import make_target, open_source
from dask_io.stores.container import TargetOptions
from dask_io.testing.conformance import DTYPES, Case, StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target


class TestHdf5(StoreConformance):
    """Chunks that HDF5 gives their places beforehand, or one block."""

    layouts = "C"
    regular = True
    padded = True
    # HDF5 has no text of four bytes a character.
    dtypes: ClassVar[Any] = [dtype for dtype in DTYPES if dtype != "<U2"]
    options: ClassVar[TargetOptions] = TargetOptions(codec="none")
    path: ClassVar[str] = "x.h5"

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / self.path,
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
            options=self.options,
            metadata=self.metadata_for(case),
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - describes itself
        """Open it."""
        return open_source(folder / self.path)

    def metadata_for(self, case: Case) -> dict[str, Any]:  # noqa: ARG002 - the same for all
        """Return what a source would say."""
        return {}


class TestHdf5InOnePiece(TestHdf5):
    """A contiguous dataset in groups."""

    one_block = True
    path = "x.hdf5::/day/1"


class TestHdf5Gzip(TestHdf5):
    """Compressed chunks, each with a checksum; the file counts only as a whole."""

    resumable = False
    options = TargetOptions(codec="shuffle+gzip:1+fletcher32")


class TestHdf5Blosc(TestHdf5Gzip):
    """Chunks of a filter that comes with hdf5plugin, all of them stored."""

    options = TargetOptions(codec="blosc:lz4:5:shuffle", write_empty=True)


class TestHdf5Lzf(TestHdf5Gzip):
    """Chunks of a filter that only HDF5 can run."""

    options = TargetOptions(codec="lzf")


class TestHdf5ThatMayGrow(TestHdf5Gzip):
    """Plain chunks of a dataset that has no last one."""

    options = TargetOptions(codec="none", write_empty=True)

    def metadata_for(self, case: Case) -> dict[str, Any]:
        """Let it grow along the first axis."""
        return {"maxshape": (None, *case.grid.shape[1:])}


class TestHdf5Blocks(StoreConformance):
    """A directory of HDF5 files, each of which holds one block."""

    layouts = "C"
    dtypes: ClassVar[Any] = TestHdf5.dtypes

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make blocks in a folder."""
        return make_target(
            folder / "blocks",
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            format="hdf5",
            overwrite=overwrite,
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - describes itself
        """Open them."""
        return open_source(folder / "blocks")
