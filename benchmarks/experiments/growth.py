"""Time and memory as arrays, their blocks, their axes, threads and processes become more."""

from __future__ import annotations

import time
from math import ceil
from typing import TYPE_CHECKING, Any

from benchmarks.engine.measuring import remove
from benchmarks.experiments.plot import Panel, draw
from benchmarks.experiments.setting import CONFIGURATIONS, SIDE, doubling
from dask_io.geometry import Grid
from dask_io.planning import Problem, plan_sweep

if TYPE_CHECKING:
    from benchmarks.experiments.setting import Setting

_CONFIGURATION, _BUDGET = CONFIGURATIONS[2], 4 * 10**9
# Lengths of arrays, as parts of that of the setting.
_SIZES = (0.5, 1, 1.5, 2)
# Blocks of 7³ elements become blocks of 10³, as 350³ become 500³ in the published configuration.
_BEFORE, _AFTER, _MEMORY = 7, 10, 64 * 2**20
_PER_AXIS, _ONLY_PLANNED = (10, 22, 46, 100), (215, 464, 1000)
# Above this number of blocks, one run counts.
_REPEATED = 20_000
_MOST_AXES, _BLOCKS_OF_AXES = 5, 4096


def run(setting: Setting) -> dict[str, Any]:
    """Measure one kind of growth after another."""
    return {
        "sizes": _sizes(setting),
        "blocks": [_blocks(setting, n) for n in _PER_AXIS if n**3 <= setting.blocks],
        "planned": [_planned(n) for n in (*_PER_AXIS, *_ONLY_PLANNED)],
        "axes": [_axes(setting, n) for n in range(1, _MOST_AXES + 1)],
        **_cores(setting),
    }


def picture(data: dict[str, Any]) -> str:
    """Draw time and memory by size and number of blocks, and time by axes and by cores."""

    def by(x: str, rows: list[dict[str, Any]], y: str = "seconds") -> list[tuple[float, float]]:
        return [(row[x], row[y]) for row in rows if y in row]

    def memory(x: str, rows: list[dict[str, Any]], budget: float) -> Panel:
        series = {"held": by(x, rows, "held"), "process": by(x, rows, "growth")}
        return Panel("bytes of memory", series, labels[x], notes={"budget": budget})

    labels = {"n_bytes": "bytes of the array", "n_blocks": "source blocks"}
    sizes, blocks = data["sizes"]["rows"], data["blocks"]
    runs_and_plans = {"run": by("n_blocks", blocks), "plan": by("n_blocks", data["planned"])}
    cores = {name: by("n", data[name]) for name in ("threads", "processes")}
    return draw(
        [
            Panel("seconds", {"run": by("n_bytes", sizes)}, labels["n_bytes"]),
            memory("n_bytes", sizes, float(data["sizes"]["budget"])),
            Panel("seconds", runs_and_plans, labels["n_blocks"]),
            memory("n_blocks", blocks, float(_MEMORY)),
            Panel("seconds", {"run": by("n_axes", data["axes"])}, "axes", x_log=False, y_log=False),
            Panel("seconds", cores, "threads, or processes", x_log=False, y_log=False),
        ]
    )


def _sizes(setting: Setting) -> dict[str, Any]:
    """Measure arrays of several sizes in the same memory."""
    scaled = (_CONFIGURATION.scaled(min(1.0, part * setting.scale)) for part in _SIZES)
    grids = list({before.size: (before, after) for before, after in scaled}.values())
    budget = setting.budget(_BUDGET, grids[-1][0].shape)
    rows = [
        {"n_bytes": before.size * 2, **_measured(setting, before, after, memory=budget)}
        for before, after in grids
    ]
    return {"budget": budget, "rows": rows}


def _blocks(setting: Setting, n_per_axis: int) -> dict[str, Any]:
    """Measure an array of many tiny blocks, each in a file of its own."""
    before, after = _tiny_blocks(n_per_axis)
    repeats = setting.repeats if before.n_blocks <= _REPEATED else 1
    found = _measured(setting, before, after, repeats=repeats, memory=_MEMORY)
    return {"n_blocks": before.n_blocks, "n_targets": after.n_blocks, **found}


def _planned(n_per_axis: int) -> dict[str, Any]:
    before, after = _tiny_blocks(n_per_axis)
    problem = Problem.regular(
        before.shape, before.longest, after.longest, dtype="<i2", budget=_MEMORY
    )
    began = time.perf_counter()
    plan = plan_sweep(problem)
    seconds = time.perf_counter() - began
    return {"n_blocks": before.n_blocks, "seconds": round(seconds, 4), "seeks": plan.seeks.total}


def _tiny_blocks(n_per_axis: int) -> tuple[Grid, Grid]:
    shape = (n_per_axis * _BEFORE,) * 3
    return Grid.regular(shape, (_BEFORE,) * 3), Grid.regular(shape, (_AFTER,) * 3)


def _axes(setting: Setting, n_axes: int) -> dict[str, Any]:
    """Measure an array of about the same size and number of blocks, with another number of axes."""
    n_blocks = min(_BLOCKS_OF_AXES, setting.blocks)
    length = round((SIDE * setting.scale) ** (3 / n_axes))
    block = ceil(length / round(n_blocks ** (1 / n_axes)))
    before, after = (
        Grid.regular((length,) * n_axes, (ceil(part * block),) * n_axes)
        for part in (1, _AFTER / _BEFORE)
    )
    budget = setting.budget(_BUDGET, before.shape)
    found = _measured(setting, before, after, memory=budget)
    return {"n_axes": n_axes, "n_bytes": before.size * 2, "n_blocks": before.n_blocks, **found}


def _cores(setting: Setting) -> dict[str, list[dict[str, Any]]]:
    """Measure several threads in one process, and several processes."""
    before, after = _CONFIGURATION.scaled(min(1.0, _SIZES[-1] * setting.scale))
    source, numbers = setting.make_source(before), doubling(setting.workers)
    way = {"memory": setting.budget(_BUDGET, before.shape), "chunks": after.longest}
    threads = setting.compare(source, {str(n): {**way, "workers": n} for n in numbers})
    processes = setting.compare(
        source, {str(n): {**way, "processes": n} for n in numbers}, kind="processes"
    )
    remove(source)
    return {
        name: [{"n": n, **found[str(n)]} for n in numbers]
        for name, found in (("threads", threads), ("processes", processes))
    }


def _measured(
    setting: Setting, before: Grid, after: Grid, *, repeats: int | None = None, memory: int
) -> dict[str, Any]:
    source = setting.make_source(before)
    way = {"strategy": "sweep", "chunks": after.longest, "memory": memory}
    found = setting.compare(source, {"sweep": way}, repeats=repeats)
    remove(source)
    return found["sweep"]
