"""Objects keep the laws of stores: in memory at length, on a real server once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import obstore
import pytest

from dask_io.formats import make_target, open_source
from dask_io.storage.location import locate
from dask_io.stores.container import TargetOptions
from dask_io.testing.conformance import DTYPES, Case, StoreConformance

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.stores import Source, Target
    from tests.server import Server


class OnObjects(StoreConformance):
    """What all of them have in common."""

    n_examples = 4
    appears_at_once = True
    bucket: ClassVar[str] = "memory://conformance"
    path: ClassVar[str]
    format: ClassVar[str | None] = None
    options: ClassVar[TargetOptions] = TargetOptions()

    def make_place(self, folder: Path, number: int) -> Any:  # noqa: ARG002 - none is needed
        """Return a place that nobody uses."""
        return locate(f"{self.bucket}/{uuid4()}")

    def contents(self, place: Any) -> dict[str, bytes]:
        """Return all objects of a place."""
        listed = obstore.list(place.store, prefix=place.key).collect()
        return {
            each["path"].removeprefix(f"{place.key}/"): bytes(
                obstore.get(place.store, each["path"]).bytes()
            )
            for each in listed
        }

    def make_target(self, folder: Any, case: Case, *, overwrite: bool = False) -> Target:
        """Make the target that the class is about."""
        return make_target(
            folder / self.path,
            format=self.format,
            grid=case.grid,
            dtype=case.dtype,
            layout=case.layout,
            overwrite=overwrite,
            options=self.options,
        )

    def open_source(self, folder: Any, case: Case) -> Source:
        """Open it, with a description if it has none of its own."""
        if self.path != "x.raw":
            return open_source(folder / self.path)
        order = ",".join(map(str, case.layout.axes))
        shape = case.grid.shape
        return open_source(folder / self.path, shape=shape, dtype=case.dtype, order=order)


class TestNpy(OnObjects):
    """Blocks with a header each, and a manifest."""

    layouts = "CF"
    path = "blocks"
    format = "npy"


class TestRaw(OnObjects):
    """Blocks without a header, put from where they are."""

    path = "deep/er/blocks"
    format = "raw"


class TestN5(OnObjects):
    """Blocks of a dataset in groups, each with a header."""

    layouts = "C"
    regular = True
    dtypes: ClassVar[Any] = ["u1", "<i2", "<f8"]
    options = TargetOptions(codec="gzip:1")
    path = "x.n5::/em/s0"


class TestNpyFile(OnObjects):
    """An array that is one object."""

    layouts = "CF"
    one_block = True
    path = "x.npy"


class TestRawFile(OnObjects):
    """An array that is one object, described by the user."""

    one_block = True
    path = "x.raw"


class TestZarr(OnObjects):
    """Uncompressed chunks, put whole all the same."""

    regular = True
    padded = True
    dtypes: ClassVar[Any] = [dtype for dtype in DTYPES if isinstance(dtype, str)]
    path = "x.zarr"


class TestZarrInGroups(TestZarr):
    """Compressed chunks of version 2, of an array in groups."""

    layouts = "CF"
    path = "x.zarr::/day/1"
    options = TargetOptions(format_version=2, codec="zstd:1")


class OnServer:
    """The same on a real server, with fewer arrays."""

    n_examples = 1

    @pytest.fixture(autouse=True)
    def _server(self, server: Server) -> None:
        type(self).bucket = f"s3://{server.bucket}"  # type: ignore[attr-defined]


class TestNpyOnServer(OnServer, TestNpy):
    """Blocks with a header each."""


class TestRawOnServer(OnServer, TestRaw):
    """Blocks without a header."""


class TestZarrOnServer(OnServer, TestZarr):
    """Uncompressed chunks."""


class TestZarrShardsOnServer(OnServer, TestZarr):
    """Shards of one chunk each."""

    def make_target(self, folder: Any, case: Case, *, overwrite: bool = False) -> Target:
        """Ask for shards as large as the chunks."""
        shards = tuple(axis.chunk or 1 for axis in case.grid.axes)
        self.options = TargetOptions(format_version=3, codec="zstd:1", shards=shards)  # type: ignore[misc]
        return super().make_target(folder, case, overwrite=overwrite)
