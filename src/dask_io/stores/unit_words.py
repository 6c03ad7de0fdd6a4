"""Names of units: one word for each, as OME-Zarr spells it."""

from __future__ import annotations

from fractions import Fraction

_PREFIXES = {
    "y": "yocto",
    "z": "zepto",
    "a": "atto",
    "f": "femto",
    "p": "pico",
    "n": "nano",
    "u": "micro",
    "\N{MICRO SIGN}": "micro",
    "\N{GREEK SMALL LETTER MU}": "micro",
    "m": "milli",
    "c": "centi",
    "d": "deci",
    "h": "hecto",
    "k": "kilo",
    "M": "mega",
    "G": "giga",
    "T": "tera",
    "P": "peta",
    "E": "exa",
    "Z": "zetta",
    "Y": "yotta",
}
# Powers of ten of the prefixes, in the unit without a prefix.
_POWERS = {
    **{word: 3 * n for n, word in enumerate(("milli", "micro", "nano", "pico", "femto"), 1)},
    **{word: 3 * n for n, word in enumerate(("atto", "zepto", "yocto"), 6)},
    **{word: -3 * n for n, word in enumerate(("kilo", "mega", "giga", "tera", "peta"), 1)},
    **{word: -3 * n for n, word in enumerate(("exa", "zetta", "yotta"), 6)},
    "deci": 1,
    "centi": 2,
    "hecto": -2,
    "": 0,
}
_METERS = {f"{word}meter": Fraction(10) ** -power for word, power in _POWERS.items()}
_METERS["angstrom"] = Fraction(1, 10**10)
_LENGTHS = {f"{symbol}m": f"{word}meter" for symbol, word in _PREFIXES.items()}
_TIMES = {f"{symbol}s": f"{word}second" for symbol, word in _PREFIXES.items()}
_OTHERS = {
    "m": "meter",
    "micron": "micrometer",
    "microns": "micrometer",
    "\N{ANGSTROM SIGN}": "angstrom",
    "\N{LATIN CAPITAL LETTER A WITH RING ABOVE}": "angstrom",
    "s": "second",
    "sec": "second",
    "msec": "millisecond",
    "usec": "microsecond",
    "min": "minute",
    "h": "hour",
    "d": "day",
    "Hz": "hertz",
    "hz": "hertz",
}
_WORDS = {**_LENGTHS, **_TIMES, **_OTHERS}


_SECONDS = frozenset(f"{word}second" for word in _POWERS)
LENGTHS = frozenset(_METERS) | {"inch", "foot", "yard", "mile", "parsec"}
"""Units of length that OME-Zarr and other formats of images define."""
TIMES = _SECONDS | {"minute", "hour", "day"}
"""Units of time that they define."""


def unit_word(unit: str) -> str:
    """Return the full name of a unit; a unit that is not known stays as it is.

    Examples
    --------
    >>> unit_word("mm"), unit_word("sec"), unit_word("micrometer"), unit_word("ppm")
    ('millimeter', 'second', 'micrometer', 'ppm')
    """
    if unit in _WORDS:
        return _WORDS[unit]
    # British spelling, and plurals.
    return unit.removesuffix("s").replace("metre", "meter") if "met" in unit else unit


def is_same_unit(one: str | None, other: str | None) -> bool:
    """Tell whether two words are the same unit, such as ``mm`` and ``millimeter``."""
    return one == other or (
        one is not None and other is not None and unit_word(one) == unit_word(other)
    )


def length_ratio(one: str | None, other: str | None) -> Fraction | None:
    """Return how many of another unit one unit is; None if they are not both lengths.

    Examples
    --------
    >>> length_ratio("nm", "angstrom"), length_ratio("mm", "micrometer"), length_ratio("s", "mm")
    (Fraction(10, 1), Fraction(1000, 1), None)
    """
    a, b = (None if unit is None else _METERS.get(unit_word(unit)) for unit in (one, other))
    return None if a is None or b is None else a / b
