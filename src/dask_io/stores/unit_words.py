"""Names of units: one word for each, as OME-Zarr spells it."""

from __future__ import annotations

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
