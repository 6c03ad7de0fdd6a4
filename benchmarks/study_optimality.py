"""Compare `sweep` with the best possible order, for many tiny random problems.

For each problem, `dask_io.testing.exact` finds the least memory that touches every block once, over
all orders of the source blocks. The study compares it with the memory that `sweep` needs.

    python benchmarks/study_optimality.py [number of problems] [seed]

It prints the table of docs/explanation/optimality.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np

from dask_io.geometry import Axis, Grid, Layout
from dask_io.planning import Problem, Side
from dask_io.planning.sweep import memory_for_lower_bound
from dask_io.testing.exact import TooManyStatesError, held_at_least, least_held

LONGEST_AXIS = 12
MOST_BLOCKS = 40
MOST_STATES = 20_000
NEARLY = 1.25
HEAD = (
    "| axes | problems | sweep is optimal | within 25 % | worst ratio |",
    "|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Measured:
    """Memory for one problem: the optimum, by `sweep`, and the lower bound."""

    n_axes: int
    optimum: int
    sweep: int
    bound: int

    @property
    def is_in_order(self) -> bool:
        """Whether the three values are consistent."""
        return self.bound <= self.optimum <= self.sweep

    @property
    def ratio(self) -> float:
        """The memory of `sweep` relative to the optimum."""
        return self.sweep / self.optimum


def random_axis(random: Random, length: int) -> Axis:
    """Return an axis with equal blocks or, one time in three, with random blocks."""
    if random.random() < 2 / 3:
        return Axis.regular(length, random.randint(1, length))
    ends = sorted(random.sample(range(1, length), random.randint(0, length - 1)))
    return Axis.of(high - low for low, high in pairwise([0, *ends, length]))


def random_problem(random: Random) -> Problem:
    """Return a problem with one to three axes and blocks that are moved whole."""
    shape = [random.randint(2, LONGEST_AXIS) for _ in range(random.randint(1, 3))]
    source, target = (Grid(tuple(random_axis(random, n) for n in shape)) for _ in range(2))
    layout = Layout.c(len(shape))
    sides = [Side(grid, layout, atomic=True) for grid in (source, target)]
    return Problem(sides[0], sides[1], np.dtype("uint8"), 1)


def measure(problem: Problem) -> Measured | None:
    """Solve a problem exactly; None if it is too large, or has only one source block."""
    if not 1 < problem.source.grid.n_blocks <= MOST_BLOCKS:
        return None
    try:
        optimum = least_held(problem, most_states=MOST_STATES)
    except TooManyStatesError:
        return None
    sweep, bound = memory_for_lower_bound(problem), held_at_least(problem)
    return Measured(len(problem.shape), optimum, sweep, bound)


def study(n_problems: int, seed: int) -> list[Measured]:
    """Measure this number of problems."""
    random, measured = Random(seed), list[Measured]()
    while len(measured) < n_problems:
        one = measure(random_problem(random))
        measured += [one] if one else []
    return measured


def lines(measured: list[Measured]) -> list[str]:
    """Return the table: how often `sweep` is optimal or nearly optimal, by number of axes."""
    found = list(HEAD)
    for n_axes in sorted({one.n_axes for one in measured}):
        ratios = [one.ratio for one in measured if one.n_axes == n_axes]
        optimal, near = (
            sum(ratio <= limit for ratio in ratios) / len(ratios) for limit in (1, NEARLY)
        )
        worst = max(ratios)
        found.append(f"| {n_axes} | {len(ratios)} | {optimal:.1%} | {near:.1%} | {worst:.2f} |")
    in_order = all(one.is_in_order for one in measured)
    return [*found, "", f"bound <= optimum <= sweep in all of them: {in_order}"]


def main(n_problems: int = 2000, seed: int = 0) -> None:
    """Measure this number of problems and print the table."""
    sys.stdout.write("\n".join(lines(study(n_problems, seed))) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
