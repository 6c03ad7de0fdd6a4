"""The space of an array: names and units of its axes, and where elements lie in the world.

Formats translate their own metadata into a `Space` and back: NIfTI its sform and qform, MINC its
start, step and cosines, NRRD its origin and directions, OME-Zarr its transformations. Functions
for cropping, downsampling and transposing a space are here and do not depend on a format.

Rounding: every function computes each coordinate exactly and rounds it once to a double. Two crops
may therefore differ from one crop in the last digit, and formats that store single precision lose
more. `is_close` compares positions with a tolerance for this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from math import hypot, isfinite
from typing import TYPE_CHECKING, Any

from dask_io.stores.unit_words import is_same_unit, length_ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PAIRS = (("right", "left"), ("anterior", "posterior"), ("superior", "inferior"))
OPPOSITE = {a: b for one, other in _PAIRS for a, b in ((one, other), (other, one))}
"""The opposite of each direction in a patient's body."""
# Single precision keeps an origin a thousand steps away to 0.0001 of a step.
_TOLERANCE = 1e-3


class AxisType(StrEnum):
    """The kind of quantity that changes along an axis."""

    SPACE = "space"
    TIME = "time"
    CHANNEL = "channel"


@dataclass(frozen=True, slots=True)
class SpaceAxis:
    """An axis of an array; None for anything that the format does not specify."""

    name: str | None = None
    unit: str | None = None
    type: AxisType | None = None


@dataclass(frozen=True, slots=True)
class Affine:
    """A linear map from the indices of elements to the coordinates of their centres.

    Attributes
    ----------
    matrix
        One row for each coordinate, one column for each axis of the array: the step in the world
        from one element to the next along that axis, in the axis's unit.
    origin
        The coordinates of the first element.
    coordinates
        Names of the coordinates, such as ``("right", "anterior", "superior")``. Each grows in the
        direction of its name. Empty if the format does not specify them.

    Raises
    ------
    ValueError
        If the lengths disagree, or a number is infinite or not a number.

    Examples
    --------
    >>> Affine.scaled((2.0, 0.5), (10.0, 0.0)).at((1, 4))
    (12.0, 2.0)
    """

    matrix: tuple[tuple[float, ...], ...]
    origin: tuple[float, ...]
    coordinates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.matrix) != len(self.origin):
            raise ValueError(f"{len(self.matrix)} rows, but {len(self.origin)} coordinates")
        if any(len(a) != len(b) for a, b in pairwise(self.matrix)):
            raise ValueError("rows of different lengths")
        if self.coordinates and len(self.coordinates) != len(self.origin):
            raise ValueError(f"{len(self.coordinates)} names for {len(self.origin)} coordinates")
        if not all(map(isfinite, (*self.origin, *(n for row in self.matrix for n in row)))):
            raise ValueError("numbers that are not finite")

    @classmethod
    def scaled(
        cls, steps: Sequence[float], origin: Sequence[float], coordinates: Iterable[str] = ()
    ) -> Affine:
        """Return the map of an array whose axes are the coordinates, each with its own step."""
        rows = range(len(steps))
        matrix = tuple(tuple(float(steps[i]) if i == j else 0.0 for j in rows) for i in rows)
        return cls(matrix, tuple(map(float, origin)), tuple(coordinates))

    def at(self, index: Sequence[Fraction | float]) -> tuple[float, ...]:
        """Return the coordinates of a position, rounded once."""
        exact = [Fraction(n) for n in index]
        return tuple(
            float(Fraction(low) + sum(map(_times, row, exact), Fraction()))
            for low, row in zip(self.origin, self.matrix, strict=True)
        )

    @property
    def steps(self) -> tuple[float, ...]:
        """The distance between neighbours along each axis."""
        return tuple(hypot(*column) for column in zip(*self.matrix, strict=True))

    @property
    def rows_of_axes(self) -> tuple[int, ...] | None:
        """The coordinate that changes along each axis; None if one axis changes several."""
        rows = [[i for i, n in enumerate(column) if n] for column in zip(*self.matrix, strict=True)]
        found = tuple(row[0] for row in rows if len(row) == 1)
        return found if len(found) == len(rows) == len(set(found)) else None


def _times(a: float, b: Fraction) -> Fraction:
    return Fraction(a) * b


