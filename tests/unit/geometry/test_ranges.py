"""Ranges along axes, as users write them."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.geometry import Region
from dask_io.geometry.ranges import Range, Ranges

NAMES = ("time", "lat", "lon")
SHAPE = (12, 7, 5)


@st.composite
def ends(draw: st.DrawFn, length: int) -> tuple[int | None, int | None]:
    """A start and a stop, each from the start or the end of the axis, or left out."""
    low = draw(st.integers(0, length))
    high = draw(st.integers(low, length))
    start = draw(st.sampled_from([low, low - length] if low < length else [low]))
    stop = draw(st.sampled_from([high, high - length] if high < length else [high]))
    return (
        None if low == 0 and draw(st.booleans()) else start,
        None if high == length and draw(st.booleans()) else stop,
    )


BOUNDS = st.tuples(*map(ends, SHAPE))


def written(start: int | None, stop: int | None) -> str:
    """The text of a range."""
    return ":".join("" if end is None else str(end) for end in (start, stop))


@given(BOUNDS, st.permutations(range(3)), st.integers(0, 3))
def test_by_name_is_by_number_is_by_position(
    bounds: tuple[tuple[int | None, int | None], ...], order: list[int], n_axes: int
) -> None:
    """All ways to write a region mean what NumPy means; axes that are not named are whole."""
    texts = [written(*each) for each in bounds]
    chosen = sorted(order[:n_axes])
    whole = [texts[axis] if axis in chosen else ":" for axis in range(3)]
    expected = Ranges.parse(",".join(whole)).region(SHAPE)

    names = ",".join(f"{NAMES[axis]}={texts[axis]}" for axis in order[:n_axes])
    numbers = ",".join(f"{axis}={texts[axis]}" for axis in order[:n_axes])
    last = ",".join(f"{axis - 3}={texts[axis]}" for axis in order[:n_axes])
    slices = {NAMES[axis]: slice(*bounds[axis]) for axis in chosen}
    pairs = {axis: bounds[axis] for axis in chosen}
    index = tuple(slice(*bounds[axis]) if axis in chosen else slice(None) for axis in range(3))
    for region in (names, numbers, last, slices, pairs, index):
        assert Ranges.parse(region).region(SHAPE, NAMES) == expected

    array = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    assert np.array_equal(array[expected.slices], array[index])


@given(BOUNDS)
def test_what_is_shown_means_the_same(bounds: tuple[tuple[int | None, int | None], ...]) -> None:
    """Ranges as messages show them, and regions, are regions again."""
    ranges = Ranges.parse(dict(zip(NAMES, bounds, strict=True)))
    region = ranges.region(SHAPE, NAMES)
    assert Ranges.parse(str(ranges)) == ranges
    assert Ranges.parse(region).region(SHAPE) == region
    assert Region.parse(str(region), SHAPE) == region


@pytest.mark.parametrize(("index", "found"), [(0, (0, 1)), (4, (4, 5)), (-1, (4, 5)), (-5, (0, 1))])
def test_an_index_is_a_range_of_one(index: int, found: tuple[int, int]) -> None:
    """So the axis stays, with one element."""
    for region in (
        f":,:,{index}",
        f"lon={index}",
        {"lon": index},
        {2: np.int64(index)},
        {np.int64(2): index},
    ):
        assert Ranges.parse(region).region(SHAPE, NAMES).bounds[2] == found


@pytest.mark.parametrize(
    ("text", "start", "stop"),
    [
        ("2020-01:2020-02", "2020-01", "2020-02"),
        ("2020-01-01:", "2020-01-01", None),
        (":2020-01-01T00", None, "2020-01-01T00"),
        ("2020-01-01T00:2020-01-02T06", "2020-01-01T00", "2020-01-02T06"),
        ("2020-01-01T00:30:2020-01-02", "2020-01-01T00:30", "2020-01-02"),
        ("2020-01-01T00:30:15.5:2020-01-02", "2020-01-01T00:30:15.5", "2020-01-02"),
        ("2020-01-01 00:00:00Z:744", "2020-01-01 00:00:00Z", 744),
        ("@2020-01-01:@-40.5", "2020-01-01", "-40.5"),
        ("@40:@6e1", "40", "6e1"),
        ("2020:2021", 2020, 2021),
    ],
)
def test_values_of_coordinates(text: str, start: object, stop: object) -> None:
    """Dates are recognised, other values follow an @, and plain numbers are always indices."""
    assert Range.parse(text) == (start, stop)
    assert Ranges.parse(f"x={text}") == Ranges.parse({"x": text})
    assert Range.parse(str(Range.parse(text))) == (start, stop)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (np.s_[2:5], "2:5"),
        (np.s_[2:5, ..., -1], "2:5,:,-1"),
        (np.s_[..., :3], ":,:,:3"),
        (np.s_[np.int64(4), :3], "4,:3"),
        (np.s_[1:2, :, :, ...], "1:2"),
        (..., ":"),
    ],
    ids=str,
)
def test_the_index_of_an_array(index: Any, text: str) -> None:
    """Slices, indices and an ellipsis mean what they mean in NumPy; a single index is a range."""
    parsed = Ranges.parse(index)

    assert parsed.region(SHAPE) == Ranges.parse(text).region(SHAPE)
    assert Ranges.parse(str(parsed) or ":").region(SHAPE) == parsed.region(SHAPE)


def test_python_values_of_coordinates() -> None:
    """Dates of Python and NumPy are values, and so is text."""
    stop = "2020-02-01T06:00:00"
    expected = {"t": Range("2020-01-01", stop)}
    for first in (date(2020, 1, 1), np.datetime64("2020-01-01"), "2020-01-01", "@2020-01-01"):
        for last in (datetime(2020, 2, 1, 6), np.datetime64(stop), stop):  # noqa: DTZ001 - no zone
            assert Ranges.parse({"t": slice(first, last)}).by_axis == expected


@pytest.mark.parametrize(
    ("region", "said"),
    [
        ("0:3,0:4:2", "range of axis 1 is wrong: '0:4:2' has a step, but regions have none; write"),
        ({"lat": slice(0, 4, 2)}, r"range of lat is wrong: slice\(0, 4, 2\) has a step"),
        ("lat=40.5:60", "'40.5:60' is not a range of indices; .* write @40.5:@60"),
        ({"lat": (40.5, 60)}, "40.5 is not an end .* indices are integers; .* write '@40.5'"),
        ({"lat": (1, 2, 3)}, "not a start and a stop"),
        ({"lat": (None, "x")}, "'x' is not a range"),
        ({"lat": 1j}, "is not an end of a range; give an index"),
        ("time=2020-01-01", "is a single value; write a range"),
        ("lat=a:b", "range of lat is wrong: 'a:b' is not a range; write it as 0:100, 5: or :"),
        ("0:1,", "range of axis 1 is wrong: '' is not a range"),
        ("time=0:1,:", "gives some ranges by dimension, but ':' by position"),
        ("lat=0:1,lat=2:3", "two ranges of lat; leave one out"),
        ("lat=0:1,1=2:3", "two ranges of axis 1; leave one out"),
        ("0:1,:,:,:", "has 4 axes, but the array has 3"),
        ("3=0:1", "names axis 3, but the array has 3 axes"),
        ("lta=0:1", "names the dimension 'lta', but the dimensions are time, lat, lon"),
        ("lat=0:8", "range 0:8 of lat is not within 0:7"),
        ("1=5:3", "range 5:3 of axis 1 has its start after its stop"),
        ("lat=-3:3", "-3:3 of lat has its start .* from the end, so it is 4:3; .* write @-3:@3"),
        ((1, 2), "a region is text such as .* or an index"),
        (np.s_[0:1, :, :, 2], "has 4 axes, but the array has 3"),
        (np.s_[0:4:2, :], "has a step"),
        (np.s_[..., ...], "two ellipses"),
        ("lat=-8", "range -8:-7 of lat is not within 0:7"),
        ("lat=@40:", "range @40: of lat has values, but no coordinate; give indices"),
        (5, "a region is text such as"),
    ],
    ids=str,
)
def test_what_is_not_a_region(region: Any, said: str) -> None:
    """The message names the axis, what is wrong, and what to write."""
    with pytest.raises((TypeError, ValueError), match=said):
        Ranges.parse(region).region(SHAPE, NAMES)


def test_names_need_named_axes() -> None:
    """The message says how to do without."""
    with pytest.raises(ValueError, match=r"axes of the array have no names; .* as in 0=0:744"):
        Ranges.parse("x=0:1").region(SHAPE)


@pytest.mark.parametrize(
    "text", ["", "0:1", "0:1,0:2,0:9", "0:1,:,0:1", "-1:2,0:1,0:1", "2:1,0:1,0:1"]
)
def test_a_recorded_region_is_checked(text: str) -> None:
    """A journal may be damaged."""
    with pytest.raises(ValueError, match="is not a region of an array of shape"):
        Region.parse(text, SHAPE)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (datetime(2020, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "2020-01-01T00:00:00"),
        (np.datetime64("2020"), "2020-01"),
        (np.datetime64("2020-01-02T03"), "2020-01-02T03"),
    ],
)
def test_times_are_dates_in_utc(given: Any, expected: str) -> None:
    """Coordinates have no time zone, and a year alone would be taken as a number."""
    assert Ranges.parse({"time": slice(given, None)}).by_axis == {"time": Range(expected, None)}


@pytest.mark.parametrize("given", [np.datetime64("NaT"), time(5)])
def test_what_is_no_date_is_refused(given: Any) -> None:
    """Nothing in a coordinate is before or after it, so that it would select everything."""
    with pytest.raises(ValueError, match="is not a time with a date"):
        Ranges.parse({"time": slice(given, None)})
