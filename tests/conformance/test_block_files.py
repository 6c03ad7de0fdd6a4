"""Block files keep the laws of stores: npy and raw, in directories, by patterns, as one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dask_io.formats import make_target, open_source
from dask_io.stores.manifest import NAME
from dask_io.testing.conformance import Case, StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target


class TestNpyDirectory(StoreConformance):
    """A directory of .npy blocks with its manifest."""

    layouts = "CF"
    path: ClassVar[str] = "blocks"
    format: ClassVar[str | None] = "npy"
    described: ClassVar[bool] = False

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
        """Open it, with a description if it has none of its own."""
        path = folder / self.path_for(case)
        if not self.described:
            return open_source(path)
        order = ",".join(map(str, case.layout.axes))
        chunks = [list(axis.lengths()) for axis in case.grid.axes]
        shape = case.grid.shape
        return open_source(path, shape=shape, dtype=case.dtype, chunks=chunks, order=order)

    def path_for(self, case: Case) -> str:
        """Return the path with as many fields as the array has axes."""
        fields = [f"{{{axis}{self.path_spec}}}" for axis in range(len(case.grid.axes))]
        return self.path.replace("FIELDS", "_".join(fields))

    path_spec: ClassVar[str] = ""


class TestRawDirectory(TestNpyDirectory):
    """A directory of raw blocks with its manifest."""

    layouts = "any"
    format = "raw"


class TestNpyByIndex(TestNpyDirectory):
    """Files named by a pattern of block numbers, found without the manifest."""

    path = "blocks/v1 {{é}} FIELDS.npy"
    format = None


class TestNpyByOffset(TestNpyByIndex):
    """Files named by a pattern of offsets, padded with zeros."""

    path_spec = ":offset:03"


class TestRawByOffset(TestNpyDirectory):
    """Raw files named by offsets, described by the user."""

    layouts = "any"
    path = "deep/er/FIELDS.bin"
    path_spec = ":offset"
    format = None
    described = True


class TestNpyFile(TestNpyDirectory):
    """An array that is one .npy file."""

    one_block = True
    path = "some/where/x.npy"
    format = None


class TestRawFile(TestNpyDirectory):
    """An array that is one raw file."""

    layouts = "any"
    one_block = True
    path = "x.raw"
    format = None
    described = True


class TestGuessedDirectory(TestNpyDirectory):
    """A directory of .npy blocks that has lost its manifest."""

    def open_source(self, folder: Path, case: Case) -> Source:
        """Open it by its files, which only the manifest can replace if the array is empty."""
        if case.grid.n_blocks:
            folder_of_blocks = (
                (folder / self.path_for(case)) if self.format else (folder / "blocks")
            )
            (folder_of_blocks / NAME).unlink(missing_ok=True)
        return super().open_source(folder, case)


class TestFoundByIndex(TestGuessedDirectory):
    """Blocks named by a pattern of block numbers, without a manifest."""

    path = "blocks/FIELDS.npy"
    format = None


class TestFoundByOffset(TestFoundByIndex):
    """Blocks named by a pattern of offsets, without a manifest."""

    path_spec = ":offset"
