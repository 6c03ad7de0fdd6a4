"""Reading an N5 dataset."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats.n5.dataset import (
    DOCUMENT,
    BlockNames,
    is_dataset,
    understand,
)
from dask_io.formats.n5.place import N5Place, which_dataset
from dask_io.storage.location import locate
from dask_io.stores.chunk_files import ChunkFiles
from dask_io.stores.chunked_source import ChunkedSource
from dask_io.stores.json_documents import read_document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.formats.n5.dataset import N5Dataset
    from dask_io.storage.location import Location
    from dask_io.stores.encoded import AsStored

FORMAT_NAME = "n5"


@dataclass(frozen=True)
class StoredDataset:
    """A dataset at a place, as its attributes describe it.

    Raises
    ------
    ValueError
        If they do not describe a supported array; the message completes "the file ...".
    """

    place: N5Place
    document: bytes

    def __post_init__(self) -> None:
        _ = self.dataset

    @cached_property
    def dataset(self) -> N5Dataset:
        """The parsed attributes."""
        return understand(self.document)

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the dataset can be opened or created again."""
        return {
            "format": FORMAT_NAME,
            "shape": list(self.dataset.spec.grid.shape),
            "folder": str(self.place.root.absolute()),
            "inside": self.place.inside,
            "attributes": self.document.decode(),
        }


def read_description(described: Mapping[str, Any], at: Location | None) -> StoredDataset:
    """Return place and attributes of a described dataset, at its current location.

    Raises
    ------
    ValueError
        If the description is invalid; the message completes "its description ...".
    """
    keys = ("folder", "inside", "attributes")
    folder, inside, document = (described.get(key) for key in keys)
    if not (isinstance(folder, str) and isinstance(inside, str) and isinstance(document, str)):
        raise ValueError("is not that of an N5 dataset")  # noqa: TRY004 - wrong data
    return StoredDataset(N5Place.again(at or locate(folder), inside), document.encode())


def open_n5(path: Location, inside: str, *, strict: bool) -> ChunkedSource[N5Chunks]:
    """Open a dataset in a directory, or in a group of one.

    Raises
    ------
    DataError
        If its attributes are missing, damaged or not supported, or if a run is consuming it.
    UsageError
        If it is a group.
    """
    place = N5Place(path, inside)
    if not place.root.is_dir() and not (place.root / DOCUMENT).is_file():
        raise StorageError(str(place.root), "no such directory", "check the path")
    if place.leads_out():
        raise DataError(str(place.root), [f"leads out of {path}"])
    document, found = read_document(place.root, DOCUMENT)
    if not is_dataset(found):
        raise UsageError(which_dataset(place))
    place.folder.refuse_consumed()
    try:
        return ChunkedSource(N5Chunks(StoredDataset(place, document)), strict=strict)
    except ValueError as error:
        raise DataError(str(place.root / DOCUMENT), [str(error)]) from error


def reopen_n5(
    described: Mapping[str, Any], at: Location | None, absent: AbstractSet[tuple[int, ...]]
) -> ChunkedSource[N5Chunks]:
    """Open a described dataset again; blocks may have been consumed.

    Raises
    ------
    ValueError
        If the description is invalid.
    DataError
        If the dataset no longer exists, or is another one.
    """
    stored = read_description(described, at)
    chunks = N5Chunks(stored)
    if stored.place.leads_out():
        raise DataError(chunks.place, [f"leads out of {stored.place.path}"])
    document, found = read_document(stored.place.root, DOCUMENT)
    is_consumed = found is None and len(absent) == chunks.spec.grid.n_blocks
    if not is_consumed and not _is_same(document, stored.dataset):
        problem = "is not the same array as before" if found else "is not an N5 dataset any more"
        raise DataError(chunks.place, [problem])
    return ChunkedSource(chunks, strict=described.get("strict") is True)


def read_back_n5(described: Mapping[str, Any], at: Location) -> ChunkedSource[N5Chunks] | AsStored:
    """Open a former target, to verify its checksums."""
    return reopen_n5(described, at, frozenset()).as_written()


def _is_same(document: bytes, dataset: N5Dataset) -> bool:
    try:
        return understand(document).stored_as == dataset.stored_as
    except ValueError:
        return False


class N5Chunks(ChunkFiles):
    """The blocks of a dataset, each in a file or object of its own."""

    format = FORMAT_NAME

    def __init__(self, stored: StoredDataset) -> None:
        self.stored, self.dataset = stored, stored.dataset
        super().__init__(stored.place.folder, self.dataset.spec, BlockNames())

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the dataset."""
        return MappingProxyType(self.dataset.described())

    def describe(self) -> dict[str, Any]:
        """Return place and attributes."""
        return self.stored.describe()

    def decoder(self, index: tuple[int, ...]) -> Callable[[Any, Any], None]:
        """Return how to decode a block: by its header, which depends on its shape."""
        return partial(self.dataset.decode, self.spec.grid.block(index).shape)
