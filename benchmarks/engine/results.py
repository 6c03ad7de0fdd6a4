"""Medians and ratios of the timings, as a table and as JSON, compared with the goals."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from dask_io.planning.describe import table
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.engine.measuring import Timing
    from benchmarks.engine.workloads import Workload

LEGEND = """\
Seconds are medians, until all data is on the disk. Ratios are medians of the ratios of each round.
The start of Python is not counted. There is a star for each round that other processes disturbed.
Seeks are predicted = counted. Memory is the predicted peak, and the largest growth of the process's
resident memory since `dask-io info`."""


@dataclass(frozen=True, slots=True)
class Round:
    """One timing of each, measured one right after the other."""

    cp: Timing
    ours: Timing
    floor: Timing

    @property
    def is_disturbed(self) -> bool:
        """Whether other processes used the machine during one of them."""
        return any(one.is_disturbed for one in (self.cp, self.ours, self.floor))


@dataclass(frozen=True, slots=True)
class Row:
    """All rounds of one workload at one budget, or the reason for a failure."""

    workload: Workload
    budget: int
    n_bytes: int
    rounds: Sequence[Round]
    failure: str = ""

    @property
    def of_cp(self) -> float:
        """Our seconds relative to those of `cp -r`."""
        return median(one.ours.seconds / one.cp.seconds for one in self.rounds)

    @property
    def of_floor(self) -> float:
        """Our seconds relative to those of the floor."""
        return median(one.ours.seconds / one.floor.seconds for one in self.rounds)

    @property
    def _spread(self) -> str:
        """The range of the ratios to the floor, and stars for disturbed rounds."""
        ratios = [one.ours.seconds / one.floor.seconds for one in self.rounds]
        stars = "*" * sum(one.is_disturbed for one in self.rounds)
        return f" ({min(ratios):.2f} to {max(ratios):.2f}){stars}"

    @property
    def floor_of_cp(self) -> float:
        """The floor's seconds relative to those of `cp -r`: the best ratio that the disk allows."""
        return median(one.floor.seconds / one.cp.seconds for one in self.rounds)

    @property
    def seconds(self) -> float:
        """Our seconds."""
        return median(one.ours.seconds for one in self.rounds)

    @property
    def seeks_differ(self) -> bool:
        """Whether the seeks of a run differ from those that its plan predicted."""
        return any(_seeks(one, "plan") != _seeks(one, "result") for one in self.rounds)

    @property
    def meets_goal(self) -> bool:
        """Whether both ratios meet the goals of the workload."""
        most_of_floor = self.workload.most_of_floor
        return (
            not self.failure
            and self.of_cp <= self.workload.most_of_cp
            and (most_of_floor is None or self.of_floor <= most_of_floor)
        )

    def to_json(self) -> dict[str, Any]:
        """Return all timings, and the figures derived from them."""
        names = () if self.failure else ("of_cp", "of_floor", "floor_of_cp")
        figures = {name: getattr(self, name) for name in names}
        return {
            "workload": self.workload.name,
            "title": self.workload.title,
            "budget": self.budget,
            "n_bytes": self.n_bytes,
            **figures,
            "meets_goal": self.meets_goal,
            "failure": self.failure or None,
            "rounds": [asdict(one) for one in self.rounds],
        }

    def cells(self) -> tuple[str, ...]:
        """Return the row as text, in the columns of `HEADINGS`."""
        title = f"{self.workload.name}  {self.workload.title}"
        if self.failure:
            return (title, _short(self.budget), "failed", *[""] * (len(HEADINGS) - 3))
        plan = self.rounds[0].ours.report["plan"]
        predicted, counted = _seeks(self.rounds[0], "plan"), _seeks(self.rounds[0], "result")
        sign = "!=" if self.seeks_differ else "="
        grown = max(one.ours.report["resident_growth"] for one in self.rounds)
        return (
            title,
            _short(self.budget),
            f"{plan['strategy']}, {plan['hold']}",
            f"{sum(predicted):,} {sign} {sum(counted):,}",
            f"{median(one.cp.seconds for one in self.rounds):.2f}",
            f"{median(one.floor.seconds for one in self.rounds):.2f}",
            f"{self.seconds:.2f}",
            f"{self.of_cp:.2f}",
            f"{self.of_floor:.2f}{self._spread}",
            f"{median(one.cp.cpu_seconds for one in self.rounds):.2f}",
            f"{median(one.ours.cpu_seconds for one in self.rounds):.2f}",
            _short(plan["memory"]["peak"]),
            _short(grown),
            f"{self.n_bytes / self.seconds / 1e9:.2f}",
        )


HEADINGS = (
    "workload",
    "budget",
    "plan",
    "seeks",
    "cp s",
    "floor s",
    "ours s",
    "of cp",
    "of floor",
    "cp CPU s",
    "our CPU s",
    "predicted",
    "resident",
    "GB/s",
)


def rows_to_text(rows: Sequence[Row]) -> str:
    """Return a table of all rows, followed by notes."""
    notes = [
        f"{row.workload.name} at {_short(row.budget)}: "
        + (row.failure or "counted seeks differ from predicted seeks")
        for row in rows
        if row.failure or row.seeks_differ
    ]
    if not all(one.floor.report["direct"] for row in rows for one in row.rounds):
        notes.append("Some floors used the page cache: it was faster, or direct I/O is missing.")
    return "\n".join([table([HEADINGS, *(row.cells() for row in rows)]), *notes])


def goals_to_text(rows: Sequence[Row]) -> str:
    """Return the goal of each workload, and the budgets at which it is missed."""
    return "\n".join(_goal(name, rows) for name in dict.fromkeys(row.workload.name for row in rows))


def _goal(name: str, rows: Sequence[Row]) -> str:
    mine = [row for row in rows if row.workload.name == name]
    workload = mine[0].workload
    asked = f"{name}: at most {workload.most_of_cp} of cp -r"
    if workload.most_of_floor is not None:
        asked += f" and {workload.most_of_floor} of the floor"
    missed = [row for row in mine if not row.meets_goal]
    if not missed:
        return f"{asked}: met"
    return f"{asked}: missed at {', '.join(map(_figures, missed))}"


def _figures(row: Row) -> str:
    if row.failure:
        return f"{_short(row.budget)} (failed)"
    of_cp, of_floor, floor = row.of_cp, row.of_floor, row.floor_of_cp
    ratios = f"{of_cp:.2f} of cp, {of_floor:.2f} of the floor, which took {floor:.2f} of cp"
    return f"{_short(row.budget)} ({ratios})"


def _seeks(one: Round, side: str) -> tuple[int, int]:
    seeks = one.ours.report[side]["seeks"]
    return seeks["read"], seeks["write"]


def _short(n_bytes: int) -> str:
    return format_bytes(n_bytes).replace(".00", "")
