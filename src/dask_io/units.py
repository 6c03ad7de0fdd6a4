"""Parse and format sizes in bytes, such as 4GiB, and other numbers as people write them."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FACTORS: dict[str, int] = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtpe", start=1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtpe", start=1)},
    **{prefix: 1000**power for power, prefix in enumerate("kmgtpe", start=1)},
}
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SIZE = re.compile(r"\s*((?:\d+\.?\d*|\.\d+)(?:[eE]\+?\d\d?)?)\s*([a-zA-Z]*)\s*")


def parse_bytes(text: str | float) -> int:
    """Turn a size such as ``"4GiB"``, ``"1.5 MB"``, ``"1e9"`` or ``4096`` into bytes.

    Decimal prefixes (kB, MB, GB) are powers of 1000, binary ones (KiB, MiB, GiB) powers of 1024.

    Raises
    ------
    ValueError
        If the text is not a positive size.

    Examples
    --------
    >>> parse_bytes("4GiB"), parse_bytes("1.5 MB"), parse_bytes(4096)
    (4294967296, 1500000, 4096)
    """
    match = _SIZE.fullmatch(str(text))
    factor = _FACTORS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        message = f"{text!r} is not a size; write it as 512MiB, 4GiB, 1.5GB or a number of bytes"
        raise ValueError(message)
    n_bytes = int(Fraction(match[1]) * factor)
    if n_bytes <= 0:
        message = f"{text!r} is not a positive size"
        raise ValueError(message)
    return n_bytes


def format_bytes(n_bytes: int) -> str:
    """Format a number of bytes with binary units, for people to read.

    Examples
    --------
    >>> format_bytes(4294967296), format_bytes(1500000), format_bytes(12)
    ('4.00 GiB', '1.43 MiB', '12 B')
    """
    for power, prefix in reversed(list(enumerate("KMGTPE", start=1))):
        if n_bytes >= 1024**power:
            hundredths = n_bytes * 100 // 1024**power
            return f"{hundredths // 100}.{hundredths % 100:02d} {prefix}iB"
    return f"{n_bytes} B"


def at_least(n_bytes: int) -> str:
    """Write a size as the value of an option, rounded up.

    Examples
    --------
    >>> at_least(4294967296), at_least(942545), at_least(12)
    ('4GiB', '920.46KiB', '12')
    """
    for power, prefix in reversed(list(enumerate("KMGTPE", start=1))):
        if n_bytes >= 1024**power:
            hundredths = -(-n_bytes * 100 // 1024**power)
            number = f"{hundredths // 100}.{hundredths % 100:02d}".rstrip("0").rstrip(".")
            return f"{number}{prefix}iB"
    return str(n_bytes)


def count(number: int, noun: str) -> str:
    """Count things in words.

    Examples
    --------
    >>> count(1, "block"), count(1200, "block")
    ('1 block', '1,200 blocks')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def format_seconds(seconds: float) -> str:
    """Format a duration in its two largest units; one that is shorter than 0.01 s is rounded up.

    Examples
    --------
    >>> [format_seconds(s) for s in (0.0001, 0.1234, 12.34, 75, 7260, 200_000)]
    ['0.01 s', '0.12 s', '12.3 s', '1 min 15 s', '2 h 1 min', '2 d 7 h']
    """
    if 0 < seconds < 0.01:  # noqa: PLR2004 - as in the docstring
        return "0.01 s"
    if seconds < _MINUTE:
        return f"{seconds:.2f} s" if seconds < _MINUTE / 6 else f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def format_speed(n_bytes: int, seconds: float) -> str:
    """Format a speed in megabytes per second.

    Examples
    --------
    >>> format_speed(123_000_000, 2)
    '61.5 MB/s'
    """
    return f"{n_bytes / max(seconds, 1e-6) / 1e6:,.1f} MB/s"


def by(lengths: Iterable[int]) -> str:
    """Write a shape.

    Examples
    --------
    >>> by((100, 20)), by(())
    ('100 x 20', 'one element')
    """
    return " x ".join(map(str, lengths)) or "one element"
