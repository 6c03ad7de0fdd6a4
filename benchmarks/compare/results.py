"""Ratios of the current tree to the base, and what is worse."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.planning.describe import table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.engine.measuring import Timing

LEGEND = """\
Ratios are those of the current tree to the base: the median of the rounds, and their range. There
is a star for each round that other processes disturbed. Memory is the growth of resident memory."""

HEADINGS = ("workload", "base s", "now s", "seconds", "CPU seconds", "memory", "counts", "found")


class Measure(NamedTuple):
    """Something measured, of which less is better."""

    name: str
    of: Callable[[Timing], float]
    least: float
    """Differences up to this are ignored."""
    is_time: bool = True
    """Whether other processes can disturb it."""


SECONDS = Measure("seconds", lambda timing: timing.seconds, 0.02)
CPU = Measure("CPU seconds", lambda timing: timing.cpu_seconds, 0.02)
MEMORY = Measure(
    "memory",
    lambda timing: timing.report.get("resident_growth", 0),
    4 * 2**20,
    is_time=False,
)


@dataclass(frozen=True, slots=True)
class Round:
    """One timing of each tree, measured one right after the other."""

    base: Timing
    current: Timing

    @property
    def is_disturbed(self) -> bool:
        """Whether other processes used the machine during one of them."""
        return self.base.is_disturbed or self.current.is_disturbed

    def ratio(self, measure: Measure) -> float | None:
        """Return what the current tree took, relative to the base; None if the base took none."""
        base, current = measure.of(self.base), measure.of(self.current)
        return current / base if base else None

    def is_worse(self, measure: Measure, threshold: float) -> bool:
        """Whether the current tree took more than `threshold` times as much as the base."""
        base, current = measure.of(self.base), measure.of(self.current)
        return current > base * threshold and current - base > measure.least


@dataclass(frozen=True, slots=True)
class Row:
    """All rounds of one workload, or why one of the trees has none."""

    name: str
    rounds: Sequence[Round]
    failures: Mapping[str, str]

    def findings(self, threshold: float) -> list[str]:
        """Return what is wrong with the current tree, in words.

        It takes more time if it does so in every round that nobody disturbed.
        """
        if "current" in self.failures:
            return [f"fails: {self.failures['current']}"]
        worse = [
            f"more {measure.name}"
            for measure in (SECONDS, CPU, MEMORY)
            if self._is_worse(measure, threshold)
        ]
        return worse + self.differences

    def _is_worse(self, measure: Measure, threshold: float) -> bool:
        judged = [one for one in self.rounds if not (measure.is_time and one.is_disturbed)]
        return bool(judged) and all(one.is_worse(measure, threshold) for one in judged)

    @property
    def differences(self) -> list[str]:
        """Counts that are not the same in all runs of both trees."""
        base = [counts(one.base.report) for one in self.rounds]
        current = [counts(one.current.report) for one in self.rounds]
        found = []
        for name in base[0] if base else {}:
            before, now = ({one[name] for one in side} for side in (base, current))
            if len(before | now) > 1:
                found.append(f"{name}: {_listed(before)} before, {_listed(now)} now")
        return found

    @property
    def remark(self) -> str:
        """Why the row was not judged, or not entirely."""
        if "base" in self.failures:
            return f"not in base: {self.failures['base']}"
        if self.rounds and all(one.is_disturbed for one in self.rounds):
            return "times not judged: all rounds were disturbed"
        return ""

    def cells(self, threshold: float) -> tuple[str, ...]:
        """Return the row as text, in the columns of `HEADINGS`."""
        found = "; ".join([*self.findings(threshold), *filter(None, [self.remark])])
        if not self.rounds:
            return (self.name, *[""] * (len(HEADINGS) - 2), found)
        stars = "*" * sum(one.is_disturbed for one in self.rounds)
        counted = counts(self.rounds[0].current.report)
        same = ("differ" if self.differences else "equal") if counted else ""
        return (
            self.name,
            f"{median(one.base.seconds for one in self.rounds):.2f}",
            f"{median(one.current.seconds for one in self.rounds):.2f}",
            f"{self._ratio(SECONDS)}{stars}",
            self._ratio(CPU),
            self._ratio(MEMORY),
            same,
            found,
        )

    def to_json(self, threshold: float) -> dict[str, Any]:
        """Return all timings, and what is wrong."""
        return {
            "workload": self.name,
            "findings": self.findings(threshold),
            "remark": self.remark or None,
            "failures": dict(self.failures),
            "rounds": [asdict(one) for one in self.rounds],
        }

    def _ratio(self, measure: Measure) -> str:
        ratios = [ratio for one in self.rounds if (ratio := one.ratio(measure)) is not None]
        if not ratios:
            return ""
        return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def counts(report: Mapping[str, Any]) -> dict[str, int]:
    """Return what a run counted, and a plan alone predicted; nothing for other commands.

    Decodes are those of the plan. What an earlier commit does not report is left out.
    """
    if not report:
        return {}
    plan, counted = report["plan"], report.get("result", report["plan"])
    found = {
        "seeks to read": counted["seeks"]["read"],
        "seeks to write": counted["seeks"]["write"],
        "bytes read": counted["bytes"]["read"],
        "bytes written": counted["bytes"]["written"],
    }
    plans = plan.get("arrays", {"": plan}).values()
    return {**found, "decodes": sum(each["decodes"] for each in plans)}


def rows_to_text(rows: Sequence[Row], threshold: float) -> str:
    """Return a table of all rows."""
    return table([HEADINGS, *(row.cells(threshold) for row in rows)])


def _listed(numbers: set[int]) -> str:
    return " or ".join(f"{number:,}" for number in sorted(numbers))
