"""Codecs as users write them: ``zstd:3+crc32c``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.codecs.chain import Chain

if TYPE_CHECKING:
    from collections.abc import Mapping


def parse_codec(text: str) -> list[dict[str, Any]]:
    """Read a codec as users write it: a compressor and its parameters, and checksums.

    Raises
    ------
    ValueError
        If it is not one that is known.

    Examples
    --------
    >>> parse_codec("none"), parse_codec("zstd:3+crc32c")
    ([], [{'id': 'zstd', 'level': 3}, {'id': 'crc32c'}])
    >>> parse_codec("blosc:lz4:5:shuffle")
    [{'id': 'blosc', 'cname': 'lz4', 'clevel': 5, 'shuffle': 1}]
    """
    if text == "none":
        return []
    configs = [_parse_one(part) for part in text.split("+")]
    Chain(configs, np.dtype(np.uint8), 1)
    return configs


def _parse_one(text: str) -> dict[str, Any]:
    name, *parameters = text.split(":")
    keys = _PARAMETERS.get(name)
    if keys is None:
        known = ", ".join(["none", *_PARAMETERS])
        raise ValueError(f"'{name}' is not a codec that can be chosen; they are {known}")
    if len(parameters) > len(keys):
        raise ValueError(f"'{text}' has too many parameters; {name} takes {len(keys)}")
    config: dict[str, Any] = {"id": name}
    for (key, allowed), given in zip(keys.items(), parameters, strict=False):
        if given not in allowed:
            shown = list(allowed)
            span = ", ".join(shown) if len(shown) < _MOST_SHOWN else f"{shown[0]} to {shown[-1]}"
            raise ValueError(f"{key} of {name} is '{given}'; it can be {span}")
        config[key] = allowed[given]
    return config


def _numbers(low: int, high: int) -> dict[str, int]:
    return {str(number): number for number in range(low, high + 1)}


_MOST_SHOWN = 9
# What each parameter of a codec can be, as it is written and as numcodecs takes it.
_PARAMETERS: dict[str, dict[str, Mapping[str, object]]] = {
    "zstd": {"level": _numbers(0, 22)},
    "blosc": {
        "cname": {name: name for name in ("lz4", "lz4hc", "blosclz", "zlib", "zstd")},
        "clevel": _numbers(0, 9),
        "shuffle": {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2},
    },
    "lz4": {"acceleration": _numbers(1, 65537)},
    "gzip": {"level": _numbers(0, 9)},
    "zlib": {"level": _numbers(0, 9)},
    "bz2": {"level": _numbers(1, 9)},
    "lzma": {"preset": _numbers(0, 9)},
    "crc32c": {},
}
