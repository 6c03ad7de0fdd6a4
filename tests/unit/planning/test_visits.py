"""How often blocks are touched, and what is said of it."""

from __future__ import annotations

import re

from hypothesis import given

from dask_io.planning import (
    Problem,
    Series,
    explain_visits,
    plan_keep,
    plan_naive,
    plan_spill,
    plan_sweep,
    plan_together,
)
from dask_io.planning.visits import count_visits
from dask_io.testing.strategies import problems, shared_problems
from dask_io.testing.walker import walk
from dask_io.units import parse_bytes

ROWS_TO_COLUMNS = Problem.regular((40, 40), (4, 40), (40, 4), budget=400)


def budget_in(text: str) -> int:
    """The budget that a message recommends."""
    match = re.search(r"--memory (\S+)", text)
    assert match is not None, text
    return parse_bytes(match[1])


def test_too_little_memory_is_said() -> None:
    """With how often blocks are touched, and with the budget at which each is touched once."""
    told = explain_visits(plan_sweep(ROWS_TO_COLUMNS))
    assert told == (
        "each block is read 1.2 times and written in 4.0 parts on average, because the memory "
        "budget of 400 B is too small; --memory 1.57KiB is enough to read and write every block "
        "once"
    )
    assert explain_visits(plan_sweep(ROWS_TO_COLUMNS.within(1600))) == ""


def test_memory_that_processes_share_is_that_of_all() -> None:
    """The budget and the advice are values of --memory, which is divided among processes."""
    told = explain_visits(plan_sweep(ROWS_TO_COLUMNS), n_shares=3)
    assert "budget of 1.17 KiB is too small (400 B for each of 3 processes)" in told
    share = budget_in(told) // 3
    assert explain_visits(plan_sweep(ROWS_TO_COLUMNS.within(share)), n_shares=3) == ""


def test_a_named_strategy_is_the_reason() -> None:
    """The naive strategy writes blocks piece by piece, however much memory there is."""
    told = explain_visits(plan_naive(ROWS_TO_COLUMNS.within(10**6)))
    assert told == (
        "each block is written in 10.0 parts on average with the naive strategy; to read and write "
        "every block once, give --strategy sweep --memory 1.57KiB"
    )


def test_scratch_files_are_said() -> None:
    """They touch every block once, but move everything through the disk."""
    told = explain_visits(plan_spill(ROWS_TO_COLUMNS))
    assert told.startswith("data passes through scratch files on disk, because the memory budget")


def test_a_few_visits_more_are_not_rounded_away() -> None:
    """An average of hardly more than 1 is not shown as 1.0."""
    problem = Problem.regular((1000, 2), (1, 2), (999, 2), budget=3)
    plan = plan_naive(problem.within(10**6))
    series = Series({"a": plan_sweep(Problem.regular((10**6,), (1,), (1,), budget=3)), "b": plan})
    assert "written in 1.01 parts" in explain_visits(series)


def test_arrays_of_a_series_are_counted_together() -> None:
    """The budget is enough for the array that needs the most; those that need less do not count."""
    small, large = ROWS_TO_COLUMNS, Problem.regular((80, 40), (8, 40), (80, 4), budget=400)
    told = explain_visits(Series({"small": plan_sweep(small), "large": plan_sweep(large)}))
    assert budget_in(told) == budget_in(explain_visits(plan_sweep(large)))
    enough = small.within(1600)
    assert explain_visits(Series({"small": plan_sweep(enough)})) == ""
    assert explain_visits(Series({})) == ""


@given(problem=problems(windows=True))
def test_visits_are_those_of_the_steps(problem: Problem) -> None:
    """What is said is true: blocks are touched so often, and with that budget once."""
    plan = plan_sweep(problem)
    visits, told = count_visits(plan), explain_visits(plan)
    assert visits.read + visits.written == walk(plan).openings
    assert visits.are_once == (told == "")
    if told:
        better = plan_sweep(problem.within(budget_in(told)))
        assert explain_visits(better) == ""


@given(problems=shared_problems())
def test_one_sweep_is_enough_with_the_budget_named(problems: list[Problem]) -> None:
    """Several targets are written from one read of every block with the budget that is named."""
    roomy = [problem.within(10**12) for problem in problems]
    enough = plan_together(roomy, plan_sweep).memory_for_lower_bound
    better = plan_together([problem.within(enough) for problem in problems], plan_sweep)
    assert better.seeks.total == better.lower_bound
    assert explain_visits(better) == ""


def test_targets_moved_alone_are_said() -> None:
    """A named strategy reads what several targets need once for each of them."""
    several = [ROWS_TO_COLUMNS.within(10**6)] * 2
    told = explain_visits(plan_together(several, plan_keep, apart=True))
    assert told.startswith("each block is read 2.0 times on average, because --strategy moves")
    assert told.endswith("without --strategy is enough to read and write every block once")


def test_a_billion_blocks_are_counted_at_once() -> None:
    """Nothing is listed per block."""
    shape, blocks = (10**6,) * 3, (1000, 1000, 1000)
    plan = plan_sweep(Problem.regular(shape, blocks, (1500, 1500, 1500), budget=10**9))
    assert "on average" in explain_visits(plan)
