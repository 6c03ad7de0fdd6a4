"""Dimensions of MINC and the space that they describe.

Each dimension has a start, a step and, if it is spatial, the cosines of its direction. Steps and
starts are measured along that direction: the world coordinates of the first element are the sum of
all starts times their directions. World coordinates grow to the right, the front and the top.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.stores.space import OPPOSITE, Affine, AxisType, Space, SpaceAxis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

NAMES = {"xspace": "x", "yspace": "y", "zspace": "z", "time": "t", "vector_dimension": "c"}
"""Names of axes for the dimensions of MINC."""
SPATIAL = ("xspace", "yspace", "zspace")

_TYPES = {
    **dict.fromkeys(("x", "y", "z"), AxisType.SPACE),
    "t": AxisType.TIME,
    "c": AxisType.CHANNEL,
}
_DIMENSIONS = {**{short: name for name, short in NAMES.items()}, **{n: n for n in NAMES}}
_WORLD = ("right", "anterior", "superior")
# Coordinates that are named like axes grow in the same direction as MINC's.
_SHORT = {"x": "right", "y": "anterior", "z": "superior", "t": "time"}
_TIME = "time"
# Steps of a space and of the file that it was read from agree this closely, relatively.
_CLOSE = 1e-9


def read_space(dimensions: Sequence[str], about: Sequence[Mapping[str, Any]]) -> Space:
    """Return the space that dimensions with these attributes span.

    Raises
    ------
    ValueError
        If a number is missing, or not finite; the message completes "the file ...".
    """
    axes = tuple(_axis(name, each) for name, each in zip(dimensions, about, strict=True))
    spatial = [n for n, name in enumerate(dimensions) if name in SPATIAL]
    if any(about[n].get("spacing") == "irregular" for n in spatial):
        return Space(axes)
    matrix, origin = np.zeros((3, len(axes))), np.zeros(3)
    for axis in spatial:
        name, each = dimensions[axis], about[axis]
        cosines = _cosines(each, name)
        matrix[:, axis] = _number(each, "step", 1.0, name) * cosines
        origin += _number(each, "start", 0.0, name) * cosines
    rows, low, coordinates = matrix.tolist(), origin.tolist(), [*_WORLD]
    for axis, (name, each) in enumerate(zip(dimensions, about, strict=True)):
        if axis not in spatial and "step" in each and each.get("spacing") != "irregular":
            step = _number(each, "step", 1.0, name)
            rows.append([step if n == axis else 0.0 for n in range(len(axes))])
            low.append(_number(each, "start", 0.0, name))
            coordinates.append(name)
    if not all(map(isfinite, low)) or not all(isfinite(n) for row in rows for n in row):
        raise ValueError("has dimensions whose positions are too large for a number")
    return Space(axes, Affine(tuple(map(tuple, rows)), tuple(low), tuple(coordinates)))


def _axis(name: str, about: Mapping[str, Any]) -> SpaceAxis:
    short, unit = NAMES.get(name, name), about.get("units")
    return SpaceAxis(short, unit if isinstance(unit, str) and unit else None, _TYPES.get(short))


def _number(about: Mapping[str, Any], key: str, default: float, name: str) -> float:
    value = about.get(key, default)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"has a {key} of {name} that is not a finite number")
    return float(value)


def _cosines(about: Mapping[str, Any], name: str) -> NDArray[np.float64]:
    default = [float(name == other) for other in SPATIAL]
    value = about.get("direction_cosines", default)
    is_vector = isinstance(value, list) and len(value) == len(SPATIAL)
    if not is_vector or not all(isinstance(n, int | float) and isfinite(n) for n in value):
        raise ValueError(f"has direction_cosines of {name} that are not three finite numbers")
    found = np.array(value, np.float64)
    if not found.any():
        raise ValueError(f"has direction_cosines of {name} that are all zero")
    return found


def name_dimensions(
    space: Space | None, names: Sequence[str | None], n_axes: int
) -> tuple[str, ...]:
    """Return the MINC dimensions for the axes: by their names if known, else by their order."""
    if space is not None and any(axis.name for axis in space.axes):
        names = [axis.name for axis in space.axes]
    found = [_DIMENSIONS.get(name or "") for name in names]
    if len(found) == n_axes and "vector_dimension" in found[:-1]:
        # MINC allows vector_dimension only as the fastest axis.
        found = ["c" if name == "vector_dimension" else name for name in found]
    if len(found) == n_axes == len(set(found)) and None not in found:
        return tuple(filter(None, found))
    usual = (_TIME, "zspace", "yspace", "xspace")
    more = tuple(f"dimension{n}" for n in range(n_axes - len(usual)))
    return (*more, *usual)[-n_axes:]


class _Placed(NamedTuple):
    """Columns of the spatial axes, the origin, and start and step of all other axes."""

    columns: dict[int, NDArray[np.float64]]
    origin: NDArray[np.float64]
    others: dict[int, tuple[float, float]]


def place_dimensions(
    space: Space | None, dimensions: Sequence[str], known: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return start, step, direction and unit of each dimension of an array.

    `known` are the attributes of the dimensions in the file that the array comes from. Their steps
    and directions are kept if they describe the same space. Without a space, or with one that MINC
    cannot express, starts are 0 and steps 1.
    """
    placed = _place(space, dimensions)
    is_known = space is not None and space.affine is not None
    found: list[dict[str, Any]] = [
        # Positions along other axes may be unknown even if those in the world are known.
        {} if is_known and name not in SPATIAL else {"start": 0.0, "step": 1.0}
        for name in dimensions
    ]
    for axis, (start, step) in placed.others.items():
        found[axis] = {"start": start, "step": step}
    directions = []
    for axis, column in placed.columns.items():
        step, cosines = _direction(column, dimensions[axis], known[axis])
        found[axis] |= {"step": step, "direction_cosines": cosines.tolist()}
        directions.append(cosines)
    for axis, start in zip(placed.columns, _starts(directions, placed.origin), strict=True):
        found[axis]["start"] = start
    for axis, about in enumerate(found):
        if space is not None and space.axes[axis].unit:
            about["units"] = space.axes[axis].unit
    return found


