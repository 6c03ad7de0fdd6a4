"""What all experiments share: their size, their configurations, and how runs are measured."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import version
from itertools import product
from math import prod
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.engine.measuring import (
    FailedError,
    Timing,
    discard,
    drop_caches,
    run_contestant,
)
from benchmarks.engine.workloads import make_source
from dask_io.geometry import Grid
from dask_io.planning import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Lengths = tuple[int, int, int]

SIDE = 3500
_DTYPE = "<i2"
# All lengths of the configurations are multiples of this part of the side.
_PARTS = 140
_GB = 10**9


@dataclass(frozen=True)
class Configuration:
    """One of the seven published configurations: a cube of 3500³ elements of two bytes."""

    number: int
    before: Lengths
    after: Lengths

    @property
    def name(self) -> str:
        """The blocks before and after."""
        return f"{_shape(self.before)} → {_shape(self.after)}"

    def problem(self, budget: int) -> Problem:
        """Return the problem at its published size."""
        return Problem.regular((SIDE,) * 3, self.before, self.after, dtype=_DTYPE, budget=budget)

    def scaled(self, scale: float) -> tuple[Grid, Grid]:
        """Return the grids before and after at the nearest scale with the same proportions."""
        times = max(1, round(SIDE * scale / _PARTS))
        # The side becomes 140 times this number, so a length of 25 becomes this number.
        shape = (_PARTS * times,) * 3
        blocks = (tuple(n * times * _PARTS // SIDE for n in each) for each in self._blocks)
        before, after = (Grid.regular(shape, lengths) for lengths in blocks)
        return before, after

    @property
    def _blocks(self) -> tuple[Lengths, Lengths]:
        return self.before, self.after


CONFIGURATIONS = tuple(
    Configuration(number, before, after)
    for number, (before, after) in enumerate(
        (
            ((875, 875, 875), (875, 1750, 875)),
            ((875, 875, 875), (700, 875, 700)),
            ((350, 350, 350), (500, 500, 500)),
            ((350, 350, 350), (250, 250, 250)),
            ((175, 175, 175), (250, 250, 250)),
            ((350, 875, 350), (500, 875, 500)),
            ((350, 875, 350), (350, 500, 350)),
        )
    )
)


@dataclass
class Setting:
    """The size of the experiments, and the folder on the disk to measure.

    Attributes
    ----------
    scale
        Length of an axis, as a part of the published one.
    cases
        Number of random problems.
    blocks
        Most blocks that are stored as files.
    workers
        Most threads, processes, and workers of a cluster.
    powers
        Sizes of arrays whose runs on clusters are simulated, as powers of two.
    delays
        Milliseconds that a seek takes on a slow disk.
    """

    folder: Path
    scale: float = 0.08
    repeats: int = 3
    cases: int = 1000
    configurations: tuple[int, ...] = tuple(range(len(CONFIGURATIONS)))
    warm: bool = False
    blocks: int = 10_000
    workers: int = 8
    powers: tuple[int, ...] = (30, 40)
    delays: tuple[float, ...] = (0.1, 1.0, 10.0)
    dropped: bool = field(default=False, init=False)

    def chosen(self) -> Iterator[Configuration]:
        """Yield the configurations to measure."""
        return (CONFIGURATIONS[number] for number in self.configurations)

    def budget(self, n_bytes: float, shape: tuple[int, ...]) -> int:
        """Return a budget for an array of this shape that is a budget of the published array."""
        return int(n_bytes * prod(shape) / SIDE**3)

    def make_source(self, grid: Grid, dtype: str = _DTYPE) -> Path:
        """Write an array of noise, and return its path."""
        path = self.folder / ("source.npy" if grid.n_blocks == 1 else "source")
        make_source(path, grid, dtype)
        return path

    def compare(
        self,
        source: Path,
        ways: Mapping[str, Mapping[str, Any]],
        *,
        into_one: bool = False,
        repeats: int | None = None,
        kind: str = "resplit",
    ) -> dict[str, dict[str, Any]]:
        """Measure ways to resplit, given by their options, in rounds that start with another one.

        Each run is a process of its own, starts with dropped caches, and ends with a sync. `kind`
        is the contestant that runs.
        """
        target = self.folder / ("target.npy" if into_one else "target")
        places: dict[str, Any] = {"source": str(source), "target": str(target)}

        def prepare() -> None:
            self.prepare(source)

        def timer(name: str) -> Callable[[], Timing]:
            return lambda: run_contestant(kind, prepare, **places, **ways[name])

        return self.take_turns({name: timer(name) for name in ways}, repeats)

    def take_turns(
        self, timers: Mapping[str, Callable[[], Timing]], repeats: int | None = None
    ) -> dict[str, dict[str, Any]]:
        """Time several runs in rounds, each starting with another one, and summarize each."""
        names, found = list(timers), {name: list[Timing]() for name in timers}
        failures: dict[str, str] = {}
        for number in range(repeats or self.repeats):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                try:
                    found[name] += [] if name in failures else [timers[name]()]
                except FailedError as error:
                    failures[name] = str(error).rpartition("Error: ")[2]
                finally:
                    for target in ("target", "target.npy"):
                        discard(self.folder / target, self.folder / "aside")
        return {
            name: {"failure": failures[name]} if name in failures else _summary(found[name])
            for name in names
        }

    def prepare(self, source: Path) -> None:
        """Drop the caches, if this is wanted and permitted, else read the source into them."""
        if self.warm:
            os.sync()
            for file in (source, *source.rglob("*")):
                if file.is_file():
                    file.read_bytes()
        else:
            self.dropped = drop_caches()

    def conditions(self) -> dict[str, Any]:
        """Return when, with what, and on what kind of machine the experiment was run."""
        packages = ("dask-io", "numpy")
        return {
            "date": date.today().isoformat(),  # noqa: DTZ011 - the day where it was run
            "versions": {"python": platform.python_version()}
            | {name: version(name) for name in packages},
            "machine": {
                "system": platform.system(),
                "processor": processor(),
                "cores": os.cpu_count(),
                "memory_gib": round(
                    os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
                ),
            },
            "scale": self.scale,
            "repeats": self.repeats,
            "caches_dropped": self.dropped,
        }


def _shape(lengths: Lengths) -> str:
    return f"{lengths[0]}³" if len(set(lengths)) == 1 else "×".join(map(str, lengths))


def processor() -> str:
    """Return the model of the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _summary(timings: list[Timing]) -> dict[str, Any]:
    """Return the median of some timings, and what the engine counted and predicted."""
    summary: dict[str, Any] = {
        "seconds": round(median(each.seconds for each in timings), 3),
        "all_seconds": [round(each.seconds, 3) for each in timings],
        "disturbed": sum(each.is_disturbed for each in timings),
    }
    report = timings[-1].report
    if "result" in report:
        plan, result = report["plan"], report["result"]
        summary |= {
            "seeks": sum(result["seeks"].values()),
            "seeks_predicted": plan["seeks"]["total"],
            "held": result["held"],
            "held_predicted": plan["memory"]["held"],
            "peak_predicted": plan["memory"]["peak"],
            "budget": plan["memory"]["budget"],
            "growth": max(each.report["resident_growth"] for each in timings),
        }
    return summary


def doubling(most: int) -> list[int]:
    """Return 1, 2, 4, ... up to a number."""
    return [2**n for n in range(most.bit_length())]


def geometric(low: float, high: float, count: int) -> list[int]:
    """Return numbers from `low` to `high` with equal ratios."""
    return [round(low * (high / low) ** (i / max(1, count - 1))) for i in range(count)]


def pairs(names: tuple[str, ...], budgets: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Return the options of each strategy at each budget, by the names of both."""
    return {
        f"{name} {label}": {"strategy": name, "memory": budget}
        for (label, budget), name in product(budgets.items(), names)
    }
