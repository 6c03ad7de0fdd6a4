"""FITS images: cards of 80 characters, then the elements in C order, big-endian, filled with zeros.

The axes are those of astropy: NAXISn comes first. Stored values are moved as they are: BZERO and
BSCALE stay in the header, and describe the scaling to other formats. The image is that of the first
header, or of the first extension if the first header has none. Any number of blocks may be read or
written at once.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.geometry import Layout
from dask_io.stores.block_format import Format, Header
from dask_io.stores.gzip_targets import gzip_variant
from dask_io.stores.header_parsing import (
    LONGEST_HEADER,
    affine_of,
    check_shape,
    dtype_name,
    read_until,
)
from dask_io.stores.kept_headers import header_in, with_header
from dask_io.stores.scaling import (
    SCALED_FLOATS,
    SCALING,
    describe_linear,
    linear,
    scaling_in,
)
from dask_io.stores.space import AxisType, Space, SpaceAxis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from dask_io.stores.block_format import Peek

_UNIT, _CARD, _MOST_AXES = 2880, 80, 999
_TYPES = {"u1": 8, "i2": 16, "i4": 32, "i8": 64, "f4": -32, "f8": -64}
_TIMES = {"TIME", "UTC", "TAI", "TT", "UT"}
# Entries that are computed for every block, or that are not true of a part of an array.
_OWN = re.compile(
    r"(SIMPLE|XTENSION|BITPIX|NAXIS\d*|EXTEND|PCOUNT|GCOUNT|GROUPS|CHECKSUM|DATASUM|DATAMIN|DATAMAX"
    r"|END|) *(=|$)"
)
_PLACE = re.compile(r"(WCSAXES|(CTYPE|CUNIT|CRPIX|CRVAL|CDELT|CROTA)\d+|(PC|CD)\d+_\d+)\s*=")
_PIXEL = re.compile(r"CRPIX(\d+)([A-Z]?) *=")
_VALUE = re.compile(r"= *('(?:[^']|'')*'|[^/]*)")


def parse_header(peek: Peek) -> Header:
    """Read a header without trusting it."""
    if not peek(10).startswith(b"SIMPLE  ="):
        raise ValueError("is not a FITS file: it does not begin with SIMPLE")
    cards, offset = _read_cards(peek, 0)
    values = _values(cards)
    if _whole(values, "NAXIS") == 0 and len(peek(offset + 8)) == offset + 8:
        cards, offset = _read_cards(peek, offset)
        values = _values(cards)
        if values.get("XTENSION") != "IMAGE":
            raise ValueError("has a table where the first image should be")
    n_axes, bits = _whole(values, "NAXIS"), _whole(values, "BITPIX")
    code = next((code for code, number in _TYPES.items() if number == bits), None)
    if code is None:
        raise ValueError(f"has BITPIX {bits}, which FITS does not define")
    if not 1 <= n_axes <= _MOST_AXES:
        raise ValueError(f"has an image of {n_axes} axes")
    if (
        _whole(values, "PCOUNT", 0)
        or _whole(values, "GCOUNT", 1) != 1
        or values.get("GROUPS") == "T"
    ):
        raise ValueError("has groups or parameters, which are not supported")
    shape = tuple(_whole(values, f"NAXIS{n}") for n in range(n_axes, 0, -1))
    dtype = np.dtype(f">{code}")
    check_shape(shape, dtype)
    kept = [card for card in cards if card and not _OWN.match(card)]
    space = _space(values, n_axes)
    metadata = {**with_header("fits", kept), **describe_linear(*_slope_and_zero(values), dtype)}
    return Header(shape, dtype, Layout.c(n_axes), offset, space, metadata)


def _read_cards(peek: Peek, start: int) -> tuple[list[str], int]:
    """Return the cards of the header that begins at a byte, and where it ends."""

    def find_end(head: bytes) -> int:
        for low in range(start, len(head) - _CARD + 1, _CARD):
            if head[low : low + 8] == b"END     ":
                end = start + -(-(low + _CARD - start) // _UNIT) * _UNIT
                return end if end <= len(head) else 0
        return 0

    content = read_until(peek, find_end)
    text = content[start:].decode("ascii", "replace")
    cards = [text[low : low + _CARD].rstrip() for low in range(0, len(text), _CARD)]
    return cards, len(content)


def _values(cards: list[str]) -> dict[str, str]:
    """Return the values of cards by keyword; the first of a keyword counts."""
    found: dict[str, str] = {}
    for card in cards:
        if card[8:9] == "=" and (value := _VALUE.match(card[8:])):
            text = value[1].strip()
            text = text[1:-1].replace("''", "'").rstrip() if text.startswith("'") else text
            found.setdefault(card[:8].rstrip(), text)
    return found


def _whole(values: Mapping[str, str], key: str, default: int | None = None) -> int:
    text = values.get(key, "" if default is None else str(default))
    if not re.fullmatch(r"[+-]?\d{1,18}", text):
        raise ValueError(f"has a header without {key}, or it is not a whole number")
    return int(text)


def _number(values: Mapping[str, str], key: str, default: float) -> float:
    try:
        return float(values.get(key, str(default)).replace("D", "E"))
    except ValueError as error:
        raise ValueError(f"has a header whose {key} is not a number") from error


def _slope_and_zero(values: Mapping[str, str]) -> tuple[float, float]:
    """Return BSCALE and BZERO, or 1 and 0 if they are not finite."""
    slope, zero = _number(values, "BSCALE", 1), _number(values, "BZERO", 0)
    return (slope, zero) if np.isfinite((slope, zero)).all() else (1.0, 0.0)


def _keep_scaling(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scaling of a source if the cards that are written again have it."""
    cards = header_in(metadata, "fits")
    if not isinstance(cards, list):
        return {}
    slope, zero = _slope_and_zero(_values([card for card in cards if _is_card(card)]))
    scaling = scaling_in(metadata)
    if scaling is not None:
        own = linear(slope, zero, scaling.valid)
        is_same = own is not None and own.is_same(scaling)
        return {SCALING: metadata[SCALING]} if is_same else {}
    is_same = metadata.get(SCALED_FLOATS) == [slope, zero]
    return {SCALED_FLOATS: [slope, zero]} if is_same else {}


