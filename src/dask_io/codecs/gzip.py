"""gzip and zlib: two headers for streams of one compressor, DEFLATE. HDF5's gzip is zlib."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from dask_io.codecs.codec import Bytes, Codec, Compressor, Hdf5, Zarr3, speed
from dask_io.codecs.deflate import (
    GZIP_HEADER,
    ZLIB_HEADER,
    encode,
    start_decoder,
    start_encoder,
)
from dask_io.codecs.streams import decompress

# The memory of a compressor: without output, and with the output of a slice.
_LEAST_MEMORY, _MOST_MEMORY = 2**19, 2**21


def _compressor(header: int) -> Compressor:
    def decode(_: Any, data: Bytes, out: Bytes) -> None:
        decompress(partial(start_decoder, header), data, out)

    return Compressor(
        decode=decode,
        workspace=lambda _, n_bytes: min(_MOST_MEMORY, _LEAST_MEMORY + 8 * n_bytes),
        start=lambda codec, _: start_encoder(codec.level, header),
        encode=lambda codec, data, _: encode(data, codec.level, header),
        slowdown_in_pieces=2.5,
    )


GZIP = Codec(
    "gzip",
    _compressor(GZIP_HEADER),
    speed=speed(300, {8: 70, 9: 60}),
    parameters={"level": range(10)},
    zarr3=Zarr3(lambda given, _: {"level": 1} | given),
    hdf5=Hdf5.with_level(1, default=6),
)
ZLIB = replace(GZIP, name="zlib", coding=_compressor(ZLIB_HEADER), zarr3=None)
