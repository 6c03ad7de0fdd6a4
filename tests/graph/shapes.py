"""Programs that read, rechunk and store, and near misses of those: one table for all schedulers.

A program writes into a folder, by itself or through what it returns to be computed, and reads
from another, which `make_inputs` fills.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray

import dask_io

# Too little of Dask says its types to check programs by them.
dask: Any = import_module("dask")
da: Any = import_module("dask.array")
bind: Any = import_module("dask.graph_manipulation").bind
SHAPE = (60, 44)


@dataclass(frozen=True)
class Shape:
    """A program, and what is said about it: nothing if all of it goes by plan."""

    run: Callable[[Path, Path], Any]
    reason: str = ""
    threads_only: bool = False
    cluster_only: bool = False

    @property
    def name(self) -> str:
        """The program's name."""
        return self.run.__name__

    def __str__(self) -> str:
        return f"{'declined' if self.reason else 'matched'}-{self.name}"


SHAPES: list[Shape] = []


def matched(run: Callable[[Path, Path], Any]) -> Callable[[Path, Path], Any]:
    """Have a program in the table that goes by plan."""
    SHAPES.append(Shape(run))
    return run


def matched_by_threads(run: Callable[[Path, Path], Any]) -> Callable[[Path, Path], Any]:
    """Have a program in the table that goes by plan; what it opens stays in this process."""
    SHAPES.append(Shape(run, threads_only=True))
    return run


def matched_on_a_cluster(run: Callable[[Path, Path], Any]) -> Callable[[Path, Path], Any]:
    """Have a program in the table that goes by plan, and without one only on a cluster."""
    SHAPES.append(Shape(run, cluster_only=True))
    return run


def declined(
    reason: str, *, threads_only: bool = False
) -> Callable[[Callable[[Path, Path], Any]], Callable[[Path, Path], Any]]:
    """Have a program in the table that does not, for a reason."""

    def add(run: Callable[[Path, Path], Any]) -> Callable[[Path, Path], Any]:
        SHAPES.append(Shape(run, reason, threads_only=threads_only))
        return run

    return add


def values(seed: int = 0) -> NDArray[Any]:
    """Return an array to store."""
    return np.random.default_rng(seed).integers(0, 9999, SHAPE, dtype=np.int32)


def make_inputs(folder: Path) -> None:
    """Make everything that programs read."""
    wholes: list[tuple[str, dict[str, Any]]] = [
        ("a", {"chunks": (10, 11)}),
        ("b", {"chunks": (15, 7)}),
        ("plain", {"chunks": (16, 44), "compressors": None}),
        ("sharded", {"chunks": (5, 11), "shards": (20, 22)}),
        ("v2", {"chunks": (16, 9), "zarr_format": 2, "order": "F"}),
        ("group/inner", {"chunks": (13, 13)}),
    ]
    for seed, (name, options) in enumerate(wholes):
        put(folder / f"{name}.zarr", seed=seed, **options)
    whole = values(9)
    np.save(folder / "one.npy", whole)
    whole.tofile(folder / "one.raw")
    blocks = folder / "blocks"
    blocks.mkdir()
    for i in range(3):
        for j in range(2):
            part = whole[20 * i : 20 * i + 20, 22 * j : 22 * j + 22]
            np.save(blocks / f"b_{i}_{j}.npy", part)
    with h5py.File(folder / "h.h5", "w") as file:
        file["plain"] = whole
        file.create_dataset("deep/packed", data=whole, chunks=(16, 9), compression="gzip")
    dataset = xr.Dataset(
        {"t": (("y", "x"), values(10)), "u": (("y", "x"), values(11).astype("f8"))},
        coords={"y": np.arange(60), "x": np.arange(44)},
    )
    dataset.chunk(y=10, x=11).to_zarr(folder / "dataset.zarr", zarr_format=2)
    packed = dataset[["t"]].chunk(y=10, x=11)
    packed.t.encoding = {"scale_factor": 0.5, "dtype": "i4", "_FillValue": -1}
    packed.to_zarr(folder / "packed.zarr", zarr_format=2)


