"""An unfinished file, and the datasets that are written to it.

HDF5 creates the file with all its datasets. If a dataset has no filters and a fixed shape, the
places of its blocks are then known, and they are written without HDF5, in parts if necessary.
Other chunks are encoded without HDF5 and passed to it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64_intdigest

from dask_io.formats.hdf5.create import touch
from dask_io.formats.hdf5.dataset import understand
from dask_io.formats.hdf5.file import open_own, silenced, writing
from dask_io.formats.hdf5.places import find_places
from dask_io.formats.hdf5.source import describe_dataset
from dask_io.storage.local import regular_files as regular
from dask_io.storage.local import system
from dask_io.storage.local.publishing import allocate
from dask_io.storage.local.transport import FileWriter
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Traffic
from dask_io.stores.chunked_target import ChunkedTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from dask_io.formats.hdf5.dataset import Dataset
    from dask_io.formats.hdf5.places import Places

# Blocks from this size on begin at a multiple of `ALIGNMENT`, to be written past the page cache.
_LARGE = 128 * 2**10


class FileInMaking:
    """A file that HDF5 writes under a temporary name; any number of threads may write to it.

    Parameters
    ----------
    path
        Its temporary path.
    begin
        Creates it with all its datasets, but without their values.
    by_offset
        The datasets that are written without HDF5.
    reserve
        Whether their space is reserved, so that a full disk is noticed early.
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
        """Return the places of the blocks of a dataset that is written without HDF5."""
        with self._lock:
            return self._lay_out()[inside]

    def _lay_out(self) -> Mapping[str, Places]:
        """Create the file and let HDF5 allocate the blocks, once."""
        if self._places is None:
            self._begin()
            with writing(self.path):
                places = _lay_out(self.path, self._by_offset)
            if self._reserve and self._by_offset:
                _reserve(self.path)
            self._places = places
        return self._places

    def go_on(self, places: Mapping[str, Places]) -> None:
        """Continue the file of another run."""
        self._places = places

    def put(self, inside: str, corner: tuple[int, ...], encoded: NDArray[Any], mask: int) -> None:
        """Pass a chunk to HDF5, which takes one at a time."""
        with self._lock:
            self._lay_out()
            with writing(self.path):
                if self._file is None:
                    self._file = open_own(self.path, "r+", locking="best-effort")
                if self._dataset is None or inside != self._inside:
                    self._open(inside)
                self._dataset.id.write_direct_chunk(corner, encoded, mask)

    def _open(self, inside: str) -> None:
        """Open a dataset; flush the last one first, so that its write errors are not ignored."""
        if self._dataset is not None:
            self._dataset.flush()
        self._inside, self._dataset = inside, self._file[inside]

    def complete(self) -> None:
        """Flush and close the file; there may be no blocks at all."""
        with self._lock:
            self._lay_out()
            if self._file is not None:
                with writing(self.path):
                    self._file.flush()
                    self._file.close()
                self._file = self._dataset = None

    def abandon(self) -> None:
        """Close the file; data that HDF5 has not written yet is lost."""
        if self._file is not None:
            with silenced():
                with suppress(OSError, RuntimeError, ValueError):
                    self._file.close()
                self._file = self._dataset = None


def _lay_out(path: Path, insides: Sequence[str]) -> dict[str, Places]:
    """Allocate the blocks of some datasets in a file, and return their places."""
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
            if array.spec.grid.n_blocks:
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


class Hdf5Writing(ChunkedTarget):
    """A dataset that is written; any number of blocks at once.

    HDF5 takes one encoded chunk at a time. Blocks with fixed places are written without it.
    """

    making: FileInMaking
    has_files = False

    def __init__(
        self,
        path: Path,
        inside: str,
        array: Dataset,
        *,
        format: str,  # noqa: A002 - the word that users know
        write_empty: bool,
    ) -> None:
        super().__init__(array.spec, write_empty=write_empty)
        self.path, self.inside, self.array, self.format = path, inside, array, format

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the dataset."""
        return MappingProxyType(self.array.described())

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the dataset can be found again."""
        return describe_dataset(self.format, self.path, self.inside, self.array)

    @property
    def puts_whole(self) -> bool:
        """HDF5 finds the places of chunks with filters, and of datasets that may be enlarged."""
        return not self.array.is_by_offset

    def open_at(self, index: tuple[int, ...]) -> tuple[FileWriter, int]:
        """Open the file at the place of a block."""
        stored = self.making.places_of(self.inside).find(self.grid.flat(index))
        assert stored is not None, "HDF5 has given every block a place"
        return FileWriter(self.making.path, self.tally), stored.offset

    def put(self, index: tuple[int, ...], parts: Iterable[Any]) -> int:
        """Pass an encoded chunk to HDF5."""
        (part,) = parts
        mask, encoded = (0, part) if self.spec.codec is None else part
        if self.tally.pace is not None:
            self.tally.pace.wait_for(encoded.nbytes)
        checksum = xxh3_64_intdigest(encoded.data)
        self.making.put(self.inside, self.grid.block(index).start, encoded, mask)
        self.tally.add(self.tally.write, Traffic(1, 1, encoded.nbytes))
        return checksum
