"""bzip2."""

from __future__ import annotations

from typing import Any

from dask_io.codecs.codec import Bytes, Codec, Compressor, Hdf5, speed
from dask_io.codecs.streams import Stream, decompress, streamed

_MEMORY = 8 * 2**20


def _decode(_: Any, data: Bytes, out: Bytes) -> None:
    from bz2 import BZ2Decompressor  # noqa: PLC0415 - some builds of Python lack it

    decompress(BZ2Decompressor, data, out, ignored=OSError)


def _start(codec: Any, _: int) -> Stream:
    from bz2 import BZ2Compressor  # noqa: PLC0415 - some builds of Python lack it

    return BZ2Compressor(codec.level)


BZ2 = Codec(
    "bz2",
    Compressor(
        decode=_decode,
        workspace=lambda *_: _MEMORY,
        decoding_bytes=_MEMORY,
        start=_start,
        encode=streamed(_start),
    ),
    speed=speed(8, 8),
    parameters={"level": range(1, 10)},
    hdf5=Hdf5.with_level(307, default=9),
)