def put(path: Path, *, seed: int = 0, **options: Any) -> zarr.Array[Any]:
    """Make an array with something in it."""
    array = zarr.create_array(str(path), shape=SHAPE, dtype="i4", **options)
    array[:] = values(seed)
    return array


def target(path: Path, chunks: tuple[int, ...], **options: Any) -> zarr.Array[Any]:
    """Make an array to store to."""
    options = {"shape": SHAPE, "dtype": "i4", **options}
    return zarr.create_array(str(path), chunks=chunks, **options)


def source(inputs: Path, name: str = "a", **options: Any) -> Any:
    """Return an array as Dask reads it."""
    return da.from_zarr(str(inputs / f"{name}.zarr"), **options)


# What goes by plan.


@matched
def to_zarr(inputs: Path, out: Path) -> None:
    source(inputs).rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


@matched
def to_zarr_later(inputs: Path, out: Path) -> Any:
    return source(inputs).rechunk((25, 44)).to_zarr(str(out / "x.zarr"), compute=False)


@matched
def to_zarr_over_another(inputs: Path, out: Path) -> None:
    put(out / "x.zarr", chunks=(9, 9), seed=5)
    stored = source(inputs).rechunk((25, 44))
    stored.to_zarr(str(out / "x.zarr"), **_overwrite())


def _overwrite() -> dict[str, Any]:
    """Return how this Dask is told to overwrite."""
    is_new = "mode" in signature(da.to_zarr).parameters
    return {"mode": "w"} if is_new else {"overwrite": True}


@matched
def into_component(inputs: Path, out: Path) -> None:
    zarr.create_group(str(out / "x.zarr"))
    source(inputs).rechunk((25, 44)).to_zarr(str(out / "x.zarr"), component="deep/inside")


@matched
def store_with_lock(inputs: Path, out: Path) -> None:
    source(inputs).rechunk((25, 44)).store(target(out / "x.zarr", (25, 44)))


@matched
def store_without_lock(inputs: Path, out: Path) -> None:
    source(inputs).rechunk((25, 44)).store(target(out / "x.zarr", (25, 44)), lock=False)


@matched
def from_array_of_zarr(inputs: Path, out: Path) -> None:
    array = da.from_array(zarr.open_array(str(inputs / "a.zarr"), mode="r"))
    array.rechunk((25, 44)).store(target(out / "x.zarr", (25, 44)))


@matched
def from_array_inline(inputs: Path, out: Path) -> None:
    opened = zarr.open_array(str(inputs / "a.zarr"), mode="r")
    array = da.from_array(opened, chunks=(10, 22), inline_array=True)
    array.rechunk((25, 44)).store(target(out / "x.zarr", (25, 44)))


@matched
def from_array_with_lock(inputs: Path, out: Path) -> None:
    opened = zarr.open_array(str(inputs / "a.zarr"), mode="r")
    array = da.from_array(opened, chunks=(10, 22), lock=True, fancy=False)
    array.rechunk((25, 44)).store(target(out / "x.zarr", (25, 44)))


@matched
def one_lock_for_both(inputs: Path, out: Path) -> None:
    lock = dask.utils.SerializableLock()
    opened = zarr.open_array(str(inputs / "a.zarr"), mode="r")
    array = da.from_array(opened, chunks=(10, 22), lock=lock)
    array.rechunk((25, 44)).store(target(out / "x.zarr", (25, 44)), lock=lock)


@matched
def rechunk_in_steps(inputs: Path, out: Path) -> None:
    array = source(inputs).rechunk((60, 1)).rechunk((1, 44), method="tasks", threshold=1)
    array.rechunk((7, 5)).store(target(out / "x.zarr", (7, 5)))


@matched_on_a_cluster
def rechunk_p2p(inputs: Path, out: Path) -> None:
    array = source(inputs).rechunk((25, 44), method="p2p")
    array.store(target(out / "x.zarr", (25, 44)))


