"""The header of a TIFF file that Dask IO writes: the directories of all pages, before the data.

Other writers put the directory of a page next to its data. With all directories first, the place of
every element is known before anything is written, and a file is a header and its elements. The
size of the header does not depend on the places and sizes of tiles. A compressed file gets its
final header after its tiles have been written.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.stores.header_parsing import dtype_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ASCII, _SHORT, _LONG, _RATIONAL, _LONG8 = 2, 3, 4, 5, 16
_CODES = {_SHORT: "H", _LONG: "I", _LONG8: "Q"}
# Numbers of kinds of elements: unsigned, signed, floating point, complex.
_FORMATS = {"u": 1, "i": 2, "f": 3, "c": 6}
_TYPES = {f"{kind}{size}": size for kind in "iu" for size in (1, 2, 4, 8)}
_TYPES |= {"f2": 2, "f4": 4, "f8": 8, "c8": 8, "c16": 16}
_MIN_IS_BLACK, _RGB, _TRANSPARENT = 1, 2, 2
_COLOURS = (3, 4)
_CENTIMETER, _PRECISION = 3, 10**6
# Data of large blocks begins at a multiple of this, to be written past the page cache.
_ALIGNMENT, _LARGE, _LEAST_ALIGNMENT = 4096, 128 * 2**10, 16
# Some readers do not read longer strips.
_LONGEST_STRIP = 2**30
_MOST_CLASSIC = 2**32 - 2**16
_MOST_LENGTH = 2**31 - 1
_SOFTWARE = b"dask-io\0"
_MOST_PAGES = 2**24


@dataclass(frozen=True)
class Pages:
    """The pages of an image that is written, all with the same shape.

    Attributes
    ----------
    n_pages, rows, columns, samples
        Number of pages, and the shape of a page. Samples of an element follow each other.
    dtype
        Type of the elements.
    description
        Content of the tag ImageDescription of the first page.
    tile
        Rows and columns of a tile; columns are 0 for strips of whole rows.
    compression
        Number of the compression in TIFF.
    is_big
        Whether offsets have 64 bits (BigTIFF).
    resolution
        Elements per centimetre along x and y, if known.
    """

    n_pages: int
    rows: int
    columns: int
    samples: int
    dtype: np.dtype[Any]
    description: bytes
    tile: tuple[int, int]
    compression: int = 1
    is_big: bool = False
    resolution: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        dtype_name(self.dtype, _TYPES)
        if not self.n_pages * self.rows * self.columns * self.samples:
            raise ValueError("has no images without elements")
        if max(self.rows, self.columns) > _MOST_LENGTH:
            raise ValueError(f"has images of at most {_MOST_LENGTH} rows and columns")
        if self.n_pages * self.per_page > _MOST_PAGES:
            raise ValueError(
                f"would need {self.n_pages * self.per_page} tiles or strips, more than "
                f"{_MOST_PAGES}; use larger chunks along the last axes"
            )

    @property
    def is_tiled(self) -> bool:
        """Whether pages consist of tiles, not strips."""
        return self.tile[1] > 0

    @property
    def per_page(self) -> int:
        """Number of tiles or strips in a page."""
        rows, columns = self.tile
        return -(-self.rows // rows) * (-(-self.columns // columns) if columns else 1)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of a page."""
        return self.columns * self.samples * self.dtype.itemsize

    @property
    def tile_bytes(self) -> int:
        """Bytes of the elements of a tile or a whole strip."""
        rows, columns = self.tile
        return rows * (columns or self.columns) * self.samples * self.dtype.itemsize

    @property
    def data_bytes(self) -> int:
        """Bytes of all elements, with the padding of tiles, if they are not compressed."""
        if self.is_tiled:
            return self.n_pages * self.per_page * self.tile_bytes
        return self.n_pages * self.rows * self.row_bytes

    @cached_property
    def size(self) -> int:
        """Bytes of the header."""
        end = self._tables + (2 * self._table_bytes if self.per_page > 1 else 0)
        unit = _ALIGNMENT if self.data_bytes >= _LARGE else _LEAST_ALIGNMENT
        return -(-end // unit) * unit

    def plain_places(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return offsets and sizes of tiles or strips that follow the header, not compressed."""
        counts = np.full((self.n_pages, self.per_page), self.tile_bytes, np.uint64)
        if not self.is_tiled and (left := self.rows % self.tile[0]):
            counts[:, -1] = left * self.row_bytes
        ends = counts.reshape(-1).cumsum(dtype=np.uint64)
        offsets = ends - counts.reshape(-1) + np.uint64(self.size)
        return offsets.reshape(counts.shape), counts

    def make(self, offsets: NDArray[np.uint64], counts: NDArray[np.uint64]) -> bytes:
        """Return the header, with the place and the size of each tile or strip."""
        made = bytearray(self.size)
        order = self._order
        version = (43, 8, 0, self._head) if self.is_big else (42, self._head)
        made[: self._head] = struct.pack(
            f"{order}2s" + ("HHHQ" if self.is_big else "HI"),
            b"II" if order == "<" else b"MM",
            *version,
        )
        first = self._directory(is_first=True)
        made[self._head : self._head + len(first)] = first
        others = self._directory(is_first=False)
        start = self._head + len(first)
        if self.n_pages > 1:
            made[start : start + len(others) * (self.n_pages - 1)] = others * (self.n_pages - 1)
        self._place_tiles(np.frombuffer(made, np.uint8), offsets, counts)
        for at, content in self._values:
            made[at : at + len(content)] = content
        return bytes(made)

    @property
    def _order(self) -> str:
        return ">" if self.dtype.str.startswith(">") else "<"

    @property
    def _head(self) -> int:
        return 16 if self.is_big else 8

    @property
    def _offset_type(self) -> int:
        return _LONG8 if self.is_big else _LONG

    @property
    def _width(self) -> int:
        return 8 if self.is_big else 4

    @property
    def _table_bytes(self) -> int:
        return self.n_pages * self.per_page * self._width

    @cached_property
    def _long_values(self) -> dict[int, tuple[int, bytes]]:
        """Count and content of the values that are shared by pages and do not fit into a tag."""
        found = {270: (len(self.description), self.description), 305: (len(_SOFTWARE), _SOFTWARE)}
        bits, format_ = 8 * self.dtype.itemsize, _FORMATS[self.dtype.kind]
        for tag, value in ((258, bits), (339, format_)):
            content = struct.pack(f"{self._order}{self.samples}H", *[value] * self.samples)
            found[tag] = (self.samples, content)
        if n_extra := self.samples - (len(_COLOURS) + 1 if self._is_rgb else 1):
            kinds = [_TRANSPARENT if self._is_rgb else 0] * n_extra
            found[338] = (n_extra, struct.pack(f"{self._order}{n_extra}H", *kinds))
        for tag, density in zip((282, 283), self.resolution or (), strict=False):
            found[tag] = (1, struct.pack(f"{self._order}II", *_ratio(density)))
        return found

    @property
    def _is_rgb(self) -> bool:
        return self.samples in _COLOURS and self.dtype.kind == "u" and self.dtype.itemsize <= 2  # noqa: PLR2004 - 8 or 16 bits

    def _tags(self, *, is_first: bool) -> list[tuple[int, int, int, bytes]]:
        """Return number, type, count and value of the tags of a page; offsets are not set yet."""
        order, places = self._order, self._places_of_values
        found: list[tuple[int, int, int, bytes]] = []

        def add(tag: int, kind: int, value: int, count: int = 1) -> None:
            content = struct.pack(f"{order}{_CODES[kind]}", value)
            found.append((tag, kind, count, content.ljust(self._width, b"\0")))

        add(254, _LONG, 0)
        add(256, _LONG, self.columns)
        add(257, _LONG, self.rows)
        add(259, _SHORT, self.compression)
        add(262, _SHORT, _RGB if self._is_rgb else _MIN_IS_BLACK)
        add(277, _SHORT, self.samples)
        add(284, _SHORT, 1)
        if self.is_tiled:
            add(322, _LONG, self.tile[1])
            add(323, _LONG, self.tile[0])
        else:
            add(278, _LONG, self.tile[0])
        for tag in self._place_tags:
            add(tag, self._offset_type, 0, self.per_page)
        if self.resolution is not None:
            add(296, _SHORT, _CENTIMETER)
        for tag, (count, content) in self._long_values.items():
            if tag in {270, 305} and not is_first:
                continue
            kind = {270: _ASCII, 305: _ASCII, 282: _RATIONAL, 283: _RATIONAL}.get(tag, _SHORT)
            if len(content) <= self._width:
                found.append((tag, kind, count, content.ljust(self._width, b"\0")))
            else:
                add(tag, self._offset_type, places[tag], count)
                found[-1] = (tag, kind, count, found[-1][3])
        return sorted(found)

    @property
    def _place_tags(self) -> tuple[int, int]:
        return (324, 325) if self.is_tiled else (273, 279)

    def _directory(self, *, is_first: bool) -> bytes:
        tags = self._tags(is_first=is_first)
        order, count = self._order, "Q" if self.is_big else "H"
        width = "Q" if self.is_big else "I"
        entries = [
            struct.pack(f"{order}HH{width}", tag, kind, n) + value for tag, kind, n, value in tags
        ]
        body = struct.pack(f"{order}{count}", len(tags)) + b"".join(entries) + bytes(self._width)
        return body + bytes(-len(body) % 8)

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """Bytes of the first directory and of each other one; values do not change them."""
        first, others = (len(self._tags_without_places(is_first)) for is_first in (True, False))
        entry, fixed = (20, 16) if self.is_big else (12, 6)
        sizes = [fixed + entry * n_tags for n_tags in (first, others)]
        return -(-sizes[0] // 8) * 8, -(-sizes[1] // 8) * 8

    def _tags_without_places(self, is_first: bool) -> set[int]:  # noqa: FBT001 - see above
        tags = {254, 256, 257, 259, 262, 277, 284, *self._place_tags, *self._long_values}
        tags |= {322, 323} if self.is_tiled else {278}
        tags |= {296} if self.resolution is not None else set()
        return tags if is_first else tags - {270, 305}

    @cached_property
    def _places_of_values(self) -> dict[int, int]:
        """Where long values are: after the directories, each at a multiple of 8."""
        first, others = self._ends
        at, found = self._head + first + others * (self.n_pages - 1), {}
        for tag, (_, content) in self._long_values.items():
            if len(content) > self._width:
                found[tag] = at
                at += -(-len(content) // 8) * 8
        found[0] = at
        return found

    @property
    def _tables(self) -> int:
        """Where the offsets and sizes of tiles are, if a page has several."""
        return self._places_of_values[0]

    @property
    def _values(self) -> list[tuple[int, bytes]]:
        places = self._places_of_values
        return [
            (places[tag], content)
            for tag, (_, content) in self._long_values.items()
            if tag in places
        ]

    def _place_tiles(
        self, made: NDArray[np.uint8], offsets: NDArray[np.uint64], counts: NDArray[np.uint64]
    ) -> None:
        """Write the offsets and sizes of tiles, and the offset of each next directory."""
        number = np.dtype(f"{self._order}u{self._width}")
        first, others = self._ends
        pages = np.arange(self.n_pages)
        starts = np.where(pages, self._head + first + (pages - 1) * others, self._head)
        for which, values in enumerate((offsets, counts)):
            table = values.reshape(self.n_pages, self.per_page)
            if self.per_page == 1:
                inline = table[:, 0]
            else:
                at = self._tables + which * self._table_bytes
                made[at : at + self._table_bytes] = table.astype(number).reshape(-1).view(np.uint8)
                inline = (at + pages * self.per_page * self._width).astype(np.uint64)
            self._set(made, starts, self._place_tags[which], inline.astype(number))
        following = np.append(starts[1:], 0).astype(number)
        self._set(made, starts, 0, following)

    def _set(
        self, made: NDArray[np.uint8], starts: NDArray[Any], tag: int, values: NDArray[Any]
    ) -> None:
        """Set the value of a tag in all directories; tag 0 is the offset of the next directory."""
        entry, before = (20, 8) if self.is_big else (12, 2)
        raw = values.view(np.uint8).reshape(-1, self._width)
        for is_first, which in ((True, slice(0, 1)), (False, slice(1, None))):
            tags = [each[0] for each in self._tags(is_first=is_first)]
            number = tags.index(tag) + 1 if tag else len(tags)
            at = before + number * entry - (self._width if tag else 0)
            places = starts[which, None] + at + np.arange(self._width)
            made[places] = raw[which]


def pages_for(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    description: bytes,
    *,
    samples_last: bool = False,
    tile: tuple[int, int] | None = None,
    compression: int = 1,
    is_big: bool = False,
    resolution: tuple[float, float] | None = None,
) -> Pages:
    """Return the pages of an array: the last two axes are a page, the others number the pages.

    Without a tile shape, a page is one strip, or a few if it is very large. BigTIFF is chosen if
    the file may exceed 4 GiB.

    Raises
    ------
    ValueError
        If TIFF cannot hold the array; the message completes "the format ...".
    """
    samples = shape[-1] if samples_last else 1
    *leading, rows, columns = (1, 1, *(shape[:-1] if samples_last else shape))
    row_bytes = max(1, columns * samples * dtype.itemsize)
    whole = min(rows, max(1, _LONGEST_STRIP // row_bytes))

    def make(*, is_big: bool) -> Pages:
        return Pages(
            prod(leading),
            rows,
            columns,
            samples,
            dtype,
            description,
            tile or (max(1, whole), 0),
            compression,
            is_big,
            resolution,
        )

    pages = make(is_big=is_big)
    # A tile that cannot be compressed grows a little.
    n_tiles = pages.n_pages * pages.per_page
    growth = pages.data_bytes // 8 + 4096 * n_tiles if compression != 1 else 0
    if not is_big and pages.size + pages.data_bytes + growth > _MOST_CLASSIC:
        return make(is_big=True)
    return pages


def _ratio(number: float) -> tuple[int, int]:
    """Return a number as a fraction of two 32-bit numbers."""
    scale = _PRECISION
    while scale > 1 and number * scale >= 2**32:
        scale //= 10
    return max(1, round(number * scale)), scale
