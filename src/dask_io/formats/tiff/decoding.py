"""Decode the tiles and strips of TIFF images, with bounded output.

A tile is decoded into a buffer of its own size. Content that decodes to more is refused, or cut off
by the decoder, so that a small file cannot become a huge tile.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import imagecodecs
import numpy as np

from dask_io.codecs.cores import CORES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

NAMES = {
    1: "none",
    2: "ccitt-rle",
    3: "ccitt-fax3",
    4: "ccitt-fax4",
    5: "lzw",
    6: "jpeg",
    7: "jpeg",
    8: "zlib",
    22610: "jpegxr",
    32773: "packbits",
    32946: "zlib",
    33003: "jpeg2000",
    33004: "jpeg2000",
    33005: "jpeg2000",
    33007: "jpeg",
    34712: "jpeg2000",
    34887: "lerc",
    34892: "jpeg",
    34925: "lzma",
    34926: "zstd",
    34927: "webp",
    34933: "png",
    34934: "jpegxr",
    50000: "zstd",
    50001: "webp",
    50002: "jpegxl",
    50013: "zlib",
    52546: "jpegxl",
}
"""Names of the compressions that can be decoded, by their numbers in TIFF."""
# Compressions of bytes, which a predictor may precede. The others encode images.
_OF_BYTES: dict[str, Callable[..., Any]] = {
    "lzw": imagecodecs.lzw_decode,
    "zlib": imagecodecs.zlib_decode,
    "packbits": imagecodecs.packbits_decode,
    "lzma": imagecodecs.lzma_decode,
    "zstd": imagecodecs.zstd_decode,
}
_OF_IMAGES: dict[str, Callable[..., Any]] = {
    "jpegxr": imagecodecs.jpegxr_decode,
    "jpeg2000": imagecodecs.jpeg2k_decode,
    "lerc": imagecodecs.lerc_decode,
    "png": imagecodecs.png_decode,
    "jpegxl": imagecodecs.jpegxl_decode,
}
_OF_FAX: dict[str, Callable[..., Any]] = {
    "ccitt-rle": imagecodecs.ccittrle_decode,
    "ccitt-fax3": imagecodecs.ccittfax3_decode,
    "ccitt-fax4": imagecodecs.ccittfax4_decode,
}
PREDICTORS = frozenset({1, 2, 3, 34892, 34893, 34894, 34895})
_DISTANCES = {2: 1, 3: 1, 34892: 2, 34893: 4, 34894: 2, 34895: 4}
_FLOATING = frozenset({3, 34894, 34895})
_REVERSED = 2
_WORKSPACE = 2**20
_ALPHA = 4
# Markers and boxes of JPEG 2000.
_CODESTREAM, _BOXES = b"\xff\x4f\xff\x51", b"\0\0\0\x0cjP  "
_WIDE, _LEAST_BOX = 1, 8


@dataclass(frozen=True)
class TiffCodec:
    """How the tiles or strips of an image are encoded; it only decodes.

    Attributes
    ----------
    compression
        Name of the compression, from `NAMES`.
    shape
        Depth, rows, columns and samples of a tile.
    dtype
        Type of the elements, in the byte order of the file.
    bits
        Bits of an element as stored.
    longest
        The most bytes of an encoded tile.
    """

    compression: str
    shape: tuple[int, int, int, int]
    dtype: np.dtype[Any]
    bits: int
    longest: int
    predictor: int = 1
    fill_order: int = 1
    jpeg: tuple[bytes | None, bytes | None, int | None, int | str | None] | None = None
    t4_options: int = 0

    @property
    def is_packed(self) -> bool:
        """Whether elements are not whole bytes."""
        return self.bits != 8 * self.dtype.itemsize

    @property
    def is_plain(self) -> bool:
        """Whether the elements are stored as they are."""
        is_direct = self.compression == "none" and self.predictor == 1
        return is_direct and self.fill_order == 1 and not self.is_packed

    @property
    def _n_bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    @property
    def decoding_bytes(self) -> int:
        """The most bytes held to decode, apart from the encoded and the decoded tile."""
        if self.compression in _OF_BYTES or self.compression == "none":
            is_copied = self.is_packed or self.predictor in _FLOATING
            n_bytes = self._n_bytes if is_copied else 0
            return _WORKSPACE + 2 * n_bytes + (self.longest if self.fill_order != 1 else 0)
        # JPEG 2000 holds every sample in 4 bytes, and its codec an image of its own.
        return _WORKSPACE + 2 * self._n_bytes + 8 * prod(self.shape) + self.longest

    @property
    def encoding_bytes(self) -> int:
        """Nothing is encoded."""
        return 0

    def encode(self, data: NDArray[np.uint8]) -> Any:
        """Refuse: targets have other codecs."""
        raise NotImplementedError

    def decode(
        self, data: NDArray[np.uint8], out: NDArray[np.uint8], rows: int | None = None
    ) -> None:
        """Decode a tile or strip into `out`; a strip may have fewer `rows` than the others.

        Raises
        ------
        ValueError
            If it cannot be decoded, or has another size; the message completes "the file ...".
        """
        rows = self.shape[1] if rows is None else rows
        try:
            with CORES:
                self._decode(data, out, rows)
        except MemoryError:
            raise
        except Exception as error:  # each codec raises errors of its own
            reason = str(error) or type(error).__name__
            raise ValueError(f"has a tile that cannot be decoded: {reason}") from error

    def _decode(self, data: NDArray[np.uint8], out: NDArray[np.uint8], rows: int) -> None:
        if self.fill_order == _REVERSED and self.compression not in {*_OF_IMAGES, "jpeg", "webp"}:
            data = np.frombuffer(imagecodecs.bitorder_decode(data.tobytes()), np.uint8)
        if self.compression in _OF_BYTES or self.compression == "none":
            self._decode_bytes(data, out, rows)
            return
        depth, _, columns, samples = self.shape
        shape = (rows, columns, samples) if samples > 1 else (rows, columns)
        if depth > 1:
            raise ValueError(f"{self.compression} does not encode volumes")
        decoded = self._decode_image(data.tobytes(), shape)
        values = out[: prod(shape) * self.dtype.itemsize].view(self.dtype).reshape(shape)
        values[...] = np.asarray(decoded).reshape(shape)

    def _decode_image(self, data: bytes, shape: tuple[int, ...]) -> Any:
        name, room = self.compression, np.empty(shape, self.dtype.newbyteorder("="))
        if name in _OF_FAX:
            options = {"t4options": self.t4_options} if name == "ccitt-fax3" else {}
            return _OF_FAX[name](data, shape[0], shape[1], **options)
        if self.jpeg is not None:
            tables, header, colors, out_colors = self.jpeg
            return imagecodecs.jpeg_decode(
                data,
                bitspersample=self.bits,
                tables=tables,
                header=header,
                colorspace=colors,
                outcolorspace=out_colors,
                shape=(shape[0], shape[1]),
                out=room,
            )
        if name == "webp":
            has_alpha = shape[2:] == (_ALPHA,) or None
            return imagecodecs.webp_decode(data, hasalpha=has_alpha, out=room)
        if name == "jpeg2000":
            # Its decoder allocates the whole image before anything can be compared.
            found, expected = _jpeg2000_shape(data), (*shape, 1)[:3]
            if found != expected:
                raise ValueError(f"it has shape {found}, expected {expected}")
        return _OF_IMAGES[name](data, out=room)

    def _decode_bytes(self, data: NDArray[np.uint8], out: NDArray[np.uint8], rows: int) -> None:
        depth, _, columns, samples = self.shape
        n_elements = depth * rows * columns * samples
        if self.is_packed:
            row_bytes = -(-columns * samples * self.bits // 8)
            packed = self._decompress(data, np.empty(depth * rows * row_bytes, np.uint8))
            _check_size(packed.nbytes, depth * rows * row_bytes)
            found = imagecodecs.packints_decode(
                packed.tobytes(),
                self.dtype.newbyteorder("="),
                self.bits,
                runlen=columns * samples,
            )
            values = out[: n_elements * self.dtype.itemsize].view(self.dtype)
            values[...] = found[:n_elements]
        else:
            n_bytes = n_elements * self.dtype.itemsize
            _check_size(self._decompress(data, out).nbytes, n_bytes)
            values = out[:n_bytes].view(self.dtype)
        if self.predictor != 1:
            self._undo_prediction(values.reshape(depth, rows, columns, samples))

    def _decompress(self, data: NDArray[np.uint8], out: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Decompress into a buffer, and return the part of it that is filled."""
        if self.compression == "none":
            n_bytes = min(data.nbytes, out.nbytes)
            out[:n_bytes] = data[:n_bytes]
        else:
            # Given a buffer, these codecs write nothing beyond it.
            n_bytes = len(_OF_BYTES[self.compression](data, out=out))
        return out[:n_bytes]

    def _undo_prediction(self, values: NDArray[Any]) -> None:
        """Sum up differences of neighbours, in place."""
        native, is_native = values.dtype.newbyteorder("="), values.dtype.isnative
        distance = _DISTANCES[self.predictor]
        if self.predictor in _FLOATING:
            # The bytes of floats are stored in an order of their own.
            raw = values.view(native)
            raw[...] = imagecodecs.floatpred_decode(raw.copy(), axis=-2, dist=distance)
            if not is_native:
                raw.byteswap(inplace=True)
            return
        if not is_native:
            values.byteswap(inplace=True)
        raw = values.view(native)
        imagecodecs.delta_decode(raw, axis=-2, dist=distance, out=raw)
        if not is_native:
            raw.byteswap(inplace=True)


