"""Ranges along the axes of an array, as users write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from dask_io.geometry.region import Region

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_INDEX = r"-?\d+"
# The parts of a time end at a colon that is followed by more than two digits: by the next date.
_DATE = (
    r"[-+]?\d{4,}-\d\d(?:-\d\d(?:[T ]\d\d(?::\d\d(?!\d)(?::\d\d(?!\d)(?:\.\d+)?)?)?Z?)?)?(?![-\d])"
)
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_END = rf"{_DATE}|@(?:{_DATE}|{_NUMBER})|{_INDEX}"
_RANGE = re.compile(rf"\s*({_END})?\s*:\s*({_END})?\s*")
_ONE_INDEX, _ONE_VALUE = re.compile(rf"\s*({_INDEX})\s*"), re.compile(rf"\s*({_END})\s*")
_STEP = re.compile(r"([^:]*:[^:]*):\s*-?\d*\s*")
_DECIMAL = re.compile(r"[-+]?\d*\.\d*")

AnyRegion = str | Region | Mapping[str, Any] | Mapping[int, Any] | slice | tuple[Any, ...]
"""A region as users give it: as text, with a slice, a pair, an index or a text by axis, or as the
index of a NumPy array."""
Bound = int | str | None
"""An end of a range: an index, the value of a coordinate as text, or None for that of the axis."""


class Range(NamedTuple):
    """A range along one axis, which does not include its stop.

    Examples
    --------
    >>> Range.parse("5:-1"), Range.parse("-1"), Range.parse("2020-01-01:@2.5")
    (Range(start=5, stop=-1), Range(start=-1, stop=None), Range(start='2020-01-01', stop='2.5'))
    """

    start: Bound
    stop: Bound

    @classmethod
    def parse(cls, text: str) -> Range:
        """Parse a range, or a single index, which is a range of one element.

        Raises
        ------
        ValueError
            If it is not a range; the message completes the place of the range.
        """
        if one := _ONE_INDEX.fullmatch(text):
            first = int(one[1])
            # The element behind the last one would have the index 0.
            return cls(first, first + 1 or None)
        if both := _RANGE.fullmatch(text):
            return cls(_bound(both[1]), _bound(both[2]))
        raise ValueError(_why_not(text))

    def __str__(self) -> str:
        return ":".join(map(_written, self))

    @property
    def has_values(self) -> bool:
        """Whether an end is the value of a coordinate."""
        return isinstance(self.start, str) or isinstance(self.stop, str)


def _bound(text: str | None) -> Bound:
    if text is None:
        return None
    return int(text) if _ONE_INDEX.fullmatch(text) else text.removeprefix("@")


def _written(bound: Bound) -> str:
    if bound is None:
        return ""
    is_date = isinstance(bound, str) and re.fullmatch(_DATE, bound)
    return str(bound) if isinstance(bound, int) or is_date else f"@{bound}"


def _why_not(text: str) -> str:
    """Return why a text is not a range."""
    if step := _STEP.fullmatch(text):
        return f"{text!r} has a step, but regions have none; write {step[1].strip()}"
    if _ONE_VALUE.fullmatch(text):
        example = "@5:@6" if text.strip().startswith("@") else "2020-01-01:2020-02-01"
        return f"{text!r} is a single value; write a range, as in {example}"
    if any(map(_DECIMAL.fullmatch, text.split(":"))):
        values = ":".join(f"@{end.strip()}" if end.strip() else "" for end in text.split(":"))
        return f"{text!r} is not a range of indices; for values of a coordinate write {values}"
    return f"{text!r} is not a range; write it as 0:100, 5: or :"


@dataclass(frozen=True)
class Ranges:
    """Ranges along some axes, by number or by name; all other axes are whole.

    Examples
    --------
    >>> Ranges.parse("time=0:744,lat=:90").by_axis
    {'time': Range(start=0, stop=744), 'lat': Range(start=None, stop=90)}
    >>> str(Ranges.parse("2:5,:,-1").region((10, 6, 4)))
    '2:5,0:6,3:4'
    """

    by_axis: Mapping[int | str, Range]
    n_listed: int = 0
    """How many axes are listed in order; 0 if ranges are given by number or name."""

    @classmethod
    def parse(cls, region: object) -> Ranges:
        """Return the ranges that a text, a region or a mapping describes.

        Raises
        ------
        TypeError
            If it is something else.
        ValueError
            If a range is invalid.
        """
        if isinstance(region, Ranges):
            return region
        if isinstance(region, Mapping):
            return cls._from_pairs(
                [(_axis_of(axis), _given(axis, each)) for axis, each in region.items()]
            )
        if is_index(region):
            return cls._from_index(region if isinstance(region, tuple) else (region,))
        if not isinstance(region, (str, Region)):
            message = (
                "a region is text such as '0:100,:,5:' or 'time=0:744', or an index such as "
                f"np.s_[:100, 5:], not {region!r}"
            )
            raise TypeError(message)
        text = str(region)
        parts = text.split(",") if text.strip() else []
        if not any("=" in part for part in parts):
            listed = enumerate(_parsed(part, number) for number, part in enumerate(parts))
            return cls(dict(listed), len(parts))
        pairs = []
        for part in parts:
            axis, sign, values = part.partition("=")
            if not sign:
                message = (
                    f"region {text!r} gives some ranges by dimension, but {part!r} by position; "
                    "name the dimension of each, as in time=0:744,lat=:90"
                )
                raise ValueError(message)
            pairs.append((_axis_of(axis.strip()), _parsed(values, axis.strip())))
        return cls._from_pairs(pairs)

    @classmethod
    def _from_index(cls, index: tuple[Any, ...]) -> Ranges:
        """Return the ranges of the index of a NumPy array; a single index is one element."""
        whole = [number for number, each in enumerate(index) if each is Ellipsis]
        if len(whole) > 1:
            raise ValueError("the region has two ellipses (...); leave one out")
        n_first = whole[0] if whole else len(index)
        # Axes behind an ellipsis count from the last one.
        numbers = [*range(n_first), *range(n_first + 1 - len(index), 0)]
        given = [each for each in index if each is not Ellipsis]
        pairs = zip(numbers, given, strict=True)
        found = {number: _given(number, each) for number, each in pairs}
        return cls(found, 0 if whole else len(index))

    @classmethod
    def _from_pairs(cls, pairs: Iterable[tuple[int | str, Range]]) -> Ranges:
        found: dict[int | str, Range] = {}
        for axis, each in pairs:
            if axis in found:
                message = f"the region has two ranges of {_shown(axis)}; leave one out"
                raise ValueError(message)
            found[axis] = each
        return cls(found)

    def by_number(self, names: Sequence[str | None] | None, n_axes: int) -> dict[int, Range]:
        """Return the ranges by axis number, for an array with these dimensions.

        Raises
        ------
        ValueError
            If there is no such axis, or two ranges are of the same one.
        """
        if self.n_listed > n_axes:
            message = f"region {self} has {self.n_listed} axes, but the array has {n_axes}"
            raise ValueError(message)
        found: dict[int, Range] = {}
        for axis, each in self.by_axis.items():
            number = axis if isinstance(axis, int) else _number_of(axis, names)
            if not -n_axes <= number < n_axes:
                message = f"the region names axis {axis}, but the array has {n_axes} axes"
                raise ValueError(message)
            if number % n_axes in found:
                message = f"the region has two ranges of axis {number % n_axes}; leave one out"
                raise ValueError(message)
            found[number % n_axes] = each
        return found

    def region(
        self,
        shape: tuple[int, ...],
        names: Sequence[str | None] | None = None,
        find: Callable[[int, str], int] | None = None,
    ) -> Region:
        """Return the region of an array with this shape and these dimensions.

        Parameters
        ----------
        shape, names
            The shape and the dimensions of the array.
        find
            Returns the index of the value of a coordinate, given as text, along an axis.

        Raises
        ------
        ValueError
            If there is no such axis, or a range exceeds the array.
        """
        given = self.by_number(names, len(shape))
        bounds = []
        for number, length in enumerate(shape):
            one = given.get(number, Range(None, None))
            known = None if names is None else names[number]
            is_named = known is not None and known in self.by_axis
            axis = known if is_named and known is not None else number
            look_up = None if find is None else _along(find, number)
            bounds.append(bounds_of(one, length, axis, look_up))
        return Region.of(bounds)

    def __str__(self) -> str:
        if self.n_listed:
            return ",".join(map(str, self.by_axis.values()))
        return ",".join(f"{axis}={each}" for axis, each in self.by_axis.items())


def is_index(region: object) -> TypeGuard[slice | tuple[Any, ...]]:
    """Tell whether a region is given as the index of a NumPy array, such as ``np.s_[:100, 5:]``.

    A tuple of integers alone is not: it could as well be a start and a stop.
    """
    if not isinstance(region, tuple):
        return region is Ellipsis or isinstance(region, slice)
    ranges = [each is Ellipsis or isinstance(each, slice) for each in region]
    pairs = zip(region, ranges, strict=True)
    return any(ranges) and all(is_range or hasattr(each, "__index__") for each, is_range in pairs)


def bounds_of(
    one: Range, length: int, axis: int | str, find: Callable[[str], int] | None = None
) -> tuple[int, int]:
    """Return start and stop of a range along an axis.

    Raises
    ------
    ValueError
        If the range is not within the axis, or is given by values and there is no `find`.
    """
    ends = []
    for bound, default in zip(one, (0, length), strict=True):
        if isinstance(bound, str):
            if find is None:
                message = (
                    f"range {one} of {_shown(axis)} has values, but no coordinate; give indices"
                )
                raise ValueError(message)
            ends.append(find(bound))
        else:
            end = default if bound is None else bound
            ends.append(end + length if end < 0 else end)
    low, high = ends
    if one.has_values and low > high:
        turned = Range(one.stop, one.start)
        message = (
            f"range {one} of {_shown(axis)} goes backwards, from index {low} to {high}, because "
            f"values decrease along the axis; write {turned}"
        )
        raise ValueError(message)
    if low > high:
        message = f"range {one} of {_shown(axis)} has its start after its stop"
        if min(end for end in one if isinstance(end, int)) < 0:
            values = ":".join("" if end is None else f"@{end}" for end in one)
            message += (
                f": negative indices count from the end, so it is {low}:{high}; for values of a "
                f"coordinate write {values}"
            )
        raise ValueError(message)
    if not 0 <= low <= high <= length:
        message = f"range {one} of {_shown(axis)} is not within 0:{length}"
        raise ValueError(message)
    return low, high


def _along(find: Callable[[int, str], int], number: int) -> Callable[[str], int]:
    return lambda value: find(number, value)


def _parsed(text: str, axis: int | str) -> Range:
    try:
        return Range.parse(text)
    except ValueError as error:
        message = f"the range of {_shown(_axis_of(axis))} is wrong: {error}"
        raise ValueError(message) from None


def _given(axis: int | str, given: Any) -> Range:
    try:
        return _range_of(given)
    except ValueError as error:
        message = f"the range of {_shown(_axis_of(axis))} is wrong: {error}"
        raise ValueError(message) from None


def _axis_of(text: int | str) -> int | str:
    """Return the number of an axis, which may be one of NumPy's, or its name."""
    if not isinstance(text, str):
        return index(text)
    return int(text) if _ONE_INDEX.fullmatch(text) else text


