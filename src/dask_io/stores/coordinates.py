"""Coordinates: the positions of values along an axis, with the times of the CF conventions."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import MissingLibraryError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dask_io.stores.space import Affine

# Microseconds of the units of time, by their names in the CF conventions.
_UNITS = {
    name: length
    for length, names in {
        1: "microsecond microseconds microsec microsecs",
        10**3: "millisecond milliseconds millisec millisecs msec msecs ms",
        10**6: "second seconds sec secs s",
        60 * 10**6: "minute minutes min mins",
        3600 * 10**6: "hour hours hr hrs h",
        86400 * 10**6: "day days d",
    }.items()
    for name in names.split()
}
_SINCE = re.compile(r"\s*([a-z]+)\s+since\s+(\S.*?)\s*", re.IGNORECASE)
_REFERENCE = re.compile(
    r"([-+]?\d+)-(\d{1,2})-(\d{1,2})"
    r"(?:[T ]\s*(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?)?"
    r"\s*(?:Z|UTC|GMT|[-+]0?0(?::?00)?)?",
    re.IGNORECASE,
)
# Calendars that agree with that of NumPy, the first two only from this day on.
_SWITCHED, _PROLEPTIC = frozenset({"standard", "gregorian"}), "proleptic_gregorian"
_SWITCH = np.datetime64("1582-10-15")
# Times that are stored as fractions of a day are rounded, so they are compared to the millisecond.
_ROUNDING = 500
# Other floats are compared to this part of the step between neighbours.
_PART_OF_STEP = 0.01
_INTEGER = re.compile(r"[-+]?\d+")
_DATE = re.compile(r"[-+]?\d{4,}-\d\d(?:-|$)")
# Positions that differ by this part of a step are the same: files store them with few digits.
_SAME = 1e-3


@dataclass(frozen=True)
class Coordinate:
    """The values of a coordinate, as they are stored, with its attributes.

    Examples
    --------
    >>> hours = Coordinate("time", np.arange(0, 72, 6), {"units": "hours since 2020-01-01"})
    >>> hours.find("2020-01-02"), hours.find("2020-01-02T07")
    (4, 6)
    >>> latitudes = Coordinate("lat", np.array([60.0, 30, 0, -30, -60]), {})
    >>> latitudes.find("30"), latitudes.find("-10.5")
    (1, 3)
    """

    name: str
    values: NDArray[Any]
    attributes: Mapping[str, Any]

    def find(self, value: str) -> int:
        """Return the index of the first element at a value or behind it.

        If the values decrease, an element is behind a value if it is smaller.

        Raises
        ------
        UsageError
            If the value does not suit the coordinate, or its elements are not sorted.
        """
        values = self._decoded()
        if values.ndim != 1 or not len(values) or values.dtype.kind not in "iufM":
            raise self._no_numbers()
        sought, tolerance = self._sought(value)
        falls = len(values) > 1 and values[0] > values[-1]
        steps = values[1:] < values[:-1] if falls else values[1:] > values[:-1]
        if not np.all(steps):
            raise UsageError(
                f"the values of {self.name} are neither in rising nor in falling order; give "
                "indices"
            )
        if falls:
            return int(np.count_nonzero(values > sought + tolerance))
        return int(np.count_nonzero(values < sought - tolerance))

    def show(self, index: int) -> str:
        """Return an element as text: as a number or as a time.

        Examples
        --------
        >>> Coordinate("time", np.array([0, 36]), {"units": "hours since 2020-01-01"}).show(1)
        '2020-01-02T12:00'
        """
        value = self._decoded()[index]
        if value.dtype.kind not in "iufM":
            raise UsageError(f"{self.name} is not a list of numbers or times")
        if value.dtype.kind == "M":
            return _brief(str(value.astype("M8[us]")))
        units = self.attributes.get("units")
        since = _SINCE.fullmatch(units) if isinstance(units, str) else None
        parts = None if since is None else _REFERENCE.fullmatch(since[2])
        length = None if since is None else _UNITS.get(since[1].lower())
        calendar = str(self.attributes.get("calendar", "standard")).lower()
        if parts is not None and length is not None:
            with suppress(ValueError, OverflowError, MissingLibraryError):
                return _brief(_after(_numbers(parts), round(float(value) * length), calendar))
        return f"{value:.6g}" if value.dtype.kind == "f" else str(value)

    def _decoded(self) -> NDArray[Any]:
        """Return the values with their scale and offset."""
        scale, offset = (self.attributes.get(name) for name in ("scale_factor", "add_offset"))
        if scale is None and offset is None:
            return self.values
        try:
            # Some programs write a list of one number.
            factors, offsets = (
                np.ravel(default if given is None else given)
                for given, default in ((scale, 1), (offset, 0))
            )
            decoded: NDArray[Any] = self.values * factors[0] + offsets[0]
        except (TypeError, ValueError, IndexError):
            raise self._no_numbers() from None
        return decoded

    def _has_integer(self, number: int) -> bool:
        """Tell whether elements are stored as integers of a type that this one fits in."""
        if self.values.dtype.kind not in "iu" or self._decoded() is not self.values:
            return False
        limits = np.iinfo(self.values.dtype)
        return int(limits.min) <= number <= int(limits.max)

    def _no_numbers(self) -> UsageError:
        return UsageError(f"{self.name} is not a list of numbers or times; give indices")

    def _sought(self, value: str) -> tuple[Any, Any]:
        """Return a value as the coordinate stores it, and the tolerance of comparisons."""
        if self.values.dtype.kind == "M":
            if _DATE.match(value) is None:
                raise UsageError(f"{value} is not a time of {self.name}; write a date, as 2020-01")
            return _within(_time(value, self.name), self.values.dtype), np.timedelta64(0, "us")
        if _DATE.match(value) is None:
            number, decoded = float(value), self._decoded()
            if _INTEGER.fullmatch(value) and self._has_integer(int(value)):
                # A float cannot hold all integers of 64 bits.
                return int(value), 0
            if decoded.dtype.kind != "f":
                return number, 0
            # A float32 coordinate has an element for 40.1, but no element equals the double 40.1.
            with np.errstate(over="ignore"):
                return decoded.dtype.type(number), _rounding(decoded)
        units = self.attributes.get("units")
        since = _SINCE.fullmatch(units) if isinstance(units, str) else None
        length = None if since is None else _UNITS.get(since[1].lower())
        if since is None or length is None:
            found = f"its units are {units!r}" if units else "it has no units"
            raise UsageError(
                f"{self.name} has no time for {value}: {found}, not as in 'hours since "
                "1900-01-01'; give indices, or numbers as in @40.0:@60.0"
            )
        calendar = str(self.attributes.get("calendar", "standard")).lower()
        return _since(value, self.name, since[2], calendar) / length, _ROUNDING / length


def _rounding(values: NDArray[Any]) -> NDArray[Any]:
    """Return how far floats may be from the numbers that they stand for.

    403 * 0.1 is not 40.3, and steps that are added up are less exact still.
    """
    if len(values) == 1:
        rounding: NDArray[Any] = 2 * np.spacing(np.abs(values))
        return rounding
    steps = np.abs(np.diff(values))
    nearer: NDArray[Any] = np.minimum(np.append(steps, steps[-1:]), np.append(steps[:1], steps))
    return np.where(np.isfinite(nearer), nearer * _PART_OF_STEP, 0)


def index_along(affine: Affine, shape: Sequence[int], axis: int, value: str) -> int | None:
    """Return the index of the first element at a position in the world or behind it along an axis.

    None if the axis is not parallel to a coordinate, so that no single index has the position.

    Raises
    ------
    ValueError
        If the value is not a number.

    Examples
    --------
    >>> from dask_io.stores.space import Affine
    >>> flipped = Affine(((-2.0, 0.0), (0.0, 0.5)), (90.0, -1.0))
    >>> [index_along(flipped, (91, 10), 0, value) for value in ("90", "89", "-100")]
    [0, 1, 91]
    >>> index_along(Affine(((1.0, 1.0), (1.0, -1.0)), (0.0, 0.0)), (9, 9), 0, "5")
    """
    sought = float(value)
    column = [abs(row[axis]) for row in affine.matrix]
    row = _coordinate_along(affine, axis)
    step = affine.matrix[row][axis]
    ends = zip(affine.matrix[row], shape, strict=True)
    along = sum(abs(n) * max(0, length - 1) for n, length in ends)
    along -= abs(step) * max(0, shape[axis] - 1)
    if not step or sum(column) - abs(step) + along > _SAME * abs(step):
        return None
    index = ceil((sought - affine.origin[row]) / step - _SAME)
    return min(max(0, index), shape[axis])


def position_along(affine: Affine, axis: int, index: int) -> float:
    """Return the position of an index along an axis that is parallel to a coordinate."""
    row = _coordinate_along(affine, axis)
    return affine.origin[row] + index * affine.matrix[row][axis]


def _coordinate_along(affine: Affine, axis: int) -> int:
    """Return the number of the coordinate that changes most along an axis."""
    return max(range(len(affine.matrix)), key=lambda row: abs(affine.matrix[row][axis]))


def _time(value: str, name: str) -> np.datetime64:
    year = _INTEGER.match(value)
    with suppress(ValueError):
        time = np.datetime64(value.removesuffix("Z").replace(" ", "T"), "us")
        # NumPy wraps around in far years without an error.
        if year is not None and int(str(time.astype("M8[Y]"))) == int(year[0]):
            return time
    raise UsageError(f"{value} is not a time, as those of {name} are")


def _within(time: np.datetime64, dtype: np.dtype[Any]) -> np.datetime64:
    """Return the closest time that a type has.

    NumPy compares in the finer of two units, in which a time outside would wrap around.
    """
    finer = np.promote_types(dtype, time.dtype)
    last = np.array(2**63 - 1).astype(finer).astype(time.dtype).astype(int)
    return np.datetime64(int(np.clip(time.astype(int), -last, last)), "us")


def _since(value: str, name: str, reference: str, calendar: str) -> float:
    """Return the microseconds from a reference to a time."""
    parts = _REFERENCE.fullmatch(reference)
    if parts is None:
        raise UsageError(
            f"{name} counts since {reference!r}, which is not understood; give indices"
        )
    numbers = _numbers(parts)
    if calendar in {*_SWITCHED, _PROLEPTIC}:
        time = _time(value, name)
        try:
            start = _moment(numbers)
        except ValueError:
            raise UsageError(f"{name} counts since {reference!r}, which is no date") from None
        if calendar == _PROLEPTIC or min(time, start.astype("M8[D]")) >= _SWITCH:
            return float((time - start) / np.timedelta64(1, "us"))
    return _since_in_calendar(value, numbers, calendar)


def _numbers(reference: re.Match[str]) -> tuple[int, ...]:
    """Return year, month, day, hour, minute, second and microsecond of a reference."""
    numbers = (int(part or 0) for part in reference.groups()[:6])
    return (*numbers, int((reference[7] or "").ljust(6, "0")[:6]))


def _moment(numbers: tuple[int, ...]) -> np.datetime64:
    """Return a time in the Gregorian calendar."""
    year, month, day, hour, minute, second, micro = numbers
    days = np.datetime64(f"{year:05}-{month:02}-{day:02}", "us")
    return days + np.timedelta64(((hour * 60 + minute) * 60 + second) * 10**6 + micro, "us")


def _brief(time: str) -> str:
    """Return a time without zeros at its end."""
    return re.sub(r"(:00)?(\.0+)?$", "", time).removesuffix("T00:00").removesuffix("T00")


def _after(reference: tuple[int, ...], n_microseconds: int, calendar: str) -> str:
    """Return the time that is some microseconds after a reference."""
    if calendar in {*_SWITCHED, _PROLEPTIC}:
        start = _moment(reference)
        time = start + np.timedelta64(n_microseconds, "us")
        if calendar == _PROLEPTIC or min(time, start) >= _SWITCH:
            return str(time)
    start = _import_cftime(calendar).datetime(*reference, calendar=calendar)
    return str((start + timedelta(microseconds=n_microseconds)).isoformat())


def _import_cftime(calendar: str) -> Any:
    try:
        import cftime  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
    except ImportError:
        raise MissingLibraryError(
            f"times in the calendar {calendar} need cftime; install it with: pip install cftime"
        ) from None
    return cftime


def _since_in_calendar(value: str, reference: tuple[int, ...], calendar: str) -> float:
    """Return the microseconds from a reference to a time in a calendar that NumPy lacks."""
    cftime = _import_cftime(calendar)
    found = re.split(r"[-T :.]", value.lstrip("-+").removesuffix("Z"))
    sign = -1 if value.startswith("-") else 1
    numbers = [sign * int(found[0]), *(int(each) for each in found[1:6])]
    numbers += [1] * (3 - len(numbers))
    numbers += [int(each.ljust(6, "0")[:6]) for each in found[6:]]
    try:
        start = cftime.datetime(*reference, calendar=calendar)
        passed = cftime.datetime(*numbers, calendar=calendar) - start
    except ValueError as error:
        raise UsageError(f"{value} is not a time in the calendar {calendar}: {error}") from None
    return float(passed.total_seconds() * 10**6)
