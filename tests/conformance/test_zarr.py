"""Zarr arrays keep the laws of stores: versions 2 and 3, with and without codecs, in shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from dask_io.formats import make_target, open_source
from dask_io.formats.zarr.target import ZarrTarget
from dask_io.stores.container import TargetOptions
from dask_io.testing.conformance import DTYPES, Case, StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target

# Zarr has no fields that are arrays themselves.
_RECORD = [("a", "<i2"), ("b", "u1"), ("c", ">f4")]
_SIMPLE = [dtype for dtype in DTYPES if isinstance(dtype, str)]


class TestZarr2(StoreConformance):
    """Uncompressed chunks of version 2, in C or F order."""

    layouts = "CF"
    regular = True
    padded = True
    dtypes: ClassVar[Any] = [*_SIMPLE, _RECORD]
    options: ClassVar[TargetOptions] = TargetOptions(format_version=2)
    path: ClassVar[str] = "x.zarr"

    def make_target(self, folder: Path, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / self.path,
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
            options=self.options_for(case),
        )

    def open_source(self, folder: Path, case: Case) -> Source:  # noqa: ARG002 - describes itself
        """Open it."""
        return open_source(folder / self.path)

    def options_for(self, case: Case) -> TargetOptions:  # noqa: ARG002 - the same for all
        """Return what is asked for besides."""
        return self.options


class TestZarr2Blosc(TestZarr2):
    """Compressed chunks of version 2."""

    options = TargetOptions(format_version=2, codec="blosc:lz4:5:shuffle")


class TestZarr3(TestZarr2):
    """Uncompressed chunks of version 3, in any order of axes, in nested directories."""

    layouts = "any"
    # Version 3 knows one byte order for all fields of a record.
    dtypes: ClassVar[Any] = [*_SIMPLE, [("a", "<i2"), ("b", "u1"), ("c", "<f4")]]
    options = TargetOptions(format_version=3)


class TestZarr3Zstd(TestZarr3):
    """Compressed chunks of version 3, with a checksum."""

    options = TargetOptions(format_version=3, codec="zstd:3+crc32c")


class TestZarr3Gzip(TestZarr3):
    """Compressed chunks of version 3, of an array in groups."""

    options = TargetOptions(format_version=3, codec="gzip:1", write_empty=True)
    path = "x.zarr::/day/1"


class TestZarr3Sharded(TestZarr3):
    """Shards of one chunk each, so that what is read and written are of one grid."""

    def options_for(self, case: Case) -> TargetOptions:
        """Ask for shards as large as the chunks."""
        shards = tuple(axis.chunk or 1 for axis in case.grid.axes)
        return TargetOptions(format_version=3, codec="lz4", shards=shards)


class TestZarr3InPieces(TestZarr3):
    """Compressed chunks that are encoded piece by piece."""

    options = TargetOptions(format_version=3, codec="zstd:3")

    @pytest.fixture(autouse=True)
    def small_pieces(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have even small chunks take several pieces."""
        monkeypatch.setattr("dask_io.stores.chunked_target._PIECE", 24)
        monkeypatch.setattr(ZarrTarget, "in_pieces", True)


class TestZarr2InPieces(TestZarr3InPieces):
    """The same by a compressor of Python's own, with chunks of the fill value left out or not."""

    layouts = "CF"
    dtypes: ClassVar[Any] = [*_SIMPLE, _RECORD]
    options = TargetOptions(format_version=2, codec="gzip:1", write_empty=True)
