"""The page cache, cold and warm, with and without direct I/O; and disks whose seeks take time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dask_io
from benchmarks.engine.measuring import remove
from benchmarks.experiments.plot import Panel, draw
from dask_io.planning import DEVICES, Device, predict_seconds

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.experiments.setting import Configuration, Setting
    from dask_io.geometry import Grid

_STRATEGIES = ("naive", "keep", "sweep")
_BUDGET = 4 * 10**9
# The engine moves at least 128 KiB at once with direct I/O, and needs blocks of this size for that.
_LONGER = 1.5
# On slow disks, where naive takes its time.
_SHORTER = 0.5
_MOST_SECONDS = 60.0
_BYTES_PER_SECOND = DEVICES["hdd"].read_bandwidth


def run(setting: Setting) -> dict[str, Any]:
    """Measure on the disk of this machine, and on slow disks."""
    chosen = {each.number: each for each in setting.chosen()}
    configuration = chosen.get(2, next(iter(chosen.values())))
    return {
        "configuration": configuration.number,
        "blocks": configuration.name,
        "cached": _cached(setting, configuration),
        "slow": _slow(setting, configuration),
    }


def picture(data: dict[str, Any]) -> str:
    """Draw times with and without the page cache, and by the time of a seek."""
    found = data["cached"]["measured"]
    panels = [
        Panel(
            f"seconds, {how}",
            {
                name: [
                    (float(number), found[state][f"{name} {how}"]["seconds"])
                    for number, state in enumerate(found)
                ]
                for name in _STRATEGIES
            },
            "page cache",
            names=list(found),
            lines=False,
        )
        for how in data["cached"]["ways"]
    ]
    for key, title in (("seconds", "measured"), ("predicted", "by the model")):
        times = {
            name: [
                (row["delay"], row[key])
                for row in data["slow"]["rows"]
                if row["strategy"] == name and key in row
            ]
            for name in _STRATEGIES
        }
        panels.append(Panel(f"seconds on a slow disk, {title}", times, "milliseconds per seek"))
    return draw(panels)


def _cached(setting: Setting, configuration: Configuration) -> dict[str, Any]:
    """Measure with and without direct I/O, and with and without the source in the cache."""
    before, after = configuration.scaled(min(1.0, _LONGER * setting.scale))
    source = setting.make_source(before)
    ways = {"direct I/O": False, "buffered": True}
    measured: dict[str, dict[str, Any]] = {}
    for state in ("cold", "warm"):
        those = replace(setting, warm=setting.warm or state == "warm")
        measured[state] = {}
        for names, repeats in ((("keep", "sweep"), setting.repeats), (("naive",), 1)):
            measured[state] |= those.compare(
                source,
                {
                    f"{name} {how}": {**_options(setting, name, before, after), "buffered": each}
                    for how, each in ways.items()
                    for name in names
                },
                repeats=repeats,
            )
        setting.dropped = setting.dropped or those.dropped
    remove(source)
    return {"n_bytes": _n_bytes(before), "ways": list(ways), "measured": measured}


def _slow(setting: Setting, configuration: Configuration) -> dict[str, Any]:
    """Measure on disks whose seeks take longer and longer, unless it would take too long."""
    before, after = configuration.scaled(_SHORTER * setting.scale)
    source = setting.make_source(before)
    rows = [
        _on_slow_disk(setting, source, delay, name, _options(setting, name, before, after))
        for delay in setting.delays
        for name in _STRATEGIES
    ]
    remove(source)
    return {"n_bytes": _n_bytes(before), "bytes_per_second": _BYTES_PER_SECOND, "rows": rows}


def _on_slow_disk(
    setting: Setting, source: Path, delay: float, name: str, options: dict[str, Any]
) -> dict[str, Any]:
    """Return what the model predicts, and what one run takes."""
    seconds = delay / 1000
    disk = Device("slow", seconds, _BYTES_PER_SECOND, _BYTES_PER_SECOND, 0, 1)
    plan = dask_io.plan(source, setting.folder / "target", **options).plan
    predicted = predict_seconds(plan, disk)
    row = {
        "delay": delay,
        "strategy": name,
        "seeks": plan.seeks.total,
        "predicted": round(predicted, 3),
    }
    if predicted > _MOST_SECONDS:
        return row
    # With one thread, the arm moves in the order of the plan.
    way = {**options, "workers": 1, "slow_disk": (seconds, _BYTES_PER_SECOND)}
    return row | setting.compare(source, {name: way}, repeats=1)[name]


def _options(setting: Setting, name: str, before: Grid, after: Grid) -> dict[str, Any]:
    budget = setting.budget(_BUDGET, before.shape)
    return {"strategy": name, "memory": budget, "chunks": after.longest}


def _n_bytes(grid: Grid) -> int:
    return grid.size * 2
