"""Codecs as users write them: ``zstd:3+crc32c``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dask_io.codecs.chain import Chain
from dask_io.codecs.registry import CODECS

_MOST_SHOWN = 9


def parse_codec(text: str, known: str = "") -> list[dict[str, Any]]:
    """Parse a codec as users write it: a compressor with its parameters, and checksums.

    The message for an unknown codec lists those `known` to a format, by default all codecs.

    Raises
    ------
    ValueError
        If a codec is unknown, cannot be chosen, or has invalid parameters. The message completes
        "codec ...".

    Examples
    --------
    >>> parse_codec("none"), parse_codec("zstd:3+crc32c")
    ([], [{'id': 'zstd', 'level': 3}, {'id': 'crc32c'}])
    >>> parse_codec("blosc:lz4:5:shuffle")
    [{'id': 'blosc', 'cname': 'lz4', 'clevel': 5, 'shuffle': 1}]
    """
    if text == "none":
        return []
    configs = [_parse_one(part, known) for part in text.split("+")]
    try:
        Chain(configs, np.dtype(np.uint8), 1)
    except ValueError as error:
        raise ValueError(f"'{text}' {error}") from error
    return configs


def _parse_one(text: str, known: str) -> dict[str, Any]:
    name, *given = text.split(":")
    parameters = CODECS[name].parameters if name in CODECS else None
    if parameters is None:
        chosen = (codec.name for codec in CODECS.values() if codec.parameters is not None)
        known = known or f"one of {', '.join(['none', *chosen])}"
        raise ValueError(f"'{name}' is unknown; choose {known}")
    if len(given) > len(parameters):
        raise ValueError(
            f"'{text}' has too many parameters; {name} takes at most {len(parameters)}"
        )
    config: dict[str, Any] = {"id": name}
    for (key, choices), value in zip(parameters.items(), given, strict=False):
        words = choices if isinstance(choices, Mapping) else {str(each): each for each in choices}
        if value not in words:
            shown = list(words)
            few = len(shown) < _MOST_SHOWN
            span = f"one of {', '.join(shown)}" if few else f"{shown[0]} to {shown[-1]}"
            raise ValueError(f"'{text}' has {key} '{value}'; choose {span}")
        config[key] = words[value]
    return config