@matched_on_a_cluster
def rechunk_p2p_after_tasks(inputs: Path, out: Path) -> None:
    array = (source(inputs) + 1).rechunk((60, 4), method="tasks")
    array.rechunk((4, 44), method="p2p").to_zarr(str(out / "x.zarr"))


@matched
def rechunk_balanced(inputs: Path, out: Path) -> None:
    array = source(inputs).rechunk((25, 44), balance=True)
    array.store(target(out / "x.zarr", (9, 20)))


@matched
def no_rechunk(inputs: Path, out: Path) -> None:
    source(inputs).store(target(out / "x.zarr", (7, 5)), scheduler="sync")


@matched
def chunks_that_cut_those_of_the_target(inputs: Path, out: Path) -> None:
    source(inputs).rechunk((7, 44)).store(target(out / "x.zarr", (10, 10)))


@matched
def version_2(inputs: Path, out: Path) -> None:
    array = source(inputs, "v2").rechunk((25, 10))
    array.store(target(out / "x.zarr", (25, 10), zarr_format=2))


@matched
def uncompressed(inputs: Path, out: Path) -> None:
    array = source(inputs, "plain").rechunk((25, 10))
    array.store(target(out / "x.zarr", (25, 10), compressors=None))


@matched
def shards(inputs: Path, out: Path) -> None:
    array = source(inputs, "sharded").rechunk((30, 44))
    array.store(target(out / "x.zarr", (15, 11), shards=(30, 22)))


@matched
def in_a_group(inputs: Path, out: Path) -> None:
    array = da.from_zarr(str(inputs / "group"), component="inner.zarr")
    array.rechunk((25, 44)).store(target(out / "x.zarr", (25, 44)))


@matched
def region(inputs: Path, out: Path) -> None:
    stored = target(out / "x.zarr", (20, 22), shape=(120, 88), fill_value=7)
    slices = (slice(40, 100), slice(44, 88))
    source(inputs).rechunk((20, 44)).store(stored, regions=slices)


@matched
def region_to_the_end(inputs: Path, out: Path) -> None:
    stored = target(out / "x.zarr", (32, 44), shape=(92, 44), fill_value=7)
    source(inputs).rechunk((20, 44)).store(stored, regions=(slice(32, None), slice(None)))


@matched
def over_other_values(inputs: Path, out: Path) -> None:
    """Chunks that become the fill value are removed, whatever they were."""
    stored = put(out / "x.zarr", chunks=(20, 22), seed=3)
    array = (source(inputs) * 0).rechunk((20, 22))
    array.store(stored)


@matched
def several_targets(inputs: Path, out: Path) -> None:
    arrays = [source(inputs).rechunk((25, 44)), source(inputs, "b").rechunk((7, 7))]
    da.store(arrays, [target(out / "x.zarr", (25, 44)), target(out / "y.zarr", (7, 7))])


@matched
def several_targets_of_one_source(inputs: Path, out: Path) -> None:
    array = source(inputs)
    arrays = [array.rechunk((25, 44)), array.rechunk((7, 7))]
    da.store(arrays, [target(out / "x.zarr", (25, 44)), target(out / "y.zarr", (7, 7))])


@matched
def one_array_stored_twice(inputs: Path, out: Path) -> None:
    array = source(inputs).rechunk((25, 44))
    stored = [target(out / "x.zarr", (25, 44)), target(out / "y.zarr", (25, 44))]
    da.store([array, array], stored)


@matched
def cast_by_the_target(inputs: Path, out: Path) -> None:
    array = source(inputs).rechunk((25, 44))
    array.store(target(out / "x.zarr", (20, 22), dtype="u1"))


@matched
def arithmetic_before(inputs: Path, out: Path) -> None:
    array = source(inputs)
    worked = (array + 1) * array - array // 3
    worked.rechunk((25, 44)).store(target(out / "x.zarr", (25, 44)))


@matched
def astype_before(inputs: Path, out: Path) -> None:
    source(inputs).astype("f4").rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


