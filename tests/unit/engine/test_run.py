"""What a run asks of stores."""

from pathlib import Path

import numpy as np
import pytest

import dask_io
from dask_io.stores.blockfiles import BlockFiles
from dask_io.stores.store import Access


def test_no_more_is_read_at_once_than_staging_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that cost all of them, but need no memory besides, go through it part by part."""
    array = np.arange(6 * 2**20, dtype="u1").reshape(6, 1024, 1024)
    np.save(tmp_path / "one.npy", array)
    monkeypatch.setattr(BlockFiles, "access", Access.ATOMIC)
    dask_io.split(tmp_path / "one.npy", tmp_path / "out", chunks=(4, 512, 1024))
    monkeypatch.undo()
    assert np.array_equal(dask_io.open(tmp_path / "out")[...], array)
