"""Names, spacing and units of axes that the user gives for a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, isfinite
from typing import Any, TypeAlias, TypeVar

from dask_io.errors import UsageError, did_you_mean
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis
from dask_io.stores.spec import SPACE
from dask_io.stores.unit_words import LENGTHS, TIMES, is_same_unit, length_ratio, unit_word

T = TypeVar("T")
Words: TypeAlias = str | Sequence[str | None]
Numbers: TypeAlias = str | float | Sequence[float] | Mapping[str, float]
Units: TypeAlias = Words | Mapping[str, str | None]

# Headers store single precision, and inches are converted to micrometres.
_TOLERANCE = 1e-3

_TYPES = {
    "t": AxisType.TIME,
    "time": AxisType.TIME,
    "c": AxisType.CHANNEL,
    "channel": AxisType.CHANNEL,
    "channels": AxisType.CHANNEL,
}
_UNITS = {AxisType.SPACE: (LENGTHS, "length"), AxisType.TIME: (TIMES, "time")}
_USUAL = {AxisType.SPACE: "micrometer or nm", AxisType.TIME: "second or ms"}


def type_of(name: str) -> AxisType:
    """Return the type that the name of an axis suggests.

    Examples
    --------
    >>> [str(type_of(name)) for name in ("t", "channel", "x", "depth")]
    ['time', 'channel', 'space', 'space']
    """
    return _TYPES.get(name.lower(), AxisType.SPACE)


@dataclass(frozen=True, slots=True)
class GivenSpace:
    """The user's description of a source's axes; None for fields that were not given.

    Attributes
    ----------
    axes
        A name for each axis.
    spacing
        The distance between neighbours along each axis, or one for all axes of space; or along
        the axes of these names.
    units
        A unit for each axis, or one for all axes of space; or along the axes of these names.
    """

    axes: tuple[str, ...] | None = None
    spacing: tuple[float, ...] | dict[str, float] | None = None
    units: tuple[str | None, ...] | dict[str, str | None] | None = None

    @classmethod
    def of(
        cls, axes: Words | None, spacing: Numbers | None, unit: Units | None
    ) -> GivenSpace | None:
        """Parse the user's options; return None if none are given.

        Raises
        ------
        UsageError
            If an option is invalid.
        """
        if axes is None and spacing is None and unit is None:
            return None
        names = None if axes is None else _parse_names(axes)
        units = None if unit is None else _parse_units(unit)
        return cls(names, None if spacing is None else _parse_spacing(spacing), units)

    def override(self, metadata: Mapping[str, Any], n_axes: int) -> Space:
        """Return the space of a source with these names, spacing and units instead of its own.

        Spacing changes the length of the steps. Their directions and the origin stay. Without a
        unit, it is in that of the source.

        Raises
        ------
        UsageError
            If the array has another number of axes.
        """
        space = metadata.get(SPACE) or _named(metadata.get("dimension_names"), n_axes)
        names = self.axes
        if names is not None and len(names) == 1 < n_axes == len(set(names[0])) == len(names[0]):
            # As in zyx, which stands for z,y,x.
            names = tuple(names[0])
        axes = tuple(space.axes)
        if names is not None:
            _check_length("axes", names, axes)
            axes = tuple(
                axis if axis.name == name else SpaceAxis(name, axis.unit, type_of(name))
                for axis, name in zip(axes, names, strict=True)
            )
        for word, given in (("spacing", self.spacing), ("unit", self.units)):
            if isinstance(given, tuple) and len(given) > 1:
                _check_length(word, given, axes)
        if isinstance(self.units, dict):
            each = _by_name("unit", self.units, axes, [axis.unit for axis in axes])
            axes = tuple(replace(axis, unit=word) for axis, word in zip(axes, each, strict=True))
        elif self.units is not None:
            each = _for_each(self.units, axes, [axis.unit for axis in axes])
            axes = tuple(replace(axis, unit=word) for axis, word in zip(axes, each, strict=True))
        elif self.spacing is not None:
            axes = _with_shared_unit(axes)
        affine = space.affine
        if isinstance(self.spacing, dict):
            others = [1.0] * n_axes if affine is None else [step or 1.0 for step in affine.steps]
            affine = _with_steps(affine, _by_name("spacing", self.spacing, axes, others))
        elif self.spacing is not None:
            each_step = _for_each(self.spacing, axes, [1.0] * n_axes)
            affine = _with_steps(affine, each_step)
        return Space(axes, affine)

    def refuse_units(self, space: Space, format: str) -> None:  # noqa: A002 - the word that users know
        """Refuse units that a format of images does not define; `space` has those of the user.

        Raises
        ------
        UsageError
            If an axis of space or time has such a unit.
        """
        for axis in space.axes if self.units is not None else ():
            kind = axis.type or type_of(axis.name or "")
            known, what = _UNITS.get(kind, (frozenset(), ""))
            if axis.unit is None or not known or axis.unit in known:
                continue
            similar = did_you_mean(axis.unit, known)
            usual = f"; write one such as {_USUAL[kind]}, or leave --unit out"
            raise UsageError(
                f"unit {axis.unit!r} is no unit of {what} in {format}{similar or usual}"
            )

    def contradicts(self, metadata: Mapping[str, Any], n_axes: int) -> str:
        """Return the steps of a source that the user's spacing contradicts; empty if none.

        Examples
        --------
        >>> space = Space(
        ...     (SpaceAxis("y", "mm"), SpaceAxis("x", "mm")), Affine.scaled((2, 1), (0, 0))
        ... )
        >>> GivenSpace(spacing=(2, 5)).contradicts({SPACE: space}, 2)
        'x: 1 mm'
        >>> GivenSpace(None, (2000, 1000), ("um",)).contradicts({SPACE: space}, 2)
        ''
        """
        own, given = metadata.get(SPACE), self.override(metadata, n_axes)
        if self.spacing is None or own is None or own.affine is None or given.affine is None:
            return ""
        steps = zip(own.affine.steps, given.affine.steps, strict=True)
        return ", ".join(
            f"{axis.name or n}: {old:g} {axis.unit or ''}".rstrip()
            for n, (axis, theirs, (old, new)) in enumerate(
                zip(own.axes, given.axes, steps, strict=True)
            )
            # A step of 1 without a unit stands for an unknown one.
            if (axis.unit or old != 1) and not _is_same_length((old, axis.unit), (new, theirs.unit))
        )


def _with_shared_unit(axes: tuple[SpaceAxis, ...]) -> tuple[SpaceAxis, ...]:
    """Give axes of space without a unit, such as that of slices, the unit of all others."""
    units = {axis.unit for axis in axes if axis.type is AxisType.SPACE and axis.unit}
    if len(units) != 1:
        return axes
    (unit,) = units
    return tuple(
        replace(axis, unit=axis.unit or unit) if axis.type is AxisType.SPACE else axis
        for axis in axes
    )


def _is_same_length(one: tuple[float, str | None], other: tuple[float, str | None]) -> bool:
    """Tell whether two steps are nearly the same, as far as their units can be compared."""
    (a, unit), (b, other_unit) = one, other
    ratio = length_ratio(unit, other_unit)
    if ratio is None and unit and other_unit and not is_same_unit(unit, other_unit):
        return True
    return isclose(a * float(ratio or 1), b, rel_tol=_TOLERANCE)


def _check_length(
    word: str, given: tuple[float | str | None, ...], axes: tuple[SpaceAxis, ...]
) -> None:
    """Refuse values that are not one for each axis, and show how to write those of space alone."""
    if len(given) == len(axes):
        return
    found = ",".join(map(_text, given))
    of_space = [axis.name for axis in axes if axis.name and type_of(axis.name) is AxisType.SPACE]
    advice = "give one for each axis, and separate them by commas"
    if word != "axes" and len(of_space) == len(given):
        advice = ",".join(f"{n}={_text(v)}" for n, v in zip(of_space, given, strict=True))
        advice = f"give one for each axis, or {advice}"
    axes_ = "1 axis" if len(given) == 1 else f"{len(given)} axes"
    raise UsageError(f"{word} {found} is for {axes_}, but the source has {len(axes)}; {advice}")


def _text(value: float | str | None) -> str:
    return f"{value:.15g}" if isinstance(value, float | int) else value or ""


def _by_name(
    word: str, given: Mapping[str, T], axes: tuple[SpaceAxis, ...], others: list[T]
) -> list[T]:
    """Return one value for each axis, from those of some axes by name."""
    names = [axis.name for axis in axes]
    for name in given:
        if name not in names:
            listed = ", ".join(filter(None, names))
            found = (
                f"the axes are {listed}"
                if listed
                else f"the axes have no names; give them, as in --axes {','.join(given)}"
            )
            raise UsageError(f"{word} is given for axis {name!r}, but {found}")
    return [given.get(name or "", other) for name, other in zip(names, others, strict=True)]


def _named(names: Sequence[str | None] | None, n_axes: int) -> Space:
    return Space(tuple(map(SpaceAxis, names))) if names else Space.unknown(n_axes)


def _for_each(given: tuple[Any, ...], axes: tuple[SpaceAxis, ...], others: list[Any]) -> list[Any]:
    """Return one value for each axis; a single value is for the axes of space."""
    if len(given) == len(axes):
        return list(given)
    types = [axis.type or type_of(axis.name or "") for axis in axes]
    return [
        given[0] if kind is AxisType.SPACE else other
        for kind, other in zip(types, others, strict=True)
    ]


def _with_steps(affine: Affine | None, steps: list[float]) -> Affine:
    if affine is None or len(affine.origin) != len(steps) or not all(affine.steps):
        return Affine.scaled(steps, [0.0] * len(steps))
    matrix = tuple(
        tuple(
            # A step along one coordinate is exact.
            (step if n > 0 else -step) if abs(n) == old else n * (step / old)
            for n, step, old in zip(row, steps, affine.steps, strict=True)
        )
        for row in affine.matrix
    )
    return replace(affine, matrix=matrix)


def _split(given: Words) -> list[str | None]:
    if isinstance(given, str):
        return [part.strip() for part in given.split(",")]
    return [None if each is None else str(each) for each in given]


def _parse_names(given: Words) -> tuple[str, ...]:
    names = [name or "" for name in _split(given)]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"axes {','.join(names)!r} are not names that differ; write them as z,y,x")
    return tuple(names)


def _named_values(word: str, given: object) -> Mapping[str, Any] | None:
    """Return values by the names of axes; None if they are not given by name."""
    if not (isinstance(given, str) and "=" in given):
        return given if isinstance(given, Mapping) else None
    pairs = [part.partition("=") for part in given.split(",")]
    by_name = {name.strip(): value.strip() for name, _, value in pairs}
    if len(by_name) < len(pairs):
        raise UsageError(f"{word} {given!r} contains an axis twice")
    return by_name


def _parse_units(given: Units) -> tuple[str | None, ...] | dict[str, str | None]:
    by_name = _named_values("unit", given)
    if by_name is None:
        listed = given if isinstance(given, str) else [*given]
        return tuple(unit_word(word) if word else None for word in _split(listed))
    if not by_name or not all(by_name):
        raise UsageError(f"unit {given!r} is not for axes by name; write it as t=second,z=um")
    return {name: unit_word(str(word)) if word else None for name, word in by_name.items()}


def _parse_spacing(given: Numbers) -> tuple[float, ...] | dict[str, float]:
    by_name: Mapping[str, Any] = _named_values("spacing", given) or {}
    parts: Any = given.split(",") if isinstance(given, str) else given
    listed = by_name.values() if by_name else parts if isinstance(parts, Sequence) else [parts]
    try:
        numbers = tuple(map(float, listed))
    except (TypeError, ValueError):
        numbers = ()
    if not numbers or not all(isfinite(n) and n > 0 for n in numbers):
        raise UsageError(
            f"spacing {given!r} is not a list of numbers above 0; write it as 0.5,0.1,0.1 or "
            "z=0.5,y=0.1,x=0.1"
        )
    return dict(zip(by_name, numbers, strict=True)) if by_name else numbers
