"""What sources and targets have in common, and how they are described to be found again."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.formats.zarr.metadata import understand
from dask_io.formats.zarr.place import METADATA, Place
from dask_io.storage.location import locate
from dask_io.storage.tally import Tally
from dask_io.stores.store import Access

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from dask_io.formats.zarr.metadata import Metadata
    from dask_io.geometry import Layout
    from dask_io.storage.location import Location


class ZarrStore:
    """An array in its directory, as its documents describe it.

    Raises
    ------
    ValueError
        If they describe none that is supported; the message completes "the file ...".
    """

    def __init__(self, site: Place, documents: Mapping[str, bytes]) -> None:
        self.site, self.documents = site, documents
        self.array: Metadata = understand(documents)
        self.tally = Tally()

    @property
    def root(self) -> Location:
        """The array's directory."""
        return self.site.root

    @property
    def place(self) -> str:
        """The array's directory."""
        return str(self.root)

    @property
    def format(self) -> str:
        """Name of the format."""
        return "zarr"

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements, as stored."""
        return self.array.dtype

    @property
    def layout(self) -> Layout:
        """How elements lie in each chunk."""
        return self.array.layout

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Version, chunks, shards, codecs, fill value, names of dimensions, attributes."""
        return MappingProxyType(self.array.described())

    @property
    def encoding(self) -> object | None:
        """What the bytes of a file mean; None if parts of it are addressed."""
        array = self.array
        if array.index is None and array.access is Access.ADDRESSABLE:
            return None
        cut = (array.shape, array.chunks, array.index)
        return (*cut, array.dtype, array.layout, array.codecs, array.fill_bytes)

    def describe(self) -> dict[str, Any]:
        """Return what it takes to open or make the array again."""
        return {
            "format": self.format,
            "shape": list(self.array.shape),
            "folder": str(self.root.absolute()),
            "inside": self.site.inside,
            "documents": {name: text.decode() for name, text in self.documents.items()},
        }


def read_description(
    described: Mapping[str, Any], at: Location | None
) -> tuple[Place, dict[str, bytes]]:
    """Return place and documents of an array that was described, where it is now.

    Raises
    ------
    ValueError
        If that is no description; the message completes "its description ...".
    """
    folder, inside = described.get("folder"), described.get("inside")
    documents = described.get("documents")
    if not (isinstance(folder, str) and isinstance(inside, str) and isinstance(documents, dict)):
        raise ValueError("is not that of a Zarr array")  # noqa: TRY004 - wrong data
    for name, text in documents.items():
        if name not in METADATA or not isinstance(text, str):
            raise ValueError("is not that of a Zarr array")
    encoded = {name: text.encode() for name, text in documents.items()}
    return Place.again(at or locate(folder), inside), encoded
