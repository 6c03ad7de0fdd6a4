"""A file in the making, and the datasets in it: what is written where, and by whom.

HDF5 makes the file, with all that belongs to its datasets. Where every block will lie is then
known of those that have no filters and stay as large as they are: such blocks are written there
without HDF5, in parts if need be. The chunks of all others are encoded without HDF5 and handed to
it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64_intdigest

from dask_io.formats.hdf5.create import touch
from dask_io.formats.hdf5.dataset import understand
from dask_io.formats.hdf5.file import open_own, unheard, writing
from dask_io.formats.hdf5.places import find_places
from dask_io.formats.hdf5.store import Hdf5Store
from dask_io.journal.ledger import NOTHING
from dask_io.storage.local import regular_files as regular
from dask_io.storage.local import system
from dask_io.storage.local.publishing import allocate
from dask_io.storage.local.transport import FileWriter
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Traffic
from dask_io.stores.addressable import AddressableWriter
from dask_io.stores.atomic import ChunkWriter, Padding
from dask_io.stores.filled import holds_only
from dask_io.stores.padded import PaddedWriter, is_padded, scratch_bytes
from dask_io.stores.staging import room_for
from dask_io.stores.store import Access, Extent, Footprint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.formats.hdf5.dataset import Dataset
    from dask_io.formats.hdf5.places import Places
    from dask_io.stores.store import BlockWriter

# Blocks from this size on begin at a multiple of `ALIGNMENT`, to be written past the page cache.
_LARGE = 128 * 2**10


class FileInMaking:
    """A file that HDF5 makes aside; any number of threads may write to it.

    Parameters
    ----------
    path
        Where it is made.
    begin
        What makes it, with all its datasets, but without their values.
    by_offset
        The datasets that are written without HDF5.
    reserve
        Whether the space of these is reserved, so that a full disk shows early.
    """

    def __init__(
        self, path: Path, begin: Callable[[], None], by_offset: Sequence[str], *, reserve: bool
    ) -> None:
        self.path = path
        self._begin, self._by_offset, self._reserve = begin, by_offset, reserve
        self._file: Any = None
        # The dataset that was written to last, by its path.
        self._inside: str = ""
        self._dataset: Any = None
        self._places: Mapping[str, Places] | None = None
        self._lock = Lock()

    def places_of(self, inside: str) -> Places:
        """Return where the blocks of a dataset lie that is written without HDF5."""
        with self._lock:
            return self._lay_out()[inside]

    def _lay_out(self) -> Mapping[str, Places]:
        """Make the file and have HDF5 give blocks their places, once."""
        if self._places is None:
            self._begin()
            with writing(self.path):
                places = _lay_out(self.path, self._by_offset)
            if self._reserve and self._by_offset:
                _reserve(self.path)
            self._places = places
        return self._places

    def go_on(self, places: Mapping[str, Places]) -> None:
        """Go on with the file that another run has made."""
        self._places = places

    def put(self, inside: str, corner: tuple[int, ...], encoded: NDArray[Any], mask: int) -> None:
        """Hand a chunk to HDF5, which takes one at a time."""
        with self._lock:
            self._lay_out()
            with writing(self.path):
                if self._file is None:
                    self._file = open_own(self.path, "r+", locking="best-effort")
                if self._dataset is None or inside != self._inside:
                    self._open(inside)
                self._dataset.id.write_direct_chunk(corner, encoded, mask)

    def _open(self, inside: str) -> None:
        """Turn to a dataset: what cannot be written of the last is told now, and not ignored."""
        if self._dataset is not None:
            self._dataset.flush()
        self._inside, self._dataset = inside, self._file[inside]

    def complete(self) -> None:
        """Have HDF5 write all that it holds; there may be no blocks at all."""
        with self._lock:
            self._lay_out()
            if self._file is not None:
                with writing(self.path):
                    self._file.flush()
                    self._file.close()
                self._file = self._dataset = None

    def abandon(self) -> None:
        """Have HDF5 let go of the file; what it has not written yet is lost."""
        if self._file is not None:
            with unheard():
                with suppress(OSError, RuntimeError, ValueError):
                    self._file.close()
                self._file = self._dataset = None


def _lay_out(path: Path, insides: Sequence[str]) -> dict[str, Places]:
    """Have a file give all blocks of some datasets their places, and return them."""
    if not insides:
        return {}
    found = {}
    with open_own(
        path,
        "r+",
        locking="best-effort",
        alignment_threshold=_LARGE,
        alignment_interval=ALIGNMENT,
    ) as file:
        arrays = {inside: understand(file[inside]) for inside in insides}
        for inside, array in arrays.items():
            if array.grid.n_blocks:
                touch(file[inside])
        file.flush()
        size = file.id.get_filesize()
        for inside, array in arrays.items():
            found[inside] = find_places(file[inside], array, size)
    return found


def _reserve(path: Path) -> None:
    """Reserve the space of all blocks."""
    with storage_errors(path):
        fd = regular.open_own(path, os.O_WRONLY)
        try:
            allocate(fd, os.fstat(fd).st_size, reserve=True)
        finally:
            system.calls.close(fd)


def is_by_offset(array: Dataset) -> bool:
    """Tell whether the blocks of a dataset are written without HDF5."""
    return not array.filters and not array.is_resizable


class WrittenDataset(Hdf5Store):
    """A dataset that is written; any number of blocks at once.

    A chunk that is handed to HDF5 and holds only the fill value is left out, unless `write_empty`.
    """

    making: FileInMaking

    def __init__(self, path: Path, inside: str, array: Dataset, *, write_empty: bool) -> None:
        super().__init__(path, inside, array)
        self._write_empty = write_empty

    @property
    def access(self) -> Access:
        """Chunks with filters are written whole, and those of a dataset that may grow."""
        return Access.ADDRESSABLE if is_by_offset(self.array) else Access.ATOMIC

    @property
    def footprint(self) -> Footprint:
        """What it takes: one file, in which blocks that are written by offset have their places."""
        return Footprint(1, leaves_out=self.access is Access.ATOMIC and not self._write_empty)

    @property
    def reused_bytes(self) -> int:
        """What a visit uses of staging: for what is put together, and padded."""
        array = self.array
        if self.access is Access.ADDRESSABLE:
            scratch = scratch_bytes(array.block_bytes, array.dtype.itemsize)
            return scratch if array.has_padding else 0
        return room_for(self.padding.n_bytes)

    @cached_property
    def padding(self) -> Padding:
        """How chunks are stored."""
        array = self.array
        return Padding(array.stored, array.dtype, array.layout, array.fill_bytes)

    @property
    def codec_bytes(self) -> int:
        """What a visit holds at most besides what it is given."""
        array = self.array
        if self.access is Access.ADDRESSABLE:
            return 0
        return array.codec.encoding_bytes

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[BlockWriter]:
        """Visit a block in the making."""
        array, shape = self.array, self.grid.block(index).shape
        if self.access is Access.ATOMIC:
            yield _ChunkWriter(self, index, shape, self.padding)
            return
        stored = self.making.places_of(self.inside).find(self.grid.flat(index))
        assert stored is not None, "HDF5 has given every block its place"
        extent = Extent(self.inside, stored.offset, array.stored)
        with FileWriter(self.making.path, self.tally) as file:
            if is_padded(shape, array.stored, array.layout):
                yield PaddedWriter(shape, extent, array.dtype, array.layout, file, array.fill)
            else:
                yield AddressableWriter(file, extent, array.dtype, array.layout)

    def encode(self, raw: NDArray[np.uint8]) -> tuple[int, NDArray[np.uint8]] | None:
        """Encode the bytes of a chunk; None if it is to be left out."""
        array = self.array
        if not self._write_empty and holds_only(raw, array.fill):
            return None
        return array.codec.encode(raw)

    def store(self, index: tuple[int, ...], encoded: NDArray[np.uint8], mask: int) -> None:
        """Hand a chunk to HDF5."""
        if self.tally.pace is not None:
            self.tally.pace.wait_for(encoded.nbytes)
        self.making.put(self.inside, self.grid.block(index).start, encoded, mask)
        self.tally.add(self.tally.write, Traffic(1, 1, encoded.nbytes))


@dataclass(slots=True)
class _ChunkWriter(ChunkWriter):
    """One visit to a chunk that is encoded as a whole."""

    target: WrittenDataset
    index: tuple[int, ...]
    shape: tuple[int, ...]
    padding: Padding
    checksum: int = NOTHING

    def write_raw(self, raw: NDArray[np.uint8], staging: memoryview) -> None:  # noqa: ARG002 - HDF5 has its own
        """Encode it, and hand it to HDF5."""
        found = self.target.encode(raw)
        if found is not None:
            mask, encoded = found
            self.checksum = xxh3_64_intdigest(encoded.data)
            self.target.store(self.index, encoded, mask)
