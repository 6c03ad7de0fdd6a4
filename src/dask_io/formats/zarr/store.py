"""An array and its metadata documents, and how it is described in a journal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dask_io.formats.zarr.metadata import understand
from dask_io.formats.zarr.place import METADATA, Place
from dask_io.storage.location import locate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.formats.zarr.metadata import ZarrArray
    from dask_io.storage.location import Location


@dataclass(frozen=True)
class DocumentedArray:
    """An array at a place, as its documents describe it.

    Raises
    ------
    ValueError
        If they do not describe a supported array; the message completes "the file ...".
    """

    site: Place
    documents: Mapping[str, bytes]

    def __post_init__(self) -> None:
        _ = self.array

    @cached_property
    def array(self) -> ZarrArray:
        """The parsed documents."""
        return understand(self.documents)

    def describe(self, format: str) -> dict[str, Any]:  # noqa: A002 - the word that users know
        """Return plain values from which the array can be opened or created again."""
        return {
            "format": format,
            "shape": list(self.array.spec.grid.shape),
            "folder": str(self.site.root.absolute()),
            "inside": self.site.inside,
            "documents": {name: text.decode() for name, text in self.documents.items()},
        }


def read_description(described: Mapping[str, Any], at: Location | None) -> DocumentedArray:
    """Return place and documents of a described array, at its current location.

    Raises
    ------
    ValueError
        If the description is invalid; the message completes "its description ...".
    """
    folder, inside = described.get("folder"), described.get("inside")
    documents = described.get("documents")
    if not (isinstance(folder, str) and isinstance(inside, str) and isinstance(documents, dict)):
        raise ValueError("is not that of a Zarr array")  # noqa: TRY004 - wrong data
    for name, text in documents.items():
        if name not in METADATA or not isinstance(text, str):
            raise ValueError("is not that of a Zarr array")
    encoded = {name: text.encode() for name, text in documents.items()}
    return DocumentedArray(Place.again(at or locate(folder), inside), encoded)
