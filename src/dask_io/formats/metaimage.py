"""MetaImage (``.mha``): lines of ``name = value``, then the elements, the first axis fastest.

The elements may be in another file that the header names (``.mhd``). Compressed data is read, but
not written. Channels become the first axis of the array. Any number of blocks may be read or
written at once.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import hypot
from typing import TYPE_CHECKING

import numpy as np

from dask_io.geometry import Layout
from dask_io.stores.block_format import ENCODING, Format, Header
from dask_io.stores.gzip_targets import Gzip
from dask_io.stores.header_parsing import (
    LONGEST_HEADER,
    affine_of,
    check_name,
    check_shape,
    columns_of,
    decode_text,
    dtype_name,
    encode_padded,
    end_of,
    lines_in,
    parse_floats,
    parse_ints,
    read_until,
    to_text,
)
from dask_io.stores.kept_headers import with_header
from dask_io.stores.space import AxisType, Space, SpaceAxis, reorient
from dask_io.stores.unit_words import is_same_unit

if TYPE_CHECKING:
    from dask_io.stores.block_format import Peek
    from dask_io.stores.space import Affine

# ITK's world: coordinates grow to the patient's left, back and head.
_WORLD = ("left", "posterior", "superior")
_CHANNEL = SpaceAxis("channel", type=AxisType.CHANNEL)
_TYPES = {"i1": "MET_CHAR", "u1": "MET_UCHAR", "i2": "MET_SHORT", "u2": "MET_USHORT"}
_TYPES |= {"i4": "MET_INT", "u4": "MET_UINT", "i8": "MET_LONG_LONG", "u8": "MET_ULONG_LONG"}
_TYPES |= {"f4": "MET_FLOAT", "f8": "MET_DOUBLE"}
_CODES = {name: code for code, name in _TYPES.items()} | {"MET_LONG": "i4", "MET_ULONG": "u4"}
_ORIGIN, _MATRIX = ("Offset", "Position", "Origin"), ("TransformMatrix", "Rotation", "Orientation")
_BYTE_ORDER = ("BinaryDataByteOrderMSB", "ElementByteOrderMSB")
# Entries that are computed for every block, or that are not true of a part of an array.
_OWN = {*_ORIGIN, *_MATRIX, *_BYTE_ORDER, "ObjectType", "NDims", "DimSize", "BinaryData"}
_OWN |= {"CompressedData", "CompressedDataSize", "HeaderSize", "ElementSpacing", "ElementSize"}
_OWN |= {"ElementNumberOfChannels", "ElementType", "ElementDataFile", "ElementMin", "ElementMax"}
_OWN |= {"DistanceUnits"}
_UNITS = ("mm", "um", "cm")
_LAST = re.compile(rb"(?:^|\n)[ \t]*ElementDataFile[ \t]*=[^\n]*\n")
_LOCAL, _LIST = "LOCAL", "LIST"
_ZLIB = "zlib"


def parse_header(peek: Peek) -> Header:
    """Read a header without trusting it."""
    if not re.match(rb"\s*\w+[ \t]*=", peek(64)):
        raise ValueError("is not a MetaImage file: it does not begin as one")
    content = read_until(peek, end_of(_LAST), or_whole=True)
    pairs = (line.partition("=") for line in decode_text(content).split("\n"))
    fields = {name.strip(): value.strip() for name, equals, value in pairs if equals}
    if "ElementDataFile" not in fields:
        raise ValueError("is truncated: it ends within its header")
    if missing := {"NDims", "DimSize", "ElementType"} - fields.keys():
        raise ValueError(f"has a header without {', '.join(sorted(missing))}")
    offset, data_file = _find_data(fields, len(content))
    code = _CODES.get(fields["ElementType"].removesuffix("_ARRAY"))
    if code is None:
        raise ValueError(f"has elements of type {fields['ElementType']!r:.30}, which is not known")
    is_big = any(_is_true(fields, key) for key in _BYTE_ORDER)
    dtype, shape = np.dtype((">" if is_big else "<") + code), parse_ints(fields["DimSize"], "sizes")
    check_shape(shape, dtype)
    if parse_ints(fields["NDims"], "dimensions") != (len(shape),):
        raise ValueError("has a header whose NDims and DimSize differ")
    space = _space(fields, len(shape))
    channels = parse_ints(fields.get("ElementNumberOfChannels", "1"), "channels")
    if channels != (1,):
        shape = (*channels, *shape)
        space = _with_channels(space)
        check_shape(shape, dtype)
    kept = {name: value for name, value in fields.items() if _is_kept(name)}
    metadata = with_header("metaimage", kept)
    if _is_true(fields, "CompressedData"):
        metadata[ENCODING] = _ZLIB
    layout = Layout.f(len(shape))
    return Header(shape, dtype, layout, offset, space, metadata, data_file=data_file)


def _find_data(fields: dict[str, str], n_header: int) -> tuple[int, str]:
    """Return where the data begins, and the name of its file; empty if it follows the header."""
    data_file = fields["ElementDataFile"]
    if data_file.split()[:1] == [_LIST] or "%" in data_file:
        raise ValueError("has its data in several files, which is not supported; join them first")
    if not _is_true(fields, "BinaryData", default="True"):
        raise ValueError("has its data as text; only binary MetaImage files are read")
    is_local, is_compressed = data_file.upper() == _LOCAL, _is_true(fields, "CompressedData")
    offset = sum(parse_ints(fields.get("HeaderSize", "0"), "HeaderSize"))
    if offset < 0 or (offset and (is_local or is_compressed)):
        raise ValueError("has a HeaderSize that is not supported; only raw data files can have one")
    return (n_header, "") if is_local else (offset, data_file)


def _is_kept(name: str) -> bool:
    return name.strip() not in _OWN and "=" not in name


def _is_true(fields: dict[str, str], key: str, default: str = "False") -> bool:
    return fields.get(key, default)[:1].upper() in {"T", "1"}


def _space(fields: dict[str, str], n_axes: int) -> Space:
    unit = fields.get("DistanceUnits", "").lower()
    axes = (SpaceAxis(unit=unit if unit in _UNITS else None),) * n_axes
    spacing = fields.get("ElementSpacing", fields.get("ElementSize"))
    origin = next((fields[key] for key in _ORIGIN if key in fields), None)
    if spacing is None and origin is None:
        return Space(axes)
    steps = (1.0,) * n_axes if spacing is None else parse_floats(spacing, "ElementSpacing")
    lows = (0.0,) * n_axes if origin is None else parse_floats(origin, "Offset")
    one = " ".join("1" if i % (n_axes + 1) == 0 else "0" for i in range(n_axes**2))
    text = next((fields[key] for key in _MATRIX if key in fields), one)
    cosines = parse_floats(text, "TransformMatrix")
    if (len(steps), len(lows), len(cosines)) != (n_axes, n_axes, n_axes**2):
        raise ValueError(
            "has a header whose ElementSpacing, Offset or TransformMatrix is not whole"
        )
    columns = [
        [step * n for n in cosines[axis * n_axes : (axis + 1) * n_axes]]
        for axis, step in enumerate(steps)
    ]
    names = _WORLD if n_axes == len(_WORLD) else ()
    return Space(axes, affine_of(columns, lows, names))


def _with_channels(space: Space) -> Space:
    affine = space.affine
    if affine is not None:
        columns = [(0.0,) * len(affine.origin), *columns_of(affine)]
        affine = affine_of(columns, affine.origin, affine.coordinates)
    return Space((_CHANNEL, *space.axes), affine)


def make_header(block: Header) -> bytes:
    """Return a header with spaces before its last word as padding, or one without data."""
    shape, space, kind = block.shape, block.space, dtype_name(block.dtype, _TYPES)
    n_channels = 1
    if space is not None and space.axes[0] == _CHANNEL and len(shape) > 1:
        n_channels, shape = shape[0], shape[1:]
    lines = ["ObjectType = Image", f"NDims = {len(shape)}", "BinaryData = True"]
    lines += [f"{_BYTE_ORDER[0]} = {block.dtype.str[0] == '>'}", "CompressedData = False"]
    lines += _space_lines(space, len(shape)) if space is not None else []
    kept = lines_in(block.metadata, "metaimage")
    # The entries may come from another store's attributes, not from a MetaImage file.
    lines += [f"{name} = {value}" for name, value in kept.items() if _is_kept(name)]
    lines += [f"DimSize = {to_text(shape)}", f"ElementNumberOfChannels = {n_channels}"]
    lines += [f"ElementType = {kind}", "ElementDataFile = "]
    text = "\n".join(lines)
    if block.data_file:
        return f"{text}{check_name(block.data_file)}\n".encode()
    return encode_padded(text, f"{_LOCAL}\n")


def _space_lines(space: Space, n_axes: int) -> list[str]:
    units = {axis.unit for axis in space.axes[-n_axes:]}
    unit = units.pop() if len(units) == 1 else None
    word = next((word for word in _UNITS if is_same_unit(word, unit)), None)
    lines = [] if word is None else [f"DistanceUnits = {word}"]
    affine = _square(space, n_axes)
    if affine is None:
        return lines
    columns = columns_of(affine)[-n_axes:]
    steps = [hypot(*column) for column in columns]
    cosines = [n / step for column, step in zip(columns, steps, strict=True) for n in column]
    lines += [f"TransformMatrix = {to_text(cosines)}", f"Offset = {to_text(affine.origin)}"]
    return [*lines, f"ElementSpacing = {to_text(steps)}"]


def _square(space: Space, n_axes: int) -> Affine | None:
    """Return the map if MetaImage can hold it: a coordinate for each axis, and steps above 0."""
    names = space.affine.coordinates if space.affine is not None else ()
    worlds = [_WORLD, ("x", "y", "z"), ("x", "y")] if names else [()]
    found = next(filter(None, (reorient(space, world) for world in worlds)), None)
    affine = None if found is None else found.affine
    if affine is None or len(affine.origin) != n_axes:
        return None
    return affine if all(any(column) for column in columns_of(affine)[-n_axes:]) else None


_ATTACHED = Format(
    "metaimage",
    (".mha",),
    LONGEST_HEADER,
    parse_header,
    make_header,
    has_space=True,
    keeps_header=True,
    order="F",
    names_data=True,
    encodings={_ZLIB: Gzip(after_header=True)},
)
_DETACHED = replace(_ATTACHED, suffixes=(".raw", ".zraw"), header_suffix=".mhd")
FORMAT = replace(_ATTACHED, variants=(_DETACHED,))
