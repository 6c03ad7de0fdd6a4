"""Reading a dataset: HDF5 reports where its bytes are, they are read and decoded without it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dask_io.errors import DataError, UsageError
from dask_io.formats.hdf5.dataset import understand
from dask_io.formats.hdf5.file import find_dataset, in_subprocess, reading
from dask_io.formats.hdf5.places import find_places
from dask_io.storage.local.transport import FileReader
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.chunked_source import ChunkedSource, Chunks, FetchedBytes, Located

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dask_io.formats.hdf5.dataset import Dataset
    from dask_io.formats.hdf5.filters import Codec
    from dask_io.formats.hdf5.places import Places
    from dask_io.storage.tally import Tally


@dataclass(frozen=True)
class Original:
    """The dataset of a source, from which a target copies what only HDF5 can represent."""

    path: Path
    inside: str

    def __str__(self) -> str:
        return f"{self.path}::{self.inside}"


def _unchanged(path: Path, inside: str, described: dict[str, Any]) -> Mapping[str, Any]:  # noqa: ARG001 - for dialects
    return described


def _nothing(file: Any) -> Mapping[str, Any]:  # noqa: ARG001 - for dialects
    return {}


class Dialect(NamedTuple):
    """A format based on HDF5.

    Attributes
    ----------
    format
        Name of the format.
    complete
        Completes the metadata of a dataset, given its file, its path in the file, and the metadata.
    describe_new
        Returns metadata of a new file, which is open in memory, that HDF5 does not describe.
    """

    format: str
    complete: Callable[[Path, str, dict[str, Any]], Mapping[str, Any]] = _unchanged
    describe_new: Callable[[Any], Mapping[str, Any]] = _nothing


HDF5 = Dialect("hdf5")


def open_hdf5(
    path: Path, inside: str, *, strict: bool, dialect: Dialect = HDF5
) -> ChunkedSource[Hdf5Chunks]:
    """Open a dataset; HDF5 closes its file again.

    Raises
    ------
    StorageError
        If the file is absent or cannot be read.
    DataError
        If it is damaged, or its data is not supported.
    UsageError
        If the dataset does not exist, or there are several and none is given.
    """
    inside, array, places = in_subprocess(path, look_into, path, inside)
    chunks = Hdf5Chunks(path, inside, array, places, dialect)
    return ChunkedSource(chunks, strict=strict)


def look_into(path: Path, inside: str) -> tuple[str, Dataset, Places]:
    """Return the path of a dataset in its file, its metadata, and where its bytes are."""
    with reading(path) as file:
        dataset = find_dataset(file, path, inside)
        array = understand(dataset)
        with storage_errors(path):
            found = path.stat()
        places = find_places(dataset, array, found.st_size).as_of(found)
        return dataset.name.strip("/"), array, places


def reopen_hdf5(
    described: Mapping[str, Any], at: Path | None, *, dialect: Dialect = HDF5
) -> ChunkedSource[Hdf5Chunks]:
    """Open a described dataset again.

    Raises
    ------
    ValueError
        If the description is invalid.
    DataError
        If the dataset no longer exists, or is another one.
    """
    path, inside = read_description(described, at)
    try:
        source = open_hdf5(path, inside, strict=described.get("strict") is True, dialect=dialect)
    except UsageError as error:
        raise DataError(str(path), [str(error)]) from error
    if described.get("stored_as") not in {None, source.chunks.array.stored_as}:
        raise DataError(str(path), ["is not the same dataset as before"])
    return source


def describe_dataset(format: str, path: Path, inside: str, array: Dataset) -> dict[str, Any]:  # noqa: A002 - the word that users know
    """Return plain values from which the dataset can be found again, and recognised."""
    described = {"format": format, "shape": list(array.shape), "path": str(path.absolute())}
    return {**described, "inside": inside, "stored_as": array.stored_as}


def read_description(described: Mapping[str, Any], at: Path | None) -> tuple[Path, str]:
    """Return file and path of a described dataset, at its current location.

    Raises
    ------
    ValueError
        If the description is invalid; the message completes "its description ...".
    """
    path, inside = described.get("path"), described.get("inside")
    if not (isinstance(path, str) and isinstance(inside, str)):
        raise ValueError("is not that of an HDF5 dataset")  # noqa: TRY004 - wrong data
    return at or Path(path), inside


class Hdf5Chunks(Chunks):
    """The blocks of a dataset, which are all in one file."""

    def __init__(
        self, path: Path, inside: str, array: Dataset, places: Places, dialect: Dialect = HDF5
    ) -> None:
        self.path, self.inside, self.array, self.places = path, inside, array, places
        self.dialect, self.format, self.spec = dialect, dialect.format, array.spec
        self.is_written_whole = not array.is_by_offset

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the dataset, and where to find what only HDF5 can represent."""
        path, inside = self.path, self.inside
        described = {**self.array.described(), "hdf5": Original(path, inside)}
        return MappingProxyType(dict(self.dialect.complete(path, inside, described)))

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes of the stored blocks."""
        return self.places.n_bytes

    @property
    def n_stored(self) -> int:
        """Number of stored blocks."""
        return self.spec.grid.n_blocks if self._is_compact else len(self.places.numbers)

    @property
    def _is_compact(self) -> bool:
        return self.places.compact is not None

    def describe(self) -> dict[str, Any]:
        """Return file, path and a checksum of the metadata."""
        return describe_dataset(self.format, self.path, self.inside, self.array)

    def locate(self, index: tuple[int, ...]) -> Located | None:
        """Return where a block is.

        Raises
        ------
        DataError
            If the file has changed, so that blocks may have been moved.
        """
        self._refuse_changed()
        if self.places.compact is not None:
            return Located(self.path, len(self.places.compact))
        stored = self.places.find(self.spec.grid.flat(index))
        if stored is None:
            return None
        offset, n_bytes, mask = stored
        if not mask or self.spec.codec is None:
            return Located(self.path, n_bytes, offset)
        # This chunk was stored without some of the filters.
        codec = cast("Codec", self.spec.codec)
        return Located(self.path, n_bytes, offset, "", partial(codec.decode, mask=mask))

    def open(self, located: Located, tally: Tally) -> FileReader | FetchedBytes:  # noqa: ARG002 - one for all
        """Open the file, or the values that came with the metadata."""
        if self.places.compact is None:
            return FileReader(self.path, tally)
        values = memoryview(self.places.compact)
        fetch = lambda start, stop: values[start:stop]  # noqa: E731 - shorter
        return FetchedBytes(self.place, len(values), fetch, tally)

    def _refuse_changed(self) -> None:
        known = self.places.size_and_time
        with storage_errors(self.path):
            found = self.path.stat()
        if known is not None and (found.st_size, found.st_mtime_ns) != known:
            changed = "has been changed since it was opened"
            raise DataError(str(self.path), [changed], "open it again")
