"""NRRD: lines of ``field: value``, an empty line, then the elements, the first axis fastest.

The elements may be in another file that the header names (``.nhdr``). Data that is compressed with
gzip is read, but not written. Values are moved as they are, in either byte order. Any number of
blocks may be read or written at once.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import isnan
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
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis, reorient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.stores.block_format import Peek

_MOST_AXES, _MOST_COORDINATES = 16, 8
_TYPES = {"i1": "int8", "u1": "uint8", "i2": "int16", "u2": "uint16", "i4": "int32", "u4": "uint32"}
_TYPES |= {"i8": "int64", "u8": "uint64", "f4": "float", "f8": "double"}
_SYNONYMS = {"char": "i1", "short": "i2", "int": "i4", "longlong": "i8"}
_EMPTY_LINE = re.compile(rb"\n\r?\n")
_GZIP = "gzip"
_ENCODINGS = {"raw": "", "gzip": _GZIP, "gz": _GZIP}
# A list of files, or a pattern with the first number, the last one, and the step.
_MANY_FILES = re.compile(r"LIST( \d+)?|.*%.*( -?\d+){3,4}")
_LINE = re.compile(r"([^:]+):(=?)\s*(.*)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_VECTOR = re.compile(r"\(([^()]*)\)|(none)")
_SPACES = {
    "ras": "right-anterior-superior",
    "las": "left-anterior-superior",
    "lps": "left-posterior-superior",
}
_SPACES |= {f"{short}t": f"{name}-time" for short, name in _SPACES.items()}
_KINDS = {"domain": AxisType.SPACE, "space": AxisType.SPACE, "time": AxisType.TIME}
# Entries that are computed for every block, or that are not true of a part of an array.
_OWN = {"type", "dimension", "sizes", "encoding", "endian", "byteskip", "lineskip", "datafile"}
_OWN |= {"labels", "units", "spaceunits", "spacedimension", "spacedirections", "spaceorigin"}
_OWN |= {"spacings", "axismins", "axismaxs", "min", "max", "number", "blocksize"}
_PER_AXIS = {"kinds", "centers", "centerings", "thicknesses"}


def parse_header(peek: Peek) -> Header:
    """Read a header without trusting it."""
    if peek(4) != b"NRRD":
        raise ValueError("is not an NRRD file: it does not begin as one")
    content = read_until(peek, end_of(_EMPTY_LINE), or_whole=True)
    lines = [line.rstrip("\r") for line in decode_text(content).split("\n")[1:]]
    found = [_LINE.fullmatch(line) for line in lines if line and not line.startswith("#")]
    entries = [(m[1].strip(), m[2], m[3].strip()) for m in found if m]
    fields = {_compact(name): value for name, pair, value in entries if not pair}
    if missing := {"type", "dimension", "sizes", "encoding"} - fields.keys():
        raise ValueError(f"has a header without {', '.join(sorted(missing))}")
    data_file, encoding = fields.get("datafile", ""), _ENCODINGS.get(fields["encoding"].lower())
    if not data_file and not _EMPTY_LINE.search(content):
        raise ValueError("is truncated: it ends within its header")
    if _MANY_FILES.fullmatch(data_file):
        raise ValueError("has its data in several files, which is not supported; join them first")
    if encoding is None:
        word = fields["encoding"]
        raise ValueError(f"is encoded as {word!r:.20}; only raw and gzip NRRD files are read")
    offset = _skip(fields, is_raw=not encoding) + (0 if data_file else len(content))
    dtype, shape = _dtype(fields), parse_ints(fields["sizes"], "sizes")
    check_shape(shape, dtype, _MOST_AXES)
    if parse_ints(fields["dimension"], "dimensions") != (len(shape),):
        raise ValueError("has a header whose dimension and sizes differ")
    kept = {name + pair: value for name, pair, value in entries if pair or _is_kept(name)}
    metadata = with_header("nrrd", kept) | ({ENCODING: encoding} if encoding else {})
    layout, space = Layout.f(len(shape)), _space(fields, len(shape))
    return Header(shape, dtype, layout, offset, space, metadata, data_file=data_file)


def _skip(fields: dict[str, str], *, is_raw: bool) -> int:
    """Return the number of bytes before the data."""
    words = (fields.get(key, "0") for key in ("byteskip", "lineskip"))
    n_bytes, n_lines = (sum(parse_ints(word, "skips")) for word in words)
    if n_lines or n_bytes < 0 or (n_bytes and not is_raw):
        raise ValueError("has a line skip, or a byte skip that is not supported")
    return n_bytes


def _compact(name: str) -> str:
    return name.lower().replace(" ", "")


def _is_kept(name: str) -> bool:
    return _compact(name) not in _OWN


def _is_line(name: str) -> bool:
    """Tell whether a kept entry may be written: it is read back as the same entry."""
    if ":" in name or name.startswith("#") or name != name.strip():
        return False
    return name.endswith("=") or _is_kept(name)


def _dtype(fields: dict[str, str]) -> np.dtype[np.generic]:
    name = fields["type"].lower()
    code = next((code for code, ours in _TYPES.items() if name in {ours, f"{ours}_t"}), "")
    if not code:
        is_unsigned = name.startswith(("u", "unsigned"))
        word = "".join(name.removeprefix("unsigned").removeprefix("signed").split())
        word = word.removeprefix("u") if is_unsigned else word
        word = word if word == "int" else word.removesuffix("int")
        code = _SYNONYMS.get(word, "")
        code = code.replace("i", "u") if is_unsigned else code
    if not code:
        raise ValueError(f"has elements of type {name!r:.30}, which is not supported")
    dtype = np.dtype(code)
    if dtype.itemsize == 1:
        return dtype
    order = {"little": "<", "big": ">"}.get(fields.get("endian", "").lower())
    if order is None:
        raise ValueError("has a header that does not say endian: little or big")
    return np.dtype(order + code)


def _space(fields: dict[str, str], n_axes: int) -> Space | None:
    labels, units = (_quoted(fields.get(key, ""), n_axes) for key in ("labels", "units"))
    kinds = [word.lower() for word in fields.get("kinds", "").split()]
    kinds = kinds if len(kinds) == n_axes else ["none"] * n_axes
    affine = _affine(fields, n_axes)
    if affine is not None and "spacedirections" in fields:
        world, rows = _quoted(fields.get("spaceunits", ""), len(affine.origin)), affine.rows_of_axes
        for axis, column in enumerate(columns_of(affine)):
            if any(column):
                same = world[0] if len(set(world)) == 1 else ""
                units[axis] = world[rows[axis]] if rows is not None else same
    axes = [
        SpaceAxis(label or None, unit or None, _axis_type(kind))
        for label, unit, kind in zip(labels, units, kinds, strict=True)
    ]
    space = Space(tuple(axes), affine)
    return space if space.is_known else None


def _axis_type(kind: str) -> AxisType | None:
    return None if kind in {"none", "???"} else _KINDS.get(kind, AxisType.CHANNEL)


def _quoted(text: str, count: int) -> list[str]:
    found = [re.sub(r"\\(.)", r"\1", word) for word in _QUOTED.findall(text)]
    return (
        ["" if word == "???" else word for word in found] if len(found) == count else [""] * count
    )


def _affine(fields: dict[str, str], n_axes: int) -> Affine | None:
    if "spacedirections" not in fields:
        return _scaled(fields, n_axes)
    columns = [
        None if none else parse_floats(vector.replace(",", " "), "space directions")
        for vector, none in _VECTOR.findall(fields["spacedirections"].lower())
    ]
    n_rows = next((len(column) for column in columns if column is not None), 0)
    if len(columns) != n_axes or not 1 <= n_rows <= _MOST_COORDINATES:
        raise ValueError("has a header whose space directions are not one vector for each axis")
    origin = fields.get("spaceorigin", "").strip("() ").replace(",", " ")
    name = fields.get("space", "").lower()
    words = tuple(_SPACES.get(name, name).split("-"))
    if name not in {*_SPACES, *_SPACES.values()}:
        words = ("x", "y", "z", "time")[:n_rows] if name else ()
    return affine_of(
        [(0.0,) * n_rows if column is None else column for column in columns],
        parse_floats(origin, "space origin") or (0.0,) * n_rows,
        words if len(words) == n_rows else (),
    )


def _scaled(fields: dict[str, str], n_axes: int) -> Affine | None:
    """Return the map of a file without a space: the axes are the coordinates."""
    steps = parse_floats(fields.get("spacings", ""), "spacings")
    if len(steps) != n_axes or all(map(isnan, steps)):
        return None
    lows = parse_floats(fields.get("axismins", ""), "axis mins")
    lows = lows if len(lows) == n_axes else (0.0,) * n_axes
    centers = fields.get("centers", fields.get("centerings", "")).lower().split()
    is_cell = [word == "cell" for word in centers] if len(centers) == n_axes else [False] * n_axes
    axes = [axis for axis, step in enumerate(steps) if not isnan(step)]
    # The minimum of a cell-centered axis is the edge of its first element.
    has_min = "axismins" in fields
    origin = [
        (0.0 if isnan(lows[a]) else lows[a]) + (steps[a] / 2 if is_cell[a] and has_min else 0.0)
        for a in axes
    ]
    rows = range(len(axes))
    columns = [[steps[a] if a == axes[row] else 0.0 for row in rows] for a in range(n_axes)]
    return affine_of(columns, origin)


def make_header(block: Header) -> bytes:
    """Return a header with a comment as padding, or one that names its data file."""
    n_axes, dtype = len(block.shape), block.dtype
    if n_axes > _MOST_AXES:
        raise ValueError(f"has at most {_MOST_AXES} axes, not {n_axes}")
    lines = ["NRRD0005", f"type: {dtype_name(dtype, _TYPES)}", f"dimension: {n_axes}"]
    lines += [f"sizes: {to_text(block.shape)}", "encoding: raw"]
    if dtype.itemsize > 1:
        lines.append(f"endian: {'big' if dtype.str[0] == '>' else 'little'}")
    # The entries may come from another store's attributes, not from an NRRD file.
    kept = {
        name: value for name, value in lines_in(block.metadata, "nrrd").items() if _is_line(name)
    }
    by_name = {_compact(name): value for name, value in kept.items()}
    lines += _space_lines(block.space, by_name.get("space", "")) if block.space else []
    if block.space and "kinds" not in by_name:
        lines += _kind_lines(block.space)
    for name, value in kept.items():
        is_per_axis = _compact(name) in _PER_AXIS
        if name.endswith("="):
            lines.append(f"{name[:-1]}:={value}")
        elif _compact(name) != "space" and (not is_per_axis or len(value.split()) == n_axes):
            lines.append(f"{name}: {value}")
    if block.data_file:
        return "\n".join([*lines, f"data file: {check_name(block.data_file)}", ""]).encode()
    return encode_padded("\n".join([*lines, "# "]), "\n\n", "-")


def _space_lines(space: Space, name: str) -> list[str]:
    lines, units = [], [axis.unit or "" for axis in space.axes]
    affine = space.affine
    if affine is not None and len(affine.origin) <= _MOST_COORDINATES:
        affine, named = _named(space, affine, name)
        columns = columns_of(affine)
        vectors = [_vector(column) if any(column) else "none" for column in columns]
        world = _units_of_coordinates(affine, units)
        lines += [named, f"space directions: {' '.join(vectors)}"]
        lines.append(f"space origin: {_vector(affine.origin)}")
        if any(world):
            lines.append(f"space units: {_quote(world)}")
        units = ["" if any(column) else unit for unit, column in zip(units, columns, strict=True)]
    if any(units):
        lines.append(f"units: {_quote(units)}")
    if any(axis.name for axis in space.axes):
        lines.append(f"labels: {_quote([axis.name or '' for axis in space.axes])}")
    return lines


def _named(space: Space, affine: Affine, name: str) -> tuple[Affine, str]:
    """Return a map to coordinates that NRRD can name, and the line that names them."""
    own = "-".join(affine.coordinates)
    for words in sorted(_SPACES.values(), key=lambda words: words != own):
        turned = reorient(space, words.split("-"))
        if own and turned is not None and turned.affine is not None:
            return turned.affine, f"space: {words}"
    n_rows = len(affine.origin)
    if name and affine.coordinates == ("x", "y", "z", "time")[:n_rows]:
        return affine, f"space: {name}"
    return affine, f"space dimension: {n_rows}"


def _units_of_coordinates(affine: Affine, units: list[str]) -> list[str]:
    rows, columns = affine.rows_of_axes, columns_of(affine)
    used = {unit for unit, column in zip(units, columns, strict=True) if any(column)}
    if rows is not None:
        by_row = dict(zip(rows, units, strict=True))
        return [by_row.get(row, "") for row in range(len(affine.origin))]
    return [used.pop() if len(used) == 1 else ""] * len(affine.origin)


def _kind_lines(space: Space) -> list[str]:
    words = {None: "???", AxisType.SPACE: "domain", AxisType.TIME: "time"}
    kinds = [words.get(axis.type, "list") for axis in space.axes]
    return [f"kinds: {' '.join(kinds)}"] if set(kinds) != {"???"} else []


def _vector(numbers: Sequence[float]) -> str:
    return f"({','.join(to_text(numbers).split())})"


def _quote(words: list[str]) -> str:
    # A word must not end the line, or the header.
    words = [word if word.isprintable() else "" for word in words]
    return " ".join('"' + word.replace("\\", r"\\").replace('"', r"\"") + '"' for word in words)


_ATTACHED = Format(
    "nrrd",
    (".nrrd",),
    LONGEST_HEADER,
    parse_header,
    make_header,
    has_space=True,
    keeps_header=True,
    order="F",
    names_data=True,
    encodings={_GZIP: Gzip(after_header=True)},
)
_DETACHED = replace(_ATTACHED, suffixes=(".raw", ".raw.gz"), header_suffix=".nhdr")
FORMAT = replace(_ATTACHED, variants=(_DETACHED,))
