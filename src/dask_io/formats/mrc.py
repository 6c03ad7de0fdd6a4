"""MRC and CCP4 maps: a header of 1024 bytes, an extended header, then the elements in C order.

Axes are those of mrcfile: a 2-D image, a volume or a stack of images (z, y, x), or a stack of
volumes. Values are moved as they are, in either byte order. Any number of blocks may be read or
written at once.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.geometry import Layout
from dask_io.stores.block_format import Format, Header
from dask_io.stores.gzip_targets import gzip_variant
from dask_io.stores.header_parsing import affine_of, check_shape, decode_text, dtype_name
from dask_io.stores.kept_headers import header_in, with_header
from dask_io.stores.space import AxisType, Space, SpaceAxis
from dask_io.stores.unit_words import length_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dask_io.stores.block_format import Peek

_LENGTH, _LONGEST_EXTENDED, _LONGEST_AXIS = 1024, 2**26, 2**31 - 1
_MODES = {"i1": 0, "i2": 1, "f4": 2, "c8": 4, "u2": 6, "f2": 12}
_HEADER = np.dtype(
    [
        ("n", "<i4", 3),
        ("mode", "<i4"),
        ("nstart", "<i4", 3),
        ("m", "<i4", 3),
        ("cella", "<f4", 3),
        ("cellb", "<f4", 3),
        ("map", "<i4", 3),
        ("statistics", "<f4", 3),
        ("ispg", "<i4"),
        ("nsymbt", "<i4"),
        ("extra", "V8"),
        ("exttyp", "S4"),
        ("nversion", "<i4"),
        ("extra2", "V84"),
        ("origin", "<f4", 3),
        ("MAP", "S4"),
        ("machst", "u1", 4),
        ("rms", "<f4"),
        ("nlabl", "<i4"),
        ("label", "S80", 10),
    ]
)
_LARGEST = float(np.finfo(np.float32).max)
_EDGES, _SKEWED = "xyz", "abc"
_FIRST_STACK, _LAST_STACK = 401, 630
# The usual space group by the number of axes: an image, a volume, a stack of volumes.
_GROUPS = {2: 0, 3: 1, 4: _FIRST_STACK}


def parse_header(peek: Peek) -> Header:
    """Read a header without trusting it."""
    content = peek(_LENGTH)
    if content[208:211] != b"MAP":
        raise ValueError("is not an MRC file: it does not have MAP at byte 208")
    if len(content) < _LENGTH:
        raise ValueError("is truncated: it ends within its header")
    found = np.frombuffer(content, _HEADER)[0]
    # Some programs leave the machine stamp empty, but modes are small numbers.
    is_big = found["machst"][0] == 0x11 or abs(int(found["mode"])) >= 2**16  # noqa: PLR2004
    found = np.frombuffer(content, _HEADER.newbyteorder(">" if is_big else "<"))[0]
    code = next((code for code, mode in _MODES.items() if mode == found["mode"]), None)
    if code is None:
        raise ValueError(f"has elements of mode {found['mode']}, which is not supported")
    if not 0 <= found["nsymbt"] <= _LONGEST_EXTENDED:
        raise ValueError(f"claims an extended header of {found['nsymbt']} bytes")
    dtype, shape = np.dtype((">" if is_big else "<") + code), _shape(found)
    check_shape(shape, dtype)
    space, offset = _space(found, len(shape)), _LENGTH + int(found["nsymbt"])
    return Header(shape, dtype, Layout.c(len(shape)), offset, space, _metadata(found, len(shape)))


def _metadata(found: Any, n_axes: int) -> dict[str, Any]:
    """Return the other entries, without those that have their usual value."""
    labels = [
        decode_text(bytes(text)).rstrip() for text in found["label"][: max(0, found["nlabl"])]
    ]
    kept: dict[str, Any] = {"labels": labels} if labels else {}
    if found["ispg"] != _GROUPS[n_axes]:
        kept["ispg"] = int(found["ispg"])
    if not _is_right(found):
        kept["cellb"] = np.nan_to_num(found["cellb"]).tolist()
    extended = {"extended_header": [decode_text(bytes(found["exttyp"]))]} if found["nsymbt"] else {}
    return with_header("mrc", kept) | extended


def _is_right(found: Any) -> bool:
    return all(angle in {0, 90} for angle in found["cellb"])


def _shape(found: Any) -> tuple[int, ...]:
    nx, ny, nz = map(int, found["n"])
    group, mz = int(found["ispg"]), int(found["m"][2])
    if _FIRST_STACK <= group <= _LAST_STACK:
        if mz < 1 or nz % mz:
            raise ValueError(f"has {nz} sections, which are not a number of volumes of {mz}")
        return nz // mz, mz, ny, nx
    return (ny, nx) if group == 0 and nz == 1 else (nz, ny, nx)


def _space(found: Any, n_axes: int) -> Space:
    """Return the cell in angstrom: its size over its intervals is the size of a voxel."""
    numbers = [int(n) - 1 for n in found["map"]]
    numbers = numbers if sorted(numbers) == [0, 1, 2] else [0, 1, 2]
    cell, n_intervals = found["cella"].tolist(), found["m"].tolist()
    # Words of files that come first are the fastest; those of arrays come last.
    by_axis = list(reversed(numbers[: min(n_axes, 3)]))
    is_sized = all(0 < cell[n] < np.inf and n_intervals[n] > 0 for n in by_axis)
    unit = "angstrom" if is_sized else None
    named = [SpaceAxis("xyz"[n], unit, AxisType.SPACE) for n in by_axis]
    axes = (*([SpaceAxis()] if n_axes > len(named) else []), *named)
    if not is_sized:
        return Space(axes)
    steps = [cell[n] / n_intervals[n] for n in by_axis]
    starts = found["nstart"][: len(by_axis)][::-1]
    origin = [float(found["origin"][n]) for n in by_axis]
    if not any(found["origin"]):
        origin = [float(n) * step for n, step in zip(starts, steps, strict=True)]
    columns = np.diag(steps)
    if len(axes) > len(named):
        columns = np.vstack([np.zeros(len(steps)), columns])
    # Lengths along the edges of an oblique cell are not Cartesian coordinates.
    coordinates = [(_EDGES if _is_right(found) else _SKEWED)[n] for n in by_axis]
    return Space(axes, affine_of(columns.tolist(), origin, coordinates))


def make_header(block: Header) -> bytes:
    """Return a header of MRC2014, without an extended one."""
    mode, n_axes = dtype_name(block.dtype, _MODES), len(block.shape)
    if n_axes not in {2, 3, 4}:
        raise ValueError(f"has 2, 3 or 4 axes, not {n_axes}")
    if max(*block.shape, prod(block.shape[:-2])) > _LONGEST_AXIS:
        raise ValueError(f"has at most {_LONGEST_AXIS} elements along an axis")
    is_big, kept = block.dtype.str[0] == ">", _kept(block)
    made: NDArray[Any] = np.zeros((), _HEADER.newbyteorder(">" if is_big else "<"))
    *volumes, nz, ny, nx = (1, *block.shape) if n_axes == 2 else block.shape  # noqa: PLR2004 - an image
    made["mode"], made["map"], made["cellb"] = mode, (1, 2, 3), 90
    made["n"], made["m"] = (nx, ny, nz * (volumes or [1])[0]), (nx, ny, nz)
    # A stack of one image would be read as an image.
    made["ispg"] = kept["ispg"] if kept["ispg"] or nz > 1 or n_axes == 2 else 1  # noqa: PLR2004
    # MRC2014 marks unknown statistics by a minimum above the maximum and a negative RMS.
    made["statistics"], made["rms"] = (0, -1, -2), -1
    made["MAP"], made["machst"] = b"MAP ", (0x11, 0x11, 0, 0) if is_big else (0x44, 0x44, 0, 0)
    made["nversion"], made["nlabl"] = 20141, len(kept["labels"])
    made["label"][: len(kept["labels"])] = kept["labels"]
    _set_cell(made, block.space, kept["cellb"])
    return made.tobytes()


def _kept(block: Header) -> dict[str, Any]:
    found, usual = header_in(block.metadata, "mrc"), _GROUPS.get(len(block.shape), 0)
    found = found if isinstance(found, dict) else {}
    labels, group, angles = (found.get(key) for key in ("labels", "ispg", "cellb"))
    texts = [str(text).encode()[:80] for text in labels[:10]] if isinstance(labels, list) else []
    is_stack = type(group) is int and _FIRST_STACK <= group <= _LAST_STACK
    is_group = type(group) is int and 0 <= group <= _LAST_STACK and usual > 0
    is_triple = isinstance(angles, list) and len(angles) == 3 and all(map(_is_number, angles))  # noqa: PLR2004
    return {
        "labels": texts,
        "ispg": group if is_group and is_stack == (usual == _FIRST_STACK) else usual,
        "cellb": angles if is_triple else (90, 90, 90),
    }


def _is_number(value: object) -> bool:
    # Larger numbers do not fit into single precision.
    return isinstance(value, int | float) and abs(value) <= _LARGEST


def _set_cell(made: NDArray[Any], space: Space | None, angles: Sequence[float]) -> None:
    """Write the position of a block if MRC can: steps above 0 along x, y and z, as a length."""
    if space is None or space.affine is None or len(space.affine.origin) > 3:  # noqa: PLR2004
        return
    affine = space.affine
    n_axes = len(affine.origin)
    columns = np.array(affine.matrix).T[-n_axes:, ::-1][::-1]
    steps, origin = np.diag(columns), np.array(affine.origin)[::-1]
    is_scaled = columns.shape == (n_axes, n_axes) and not (columns - np.diag(steps)).any()
    units = {axis.unit for axis in space.axes[-n_axes:]}
    ratio = length_ratio(units.pop(), "angstrom") if len(units) == 1 else None
    if ratio is None or not is_scaled or min(steps) <= 0:
        return
    steps, origin = steps * float(ratio), origin * float(ratio)
    if max(*abs(origin), *(steps * made["n"].max())) > _LARGEST:
        return
    names = "".join(reversed(affine.coordinates))
    edges = _SKEWED if set(names) <= set(_SKEWED) else _EDGES
    numbers = [edges.find(name) for name in names]
    # Cells and origins are those of x, y and z; starts are those of the axes of the file.
    numbers = numbers if sorted(numbers) == list(range(n_axes)) else list(range(n_axes))
    made["map"][:n_axes] = np.array(numbers) + 1
    made["m"][numbers] = made["m"][:n_axes].copy()
    made["cella"][:] = steps[0]
    made["cella"][numbers] = steps * made["m"][numbers]
    made["origin"][numbers] = origin
    if edges is _SKEWED:
        made["cellb"] = angles
    starts = (origin / steps).round()
    # Programs read either the origin or the start; both are set if it is a whole number.
    if (abs(starts * steps - origin) < steps * 1e-3).all() and (abs(starts) < 2**31).all():
        made["nstart"][:n_axes] = starts


_PLAIN = Format(
    "mrc",
    (".mrc", ".mrcs", ".map", ".rec"),
    _LENGTH + _LONGEST_EXTENDED,
    parse_header,
    make_header,
    has_space=True,
    keeps_header=True,
    order="C",
)
FORMAT = replace(_PLAIN, variants=(gzip_variant(_PLAIN, ".mrc.gz", ".map.gz"),))
