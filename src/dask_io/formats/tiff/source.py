"""Read an image of a TIFF file: its tiles, strips or pages."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError, UsageError
from dask_io.formats.tiff.reading import read_image
from dask_io.geometry import Grid, Layout
from dask_io.storage.local.transport import FileReader
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.chunked_source import ChunkedSource, Chunks, Located
from dask_io.stores.container import on_disk
from dask_io.stores.spec import IMAGES, ArraySpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.formats.tiff.image import Image
    from dask_io.storage.location import Location
    from dask_io.storage.tally import Tally

NAME = "tiff"


def open_tiff(
    path: Location, inside: str = "", *, strict: bool = False
) -> ChunkedSource[TiffChunks]:
    """Open an image; only its metadata is read yet.

    Raises
    ------
    StorageError
        If the file is absent or cannot be read.
    DataError
        If it is damaged, or holds something that is not supported.
    UsageError
        If there is no such image.
    """
    file = on_disk(path, NAME)
    return ChunkedSource(TiffChunks(file, read_image(file, inside)), strict=strict)


def reopen_tiff(described: Mapping[str, Any], at: Path | None) -> ChunkedSource[TiffChunks]:
    """Open a described image again.

    Raises
    ------
    ValueError
        If the description is invalid; the message completes "its description ...".
    DataError
        If the image no longer exists, or has changed.
    """
    path, inside = described.get("path"), described.get("inside")
    if not (isinstance(path, str) and isinstance(inside, str)):
        raise ValueError("is not that of a TIFF image")  # noqa: TRY004 - wrong data
    file = at or Path(path)
    try:
        source = open_tiff(file, inside, strict=described.get("strict") is True)
    except UsageError as error:
        raise DataError(str(file), [str(error)]) from error
    if described.get("stored_as") not in {None, source.chunks.image.stored_as}:
        raise DataError(str(file), ["is not the same image as before"])
    return source


class TiffChunks(Chunks):
    """The blocks of an image, all in one file or in several files of one directory."""

    format = NAME

    def __init__(self, path: Path, image: Image) -> None:
        self.path, self.image = path, image
        self.spec = ArraySpec(
            Grid.regular(image.shape, image.chunks),
            image.dtype,
            Layout.c(len(image.shape)),
            image.space,
            image.metadata,
            codec=image.codec,
            stored_shape=image.stored_shape,
            fill_bytes=image.fill_bytes,
        )

    @property
    def metadata(self) -> Mapping[str, Any]:
        """All metadata of the image."""
        return MappingProxyType(dict(self.spec.described))

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes of the stored blocks."""
        return int(self.image.counts.sum())

    @property
    def n_stored(self) -> int:
        """Number of stored blocks."""
        return int((self.image.counts > 0).sum())

    def describe(self) -> dict[str, Any]:
        """Return file, number of the image, and a checksum of how it is stored."""
        return {
            "format": self.format,
            "shape": list(self.image.shape),
            "path": str(self.path.absolute()),
            # The first image of several was not chosen by the user, which is reported.
            "inside": "" if IMAGES in self.image.metadata else self.image.inside,
            "stored_as": self.image.stored_as,
        }

    def locate(self, index: tuple[int, ...]) -> Located | None:
        """Return where a block is; None if it is not stored.

        Raises
        ------
        DataError
            If a strip is truncated.
        """
        image, flat = self.image, self.spec.grid.flat(index)
        offset, n_bytes = int(image.offsets[flat]), int(image.counts[flat])
        if not n_bytes:
            return None
        path = self._file_of(flat)
        rows = image.rows
        n_rows = None if rows is None else self.spec.grid.block(index).shape[rows]
        is_short = n_rows is not None and rows is not None and n_rows < image.chunks[rows]
        if image.codec is None and is_short:
            # The last strip of a page has the remaining rows only.
            expected = self.spec.chunk_bytes * int(n_rows or 0) // image.chunks[rows or 0]
            n_bytes = self.spec.chunk_bytes if n_bytes >= expected else n_bytes
        elif image.codec is None:
            n_bytes = min(n_bytes, self.spec.chunk_bytes)
        elif is_short:
            return Located(path, n_bytes, offset, "", partial(image.codec.decode, rows=n_rows))
        return Located(path, n_bytes, offset)

    def _file_of(self, flat: int) -> Path:
        files = self.image.files
        # The file may have been moved since it was described.
        return files[int(self.image.numbers[flat])] if len(files) > 1 else Path(self.path)

    def open(self, located: Located, tally: Tally) -> FileReader:
        """Open the file of a block."""
        return FileReader(Path(str(located.path)), tally)

    def identify(self, index: tuple[int, ...]) -> str:
        """Return a text that changes when the file of a block does."""
        path = self._file_of(self.spec.grid.flat(index))
        with storage_errors(path):
            found = path.stat()
        return f"{found.st_size}\0{found.st_mtime_ns}"
