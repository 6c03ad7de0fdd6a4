"""Which store an object in a graph is: here alone arrays of other libraries are known."""

from __future__ import annotations

import sys
from os import fstat
from os.path import samestat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import DaskIOError
from dask_io.geometry import Axis, Grid
from dask_io.graph.match import DeclinedError
from dask_io.stores.array_like import BlockArray

if TYPE_CHECKING:
    from dask_io.formats.zarr.source import ZarrChunks
    from dask_io.stores.chunked_source import ChunkedSource
    from dask_io.stores.store import Source, Target

# How xarray wraps an array that it reads from Zarr, if nothing is to be decoded or indexed.
_XARRAY = (
    "xarray.core.indexing.ImplicitToExplicitIndexingAdapter",
    "xarray.core.indexing.CopyOnWriteArray",
    "xarray.core.indexing.LazilyIndexedArray",
    "xarray.backends.zarr.ZarrArrayWrapper",
)
_WHOLE = slice(None)
_NUMBERS = "biufc"


def source_of(thing: Any) -> Source:
    """Open what a graph reads from.

    Raises
    ------
    DeclinedError
        If it is nothing that can be read by plan.
    """
    thing = _unwrap(thing)
    if isinstance(thing, BlockArray):
        return thing.source
    if _is(thing, "zarr", "Array"):
        return _open_zarr(thing)
    if _is(thing, "h5py", "Dataset"):
        return _open_hdf5(thing)
    if isinstance(thing, np.memmap):
        raise DeclinedError("it reads a memory-mapped array; open the file with dask_io.open")
    if isinstance(thing, np.ndarray):
        raise DeclinedError("it reads an array that is in memory")
    raise DeclinedError(f"it reads a {_kind(thing)}, of which Dask IO does not know the blocks")


def is_in_c_order(thing: Any) -> bool:
    """Whether what is read from something lies in memory in C order."""
    return getattr(_unwrap(thing), "order", "C") == "C"


def target_of(thing: Any, chunks: Grid, corner: tuple[int, ...]) -> Target:
    """Describe what a graph stores to, as a target that is filled in place.

    `chunks` are the blocks in which Dask would store, from a corner on; they do where a target
    has no blocks itself.

    Raises
    ------
    DeclinedError
        If it is nothing that can be written by plan.
    """
    if _is(thing, "zarr", "Array"):
        return _fill_zarr(thing)
    if _is(thing, "h5py", "Dataset"):
        return _fill_hdf5(thing, chunks, corner)
    if isinstance(thing, np.ndarray):
        raise DeclinedError("it stores to an array in memory")
    raise DeclinedError(f"it stores to a {_kind(thing)}, of which Dask IO does not know the blocks")


def _unwrap(thing: Any) -> Any:
    """Return the array that xarray has wrapped, if that is all it did."""
    if _name(thing) != _XARRAY[0]:
        return thing
    for name in _XARRAY:
        if _name(thing) != name:
            raise DeclinedError(f"it reads what xarray decodes ({type(thing).__name__})")
        if name.endswith("LazilyIndexedArray") and any(key != _WHOLE for key in thing.key.tuple):
            raise DeclinedError("it reads what xarray has indexed before")
        thing = thing.array if name != _XARRAY[-1] else thing._array  # noqa: SLF001 - xarray has no other name for it
    return thing


def _name(thing: Any) -> str:
    kind = type(thing)
    return f"{kind.__module__}.{kind.__qualname__}"


def _kind(thing: Any) -> str:
    kind = type(thing)
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _is(thing: Any, library: str, name: str) -> bool:
    """Whether an object is of a class of a library, which is not imported for that.

    One of a class that is derived from it may read and write in a way of its own.
    """
    return type(thing) is getattr(sys.modules.get(library), name, None)


def _open_zarr(array: Any) -> ChunkedSource[ZarrChunks]:
    """Open the array again by its path, and see that it is the same one."""
    from dask_io.formats.zarr.source import open_zarr  # noqa: PLC0415 - Zarr is here if arrays are

    try:
        source = open_zarr(_folder_of(array), array.path, strict=False)
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error
    found = source.spec
    if (found.grid.shape, found.chunks, found.shards) != (array.shape, array.chunks, array.shards):
        raise DeclinedError(f"{source.place} is not the array that it was")
    return source


def _fill_zarr(array: Any) -> Target:
    from dask_io.formats.zarr.inplace import ZarrInPlace  # noqa: PLC0415 - as above

    if array.read_only:
        raise DeclinedError("it stores to an array that is open for reading only")
    source = _open_zarr(array)
    write_empty = array.async_array.config.write_empty_chunks
    return ZarrInPlace(source.chunks.stored, write_empty=write_empty)


def _open_hdf5(dataset: Any) -> Source:
    """Open the dataset again by its path; what is in memory only would not be seen."""
    from dask_io.formats.hdf5.source import open_hdf5  # noqa: PLC0415 - HDF5 is here if datasets are

    if dataset.file.mode != "r":
        raise DeclinedError("it reads an HDF5 file that is open for writing")
    path = Path(dataset.file.filename)
    if not _is_open_at(dataset.file, path):
        raise DeclinedError("it reads an HDF5 file that is not at its path, or not a file")
    if dataset.name is None:
        raise DeclinedError("it reads a dataset without a name")
    try:
        return open_hdf5(path, dataset.name.strip("/"), strict=False)
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error


def _is_open_at(file: Any, path: Path) -> bool:
    """Whether an HDF5 file that is open is the one at a path, which may be meant from elsewhere."""
    try:
        return file.driver == "sec2" and samestat(fstat(file.id.get_vfd_handle()), path.stat())
    except OSError:
        return False


def _fill_hdf5(dataset: Any, chunks: Grid, corner: tuple[int, ...]) -> Target:
    from dask_io.formats.hdf5.inplace import Hdf5InPlace  # noqa: PLC0415 - as above

    if dataset.file.mode == "r":
        raise DeclinedError("it stores to a file that is open for reading only")
    if dataset.dtype.kind not in _NUMBERS:
        raise DeclinedError(f"it stores {dataset.dtype}, which HDF5 has a way of its own with")
    place = str(Path(dataset.file.filename))
    if dataset.chunks:
        return Hdf5InPlace(dataset, Grid.regular(dataset.shape, dataset.chunks), place)
    lengths = (
        filter(None, (low, *axis.lengths(), length - low - axis.length))
        for axis, low, length in zip(chunks.axes, corner, dataset.shape, strict=True)
    )
    return Hdf5InPlace(dataset, Grid(tuple(map(Axis.of, lengths))), place)


def converts_as_numpy(target: Target) -> bool:
    """Whether a target takes elements of other types as NumPy would convert them."""
    return target.format != "hdf5"


def _folder_of(array: Any) -> Path:
    """Return the directory of a Zarr store on local disk."""
    store = array.store
    if _name(store) == "zarr.storage._local.LocalStore":
        return Path(store.root)
    if _name(store) == "zarr.storage._fsspec.FsspecStore":
        system = getattr(store.fs, "sync_fs", store.fs)
        if _name(system) == "fsspec.implementations.local.LocalFileSystem":
            return Path(store.path)
    raise DeclinedError(f"its Zarr store is a {type(store).__name__}, not a folder on this machine")