@matched
def ufuncs_after(inputs: Path, out: Path) -> None:
    array = np.sqrt(source(inputs).rechunk((25, 44)))
    array.store(target(out / "x.zarr", (25, 22), dtype="f8"))


@matched
def arithmetic_in_fortran_order(inputs: Path, out: Path) -> None:
    array = np.sqrt(source(inputs, "v2") * 2)
    array.rechunk((16, 30)).store(target(out / "x.zarr", (16, 30), dtype="f8"))


@matched
def blocks_before_and_after(inputs: Path, out: Path) -> None:
    """Functions of whole blocks are given the very blocks that Dask would give them."""
    array = source(inputs).map_blocks(_less_mean, dtype="f8").rechunk((25, 44))
    array = array.map_blocks(_less_mean, 2.0, dtype="f8")
    array.store(target(out / "x.zarr", (5, 44), dtype="f4"))


def _less_mean(block: NDArray[Any], times: float = 1.0) -> NDArray[Any]:
    return np.asarray(block - times * block.mean())


@matched
def between_rechunks(inputs: Path, out: Path) -> None:
    array = source(inputs).rechunk((30, 44)).map_blocks(_less_mean, dtype="f8")
    array.rechunk((25, 20)).to_zarr(str(out / "x.zarr"))


@matched
def work_without_rechunk(inputs: Path, out: Path) -> None:
    array = source(inputs).map_blocks(_less_mean, dtype="f8")
    array.store(target(out / "x.zarr", (7, 9), dtype="f8"))


@matched
def delayed_on_top(inputs: Path, out: Path) -> Any:
    stored = source(inputs).rechunk((25, 44)).to_zarr(str(out / "x.zarr"), compute=False)
    return dask.delayed(_done)(stored)


def _done(_: object) -> str:
    return "done"


@matched
def persisted(inputs: Path, out: Path) -> Any:
    stored = source(inputs).rechunk((25, 44)).to_zarr(str(out / "x.zarr"), compute=False)
    return stored.persist()


@matched
def computed_with_something_else(inputs: Path, out: Path) -> Any:
    stored = source(inputs).rechunk((25, 44)).to_zarr(str(out / "x.zarr"), compute=False)
    return stored, da.ones(10, chunks=5).sum()


@matched
def from_block_files(inputs: Path, out: Path) -> None:
    array = da.from_array(dask_io.open(inputs / "blocks"))
    array.rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


@matched
def from_raw(inputs: Path, out: Path) -> None:
    opened = dask_io.open(inputs / "one.raw", shape=SHAPE, dtype="i4")
    da.from_array(opened, chunks=(9, 9)).rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


@matched
def xarray_dataset(inputs: Path, out: Path) -> None:
    _open_dataset(inputs).to_zarr(out / "x.zarr", zarr_format=2)


@matched
def xarray_dataset_later(inputs: Path, out: Path) -> Any:
    return _open_dataset(inputs).to_zarr(out / "x.zarr", zarr_format=2, compute=False)


@matched
def xarray_arithmetic(inputs: Path, out: Path) -> None:
    (_open_dataset(inputs) * 2).to_zarr(out / "x.zarr", zarr_format=2)


def _open_dataset(inputs: Path, name: str = "dataset") -> xr.Dataset:
    dataset: xr.Dataset = xr.open_zarr(inputs / f"{name}.zarr").chunk(y=25, x=44)
    for variable in dataset.variables.values():
        variable.encoding.pop("chunks", None)
        variable.encoding.pop("preferred_chunks", None)
    return dataset


def from_hdf5(name: str, inputs: Path, out: Path) -> None:
    with h5py.File(inputs / "h.h5", "r") as file:
        array = da.from_array(file[name], chunks=(20, 22), lock=True)
        array.rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


@matched_by_threads
def from_contiguous_hdf5(inputs: Path, out: Path) -> None:
    from_hdf5("plain", inputs, out)


@matched_by_threads
def from_chunked_hdf5(inputs: Path, out: Path) -> None:
    from_hdf5("deep/packed", inputs, out)


