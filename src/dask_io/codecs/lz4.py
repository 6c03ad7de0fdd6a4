"""LZ4. HDF5 uses another header, so only HDF5 itself decodes its LZ4 chunks."""

from __future__ import annotations

from typing import Any

from dask_io.codecs.codec import Bytes, Codec, Compressor, Hdf5, speed
from dask_io.codecs.streams import expect


def _decode(codec: Any, data: Bytes, out: Bytes) -> None:
    expect(out.nbytes, int.from_bytes(data[:4].tobytes(), "little"))
    codec.decode(data, out)


LZ4 = Codec(
    "lz4",
    Compressor(decode=_decode, workspace=lambda *_: 2**19, decoding_bytes=2**19),
    speed=speed(3000, 1000),
    parameters={"acceleration": range(1, 65538)},
    hdf5=Hdf5(32004, has_size=lambda _: True),
)
