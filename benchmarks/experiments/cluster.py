"""Runs in parts on the workers of a cluster: measured on this machine, and simulated beyond."""

from __future__ import annotations

from argparse import Namespace
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.cluster.__main__ import Case, make_source, measure
from benchmarks.cluster.simulate import simulate
from benchmarks.engine.measuring import FailedError
from benchmarks.experiments.plot import Panel, draw
from benchmarks.experiments.setting import SIDE, doubling
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from benchmarks.experiments.setting import Setting

_LIMIT = "512MiB"
# The seconds of a seek, and bytes per second, of a disk that each worker has for itself. It is so
# slow that workers wait for it, and hardly need a core.
_SLOW_DISK = (0.01, 10e6)
# The case, and whether disks are slow.
_RUNS = {
    "cubes": ("cubes", False),
    "cubes, slow disks": ("cubes", True),
    "series, slow disks": ("series", True),
}
# In the simulation.
_WORKERS = (1, 10, 100, 1_000, 10_000)


def run(setting: Setting) -> dict[str, Any]:
    """Measure a few workers of this machine, and simulate many."""
    return {
        "slow_disk": _SLOW_DISK,
        "measured": {
            name: _measured(setting, case, is_slow=is_slow)
            for name, (case, is_slow) in _RUNS.items()
        },
        "shape": _case(setting, "cubes").shape,
        "simulated": {
            f"{format_bytes(2**power)} {kind}": [
                _simulated(2**power, workers, compressed=kind == "compressed")
                for workers in _WORKERS
            ]
            for power, kind in product(setting.powers, ("compressed", "plain"))
        },
    }


def picture(data: dict[str, Any]) -> str:
    """Draw speed-up, bytes that are read again, and seeks, by the number of workers."""
    panels = []
    for key, title in (
        ("speedup", "speed-up"),
        ("read_again", "part of the array read again"),
        ("seeks_of_one", "seeks, times those of one process"),
    ):
        for how in ("measured", "simulated"):
            series = {
                name: [(row["workers"], row[key]) for row in rows]
                for name, rows in data[how].items()
            }
            is_log = how == "simulated"
            y_log = is_log and key != "read_again"
            panels.append(Panel(f"{title}, {how}", series, "workers", x_log=is_log, y_log=y_log))
    return draw(panels)


def _case(setting: Setting, name: str) -> Case:
    return Case(name, 2 * round(SIDE * setting.scale) ** 3)


def _measured(setting: Setting, name: str, *, is_slow: bool) -> list[dict[str, Any]]:
    """Measure every number of workers, in rounds; with slow disks, one run counts."""
    case, numbers = _case(setting, name), doubling(setting.workers)
    found: dict[int, list[dict[str, Any]]] = {n: [] for n in numbers}
    args = Namespace(
        size=str(case.n_bytes),
        limit=_LIMIT,
        warm=setting.warm,
        slow_disk=_SLOW_DISK if is_slow else None,
    )
    with TemporaryDirectory(dir=setting.folder) as place:
        make_source(Path(place), case)
        for _, n in product(range(1 if is_slow else setting.repeats), numbers):
            one = measure("ours", case, Path(place), n, args)
            if "failure" in one:
                raise FailedError(one["failure"])
            setting.dropped = one.pop("dropped")
            found[n].append(one)
    return _compared(found)


def _compared(found: dict[int, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the median of each number of workers, compared with that of one worker."""
    middle = {
        n: {key: median(each[key] for each in runs) for key in runs[0]} for n, runs in found.items()
    }
    one = middle[1]
    return [
        {
            "workers": n,
            **each,
            "all_seconds": [round(run["seconds"], 3) for run in found[n]],
            "speedup": round(one["seconds"] / each["seconds"], 3),
            "read_again": round(each["bytes_read"] / one["bytes_read"] - 1, 4),
            "seeks_of_one": round(each["seeks"] / one["seeks"], 4),
        }
        for n, each in middle.items()
    ]


def _simulated(n_bytes: int, workers: int, *, compressed: bool) -> dict[str, Any]:
    found = simulate(n_bytes, workers, compressed=compressed)
    return {
        "workers": workers,
        "parts": found.parts,
        "speedup": round(found.efficiency * workers, 2),
        "read_again": round(found.redundant, 4),
        "seeks_of_one": round(found.seeks, 3),
        "seconds": round(found.seconds, 2),
    }