@matched_by_threads
def to_hdf5(inputs: Path, out: Path) -> None:
    source(inputs).rechunk((25, 44)).to_hdf5(str(out / "x.h5"), "/a/b", compression="gzip")


@matched_by_threads
def several_to_hdf5(inputs: Path, out: Path) -> None:
    arrays = {"/a": source(inputs).rechunk((25, 44)), "/b": source(inputs, "b") + 1}
    da.to_hdf5(str(out / "x.h5"), arrays)


@matched_by_threads
def from_hdf5_to_contiguous_hdf5(inputs: Path, out: Path) -> None:
    with h5py.File(inputs / "h.h5", "r") as file, h5py.File(out / "x.h5", "w") as made:
        stored = made.create_dataset("a", (80, 60), "i4", fillvalue=5)
        array = da.from_array(file["plain"], chunks=(20, 22)).rechunk((25, 44))
        array.store(stored, regions=(slice(10, 70), slice(16, None)))


# Near misses: Dask does these by itself.


@declined("does not convert elements as NumPy", threads_only=True)
def converted_by_hdf5(inputs: Path, out: Path) -> None:
    with h5py.File(out / "x.h5", "w") as made:
        stored = made.create_dataset("a", SHAPE, "i1", chunks=(25, 22))
        source(inputs).rechunk((25, 44)).store(stored)


@declined("open for writing", threads_only=True)
def from_hdf5_that_is_written(inputs: Path, out: Path) -> None:
    with h5py.File(out / "x.h5", "w") as made:
        made["a"] = values()
        array = da.from_array(made["a"], chunks=(20, 22))
        array.rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


@declined("return_stored")
def returned(inputs: Path, out: Path) -> Any:
    array = source(inputs).rechunk((25, 44))
    (stored,) = (array.store(target(out / "x.zarr", (25, 44)), return_stored=True),)
    return stored


@declined("annotated (priority)")
def annotated(inputs: Path, out: Path) -> None:
    with dask.annotate(priority=2):
        stored = source(inputs).rechunk((25, 44)).to_zarr(str(out / "x.zarr"), compute=False)
    with dask.config.set({"optimization.fuse.active": False}):
        stored.compute()


@declined("also needs the array")
def also_summed(inputs: Path, out: Path) -> Any:
    array = source(inputs).rechunk((25, 44))
    return array.to_zarr(str(out / "x.zarr"), compute=False), array.sum()


@declined("also computed by itself")
def also_asked_for(inputs: Path, out: Path) -> Any:
    array = source(inputs).rechunk((25, 44))
    stored = array.to_zarr(str(out / "x.zarr"), compute=False)
    return dask.persist(stored, array)[1]


@declined("only some of its blocks")
def some_blocks(inputs: Path, out: Path) -> Any:
    stored = source(inputs).rechunk((25, 44)).to_zarr(str(out / "x.zarr"), compute=False)
    return dask.delayed(_done)(stored.blocks[1:])


@declined("cuts blocks")
def region_that_cuts(inputs: Path, out: Path) -> None:
    stored = target(out / "x.zarr", (25, 22), shape=(80, 44), fill_value=7)
    slices = (slice(10, 70), slice(None))
    source(inputs).rechunk((20, 44)).store(stored, regions=slices)


@declined("has steps")
def region_with_steps(inputs: Path, out: Path) -> None:
    stored = target(out / "x.zarr", (20, 22), shape=(120, 44), fill_value=7)
    slices = (slice(None, None, 2), slice(None))
    source(inputs).rechunk((20, 44)).store(stored, regions=slices)


@declined("array in memory", threads_only=True)
def into_memory(inputs: Path, out: Path) -> None:
    stored = np.zeros(SHAPE, "i4")
    source(inputs).rechunk((25, 44)).store(stored)
    np.save(out / "x.npy", stored)


