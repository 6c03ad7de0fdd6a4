"""Naive, keep and sweep on the seven published configurations, with three budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.engine.measuring import remove
from benchmarks.experiments.plot import Panel, draw
from benchmarks.experiments.setting import CONFIGURATIONS, pairs
from dask_io.planning import plan_with

if TYPE_CHECKING:
    from benchmarks.experiments.setting import Configuration, Setting

_BUDGETS = {"1 GB": 10**9, "2 GB": 2 * 10**9, "4 GB": 4 * 10**9}
# The published figures count array data alone; this is for what moves it.
_ALLOWANCE = 64 * 10**6
_STRATEGIES = ("naive", "keep", "sweep")


def run(setting: Setting) -> dict[str, Any]:
    """Plan all configurations at full size, and measure the chosen ones at a smaller size."""
    chosen = set(setting.chosen())
    rows = [
        {
            "configuration": configuration.number,
            "blocks": configuration.name,
            "lower_bound": configuration.problem(1).lower_bound,
            "planned": _planned(configuration),
            "measured": _measured(setting, configuration) if configuration in chosen else {},
        }
        for configuration in CONFIGURATIONS
    ]
    return {"budgets": _BUDGETS, "rows": rows}


def picture(data: dict[str, Any]) -> str:
    """Draw seeks at full size, measured time, and memory, with the largest budget."""
    label = list(data["budgets"])[-1]
    names = [str(row["configuration"]) for row in data["rows"]]

    def series(part: str, key: str, what: float = 1) -> dict[str, list[tuple[float, float]]]:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in _STRATEGIES}
        for number, row in enumerate(data["rows"]):
            for name in _STRATEGIES:
                one = row[part].get(f"{name} {label}", {})
                if one.get(key):
                    found[name].append((number, one[key] / what))
        return found

    panels = [
        Panel(
            f"{title} at {label}",
            series(part, key),
            "configuration",
            names=names,
            lines=False,
        )
        for title, part, key in (
            ("seeks", "planned", "seeks"),
            ("bytes held", "planned", "held"),
            ("seconds, scaled,", "measured", "seconds"),
        )
    ]
    return draw(panels)


def _planned(configuration: Configuration) -> dict[str, dict[str, Any]]:
    found = {}
    for label, budget in _BUDGETS.items():
        for name in _STRATEGIES:
            # The naive plan needs room for one block, whatever the budget.
            room = max(_BUDGETS.values()) if name == "naive" else budget
            plan = plan_with(name, configuration.problem(room + _ALLOWANCE))
            found[f"{name} {label}"] = {"seeks": plan.seeks.total, "held": plan.held_bytes}
    return found


def _measured(setting: Setting, configuration: Configuration) -> dict[str, dict[str, Any]]:
    before, after = configuration.scaled(setting.scale)
    budgets = {label: setting.budget(budget, before.shape) for label, budget in _BUDGETS.items()}
    source = setting.make_source(before)
    chunks = {"chunks": after.longest}
    ways = {name: {**way, **chunks} for name, way in pairs(("keep", "sweep"), budgets).items()}
    found = setting.compare(source, ways)
    largest = dict([list(budgets.items())[-1]])
    naive = {name: {**way, **chunks} for name, way in pairs(("naive",), largest).items()}
    # It takes many times longer, and one run shows this.
    found |= setting.compare(source, naive, repeats=1)
    remove(source)
    return found
