"""Values of coordinates, and the times of the CF conventions."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from dask_io.errors import MissingLibraryError, UsageError
from dask_io.stores.coordinates import Coordinate


@given(
    values=st.lists(st.integers(-50, 50), min_size=2, unique=True),
    sought=st.integers(-60, 60),
    falling=st.booleans(),
)
def test_values_are_found_as_xarray_finds_them(
    values: list[int], sought: int, *, falling: bool
) -> None:
    """In rising and in falling order, at a value, between two, and outside."""
    ordered = np.array(sorted(values, reverse=falling), float)
    found = Coordinate("x", ordered, {}).find(str(sought))
    left = xr.DataArray(ordered, dims="x", coords={"x": ordered}).sel(x=slice(sought, None))
    assert found == len(values) - left.size


@pytest.mark.parametrize("unit", ["days", "hours", "h", "minutes", "seconds", "ms"])
@pytest.mark.parametrize("dtype", ["i8", "f8"])
@pytest.mark.parametrize("calendar", ["standard", "proleptic_gregorian", "noleap", "360_day"])
def test_times_are_those_of_xarray(unit: str, dtype: str, calendar: str) -> None:
    """In any unit and calendar, every stored time is found where xarray decodes it."""
    steps = np.arange(0, 90) if unit == "days" and dtype == "i8" else np.arange(0, 30, 1 / 24)
    n_per_day = {"days": 1, "hours": 24, "h": 24, "minutes": 1440, "seconds": 86400, "ms": 864e5}
    values = (steps * n_per_day[unit]).round(12 if dtype == "f8" else 0).astype(dtype)
    attributes = {"units": f"{unit} since 1999-12-31 12:00:00", "calendar": calendar}
    if calendar == "360_day":
        attributes["units"] = f"{unit} since 1999-12-30 12:00:00"
    coder = xr.coders.CFDatetimeCoder(use_cftime=True)
    spelled = attributes["units"].replace("h since", "hours since")
    variable = xr.Variable(
        "t", values, {**attributes, "units": spelled.replace("ms ", "milliseconds ")}
    )
    times = coder.decode(variable).values
    coordinate = Coordinate("t", values, attributes)
    for index in (0, 1, 7, len(values) - 1):
        assert coordinate.find(times[index].strftime("%Y-%m-%dT%H:%M:%S")) == index


@pytest.mark.parametrize(
    ("units", "value", "index"),
    [
        ("days since 1-1-1", "0001-01-11", 10),
        ("days since 1582-10-01", "1582-10-15", 4),
        ("days since 2020-1-1 00:00:0.0", "2020-01-04", 3),
        ("Hours since 2020-01-01T00:00:00Z", "2020-01-01T05:30", 6),
        ("hours since 2020-01-01 00:00 UTC", "2020-01-01 05:00", 5),
        ("days since 2020-01-01 12:00:00.500000 +00:00", "2020-01-03", 2),
        ("days since 2020-01-01", "2020-02", 31),
        ("days since 2020-01-01", "1999-01-01", 0),
        ("days since 2020-01-01", "2099-01-01", 40),
    ],
)
def test_units_are_written_in_many_ways(units: str, value: str, index: int) -> None:
    """Of the standard calendar, which has no days between October 4th and 15th, 1582."""
    assert Coordinate("time", np.arange(40), {"units": units}).find(value) == index


def test_times_of_numpy() -> None:
    """Zarr stores them as such."""
    times = np.datetime64("2020-01-01T00", "ns") + np.arange(48) * np.timedelta64(1, "h")
    assert Coordinate("time", times, {}).find("2020-01-02") == 24


@pytest.mark.parametrize("dtype", ["M8[ns]", ">M8[ns]", "M8[s]", "M8[D]", "M8[M]"])
@pytest.mark.parametrize(("value", "index"), [("2600-01-01", 120), ("0001-01-01", 0)])
def test_times_beyond_those_of_a_type(dtype: str, value: str, index: int) -> None:
    """Nanoseconds end in 2262, but times outside are still before or after all others."""
    times = np.arange("2010-01", "2020-01", dtype="M8[M]").astype(dtype)
    assert Coordinate("time", times, {}).find(value) == index
    assert Coordinate("time", times[::-1], {}).find(value) == 120 - index


@pytest.mark.parametrize("value", ["5", "-5", "20000105", "2012", "1.5"])
def test_a_number_is_no_time_of_numpy(value: str) -> None:
    """NumPy would take it for a year."""
    times = np.array(["2010-01-01", "2020-01-01"], "M8[ns]")
    with pytest.raises(UsageError, match=f"{value} is not a time of t; write a date, as 2020-01"):
        Coordinate("t", times, {}).find(value)


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize(
    "values",
    [
        np.linspace(-180, 179.9, 3600),
        np.float32(-180) + np.float32(0.1) * np.arange(3600, dtype="f4"),
        np.cumsum([-180, *[0.1] * 3599]),
    ],
    ids=["linspace", "float32", "sums"],
)
def test_rounded_values_are_found(values: Any, *, falling: bool) -> None:
    """Although none of them may be exactly the number that it stands for."""
    coordinate = Coordinate("lon", values[::-1] if falling else values, {})
    found = [coordinate.find(f"{n / 10 - 180:.1f}") for n in range(3600)]
    assert found == list(range(3600))[:: -1 if falling else 1]


def test_a_number_between_values_is_not_rounded() -> None:
    """The tolerance is a small part of the closest step, and none for integers."""
    values = np.array([0, 1e-3, 2e-3, 1, 1000])
    assert [Coordinate("x", values, {}).find(f"{n}e-4") for n in (9, 10, 11, 9999)] == [1, 1, 2, 3]
    ends = Coordinate("x", np.array([-np.inf, 0, np.inf]), {})
    assert [ends.find(each) for each in ("-1", "0", "1e-9")] == [1, 1, 2]
    assert Coordinate("x", np.arange(5), {}).find("2.001") == 3
    assert Coordinate("x", np.array([403], "i2"), {"scale_factor": 0.1}).find("40.3") == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_huge_numbers_are_behind_all(dtype: str) -> None:
    """Without a warning of NumPy."""
    coordinate = Coordinate("x", np.arange(4).astype(dtype), {})
    assert (coordinate.find("1e300"), coordinate.find("-1e300")) == (4, 0)


def test_a_scale_in_a_list() -> None:
    """Some programs write every attribute as a list."""
    packed: dict[str, Any] = {"scale_factor": [0.5], "add_offset": [10.0]}
    coordinate = Coordinate("lat", np.arange(20, dtype="i2"), packed)
    assert coordinate.find("12.5") == 5
    assert coordinate.show(5) == "12.5"


def test_times_of_other_calendars() -> None:
    """They are found to parts of a second, and shown as times."""
    units = {"units": "milliseconds since 2000-02-28", "calendar": "noleap"}
    coordinate = Coordinate("t", np.arange(0, 2 * 86400 * 1000, 250), units)
    assert coordinate.find("2000-02-28T00:00:01.25") == 5
    assert coordinate.show(5) == "2000-02-28T00:00:01.250000"
    assert coordinate.show(86400 * 4) == "2000-03-01"


def test_stored_values_are_decoded() -> None:
    """A packed coordinate has a scale and an offset, and a short float the nearest number."""
    packed = {"scale_factor": 0.5, "add_offset": 10.0}
    assert Coordinate("lat", np.arange(20, dtype="i2"), packed).find("12.5") == 5
    short = np.arange(0, 10, 0.1, dtype="f4")
    assert [Coordinate("lat", short, {}).find(f"{n / 10}") for n in range(100)] == list(range(100))


@pytest.mark.parametrize(
    ("values", "attributes", "value", "said"),
    [
        (
            [1, 3, 2],
            {},
            "2",
            "values of t are neither in rising nor in falling order; give indices",
        ),
        ([1.0, np.nan], {}, "2", "neither in rising nor in falling order"),
        ([[1, 2]], {}, "2", "t is not a list of numbers or times"),
        ([b"a"], {}, "2", "t is not a list of numbers or times"),
        ([1, 2], {}, "2020-01", "no time for 2020-01: it has no units"),
        (
            [1, 2],
            {"units": "K"},
            "2020-01",
            "its units are 'K', not as in 'hours since 1900-01-01'",
        ),
        ([1, 2], {"units": "months since 2000-01-01"}, "2020-01", "its units are 'months since"),
        ([1, 2], {"units": "days since then"}, "2020-01", "counts since 'then', which is not"),
        ([1, 2], {"units": "days since 2000-13-01"}, "2020-01", "'2000-13-01', which is no date"),
        ([1, 2], {"units": "days since 2000-01-01"}, "2020-13", "2020-13 is not a time"),
        ([1, 2], {"units": "days since 2000-01-01"}, "300000-01-01", "300000-01-01 is not a time"),
        (
            [1, 2],
            {"units": "days since 2000-01-01", "calendar": "noleap"},
            "2020-02-29",
            "2020-02-29 is not a time in the calendar noleap",
        ),
        (
            [1, 2],
            {"units": "days since 2000-01-01", "calendar": "martian"},
            "2020-02-29",
            "is not a time in the calendar martian",
        ),
    ],
)
def test_what_cannot_be_found(
    values: list[Any], attributes: dict[str, str], value: str, said: str
) -> None:
    """Nothing is guessed."""
    with pytest.raises(UsageError, match=said):
        Coordinate("t", np.array(values), attributes).find(value)


def test_other_calendars_need_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to install it."""
    monkeypatch.setitem(sys.modules, "cftime", None)
    units = {"units": "days since 2000-01-01", "calendar": "noleap"}
    with pytest.raises(MissingLibraryError, match=r"calendar noleap need cftime; .* pip install"):
        Coordinate("t", np.arange(3), units).find("2000-01-02")
    assert Coordinate("t", np.arange(3), units).show(2) == "2"


@pytest.mark.parametrize("falling", [False, True])
def test_packed_values_are_found(*, falling: bool) -> None:
    """Although 403 * 0.1 is not the number that is read from 40.3."""
    stored = np.arange(390, 410, dtype="i2")
    coordinate = Coordinate("lat", stored[::-1] if falling else stored, {"scale_factor": 0.1})
    for index, value in enumerate(coordinate.values):
        assert coordinate.find(f"{value / 10:.1f}") == index


@pytest.mark.parametrize("name", ["scale_factor", "add_offset"])
def test_a_scale_that_is_no_number_is_refused(name: str) -> None:
    """Any program may write attributes."""
    with pytest.raises(UsageError, match="x is not a list of numbers"):
        Coordinate("x", np.arange(3), {name: "two"}).find("1")


def test_large_integers_are_found_exactly() -> None:
    """Neighbours beyond 2**53 are the same float."""
    ids = Coordinate("id", np.arange(2**53 - 2, 2**53 + 6), {})

    assert [ids.find(str(2**53 + n)) for n in range(4)] == [2, 3, 4, 5]
    assert ids.find(str(2**64)) == 8
    assert Coordinate("id", np.array([1, 2**63, 2**64 - 1], "u8"), {}).find(str(2**63)) == 1
