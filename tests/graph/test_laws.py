"""Laws of what graphs are made of: parts cover the array, rechunks are read rightly."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import dask_io
from dask_io.geometry import Axis, Grid
from dask_io.graph.match import DeclinedError
from dask_io.graph.matchers.layers import grid_of
from dask_io.graph.matchers.rechunks import find_rechunks, rechunk
from tests.graph.shapes import da


def grids(n_axes: int = 2) -> st.SearchStrategy[Grid]:
    """Draw a grid of any lengths."""
    axis = st.lists(st.integers(1, 5), min_size=1, max_size=5).map(Axis.of)
    return st.tuples(*[axis] * n_axes).map(Grid)


def cut_anyhow(data: st.DataObject, length: int) -> list[int]:
    """Draw lengths of chunks that make up an axis."""
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, length - 1)), max_size=4)))
    ends = [0, *(cut for cut in cuts if cut < length), length]
    return [high - low for low, high in pairwise(ends)]


@given(data=st.data(), shape=st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_chunks_are_those_that_a_rechunk_makes(data: st.DataObject, shape: tuple[int, int]) -> None:
    """What is read from the tasks of a rechunk is what Dask says its chunks are."""
    first, then = (tuple(tuple(cut_anyhow(data, n)) for n in shape) for _ in range(2))
    before: Any = da.ones(shape, chunks=first)
    after = before.rechunk(then, threshold=1, block_size_limit=16)

    names, base = find_rechunks(after.dask, after.name)

    assert base == before.name
    assert rechunk(after.dask, names, grid_of(first)) == grid_of(then)


@pytest.mark.parametrize(
    ("chunks", "reason"), [([[1.0, float("nan")]], "not known"), ([[2, 0, 2]], "empty")]
)
def test_chunks_that_mean_nothing_are_declined(chunks: Any, reason: str) -> None:
    """Lengths that are not known, or none, cannot be planned."""
    with pytest.raises(DeclinedError, match=reason):
        grid_of(chunks)


def test_what_is_called_a_rechunk_need_not_be_one() -> None:
    """A layer is judged by its tasks: one of the same name that does more is not taken for one."""
    array = da.ones((4, 4), chunks=2)
    name = "rechunk-merge-not-at-all"
    worked = da.map_blocks(np.negative, array, name=name)

    assert find_rechunks(worked.dask, name) == ((), name)


@settings(max_examples=25)
@given(data=st.data(), shape=st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_any_program_by_plan_stores_what_it_computes(
    data: st.DataObject, shape: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the chunks, the work on the way, the budget and the parts: values are the same."""
    folder = tmp_path_factory.mktemp("any")

    def chunks() -> tuple[int, ...]:
        return tuple(data.draw(st.integers(1, n)) for n in shape)

    stored = zarr.create_array(folder / "a.zarr", shape=shape, chunks=chunks(), dtype="i4")
    stored[:] = np.arange(stored.size).reshape(shape)
    array = da.from_array(stored, chunks=chunks())
    if data.draw(st.booleans()):
        array = array.map_blocks(lambda block: block - block.max(), dtype="i4")
    if data.draw(st.booleans()):
        array = array.rechunk(tuple(tuple(cut_anyhow(data, n)) for n in shape))
    if data.draw(st.booleans()):
        array = array * 3
    expected = array.compute(scheduler="sync")
    made = zarr.create_array(folder / "b.zarr", shape=shape, chunks=chunks(), dtype="i8")
    memory = data.draw(st.sampled_from(["1MiB", "16MiB"]))

    with dask_io.optimize(memory=memory, parts=2, workers=2):
        array.store(made, lock=False, scheduler="sync")

    np.testing.assert_array_equal(made[:], expected)
