"""Open the arrays of other libraries that are in a graph."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import DaskIOError
from dask_io.formats.registry import find_object_module
from dask_io.graph.match import DeclinedError
from dask_io.stores.array_like import BlockArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.geometry import Grid
    from dask_io.stores.store import Source, Target

# How xarray wraps a Zarr array that it neither decodes nor indexes.
_XARRAY = (
    "xarray.core.indexing.ImplicitToExplicitIndexingAdapter",
    "xarray.core.indexing.CopyOnWriteArray",
    "xarray.core.indexing.LazilyIndexedArray",
    "xarray.backends.zarr.ZarrArrayWrapper",
)
_WHOLE = slice(None)


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
    if (module := find_object_module(obj)) is not None:
        with _declining():
            source: Source = module.open_object(obj)
            return source
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
    if (module := find_object_module(obj)) is not None:
        with _declining():
            target: Target = module.fill_object(obj, chunks, corner)
            return target
    if isinstance(obj, np.ndarray):
        raise DeclinedError("the target is an array in memory")
    raise DeclinedError(f"the target is a {_kind(obj)}, whose blocks Dask IO cannot write")


@contextmanager
def _declining() -> Iterator[None]:
    """Leave a graph to Dask if a format cannot open an array."""
    try:
        yield
    except DaskIOError as error:
        raise DeclinedError(str(error)) from error


def _unwrap(obj: Any) -> Any:
    """Return the array that xarray wraps, or decline if xarray also decodes or indexes it."""
    if _name(obj) != _XARRAY[0]:
        return obj
    for name in _XARRAY:
        if _name(obj) != name:
            raise DeclinedError(_why_not(obj))
        if name.endswith("LazilyIndexedArray") and any(key != _WHOLE for key in obj.key.tuple):
            raise DeclinedError("xarray reads an indexed part of the array")
        obj = obj.array if name != _XARRAY[-1] else obj._array  # noqa: SLF001 - xarray has no other name for it
    return obj


def _why_not(obj: Any) -> str:
    """Explain which of xarray's own classes is in the way, and the way out."""
    kind, dtype = type(obj).__name__, np.dtype(obj.dtype)
    if "NetCDF" in kind:
        return (
            f"xarray itself reads NetCDF files ({kind}), so their blocks are not known; use "
            "dask_io.resplit or dask_io.open with the file"
        )
    option = "decode_cf"
    if dtype.kind in "mM":
        option = "decode_times"
    elif kind == "_ElementwiseFunctionArray" and dtype.kind in "iufc":
        option = "mask_and_scale"
    while hasattr(obj, "array"):
        obj = obj.array
    variable = getattr(getattr(obj, "_array", None), "path", "") or "the array"
    return (
        f"xarray decodes {variable} ({kind}); open the dataset with {option}=False, or use "
        "dask_io.resplit with the store"
    )


def _name(obj: Any) -> str:
    kind = type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"


def _kind(obj: Any) -> str:
    kind = type(obj)
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
