"""Encodings of chunks: raw elements, and images, which are only read.

A PNG or JPEG image has all voxels of a chunk, x fastest, and interleaves the channels.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dask_io.codecs.chain import longest_encoded
from dask_io.codecs.cores import CORES
from dask_io.codecs.streams import expect
from dask_io.errors import UsageError
from dask_io.stores.container import needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

RAW, PNG, JPEG = "raw", "png", "jpeg"
_PNG_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
_PNG_SIZES = struct.Struct(">II")
_JPEG_START, _MARKER = b"\xff\xd8", 0xFF
# Markers that begin a frame: those from C0 to CF, except tables.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_SIZES = struct.Struct(">HBHH")
_GZIP_HEADER, _WORKSPACE = 31, 2**20


def _check_any(dtype: np.dtype[Any], n_channels: int) -> None:
    pass


def _check_png(dtype: np.dtype[Any], n_channels: int) -> None:
    if dtype.str[1:] not in ("u1", "u2") or n_channels > 4:  # noqa: PLR2004 - as PNG has
        raise ValueError("has encoding png for other elements than 1 to 4 channels of uint8/uint16")


def _check_jpeg(dtype: np.dtype[Any], n_channels: int) -> None:
    if dtype.str[1:] != "u1" or n_channels not in (1, 3):
        raise ValueError("has encoding jpeg for other elements than 1 or 3 channels of uint8")


ENCODINGS: dict[Any, Callable[[np.dtype[Any], int], None]] = {
    RAW: _check_any,
    PNG: _check_png,
    JPEG: _check_jpeg,
}


@dataclass(frozen=True)
class ImageChunks:
    """Decodes chunks of one size that are images."""

    encoding: str
    dtype: np.dtype[Any]
    n_channels: int
    n_bytes: int
    is_gzipped: bool = False

    @property
    def longest(self) -> int:
        """The largest size of an image: a small one is mostly headers."""
        return longest_encoded(self.n_bytes) + 2**16

    @property
    def decoding_bytes(self) -> int:
        """The image, the decoded image, and a copy without interleaving."""
        return self.longest + 2 * self.n_bytes + _WORKSPACE

    @property
    def encoding_bytes(self) -> int:
        """Images are only read."""
        return 0

    def encode(self, data: NDArray[np.uint8]) -> NoReturn:  # noqa: ARG002 - never
        """Refuse to encode."""
        raise UsageError(f"precomputed chunks are not written as {self.encoding}, only raw")

    def decode(self, data: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Decode an image so that it fills `out` exactly.

        Raises
        ------
        ValueError
            If it does not; the message completes "the file ...".
        """
        with needs("precomputed", "imagecodecs"):
            import imagecodecs  # noqa: PLC0415 - only for images
        try:
            with CORES:
                if self.is_gzipped:
                    data = self._unzip(data)
                n_pixels = out.nbytes // (self.dtype.itemsize * self.n_channels)
                expect_pixels(self.encoding, bytes(data[: 2**16]), n_pixels)
                decode = getattr(imagecodecs, f"{self.encoding}_decode")
                image = np.asarray(decode(data.tobytes()))
        except (ValueError, MemoryError) as error:
            raise ValueError(f"cannot be decoded: {error}") from error
        except Exception as error:  # imagecodecs has its own errors for every library
            raise ValueError(f"cannot be decoded: {type(error).__name__}: {error}") from error
        expect(out.nbytes, image.nbytes)
        pixels = image.astype(self.dtype).reshape(-1, self.n_channels)
        out[:] = np.ascontiguousarray(pixels.T).reshape(-1).view(np.uint8)

    def _unzip(self, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        unzipped = zlib.decompressobj(_GZIP_HEADER).decompress(data.tobytes(), self.longest)
        return np.frombuffer(unzipped, np.uint8)


def expect_pixels(encoding: str, head: bytes, n_pixels: int) -> None:
    """Check the number of pixels in the header of an image, before the image is decoded.

    Raises
    ------
    ValueError
        If it is another one, or there is no header.
    """
    sizes = _png_sizes(head) if encoding == PNG else _jpeg_sizes(head)
    if sizes is None:
        raise ValueError(f"does not begin with the header of a {encoding.upper()} image")
    if sizes[0] * sizes[1] != n_pixels:
        raise ValueError(f"has {sizes[0]} x {sizes[1]} pixels, but {n_pixels} are expected")


def _png_sizes(head: bytes) -> tuple[int, ...] | None:
    if not head.startswith(_PNG_START) or len(head) < len(_PNG_START) + _PNG_SIZES.size:
        return None
    return _PNG_SIZES.unpack_from(head, len(_PNG_START))


def _jpeg_sizes(head: bytes) -> tuple[int, int] | None:
    if not head.startswith(_JPEG_START):
        return None
    at = len(_JPEG_START)
    while at + 2 + _JPEG_SIZES.size <= len(head) and head[at] == _MARKER:
        marker, (n_bytes, _, height, width) = head[at + 1], _JPEG_SIZES.unpack_from(head, at + 2)
        if marker in _FRAMES:
            return width, height
        at += 2 + n_bytes
    return None
