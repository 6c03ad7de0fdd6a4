"""Compression of N5 blocks, as N5 and as numcodecs write it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dask_io.codecs.chain import Chain
from dask_io.codecs.parsing import parse_codec
from dask_io.errors import UsageError
from dask_io.formats.n5.lz4_blocks import Lz4Blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from dask_io.codecs.codec import Config
    from dask_io.stores.truncated import SizedCodec

LZ4 = "lz4"
_CHOICES = "none, gzip, zlib, bz2, lzma, zstd or blosc"
_SHUFFLES = {-1, 0, 1, 2}
_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")


def read_compression(stated: object) -> Config | None:
    """Return the codec for a dataset's compression, None if elements are not compressed.

    Raises
    ------
    ValueError
        If it is unknown or invalid; the message completes "the file ...".
    """
    # Early versions of N5 have only a name.
    found: Mapping[str, Any] = {"type": stated} if isinstance(stated, str) else {}
    found = stated if isinstance(stated, dict) else found
    codec: Config | None
    match found.get("type"):
        case "raw":
            codec = None
        case "gzip":
            name = "zlib" if found.get("useZlib") is True else "gzip"
            codec = {"id": name, "level": _number(found, "level", -1, range(-1, 10))}
        case "bzip2":
            codec = {"id": "bz2", "level": _number(found, "blockSize", 9, range(1, 10))}
        case "xz":
            codec = {"id": "lzma", "preset": _number(found, "preset", 6, range(10))}
        case "zstd":
            codec = {"id": "zstd", "level": _number(found, "level", 3, range(-(2**17), 23))}
        case "lz4":
            codec = {"id": LZ4}
        case "blosc":
            codec = _read_blosc(found)
        case name:
            raise ValueError(f"has compression {str(name)[:40]!r}, which is not supported")
    return codec


def _read_blosc(found: Mapping[str, Any]) -> Config:
    cname = found.get("cname", "blosclz")
    if cname not in _COMPRESSORS:
        raise ValueError("has Blosc compression with an unknown compressor")
    return {
        "id": "blosc",
        "cname": cname,
        "clevel": _number(found, "clevel", 5, range(10)),
        "shuffle": _number(found, "shuffle", 1, _SHUFFLES),
        "blocksize": _number(found, "blocksize", 0, range(2**31)),
    }


def _number(found: Mapping[str, Any], key: str, default: int, allowed: range | set[int]) -> int:
    value = found.get(key, default)
    if type(value) is not int or value not in allowed:
        raise ValueError(f"has compression with an invalid {key}")
    return value


def write_compression(codec: Config | None) -> dict[str, Any]:
    """Return a codec as N5 describes it.

    Raises
    ------
    ValueError
        If N5 has no such codec; the message completes "the codec ...".

    Examples
    --------
    >>> write_compression({"id": "bz2", "level": 3})
    {'type': 'bzip2', 'blockSize': 3}
    """
    if codec is None:
        return {"type": "raw"}
    match codec["id"]:
        case "gzip" | "zlib" as name:
            return {"type": "gzip", "level": codec.get("level", 5), "useZlib": name == "zlib"}
        case "bz2":
            return {"type": "bzip2", "blockSize": codec.get("level", 1)}
        case "lzma" if codec.get("format", 1) == 1 and codec.get("filters") is None:
            preset = codec.get("preset")
            return {"type": "xz", "preset": 6 if preset is None else preset}
        case "zstd" if not codec.get("checksum"):
            return {"type": "zstd", "level": codec.get("level", 3)}
        case "blosc":
            return {
                "type": "blosc",
                "cname": codec.get("cname", "lz4"),
                "clevel": codec.get("clevel", 5),
                "shuffle": codec.get("shuffle", 1),
                "blocksize": codec.get("blocksize", 0),
            }
        case name:
            raise ValueError(f"{name} is not one that N5 has; choose {_CHOICES}")


def choose_compression(asked: str | None, kept: Sequence[Config]) -> dict[str, Any]:
    """Return the compression of a new dataset: the user's codec, else the source's.

    Raises
    ------
    UsageError
        If N5 does not have the codec.
    """
    try:
        return _of_chain(kept if asked is None else parse_codec(asked, _CHOICES))
    except ValueError as error:
        whose = "codec" if asked is not None else "the source's codec"
        raise UsageError(f"{whose} {error}") from error


def _of_chain(codecs: Sequence[Config]) -> dict[str, Any]:
    if len(codecs) > 1:
        names = "+".join(codec["id"] for codec in codecs)
        raise ValueError(f"{names} has several parts, but N5 has one; choose {_CHOICES}")
    return write_compression(codecs[0] if codecs else None)


def codec_maker(codec: Config | None, dtype: np.dtype[Any]) -> Callable[[int], SizedCodec]:
    """Return a function for the codec of blocks of a number of bytes."""
    if codec is not None and codec["id"] == LZ4:
        return Lz4Blocks
    return partial(Chain, () if codec is None else (codec,), dtype)
