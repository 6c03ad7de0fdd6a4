"""Zarr arrays that a program has already opened with zarr-python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.formats.zarr.inplace import ZarrInPlace
from dask_io.formats.zarr.source import open_zarr

if TYPE_CHECKING:
    from dask_io.formats.zarr.source import ZarrChunks
    from dask_io.geometry import Grid
    from dask_io.stores.chunked_source import ChunkedSource


def open_object(array: Any) -> ChunkedSource[ZarrChunks]:
    """Open an array again by its path, and check that it is the same array.

    Raises
    ------
    UsageError
        If its store is not a local directory, or it has changed.
    """
    source = open_zarr(_folder_of(array), array.path, strict=False)
    found = source.spec
    if (found.grid.shape, found.chunks, found.shards) != (array.shape, array.chunks, array.shards):
        raise UsageError(f"{source.place} has changed since it was opened")
    return source


def fill_object(array: Any, chunks: Grid, corner: tuple[int, ...]) -> ZarrInPlace:  # noqa: ARG001 - it has chunks
    """Return an array as a target that is filled in place.

    Raises
    ------
    UsageError
        If it cannot be written.
    """
    if array.read_only:
        raise UsageError("the target is a Zarr array that is open for reading only")
    source = open_object(array)
    write_empty = array.async_array.config.write_empty_chunks
    return ZarrInPlace(source.chunks.stored, write_empty=write_empty)


def _folder_of(array: Any) -> Path:
    """Return the directory of a Zarr store on local disk."""
    store = array.store
    if _name(store) == "zarr.storage._local.LocalStore":
        return Path(store.root)
    if _name(store) == "zarr.storage._fsspec.FsspecStore":
        system = getattr(store.fs, "sync_fs", store.fs)
        if _name(system) == "fsspec.implementations.local.LocalFileSystem":
            return Path(store.path)
    raise UsageError(f"its Zarr store is a {type(store).__name__}, not a local directory")


def _name(obj: Any) -> str:
    kind = type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"
