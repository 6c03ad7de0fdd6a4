"""A source that is used up on the way: what the disk holds at the most is predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import zarr

import dask_io
from dask_io.engine import commit, problem
from dask_io.errors import DataError, InterruptedRunError, StorageError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.engine.run import Progress

ARRAY = np.arange(64 * 30, dtype="<i4").reshape(64, 30)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write an array in blocks of raw bytes, so that files hold nothing else."""
    np.save(tmp_path / "whole.npy", ARRAY)
    dask_io.split(tmp_path / "whole.npy", tmp_path / "in", chunks=(3, 10), format="raw")
    return tmp_path / "in"


def bytes_in(folder: Path) -> int:
    """Sum up the sizes of blocks, also of those in the making."""
    paths = [*folder.glob("b_*.raw"), *folder.glob(".b_*.part")]
    return sum(path.stat().st_size for path in paths)


@pytest.mark.parametrize("chunks", [(5, 15), (16, 30), (64, 5)])
def test_the_disk_is_never_fuller_than_predicted(
    source: Path, monkeypatch: pytest.MonkeyPatch, chunks: tuple[int, int]
) -> None:
    """However the target is cut; and where it can be, that is less than the array once more."""
    for module in (commit, problem):
        monkeypatch.setattr(module, "MOST_CELLS", 2)
    target = source.parent / "out"
    job = dask_io.plan(source, target, chunks=chunks, memory="64KiB", workers=1, consume=True)
    before, peak = bytes_in(source), [0]

    def measure(_: object) -> None:
        peak.append(bytes_in(source) + bytes_in(target) - before)

    job.run(on_progress=measure, verify=True)

    assert max(peak) <= job.plan.disk_bytes <= ARRAY.nbytes
    assert not source.exists()
    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)
    if chunks == (5, 15):
        assert job.plan.disk_bytes < ARRAY.nbytes / 2


def test_a_plan_tells_the_peak(source: Path) -> None:
    """Without using up the source it is the whole array."""
    job = dask_io.plan(source, source.parent / "out", chunks=(5, 15))
    assert job.plan.disk_bytes == ARRAY.nbytes


def test_what_would_be_lost_is_not_consumed(source: Path) -> None:
    """A region, or several targets, leave something over that only the source has."""
    with pytest.raises(UsageError, match="consume removes source blocks"):
        dask_io.resplit(source, source.parent / "out", chunks=4, consume=True, region="0:4")
    with pytest.raises(UsageError, match="could be lost with the power; use fsync"):
        dask_io.resplit(source, source.parent / "out", chunks=4, consume=True, durability="rename")
    with pytest.raises(UsageError, match="several"):
        dask_io.resplit(
            source, [source.parent / "a", source.parent / "b"], chunks=[4, 5], consume=True
        )
    assert sum(1 for _ in source.glob("b_*.raw")) == 66


@pytest.mark.parametrize("kind", ["raw", "zarr"])
def test_what_is_lost_of_a_consumed_source_is_never_made_up(
    source: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Not even as fill values; and once it is back, the run is completed."""
    blocks, target = source, source.parent / "out"
    if kind == "zarr":
        blocks = source.parent / "in.zarr"
        dask_io.resplit(source, blocks, chunks=(3, 10))

    def fail(_: object) -> None:
        raise StorageError("here", "no power")

    with monkeypatch.context() as patch:
        patch.setattr(commit.Consumption, "finish", fail)
        with pytest.raises(StorageError, match="no power"):
            dask_io.resplit(blocks, target, chunks=(16, 15), format=kind, consume=True)
    lost = target / {"raw": "b_1_1.raw", "zarr": "c/1/1"}[kind]
    kept = lost.rename(source.parent / "kept")

    for _ in range(2):
        with pytest.raises(DataError, match="was consumed, and what it became is not there"):
            dask_io.resume(target)
    kept.rename(lost)
    dask_io.resume(target)

    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)


def test_a_block_that_was_to_be_removed_but_is_still_there_is_read_again(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If what it became is lost meanwhile."""
    target = source.parent / "out"

    def fail(*_: object) -> None:
        raise StorageError("here", "no power")

    with monkeypatch.context() as patch:
        patch.setattr(type(dask_io.open(source).source), "discard", fail)
        with pytest.raises(StorageError, match="no power"):
            dask_io.resplit(source, target, chunks=(16, 15), consume=True)
    (target / "b_1_1.raw").unlink()
    dask_io.resume(target)
    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)


@pytest.mark.parametrize("target", ["copy.zarr", "copy.nc"])
def test_a_group_with_an_array_that_is_half_used_up_is_refused(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is gone of it would be the fill value, wherever it is copied to, or overwritten."""
    monkeypatch.setattr(commit, "MOST_CELLS", 1)
    group = tmp_path / "group.zarr"
    for name in "ab":
        made = zarr.create_array(
            group,
            name=name,
            shape=(64, 30),
            chunks=(8, 10),
            dtype="<i4",
            dimension_names=("x", "y"),
        )
        made[...] = 1 + ARRAY

    def stop(progress: Progress) -> None:
        if progress.n_blocks_written > 1:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        dask_io.resplit(
            f"{group}::/a",
            tmp_path / "out.zarr",
            chunks=(16, 30),
            memory="1MiB",
            consume=True,
            workers=1,
            on_progress=stop,
        )

    with pytest.raises(DataError, match="removed by a run with --consume that did not end"):
        dask_io.resplit(group, tmp_path / target, chunks={"y": 15})
    with pytest.raises(DataError, match="removed by a run with --consume that did not end"):
        dask_io.resplit(f"{group}::/b", f"{group}::/a", chunks=(16, 30), overwrite=True)
    dask_io.resume(tmp_path / "out.zarr")
    assert np.array_equal(dask_io.open(tmp_path / "out.zarr")[:, :], 1 + ARRAY)
