"""Filters that change elements: delta, packbits, astype, fixedscaleoffset, quantize and bitround.

Only the first two are lossless. The others can be read, but are never written.
"""

from __future__ import annotations

import numpy as np

from dask_io.codecs.codec import Codec, Config, DType, Filter, speed

_NUMBERS = "biufc"
_SPEED = speed(2000, 2000)


def _converting(before: str, after: str) -> Filter:
    """Return a filter with parameters for the types of its input and output."""

    def encoded_type(config: Config, dtype: DType) -> DType:
        taken, given = _number_type(config, before), _number_type(config, after)
        if taken.itemsize != dtype.itemsize:
            name = config["id"]
            raise ValueError(f"has codec {name} for type {taken}, but elements of type {dtype}")
        return given

    def n_elements(config: Config, n_bytes: int) -> int:
        return n_bytes // _number_type(config, before).itemsize

    def cast(config: Config, stored: DType, dtype: DType) -> Config:
        types = {key: dtype.str for key in (before, after) if config.get(key) == stored.str}
        return {**config, **types}

    return Filter(
        encoded_type=encoded_type,
        encoded_size=lambda config, n: n_elements(config, n) * _number_type(config, after).itemsize,
        coding_bytes=lambda config, n: n + 3 * 16 * n_elements(config, n),
        cast=cast,
    )


def _number_type(config: Config, key: str) -> DType:
    text = config.get(key) or config.get("dtype")
    try:
        dtype: DType = np.dtype(str(text))
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in _NUMBERS:
        raise ValueError(f"has codec {config['id']} with a type that is not numeric")
    return dtype


def _packed_type(_: Config, dtype: DType) -> DType:
    if dtype.itemsize != 1:
        raise ValueError(f"has codec packbits, which is not supported for elements of {dtype}")
    return np.dtype(np.uint8)


_PACKBITS = Filter(encoded_type=_packed_type, encoded_size=lambda _, n: -(-n // 8) + 1)
_BITROUND = Filter(encoded_type=lambda _, dtype: dtype)
_AS_TYPE = _converting("decode_dtype", "encode_dtype")
_WITH_TYPE = _converting("dtype", "astype")
ARRAY_FILTERS = (
    Codec("delta", _WITH_TYPE, speed=_SPEED, lossless_for="iu"),
    Codec("packbits", _PACKBITS, speed=_SPEED, lossless_for="b"),
    Codec("astype", _AS_TYPE, speed=_SPEED, lossless_for=""),
    Codec("fixedscaleoffset", _WITH_TYPE, speed=_SPEED, lossless_for=""),
    Codec("quantize", _WITH_TYPE, speed=_SPEED, lossless_for=""),
    Codec("bitround", _BITROUND, speed=_SPEED, lossless_for=""),
)