@declined("only when the graph runs")
def into_delayed(inputs: Path, out: Path) -> None:
    stored = dask.delayed(_open_again)(target(out / "x.zarr", (25, 44)))
    source(inputs).rechunk((25, 44)).store(stored, lock=False)


def _open_again(stored: zarr.Array[Any]) -> zarr.Array[Any]:
    return stored


@declined("not a local directory", threads_only=True)
def into_memory_store(inputs: Path, out: Path) -> None:
    stored = zarr.create_array(zarr.storage.MemoryStore(), shape=SHAPE, chunks=(25, 44), dtype="i4")
    source(inputs).rechunk((25, 44)).store(stored)
    np.save(out / "x.npy", stored[:])


@declined("custom function")
def own_getitem(inputs: Path, out: Path) -> None:
    opened = zarr.open_array(str(inputs / "a.zarr"), mode="r")
    array = da.from_array(opened, chunks=(10, 11), getitem=_get_more)
    array.rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


def _get_more(array: Any, index: Any, **_: Any) -> NDArray[Any]:
    more: NDArray[Any] = array[index] + 1
    return more


@declined("asarray")
def not_as_array(inputs: Path, out: Path) -> None:
    opened = zarr.open_array(str(inputs / "a.zarr"), mode="r")
    array = da.from_array(opened, chunks=(10, 11), asarray=False)
    array.rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


@declined("are the same")
def onto_itself(inputs: Path, out: Path) -> None:
    stored = put(out / "x.zarr", chunks=(10, 11))
    da.from_array(stored).store(stored)


@declined("written at the same time")
def read_and_written(inputs: Path, out: Path) -> None:
    """What is in the way of the second is left to Dask; its own order of the two is its own."""
    middle = put(out / "x.zarr", chunks=(10, 11), seed=0)
    array, copied = source(inputs), da.from_array(middle)
    stored = [middle, target(out / "y.zarr", (25, 44))]
    da.store([array, copied], stored)


@declined("returned a MaskedArray")
def masked(inputs: Path, out: Path) -> None:
    array = source(inputs).map_blocks(_mask, dtype="i4").map_blocks(np.ma.filled, dtype="i4")
    array.rechunk((25, 44)).store(target(out / "x.zarr", (25, 44)))


def _mask(block: NDArray[Any]) -> NDArray[Any]:
    return np.ma.masked_greater(block, 5000)


@declined("not C-contiguous")
def blocks_in_fortran_order(inputs: Path, out: Path) -> None:
    array = source(inputs, "v2").map_blocks(_less_mean_root, dtype="f4")
    array.rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


@declined("not C-contiguous")
def blocks_with_gaps(inputs: Path, out: Path) -> None:
    """Dask does not copy what is more than half of a block."""
    array = source(inputs, "plain").rechunk((16, 30)).map_blocks(_less_mean_root, dtype="f4")
    array.store(target(out / "x.zarr", (16, 30), dtype="f4"))


def _less_mean_root(block: NDArray[Any]) -> NDArray[Any]:
    """Add up in the order of memory, which rounding tells."""
    roots = np.sqrt(block, dtype="f4", casting="unsafe")
    return np.asarray(roots - roots.mean())


class Doubling(zarr.Array[Any]):
    """An array that is not what is stored."""

    def __getitem__(self, selection: Any) -> Any:
        """Read something else."""
        return 2 * np.asarray(super().__getitem__(selection))


@declined("whose blocks Dask IO cannot read")
def derived_from_zarr(inputs: Path, out: Path) -> None:
    opened = zarr.open_array(str(inputs / "a.zarr"), mode="r")
    array = da.from_array(Doubling(opened.async_array), chunks=(10, 11))
    array.rechunk((25, 44)).store(target(out / "x.zarr", (25, 44)))


@declined("not at its path", threads_only=True)
def hdf5_file_that_was_replaced(inputs: Path, out: Path) -> None:
    for name, number in (("old", 1), ("new", 2)):
        with h5py.File(out / name, "w") as file:
            file["a"] = np.full(SHAPE, number)
    with h5py.File(out / "old", "r") as file:
        (out / "new").replace(out / "old")
        da.from_array(file["a"], chunks=(20, 22)).rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


