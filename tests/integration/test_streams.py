"""What is stacked along its slowest axis is moved as a stream: once, a layer at a time."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dask_io
from dask_io.planning import memory_for_lower_bound

SHAPE, BLOCKS = (96, 40, 48), (16, 20, 24)
# Places for one block, and how it is written there.
KINDS: dict[str, dict[str, Any]] = {
    "one.npy": {},
    "folder": {"format": "raw"},
    "one.zarr": {"codec": "none"},
    "padded.zarr": {"codec": "none"},
    "one.h5": {"codec": "none"},
}


def array() -> NDArray[np.int32]:
    """Values that all differ."""
    return np.arange(96 * 40 * 48, dtype=np.int32).reshape(SHAPE)


def chunks_of(kind: str) -> tuple[int, ...]:
    """The one block: all of the array, or more than that."""
    return (96, 40, 64) if kind == "padded.zarr" else SHAPE


def written(place: Path, chunks: tuple[int, ...], **options: Any) -> Path:
    """The array in blocks of one kind."""
    whole = place.parent / "array.npy"
    np.save(whole, array())
    dask_io.resplit(whole, place, chunks=chunks, **options)
    return place


def planned(source: Path, target: Path, chunks: Any, **options: Any) -> Any:
    """The same job with just the memory in which every block is touched once."""
    job = dask_io.plan(dask_io.open(source), target, chunks=chunks, workers=2, **options)
    memory = memory_for_lower_bound(job.plan.problem)
    return dask_io.plan(source, target, chunks=chunks, workers=2, memory=memory, **options)


def assert_streams(job: Any, target: Path) -> None:
    """The plan is a stream that holds a layer, and the run counts what it predicts."""
    plan = job.plan
    assert plan.streams
    assert plan.seeks.total == plan.openings == plan.problem.lower_bound
    assert plan.held_bytes <= plan.problem.n_bytes // 6
    result = job.run()
    assert (result.seeks, result.openings) == (plan.seeks, plan.openings)
    assert (result.n_bytes_read, result.held) == (plan.n_bytes_read, plan.held_bytes)
    assert np.array_equal(dask_io.open(target)[...], array())


@pytest.mark.parametrize("kind", KINDS)
def test_one_block_is_split_layer_by_layer(kind: str, tmp_path: Path) -> None:
    """Of one block every layer is read on where the one before it ended."""
    source = written(tmp_path / kind, chunks_of(kind), **KINDS[kind])
    assert_streams(planned(source, tmp_path / "target", BLOCKS, format="npy"), tmp_path / "target")


@pytest.mark.parametrize("kind", KINDS)
def test_many_blocks_are_merged_layer_by_layer(kind: str, tmp_path: Path) -> None:
    """One block is written layer by layer, each right behind the one before it."""
    source = written(tmp_path / "source", BLOCKS)
    job = planned(source, tmp_path / kind, chunks_of(kind), **KINDS[kind])
    assert_streams(job, tmp_path / kind)