class _Wcs:
    """The linear part of a header's world coordinate system, in the order of FITS axes."""

    def __init__(self, values: Mapping[str, str], n_axes: int) -> None:
        numbers = [int(m[1]) for key in values if (m := re.fullmatch(r"C(?:RPIX|TYPE)(\d+)", key))]
        n = min(max([n_axes, _whole(values, "WCSAXES", 0), *numbers]), n_axes + 8)
        self.pixel = np.array([_number(values, f"CRPIX{i + 1}", 0) for i in range(n)])
        self.value = np.array([_number(values, f"CRVAL{i + 1}", 0) for i in range(n)])
        self.names = [values.get(f"CTYPE{i + 1}", "") for i in range(n)]
        self.units = [values.get(f"CUNIT{i + 1}", "") for i in range(n)]
        has_cd = any(re.fullmatch(r"CD\d+_\d+", key) for key in values)
        word, diagonal = ("CD", 0) if has_cd else ("PC", 1)
        self.matrix = np.array(
            [
                [_number(values, f"{word}{i + 1}_{j + 1}", diagonal * (i == j)) for j in range(n)]
                for i in range(n)
            ]
        )
        if not has_cd:
            steps = [_number(values, f"CDELT{i + 1}", 1) for i in range(n)]
            self.matrix = (
                _rotation(values, n) @ np.diag(steps)
                if _is_old(values)
                else (np.diag(steps) @ self.matrix)
            )

    @property
    def is_known(self) -> bool:
        """Whether all numbers can be used."""
        return bool(np.isfinite([*self.pixel, *self.value, *self.matrix.flat]).all())


def _is_old(values: Mapping[str, str]) -> bool:
    return _number(values, "CROTA2", 0) != 0 and not any(key.startswith("PC") for key in values)


