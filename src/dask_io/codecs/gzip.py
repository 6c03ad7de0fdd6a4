"""gzip and zlib: two headers for streams of one compressor, DEFLATE. HDF5's gzip is zlib."""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import partial
from typing import Any

from dask_io.codecs.codec import Bytes, Codec, Compressor, Hdf5, Zarr3, speed
from dask_io.codecs.streams import decompress

# The values of `wbits` for each header.
_GZIP_HEADER, _ZLIB_HEADER = 31, 15
# The memory of a compressor: without output, and with the output of a slice.
_LEAST_MEMORY, _MOST_MEMORY = 2**19, 2**21


def _compressor(header: int) -> Compressor:
    def decode(_: Any, data: Bytes, out: Bytes) -> None:
        decompress(partial(zlib.decompressobj, header), data, out)

    return Compressor(
        decode=decode,
        workspace=lambda _, n_bytes: min(_MOST_MEMORY, _LEAST_MEMORY + 8 * n_bytes),
        start=lambda codec, _: zlib.compressobj(codec.level, wbits=header),
        is_always_streamed=True,
    )


GZIP = Codec(
    "gzip",
    _compressor(_GZIP_HEADER),
    speed=speed(180, {1: 30, 9: 20}),
    parameters={"level": range(10)},
    zarr3=Zarr3(lambda given, _: {"level": 1} | given),
    hdf5=Hdf5.with_level(1, default=6),
)
ZLIB = replace(GZIP, name="zlib", coding=_compressor(_ZLIB_HEADER), zarr3=None)
