"""Filling a Zarr array that is there: two runs at once, and chunks that are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
import pytest
import zarr

import dask_io
from dask_io.formats.zarr.inplace import ZarrInPlace
from dask_io.formats.zarr.source import open_zarr
from dask_io.geometry import Region
from dask_io.journal.ledger import Written
from dask_io.storage.local.publishing import OwnNames
from dask_io.storage.medium import Durability
from dask_io.storage.tally import Tally
from dask_io.stores.staging import new_staging

if TYPE_CHECKING:
    from pathlib import Path


def test_two_runs_do_not_share_files_in_the_making(tmp_path: Path) -> None:
    """Each chunk is one run's or the other's, never a mixture."""
    publishers = [OwnNames(tmp_path, Durability.RENAME) for _ in range(2)]
    writers = [publisher.writer("c", Tally()) for publisher in publishers]
    for writer, content in zip(writers, (b"AAAA", b"BB"), strict=True):
        with writer:
            writer.write(0, memoryview(content))
    for publisher, content in zip(publishers, (b"AAAA", b"BB"), strict=True):
        publisher.commit(["c"], ["c"])
        assert (tmp_path / "c").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("codec", [None, "auto"])
def test_chunks_of_the_fill_value_are_left_out(codec: str | None, tmp_path: Path) -> None:
    """What was stored there before is gone, and so is what was begun."""
    array = np.zeros((64, 64))
    array[32:] = 1
    made: Any = {"shape": array.shape, "dtype": "f8", "compressors": codec}
    source = zarr.create_array(tmp_path / "s.zarr", chunks=(64, 16), **made)
    target = zarr.create_array(tmp_path / "t.zarr", chunks=(16, 64), **made)
    source[...], target[...] = array, 5
    stored = da.from_zarr(tmp_path / "s.zarr").rechunk((16, 64))  # type: ignore[no-untyped-call]
    with dask_io.optimize(memory="64MiB", on_mismatch="raise"):
        stored.store(zarr.open_array(tmp_path / "t.zarr", mode="r+"), lock=False)
    assert np.array_equal(target[...], array)
    files = {str(path.relative_to(tmp_path / "t.zarr")) for path in _files(tmp_path / "t.zarr")}
    assert files == {"zarr.json", "c/2/0", "c/3/0"}


def test_the_last_cell_may_be_told_of_first(tmp_path: Path) -> None:
    """Threads tell of the cells of a chunk in any order; it appears if one was the last."""
    made: Any = {"shape": (4,), "chunks": (4,), "dtype": "i2", "compressors": None}
    zarr.create_array(tmp_path / "t.zarr", **made)[...] = -1
    opened = open_zarr(tmp_path / "t.zarr", "", strict=False)
    target, cells = ZarrInPlace(opened.chunks.stored), []
    target.create()
    for low in (0, 2):
        part, values = Region((low,), (low + 2,)), np.arange(low, low + 2, dtype="<i2")
        with target.writer((0,)) as writer:
            writer.write_from(part, values, new_staging(target, 0))
            cells.append(Written((0,), part, writer.checksum, is_last=low > 0))
    target.commit(cells[::-1])
    target.finish()
    assert np.array_equal(zarr.open_array(tmp_path / "t.zarr", mode="r")[...], range(4))
    assert {path.name for path in _files(tmp_path)} == {"zarr.json", "0"}


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
