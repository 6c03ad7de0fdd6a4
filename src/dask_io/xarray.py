"""Rechunk xarray datasets: importing this module adds the ``.dask_io`` accessor.

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

# Encoding entries that describe the chunks of the file an array was opened from.
_CHUNK_ENCODINGS = ("chunks", "preferred_chunks", "shards")


@xr.register_dataset_accessor("dask_io")  # type: ignore[no-untyped-call]
@xr.register_dataarray_accessor("dask_io")  # type: ignore[no-untyped-call]
@dataclass(frozen=True)
class Accessor:
    """Methods of Dask IO for datasets and data arrays."""

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
        """Store all variables in Zarr with new chunks, using Dask IO's plans where possible.

        Parameters
        ----------
        target
            The Zarr store, as in `xarray.Dataset.to_zarr`.
        chunks
            Chunk length along each dimension.
        memory, workers, on_mismatch
            As in `dask_io.optimize`.
        **to_zarr
            Further arguments of `xarray.Dataset.to_zarr`, such as ``mode`` or ``compute``.

        Returns
        -------
        xarray.backends.ZarrStore or dask.delayed.Delayed
            The result of `xarray.Dataset.to_zarr`.
        """
        chunked = self.obj.chunk(chunks).copy()
        variables = [chunked.variable] if isinstance(chunked, xr.DataArray) else []
        names = (*chunked.coords, *_data_variables(chunked))
        variables += [chunked[name].variable for name in names]
        for variable in variables:
            for key in _CHUNK_ENCODINGS:
                variable.encoding.pop(key, None)
        with optimize(memory=memory, workers=workers, on_mismatch=on_mismatch):
            return chunked.to_zarr(target, **to_zarr)


def _data_variables(chunked: xr.Dataset | xr.DataArray) -> list[Any]:
    return list(chunked.data_vars) if isinstance(chunked, xr.Dataset) else []
