"""NIfTI files keep the laws of stores: as blocks, as pairs, and as one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dask_io.formats import make_target, open_source
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target

RGB = [("R", "u1"), ("G", "u1"), ("B", "u1")]


class TestNiftiDirectory(StoreConformance):
    """A directory of .nii blocks with its manifest."""

    layouts = "F"
    n_examples = 6
    dtypes = ("u1", "i1", "<i2", ">i2", "<u4", ">i8", "<f4", ">f8", "<c8", RGB)
    path: ClassVar[str] = "blocks"
    format: ClassVar[str | None] = "nifti"

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / self.path_for(case),
            format=self.format,
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
        )

    def open_source(self, folder: Path, case: Case) -> Source:
        """Open it."""
        return open_source(folder / self.path_for(case))

    def path_for(self, case: Case) -> str:
        """Return the path with as many fields as the array has axes."""
        fields = [f"{{{axis}}}" for axis in range(len(case.grid.axes))]
        return self.path.replace("FIELDS", "_".join(fields))


class TestNiftiPairs(TestNiftiDirectory):
    """Pairs of .hdr and .img files, named by a pattern."""

    path = "blocks/b_FIELDS.hdr"
    format = None


class TestOneNifti(TestNiftiDirectory):
    """One .nii file."""

    path = "scan.nii"
    format = None
    one_block = True


class TestOnePair(TestOneNifti):
    """One pair of .hdr and .img."""

    path = "scan.img"


class TestGzipDirectory(TestNiftiDirectory):
    """A directory of .nii.gz blocks, named by a pattern."""

    path = "blocks/b_FIELDS.nii.gz"
    format = None


class TestOneGzip(TestOneNifti):
    """One .nii.gz file, which cannot be continued by another run."""

    path = "scan.nii.gz"
    resumable = False
