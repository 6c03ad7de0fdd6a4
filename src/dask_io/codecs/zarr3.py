"""Replacing codecs that the specification of Zarr 3 lacks, so that all its readers can decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.codecs.codec import Compressor, Config, DType, Filter
from dask_io.codecs.registry import CODECS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEFAULT: Config = {"id": "zstd", "level": 0}
"""The default codec of zarr-python."""


def is_foreign(config: Config, dtype: DType) -> bool:
    """Tell whether only the source's format has a codec, such as LZW or JPEG of TIFF.

    PackBits of TIFF is a compressor for any dtype; PackBits of numcodecs packs booleans.
    """
    name = config["id"]
    return name not in CODECS or (name == "packbits" and dtype.kind != "b")


def in_zarr3(codecs: Sequence[Config], dtype: DType) -> list[Config]:
    """Return the codecs of a source as codecs that Zarr 3 specifies.

    zlib becomes gzip of the same level, which has the same compressor. Any other compressor
    becomes zstd, and any other checksum crc32c. With shuffled bytes, both become Blosc, which
    shuffles too. Other filters are left out.

    Examples
    --------
    >>> import numpy as np
    >>> in_zarr3([{"id": "shuffle", "elementsize": 2}, {"id": "zlib", "level": 4}], np.dtype("u2"))
    [{'id': 'blosc', 'cname': 'zlib', 'clevel': 4, 'shuffle': 1}]
    >>> in_zarr3([{"id": "lzw"}], np.dtype("u2"))
    [{'id': 'zstd', 'level': 0}]
    """
    replaced = [found for config in codecs if (found := _replace(config, dtype)) is not None]
    is_shuffled = any(config["id"] == "shuffle" for config in codecs)
    return [_shuffled(config) for config in replaced] if is_shuffled else replaced


def _shuffled(config: Config) -> Config:
    """Return a compressor that shuffles bytes first; unchanged if it is not one of these two."""
    level = config.get("level")
    if config["id"] == "gzip":
        return _blosc("zlib", 1 if level is None else level)
    if config["id"] == "zstd":
        # Level n of Blosc is level 2n - 1 of zstd, whose default is 3.
        return _blosc("zstd", (max(1, level or 3) + 1) // 2)
    return config


def _blosc(compressor: str, level: int) -> Config:
    return {"id": "blosc", "cname": compressor, "clevel": min(9, level), "shuffle": 1}


def is_replaced(codecs: Sequence[Config], dtype: DType) -> bool:
    """Tell whether Zarr 3 lacks a codec of a source, and an equivalent of it.

    Examples
    --------
    >>> import numpy as np
    >>> shuffled = {"id": "shuffle", "elementsize": 2}
    >>> [is_replaced([shuffled, {"id": name}], np.dtype("u2")) for name in ("zlib", "lzma")]
    [False, True]
    """
    made = {each["id"] for each in in_zarr3(codecs, dtype)} - {each["id"] for each in codecs}
    # Blosc shuffles the same bytes.
    left = [each for each in codecs if "blosc" not in made or each["id"] != "shuffle"]
    return any((_replace(each, dtype) or DEFAULT)["id"] != _same(each) for each in left)


def find_unspecified(codecs: Iterable[Config], dtype: DType) -> list[str]:
    """Return the names of codecs that the specification of Zarr 3 lacks.

    Examples
    --------
    >>> import numpy as np
    >>> find_unspecified([{"id": "zstd", "level": 3}, {"id": "bz2", "level": 9}], np.dtype("u1"))
    ['bz2']
    """
    return [each["id"] for each in codecs if (_replace(each, dtype) or {}).get("id") != each["id"]]


def _same(config: Config) -> str:
    return "gzip" if config["id"] == "zlib" else str(config["id"])


def _replace(config: Config, dtype: DType) -> Config | None:
    if is_foreign(config, dtype):
        return DEFAULT
    codec = CODECS[config["id"]]
    parameters = {key: value for key, value in config.items() if key != "id"}
    if codec.zarr3 and codec.zarr3.write(parameters, dtype.itemsize) is not None:
        return config
    match codec.coding:
        case Filter(is_checksum=True):
            return {"id": "crc32c"}
        case Compressor():
            return {**config, "id": "gzip"} if codec.name == "zlib" else DEFAULT
        case _:
            return None
