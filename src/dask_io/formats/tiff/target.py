"""Write a TIFF file in tiles or strips, compressed or not."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.codecs.chain import Chain
from dask_io.errors import DataError, StorageError
from dask_io.formats.tiff.reading import read_image
from dask_io.formats.tiff.source import NAME, reopen_tiff
from dask_io.formats.tiff.tiling import NUMBERS
from dask_io.geometry import Grid, Layout
from dask_io.journal.ledger import NOTHING
from dask_io.journal.one_file_target import OneFileTarget
from dask_io.storage.files import size_of
from dask_io.storage.tally import Tally
from dask_io.stores.atomic import ChunkWriter
from dask_io.stores.chunked_target import ChunkedTarget
from dask_io.stores.dtypes import dtype_from_json, dtype_to_json
from dask_io.stores.space import Space
from dask_io.stores.spec import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.formats.tiff.header import Pages
    from dask_io.formats.tiff.source import TiffChunks
    from dask_io.storage.medium import Durability, Writer
    from dask_io.stores.atomic import Padding
    from dask_io.stores.chunked_source import ChunkedSource
    from dask_io.stores.encoded import AsStored
    from dask_io.stores.store import BlockWriter


@dataclass(frozen=True)
class NewImage:
    """An image to be written in tiles or strips.

    Attributes
    ----------
    shape, dtype, space, metadata
        The array, and the metadata that the file keeps.
    tile
        Rows and columns of a tile; columns are 0 for strips.
    n_samples_axes
        1 if the last axis holds the samples of an element, else 0.
    codecs
        The codec of tiles; empty if they are not compressed.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    space: Space | None
    metadata: Mapping[str, Any]
    tile: tuple[int, int]
    n_samples_axes: int
    codecs: tuple[Mapping[str, Any], ...]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of a tile, or of a whole strip."""
        shape, samples = self._page_axes
        rows, columns = self.tile
        page = (rows, columns or shape[-1])[-len(shape) :]
        return (*(1,) * (len(shape) - len(page)), *page, *samples)

    @property
    def _page_axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        at = len(self.shape) - self.n_samples_axes
        return self.shape[:at], self.shape[at:]

    @property
    def compression(self) -> int:
        """Number of the compression in TIFF."""
        return NUMBERS[str(self.codecs[0]["id"])] if self.codecs else 1

    @property
    def spec(self) -> ArraySpec:
        """The array in blocks."""
        stored = self.stored_shape
        chunks = [min(pair) for pair in zip(stored, self.shape, strict=True)]
        n_bytes = prod(stored) * self.dtype.itemsize
        return ArraySpec(
            Grid.regular(self.shape, chunks),
            self.dtype,
            Layout.c(len(self.shape)),
            self.space,
            {**self.metadata, "codecs": [dict(codec) for codec in self.codecs]},
            codec=Chain(list(self.codecs), self.dtype, n_bytes) if self.codecs else None,
            stored_shape=stored if self.tile[1] else tuple(chunks),
            fill_bytes=bytes(self.dtype.itemsize),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values from which `from_json` makes the image again."""
        return {
            "dtype": dtype_to_json(self.dtype),
            "space": None if self.space is None else self.space.to_json(),
            "metadata": dict(self.metadata),
            "tile": list(self.tile),
            "n_samples_axes": self.n_samples_axes,
            "codecs": [dict(codec) for codec in self.codecs],
        }

    @classmethod
    def from_json(cls, shape: Any, value: Any) -> NewImage:
        """Read what `to_json` returned.

        Raises
        ------
        ValueError
            If a value is invalid.
        """
        try:
            space = value["space"]
            rows, columns = map(int, value["tile"])
            return cls(
                tuple(map(int, shape)),
                dtype_from_json(value["dtype"]),
                None if space is None else Space.from_json(space),
                dict(value["metadata"]),
                (rows, columns),
                int(value["n_samples_axes"]),
                tuple(dict(codec) for codec in value["codecs"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("is not that of a TIFF image") from error


class TiffTarget(ChunkedTarget, OneFileTarget):
    """A file in tiles or strips; any number may be written at once.

    Tiles that are not compressed have fixed places, so that an interrupted run can be resumed.
    Compressed tiles are appended in the order in which they are complete, and the header is written
    last. Another run cannot continue such a file.
    """

    format = NAME
    has_files = False

    def __init__(
        self,
        path: Path,
        image: NewImage,
        pages: Pages,
        *,
        inferred_axes: str,
        overwrite: bool,
        durability: Durability,
        reserve: bool,
    ) -> None:
        # Other readers do not expect missing tiles.
        ChunkedTarget.__init__(self, image.spec, write_empty=True)
        self.path, self.image, self.pages, self._reserve = path, image, pages, reserve
        self.inferred_axes = inferred_axes
        OneFileTarget.__init__(
            self, path, is_one_file=True, overwrite=overwrite, durability=durability
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The state of a run does not travel to other processes.
        remake = partial(
            TiffTarget,
            inferred_axes=self.inferred_axes,
            overwrite=self._overwrite,
            durability=self.durability,
            reserve=self._reserve,
        )
        return remake, (self.path, self.image, self.pages)

    def _forget_run(self) -> None:
        super()._forget_run()
        pages = self.pages
        self._offsets, self._counts = pages.plain_places()
        self._end = pages.size
        self._header = b"" if self.is_indivisible else pages.make(self._offsets, self._counts)

    @property
    def is_indivisible(self) -> bool:
        """Another run does not know where compressed tiles are."""
        return self.spec.codec is not None

    @property
    def puts_whole(self) -> bool:
        """Parts of a tile can be written if it is not compressed."""
        return self.is_indivisible

    @property
    def place(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata that the file keeps."""
        return MappingProxyType(dict(self.spec.described))

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the target can be created again."""
        return {
            "format": self.format,
            "shape": list(self.image.shape),
            "path": str(self.path.absolute()),
            "inside": "0",
            "image": self.image.to_json(),
        }

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[BlockWriter]:
        """Visit a tile or a strip; the last strip of a page has no padding."""
        if self.spec.codec is None:
            with super().writer(index) as writer:
                yield writer
            return
        shape, padding = self.grid.block(index).shape, self.spec.padding
        if not self.pages.is_tiled:
            padding = padding._replace(chunks=shape)
        yield _TileWriter(self, index, shape, padding)

    def open_at(self, index: tuple[int, ...]) -> tuple[Writer, int]:
        """Open the file at the place of a tile."""
        size = self.pages.size + self.pages.data_bytes
        file = self._write_file(
            self._name, self.tally, header=self._header, n_bytes=size, reserve=self._reserve
        )
        return file, int(self._offsets.reshape(-1)[self.grid.flat(index)])

    def put(self, index: tuple[int, ...], parts: Iterable[Any]) -> int:
        """Append an encoded tile to the file."""
        (part,) = parts
        encoded = memoryview(part)
        flat = self.grid.flat(index)
        with self._lock:
            offset = self._end
            # TIFF asks for even offsets.
            self._end += encoded.nbytes + encoded.nbytes % 2
            self._offsets.reshape(-1)[flat] = offset
            self._counts.reshape(-1)[flat] = encoded.nbytes
        with self._write_file(self._name, self.tally) as file:
            file.write(offset, encoded)
        return file.checksum

    def look_back(self) -> ChunkedSource[TiffChunks] | AsStored:
        """Open the written image."""
        return reopen_tiff(self.describe(), self.path).as_written()

    def _close_file(self) -> None:
        if not self.is_indivisible:
            return
        header = self.pages.make(self._offsets, self._counts)
        with self._write_file(self._name, Tally()) as file:
            file.write(0, memoryview(header))

    def _open_again(self) -> bool:
        """Continue a file whose tiles have fixed places, or take over one that was complete."""
        path, pages = Path(self._publisher.partial(self._name)), self.pages
        if not self.is_indivisible:
            if size_of(path) != pages.size + pages.data_bytes:
                return False
            # The earlier run may have ended before it wrote the header.
            self._publisher.go_on(self._name, self._header)
            return True
        try:
            found = read_image(path, "")
        except (DataError, StorageError):
            return False
        if (found.shape, found.dtype, found.offsets.size) != (
            self.image.shape,
            self.dtype,
            self._offsets.size,
        ):
            return False
        self._offsets = found.offsets.reshape(self._offsets.shape)
        self._counts = found.counts.reshape(self._counts.shape)
        self._end = size_of(path)
        return True


@dataclass(slots=True)
class _TileWriter(ChunkWriter):
    """One visit to a tile or a strip that is compressed as a whole."""

    target: TiffTarget
    index: tuple[int, ...]
    shape: tuple[int, ...]
    padding: Padding
    checksum: int = NOTHING

    def write_raw(self, raw: NDArray[np.uint8], staging: memoryview) -> None:
        """Compress and append it."""
        self.checksum = self.target.put_encoded(self.index, (self.target.encode(raw),), staging)
