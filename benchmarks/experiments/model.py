"""Do plans predict exactly what happens? Random problems, counted step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import dask_io
from benchmarks.engine.measuring import remove
from benchmarks.experiments.plot import Panel, draw
from dask_io.errors import BudgetTooSmallError
from dask_io.geometry import Grid, Layout
from dask_io.planning import Plan, Problem, Side, plan_with
from dask_io.testing.walker import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.experiments.setting import Setting
    from dask_io.planning import Seeks

_PRIMES = (2, 2, 2, 3, 3, 5, 7)
_MOST_ELEMENTS, _MOST_BLOCKS = 2000, 120
_GENERAL, _ONE_FILE = ("naive", "keep", "sweep"), ("clustered", "multiple")
# One random case in this many is also run on files.
_RUN_EVERY = 10
_MOST_POINTS = 250


def run(setting: Setting) -> dict[str, Any]:
    """Predict and count the seeks and the memory of random problems."""
    random, found = Random(0), _Found()
    for number in range(setting.cases):
        kind = ("resplit", "split", "merge")[number % 3]
        problem = _problem(random, kind)
        found.kinds[kind] = found.kinds.get(kind, 0) + 1
        for strategy in (*_GENERAL, *(_ONE_FILE if kind != "resplit" else ())):
            plan = _plan(strategy, problem)
            if plan is not None:
                walked = walk(plan)
                predicted = (*_seeks(plan), plan.openings, plan.held_bytes)
                counted = (*_seeks(walked), walked.openings, walked.held_bytes)
                found.add("walked", predicted, counted, is_correct=walked.array_is_rebuilt)
        if number % _RUN_EVERY == 0:
            for both in _run(setting, random, problem):
                found.add("run", *both, is_correct=True)
    random.shuffle(found.seeks)
    return {
        "cases": setting.cases,
        "kinds": found.kinds,
        "plans_walked": found.counts["walked"],
        "plans_run": found.counts["run"],
        "differences": found.differences,
        "seeks": sorted(set(found.seeks[:_MOST_POINTS])),
        "held_bytes": sorted(set(found.held[:_MOST_POINTS])),
    }


def picture(data: dict[str, Any]) -> str:
    """Draw what was predicted against what was counted."""
    panels = [
        Panel("seeks counted", {"plans": data["seeks"]}, "seeks predicted", lines=False),
        Panel("bytes held", {"plans": data["held_bytes"]}, "bytes predicted", lines=False),
    ]
    return draw(panels)


class _Counted(Protocol):
    """A plan, or what was counted while it was executed."""

    @property
    def seeks(self) -> Seeks: ...


@dataclass
class _Found:
    """What was predicted and counted."""

    kinds: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: {"walked": 0, "run": 0})
    differences: int = 0
    seeks: list[tuple[int, int]] = field(default_factory=list)
    held: list[tuple[int, int]] = field(default_factory=list)

    def add(
        self, how: str, predicted: tuple[int, ...], counted: tuple[int, ...], *, is_correct: bool
    ) -> None:
        """Record one plan: seeks first, bytes held last."""
        self.counts[how] += 1
        self.differences += predicted != counted or not is_correct
        self.seeks.append((sum(predicted[:2]), sum(counted[:2])))
        self.held.append((predicted[-1], counted[-1]))


def _problem(random: Random, kind: str) -> Problem:
    """Return a problem whose lengths are products of small primes, and blocks are divisors."""
    while True:
        shape = [
            prod(random.choices(_PRIMES, k=random.randint(1, 3)))
            for _ in range(random.randint(1, 3))
        ]
        whole = tuple(shape)
        small, other = (
            tuple(random.choice(_divisors(length)) for length in shape) for _ in range(2)
        )
        before, after = {"resplit": (small, other), "split": (whole, other)}.get(
            kind, (small, whole)
        )
        grids = [Grid.regular(whole, lengths) for lengths in (before, after)]
        if prod(whole) <= _MOST_ELEMENTS and max(g.n_blocks for g in grids) <= _MOST_BLOCKS:
            break
    sides = [Side(grid, _layout(random, len(shape))) for grid in grids]
    problem = Problem.regular(whole, before, after, dtype="int16", budget=1)
    problem = Problem(sides[0], sides[1], problem.dtype, 1)
    least = problem.itemsize * max(1, problem.shape[-1])
    return problem.within(random.randint(least, 2 * problem.n_bytes + least))


def _layout(random: Random, n_axes: int) -> Layout:
    return random.choice([Layout.c(n_axes), Layout.f(n_axes)])


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _plan(strategy: str, problem: Problem) -> Plan | None:
    """Return the plan of a strategy; None if the budget is too small for it."""
    try:
        plan = plan_with(strategy, problem)
    except BudgetTooSmallError:
        return None
    assert isinstance(plan, Plan), strategy
    return plan


def _seeks(counted: _Counted) -> tuple[int, int]:
    return counted.seeks.read, counted.seeks.write


def _run(
    setting: Setting, random: Random, problem: Problem
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield what is predicted and counted for real runs on files, in both orders of elements."""
    source = setting.make_source(problem.source.grid)
    target = setting.folder / "target"
    for strategy in _GENERAL:
        budget = 2**20 + random.randint(0, problem.n_bytes)
        job = dask_io.plan(
            source,
            target,
            chunks=problem.target.grid.longest,
            order=random.choice("CF"),
            strategy=strategy,
            memory=budget,
            format="npy",
            overwrite=True,
        )
        plan, done = job.plan, job.run()
        yield (*_seeks(plan), plan.held_bytes), (*_seeks(done), done.held)
    remove(target)
    remove(source)
