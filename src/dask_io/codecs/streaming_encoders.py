"""Compressors that take a chunk piece by piece.

Asked for all of it at once, they hold what they make of it twice, and up to as much again.
Python's own are always used so. Zstandard is by numcodecs, which takes whole chunks and is a
little faster, unless memory is short.
"""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    Bytes: TypeAlias = NDArray[np.uint8]

# What is fed to a compressor at once.
_SLICE = 2**18
# What zlib calls a stream with the head of gzip.
_GZIP = 31
# With this it begins; what it makes of a slice comes to that, up to a limit.
_DEFLATE_MEMORY, _MOST_TO_DEFLATE = 2**19, 2**21
_BZ2_MEMORY = 8 * 2**20
# MiB that xz says it takes to compress, by preset, and at most for each MiB of a dictionary. The
# first presets look for matches in another way, which takes more, if they are to try harder.
_XZ_PRESETS = (3, 9, 17, 32, 48, 94, 94, 186, 370, 674)
_XZ_EXTREME = (4, 13, 25, 48, *_XZ_PRESETS[4:])
_XZ_PER_DICTIONARY, _XZ_BESIDES = 14, 4 * 2**20
_XZ_PRESET, _XZ_LARGEST = 6, 9
# How far back Zstandard looks, at most, up to a level: so much of what it was given it keeps. At
# higher levels that is more than most chunks; lower ones than the lowest are for who clamps them.
_ZSTD_LOWEST, _ZSTD_WINDOWS = -(2**17), {8: 2**21, 9: 2**22}


class Compressor(Protocol):
    """One chunk being compressed."""

    def compress(self, data: memoryview, /) -> bytes:
        """Take a piece, and return what there is so far."""

    def flush(self) -> bytes:
        """Return what is left."""


COMPRESSORS: dict[str, Callable[[Any], Compressor]] = {
    "gzip": lambda codec: zlib.compressobj(codec.level, wbits=_GZIP),
    "zlib": lambda codec: zlib.compressobj(codec.level),
    "bz2": lambda codec: bz2.BZ2Compressor(codec.level),
    "lzma": lambda codec: lzma.LZMACompressor(
        codec.format, codec.check, codec.preset, codec.filters
    ),
}


def compress(codec: Any, data: Bytes, longest: int) -> Bytes:
    """Compress as a codec of numcodecs says, to at most so many bytes.

    Examples
    --------
    >>> from numcodecs import Zlib
    >>> zlib.decompress(compress(Zlib(9), np.zeros(1000, np.uint8), 2000)) == bytes(1000)
    True
    """
    out, n_bytes = np.empty(longest, np.uint8), 0
    for piece in _pieces(COMPRESSORS[codec.codec_id](codec), data):
        out[n_bytes : n_bytes + len(piece)] = np.frombuffer(piece, np.uint8)
        n_bytes += len(piece)
    # In place: what is over goes back at once.
    out.resize(n_bytes, refcheck=False)
    return out


def takes_pieces(config: Mapping[str, Any]) -> bool:
    """Tell whether a compressor can be given a chunk piece by piece."""
    return config["id"] in COMPRESSORS or _zstd_window(config) is not None


def begin_pieces(codec: Any, n_bytes: int) -> Compressor:
    """Return what compresses a chunk of so many bytes that it is given piece by piece.

    Examples
    --------
    >>> from numcodecs import Zstd
    >>> worker = begin_pieces(Zstd(3), 4)
    >>> encoded = [worker.compress(memoryview(b"ab")), worker.compress(memoryview(b"cd"))]
    >>> Zstd().decode(b"".join([*encoded, worker.flush()]))
    b'abcd'
    """
    if codec.codec_id in COMPRESSORS:
        return COMPRESSORS[codec.codec_id](codec)
    # It is a dependency of formats that have chunks in files of their own.
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415
    else:
        from backports import zstd  # noqa: PLC0415
    settings: dict[int, int] = {
        zstd.CompressionParameter.compression_level: codec.level,
        zstd.CompressionParameter.checksum_flag: bool(codec.checksum),
    }
    worker = zstd.ZstdCompressor(options=settings)
    # Readers want to know beforehand what a chunk decodes to.
    worker.set_pledged_input_size(n_bytes)
    return worker


def kept_between_pieces(config: Mapping[str, Any]) -> int:
    """Return the bytes that a compressor keeps of what it was given, besides its workspace."""
    return _zstd_window(config) or 0


def _zstd_window(config: Mapping[str, Any]) -> int | None:
    level = int(config.get("level", 0)) if config["id"] == "zstd" else None
    if level is None or level < _ZSTD_LOWEST:
        return None
    return next((size for highest, size in _ZSTD_WINDOWS.items() if level <= highest), None)


def _pieces(compressor: Compressor, data: Bytes) -> Iterator[bytes]:
    for start in range(0, data.nbytes, _SLICE):
        yield compressor.compress(data[start : start + _SLICE].data)
    yield compressor.flush()


def compressing_bytes(config: Mapping[str, Any], n_bytes: int) -> int:
    """Return how many bytes it takes to compress so many, besides these and what comes out."""
    match config["id"]:
        case "lzma":
            return _xz_memory(config)
        case "bz2":
            return _BZ2_MEMORY
        case _:
            return min(_MOST_TO_DEFLATE, _DEFLATE_MEMORY + 8 * n_bytes)


def _xz_memory(config: Mapping[str, Any]) -> int:
    """Return what LZMA takes, with a preset or with filters that may name their dictionaries."""
    preset = config.get("preset")
    settings = config.get("filters") or [{"preset": _XZ_PRESET if preset is None else preset}]
    return _XZ_BESIDES + sum(map(_filter_memory, settings))


def _filter_memory(settings: Mapping[str, Any]) -> int:
    if (dictionary := settings.get("dict_size")) is not None:
        return _XZ_PER_DICTIONARY * int(dictionary)
    preset = int(settings.get("preset", _XZ_PRESET))
    presets = _XZ_EXTREME if preset & lzma.PRESET_EXTREME else _XZ_PRESETS
    # Beside its number a preset has flags.
    return presets[min(preset & 31, _XZ_LARGEST)] * 2**20
