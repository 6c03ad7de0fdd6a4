"""Analyze 7.5, for reading: a header of 348 bytes (``.hdr``), and the voxels in another file.

Pairs with the magic of NIfTI are NIfTI files. SPM's additions to the header are read as nibabel
reads them: the voxel at the origin, and the scaling. Stored values are moved as they are. Any
number of files may be read at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.geometry import Layout
from dask_io.stores.block_format import Format, Header
from dask_io.stores.header_parsing import affine_of, check_shape
from dask_io.stores.scaling import describe_linear
from dask_io.stores.space import AxisType, Space, SpaceAxis

if TYPE_CHECKING:
    from dask_io.stores.block_format import Peek
    from dask_io.stores.space import Affine

_LENGTH, _MOST_AXES, _LONGEST_OFFSET, _N_SPATIAL = 348, 7, 2**24, 3
_RGB = [("R", "u1"), ("G", "u1"), ("B", "u1")]
_TYPES: dict[int, Any] = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 32: "c8", 64: "f8", 128: _RGB}
# Name, type and offset of the fields that are used.
_FIELDS: list[tuple[str, Any, int]] = [
    ("length", "i4", 0),
    ("dim", ("i2", 8), 40),
    ("type", "i2", 70),
    ("bits", "i2", 72),
    ("steps", ("f4", 8), 76),
    ("offset", "f4", 108),
    ("slope", "f4", 112),
    ("inter", "f4", 116),
    ("cal_max", "f4", 124),
    ("cal_min", "f4", 128),
    ("gl_max", "i4", 140),
    ("gl_min", "i4", 144),
    ("origin", ("i2", 5), 253),
]
_NAMES, _DTYPES, _OFFSETS = (list(each) for each in zip(*_FIELDS, strict=True))
_HEADER = np.dtype({"names": _NAMES, "formats": _DTYPES, "offsets": _OFFSETS, "itemsize": _LENGTH})
_COORDINATES = ("right", "anterior", "superior")
_AXES = (SpaceAxis(unit="mm", type=AxisType.SPACE),) * 3 + (SpaceAxis(),) * 4


def parse_header(peek: Peek) -> Header:
    """Read a header without trusting it."""
    content = peek(_LENGTH)
    if len(content) < _LENGTH:
        raise ValueError("is truncated: it ends within its header")
    orders = (order for order in "<>" if _fields(content, order)["length"] == _LENGTH)
    order = next(orders, None)
    if order is None:
        raise ValueError("is not an Analyze file: it does not begin with the header's length, 348")
    found = _fields(content, order)
    n_axes, *lengths = map(int, found["dim"])
    shape = tuple(lengths[:n_axes]) if 0 < n_axes <= _MOST_AXES else ()
    if int(found["type"]) not in _TYPES:
        raise ValueError(f"has voxels of type {found['type']}, which is not supported")
    dtype = np.dtype(_TYPES[int(found["type"])]).newbyteorder(order)
    check_shape(shape, dtype, _MOST_AXES)
    if found["bits"] not in {0, 8 * dtype.itemsize}:
        raise ValueError(f"has {found['bits']} bits per voxel, which does not match {dtype}")
    offset = float(found["offset"])
    if not 0 <= offset <= _LONGEST_OFFSET:
        raise ValueError(f"has its data at byte {offset:g}; 0 to {_LONGEST_OFFSET} is allowed")
    space = Space(_AXES[:n_axes], _affine(found, shape))
    metadata = describe_linear(*_slope_and_inter(found), dtype)
    return Header(shape, dtype, Layout.f(n_axes), int(offset), space, metadata)


def _fields(content: bytes, order: str) -> Any:
    return np.frombuffer(content, _HEADER.newbyteorder(order))[0]  # type: ignore[arg-type]


def _affine(found: Any, shape: tuple[int, ...]) -> Affine | None:
    """Return the size of the voxels, and their position if SPM has stored it."""
    n = min(len(shape), _N_SPATIAL)
    steps, center = found["steps"][1 : n + 1].astype(float), found["origin"][:n].astype(int)
    if not np.isfinite(steps).all() or not steps.all():
        return None
    lengths = np.array(shape[:n])
    is_placed = center.any() and (center > -lengths).all() and (center < 2 * lengths).all()
    still = [[0.0] * n] * (len(shape) - n)
    if n < _N_SPATIAL or not is_placed:
        # Without it, programs disagree on the orientation.
        return affine_of([*np.diag(abs(steps)).tolist(), *still], [0.0] * n)
    # SPM counts from 1, and stores x from right to left.
    steps = steps * (-1, 1, 1)
    origin = (1 - center) * steps
    return affine_of([*np.diag(steps).tolist(), *still], origin.tolist(), _COORDINATES)


def _slope_and_inter(found: Any) -> tuple[float, float]:
    """Return the scaling that SPM2 stores, else that of the calibrated range, else 1 and 0."""
    slope, inter = float(found["slope"]), float(found["inter"])
    if np.isfinite(slope) and slope:
        return slope, inter if np.isfinite(inter) else 0.0
    calibrated, stored = (
        (float(found[f"{kind}_min"]), float(found[f"{kind}_max"])) for kind in ("cal", "gl")
    )
    if (
        not np.isfinite(calibrated).all()
        or stored[0] == stored[1]
        or calibrated[0] == calibrated[1]
    ):
        return 1.0, 0.0
    slope = (calibrated[1] - calibrated[0]) / (stored[1] - stored[0])
    return slope, calibrated[0] - slope * stored[0]


def make_header(block: Header) -> bytes:
    """Refuse to write."""
    raise ValueError(f"is read, but not written; write {block.dtype} elements with --format nifti")


FORMAT = Format(
    "analyze",
    (".img",),
    _LENGTH + _LONGEST_OFFSET,
    parse_header,
    make_header,
    has_space=True,
    order="F",
    is_read_only=True,
    header_suffix=".hdr",
)
