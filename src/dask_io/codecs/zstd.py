"""Zstandard."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from dask_io.codecs.codec import Bytes, Codec, Compressor, Config, Hdf5, Zarr3, speed, up_to
from dask_io.codecs.streams import Stream, expect

_MAGIC = b"\x28\xb5\x2f\xfd"
# Memory up to each level, about twice as measured. Above, the estimate of the library is used.
_WORKSPACES = {3: 2 * 2**20, 6: 6 * 2**20, 9: 16 * 2**20}
_SMALLEST_WORKSPACE = 2**19
# The window up to each level: the part of the input that is kept. At higher levels, the window is
# larger than most chunks. The libraries clamp levels below the lowest.
_LOWEST, _WINDOWS = -(2**17), {8: 2**21, 9: 2**22}


def _decode(codec: Any, data: Bytes, out: Bytes) -> None:
    n_decoded = _size_of(data[:18].tobytes())
    # Without a size in the frame, the decoder itself checks that it fills `out`.
    if n_decoded is not None:
        expect(out.nbytes, n_decoded)
    codec.decode(data, out)


def _size_of(head: bytes) -> int | None:
    """Return the decoded size in the header of a frame, None if it is missing."""
    if not head.startswith(_MAGIC) or len(head) < 6:  # noqa: PLR2004 - magic, flags, a size
        raise ValueError("does not start with a Zstandard header")
    flags = head[4]
    is_single = flags >> 5 & 1
    width = (is_single, 2, 4, 8)[flags >> 6]
    if not width:
        return None
    start = 5 + (1 - is_single) + (0, 1, 2, 4)[flags & 3]
    size = int.from_bytes(head[start : start + width], "little")
    return size + 256 if width == 2 else size  # noqa: PLR2004 - see the format's specification


def _level(config: Config) -> int:
    return int(config.get("level", 0))


def _workspace(config: Config, n_bytes: int) -> int:
    level = _level(config)
    most = up_to(_WORKSPACES, level) or (6 * 2**20) << max(4, level - 15)
    # Tables have at most two entries for each byte, rounded up to a power of two.
    return min(most, _SMALLEST_WORKSPACE + 32 * n_bytes)


def _history(config: Config) -> int | None:
    return up_to(_WINDOWS, level) if (level := _level(config)) >= _LOWEST else None


def _start(codec: Any, n_bytes: int) -> Stream:
    # Installed together with the formats that store every chunk in its own file.
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415
    else:
        from backports import zstd  # noqa: PLC0415
    settings: dict[int, int] = {
        zstd.CompressionParameter.compression_level: codec.level,
        zstd.CompressionParameter.checksum_flag: bool(codec.checksum),
    }
    stream = zstd.ZstdCompressor(options=settings)
    # Readers need the decoded size of a chunk in advance.
    stream.set_pledged_input_size(n_bytes)
    return stream


ZSTD = Codec(
    "zstd",
    # Whole chunks are encoded by numcodecs, which is a little faster.
    Compressor(
        decode=_decode,
        workspace=_workspace,
        decoding_bytes=2**19,
        start=_start,
        history=_history,
        slowdown_in_pieces=1.09,
    ),
    # Level 0 is the default, 3.
    speed=speed(600, {-1: 350, 0: 90, 1: 350, 3: 90, 6: 60, 9: 30, 12: 8, 15: 2, 22: 1}),
    parameters={"level": range(23)},
    zarr3=Zarr3(lambda given, _: {"level": 0, "checksum": False} | given),
    hdf5=replace(Hdf5.with_level(32015, default=3), write=lambda config, _: (_level(config) or 3,)),
)
