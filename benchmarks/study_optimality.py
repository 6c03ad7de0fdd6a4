"""How far is `sweep` from the best order there is? A study of many tiny random problems.

For each problem the least memory that touches every block once is found exactly, over all
orders of the source blocks (`dask_io.testing.exact`), and compared with what `sweep` needs,
and with what it would need if it could also sweep an axis from its far end.

    python benchmarks/study_optimality.py [number of problems] [seed]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import pairwise, product
from random import Random

import numpy as np

from dask_io.geometry import Axis, Grid, Layout
from dask_io.planning import Problem, Side
from dask_io.planning.sweep import memory_for_lower_bound
from dask_io.testing.exact import TooManyStatesError, held_at_least, least_held

LONGEST_AXIS = 12
MOST_BLOCKS = 40
MOST_STATES = 20_000
LIMITS = (1.0, 1.05, 1.1, 1.25, 1.5, 2.0)


@dataclass(frozen=True)
class Measured:
    """Memory for one problem: the optimum, by `sweep`, from either end, and the lower bound."""

    n_axes: int
    optimum: int
    sweep: int
    mirrored: int
    bound: int

    @property
    def is_in_order(self) -> bool:
        """Whether nothing contradicts itself."""
        return self.bound <= self.optimum <= self.mirrored <= self.sweep


def random_axis(random: Random, length: int) -> Axis:
    """An axis with equal blocks, or, one time in three, with any."""
    if random.random() < 2 / 3:
        return Axis.regular(length, random.randint(1, length))
    ends = sorted(random.sample(range(1, length), random.randint(0, length - 1)))
    return Axis.of(high - low for low, high in pairwise([0, *ends, length]))


def random_problem(random: Random) -> Problem:
    """A problem of one to three axes."""
    shape = [random.randint(2, LONGEST_AXIS) for _ in range(random.randint(1, 3))]
    source, target = (Grid(tuple(random_axis(random, n) for n in shape)) for _ in range(2))
    layout = Layout.c(len(shape))
    return Problem(Side(source, layout), Side(target, layout), np.dtype("uint8"), 1)


def mirror(problem: Problem, flips: tuple[bool, ...]) -> Problem:
    """The same problem with some axes counted from their far ends."""
    sides = []
    for side in (problem.source, problem.target):
        axes = (
            Axis(axis.runs[::-1]) if flip else axis
            for axis, flip in zip(side.grid.axes, flips, strict=True)
        )
        sides.append(replace(side, stored=Grid(tuple(axes))))
    return replace(problem, source=sides[0], target=sides[1])


def measure(problem: Problem) -> Measured | None:
    """Solve a problem exactly; None if it is too large, or has one source block only."""
    if not 1 < problem.source.grid.n_blocks <= MOST_BLOCKS:
        return None
    try:
        optimum = least_held(problem, most_states=MOST_STATES)
    except TooManyStatesError:
        return None
    n_axes = len(problem.shape)
    mirrored = (mirror(problem, flips) for flips in product((False, True), repeat=n_axes))
    return Measured(
        n_axes,
        optimum,
        memory_for_lower_bound(problem),
        min(map(memory_for_lower_bound, mirrored)),
        held_at_least(problem),
    )


def lines(measured: list[Measured]) -> list[str]:
    """How often `sweep` is within some factor of the optimum, by the number of axes."""
    limits = " ".join(f"{f'<= {limit}':>8}" for limit in LIMITS)
    found = [f"{'axes':>4} {'problems':>8} {'':>12} {limits} {'worst':>8}"]
    for n_axes in sorted({one.n_axes for one in measured}):
        these = [one for one in measured if one.n_axes == n_axes]
        for name in ("sweep", "mirrored"):
            ratios = [getattr(one, name) / one.optimum for one in these]
            within = [sum(ratio <= limit for ratio in ratios) / len(ratios) for limit in LIMITS]
            shares = " ".join(f"{share:8.1%}" for share in within)
            found.append(f"{n_axes:>4} {len(these):>8} {name:>12} {shares} {max(ratios):8.3f}")
    tight = sum(one.bound == one.optimum for one in measured) / len(measured)
    found.append(f"the lower bound is the optimum in {tight:.1%} of the problems")
    in_order = all(one.is_in_order for one in measured)
    return [*found, f"bound <= optimum <= mirrored <= sweep in all of them: {in_order}"]


def main(n_problems: int = 2000, seed: int = 0) -> None:
    """Measure so many problems and report."""
    random, measured = Random(seed), list[Measured]()
    while len(measured) < n_problems:
        one = measure(random_problem(random))
        measured += [one] if one else []
    sys.stdout.write("\n".join(lines(measured)) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
