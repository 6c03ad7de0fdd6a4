"""Dask arrays from what can be opened, and into what can be written."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import dask_io
import dask_io.xarray
from dask_io.errors import DataError, UsageError
from tests.graph.shapes import SHAPE, da, dask, source, values


@pytest.mark.parametrize("name", ["blocks", "one.npy", "a.zarr", "sharded.zarr"])
def test_from_blocks(inputs: Path, name: str) -> None:
    """Anything that can be opened is a Dask array, in the blocks that it is stored in."""
    opened = dask_io.open(inputs / name)

    array: Any = dask_io.from_blocks(inputs / name)

    assert array.chunks == opened.chunks
    np.testing.assert_array_equal(array.compute(), opened[...])
    assert dask_io.from_blocks(opened).name == array.name
    assert dask_io.from_blocks(opened, chunks=(30, 44)).chunksize == (30, 44)


def test_from_blocks_takes_what_open_takes(inputs: Path) -> None:
    """Raw files say nothing about themselves."""
    raw = {"shape": SHAPE, "dtype": "i4"}
    array: Any = dask_io.from_blocks(inputs / "one.raw", chunks=(30, 44), **raw)

    np.testing.assert_array_equal(array.compute(), values(9))


@pytest.mark.parametrize("target", ["out.zarr", "out", "out.npy"])
def test_what_is_only_read_is_stored_by_plan(inputs: Path, tmp_path: Path, target: str) -> None:
    """Source blocks are read once, whatever Dask's chunks are, and the target is verified."""
    array = source(inputs).rechunk((7, 44))
    chunks = -1 if target.endswith(".npy") else (25, 20)

    result = dask_io.store(array, tmp_path / target, chunks=chunks, memory="1MiB", verify=True)

    assert result.verified
    assert result.seeks.read == 6 * 4
    np.testing.assert_array_equal(dask_io.open(tmp_path / target)[...], values())


def test_work_is_done_on_the_way(inputs: Path, tmp_path: Path) -> None:
    """Functions of blocks are applied as Dask would, before a rechunk or after."""
    for number, array in enumerate(
        [
            source(inputs).map_blocks(lambda block: block - block.min()).rechunk((7, 44)),
            source(inputs).rechunk((7, 44)).map_blocks(lambda block: block - block.min()),
        ]
    ):
        dask_io.store(array, tmp_path / f"{number}", chunks=(25, 20), memory="1MiB")
        found = dask_io.open(tmp_path / f"{number}")[...]
        np.testing.assert_array_equal(found, array.compute())


def test_any_other_array_is_computed_block_by_block(inputs: Path, tmp_path: Path) -> None:
    """Each block once, and no more of them at a time than memory allows."""
    counted: list[tuple[int, ...]] = []

    def count(block: Any, block_id: Any = None) -> Any:
        counted.append(block_id)
        return block

    array = (source(inputs) - source(inputs).mean().persist()).map_blocks(
        count, meta=np.empty((0, 0))
    )
    dask_io.store(array, tmp_path / "out.zarr", chunks=(25, 20), memory="200kB", codec="none")

    assert len(counted) == len(set(counted)) == 24
    np.testing.assert_array_equal(
        dask_io.open(tmp_path / "out.zarr")[...], values() - values().mean()
    )


def test_blocks_may_change_their_shape(inputs: Path, tmp_path: Path) -> None:
    """What a program says of its result counts, not what it reads."""
    array = source(inputs).map_blocks(lambda block: block[:5], chunks=(5, 11), dtype="i4")
    dask_io.store(array, tmp_path / "out", memory="1MiB")

    np.testing.assert_array_equal(dask_io.open(tmp_path / "out")[...], array.compute())


def test_blocks_in_fortran_order_are_computed_by_dask(inputs: Path, tmp_path: Path) -> None:
    """What a function makes of a block may depend on the order of memory."""
    array = source(inputs, "v2").map_blocks(lambda block: block - block.ravel("K")[1], dtype="i4")
    dask_io.store(array, tmp_path / "out", memory="1MiB")

    assert dask_io.open(tmp_path / "out")[...].tobytes() == array.compute().tobytes()


def test_the_fill_value_is_of_the_type_that_is_stored(inputs: Path, tmp_path: Path) -> None:
    """Not of the type that is read."""
    array = source(inputs).astype("U5")
    dask_io.store(array, tmp_path / "out.zarr", memory="1MiB")

    np.testing.assert_array_equal(dask_io.open(tmp_path / "out.zarr")[...], array.compute())


