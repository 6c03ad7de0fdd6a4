"""What is read to be computed on: in boxes, with fewer seeks, and with the same values."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_io
from dask_io.formats.opening import open_source
from dask_io.geometry import Axis, Grid
from dask_io.graph.clustering import ClusteredRead
from dask_io.planning import stretch
from tests.graph.shapes import SHAPE, da, dask, source, values


@pytest.fixture
def raw(inputs: Path) -> dask_io.BlockArray:
    """One file, of which parts can be read."""
    return dask_io.open(inputs / "one.raw", shape=SHAPE, dtype="i4")


@pytest.mark.parametrize("memory", ["1MiB", "40kB", "25kB"])
@pytest.mark.parametrize("chunks", [(25, 44), (7, 9), (60, 5)])
def test_values_are_the_same(raw: dask_io.BlockArray, memory: str, chunks: tuple[int, int]) -> None:
    """However little memory there is, blocks get what Dask would give them."""
    array = (da.from_array(raw, chunks=(9, 9)).rechunk(chunks) * 2).sum(axis=0)
    with dask_io.optimize(memory=memory):
        told = dask_io.explain(array)
        found = array.compute()

    assert told.matched
    (cluster,) = told.clusters
    assert cluster.seeks < cluster.dask_seeks
    np.testing.assert_array_equal(found, (values(9) * 2).sum(axis=0))


def test_seeks_are_those_that_were_told(raw: dask_io.BlockArray) -> None:
    """Counted in the file, there are as many as the explanation says."""
    array = da.from_array(raw, chunks=(9, 9)).mean()
    with dask_io.optimize(memory="20kB"):
        (cluster,) = dask_io.explain(array).clusters
        before = raw.source.tally.read.seeks
        array.compute(scheduler="sync")

    assert raw.source.tally.read.seeks - before == cluster.seeks


def test_work_before_a_rechunk_is_done_on_the_way(raw: dask_io.BlockArray) -> None:
    """Arithmetic is done on the blocks that Dask would do it on."""
    array = (da.from_array(raw, chunks=(20, 11)).rechunk((20, 44)) % 7).rechunk((60, 4))
    alone = array.compute()
    with dask_io.optimize(memory="1MiB"):
        told = dask_io.explain(array)
        np.testing.assert_array_equal(array.compute(), alone)

    assert told.matched


def test_functions_that_change_the_shape_of_blocks_are_left_to_dask(
    raw: dask_io.BlockArray,
) -> None:
    """Only what a program says of its result tells that they do."""
    array = da.from_array(raw, chunks=(5, 11)).rechunk((10, 44))
    array = array.map_blocks(lambda block: block[:5], chunks=(5, 44)).rechunk((10, 44))
    alone = array.compute()
    with dask_io.optimize(memory="1MiB"):
        np.testing.assert_array_equal(array.compute(), alone)


@pytest.mark.parametrize("chunks", [(4, 9), (16, 7)])
def test_blocks_that_lie_otherwise_in_memory_are_left_to_dask(
    inputs: Path, chunks: tuple[int, int]
) -> None:
    """Numbers are added up in the order of memory, on which the last digits depend."""
    array = source(inputs, "v2", chunks=chunks)
    array = np.sqrt(array).astype("f4").mean()
    alone = array.compute()
    with dask_io.optimize(memory="1MiB"):
        told = dask_io.explain(array)
        found = array.compute()

    assert "not C-contiguous" in told.reasons[0]
    assert found.tobytes() == alone.tobytes()


def test_boxes_of_another_size_have_other_keys(raw: dask_io.BlockArray) -> None:
    """A cluster that has boxes of one budget does not take them for those of another."""
    array = da.from_array(raw, chunks=(9, 9)).sum()
    found = []
    for memory in ("1MiB", "18kB"):
        with dask_io.optimize(memory=memory):
            graph = dict(dask.optimize(array)[0].dask)
        found.append({key for key in graph if "dask-io-read" in str(key)})

    assert all(found)
    assert found[0].isdisjoint(found[1])


def test_what_dask_reads_as_well_is_left_to_it(inputs: Path) -> None:
    """Blocks that are read once each anyway stay tasks of their own."""
    told = dask_io.explain(source(inputs).rechunk((25, 44)).sum(), memory="1MiB")

    assert not told.matched
    assert "only read, and Dask needs no more seeks" in told.reasons[0]


def test_a_part_of_an_array_is_read_as_a_part(raw: dask_io.BlockArray) -> None:
    """What is not asked for is not read."""
    array = da.from_array(raw, chunks=(9, 9))[:9, :9]

    assert dask_io.explain(array).reasons == ("only some of its blocks are needed",)


@given(data=st.data())
def test_every_chunk_is_found_in_its_box(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Boxes hold whole chunks, and a chunk is where it is said to be."""
    lengths = st.lists(st.integers(1, 4), min_size=1, max_size=4)
    chunks = Grid(tuple(Axis.of(data.draw(lengths)) for _ in range(2)))
    folder = tmp_path_factory.mktemp("any")
    whole = np.arange(chunks.size, dtype="i4").reshape(chunks.shape)
    np.save(folder / "a.npy", whole)
    stored = open_source(folder / "a.npy")
    room = data.draw(st.integers(1, chunks.size))
    boxes = Grid(stretch(chunks.axes, stored.layout, room))
    cluster = ClusteredRead(stored, chunks, boxes, 0, 0)

    read = [cluster.read(boxes.block(index)) for index in boxes.indices()]

    for index in chunks.indices():
        number, place = cluster.find(index)
        np.testing.assert_array_equal(read[number][place], whole[chunks.block(index).slices])