def _place(space: Space | None, dimensions: Sequence[str]) -> _Placed:
    spatial = [axis for axis, name in enumerate(dimensions) if name in SPATIAL]
    units = {axis: np.eye(3)[SPATIAL.index(dimensions[axis])] for axis in spatial}
    nowhere = _Placed(units, np.zeros(3), {})
    if space is None or space.affine is None:
        return nowhere
    affine, names = space.affine, list(space.affine.coordinates)
    if not names and len(affine.origin) == len(dimensions):
        # Without names, each coordinate belongs to the axis in the same place.
        world = dict(zip(SPATIAL, _WORLD, strict=True))
        names = [world.get(name, name) for name in dimensions]
    matrix, origin = np.zeros((3, len(dimensions))), np.zeros(3)
    others = {}
    for short, row, low in zip(names, affine.matrix, affine.origin, strict=False):
        name = _SHORT.get(short, short)
        plain = name if name in _WORLD else OPPOSITE.get(name, name)
        if plain in _WORLD:
            sign = 1.0 if plain == name else -1.0
            matrix[_WORLD.index(plain)] = sign * np.array(row)
            origin[_WORLD.index(plain)] = sign * low
        elif name in dimensions:
            axis = list(dimensions).index(name)
            others[axis] = (low, row[axis])
    columns = {axis: matrix[:, axis] for axis in spatial}
    if not all(column.any() for column in columns.values()):
        return nowhere._replace(others=others)
    return _Placed(columns, origin, others)


def _direction(
    column: NDArray[np.float64], name: str, known: Mapping[str, Any]
) -> tuple[float, NDArray[np.float64]]:
    """Return the step along an axis, and the cosines of its direction.

    Directions point the same way as the world's axis of that name; steps may be negative.
    """
    length = float(np.linalg.norm(column))
    try:
        step, cosines = _number(known, "step", 1.0, name), _cosines(known, name)
        if np.abs(step * cosines - column).max() <= _CLOSE * length:
            return step, cosines
    except ValueError:
        pass  # The attributes are invalid, so they are not kept.
    own = column[SPATIAL.index(name)] or column[int(np.abs(column).argmax())]
    step = length if own > 0 else -length
    return step, column / step + 0.0


def _starts(directions: list[NDArray[np.float64]], origin: NDArray[np.float64]) -> list[float]:
    """Return how far the origin lies along each direction."""
    if not directions:
        return []
    cosines = np.stack(directions, axis=1)
    found: NDArray[Any]
    if all(sorted(map(abs, each)) == [0, 0, 1] for each in directions):
        # This is exact, unlike solving the equations.
        found = origin @ cosines
    else:
        found = np.linalg.lstsq(cosines, origin, rcond=None)[0]
        if cosines.shape == (3, 3) and abs(np.linalg.det(cosines)) > _CLOSE:
            found = np.linalg.solve(cosines, origin)
    return [float(start) + 0.0 for start in found]
