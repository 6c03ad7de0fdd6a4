"""Filters that only HDF5 can run, most of them with hdf5plugin."""

from __future__ import annotations

from dask_io.codecs.codec import Codec, Hdf5, speed

_LZF = Hdf5(32000, write=lambda *_: (), kept=(0, 0))
# If it includes a compressor, a chunk starts with its size.
_BITSHUFFLE = Hdf5(32008, kept=(3, None), has_size=lambda values: any(values[4:5]))
HDF5_ONLY = (
    Codec("lzf", None, speed=speed(400, 200), hdf5=_LZF),
    Codec("szip", None, hdf5=Hdf5(4, kept=(0, 2))),
    Codec("bitshuffle", None, hdf5=_BITSHUFFLE),
    Codec("blosc2", None, hdf5=Hdf5(32026)),
    Codec("nbit", None, lossless_for="", hdf5=Hdf5(5)),
    Codec("scaleoffset", None, lossless_for="", hdf5=Hdf5(6)),
    Codec("zfp", None, lossless_for="", hdf5=Hdf5(32013)),
)
