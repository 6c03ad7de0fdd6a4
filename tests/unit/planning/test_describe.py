"""A plan as text."""

from dataclasses import replace

import pytest
from hypothesis import given

from dask_io.geometry import Axis, Grid, Layout, Region
from dask_io.planning import (
    Hold,
    Plan,
    Problem,
    ReadRun,
    Series,
    Side,
    Staging,
    describe_plan,
    plan_keep,
    plan_naive,
    series_to_json,
)
from dask_io.planning.spill import plan_spill
from dask_io.testing.strategies import plans


@given(plan=plans())
def test_any_plan_prints_in_ten_lines(plan: Plan) -> None:
    """The text has the same short form for every plan."""
    text = str(plan)
    assert text == describe_plan(plan)
    assert len(text.splitlines()) == 10
    assert text.startswith(plan.strategy)


def test_the_text_says_what_a_plan_costs() -> None:
    """Numbers are those of the plan, in human units."""
    staging = Staging(2**20, 2**26)
    problem = Problem.regular(
        (3500, 3500, 3500),
        (350, 350, 350),
        (500, 500, 500),
        dtype="float16",
        budget=4 * 10**9,
        staging=staging,
    )
    text = str(plan_keep(problem))
    assert "3500 x 3500 x 3500 of float16, 79.86 GiB" in text
    assert "raw, 1,000 blocks of 350 x 350 x 350, C order" in text
    assert "(lower bound 1,343, naive 196,001,000)" in text
    assert "+ 64.00 MiB staging" in text
    assert "of 3.72 GiB" in text


@pytest.mark.parametrize(
    ("n_runs", "expected"),
    [(4, "2 keep\n"), (5, "2 keep, 1 more run\n"), (9, "2 keep, 5 more runs\n")],
)
def test_long_lists_of_runs_are_cut(n_runs: int, expected: str) -> None:
    """Only the first runs of an axis are shown."""
    reads = tuple(ReadRun(1 + at % 2, 1, keep=True) for at in range(n_runs))
    length = sum(run.length for run in reads)
    problem = Problem.regular((length,), (1,), (length,), budget=1)
    plan = Plan(problem, (0,), (reads,), Hold.PIECES, "sweep")
    assert expected in str(plan)


def test_a_plan_that_exceeds_its_budget_says_so() -> None:
    """A plan that does not fit is not shown as if it did."""
    problem = Problem.regular((8,), (8,), (8,), budget=7)
    plan = Plan(problem, (0,), ((ReadRun(8, 1, keep=True),),), Hold.PIECES, "keep")
    assert str(plan).endswith("8 B of 7 B, which it exceeds")


def test_an_empty_axis_reads_nothing() -> None:
    """An array without elements has a plan, and the plan a text."""
    plan = plan_keep(Problem.regular((0, 4), (1, 2), (1, 4), budget=8))
    assert plan.axes[0].ends == Axis(())
    assert "axis 0: nothing" in str(plan)


def test_a_region_is_named_with_the_blocks_that_it_is_in() -> None:
    """Blocks are as large as they are stored; how many is how many take part."""
    whole = Problem.regular((10, 6), (4, 6), (3, 6), dtype="u1", budget=2**20)
    source = Side(Grid.regular((10, 6), (4, 6)), Layout.c(2), window=Region((5, 0), (8, 6)))
    target = Side(Grid.regular((3, 6), (3, 6)), Layout.c(2))
    plan = plan_keep(replace(whole, source=source, target=target))
    assert "source    raw, 1 block of 4 x 6, C order, of which 5:8,0:6\n" in str(plan)


def test_several_arrays_are_a_table_and_what_they_cost_together() -> None:
    """A line for every array, the most of memory and scratch, and the sum of all else."""
    small = Problem.regular((8, 8), (1, 8), (8, 1), dtype="int16", budget=100)
    series = Series({"a": plan_naive(small), "inner/b": plan_spill(small)})

    head, a, b, total = str(series).splitlines()

    assert head.split()[:2] == ["array", "size"]
    assert a.split()[0] == "a"
    assert b.split()[0] == "inner/b"
    assert "naive" in a
    assert "spill" in b
    assert total.startswith(f"in all 2 arrays, {series.seeks.total:,} seeks")
    assert total.endswith("128 B of scratch")
    assert series_to_json(series)["bytes"]["scratch"] == 128
