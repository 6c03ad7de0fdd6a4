"""Plans to JSON and back."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from dask_io.geometry import Axis, Grid, Layout
from dask_io.planning import (
    Plan,
    Problem,
    Side,
    plan_from_json,
    plan_keep,
    plan_naive,
    plan_to_json,
)
from dask_io.testing.strategies import plans

PLAN = plan_naive(Problem.regular((10, 6), (4, 3), (5, 6), dtype="int16", budget=1000))


@given(plan=plans(windows=True))
def test_a_plan_comes_back_as_it_was(plan: Plan) -> None:
    """Any plan survives the way to JSON text and back, padding of its dtype included."""
    found = plan_to_json(plan)
    assert plan_from_json(found) == plan
    again = plan_from_json(json.loads(json.dumps(found)))
    assert again == plan
    assert again.problem.dtype == plan.problem.dtype


def test_numbers_beyond_64_bits_are_exact() -> None:
    """Sizes that no machine integer holds survive."""
    problem = Problem.regular((2**70 + 1, 3), (2**40, 3), (2**41, 1), budget=2**90)
    plan = plan_keep(problem)
    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan


@pytest.mark.parametrize(
    "dtype",
    [
        ">f4",
        "S5",
        "<M8[ns]",
        "V3",
        [("a", "u1"), ("b", ">f8", (2, 3))],
        [("outer", [("x", "<i2"), ("y", "?")]), ("z", "<c8")],
        [(("title", "name"), "<i4")],
        np.dtype([("a", "u1"), ("b", "<f8")], align=True),
    ],
    ids=str,
)
def test_dtypes_come_back(dtype: Any) -> None:
    """Any fixed-size dtype survives: endianness, nesting, titles, shapes and padding."""
    grid, layout = Grid.regular((4,), (2,)), Layout.c(1)
    problem = Problem(Side(grid, layout), Side(grid, layout), np.dtype(dtype), 1000)
    text = json.dumps(plan_to_json(plan_naive(problem)))
    assert plan_from_json(json.loads(text)).problem == problem


def test_every_key_of_the_contract_is_there() -> None:
    """The keys that users rely on are all written; what is unknown is null."""
    assert plan_to_json(PLAN) == {
        "shape": [10, 6],
        "dtype": "<i2",
        "converted": None,
        "strategy": "naive",
        "order": [0, 1],
        "hold": "blocks",
        "streams": False,
        "source": {
            "format": "raw",
            "chunks": [4, 3],
            "blocks": 6,
            "absent": 0,
            "grid": [[[4, 2], [2, 1]], [[3, 2]]],
            "layout": [0, 1],
            "atomic": False,
            "codec_bytes": 0,
            "coding": [0.0, 0.0],
            "reused_bytes": 0,
            "grain": "cell",
            "sequential": False,
            "chunks_in_blocks": None,
            "through": 0,
            "window": None,
        },
        "target": {
            "format": "raw",
            "chunks": [5, 6],
            "blocks": 2,
            "absent": 0,
            "grid": [[[5, 2]], [[6, 1]]],
            "layout": [0, 1],
            "atomic": False,
            "codec_bytes": 0,
            "coding": [0.0, 0.0],
            "reused_bytes": 0,
            "grain": "cell",
            "sequential": False,
            "chunks_in_blocks": None,
            "through": 0,
            "window": None,
        },
        "axes": [
            {
                "read": [[4, 2, "flush"], [2, 1, "flush"]],
                "write": [[4, 1], [1, 1], [3, 1], [2, 1]],
                "backwards": False,
            },
            {"read": [[3, 2, "flush"]], "write": [[3, 2]], "backwards": False},
        ],
        "slabs": None,
        "read_chunks": [4, 3],
        "steps": 6,
        "seeks": {"read": 6, "write": 20, "total": 26, "lower_bound": 8, "naive": 26},
        "openings": 14,
        "bytes": {"read": 120, "written": 120, "scratch": 0},
        "decodes": 0,
        "seconds": None,
        "device": None,
        "memory": {
            "budget": 1000,
            "peak": 24,
            "held": 24,
            "staging": 0,
            "staging_rule": {
                "minimum": 0,
                "preferred": 0,
                "part": 0,
                "most": 0,
                "threads": 0,
                "coders": 1,
            },
            "for_lower_bound": 48,
            "copy_rule": None,
            "piecewise_rule": None,
        },
        "disk": {"peak": 120, "lag": None},
    }


def side_of(lengths: list[int]) -> Side:
    """A side of one axis with these blocks."""
    return Side(Grid((Axis.of(lengths),)), Layout.c(1))


def test_uneven_chunks_are_listed_unless_they_are_many() -> None:
    """Chunks of an irregular axis are its lengths, or null where they would fill pages."""
    few, many = [3, 4, 3], [1, 2] * 3000
    plan = plan_naive(Problem(side_of(few), side_of([10]), np.dtype("u1"), 100))
    assert plan_to_json(plan)["source"]["chunks"] == [few]
    plan = plan_naive(Problem(side_of(many), side_of([9000]), np.dtype("u1"), 100))
    found = plan_to_json(plan)
    assert found["source"]["chunks"] == [None]
    assert found["axes"][0]["write"] is None
    assert plan_from_json(found) == plan


def test_the_chunks_of_shards_come_back() -> None:
    """They are described with the shards."""
    shards = replace(side_of([4, 4]), chunks_in_blocks=(2,))
    plan = plan_naive(Problem(side_of([8]), shards, np.dtype("u1"), 100))
    found = json.loads(json.dumps(plan_to_json(plan)))
    assert found["target"]["chunks_in_blocks"] == [2]
    assert plan_from_json(found) == plan


def test_write_cells_that_cannot_be_listed_are_null() -> None:
    """A billion write cells without a pattern are not written out."""
    plan = plan_naive(Problem.regular((7 * 10**9,), (7,), (5,), budget=100))
    assert plan_to_json(plan)["axes"][0]["write"] is None


def changed(path: str, value: object) -> dict[str, Any]:
    """The plan's JSON with one value replaced, or removed if it is an ellipsis."""
    found: Any = json.loads(json.dumps(plan_to_json(PLAN)))
    *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    node = found
    for key in way:
        node = node[key]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("shape", ..., r"plan\.shape is missing"),
        ("source", ..., r"plan\.source is missing"),
        ("source", 3, r"plan\.source should be an object, found 3"),
        ("target.grid", ..., r"plan\.target\.grid is missing"),
        ("source.layout", [0, 0], "every axis once"),
        ("source.layout", [0], "the layout has 1 axes, not 2"),
        ("source.grid.0", [[4, 3]], "differ"),
        ("source.grid.0.0", [4, -2], r"grid\[0\]\[0\]\[1\] should be an integer of at least 1"),
        ("source.grid.0.0", [4], r"should be a list of 2"),
        ("source.grid.0.0", [4.0, 2], r"should be an integer"),
        ("source.format", None, r"plan\.source\.format should be a string, found None"),
        ("source.coding", [10**400, 0], r"coding\[0\] should be a number of seconds"),
        ("source.coding", [0, float("nan")], r"coding\[1\] should be a number of seconds"),
        ("source.coding", [0, True], r"coding\[1\] should be a number of seconds"),
        ("shape", [10, 7], r"plan\.shape is \[10, 7\], but its grids are \[10, 6\]"),
        ("shape", [10, True], r"plan\.shape\[1\] should be an integer"),
        ("shape", "10,6", r"plan\.shape should be a list"),
        ("order", [0], "every axis once"),
        ("order", [0, 1, 2], "every axis once"),
        ("axes", [], r"plan\.axes has 0 entries for 2 axes"),
        ("axes.0.read", [[4, 2, "keep"]], "read cells cover"),
        ("axes.0.read.0", [4, 2, "maybe"], "should be keep or flush, found 'maybe'"),
        ("axes.0.read.0", [4, 2, ["keep"]], "should be keep or flush"),
        ("axes.0.read.0", [0, 2, "keep"], "integer of at least 1"),
        ("hold", "hands", "should be pieces or blocks, found 'hands'"),
        ("strategy", 1, r"plan\.strategy should be a string"),
        ("memory.budget", -1, r"plan\.memory\.budget should be an integer of at least 0"),
        ("memory.budget", "4GiB", r"plan\.memory\.budget should be an integer"),
        ("memory.staging_rule", ..., r"plan\.memory\.staging_rule is missing"),
        ("dtype", "no such type", r"plan\.dtype is not a data type"),
        ("dtype", 7, r"plan\.dtype is not a data type"),
        ("dtype", [["a"]], r"plan\.dtype is not a data type"),
        ("dtype", [["a", "<i2", "x"]], r"plan\.dtype is not a data type"),
        ("dtype", "O", "fixed size"),
        ("dtype", [], "fixed size"),
    ],
)
def test_malformed_input_is_one_clear_line(path: str, value: object, message: str) -> None:
    """What is wrong is named with the way to it, in one line."""
    with pytest.raises(ValueError, match=message) as caught:
        plan_from_json(changed(path, value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [None, 3, "plan", [], {}])
def test_anything_else_is_no_plan(value: object) -> None:
    """Whatever JSON holds, the error is a ValueError."""
    with pytest.raises(ValueError, match=r"^plan"):
        plan_from_json(value)
