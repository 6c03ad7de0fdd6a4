"""DEFLATE, the compressor of gzip and zlib, by libdeflate and ISA-L if they are installed.

libdeflate encodes whole chunks, ISA-L decodes. Both are several times faster than zlib, the module
of Python, which does the same for formats that work without other libraries. Only zlib encodes
piece by piece, and copies the state of a decoder.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.codecs.streams import Stream, compress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.codecs.codec import Bytes


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


_LIBDEFLATE, _ISAL = _optional("deflate"), _optional("isal.isal_zlib")
ZLIB_HEADER, GZIP_HEADER, ANY_HEADER = 15, 31, 47
"""The values of `wbits` for each header; the last accepts both to decode."""
ENCODING_BYTES = 2**20
"""The most memory of an encoder, without input and output."""
ERRORS: tuple[type[Exception], ...] = (zlib.error, *([_ISAL.error] if _ISAL else []))
"""Errors of decoders."""
# The level of libdeflate for each level of zlib: the lowest whose output is at most 4 % larger, for
# data that zlib does not shrink more than 40 times.
_LEVELS = (0, 5, 6, 6, 7, 7, 7, 7, 8, 9)


def encoder_in(metadata: Mapping[str, Any]) -> str | None:
    """Return the library that encodes an array here, None if no codec of it is gzip or zlib.

    Each library makes other bytes of the same data.

    Examples
    --------
    >>> encoder_in({"codecs": [{"id": "gzip", "level": 1}]}) in {"libdeflate", "zlib"}
    True
    """
    if not any(each["id"] in {"gzip", "zlib"} for each in metadata.get("codecs") or ()):
        return None
    return "zlib" if _LIBDEFLATE is None else "libdeflate"


def start_encoder(level: int, header: int) -> Stream:
    """Start to encode piece by piece."""
    return zlib.compressobj(level, wbits=header)


def encode(data: Bytes, level: int, header: int) -> Bytes:
    """Encode everything at once.

    Examples
    --------
    >>> zlib.decompress(encode(np.zeros(1000, np.uint8), 9, ZLIB_HEADER)) == bytes(1000)
    True
    """
    if _LIBDEFLATE is None or level not in range(len(_LEVELS)):
        return compress(start_encoder(level, header), data, longest_deflated(data.nbytes))
    is_gzip = header == GZIP_HEADER
    run = _LIBDEFLATE.gzip_compress if is_gzip else _LIBDEFLATE.zlib_compress
    return np.frombuffer(run(data, _LEVELS[level]), np.uint8)


def longest_deflated(n_bytes: int) -> int:
    """Return the largest size to which content is encoded, and of the buffer that it needs."""
    return n_bytes + 5 * (n_bytes // 5000 + 2) + 64


def start_decoder(header: int) -> Any:
    """Start to decode slice by slice, like `zlib.decompressobj`, but without `copy`."""
    return (_ISAL or zlib).decompressobj(header)


def start_copied_decoder(header: int) -> Any:
    """Start to decode with a decoder whose state can be copied."""
    return zlib.decompressobj(header)
