"""Reading a dataset: HDF5 says where its bytes are, they are read and decoded without it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64_intdigest

from dask_io.errors import DataError, UsageError
from dask_io.formats.hdf5.dataset import understand
from dask_io.formats.hdf5.file import find_dataset, in_subprocess, reading
from dask_io.formats.hdf5.places import find_places
from dask_io.formats.hdf5.store import Hdf5Store
from dask_io.storage.local.transport import FileReader
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Traffic
from dask_io.stores.addressable import checksum_of, view_as_array
from dask_io.stores.atomic import Encoding
from dask_io.stores.chunked import Located, bytes_reused, read_chunk
from dask_io.stores.encoded import AsStored, StoredBytes
from dask_io.stores.filled import FilledReader
from dask_io.stores.padded import plain
from dask_io.stores.store import Access, Extent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from dask_io.formats.hdf5.dataset import Dataset
    from dask_io.formats.hdf5.places import Places
    from dask_io.geometry import Region
    from dask_io.stores.store import BlockReader


@dataclass(frozen=True)
class Original:
    """A dataset to copy from what no other format knows of."""

    path: Path
    inside: str

    def __str__(self) -> str:
        return f"{self.path}::{self.inside}"


def open_hdf5(
    path: Path, inside: str, *, strict: bool, kind: type[Hdf5Source] | None = None
) -> Hdf5Source:
    """Open a dataset as a kind of source; HDF5 closes its file again.

    Raises
    ------
    StorageError
        If the file is absent or cannot be read.
    DataError
        If it is broken, or holds what is not supported.
    UsageError
        If it does not hold the dataset, or several and none is named.
    """
    inside, array, places = in_subprocess(path, look_into, path, inside)
    return (kind or Hdf5Source)(path, inside, array, places, strict=strict)


def look_into(path: Path, inside: str) -> tuple[str, Dataset, Places]:
    """Return the path of a dataset in its file, what it says, and where its bytes are."""
    with reading(path) as file:
        dataset = find_dataset(file, path, inside)
        array = understand(dataset)
        with storage_errors(path):
            found = path.stat()
        places = find_places(dataset, array, found.st_size).as_of(found)
        # What has been worked out from it, such as its codec, does not travel.
        return dataset.name.strip("/"), replace(array), places


def reopen_hdf5(
    described: Mapping[str, Any], at: Path | None, *, kind: type[Hdf5Source] | None = None
) -> Hdf5Source:
    """Open a dataset again that was described.

    Raises
    ------
    ValueError
        If that is no description.
    DataError
        If the dataset is not there any more, or another one is.
    """
    path, inside = read_description(described, at)
    try:
        source = open_hdf5(path, inside, strict=described.get("strict") is True, kind=kind)
    except UsageError as error:
        raise DataError(str(path), [str(error)]) from error
    if described.get("stored_as") not in {None, source.array.stored_as}:
        raise DataError(str(path), ["is not the dataset that it was"])
    return source


def reopen_written(described: Mapping[str, Any], at: Path) -> Hdf5Source | AsStored:
    """Open a dataset that was a target, to compare what is in its file with what was written."""
    source = reopen_hdf5(described, at, kind=Hdf5Source)
    is_in_place = not source.array.filters and not source.array.is_resizable
    if is_in_place:
        return source
    return AsStored(source.grid, source.dtype, source.tally, source.find_stored)


def read_description(described: Mapping[str, Any], at: Path | None) -> tuple[Path, str]:
    """Return file and path of a dataset that was described, where it is now.

    Raises
    ------
    ValueError
        If that is no description; the message completes "its description ...".
    """
    path, inside = described.get("path"), described.get("inside")
    if not (isinstance(path, str) and isinstance(inside, str)):
        raise ValueError("is not that of an HDF5 dataset")  # noqa: TRY004 - wrong data
    return at or Path(path), inside


class Hdf5Source(Hdf5Store):
    """A dataset that is read; any number of chunks may be read at once.

    A chunk that is not stored is filled with the fill value, which costs no visit; if the source
    is `strict` it is an error.
    """

    is_indivisible = True

    def __init__(
        self, path: Path, inside: str, array: Dataset, places: Places, *, strict: bool
    ) -> None:
        super().__init__(path, inside, array)
        self.places = places
        self._strict = strict

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the dataset says, and where it is, for what only HDF5 can hold."""
        original = {"hdf5": Original(self.path, self.inside)}
        return MappingProxyType({**self.array.described(), **original})

    def describe(self) -> dict[str, Any]:
        """Return what it takes to open the dataset again."""
        more = {"stored_as": self.array.stored_as, "strict": self._strict}
        return {**super().describe(), **more}

    @property
    def reused_bytes(self) -> int:
        """What a visit uses of staging besides the region asked for."""
        array, how = self.array, self._encoding(0)
        return bytes_reused(how, array.access, array.codec.longest, has_padding=array.has_padding)

    @property
    def codec_bytes(self) -> int:
        """What a visit holds besides at most."""
        array = self.array
        if array.access is Access.ADDRESSABLE:
            return 0
        return array.codec.decoding_bytes

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes of the blocks that are stored."""
        return self.places.n_bytes

    @property
    def n_absent(self) -> int:
        """Blocks that are not stored."""
        return (
            0 if self.places.compact is not None else self.grid.n_blocks - len(self.places.numbers)
        )

    @contextmanager
    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> Iterator[BlockReader]:
        """Visit a chunk.

        Raises
        ------
        DataError
            If it is missing and may not be, or has been written since it was looked for.
        """
        self._refuse_changed()
        array, shape = self.array, self.grid.block(index).shape
        if self.places.compact is not None:
            yield _CompactReader(self, self.places.compact)
            return
        stored = self.places.find(self.grid.flat(index))
        if stored is None:
            self._refuse_missing(index)
            yield FilledReader(array.fill, array.layout)
            return
        extent = Extent(self.inside, stored.offset, array.stored)
        located, how = Located(self.path, extent, stored.n_bytes), self._encoding(stored.mask)
        with FileReader(self.path, self.tally) as file:
            yield read_chunk(file, located, shape, encoding=how, access=array.access, after=after)

    @contextmanager
    def find_stored(self, index: tuple[int, ...]) -> Iterator[StoredBytes | None]:
        """Visit a chunk as it is stored; None if it is not."""
        stored = self.places.find(self.grid.flat(index))
        if stored is None:
            yield None
            return
        with FileReader(self.path, self.tally) as file:
            yield StoredBytes(file, stored.n_bytes, stored.offset)

    def _encoding(self, mask: int) -> Encoding:
        """Return how a chunk is stored that goes without some filters."""
        array = self.array
        decode = partial(array.codec.decode, mask=mask)
        return Encoding(array.stored, array.dtype, array.layout, decode)

    def _refuse_changed(self) -> None:
        """Refuse a file in which chunks may lie elsewhere by now."""
        known = self.places.size_and_time
        with storage_errors(self.path):
            found = self.path.stat()
        if known is not None and (found.st_size, found.st_mtime_ns) != known:
            changed = "has been changed since it was opened"
            raise DataError(str(self.path), [changed], "open it again")

    def _refuse_missing(self, index: tuple[int, ...]) -> None:
        if self._strict:
            missing = f"chunk {','.join(map(str, index))} is missing"
            raise DataError(self.place, [missing], "leave out --strict to fill it in")

    def check(self) -> None:
        """Look for chunks that are missing, if they may not be; all others have been found.

        Raises
        ------
        DataError
            If there are some.
        """
        n_missing = self.grid.n_blocks - len(self.places.numbers)
        if self._strict and n_missing and self.places.compact is None:
            missing = f"{n_missing} of {self.grid.n_blocks} chunks are missing"
            raise DataError(self.place, [missing])

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when the file does."""
        with storage_errors(self.path):
            found = self.path.stat()
        told = f"{index}\0{self.inside}\0{found.st_size}\0{found.st_mtime_ns}"
        return xxh3_64_intdigest(told.encode())

    def discard(self, index: tuple[int, ...]) -> None:  # noqa: ARG002 - none can be
        """Refuse: the file holds the other chunks too."""
        raise UsageError("chunks of an HDF5 file cannot be consumed one by one")

    def discard_rest(self) -> None:
        """Keep the file."""


@dataclass(frozen=True, slots=True)
class _CompactReader:
    """One visit to a dataset whose values came with the metadata."""

    source: Hdf5Source
    values: bytes

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        dtype, layout = self.source.dtype, self.source.layout
        n_bytes = region.size * dtype.itemsize
        values = view_as_array(buffer[:n_bytes], region.shape, dtype, layout)
        whole = np.frombuffer(self.values, plain(dtype)).reshape(self.source.grid.shape)
        values.view(plain(dtype))[...] = whole[region.slices]
        runs = layout.count_runs(region, self.source.grid.shape)
        self.source.tally.add(self.source.tally.read, Traffic(runs, 1, n_bytes))
        return values

    def expect(self, region: Region) -> None:
        """Nothing is read from the file."""

    def checksum(self, region: Region, staging: memoryview) -> int:
        dtype, layout = self.source.dtype, self.source.layout
        return checksum_of(self.read_into, region, staging, dtype, layout)
