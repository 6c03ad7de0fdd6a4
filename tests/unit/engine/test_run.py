"""What a run asks of stores."""

from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import dask_io
from dask_io.engine.memory import Buffers
from dask_io.planning import Hold, Plan
from dask_io.storage.local.transport import FileReader
from dask_io.stores.block_files import BlockFiles
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


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("chunks", "memory", "hold"),
    [
        ((40, 96, 64), "1MiB", Hold.PIECES),
        ((56, 64, 80), "64MiB", Hold.BLOCKS),
        ((160, 160, 160), "4MiB", Hold.BLOCKS),
    ],
    ids=["pieces", "blocks", "parts of one"],
)
def test_what_finds_no_hole_is_held_in_parts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chunks: tuple[int, ...],
    memory: str,
    hold: Hold,
    *,
    order: str,
) -> None:
    """However memory is cut up, the same is written, in as many seeks, with as much held."""
    array = np.random.default_rng(0).integers(0, 2**16, (160, 160, 160), dtype="u2")
    np.save(tmp_path / "one.npy", array)
    dask_io.split(tmp_path / "one.npy", tmp_path / "blocks", chunks=(56, 64, 48))
    options: dict[str, Any] = {"chunks": chunks, "memory": memory, "order": order, "workers": 2}
    job = dask_io.plan(tmp_path / "blocks", tmp_path / "out", **options)
    assert isinstance(job.plan, Plan)
    assert job.plan.hold is hold
    lend, lend_outside, n_refused = Buffers.lend_inside, Buffers.lend_outside, 0
    outside = []

    def lend_little(self: Buffers, n_bytes: int, **where: Any) -> memoryview | None:
        nonlocal n_refused
        if "lasting" in where and n_bytes > 100_000:
            n_refused += 1
            return None
        return lend(self, n_bytes, **where)

    def note_outside(self: Buffers, n_bytes: int) -> memoryview:
        outside.append(n_bytes)
        return lend_outside(self, n_bytes)

    monkeypatch.setattr(Buffers, "lend_inside", lend_little)
    monkeypatch.setattr(Buffers, "lend_outside", note_outside)

    result = job.run()

    assert n_refused > 0
    assert max(outside, default=0) <= 64 * 2**10
    assert (result.seeks, result.held) == (job.plan.seeks, job.plan.held_bytes)
    assert np.array_equal(dask_io.open(tmp_path / "out")[...], array)


def test_all_threads_read_small_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads may wait for a network: none of the threads has all blocks of a step to itself."""
    np.save(tmp_path / "one.npy", np.arange(32 * 1024, dtype="f4"))
    dask_io.split(tmp_path / "one.npy", tmp_path / "blocks", chunks=1024)
    together, open_file = Barrier(4, timeout=30), FileReader.__init__

    def open_together(self: FileReader, *arguments: Any, **keywords: Any) -> None:
        together.wait()
        open_file(self, *arguments, **keywords)

    job = dask_io.plan(tmp_path / "blocks", tmp_path / "out.npy", chunks=-1, workers=4)
    monkeypatch.setattr(FileReader, "__init__", open_together)
    job.run()
    monkeypatch.undo()

    assert dask_io.verify(tmp_path / "one.npy", tmp_path / "out.npy")


@pytest.mark.parametrize("shape", [(3, 0, 5), (0, 5), (4, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_nothing_is_moved_too(tmp_path: Path, shape: tuple[int, ...], order: str) -> None:
    """An array without elements along any axis is split and merged."""
    np.save(tmp_path / "one.npy", np.zeros(shape, "u2", order="F" if order == "F" else "C"))
    dask_io.split(tmp_path / "one.npy", tmp_path / "out", chunks=1)
    dask_io.merge(tmp_path / "out", tmp_path / "again.npy")
    assert np.load(tmp_path / "again.npy").shape == shape
