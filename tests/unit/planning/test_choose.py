"""`auto` and what it chooses among."""

from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_io.engine.staging import staging_for
from dask_io.errors import BudgetTooSmallError, UsageError
from dask_io.planning import (
    DEVICES,
    STRATEGIES,
    AnyPlan,
    Coding,
    Device,
    Objective,
    Problem,
    Staging,
    find_candidates,
    parse_objective,
    plan_auto,
    plan_either,
    plan_with,
    predict_seconds,
)
from dask_io.planning.choose import ABOUT_AS_FAST, WORTH_SCRATCH
from dask_io.testing.strategies import problems

RESPLIT = Problem.regular((60, 60, 60), (12, 12, 12), (15, 10, 20), budget=60_000)
MERGE = Problem.regular((60, 60, 60), (12, 12, 12), (60, 60, 60), budget=60_000)
# Seeking costs nothing here, only openings do.
OPENINGS = Device("openings", 0.0, 1e9, 1e9, 1.0, 1)


def plans_of(problem: Problem) -> list[AnyPlan]:
    """The plans of all candidates."""
    return [one.plan for one in find_candidates(problem) if one.plan is not None]


def test_split_and_merge_have_more_candidates() -> None:
    """The previous strategies are considered where they apply, and only there."""
    previous = {"clustered", "multiple"}
    assert previous <= {one.strategy for one in find_candidates(MERGE)} <= set(STRATEGIES)
    assert not previous & {one.strategy for one in find_candidates(RESPLIT)}


def test_a_candidate_has_a_plan_or_a_reason() -> None:
    """A strategy without a plan says what it would need."""
    found = {one.strategy: one for one in find_candidates(MERGE.within(100))}
    assert found["clustered"].plan is None
    assert found["clustered"].why_not is not None
    assert found["clustered"].why_not.required == 12**3
    assert found["multiple"].plan is not None
    assert found["multiple"].why_not is None


@pytest.mark.parametrize("problem", [RESPLIT, MERGE], ids=["resplit", "merge"])
@pytest.mark.parametrize("device", DEVICES.values(), ids=str)
def test_time_is_about_least(problem: Problem, device: Device) -> None:
    """No candidate is predicted to be much faster than what auto takes.

    Where every block can be touched once, the fastest of those plans is meant.
    """
    found, plans = plan_auto(problem, device=device), plans_of(problem)
    once = [plan for plan in plans if plan.seeks.total == problem.lower_bound]
    least = min(
        predict_seconds(plan, device) * (WORTH_SCRATCH if plan.scratch_bytes else 1)
        for plan in once or plans
    )
    assert predict_seconds(found, device) <= ABOUT_AS_FAST * least


