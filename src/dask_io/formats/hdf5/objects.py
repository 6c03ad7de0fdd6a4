"""HDF5 datasets that a program has already opened with h5py."""

from __future__ import annotations

from os import fstat
from os.path import samestat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.formats.hdf5.inplace import Hdf5InPlace
from dask_io.formats.hdf5.source import open_hdf5
from dask_io.geometry import Axis, Grid

if TYPE_CHECKING:
    from dask_io.stores.store import Source

_NUMBERS = "biufc"


def open_object(dataset: Any) -> Source:
    """Open a dataset again by its path, unless its file may have unwritten changes.

    Raises
    ------
    UsageError
        If its file is open for writing, or not at its path.
    """
    if dataset.file.mode != "r":
        raise UsageError("the source is an HDF5 file that is open for writing")
    path = Path(dataset.file.filename)
    if not _is_open_at(dataset.file, path):
        raise UsageError("the source is an HDF5 file that is not at its path, or not a file")
    if dataset.name is None:
        raise UsageError("the source is a dataset without a name")
    return open_hdf5(path, dataset.name.strip("/"), strict=False)


def _is_open_at(file: Any, path: Path) -> bool:
    """Whether an open HDF5 file is the one at a path; a relative path may have changed meaning."""
    try:
        return file.driver == "sec2" and samestat(fstat(file.id.get_vfd_handle()), path.stat())
    except OSError:
        return False


def fill_object(dataset: Any, chunks: Grid, corner: tuple[int, ...]) -> Hdf5InPlace:
    """Return a dataset as a target that is filled in place.

    The blocks of a dataset without chunks are `chunks`, which start at a corner.

    Raises
    ------
    UsageError
        If it cannot be written.
    """
    if dataset.file.mode == "r":
        raise UsageError("the target is an HDF5 file that is open for reading only")
    if dataset.dtype.kind not in _NUMBERS:
        raise UsageError(f"HDF5 stores {dataset.dtype} differently from NumPy")
    place = str(Path(dataset.file.filename))
    if dataset.chunks:
        return Hdf5InPlace(dataset, Grid.regular(dataset.shape, dataset.chunks), place)
    lengths = (
        filter(None, (low, *axis.lengths(), length - low - axis.length))
        for axis, low, length in zip(chunks.axes, corner, dataset.shape, strict=True)
    )
    return Hdf5InPlace(dataset, Grid(tuple(map(Axis.of, lengths))), place)
