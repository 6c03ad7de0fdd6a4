"""Datasets of xarray to other chunks; importing this adds ``.dask_io`` to them.

>>> import xarray as xr
>>> import dask_io.xarray
>>> callable(xr.Dataset(dict(t=("x", [1, 2]))).dask_io.resplit)
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import xarray as xr

from dask_io.graph.optimizer import optimize

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

# What says how an array was chunked where it came from.
_OLD_CHUNKS = ("chunks", "preferred_chunks", "shards")


@xr.register_dataset_accessor("dask_io")  # type: ignore[no-untyped-call]
@xr.register_dataarray_accessor("dask_io")  # type: ignore[no-untyped-call]
@dataclass(frozen=True)
class Accessor:
    """What can be done to a dataset, or to an array with its coordinates."""

    obj: xr.Dataset | xr.DataArray

    def resplit(
        self,
        target: str | PathLike[str],
        *,
        chunks: Mapping[Any, Any],
        memory: int | str | None = None,
        workers: int | None = None,
        on_mismatch: str | None = None,
        **to_zarr: Any,
    ) -> Any:
        """Store all variables in Zarr with other chunks, by plan wherever that can be.

        Parameters
        ----------
        target
            Where they go, as in `xarray.Dataset.to_zarr`.
        chunks
            Length of the chunks along each dimension.
        memory, workers, on_mismatch
            As in `dask_io.optimize`.
        **to_zarr
            What `xarray.Dataset.to_zarr` takes besides, such as ``mode`` or ``compute``.

        Returns
        -------
        xarray.backends.ZarrStore or dask.delayed.Delayed
            What `xarray.Dataset.to_zarr` returns.
        """
        chunked = self.obj.chunk(chunks).copy()
        variables = [chunked.variable] if isinstance(chunked, xr.DataArray) else []
        variables += [chunked[name].variable for name in (*chunked.coords, *_data_of(chunked))]
        for variable in variables:
            for word in _OLD_CHUNKS:
                variable.encoding.pop(word, None)
        with optimize(memory=memory, workers=workers, on_mismatch=on_mismatch):
            return chunked.to_zarr(target, **to_zarr)


def _data_of(chunked: xr.Dataset | xr.DataArray) -> list[Any]:
    return list(chunked.data_vars) if isinstance(chunked, xr.Dataset) else []
