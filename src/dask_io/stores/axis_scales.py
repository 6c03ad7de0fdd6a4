"""Spaces of formats that have a step and an offset for each axis, and nothing else.

Such formats cannot store rotations, flips, or the names of directions in the world. For an array
that needs these, Dask IO also stores the exact space in its own attribute, see
`dask_io.stores.own_attribute`. Other readers see the steps and the origin along the axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from typing import TYPE_CHECKING

from dask_io.stores.space import Affine, Space, SpaceAxis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


@dataclass(frozen=True, slots=True)
class AxisScales:
    """The axes of an array, with the step and the position of the first element along each.

    Examples
    --------
    >>> turned = Space((SpaceAxis("x", "mm"),), Affine(((-2.0,),), (5.0,)))
    >>> AxisScales.of(turned).scale, AxisScales.of(turned).origin
    ((2.0,), (-5.0,))
    """

    axes: tuple[SpaceAxis, ...]
    scale: tuple[float, ...]
    origin: tuple[float, ...]

    @classmethod
    def of(cls, space: Space) -> AxisScales:
        """Return the steps and the origin along the axes of a space."""
        n_axes = len(space.axes)
        if space.affine is None:
            return cls(space.axes, (1.0,) * n_axes, (0.0,) * n_axes)
        origin = space.affine.origin
        columns = zip(*space.affine.matrix, strict=True)
        scale = tuple(step or 1.0 for step in space.affine.steps)
        return cls(space.axes, scale, tuple(_along(column, origin) for column in columns))

    @property
    def space(self) -> Space:
        """The space as other readers see it."""
        return Space(self.axes, Affine.scaled(self.scale, self.origin))


def _along(column: Sequence[float], origin: Sequence[float]) -> float:
    """Return the position of the origin in the direction of an axis."""
    used = [(step, at) for step, at in zip(column, origin, strict=True) if step]
    if len(used) == 1:
        ((step, at),) = used
        return (at if step > 0 else -at) + 0.0
    length = hypot(*column)
    return sum(step * at for step, at in used) / length if length else 0.0


def space_in(metadata: Mapping[str, Any], n_axes: int) -> Space:
    """Return the space in the metadata of a source, with the names of its dimensions."""
    space = metadata.get("space") or Space.unknown(n_axes)
    names = metadata.get("dimension_names") or (None,) * n_axes
    axes = (
        SpaceAxis(axis.name or name, axis.unit, axis.type)
        for axis, name in zip(space.axes, names, strict=True)
    )
    return Space(tuple(axes), space.affine)


def read_floats(value: object, n_axes: int) -> tuple[float, ...] | None:
    """Return numbers in untrusted metadata, one for each axis; None if they are invalid."""
    if not isinstance(value, list) or len(value) != n_axes:
        return None
    if any(type(number) not in {int, float} for number in value):
        return None
    try:
        return tuple(map(float, value))
    except OverflowError:
        return None


def read_words(value: object, n_axes: int) -> tuple[str | None, ...] | None:
    """Return words in untrusted metadata, one for each axis; None if they are invalid."""
    if not isinstance(value, list) or len(value) != n_axes:
        return None
    if any(not isinstance(word, str | None) for word in value):
        return None
    return tuple(word or None for word in value)
