"""Shuffle: the first bytes of all elements, then all second bytes, and so on."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np

from dask_io.codecs.codec import Bytes, Codec, Config, DType, Filter, Hdf5, speed


def _size(config: Config) -> Any:
    return config.get("elementsize", 4)


def _encode(codec: Any, data: Bytes) -> Bytes:
    # NumPy copies without the lock of the interpreter, which numcodecs would hold.
    elements = data.reshape(-1, codec.elementsize)
    out = np.empty_like(data)
    for number, column in enumerate(out.reshape(codec.elementsize, -1)):
        column[:] = elements[:, number]
    return out


def _decode(codec: Any, data: Bytes) -> Bytes:
    out = np.empty_like(data)
    elements = out.reshape(-1, codec.elementsize)
    for number, column in enumerate(data.reshape(codec.elementsize, -1)):
        elements[:, number] = column
    return out


def _check(config: Config, dtype: DType) -> DType:
    if type(size := _size(config)) is not int or size < 1:
        raise ValueError(f"has codec shuffle with an invalid element size: {size!r:.40}")
    return dtype


def _whole(config: Config, n_bytes: int) -> int:
    # HDF5 leaves the bytes after the last whole element unchanged.
    return n_bytes - n_bytes % int(_size(config))


def _cast(config: Config, stored: DType, dtype: DType) -> Config:
    is_whole_element = _size(config) == stored.itemsize
    return {**config, "elementsize": dtype.itemsize} if is_whole_element else config


def _fit(config: Config, n_bytes: int, itemsize: int) -> Config:
    # Numcodecs requires that the input consists of whole elements.
    fits = n_bytes % _size(config) == 0
    return config if fits else {**config, "elementsize": gcd(n_bytes, itemsize)}


SHUFFLE = Codec(
    "shuffle",
    Filter(
        encoded_type=_check,
        coding_bytes=lambda config, n: n if _whole(config, n) == n else 2 * n,
        encode=_encode,
        decode=_decode,
        whole=_whole,
        is_for_arrays=False,
        cast=_cast,
        fit=_fit,
    ),
    speed=speed(1100, 1100),
    hdf5=Hdf5(
        2,
        read=lambda values, itemsize: {"elementsize": next(filter(None, values[:1]), itemsize)},
        write=lambda config, itemsize: () if _size(config) == itemsize else None,
        kept=(0, 0),
    ),
)
