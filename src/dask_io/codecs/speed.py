"""About how fast codecs are, to predict how long a run takes.

Measured with one core on whole numbers of 16 bits and on floats of 32 bits, both with noise; the
figures are those in between. What is encoded makes a difference of up to eight times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class _Speed(NamedTuple):
    """Megabytes a second; encoding by the highest level that it is meant for."""

    decodes: float
    encodes: Sequence[tuple[int, float]]

    def encodes_at(self, level: int) -> float:
        found = (speed for highest, speed in self.encodes if level <= highest)
        return next(found, self.encodes[-1][1])


def _always(decodes: float, encodes: float) -> _Speed:
    return _Speed(decodes, [(0, encodes)])


_SPEEDS = {
    # Level 0 is its default, which is 3.
    "zstd": _Speed(
        600, [(-1, 350), (0, 90), (1, 350), (3, 90), (6, 60), (9, 30), (12, 8), (15, 2), (22, 1)]
    ),
    "zlib": _Speed(180, [(1, 30), (9, 20)]),
    "gzip": _Speed(180, [(1, 30), (9, 20)]),
    "lz4": _always(3000, 1000),
    "lzf": _always(400, 200),
    "bz2": _always(8, 8),
    "lzma": _always(20, 1.5),
    "shuffle": _always(1100, 1100),
}
_BLOSC = {
    "lz4": _always(2000, 700),
    "lz4hc": _always(2500, 50),
    "blosclz": _always(2000, 1000),
    "snappy": _always(2000, 700),
    "zlib": _always(450, 40),
    "zstd": _Speed(1200, [(1, 500), (3, 250), (5, 90), (9, 2)]),
}
_CHECKSUMS = ("crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3")
_FILTERS = ("delta", "packbits", "astype", "fixedscaleoffset", "quantize", "bitround")
_SPEEDS |= dict.fromkeys(_CHECKSUMS, _always(4000, 4000))
_SPEEDS |= dict.fromkeys(_FILTERS, _always(2000, 2000))
_UNKNOWN = _always(200, 100)


def seconds_to_decode(codecs: Iterable[Mapping[str, Any]]) -> float:
    """Return about how long one core takes to decode a byte.

    Examples
    --------
    >>> round(1 / seconds_to_decode([{"id": "shuffle"}, {"id": "zstd", "level": 3}]) / 1e6)
    388
    """
    return sum(1e-6 / _speed_of(codec).decodes for codec in codecs)


def seconds_to_encode(codecs: Iterable[Mapping[str, Any]]) -> float:
    """Return about how long one core takes to encode a byte.

    Examples
    --------
    >>> round(1 / seconds_to_encode([{"id": "zstd", "level": 3}]) / 1e6)
    90
    """
    return sum(1e-6 / _speed_of(codec).encodes_at(_level_of(codec)) for codec in codecs)


def slowdown_in_pieces(codecs: Iterable[Mapping[str, Any]]) -> float:
    """Return how many times longer encoding takes if a block is given piece by piece.

    Examples
    --------
    >>> [slowdown_in_pieces([{"id": codec}]) for codec in ("zstd", "gzip")]
    [1.09, 1.0]
    """
    # Another library does it then; all others are given pieces in any case.
    return 1.09 if any(codec["id"] == "zstd" for codec in codecs) else 1.0


def _speed_of(codec: Mapping[str, Any]) -> _Speed:
    if codec["id"] == "blosc":
        return _BLOSC.get(codec.get("cname", ""), _UNKNOWN)
    return _SPEEDS.get(codec["id"], _UNKNOWN)


def _level_of(codec: Mapping[str, Any]) -> int:
    level = codec.get("clevel", codec.get("level"))
    return level if isinstance(level, int) else 0
