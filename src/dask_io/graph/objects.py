"""Which store an object in a graph is: here alone arrays of other libraries are known."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import DaskIOError
from dask_io.graph.match import DeclinedError
from dask_io.stores.array import BlockArray

if TYPE_CHECKING:
    from dask_io.stores.store import Source, Target
    from dask_io.stores.zarr.source import ZarrSource

# How xarray wraps an array that it reads from Zarr, if nothing is to be decoded or indexed.
_XARRAY = (
    "xarray.core.indexing.ImplicitToExplicitIndexingAdapter",
    "xarray.core.indexing.CopyOnWriteArray",
    "xarray.core.indexing.LazilyIndexedArray",
    "xarray.backends.zarr.ZarrArrayWrapper",
)
_WHOLE = slice(None)


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
    if isinstance(thing, np.memmap):
        raise DeclinedError("it reads a memory-mapped array; open the file with dask_io.open")
    if isinstance(thing, np.ndarray):
        raise DeclinedError("it reads an array that is in memory")
    raise DeclinedError(f"it reads a {_kind(thing)}, of which Dask IO does not know the blocks")


def target_of(thing: Any) -> Target:
    """Describe what a graph stores to, as a target that is filled in place.

    Raises
    ------
    DeclinedError
        If it is nothing that can be written by plan.
    """
    if _is(thing, "zarr", "Array"):
        return _fill_zarr(thing)
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
    """Whether an object is of a class of a library, which is not imported for that."""
    found = getattr(sys.modules.get(library), name, None)
    return found is not None and isinstance(thing, found)


def _open_zarr(array: Any) -> ZarrSource:
    """Open the array again by its path, and see that it is the same one."""
    from dask_io.stores.zarr.source import open_zarr  # noqa: PLC0415 - Zarr is here if arrays are

    try:
        source = open_zarr(_folder_of(array), array.path, strict=False)
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error
    found = source.array
    if (found.shape, found.chunks, found.shards) != (array.shape, array.chunks, array.shards):
        raise DeclinedError(f"{source.place} is not the array that it was")
    return source


def _fill_zarr(array: Any) -> Target:
    from dask_io.stores.zarr.inplace import ZarrInPlace  # noqa: PLC0415 - as above

    if array.read_only:
        raise DeclinedError("it stores to an array that is open for reading only")
    source = _open_zarr(array)
    write_empty = array.async_array.config.write_empty_chunks
    return ZarrInPlace(source.site, source.documents, write_empty=write_empty)


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