@dataclass(frozen=True, slots=True)
class Space:
    """The axes of an array, and the map from its indices to the world, if there is one.

    Raises
    ------
    ValueError
        If the map has another number of axes.
    """

    axes: tuple[SpaceAxis, ...]
    affine: Affine | None = None

    def __post_init__(self) -> None:
        if self.affine and any(len(row) != len(self.axes) for row in self.affine.matrix):
            raise ValueError(f"an affine map for another number of axes than {len(self.axes)}")

    @classmethod
    def unknown(cls, n_axes: int) -> Space:
        """Return the space of an array that only has indices."""
        return cls((SpaceAxis(),) * n_axes)

    @property
    def is_known(self) -> bool:
        """Whether anything is known."""
        return self != Space.unknown(len(self.axes))

    def to_json(self) -> dict[str, Any]:
        """Return the space as plain values."""
        axes = [{"name": axis.name, "unit": axis.unit, "type": axis.type} for axis in self.axes]
        if self.affine is None:
            return {"axes": axes}
        return {
            "axes": axes,
            "matrix": [list(row) for row in self.affine.matrix],
            "origin": list(self.affine.origin),
            "coordinates": list(self.affine.coordinates),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Space:
        """Read what `to_json` returned.

        Raises
        ------
        ValueError
            If the values are not a space.
        """
        try:
            axes = tuple(
                SpaceAxis(
                    _text(axis["name"]),
                    _text(axis["unit"]),
                    axis["type"] and AxisType(axis["type"]),
                )
                for axis in values["axes"]
            )
            if "matrix" not in values:
                return cls(axes)
            matrix = tuple(tuple(map(float, row)) for row in values["matrix"])
            origin, coordinates = values["origin"], values["coordinates"]
            affine = Affine(matrix, tuple(map(float, origin)), tuple(map(str, coordinates)))
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError("is not a list of axes and an affine map") from error
        return cls(axes, affine)


def _text(value: object) -> str | None:
    if not isinstance(value, str | None):
        raise TypeError
    return value


def shown_names(names: Iterable[str | None]) -> list[str]:
    """Return the names of axes for people; an axis without a name has its number.

    Examples
    --------
    >>> shown_names((None, "y", ""))
    ['axis 0', 'y', 'axis 2']
    """
    return [name or f"axis {n}" for n, name in enumerate(names)]


def crop(space: Space, start: Sequence[int]) -> Space:
    """Return the space of a region that begins at `start`; a negative start undoes a crop.

    Examples
    --------
    >>> space = Space((SpaceAxis("x", "mm"),), Affine.scaled([0.5], [10.0]))
    >>> crop(space, [4]).affine.origin
    (12.0,)
    """
    if space.affine is None:
        return space
    return replace(space, affine=replace(space.affine, origin=space.affine.at(start)))


def downsample(space: Space, factors: Sequence[int]) -> Space:
    """Return the space of a downsampled array, where each element is the mean of a box.

    A box's centre lies between the centres of its elements, so the origin moves by half a box
    less half an element.

    Examples
    --------
    >>> space = Space((SpaceAxis("x", "mm"),), Affine.scaled([1.0], [0.0]))
    >>> downsample(space, [4]).affine
    Affine(matrix=((4.0,),), origin=(1.5,), coordinates=())
    """
    if space.affine is None:
        return space
    matrix = tuple(
        tuple(step * factor for step, factor in zip(row, factors, strict=True))
        for row in space.affine.matrix
    )
    origin = space.affine.at([Fraction(factor - 1, 2) for factor in factors])
    return replace(space, affine=replace(space.affine, matrix=matrix, origin=origin))


def permute(space: Space, axes: Sequence[int]) -> Space:
    """Return the space of an array with its axes in another order, as `numpy.transpose` does.

    World coordinates do not change, only the columns of the map are permuted.
    """
    return select(space, axes)


def select(space: Space, axes: Sequence[int]) -> Space:
    """Return the space of an array that has only some axes, at the first index of the others."""
    affine = space.affine
    if affine is not None:
        matrix = tuple(tuple(row[axis] for axis in axes) for row in affine.matrix)
        affine = replace(affine, matrix=matrix)
    return Space(tuple(space.axes[axis] for axis in axes), affine)


def reorient(space: Space, coordinates: Sequence[str]) -> Space | None:
    """Return the space with the coordinates in another order or direction; None if they differ.

    Examples
    --------
    >>> space = Space((SpaceAxis("x"),), Affine(((2.0,), (0.0,)), (5.0, 1.0), ("left", "superior")))
    >>> reorient(space, ("superior", "right")).affine
    Affine(matrix=((0.0,), (-2.0,)), origin=(1.0, -5.0), coordinates=('superior', 'right'))
    """
    affine = space.affine
    if affine is None or affine.coordinates == tuple(coordinates):
        return space
    numbers = {name: row for row, name in enumerate(affine.coordinates)}
    rows = [(numbers.get(name), numbers.get(OPPOSITE.get(name, ""))) for name in coordinates]
    matrix, origin = [], []
    for same, opposite in rows:
        row, sign = (opposite, -1) if same is None else (same, 1)
        if row is None or len(rows) != len(numbers):
            return None
        # Adding 0 turns -0.0 into 0.0.
        matrix.append(tuple(sign * n + 0.0 for n in affine.matrix[row]))
        origin.append(sign * affine.origin[row] + 0.0)
    return replace(space, affine=Affine(tuple(matrix), tuple(origin), tuple(coordinates)))


def stored_part(space: Space, held: Space | None, shape: Sequence[int]) -> Space | None:
    """Return the part of `space` that a file stores; `held` is the space read from the file.

    Positions that are rounded or in another unit of length, coordinates with another direction or
    without names, and missing axis types do not count as lost.
    """
    if held is None or len(held.axes) != len(space.axes):
        return None
    held = _in_units_of(space, held)
    axes = tuple(
        replace(a, type=b.type, unit=b.unit if is_same_unit(a.unit, b.unit) else a.unit)
        for a, b in zip(held.axes, space.axes, strict=True)
    )
    if space.affine is None or held.affine is None:
        return Space(axes)
    wanted, turned = space.affine, held
    if wanted.coordinates and held.affine.coordinates:
        turned = reorient(held, wanted.coordinates) or held
    else:
        # Without names, coordinates are the same if they are in the same order.
        wanted = replace(wanted, coordinates=())
        turned = replace(held, affine=replace(held.affine, coordinates=()))
    if is_close(replace(turned, axes=axes), Space(axes, wanted), shape):
        return Space(axes, space.affine)
    return replace(held, axes=axes)


def _in_units_of(space: Space, held: Space) -> Space:
    """Return positions that are held in another unit of length in the unit of a space."""
    ours, theirs = ({axis.unit for axis in each.axes if axis.unit} for each in (space, held))
    if held.affine is None or len(ours) != 1 or len(theirs) != 1:
        return held
    unit = ours.pop()
    ratio = length_ratio(theirs.pop(), unit)
    if ratio in {None, 1}:
        return held
    factor = Fraction(ratio or 1)
    matrix = tuple(tuple(float(_times(n, factor)) for n in row) for row in held.affine.matrix)
    origin = tuple(float(_times(n, factor)) for n in held.affine.origin)
    axes = tuple(replace(axis, unit=unit if axis.unit else None) for axis in held.axes)
    return Space(axes, replace(held.affine, matrix=matrix, origin=origin))


def is_close(a: Space, b: Space, shape: Sequence[int], tolerance: float = _TOLERANCE) -> bool:
    """Tell whether two spaces give every element of an array nearly the same position.

    Names, units and types must be equal. Positions of an element may differ by `tolerance` times
    the shortest step.
    """
    if a.axes != b.axes or a.affine is None or b.affine is None:
        return a == b
    first, second = a.affine, b.affine
    if (first.coordinates, len(first.origin)) != (second.coordinates, len(second.origin)):
        return False
    # Positions are linear in the indices, so this is an upper bound for every element.
    distances = []
    for row in range(len(first.origin)):
        steps = zip(first.matrix[row], second.matrix[row], shape, strict=True)
        at_end = sum(abs(p - q) * max(0, length - 1) for p, q, length in steps)
        distances.append(abs(first.origin[row] - second.origin[row]) + at_end)
    return hypot(*distances) <= tolerance * min((step for step in first.steps if step), default=1.0)


def includes(space: Space, other: Space) -> bool:
    """Tell whether a space specifies everything that another one does, and possibly more.

    Examples
    --------
    >>> named = Space((SpaceAxis("x", "mm"),), Affine.scaled([1.0], [0.0]))
    >>> includes(named, Space((SpaceAxis(unit="mm"),))), includes(Space.unknown(1), named)
    (True, False)
    """
    if len(space.axes) != len(other.axes) or other.affine not in {None, space.affine}:
        return False
    return all(
        theirs.name in {None, ours.name}
        and (theirs.unit is None or is_same_unit(ours.unit, theirs.unit))
        and theirs.type in {None, ours.type}
        for ours, theirs in zip(space.axes, other.axes, strict=True)
    )