@declined("converts neither numbers")
def cast_to_fields(inputs: Path, out: Path) -> None:
    fields = np.dtype([("a", "i4"), ("b", "i2")])
    stored = target(out / "x.zarr", (25, 44), dtype=fields, zarr_format=2)
    source(inputs).rechunk((25, 44)).store(stored)


@declined("depends on the position of the block")
def with_block_info(inputs: Path, out: Path) -> None:
    array = source(inputs).map_blocks(_numbered, dtype="i4")
    array.rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


def _numbered(block: NDArray[Any], block_id: tuple[int, ...] | None = None) -> NDArray[Any]:
    return block + sum(block_id or ())


@declined("other blocks than the one it computes")
def transposed(inputs: Path, out: Path) -> None:
    source(inputs).T.rechunk((25, 20)).to_zarr(str(out / "x.zarr"))


@declined("is neither a read, a rechunk nor a function")
def sliced(inputs: Path, out: Path) -> None:
    source(inputs)[5:].rechunk((25, 20)).to_zarr(str(out / "x.zarr"))


@declined("combines several arrays")
def of_two_arrays(inputs: Path, out: Path) -> None:
    array = source(inputs) + source(inputs, "b").rechunk((10, 11))
    array.rechunk((25, 20)).to_zarr(str(out / "x.zarr"))


@declined("several arrays")
def with_an_array(inputs: Path, out: Path) -> None:
    array = source(inputs) + np.arange(44)
    array.rechunk((25, 20)).to_zarr(str(out / "x.zarr"))


@declined("depends on the position of the block")
def overlapping(inputs: Path, out: Path) -> None:
    array = source(inputs).map_overlap(_less_first, depth=1, boundary="reflect", dtype="i4")
    array.rechunk((25, 20)).to_zarr(str(out / "x.zarr"))


def _less_first(block: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(block - block.flat[0])


@declined("several arrays")
def centred(inputs: Path, out: Path) -> None:
    array = source(inputs)
    (array - array.mean()).rechunk((25, 20)).to_zarr(str(out / "x.zarr"))


@declined("cannot be tried")
def shortened_blocks(inputs: Path, out: Path) -> None:
    array = source(inputs).map_blocks(_padded, chunks=(10, 11), dtype="i4")
    array.rechunk((25, 20)).to_zarr(str(out / "x.zarr"))


def _padded(block: NDArray[Any]) -> NDArray[Any]:
    """Return 10 rows, whatever comes in."""
    return np.resize(block, (10, block.shape[1]))


@declined("before and between rechunks")
def work_twice(inputs: Path, out: Path) -> None:
    array = source(inputs).map_blocks(_less_mean, dtype="f8").rechunk((30, 44))
    array = array.map_blocks(_less_mean, dtype="f8")
    array.rechunk((25, 20)).to_zarr(str(out / "x.zarr"))


@declined("chunks that cut blocks of the target")
def after_work_across_blocks(inputs: Path, out: Path) -> None:
    array = source(inputs).rechunk((30, 44)).map_blocks(_less_mean, dtype="f8")
    array.store(target(out / "x.zarr", (20, 20), dtype="f8"))


@declined("in memory")
def from_memory(inputs: Path, out: Path) -> None:
    da.from_array(values(), chunks=(10, 11)).rechunk((25, 44)).to_zarr(str(out / "x.zarr"))


@declined("xarray decodes")
def xarray_decoded(inputs: Path, out: Path) -> None:
    dataset = _open_dataset(inputs, "packed")
    for variable in dataset.variables.values():
        variable.encoding.clear()
    dataset.to_zarr(out / "x.zarr", zarr_format=2)


@declined("only when the graph runs")
def bound(inputs: Path, out: Path) -> None:
    first = da.ones(4, chunks=2).sum()
    array = bind(source(inputs), first).rechunk((25, 44))
    array.to_zarr(str(out / "x.zarr"))
