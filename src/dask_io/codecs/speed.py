"""Estimated speeds of codecs, to predict the time of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask_io.codecs.codec import UNKNOWN_SPEED, Compressor
from dask_io.codecs.registry import CODECS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def seconds_to_decode(codecs: Iterable[Mapping[str, Any]]) -> float:
    """Estimate the seconds that one core takes to decode a byte.

    Examples
    --------
    >>> round(1 / seconds_to_decode([{"id": "shuffle"}, {"id": "zstd", "level": 3}]) / 1e6)
    388
    """
    return sum(1e-6 / _speed_of(codec)[0] for codec in codecs)


def seconds_to_encode(codecs: Iterable[Mapping[str, Any]]) -> float:
    """Estimate the seconds that one core takes to encode a byte.

    Examples
    --------
    >>> round(1 / seconds_to_encode([{"id": "zstd", "level": 3}]) / 1e6)
    90
    """
    return sum(1e-6 / _speed_of(codec)[1] for codec in codecs)


def slowdown_in_pieces(codecs: Iterable[Mapping[str, Any]]) -> float:
    """Return how many times longer it takes to encode blocks piece by piece.

    Examples
    --------
    >>> [slowdown_in_pieces([{"id": codec}]) for codec in ("zstd", "gzip")]
    [1.09, 2.5]
    """
    records = [CODECS[codec["id"]].coding for codec in codecs if codec["id"] in CODECS]
    return max([1.0, *(one.slowdown_in_pieces for one in records if isinstance(one, Compressor))])


def _speed_of(config: Mapping[str, Any]) -> tuple[float, float]:
    known = CODECS.get(config["id"])
    return (UNKNOWN_SPEED if known is None else known.speed)(config)
