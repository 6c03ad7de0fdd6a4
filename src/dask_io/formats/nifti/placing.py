"""Positions in NIfTI headers: between sform, qform, dimensions of voxels, and a `Space`.

The position is that of the sform if the header has one, else of the qform. Without both, only the
size of the voxels is known. Coordinates grow to the right, to the front and upwards.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from nibabel.spatialimages import HeaderDataError

from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis

if TYPE_CHECKING:
    from nibabel.nifti1 import Nifti1Header
    from numpy.typing import NDArray

_WORLD = ("right", "anterior", "superior")
_NAMES = ("x", "y", "z", "t", "u", "v", "w")
_TYPES = (AxisType.SPACE,) * 3 + (AxisType.TIME,)
_LENGTHS = {1: "m", 2: "mm", 3: "um"}
_TIMES = {8: "s", 16: "ms", 24: "us", 32: "Hz", 40: "ppm", 48: "rad/s"}
_CODES = {unit: code for codes in (_LENGTHS, _TIMES) for code, unit in codes.items()} | {
    **dict.fromkeys(("meter", "metre"), 1),
    **dict.fromkeys(("millimeter", "millimetre"), 2),
    **dict.fromkeys(("micrometer", "micrometre", "micron", "µm", "μm"), 3),
    **dict.fromkeys(("second", "sec"), 8),
    **dict.fromkeys(("millisecond", "msec"), 16),
    **dict.fromkeys(("microsecond", "usec"), 24),
}
# Row and direction of a coordinate, by its name.
_ROWS = {
    **{name: (row, 1) for row, name in enumerate(_WORLD)},
    **{name: (row, -1) for row, name in enumerate(("left", "posterior", "inferior"))},
}
_N_SPATIAL = 3
_TIME = 3
_TIME_NAME = "time"
# Steps and positions that differ by less are the same, stored with fewer digits.
_RELATIVE = 1e-5
_OF_A_STEP = 1e-2
_ALIGNED = 2


def space_of(header: Nifti1Header, n_axes: int) -> Space:
    """Return the space that a header describes."""
    # Hostile headers have numbers that overflow; the result is checked instead.
    with np.errstate(all="ignore"):
        return _space_of(header, n_axes)


def _space_of(header: Nifti1Header, n_axes: int) -> Space:
    units = int(header["xyzt_units"])
    length, time = _LENGTHS.get(units & 7), _TIMES.get(units & 56)
    zooms = [float(n) for n in header["pixdim"][1:].tolist()]
    has_time = n_axes > _TIME and isfinite(zooms[_TIME]) and zooms[_TIME] > 0
    axes = tuple(
        SpaceAxis(
            _NAMES[axis],
            length if axis < _N_SPATIAL else time if axis == _TIME and has_time else None,
            _TYPES[axis] if axis < len(_TYPES) else None,
        )
        for axis in range(n_axes)
    )
    found = _best_affine(header)
    if found is None:
        steps = [abs(n) if isfinite(n) and n else 1.0 for n in zooms[:_N_SPATIAL]]
        found = np.diag([*steps, 1.0])
    matrix = np.zeros((_N_SPATIAL + (n_axes > _TIME), n_axes))
    n_spatial = min(n_axes, _N_SPATIAL)
    matrix[:_N_SPATIAL, :n_spatial] = found[:_N_SPATIAL, :n_spatial]
    origin = found[:_N_SPATIAL, 3].tolist()
    names: tuple[str, ...] = _WORLD if _is_placed(header) else ()
    if n_axes > _TIME:
        matrix[_TIME, _TIME] = zooms[_TIME] if has_time else 1.0
        begin = float(header["toffset"])
        origin.append(begin if isfinite(begin) else 0.0)
        names = (*names, _TIME_NAME) if names else ()
    if not np.isfinite(matrix).all() or not all(map(isfinite, origin)):
        return Space(axes)
    return Space(axes, Affine(tuple(map(tuple, matrix.tolist())), tuple(origin), names))


def _is_placed(header: Nifti1Header) -> bool:
    return int(header["sform_code"]) > 0 or int(header["qform_code"]) > 0


def _best_affine(header: Nifti1Header) -> NDArray[np.float64] | None:
    if int(header["sform_code"]) > 0:
        return np.asarray(header.get_sform(), np.float64)
    return _qform_of(header) if int(header["qform_code"]) > 0 else None


def _qform_of(header: Nifti1Header) -> NDArray[np.float64] | None:
    """Return the qform, None if its numbers are not a rotation."""
    numbers = [header[f"quatern_{axis}"] for axis in "bcd"]
    if not np.isfinite(np.asarray(numbers, float)).all():
        return None
    try:
        return np.asarray(header.get_qform(), np.float64)
    except (HeaderDataError, ValueError):
        return None


def place_header(header: Nifti1Header, space: Space | None, n_axes: int) -> None:
    """Change a header so that it describes a space.

    A header that already describes nearly the same space is not changed. If the array was only
    moved along its own axes, sform and qform are moved. Otherwise both are replaced.
    """
    if space is not None:
        with np.errstate(all="ignore"):
            _place(header, space, n_axes)


def _place(header: Nifti1Header, space: Space, n_axes: int) -> None:
    space = _move_in_time(header, space)
    # A header has a place in all three dimensions, also that of a slice.
    shift = _shift_between(space_of(header, max(n_axes, _N_SPATIAL)), space)
    if shift is not None:
        if np.any(shift):
            _move(header, space, shift)
        return
    _set_units(header, space)
    if space.affine is not None:
        _replace_affine(header, space)


def _move_in_time(header: Nifti1Header, space: Space) -> Space:
    """Store the time of an array without an axis of time; return its space without the time."""
    affine = space.affine
    if affine is None:
        return space
    # Coordinates have no names if the orientation is unknown.
    names = affine.coordinates or (*_WORLD, _TIME_NAME)[: len(affine.origin)]
    row = names.index(_TIME_NAME) if _TIME_NAME in names else None
    if row is None or any(affine.matrix[row]):
        return space
    header["toffset"] = affine.origin[row]
    rest = [n for n in range(len(affine.origin)) if n != row]
    matrix = tuple(affine.matrix[n] for n in rest)
    origin = tuple(affine.origin[n] for n in rest)
    kept = tuple(affine.coordinates[n] for n in rest) if affine.coordinates else ()
    return replace(space, affine=Affine(matrix, origin, kept))


def _shift_between(own: Space, space: Space) -> NDArray[np.float64] | None:
    """Return the offset, in elements, between two arrays on one grid of voxels; None otherwise.

    The first may have more axes than the second, which is then a slice of it.
    """
    n_axes = len(space.axes)
    if own.axes[:n_axes] != space.axes:
        return None
    if own.affine is None or space.affine is None:
        return np.zeros(len(own.axes)) if own.affine is None and space.affine is None else None
    if own.affine.coordinates != space.affine.coordinates:
        return None
    before, after = np.array(own.affine.matrix), np.array(space.affine.matrix)
    if before[:, :n_axes].shape != after.shape:
        return None
    steps = np.abs(before).max(initial=0.0)
    if not np.allclose(before[:, :n_axes], after, rtol=0, atol=_RELATIVE * steps):
        return None
    apart = np.subtract(space.affine.origin, own.affine.origin)
    exact = np.linalg.lstsq(before, apart, rcond=None)[0]
    shift = np.rint(exact)
    is_whole = np.abs(exact - shift).max(initial=0.0) < _OF_A_STEP
    is_there = np.allclose(before @ exact, apart, rtol=0, atol=_OF_A_STEP * steps)
    return shift if is_whole and is_there else None


def _move(header: Nifti1Header, space: Space, shift: NDArray[np.float64]) -> None:
    assert space.affine is not None
    n_spatial = min(len(shift), _N_SPATIAL)
    if len(shift) > _TIME:
        header["toffset"] = space.affine.origin[_TIME]
    qform = _qform_of(header)
    if int(header["sform_code"]) > 0:
        for name, value in zip("xyz", space.affine.origin, strict=False):
            header[f"srow_{name}"][3] = value
    if int(header["qform_code"]) > 0:
        if qform is None:
            header["qform_code"] = 0
            return
        moved = qform[:3, 3] + qform[:3, :n_spatial] @ shift[:n_spatial]
        for name, value in zip("xyz", moved.tolist(), strict=True):
            header[f"qoffset_{name}"] = value


def _set_units(header: Nifti1Header, space: Space) -> None:
    spatial = {axis.unit for axis in space.axes[:_N_SPATIAL] if axis.unit is not None}
    length = _CODES.get(next(iter(spatial)), 0) if len(spatial) == 1 else 0
    time = space.axes[_TIME].unit if len(space.axes) > _TIME else None
    header["xyzt_units"] = (length & 7) | (_CODES.get(time or "", 0) & 56)


def _replace_affine(header: Nifti1Header, space: Space) -> None:
    """Store an affine that comes from elsewhere."""
    assert space.affine is not None
    steps = space.affine.steps
    for axis, step in enumerate(steps):
        is_size = axis >= _N_SPATIAL or space.axes[axis].type in {None, AxisType.SPACE}
        header["pixdim"][axis + 1] = (step if is_size else 0.0) or 1.0
    codes = [int(header[name]) for name in ("sform_code", "qform_code")]
    header["sform_code"] = header["qform_code"] = 0
    rows = _world_rows(space)
    if rows is None:
        return
    matrix, origin, begin = rows
    made = np.eye(4)
    n_spatial = min(len(space.axes), _N_SPATIAL)
    made[:3, :n_spatial], made[:3, 3] = matrix[:, :n_spatial], origin
    for column in range(n_spatial, _N_SPATIAL):
        made[:3, column] = _perpendicular(made[:3, :column])
    code = max(*codes, 0) or _ALIGNED
    header.set_sform(made, _ALIGNED)
    header["sform_code"] = code
    try:
        header.set_qform(made, _ALIGNED, strip_shears=False)
        header["qform_code"] = code
    except (HeaderDataError, ValueError, np.linalg.LinAlgError):
        # A qform has no shears.
        header["qform_code"] = 0
    if begin is not None:
        header["toffset"] = begin


def _world_rows(
    space: Space,
) -> tuple[NDArray[np.float64], NDArray[np.float64], float | None] | None:
    """Return matrix and origin in the coordinates of NIfTI, and the first time.

    None if the orientation is unknown, or the first three axes are not spatial.
    """
    assert space.affine is not None
    affine, n_axes = space.affine, len(space.axes)
    if not affine.coordinates:
        # The spacing is known, but not the orientation, which must not be invented.
        return None
    is_spatial = [axis.type in {None, AxisType.SPACE} for axis in space.axes]
    if not all(is_spatial[:_N_SPATIAL]) or any(
        axis.type is AxisType.SPACE for axis in space.axes[_N_SPATIAL:]
    ):
        return None
    matrix, origin, begin = np.zeros((_N_SPATIAL, n_axes)), np.zeros(_N_SPATIAL), None
    taken: set[int] = set()
    for number, values in enumerate(affine.matrix):
        axes = [axis for axis, value in enumerate(values) if value]
        if axes and min(axes) >= _N_SPATIAL:
            begin = affine.origin[number] if axes == [_TIME] else begin
            continue
        if axes and max(axes) >= _N_SPATIAL:
            return None
        row, sign = _row_of(number, space)
        if row in taken or row >= _N_SPATIAL:
            return None
        taken.add(row)
        matrix[row], origin[row] = sign * np.array(values), sign * affine.origin[number]
    return matrix, origin, begin


def _row_of(number: int, space: Space) -> tuple[int, int]:
    """Return the NIfTI coordinate for a coordinate of a space, and its direction."""
    affine = space.affine
    assert affine is not None
    if affine.coordinates and affine.coordinates[number].lower() in _ROWS:
        return _ROWS[affine.coordinates[number].lower()]
    rows = affine.rows_of_axes
    if rows is not None and number in rows:
        name = (space.axes[rows.index(number)].name or "").lower()
        names = [(axis.name or "").lower() for axis in space.axes]
        if name in _NAMES[:_N_SPATIAL] and len(set(names)) == len(names):
            return _NAMES.index(name), 1
    return number, 1


def _perpendicular(columns: NDArray[np.float64]) -> NDArray[Any]:
    """Return a direction of length 1 that is perpendicular to others."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=True)
    rank = int((sizes > _RELATIVE * max(sizes.max(initial=0.0), 1e-300)).sum())
    return np.asarray(left[:, max(rank, columns.shape[1]) if rank == columns.shape[1] else -1])
