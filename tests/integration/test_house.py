"""The pictures of the documents are up to date; that of the rooms shows a ladder."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
HOUSE = runpy.run_path(str(DOCS / "house.py"))


def test_the_picture_is_up_to_date() -> None:
    """`make house` has been run since rooms last changed what they import."""
    assert HOUSE["PICTURE"].read_text() == HOUSE["draw"](HOUSE["import_rooms"]())


def test_the_picture_of_a_sweep_is_up_to_date() -> None:
    """`make house` has been run since plans last changed."""
    idea = runpy.run_path(str(DOCS / "idea.py"))

    assert idea["PICTURE"].read_text() == idea["draw"]()


def test_a_cycle_is_refused() -> None:
    """Rooms that import each other are reported by name."""
    with pytest.raises(ValueError, match=r"each other: \['engine', 'stores'\]"):
        HOUSE["find_levels"]({"engine": {"stores"}, "stores": {"engine", "units"}, "units": set()})


def test_implied_arrows_are_left_out() -> None:
    """An import that a chain of others implies gets no arrow."""
    rooms = {"api": {"jobs", "units"}, "jobs": {"units"}, "units": set()}

    assert HOUSE["find_arrows"](rooms) == [("api", "jobs"), ("jobs", "units")]
