"""How much the order of the axes and the directions of a sweep matter."""

from __future__ import annotations

from itertools import chain, combinations, permutations, product
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.experiments.plot import Panel, draw
from benchmarks.study_optimality import measure, random_problem
from dask_io.planning import Hold, Plan, Problem, ReadRun, memory_for_lower_bound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.experiments.setting import Setting

_BUDGET = 2 * 10**9
# One tiny problem for this many random cases, because the optimum is searched for.
_CASES_PER_PROBLEM = 4


def run(setting: Setting) -> dict[str, Any]:
    """Try every order and direction on the configurations, and on tiny problems."""
    rows = []
    for configuration in setting.chosen():
        problem = configuration.problem(_BUDGET)
        plans = list(_every_order(problem))
        held = sorted(plan.held_bytes for plan in plans)
        seeks = sorted(min(_within(plan, _BUDGET)) for plan in plans)
        rows.append(
            {
                "configuration": configuration.number,
                "blocks": configuration.name,
                "orders": len(plans),
                "held": {
                    "best": held[0],
                    "C order": _c_order(problem).held_bytes,
                    "worst": held[-1],
                },
                "held_by_sweep": memory_for_lower_bound(problem),
                "seeks_within_2_gb": {
                    "best": seeks[0],
                    "C order": min(_within(_c_order(problem), _BUDGET)),
                    "worst": seeks[-1],
                },
            }
        )
    return {"rows": rows, "tiny": _tiny(max(3, setting.cases // _CASES_PER_PROBLEM))}


def picture(data: dict[str, Any]) -> str:
    """Draw memory and seeks of the best, the usual and the worst order."""
    names = [str(row["configuration"]) for row in data["rows"]]
    panels = []
    for title, key in (
        ("bytes to touch each block once", "held"),
        ("seeks within 2 GB", "seeks_within_2_gb"),
    ):
        series = {
            which: [(float(n), float(row[key][which])) for n, row in enumerate(data["rows"])]
            for which in ("worst", "C order", "best")
        }
        if key == "held":
            series["sweep"] = [
                (float(n), float(row["held_by_sweep"])) for n, row in enumerate(data["rows"])
            ]
        panels.append(Panel(title, series, "configuration", names=names, lines=False))
    return draw(panels)


def _every_order(problem: Problem) -> Iterator[Plan]:
    """Yield plans that read one source block at a time, in every order and direction of axes."""
    axes = range(len(problem.shape))
    for order in permutations(axes):
        for backwards in chain.from_iterable(combinations(axes, n) for n in range(len(axes) + 1)):
            yield _block_by_block(problem, order, frozenset(backwards))


def _c_order(problem: Problem) -> Plan:
    return _block_by_block(problem, tuple(range(len(problem.shape))), frozenset())


def _block_by_block(
    problem: Problem,
    order: tuple[int, ...],
    backwards: frozenset[int],
    kept: tuple[bool, ...] = (),
) -> Plan:
    kept = kept or (True,) * len(order)
    reads = tuple(
        tuple(ReadRun(length, count, keep) for length, count in axis.runs)
        for axis, keep in zip(problem.source.grid.axes, kept, strict=True)
    )
    return Plan(problem, order, reads, Hold.PIECES, "order", backwards=backwards)


def _within(plan: Plan, budget: int) -> list[int]:
    """Return the seeks of all ways to flush whole axes that fit, for the same order."""
    every = (
        _block_by_block(plan.problem, plan.order, plan.backwards, kept)
        for kept in product((True, False), repeat=len(plan.order))
    )
    return [each.seeks.total for each in every if each.held_bytes <= budget]


def _tiny(n_problems: int) -> dict[str, Any]:
    """Compare with the exact optimum, for problems that are small enough."""
    random, ratios = Random(1), dict[str, list[float]]()
    while len(ratios.get("sweep", [])) < n_problems:
        problem = random_problem(random)
        found = measure(problem)
        if found is None or found.n_axes == 1:
            continue
        held = [plan.held_bytes for plan in _every_order(problem)]
        values = {
            "sweep": found.sweep,
            "best": min(held),
            "C order": _c_order(problem).held_bytes,
            "worst": max(held),
        }
        for name, value in values.items():
            ratios.setdefault(name, []).append(value / found.optimum)
    return {
        name: {
            "problems": len(each),
            "optimal": round(sum(ratio <= 1 for ratio in each) / len(each), 3),
            "median": round(median(each), 3),
            "worst": round(max(each), 3),
        }
        for name, each in ratios.items()
    }
