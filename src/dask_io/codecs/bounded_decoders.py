"""Decompressors that fill the memory they are given, and no more.

Each takes a codec of numcodecs, what is compressed, and an array that has to be filled exactly.
Those that say beforehand what they decode to are asked; the others are stopped where it ends.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]

# The largest dictionary of the presets of xz, and what its decoder has besides.
LZMA_MEMORY = 80 * 2**20
# What is fed to a decompressor and taken from it at once.
_SLICE = 2**18
_BLOSC_HEADER = struct.Struct("<4xIII")
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def expect(n_bytes: int, n_found: int) -> None:
    """Refuse a size that is not the one expected.

    Raises
    ------
    ValueError
        If it is another.
    """
    if n_found != n_bytes:
        raise ValueError(f"has {n_found} bytes where {n_bytes} are expected")


def _decode_blosc(codec: Any, data: Bytes, out: Bytes) -> None:
    # Its decoder believes the header, so that is held against what is really there.
    if data.nbytes < _BLOSC_HEADER.size:
        raise ValueError("ends within its header")
    n_decoded, _, n_encoded = _BLOSC_HEADER.unpack_from(data.data)
    expect(n_encoded, data.nbytes)
    expect(out.nbytes, n_decoded)
    codec.decode(data, out)


def _decode_lz4(codec: Any, data: Bytes, out: Bytes) -> None:
    expect(out.nbytes, int.from_bytes(data[:4].tobytes(), "little"))
    codec.decode(data, out)


def _decode_zstd(codec: Any, data: Bytes, out: Bytes) -> None:
    n_decoded = _zstd_size(data[:18].tobytes())
    # Without a size in the frame, the decoder itself sees to it that `out` is filled.
    if n_decoded is not None:
        expect(out.nbytes, n_decoded)
    codec.decode(data, out)


def _zstd_size(head: bytes) -> int | None:
    """Return the size that a frame says it decodes to, None if it does not say."""
    if not head.startswith(_ZSTD_MAGIC) or len(head) < 6:  # noqa: PLR2004 - magic, flags, a size
        raise ValueError("does not begin as Zstandard")
    flags = head[4]
    is_single = flags >> 5 & 1
    width = (is_single, 2, 4, 8)[flags >> 6]
    if not width:
        return None
    start = 5 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    size = int.from_bytes(head[start : start + width], "little")
    return size + 256 if width == 2 else size  # noqa: PLR2004 - as the format says


def _inflating(wbits: int) -> Callable[[Any, Bytes, Bytes], None]:
    """Return the decoder of gzip or zlib, whose streams say nothing of their size."""

    def decode(codec: Any, data: Bytes, out: Bytes) -> None:  # noqa: ARG001 - all decode alike
        def streams() -> Iterator[bytes]:
            rest = data
            while rest.nbytes:
                worker = zlib.decompressobj(wbits)
                fed, taken = b"", 0
                while not worker.eof:
                    if not fed:
                        fed = bytes(rest[taken : taken + _SLICE])
                        taken += len(fed)
                    piece = worker.decompress(fed, _SLICE)
                    # When all has been fed, some output may still be to come.
                    if not fed and not piece:
                        raise ValueError("is truncated")
                    yield piece
                    fed = worker.unconsumed_tail
                rest = rest[taken - len(worker.unused_data) :]

        _fill(out, streams())

    return decode


def _decode_bz2(codec: Any, data: Bytes, out: Bytes) -> None:  # noqa: ARG001 - all decode alike
    _fill(out, _drain(bz2.BZ2Decompressor, data))


def _decode_lzma(codec: Any, data: Bytes, out: Bytes) -> None:
    if codec.format == lzma.FORMAT_RAW:
        raise ValueError("is LZMA without a header, which is not supported")
    make = partial(lzma.LZMADecompressor, format=codec.format, memlimit=LZMA_MEMORY)
    _fill(out, _drain(make, data))


def _drain(make: Callable[[], Any], data: Bytes) -> Iterator[bytes]:
    """Decode one stream after another; what is none behind the first counts for nothing."""
    rest = data
    while rest.nbytes:
        worker, taken = make(), 0
        while not worker.eof:
            fed = bytes(rest[taken : taken + _SLICE]) if worker.needs_input else b""
            if worker.needs_input and not fed:
                raise ValueError("is truncated")
            taken += len(fed)
            try:
                piece = worker.decompress(fed, _SLICE)
            except (OSError, lzma.LZMAError):
                if rest is data:
                    raise
                return
            yield piece
        rest = rest[taken - len(worker.unused_data) :]


def _fill(out: Bytes, pieces: Iterable[bytes]) -> None:
    """Put pieces one after another, no more and no fewer than there is room for."""
    n_filled = 0
    for piece in pieces:
        if n_filled + len(piece) > out.nbytes:
            raise ValueError(f"decodes to more than the {out.nbytes} bytes of a chunk")
        out[n_filled : n_filled + len(piece)] = np.frombuffer(piece, np.uint8)
        n_filled += len(piece)
    expect(out.nbytes, n_filled)


DECODERS: dict[str, Callable[[Any, Bytes, Bytes], None]] = {
    "blosc": _decode_blosc,
    "zstd": _decode_zstd,
    "lz4": _decode_lz4,
    "gzip": _inflating(31),
    "zlib": _inflating(15),
    "bz2": _decode_bz2,
    "lzma": _decode_lzma,
}