def test_scratch_files_must_be_worth_it() -> None:
    """A copy of everything on disk is not made to save hardly any time, only to save much."""
    hdd, found = DEVICES["hdd"], {}
    for share in (2, 4):
        shape, pages, columns = (512,) * 3, (1, 512, 512), (512, 32, 32)
        problem = Problem.regular(shape, pages, columns, dtype="u2", budget=2 * 512**3 // share)
        seconds = {plan.strategy: predict_seconds(plan, hdd) for plan in plans_of(problem)}
        saved = min(time for name, time in seconds.items() if name != "spill") / seconds["spill"]
        found[plan_auto(problem, device=hdd).strategy] = saved
    assert 1.02 < found["sweep"] < WORTH_SCRATCH < found["spill"]


def test_of_plans_about_as_fast_the_fewest_seeks_win() -> None:
    """A merge reads its blocks in two parts, in order to write few long runs."""
    problem = Problem.regular((1120,) * 3, (112,) * 3, (1120,) * 3, dtype="i2", budget=2**28)
    plans, ssd = plans_of(problem), DEVICES["ssd"]
    found, fastest = plan_auto(problem), min(plans, key=lambda plan: predict_seconds(plan, ssd))
    assert found.seeks.total == min(plan.seeks.total for plan in plans) < fastest.seeks.total
    assert predict_seconds(found, ssd) > predict_seconds(fastest, ssd)


@pytest.mark.parametrize("problem", [RESPLIT, MERGE], ids=["resplit", "merge"])
def test_seeks_are_fewest(problem: Problem) -> None:
    """No candidate has fewer seeks; among equals the one that holds least is taken."""
    plan = plan_auto(problem, objective=Objective.SEEKS)
    ranks = [(each.seeks.total, each.held_bytes, each.n_steps) for each in plans_of(problem)]
    assert (plan.seeks.total, plan.held_bytes, plan.n_steps) == min(ranks)


def test_the_device_decides() -> None:
    """Where openings are what costs, the fewest of them win over the fewest seeks."""
    fast = plan_auto(MERGE, device=OPENINGS)
    few = min(plan.seeks.total + plan.openings for plan in plans_of(MERGE))
    assert fast.seeks.total + fast.openings == few


@pytest.mark.parametrize("problem", [RESPLIT, MERGE], ids=["resplit", "merge"])
@pytest.mark.parametrize("device", DEVICES.values(), ids=str)
def test_least_memory_is_not_much_slower(problem: Problem, device: Device) -> None:
    """The plan holds no more than the fastest, and takes at most a tenth longer."""
    small = plan_auto(problem, objective=Objective.MEMORY, device=device)
    fast = plan_auto(problem, device=device)
    assert small.held_bytes <= fast.held_bytes
    assert predict_seconds(small, device) <= 1.1 * predict_seconds(fast, device)
    assert small.problem.budget == problem.budget


def test_least_memory_stays_below_the_budget() -> None:
    """Memory that is not needed is not filled with staging either."""
    gib = 2**30
    problem = Problem.regular(
        (4000, 1000, 1000),
        (400, 1000, 1000),
        (4000, 1000, 1000),
        budget=8 * gib,
        staging=Staging(2**14, 16 * gib),
    )
    small = plan_auto(problem, objective=Objective.MEMORY, device=DEVICES["ssd"])
    assert small.held_bytes < gib
    assert small.staging_bytes <= max(64 * 2**20, small.held_bytes // 2)
    assert plan_auto(problem).peak_bytes == problem.budget


def test_blocks_are_not_held_at_the_cost_of_staging() -> None:
    """Of two strategies with as many seeks, the one that leaves threads what they ask for."""
    staging = Staging(2**14, 80 * 2**20, part=12, most=32 * 2**20, threads=40 * 2**20)
    problem = Problem.regular(
        (1400,) * 3, (280, 200, 200), (700, 200, 100), dtype="i2", budget=2**27, staging=staging
    )
    plan, sweep = plan_auto(problem), STRATEGIES["sweep"](problem)
    assert plan.seeks.total == sweep.seeks.total == problem.lower_bound
    assert plan.staging_bytes >= sweep.staging_bytes >= staging.threads


def coded_problem(budget: int, coders: int) -> Problem:
    """Return a problem with chunks that take 200 bytes to encode."""
    staging = Staging(200, 4 * 200 + 2000, threads=4 * 200, coders=coders)
    return coded(Problem.regular((60, 60), (7, 7), (10, 10), budget=budget, staging=staging))


def coded(problem: Problem) -> Problem:
    """Return a problem whose chunks take long to decode, and longer to encode."""
    coding, sides = Coding(1e-5, 1e-4), (problem.source, problem.target)
    source, target = (replace(side, atomic=True, coding=coding) for side in sides)
    return replace(problem, source=source, target=target)


@pytest.mark.parametrize("objective", [Objective.TIME, Objective.MEMORY])
def test_memory_is_left_for_all_who_code(objective: Objective) -> None:
    """Where blocks cannot be touched once anyway, reading some again is quicker than one coder."""
    alone, together = (coded_problem(600, coders) for coders in (1, 2))
    assert plan_auto(alone, objective=objective).staging_bytes < 400
    plan = plan_auto(together, objective=objective)
    assert plan.staging_bytes >= 400
    assert plan.peak_bytes <= 600
    assert plan.seeks.total > plan_auto(alone, objective=Objective.SEEKS).seeks.total


@pytest.mark.parametrize("objective", Objective)
def test_who_codes_gets_no_more_than_there_is(objective: Objective) -> None:
    """A part of the budget is staging in any case, and may be enough for two or three of four."""
    staging = Staging(5, 40, part=8, most=422, threads=20, coders=4)
    problem = Problem.regular((48, 28), (35, 7), (31, 24), budget=874, staging=staging)
    plan = plan_auto(coded(problem), objective=objective)
    assert plan.peak_bytes <= problem.budget


def test_least_memory_has_room_for_all_who_code() -> None:
    """A plan that is to be small is not much slower, and small plans are not thought slower."""
    mib, ssd = 2**20, DEVICES["ssd"]
    staging = Staging(32 * mib, 2048 * mib, threads=512 * mib, coders=16)
    regular = Problem.regular((60, 60), (7, 7), (10, 10), budget=4096 * mib, staging=staging)
    problem = coded(regular)
    small, fastest = plan_auto(problem, objective=Objective.MEMORY), plan_auto(problem)
    assert predict_seconds(small, ssd) <= 1.1 * predict_seconds(fastest, ssd)
    assert small.staging_bytes == 512 * mib
    assert small.held_bytes < fastest.held_bytes


@pytest.mark.parametrize("coders", [1, 2, 4])
def test_once_comes_before_coding_at_once(coders: int) -> None:
    """A budget in which every block is touched once is used for that, however many code."""
    problem = coded_problem(620, coders)
    assert plan_auto(problem).seeks.total == problem.lower_bound


@given(
    budget=st.integers(50, 1500),
    coders=st.sampled_from([1, 2, 4]),
    objective=st.sampled_from(Objective),
)
def test_blocks_are_encoded_in_pieces_where_that_is_better(
    budget: int, coders: int, objective: Objective
) -> None:
    """It is for touching every block once, or to be faster; else they are encoded whole."""
    whole = coded_problem(budget, coders)
    target = replace(whole.target, coding=Coding(1e-5, 1.1e-4))
    staging = Staging(50, 4 * 50 + 2000, threads=4 * 50, coders=coders)
    in_pieces = replace(whole, target=target, staging=staging)
    plans = []
    for problem in (replace(each, piecewise=staging) for each in (whole, in_pieces)):
        with suppress(BudgetTooSmallError):
            plans.append(plan_auto(problem, objective=objective))
    if not plans:
        with pytest.raises(BudgetTooSmallError):
            plan_either("auto", whole, in_pieces, objective=objective)
        return

    plan = plan_either("auto", whole, in_pieces, objective=objective)

    assert plan in plans
    assert plan.peak_bytes <= budget
    lower_bound, seconds = whole.lower_bound, predict_seconds(plan, DEVICES["ssd"])
    fastest = min(predict_seconds(each, DEVICES["ssd"]) for each in plans)
    if objective is Objective.MEMORY:
        assert plan.peak_bytes == min(each.peak_bytes for each in plans) or seconds == fastest
        return
    assert (plan.seeks.total == lower_bound) == any(
        each.seeks.total == lower_bound for each in plans
    )
    if objective is Objective.SEEKS:
        assert plan.seeks.total == min(each.seeks.total for each in plans)
    # Encoding whole is a tenth faster; more than that is gained otherwise.
    elif plan.problem.target == target and plan.seeks.total > lower_bound:
        assert seconds == fastest


@pytest.mark.parametrize("objective", Objective)
def test_the_least_budget_of_all_is_named(objective: Objective) -> None:
    """Where nothing fits, the error names what the most modest strategy needs."""
    problem = Problem.regular((6, 6), (2, 2), (3, 3), dtype="f8", budget=7)
    with pytest.raises(BudgetTooSmallError) as caught:
        plan_auto(problem, objective=objective)
    assert caught.value.required == 8


@pytest.mark.parametrize("objective", Objective)
def test_empty_arrays_have_plans(objective: Objective) -> None:
    """Nothing to do is planned too."""
    plan = plan_auto(Problem.regular((0, 3), (1, 1), (1, 1), budget=10), objective=objective)
    assert plan.seeks.total == 0


@pytest.mark.parametrize("objective", Objective)
def test_names_lead_to_strategies(objective: Objective) -> None:
    """A strategy is planned as asked, whatever the objective; auto is the best of them."""
    assert plan_with("naive", RESPLIT, objective=objective).strategy == "naive"
    assert plan_with("auto", RESPLIT, objective=objective) == plan_auto(
        RESPLIT, objective=objective
    )


def test_unknown_names_are_refused() -> None:
    """The error lists those that there are."""
    with pytest.raises(
        UsageError, match="unknown strategy 'best'; choose one of auto, sweep, keep"
    ):
        plan_with("best", RESPLIT)
    with pytest.raises(
        UsageError, match="unknown objective 'best'; choose one of time, seeks, memory"
    ):
        parse_objective("best")


def test_the_default_objective_is_time() -> None:
    """Saying nothing means time."""
    assert parse_objective(None) is Objective.TIME
    assert parse_objective("seeks") is Objective.SEEKS


@pytest.mark.parametrize(
    ("chunks", "wanted", "budget"), [(112, 1024, 2**29), (256, 500, 2**28), (112, 160, 2**28)]
)
def test_seeks_are_given_for_more_room_only(chunks: int, wanted: int, budget: int) -> None:
    """Where write cells are too large for the room to write behind, there is nothing to gain."""
    problem = Problem.regular((1120,) * 3, (chunks,) * 3, (wanted,) * 3, dtype="i2", budget=budget)
    staging = staging_for(problem.target, problem.dtype, workers=6)
    problem = replace(problem, staging=staging)
    few, fast = (plan_auto(problem, objective=each) for each in (Objective.SEEKS, Objective.TIME))
    assert fast.seeks.total == few.seeks.total or fast.staging_bytes > few.staging_bytes


@given(problem=problems(max_axes=3))
def test_every_objective_is_best_at_its_own(problem: Problem) -> None:
    """Time takes no longer than seeks, seeks are no more, and memory holds no more than time.

    Only room to write behind, which predictions do not know of, may make time a little longer.
    """
    device = DEVICES["ssd"]
    plans = {each: plan_auto(problem, objective=each, device=device) for each in Objective}
    assert all(plan.fits for plan in plans.values())
    fast, few, small = (plans[each] for each in Objective)
    patience = ABOUT_AS_FAST * (WORTH_SCRATCH if few.scratch_bytes else 1)
    assert predict_seconds(fast, device) <= patience * predict_seconds(few, device)
    assert few.seeks.total <= fast.seeks.total
    assert small.held_bytes <= fast.held_bytes


def test_more_memory_never_takes_longer_for_a_merge() -> None:
    """Over a range of budgets the predicted time only falls."""
    device = DEVICES["hdd"]
    budgets = [2_000, 10_000, 50_000, 100_000, 216_000, 500_000]
    seconds = [predict_seconds(plan_auto(MERGE.within(n), device=device), device) for n in budgets]
    assert all(more >= less for more, less in pairwise(seconds))
