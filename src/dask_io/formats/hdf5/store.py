"""What sources and targets have in common."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.storage.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np

    from dask_io.formats.hdf5.dataset import Dataset
    from dask_io.geometry import Grid, Layout
    from dask_io.stores.store import Access


class Hdf5Store:
    """A dataset in a file, be it of a format that is HDF5 inside."""

    format: str = "hdf5"

    def __init__(self, path: Path, inside: str, array: Dataset) -> None:
        self.path, self.inside, self.array = path, inside, array
        self.tally = Tally()

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def grid(self) -> Grid:
        """The chunks, or all of it as one block."""
        return self.array.grid

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements, as stored."""
        return self.array.dtype

    @property
    def layout(self) -> Layout:
        """How elements lie in each block."""
        return self.array.layout

    @property
    def access(self) -> Access:
        """A part of a chunk costs its runs, if no filter is in the way."""
        return self.array.access

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Chunks, shape that it may grow to, filters, fill value, names of axes, attributes."""
        return MappingProxyType(self.array.described())

    def describe(self) -> dict[str, Any]:
        """Return what it takes to find the dataset again."""
        return {
            "format": self.format,
            "shape": list(self.array.shape),
            "path": str(self.path.absolute()),
            "inside": self.inside,
        }
