"""Writing into an HDF5 dataset that is open, as Dask's `store` does."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dask_io.formats.hdf5.file import writing
from dask_io.geometry import Layout
from dask_io.journal.ledger import NOTHING
from dask_io.storage.medium import Durability
from dask_io.storage.tally import Tally, Traffic
from dask_io.stores.atomic import WholeWriter
from dask_io.stores.staging import room_for
from dask_io.stores.store import Access, TargetDefaults, Unjournalled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Region
    from dask_io.stores.store import BlockWriter


@dataclass(frozen=True)
class Hdf5InPlace(Unjournalled, TargetDefaults):
    """An open dataset that is filled, block by block, through HDF5 itself.

    Only the process that opened it can write it. HDF5 writes one block at a time. There is no
    journal, and blocks are written directly to their places, so they are only as safe as HDF5
    makes them. The place is the path of the file, which is known even after it was closed.
    """

    converts_as_numpy = False

    dataset: Any
    grid: Grid
    place: str

    @property
    def format(self) -> str:
        """Name of the format."""
        return "hdf5"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        found: np.dtype[Any] = self.dataset.dtype
        return found

    @property
    def layout(self) -> Layout:
        """HDF5 supports only C order."""
        return Layout.c(len(self.grid.axes))

    @property
    def access(self) -> Access:
        """A block is written whole."""
        return Access.ATOMIC

    @property
    def reused_bytes(self) -> int:
        """Staging bytes of a visit, in which the block is assembled."""
        return room_for(prod(self.grid.longest) * self.dtype.itemsize)

    @property
    def codec_bytes(self) -> int:
        """Bytes that HDF5 holds to encode a chunk."""
        n_chunk = prod(self.dataset.chunks) if self.dataset.chunks else 0
        return 2 * n_chunk * self.dtype.itemsize

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The dataset has its metadata already."""
        return {}

    @cached_property
    def tally(self) -> Tally:
        """Counts of visits and bytes, before HDF5 encodes them."""
        return Tally()

    @property
    def durability(self) -> Durability:
        """HDF5 guarantees nothing."""
        return Durability.NONE

    def describe(self) -> dict[str, Any]:
        """Return the path of the dataset in its file, and its shape."""
        shape = list(self.grid.shape)
        return {"format": self.format, "shape": shape, "inside": self.dataset.name}

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[BlockWriter]:
        """Visit a block."""
        yield _BlockWriter(self, self.grid.block(index))

    def put(self, block: Region, values: NDArray[Any]) -> None:
        """Write a block."""
        with writing(Path(self.place)):
            self.dataset[block.slices] = values
        self.tally.add(self.tally.write, Traffic(seeks=1, visits=1, n_bytes=values.nbytes))


@dataclass(slots=True)
class _BlockWriter(WholeWriter):
    """One visit to a block, which is written whole."""

    target: Hdf5InPlace
    block: Region
    checksum: int = NOTHING

    def write_from(
        self,
        region: Region,
        array: NDArray[Any],
        staging: memoryview,  # noqa: ARG002 - HDF5 has memory of its own
    ) -> None:
        """Write the block."""
        assert region.shape == self.block.shape, "a part of a block would be rewritten"
        self.target.put(self.block, array.view(self.target.dtype))
