"""Open the arrays of other libraries in a graph: Zarr arrays, HDF5 datasets, xarray's wrappers."""

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

# How xarray wraps a Zarr array that it neither decodes nor indexes.
_XARRAY = (
    "xarray.core.indexing.ImplicitToExplicitIndexingAdapter",
    "xarray.core.indexing.CopyOnWriteArray",
    "xarray.core.indexing.LazilyIndexedArray",
    "xarray.backends.zarr.ZarrArrayWrapper",
)
_WHOLE = slice(None)
_NUMBERS = "biufc"


def source_of(obj: Any) -> Source:
    """Return the source that a graph reads from.

    Raises
    ------
    DeclinedError
        If it cannot be read by plan.
    """
    obj = _unwrap(obj)
    if isinstance(obj, BlockArray):
        return obj.source
    if _is(obj, "zarr", "Array"):
        return _open_zarr(obj)
    if _is(obj, "h5py", "Dataset"):
        return _open_hdf5(obj)
    if isinstance(obj, np.memmap):
        raise DeclinedError(
            "the source is a memory-mapped array; open the file with dask_io.open instead"
        )
    if isinstance(obj, np.ndarray):
        raise DeclinedError("the source is an array in memory")
    raise DeclinedError(f"the source is a {_kind(obj)}, whose blocks Dask IO cannot read")


def is_in_c_order(obj: Any) -> bool:
    """Whether reading an object gives arrays in C order."""
    return getattr(_unwrap(obj), "order", "C") == "C"


def target_of(obj: Any, chunks: Grid, corner: tuple[int, ...]) -> Target:
    """Return the target that a graph stores to, which is an existing array.

    `chunks` are the chunks in which Dask would store, starting at a corner. They serve as the
    blocks of a target that is not chunked.

    Raises
    ------
    DeclinedError
        If it cannot be written by plan.
    """
    if _is(obj, "zarr", "Array"):
        return _fill_zarr(obj)
    if _is(obj, "h5py", "Dataset"):
        return _fill_hdf5(obj, chunks, corner)
    if isinstance(obj, np.ndarray):
        raise DeclinedError("the target is an array in memory")
    raise DeclinedError(f"the target is a {_kind(obj)}, whose blocks Dask IO cannot write")


def _unwrap(obj: Any) -> Any:
    """Return the array that xarray wraps, or decline if xarray also decodes or indexes it."""
    if _name(obj) != _XARRAY[0]:
        return obj
    for name in _XARRAY:
        if _name(obj) != name:
            raise DeclinedError(f"xarray decodes the array ({type(obj).__name__})")
        if name.endswith("LazilyIndexedArray") and any(key != _WHOLE for key in obj.key.tuple):
            raise DeclinedError("xarray reads an indexed part of the array")
        obj = obj.array if name != _XARRAY[-1] else obj._array  # noqa: SLF001 - xarray has no other name for it
    return obj


def _name(obj: Any) -> str:
    kind = type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"


def _kind(obj: Any) -> str:
    kind = type(obj)
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _is(obj: Any, library: str, name: str) -> bool:
    """Whether an object is of a library's class, without importing the library.

    Subclasses do not count, because they may read and write differently.
    """
    return type(obj) is getattr(sys.modules.get(library), name, None)


def _open_zarr(array: Any) -> ChunkedSource[ZarrChunks]:
    """Open a Zarr array again by its path, and check that it is the same array."""
    from dask_io.formats.zarr.source import open_zarr  # noqa: PLC0415 - Zarr is here if arrays are

    try:
        source = open_zarr(_folder_of(array), array.path, strict=False)
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error
    found = source.spec
    if (found.grid.shape, found.chunks, found.shards) != (array.shape, array.chunks, array.shards):
        raise DeclinedError(f"{source.place} has changed since it was opened")
    return source


def _fill_zarr(array: Any) -> Target:
    from dask_io.formats.zarr.inplace import ZarrInPlace  # noqa: PLC0415 - as above

    if array.read_only:
        raise DeclinedError("the target is a Zarr array that is open for reading only")
    source = _open_zarr(array)
    write_empty = array.async_array.config.write_empty_chunks
    return ZarrInPlace(source.chunks.stored, write_empty=write_empty)


def _open_hdf5(dataset: Any) -> Source:
    """Open a dataset again by its path, unless its file may have unwritten changes."""
    from dask_io.formats.hdf5.source import open_hdf5  # noqa: PLC0415 - HDF5 is here if datasets are

    if dataset.file.mode != "r":
        raise DeclinedError("the source is an HDF5 file that is open for writing")
    path = Path(dataset.file.filename)
    if not _is_open_at(dataset.file, path):
        raise DeclinedError("the source is an HDF5 file that is not at its path, or not a file")
    if dataset.name is None:
        raise DeclinedError("the source is a dataset without a name")
    try:
        return open_hdf5(path, dataset.name.strip("/"), strict=False)
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error


def _is_open_at(file: Any, path: Path) -> bool:
    """Whether an open HDF5 file is the one at a path; a relative path may have changed meaning."""
    try:
        return file.driver == "sec2" and samestat(fstat(file.id.get_vfd_handle()), path.stat())
    except OSError:
        return False


def _fill_hdf5(dataset: Any, chunks: Grid, corner: tuple[int, ...]) -> Target:
    from dask_io.formats.hdf5.inplace import Hdf5InPlace  # noqa: PLC0415 - as above

    if dataset.file.mode == "r":
        raise DeclinedError("the target is an HDF5 file that is open for reading only")
    if dataset.dtype.kind not in _NUMBERS:
        raise DeclinedError(f"HDF5 stores {dataset.dtype} differently from NumPy")
    place = str(Path(dataset.file.filename))
    if dataset.chunks:
        return Hdf5InPlace(dataset, Grid.regular(dataset.shape, dataset.chunks), place)
    lengths = (
        filter(None, (low, *axis.lengths(), length - low - axis.length))
        for axis, low, length in zip(chunks.axes, corner, dataset.shape, strict=True)
    )
    return Hdf5InPlace(dataset, Grid(tuple(map(Axis.of, lengths))), place)


def converts_as_numpy(target: Target) -> bool:
    """Whether a target converts elements of other types as NumPy does."""
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
    raise DeclinedError(f"its Zarr store is a {type(store).__name__}, not a local directory")
