"""One configuration, 350³ to 500³, with every amount of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.engine.measuring import remove
from benchmarks.experiments.plot import Panel, draw
from benchmarks.experiments.setting import CONFIGURATIONS, geometric, pairs
from dask_io.errors import BudgetTooSmallError
from dask_io.planning import DEVICES, memory_for_lower_bound, plan_with, predict_seconds
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from benchmarks.experiments.setting import Setting

_CONFIGURATION = CONFIGURATIONS[2]
_STRATEGIES = ("naive", "keep", "sweep")
_N_PLANNED, _N_MEASURED = 16, 5
_LEAST_PLANNED, _LEAST_MEASURED = 2e7, 2.5e8


def run(setting: Setting) -> dict[str, Any]:
    """Plan at full size, and measure at a smaller size, from little memory to the whole array."""
    problem = _CONFIGURATION.problem(1)
    knee = memory_for_lower_bound(problem)
    planned = {
        name: [
            _planned(name, budget)
            for budget in geometric(_LEAST_PLANNED, problem.n_bytes, _N_PLANNED)
        ]
        for name in _STRATEGIES
    }
    before, after = _CONFIGURATION.scaled(setting.scale)
    budgets = {
        format_bytes(budget): setting.budget(budget, before.shape)
        for budget in geometric(_LEAST_MEASURED, 2 * knee, _N_MEASURED)
    }
    source = setting.make_source(before)
    ways = pairs(("keep", "sweep"), budgets)
    measured = setting.compare(
        source, {name: {**way, "chunks": after.longest} for name, way in ways.items()}
    )
    remove(source)
    return {
        "blocks": _CONFIGURATION.name,
        "array_bytes": problem.n_bytes,
        "lower_bound": problem.lower_bound,
        "knee": knee,
        "planned": {name: [row for row in rows if row] for name, rows in planned.items()},
        "measured_budgets": budgets,
        "measured": measured,
    }


def picture(data: dict[str, Any]) -> str:
    """Draw seeks, predicted time on a hard disk, and measured time, by memory."""
    planned = data["planned"]

    def series(key: str) -> dict[str, list[tuple[float, float]]]:
        return {name: [(row["budget"], row[key]) for row in rows] for name, rows in planned.items()}

    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in _STRATEGIES}
    for label, budget in data["measured_budgets"].items():
        for name in _STRATEGIES:
            one = data["measured"].get(f"{name} {label}", {})
            if "seconds" in one:
                measured[name].append((budget, one["seconds"]))
    bound = {"lower bound": float(data["lower_bound"])}
    return draw(
        [
            Panel("seeks, planned", series("seeks"), "bytes of memory", notes=bound),
            Panel("seconds on a hard disk, by the model", series("hdd"), "bytes of memory"),
            Panel("seconds, scaled, measured", measured, "bytes of memory", y_log=False),
        ]
    )


def _planned(name: str, budget: int) -> dict[str, Any]:
    """Return the cost of a plan; empty if the budget is too small."""
    try:
        plan = plan_with(name, _CONFIGURATION.problem(budget))
    except BudgetTooSmallError:
        return {}
    times = {device: round(predict_seconds(plan, DEVICES[device]), 1) for device in ("hdd", "ssd")}
    return {"budget": budget, "seeks": plan.seeks.total, "held": plan.held_bytes, **times}
