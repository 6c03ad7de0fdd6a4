"""Split and merge: naive, clustered, multiple, keep and sweep, as in the paper of 2017."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from benchmarks.engine.measuring import remove
from benchmarks.experiments.plot import Panel, draw
from benchmarks.experiments.setting import pairs
from dask_io.geometry import Grid
from dask_io.planning import Problem, plan_with

if TYPE_CHECKING:
    from benchmarks.experiments.setting import Setting

# In storage order, slowest axis first.
_ARRAY, _BLOCKS = (3500, 3025, 3850), (700, 605, 770)
_GIB = (3, 6, 9, 12, 16)
_MEASURED = (3, 16)
_STRATEGIES = ("clustered", "multiple", "keep", "sweep")
_PUBLISHED = {
    "naive": (52_937_625,) * 5,
    "clustered": (21_175_125, 17_625, 10_625, 7_125, 130),
    "multiple": (776, 438, 334, 282, 230),
}


def run(setting: Setting) -> dict[str, Any]:
    """Count at full size, and measure at a smaller one, in both directions."""
    planned = {name: [_seeks(name, gib) for gib in _GIB] for name in ("naive", *_STRATEGIES)}
    return {
        "gib": _GIB,
        "planned_merge": planned,
        "planned_split": {
            name: [_seeks(name, gib, is_split=True) for gib in _GIB] for name in planned
        },
        "published": _PUBLISHED,
        "reproduced": all(planned[name] == list(counts) for name, counts in _PUBLISHED.items()),
        "measured_merge": _measured(setting, is_split=False),
        "measured_split": _measured(setting, is_split=True),
        "measured_gib": _MEASURED,
    }


def picture(data: dict[str, Any]) -> str:
    """Draw seeks by memory, and measured times of both directions."""
    seeks = {
        name: list(zip(data["gib"], counts, strict=True))
        for name, counts in data["planned_merge"].items()
    }
    panels = [Panel("seeks to merge, planned", seeks, "GiB of memory", x_log=False)]
    for direction in ("merge", "split"):
        found = data[f"measured_{direction}"]
        times = {
            name: [
                (gib, found[key]["seconds"])
                for gib in data["measured_gib"]
                if "seconds" in found.get(key := f"{name} {gib} GiB", {})
            ]
            for name in ("naive", *_STRATEGIES)
        }
        panels.append(
            Panel(f"seconds to {direction}, scaled, measured", times, "GiB, scaled", x_log=False)
        )
    return draw(panels)


def _seeks(name: str, gib: int, *, is_split: bool = False) -> int:
    sides = (_ARRAY, _BLOCKS) if is_split else (_BLOCKS, _ARRAY)
    problem = Problem.regular(_ARRAY, *sides, dtype="int16", budget=gib * 2**30)
    return plan_with(name, problem).seeks.total


def _measured(setting: Setting, *, is_split: bool) -> dict[str, dict[str, Any]]:
    blocks = tuple(max(2, round(length * setting.scale)) for length in _BLOCKS)
    shape = tuple(
        length * (whole // block)
        for length, whole, block in zip(blocks, _ARRAY, _BLOCKS, strict=True)
    )
    sides = [Grid.regular(shape, lengths) for lengths in (blocks, shape)]
    before, after = sides[::-1] if is_split else sides
    source, scale = setting.make_source(before), prod(shape) / prod(_ARRAY)
    chunks = {"chunks": after.longest}
    budgets = {f"{gib} GiB": int(gib * 2**30 * scale) for gib in _MEASURED}
    found = setting.compare(
        source,
        {name: {**way, **chunks} for name, way in pairs(_STRATEGIES, budgets).items()},
        into_one=not is_split,
    )
    largest = dict(list(budgets.items())[-1:])
    found |= setting.compare(
        source,
        {name: {**way, **chunks} for name, way in pairs(("naive",), largest).items()},
        into_one=not is_split,
        repeats=1,
    )
    remove(source)
    return found
