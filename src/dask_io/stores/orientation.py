"""Where the axes of an array point in the world."""

from __future__ import annotations

from math import acos, degrees, hypot
from typing import TYPE_CHECKING

from dask_io.stores.space import OPPOSITE, shown_names

if TYPE_CHECKING:
    from dask_io.stores.space import Affine, Space

ORIENTATION = "orientation_for_other_readers"
DIRECTIONS = "directions_for_other_readers"
_USUAL = {"right": "x", "anterior": "y", "superior": "z"}
"""The directions that readers without orientation assume, and the names of their axes."""
# Less is rounding: headers store single precision.
_LEAST_TILT_DEGREES = 0.01


def directions(affine: Affine) -> tuple[str, ...] | None:
    """Return the direction in which each axis mostly points; None if directions have no names.

    Examples
    --------
    >>> from dask_io.stores.space import Affine
    >>> directions(Affine.scaled((-2.0, 2.0), (0.0, 0.0), ("right", "anterior")))
    ('left', 'anterior')
    """
    if not affine.coordinates:
        return None
    found = []
    for column in zip(*affine.matrix, strict=True):
        row = max(range(len(column)), key=lambda n: abs(column[n]))
        name = affine.coordinates[row]
        if column[row] < 0:
            name = OPPOSITE.get(name, f"-{name}")
        found.append(name if column[row] else "none")
    return tuple(found)


def is_oblique(affine: Affine) -> bool:
    """Tell whether an axis changes more than one coordinate."""
    return any(sum(n != 0 for n in column) > 1 for column in zip(*affine.matrix, strict=True))


def hidden_from_others(space: Space | None) -> tuple[str, ...]:
    """Return what readers do not see that know only positive steps and an origin for each axis.

    `ORIENTATION` if they show the array mirrored, rotated or tilted, `DIRECTIONS` if they show it
    as it lies, but do not know the names of its directions; nothing if they see everything.
    """
    affine = None if space is None else space.affine
    if affine is None:
        return ()
    if affine.rows_of_axes is None or any(n < 0 for row in affine.matrix for n in row):
        return (ORIENTATION,)
    found = directions(affine)
    if found is None:
        return ()
    return (DIRECTIONS,) if set(found) <= _USUAL.keys() else (ORIENTATION,)


def explain_hidden(space: Space) -> str:
    """Explain how an array lies in a way that such readers do not see; empty if they see it.

    Examples
    --------
    >>> from dask_io.stores.space import Affine, Space, SpaceAxis
    >>> affine = Affine.scaled((-2.0, 2.0), (0.0, 0.0), ("right", "anterior"))
    >>> explain_hidden(Space((SpaceAxis("x"), SpaceAxis("y")), affine))
    'x points to left'
    """
    affine = space.affine
    if affine is None:
        return ""
    names = shown_names(axis.name for axis in space.axes)
    columns = list(zip(*affine.matrix, strict=True))
    if found := directions(affine):
        ways = zip(names, found, strict=True)
        facts = [f"{name} points to {way}" for name, way in ways if OPPOSITE.get(way, "") in _USUAL]
    else:
        steps = zip(names, columns, strict=True)
        facts = [f"{name} runs backwards" for name, column in steps if min(column) < -max(column)]
    tilt = max((_tilt(column) for column in columns), default=0.0)
    if tilt >= _LEAST_TILT_DEGREES:
        facts.append(f"the axes are tilted by {tilt:.3g} degrees")
    return " and ".join(facts)


def find_misnamed(space: Space) -> tuple[str, str] | None:
    """Return the name of an axis and its direction, if they contradict each other.

    Examples
    --------
    >>> from dask_io.stores.space import Affine, Space, SpaceAxis
    >>> affine = Affine.scaled((2.0, 2.0), (0.0, 0.0), ("right", "anterior"))
    >>> find_misnamed(Space((SpaceAxis("z"), SpaceAxis("y")), affine))
    ('z', 'right')
    """
    found = None if space.affine is None else directions(space.affine)
    for axis, way in zip(space.axes, found or (), strict=False):
        usual = _USUAL.get(way) or _USUAL.get(OPPOSITE.get(way, ""))
        name = axis.name or ""
        if usual is not None and name in _USUAL.values() and name != usual:
            return name, way
    return None


def _tilt(column: tuple[float, ...]) -> float:
    """Return the angle between an axis and the coordinate that changes most along it."""
    length = hypot(*column)
    return degrees(acos(min(1.0, max(map(abs, column)) / length))) if length else 0.0