def test_an_array_that_grows_shows_its_fill_value(inputs: Path, tmp_path: Path) -> None:
    """Plans of Dask programs pad chunks at the far ends as zarr-python does."""
    opened = zarr.create_array(
        tmp_path / "x.zarr",
        shape=SHAPE,
        chunks=(25, 30),
        dtype="i4",
        fill_value=7,
        compressors=None,
    )
    with dask_io.optimize(memory="1MiB"):
        da.store(source(inputs).rechunk((25, 30)), opened)

    opened.resize((SHAPE[0] + 50, SHAPE[1] + 30))

    expected = np.pad(values(), ((0, 50), (0, 30)), constant_values=7)
    np.testing.assert_array_equal(opened[...], expected)


@pytest.mark.parametrize("is_known", [True, False])
def test_chunks_that_cannot_be_planned_are_refused(
    inputs: Path, tmp_path: Path, *, is_known: bool
) -> None:
    """Chunks of no length, or of one that nobody knows, are an error of usage."""
    flat = source(inputs).ravel()
    array = flat[:0] if is_known else flat[flat > 5]

    with pytest.raises(UsageError, match="empty" if is_known else "not known"):
        dask_io.store(array, tmp_path / "out", memory="1MiB")


def test_masks_are_not_dropped(tmp_path: Path) -> None:
    """Neither if an array says that it is masked, nor if that shows in its blocks."""
    plain = da.arange(6, chunks=3)
    told = da.ma.masked_equal(plain, 2)
    found = plain.map_blocks(lambda block: np.ma.masked_equal(block, 2), meta=np.array([], "i8"))
    for array in (told, found):
        with pytest.raises(UsageError, match="masked"):
            dask_io.store(array, tmp_path / "out.zarr")
    dask_io.store(da.ma.filled(told, -1), tmp_path / "out.zarr")

    assert dask_io.open(tmp_path / "out.zarr")[:].tolist() == [0, 1, -1, 3, 4, 5]


def test_storing_can_wait(inputs: Path, tmp_path: Path) -> None:
    """With compute=False nothing happens until Dask is told to."""
    later = dask_io.store(source(inputs), tmp_path / "out", chunks=-1, compute=False)
    assert not (tmp_path / "out").exists()

    dask.compute(later)

    np.testing.assert_array_equal(dask_io.open(tmp_path / "out")[...], values())


def test_what_a_graph_makes_cannot_be_resumed(inputs: Path, tmp_path: Path) -> None:
    """A run that fails halfway leaves what says so, and resuming does not make up the rest."""

    def fail(block: Any) -> Any:
        if block[-1, -1] == values()[-1, -1]:
            raise RuntimeError("not the last block")
        return block

    array = source(inputs).map_blocks(fail, dtype="i4")
    with pytest.raises(RuntimeError, match="not the last block"):
        dask_io.store(array, tmp_path / "out", chunks=(10, 11), memory="1MiB", workers=1)
    with pytest.raises(DataError, match="its description"):
        dask_io.resume(tmp_path / "out")


def test_a_region_is_sliced_before(inputs: Path, tmp_path: Path) -> None:
    """Dask has words for that, and its arrays cannot be consumed."""
    with pytest.raises(UsageError, match="slice it before storing"):
        dask_io.store(source(inputs), tmp_path / "out", region="0:5")


def test_datasets_are_resplit(inputs: Path, tmp_path: Path) -> None:
    """All variables get the chunks, and the dataset that was given stays as it is."""
    dataset = xr.open_zarr(inputs / "dataset.zarr")
    before = dict(dataset.t.encoding)

    dataset.dask_io.resplit(
        tmp_path / "out.zarr",
        chunks={"y": 25, "x": 44},
        memory="1MiB",
        on_mismatch="raise",
        zarr_format=2,
    )

    found = xr.open_zarr(tmp_path / "out.zarr")
    xr.testing.assert_identical(found, dataset)
    assert found.t.encoding["chunks"] == (25, 44)
    assert dataset.t.encoding == before


def test_arrays_of_xarray_are_resplit(inputs: Path, tmp_path: Path) -> None:
    """An array goes with its coordinates, and can wait to be computed."""
    array = xr.open_zarr(inputs / "dataset.zarr").u

    later = array.dask_io.resplit(
        tmp_path / "out.zarr", chunks={"y": -1}, memory="1MiB", compute=False, zarr_format=2
    )

    assert dask_io.explain(later).matched
    dask.compute(later)
    xr.testing.assert_identical(xr.open_zarr(tmp_path / "out.zarr").u, array)


def test_arrays_are_told_apart(inputs: Path) -> None:
    """Dask's names for two arrays differ, and are the same for one that is opened twice."""
    names = [
        da.from_array(dask_io.open(inputs / name)).name for name in ("a.zarr", "b.zarr", "a.zarr")
    ]

    assert names[0] == names[2] != names[1]
