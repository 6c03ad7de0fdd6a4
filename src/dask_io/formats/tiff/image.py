"""The description of one image in a TIFF file: its blocks, how they are encoded, and its space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from dask_io.formats.tiff.decoding import TiffCodec
    from dask_io.stores.space import Space


@dataclass(frozen=True)
class Image:
    """An image: a series of pages, or one resolution level of it.

    Attributes
    ----------
    inside
        Its number in the file, as in ``file.tif::/0`` or, for a level of a pyramid, ``0/2``.
    shape, dtype
        Shape and type of the array, in the byte order of the file.
    chunks, stored_shape
        Shape of a block, and the shape in which it is stored.
    offsets, counts
        Where each block begins and its bytes, in the order of the grid; 0 if it is not stored.
    rows
        The axis of the rows of strips, if a page ends with a shorter strip; else None.
    files, numbers
        The files, and for each block the number of its file; empty if all are in the first.
    codec
        How tiles or strips are decoded; None if their elements are stored as they are.
    """

    inside: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    stored_shape: tuple[int, ...]
    offsets: NDArray[np.uint64]
    counts: NDArray[np.uint64]
    rows: int | None
    files: tuple[Path, ...]
    numbers: NDArray[np.uint32]
    codec: TiffCodec | None
    fill_bytes: bytes
    space: Space
    size_and_time: tuple[int, int]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stored_as(self) -> str:
        """A checksum that differs if the image is stored in another way or at other places."""
        described = self.shape, self.dtype.str, self.chunks, self.stored_shape
        codec = None if self.codec is None else (self.codec.compression, self.codec.predictor)
        found = xxh3_64(repr((described, codec)).encode())
        found.update(np.ascontiguousarray(self.offsets).data)
        found.update(np.ascontiguousarray(self.counts).data)
        return found.hexdigest()