def _check_size(n_found: int, n_bytes: int) -> None:
    if n_found < n_bytes:
        raise ValueError(f"it has {n_found} bytes, expected {n_bytes}")


def _jpeg2000_shape(data: bytes) -> tuple[int, int, int]:
    """Return rows, columns and samples of a JPEG 2000 codestream, or of the one in a JP2 file."""
    start = _find_codestream(data) if data.startswith(_BOXES) else 0
    if data[start : start + len(_CODESTREAM)] != _CODESTREAM:
        raise ValueError("it is not a JPEG 2000 image")
    # After the markers: length, capabilities, size, offset, size and offset of tiles, samples.
    *_, right, bottom, left, top, _, _, _, _, samples = struct.unpack_from(
        ">HH8IH", data, start + len(_CODESTREAM)
    )
    return bottom - top, right - left, samples


def _find_codestream(data: bytes) -> int:
    """Return where the codestream of a JP2 file begins."""
    at = 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        head = _LEAST_BOX
        if size == _WIDE:
            (size,), head = struct.unpack_from(">Q", data, at + head), 2 * head
        if kind == b"jp2c":
            return at + head
        if size < head:
            break
        if kind == b"jp2h" and b"pclr" in data[at : at + size]:
            raise ValueError("it has a palette, which is not supported")
        at += size
    raise ValueError("it has no JPEG 2000 codestream")