def _rotation(values: Mapping[str, str], n: int) -> NDArray[Any]:
    angle, turned = np.deg2rad(_number(values, "CROTA2", 0)), np.eye(n)
    turned[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return turned


def _space(values: Mapping[str, str], n_axes: int) -> Space | None:
    if not any(_PLACE.match(f"{key}=") for key in values):
        return None
    wcs = _Wcs(values, n_axes)
    axes = tuple(
        SpaceAxis(name or None, unit or None, AxisType.TIME if name in _TIMES else None)
        for name, unit in list(zip(wcs.names, wcs.units, strict=True))[:n_axes][::-1]
    )
    has_place = any(re.match(r"(CRPIX|CRVAL|CDELT|PC|CD)\d", key) for key in values)
    if not has_place or not wcs.is_known:
        return Space(axes)
    origin = wcs.value + wcs.matrix @ (1 - wcs.pixel)
    columns = wcs.matrix[::-1, n_axes - 1 :: -1].T if n_axes else wcs.matrix
    names = wcs.names[::-1] if all(wcs.names) and len(set(wcs.names)) == len(wcs.names) else []
    return Space(axes, affine_of(columns.tolist(), origin[::-1].tolist(), names))


def make_header(block: Header) -> bytes:
    """Return a header of as many units of 2880 bytes as it needs."""
    bits, n_axes = dtype_name(block.dtype, _TYPES), len(block.shape)
    cards = [_card("SIMPLE", "T"), _card("BITPIX", str(bits)), _card("NAXIS", str(n_axes))]
    cards += [_card(f"NAXIS{n}", str(size)) for n, size in enumerate(reversed(block.shape), 1)]
    kept = header_in(block.metadata, "fits")
    kept = [c for c in kept if _is_card(c)] if isinstance(kept, list) else []
    if block.dtype.kind == "f":
        kept = [card for card in kept if not card.startswith("BLANK ")]
    cards += _placed(kept, block.space, n_axes)
    text = "".join(card.ljust(_CARD) for card in [*cards, "END"])
    return text.encode("ascii").ljust(-(-len(text) // _UNIT) * _UNIT)


def _is_card(text: object) -> bool:
    is_text = isinstance(text, str) and text.isascii() and text.isprintable()
    return is_text and len(str(text)) <= _CARD and not _OWN.match(str(text))


def _card(key: str, value: str) -> str:
    return f"{key:8}= {value:>20}" if not value.startswith("'") else f"{key:8}= {value}"


def _placed(kept: list[str], space: Space | None, n_axes: int) -> list[str]:
    """Return the cards of a block: reference pixels are counted from its own first element."""
    if space is None:
        return kept
    shift = _shift(kept, space, n_axes)
    if shift is None:
        return [card for card in kept if not _PLACE.match(card)] + _new_cards(space)
    made = []
    for card in kept:
        found = _PIXEL.match(card)
        if found and int(found[1]) <= len(shift) and shift[int(found[1]) - 1]:
            key = card[:8].rstrip()
            value = _number(_values([card]), key, 0) - shift[int(found[1]) - 1]
            made.append(_card(key, _to_text(value)))
        else:
            made.append(card)
    return made


def _shift(kept: list[str], space: Space, n_axes: int) -> list[int] | None:
    """Return the offset of a block from the image of the cards; None if they do not match."""
    values = _values(kept)
    if space.affine is None or not any(_PIXEL.match(f"{key}=") for key in values):
        return None
    wcs = _Wcs(values, n_axes)
    columns = np.array(space.affine.matrix)[::-1, ::-1]
    is_same = columns.shape == wcs.matrix[:, :n_axes].shape and np.allclose(
        columns, wcs.matrix[:, :n_axes], rtol=1e-9, atol=0
    )
    if not is_same or not wcs.is_known or not np.linalg.det(wcs.matrix):
        return None
    inside = np.linalg.solve(wcs.matrix, np.array(space.affine.origin)[::-1] - wcs.value)
    shift = inside - (1 - wcs.pixel)
    # Blocks begin at whole elements; the rest is rounding.
    return [round(n) for n in shift] if (abs(shift - shift.round()) < 1e-3).all() else None  # noqa: PLR2004


def _new_cards(space: Space) -> list[str]:
    cards, affine = [], space.affine
    is_square = affine is not None and len(affine.origin) == len(space.axes)
    # CTYPE is the name of a coordinate; the axes of the image itself have no names.
    names = affine.coordinates if is_square and affine is not None else ()
    for n, axis in enumerate(reversed(space.axes), 1):
        name = names[-n] if names else axis.name
        for key, word in ((f"CTYPE{n}", name), (f"CUNIT{n}", axis.unit)):
            if word and word.isascii() and word.isprintable():
                quoted = word.replace("'", "''")[:60]
                cards.append(_card(key, f"'{quoted:8}'"))
    if affine is None or not is_square:
        return cards
    matrix, origin = np.array(affine.matrix)[::-1, ::-1], affine.origin[::-1]
    is_scaled = not (matrix - np.diag(np.diag(matrix))).any()
    for n, low in enumerate(origin, 1):
        cards += [_card(f"CRPIX{n}", "1.0"), _card(f"CRVAL{n}", _to_text(low))]
        if is_scaled:
            cards.append(_card(f"CDELT{n}", _to_text(matrix[n - 1, n - 1])))
        else:
            row = enumerate(matrix[n - 1], 1)
            cards += [_card(f"CD{n}_{j}", _to_text(number)) for j, number in row]
    return cards


def _to_text(number: float) -> str:
    return repr(float(number)).upper()


def _trailer(n_bytes: int) -> int:
    return -n_bytes % _UNIT


def _refuse_gzip(block: Header) -> bytes:
    raise ValueError(
        f"is read, but not written, with gzip; write {block.dtype} elements to a .fits file"
    )


_PLAIN = Format(
    "fits",
    (".fits", ".fit", ".fts"),
    2 * LONGEST_HEADER,
    parse_header,
    make_header,
    has_space=True,
    keeps_header=True,
    order="C",
    byte_order=">",
    trailer=_trailer,
    keep=_keep_scaling,
)
# It is not known which FITS libraries read several gzip members, so none are written.
_GZIP = replace(
    gzip_variant(_PLAIN, ".fits.gz", ".fit.gz", ".fts.gz"),
    make_header=_refuse_gzip,
    is_read_only=True,
)
FORMAT = replace(_PLAIN, variants=(_GZIP,))
