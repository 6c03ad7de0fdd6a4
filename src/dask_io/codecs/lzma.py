"""LZMA, the compressor of xz."""

from __future__ import annotations

from functools import partial
from typing import Any

from dask_io.codecs.codec import Bytes, Codec, Compressor, Config, speed
from dask_io.codecs.streams import Stream, decompress, streamed

# Memory of the decoder, with the largest dictionary of all presets.
_DECODING_BYTES = 80 * 2**20
# Memory to compress, as documented by xz: MiB for each preset, and at most for each MiB of a
# dictionary. The first "extreme" presets use another match finder, which needs more memory.
_PRESETS = (3, 9, 17, 32, 48, 94, 94, 186, 370, 674)
_EXTREME_PRESETS = (4, 13, 25, 48, *_PRESETS[4:])
_PER_DICTIONARY, _BASE = 14, 4 * 2**20
_DEFAULT_PRESET, _LARGEST_PRESET, _EXTREME = 6, 9, 2**31


def _decode(codec: Any, data: Bytes, out: Bytes) -> None:
    import lzma  # noqa: PLC0415 - some builds of Python lack it

    if codec.format == lzma.FORMAT_RAW:
        raise ValueError("is raw LZMA without a header, which is not supported")
    make = partial(lzma.LZMADecompressor, format=codec.format, memlimit=_DECODING_BYTES)
    decompress(make, data, out, ignored=lzma.LZMAError)


def _start(codec: Any, _: int) -> Stream:
    from lzma import LZMACompressor  # noqa: PLC0415 - some builds of Python lack it

    return LZMACompressor(codec.format, codec.check, codec.preset, codec.filters)


def _workspace(config: Config, _: int) -> int:
    """Return the memory for a preset, or for filters with optional dictionary sizes."""
    preset = config.get("preset")
    filters = config.get("filters") or [{"preset": _DEFAULT_PRESET if preset is None else preset}]
    return _BASE + sum(map(_filter_memory, filters))


def _filter_memory(settings: Config) -> int:
    if (dictionary := settings.get("dict_size")) is not None:
        return _PER_DICTIONARY * int(dictionary)
    preset = int(settings.get("preset", _DEFAULT_PRESET))
    presets = _EXTREME_PRESETS if preset & _EXTREME else _PRESETS
    # The higher bits of a preset are flags.
    return presets[min(preset & 31, _LARGEST_PRESET)] * 2**20


LZMA = Codec(
    "lzma",
    Compressor(
        decode=_decode,
        workspace=_workspace,
        decoding_bytes=_DECODING_BYTES,
        start=_start,
        encode=streamed(_start),
    ),
    speed=speed(20, 1.5),
    parameters={"preset": range(10)},
)
