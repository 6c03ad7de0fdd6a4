"""Recognise TIFF files that are safe to parse in this process: one page, and few short tags.

Starting a subprocess, or waiting for it, takes longer than parsing such a file. Folders may contain
thousands of them.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from dask_io.storage.os_errors import storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAIN_TAGS = frozenset(
    {*range(254, 296), 296, 297, 305, 306, 315, 317, 320, *range(322, 326), 338, 339}
)
"""Tags of a page by itself: its size, type, colours, strips or tiles, and resolution."""
_DESCRIPTION = 270
_MOST_TAGS, _MOST_BYTES = 48, 2**16
_SIZES = (0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8, 8, 8)
_CLASSIC, _BIG, _IN_A_TAG = 42, 43, 8


def is_small_file(path: Path) -> bool:
    """Tell whether a file has one page with few short tags."""
    with storage_errors(path):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return is_small(lambda offset, n_bytes: os.pread(fd, n_bytes, offset))
        finally:
            os.close(fd)


def is_small(read: Callable[[int, int], bytes]) -> bool:
    r"""Tell whether content has one page with few short tags; `read` takes an offset and a size.

    Examples
    --------
    >>> content = b"II*\0" + struct.pack("<IHHHIII", 8, 1, 256, 4, 1, 5, 0)
    >>> is_small(lambda offset, n_bytes: content[offset : offset + n_bytes])
    True
    """
    try:
        return _is_small(read)
    except (struct.error, OSError, OverflowError):
        # The subprocess reports what is wrong.
        return False


def _is_small(read: Callable[[int, int], bytes]) -> bool:
    head = read(0, 16)
    order = {b"II": "<", b"MM": ">"}.get(head[:2], "<")
    (version,) = struct.unpack_from(f"{order}H", head, 2)
    if version not in {_CLASSIC, _BIG}:
        return False
    is_big = version == _BIG
    width, count = ("Q", "Q") if is_big else ("I", "H")
    (start,) = struct.unpack_from(f"{order}{width}", head, 8 if is_big else 4)
    entry = struct.Struct(f"{order}HH{width}{width}")
    size = struct.calcsize(f"{order}{count}")
    raw = read(start, size + _MOST_TAGS * entry.size + 8)
    (n_tags,) = struct.unpack_from(f"{order}{count}", raw)
    if not 0 < n_tags <= _MOST_TAGS:
        return False
    tags = [entry.unpack_from(raw, size + number * entry.size) for number in range(n_tags)]
    (following,) = struct.unpack_from(f"{order}{width}", raw, size + n_tags * entry.size)
    return following == 0 and all(_is_short(tag, read) for tag in tags)


def _is_short(entry: tuple[int, ...], read: Callable[[int, int], bytes]) -> bool:
    tag, kind, n_values, value = entry
    if tag not in PLAIN_TAGS or kind >= len(_SIZES) or n_values * _SIZES[kind] > _MOST_BYTES:
        return False
    # XML is parsed elsewhere. Shorter texts are in the tag itself.
    return tag != _DESCRIPTION or n_values <= _IN_A_TAG or read(value, 1) != b"<"
