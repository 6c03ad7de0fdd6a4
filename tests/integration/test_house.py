"""The picture of the rooms is up to date, and shows a ladder."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

HOUSE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "house.py"))


def test_the_picture_is_up_to_date() -> None:
    """`make house` has been run since rooms last changed what they import."""
    assert HOUSE["PICTURE"].read_text() == HOUSE["draw"](HOUSE["import_rooms"]())


def test_a_cycle_is_refused() -> None:
    """Rooms that import each other are reported by name."""
    with pytest.raises(ValueError, match=r"each other: \['engine', 'stores'\]"):
        HOUSE["find_levels"]({"engine": {"stores"}, "stores": {"engine", "units"}, "units": set()})


def test_implied_arrows_are_left_out() -> None:
    """An import that a chain of others implies gets no arrow."""
    rooms = {"api": {"jobs", "units"}, "jobs": {"units"}, "units": set()}

    assert HOUSE["find_arrows"](rooms) == [("api", "jobs"), ("jobs", "units")]
