"""LZ4 in N5. Its two kinds of writers differ, and both are read.

The Java library of N5 writes a stream of frames, each with the name ``LZ4Block``. z5py writes one
block of LZ4 without a frame. Neither reads what the other writes, so Dask IO writes neither.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numcodecs import LZ4  # type: ignore[import-untyped]

from dask_io.codecs.chain import longest_encoded
from dask_io.codecs.cores import CORES
from dask_io.codecs.streams import expect
from dask_io.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = b"LZ4Block"
# Method and level, encoded size, decoded size, checksum.
_FRAME = struct.Struct("<8sBiiI")
_STORED, _COMPRESSED, _METHOD = 0x10, 0x20, 0xF0
# A frame holds 64 KiB by default, and each has a header.
_LEAST_FRAME = 64


@dataclass(frozen=True)
class Lz4Blocks:
    """Decodes blocks of one size."""

    n_bytes: int

    @property
    def longest(self) -> int:
        """The largest size of an encoded block, also if it is in small frames."""
        return longest_encoded(self.n_bytes) + self.n_bytes * _FRAME.size // _LEAST_FRAME

    @property
    def decoding_bytes(self) -> int:
        """The encoded block with its size, and the decoded one."""
        return self.longest + self.n_bytes + 2**16

    @property
    def encoding_bytes(self) -> int:
        """Blocks are only decoded."""
        return 0

    def encode(self, data: NDArray[np.uint8]) -> NoReturn:  # noqa: ARG002 - never
        """Refuse to encode."""
        raise UsageError("N5 blocks are not written with lz4; choose another codec")

    def decode(self, data: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Decode a block so that it fills `out` exactly.

        Raises
        ------
        ValueError
            If it does not; the message completes "the file ...".
        """
        try:
            with CORES:
                if bytes(data[: len(_MAGIC)]) == _MAGIC:
                    _decode_frames(data, out)
                else:
                    _decode_one(data, out)
        except (ValueError, RuntimeError, MemoryError, struct.error) as error:
            raise ValueError(f"cannot be decoded: {error}") from error


def _decode_frames(data: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    start = n_filled = 0
    while start < data.nbytes:
        if data.nbytes - start < _FRAME.size:
            raise ValueError("is truncated")
        magic, token, n_encoded, n_decoded, _ = _FRAME.unpack_from(data.data, start)
        start += _FRAME.size
        if magic != _MAGIC or n_encoded < 0 or n_decoded < 0 or n_encoded > data.nbytes - start:
            raise ValueError("has an invalid LZ4 frame")
        if n_decoded == 0:
            break
        if n_decoded > out.nbytes - n_filled:
            raise ValueError(f"decodes to more than the {out.nbytes} bytes of a block")
        encoded, part = data[start : start + n_encoded], out[n_filled : n_filled + n_decoded]
        if token & _METHOD == _STORED:
            expect(n_decoded, n_encoded)
            part[:] = encoded
        elif token & _METHOD == _COMPRESSED:
            _decode_one(encoded, part)
        else:
            raise ValueError("has an LZ4 frame of an unknown method")
        start, n_filled = start + n_encoded, n_filled + n_decoded
    expect(out.nbytes, n_filled)


def _decode_one(data: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    # numcodecs expects the decoded size before the block, and checks that it is right.
    size = np.frombuffer(struct.pack("<i", out.nbytes), np.uint8)
    out[:] = np.frombuffer(LZ4().decode(np.concatenate([size, data])), np.uint8)