def _shown(axis: int | str) -> str:
    return f"axis {axis}" if isinstance(axis, int) else axis


def _number_of(name: str, names: Sequence[str | None] | None) -> int:
    known = [each for each in names or () if each is not None]
    if name in known:
        return list(names or ()).index(name)
    unnamed = "the axes of the array have no names; give axis numbers, as in 0=0:744"
    found = f"the dimensions are {', '.join(known)}" if known else unnamed
    message = f"the region names the dimension {name!r}, but {found}"
    raise ValueError(message)


def _range_of(given: Any) -> Range:
    """Return the range that a slice, a pair, an index or a text describes."""
    if isinstance(given, str):
        return Range.parse(given)
    if isinstance(given, slice):
        if given.step not in {None, 1}:
            message = f"{given} has a step, but regions have none"
            raise ValueError(message)
        return Range(_end_of(given.start), _end_of(given.stop))
    if isinstance(given, tuple | list):
        if len(given) != 2:  # noqa: PLR2004 - a start and a stop
            message = f"{given!r} is not a start and a stop, as in (0, 744)"
            raise ValueError(message)
        return Range(*map(_end_of, given))
    return Range.parse(str(_end_of(given)))


def _end_of(given: Any) -> Bound:
    """Return an index, None, or a value of a coordinate as text."""
    if given is None:
        return None
    if isinstance(given, str):
        if not _ONE_VALUE.fullmatch(given):
            raise ValueError(_why_not(given))
        return _bound(given.strip())
    if hasattr(given, "isoformat") or isinstance(given, np.datetime64):
        return _time_of(given)
    try:
        return index(given)
    except TypeError:
        if isinstance(given, float | np.floating):
            advice = f"indices are integers; for a value of a coordinate write '@{given}'"
        else:
            advice = "give an index, or a value of a coordinate as text"
        message = f"{given!r} is not an end of a range; {advice}"
        raise ValueError(message) from None


def _time_of(given: Any) -> str:
    """Return a time as text. Coordinates have no time zone; their times are taken as UTC."""
    time = given
    if getattr(time, "tzinfo", None) is not None:
        time = time.astimezone(UTC).replace(tzinfo=None)
    elif isinstance(time, np.datetime64) and np.datetime_data(time)[0] == "Y":
        # A year alone would be taken as a number.
        time = time.astype("M8[M]")
    text = str(time).replace(" ", "T")
    if not re.fullmatch(_DATE, text):
        message = f"{given!r} is not a time with a date"
        raise ValueError(message)
    return text
