"""Parsing that several header formats share: bounded reading, and checks of entries.

Headers are untrusted. All errors are ValueErrors whose messages complete "the file ...".
"""

from __future__ import annotations

from math import isfinite, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.kept_headers import header_in
from dask_io.stores.space import Affine

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dask_io.stores.block_format import Peek

LONGEST_HEADER = 2**20
"""Greatest accepted size of a text header."""
_MOST_AXES = 64
_MOST_BYTES = 2**63


def read_until(
    peek: Peek,
    find_end: Callable[[bytes], int],
    longest: int = LONGEST_HEADER,
    *,
    or_whole: bool = False,
) -> bytes:
    """Return a header whose length is unknown, by reading more and more of the file.

    `find_end` returns the length of a header from the beginning of a file, 0 if it does not end
    there. With `or_whole`, a file that contains no end is a header as a whole.

    Examples
    --------
    >>> content = b"a: 1" + bytes(5000) + b";data"
    >>> len(read_until(lambda n: content[:n], lambda head: head.find(b";") + 1))
    5005
    """
    n_bytes = min(ALIGNMENT, longest)
    while True:
        content = peek(n_bytes)
        if length := find_end(content):
            return content[:length]
        if len(content) < n_bytes and or_whole:
            return content
        if len(content) < n_bytes:
            raise ValueError("is truncated: it ends within its header")
        if n_bytes == longest:
            raise ValueError(f"has a header longer than {longest} bytes")
        n_bytes = min(4 * n_bytes, longest)


def end_of(pattern: re.Pattern[bytes]) -> Callable[[bytes], int]:
    """Return a function that finds the end of headers which end with a pattern."""

    def find_end(head: bytes) -> int:
        found = pattern.search(head)
        return found.end() if found else 0

    return find_end


def decode_text(content: bytes) -> str:
    """Decode text that should be UTF-8."""
    return content.decode("utf-8", "backslashreplace")


def encode_padded(before: str, after: str, filler: str = " ") -> bytes:
    """Encode a header, and fill its middle so that the data begins at a multiple of 4096 bytes."""
    start, end = before.encode(), after.encode()
    n_missing = -(len(start) + len(end)) % ALIGNMENT
    return start + filler.encode() * n_missing + end


def check_name(name: str) -> str:
    """Return the name of a data file if a line of text can contain it.

    Raises
    ------
    ValueError
        If it cannot; the message completes "the format ...".
    """
    if not name.isprintable() or name != name.strip():
        raise ValueError(f"cannot name {name!r} in a header; choose a name of printable characters")
    return name


def parse_ints(text: str, what: str) -> tuple[int, ...]:
    """Return the whole numbers of a text with spaces between them."""
    words = text.split()
    if not all(
        word.lstrip("+-").isdecimal() and len(word) <= len(str(_MOST_BYTES)) for word in words
    ):
        raise ValueError(f"has a header whose {what} are not whole numbers")
    return tuple(map(int, words))


def parse_floats(text: str, what: str) -> tuple[float, ...]:
    """Return the numbers of a text with spaces between them."""
    try:
        return tuple(map(float, text.split()))
    except ValueError as error:
        raise ValueError(f"has a header whose {what} are not numbers") from error


def check_shape(shape: Sequence[int], dtype: np.dtype[Any], most_axes: int = _MOST_AXES) -> None:
    """Refuse a shape that no array has."""
    if not 1 <= len(shape) <= most_axes:
        raise ValueError(f"has {len(shape)} axes; 1 to {most_axes} are allowed")
    if min(shape) < 0 or max(1, prod(map(int, shape))) * dtype.itemsize >= _MOST_BYTES:
        raise ValueError("has a header with an impossible shape")


def affine_of(
    columns: Sequence[Sequence[float]], origin: Sequence[float], coordinates: Iterable[str] = ()
) -> Affine:
    """Return the map with one column for each axis of an array."""
    if any(len(column) != len(origin) for column in columns):
        raise ValueError("has a header whose directions and origin have different lengths")
    if not all(map(isfinite, (*origin, *(n for column in columns for n in column)))):
        raise ValueError("has a header with positions that are not finite")
    matrix = tuple(tuple(float(column[row]) for column in columns) for row in range(len(origin)))
    return Affine(matrix, tuple(map(float, origin)), tuple(coordinates))


def columns_of(affine: Affine) -> list[tuple[float, ...]]:
    """Return the step along each axis of an array."""
    return list(zip(*affine.matrix, strict=True))


def to_text(numbers: Iterable[float]) -> str:
    """Write numbers with spaces between them, each with as many digits as it needs."""
    return " ".join(repr(int(n)) if n == int(n) else repr(float(n)) for n in numbers)


def lines_in(metadata: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the kept entries of a format's header that can be written as lines of text."""
    found = header_in(metadata, name)
    return {
        key: value
        for key, value in (found.items() if isinstance(found, dict) else ())
        if isinstance(value, str) and f"{key}{value}".isprintable()
    }


def dtype_name(dtype: np.dtype[Any], names: Mapping[str, Any]) -> Any:
    """Return the format's name for a dtype; the keys are NumPy's names, without byte order.

    Raises
    ------
    ValueError
        If it has no such type; the message completes "the format ...".
    """
    code = dtype.str[1:]
    if dtype.fields is not None or code not in names:
        known = ", ".join(str(np.dtype(each)) for each in names)
        found = dtype.newbyteorder("=")
        raise ValueError(f"has no elements of type {found}, only {known}; convert with --dtype")
    return names[code]
