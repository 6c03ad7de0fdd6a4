"""Shards as users write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.errors import UsageError
from dask_io.geometry import Grid
from dask_io.geometry.shards import normalize_shards, parse_shards

GRID = Grid.regular((10, 7, 5), (2, 3, 5))
NAMES = ["time", "y", None]
LENGTHS = st.integers(-1, 99).filter(bool)


@given(st.dictionaries(st.sampled_from(["time", "y"]), LENGTHS, min_size=1))
def test_what_is_written_by_name_is_meant_by_number(asked: dict[str, int]) -> None:
    """Text, names and numbers say the same; axes that are not named are as long as a chunk."""
    text = ",".join(f"{name}={length}" for name, length in asked.items())
    by_number = {NAMES.index(name): length for name, length in asked.items()}
    found = normalize_shards(asked, GRID, NAMES)
    assert found == (asked.get("time", 2), asked.get("y", 3), 5)
    assert found == normalize_shards(by_number, GRID, None)
    assert found == normalize_shards(parse_shards(text), GRID, NAMES)


@given(st.lists(LENGTHS, min_size=2, max_size=4))
def test_a_length_for_each_axis_is_kept_as_it_is(asked: list[int]) -> None:
    """Whatever the array: whether it fits is the format's to say; a single one is for all axes."""
    text = ",".join(map(str, asked))
    for written in (text, f"({text})", f"{text},"):
        assert normalize_shards(parse_shards(written), GRID, NAMES) == tuple(asked)
    assert normalize_shards(parse_shards(str(asked[0])), GRID, NAMES) == (asked[0],) * 3


@pytest.mark.parametrize("text", ["", "auto", "4,auto", "x", "time=(3,4)", "(3,4),5", "t=1,t=2"])
def test_text_that_is_none(text: str) -> None:
    """It is shown, with what can be written instead."""
    with pytest.raises(UsageError, match=r"shards '.*' are invalid; write them as 64,64,-1 or"):
        parse_shards(text)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("auto", "shards are 'auto'; give a length for each axis, or -1"),
        ((2, "auto", 5), "give a length for each axis"),
        ({"y": None}, "give a length for each axis"),
        (2.0, "give a length for each axis"),
        ({"x": 4}, "shards are given for axis 'x', but its axes are time, y"),
        ({3: 4}, "shards are given for axis 3, but the array has 3 axes"),
    ],
)
def test_shards_of_another_array(asked: Any, message: str) -> None:
    """They are refused."""
    with pytest.raises(UsageError, match=message):
        normalize_shards(asked, GRID, NAMES)
