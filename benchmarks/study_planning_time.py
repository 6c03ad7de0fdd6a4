"""Print the time and memory of planning for different numbers of blocks.

    python benchmarks/study_planning_time.py

Each problem is planned with a large, a small and a tiny budget. The table shows the longest time of
the three. Caches are cleared before each.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from time import process_time

from dask_io.planning import Problem
from dask_io.planning.sweep.search import lowest, plan_sweep
from dask_io.planning.sweep.structures import arrangements, space_between, structures

Lengths = tuple[int, ...]
Case = Callable[[int], tuple[Lengths, Lengths, Lengths]]

# Shape, source and target blocks, for a number of source blocks along the axes that grow.
CASES: dict[str, Case] = {
    "1-D, 7 to 5": lambda n: ((7 * n,), (7,), (5,)),
    "1-D, 1009 to 1013": lambda n: ((1009 * n,), (1009,), (1013,)),
    "2-D, slow axis": lambda n: ((7 * n, 1000), (7, 300), (5, 400)),
    "2-D, fast axis": lambda n: ((1000, 7 * n), (300, 7), (400, 5)),
    "3-D, all axes": lambda n: ((350 * round(n ** (1 / 3)),) * 3, (350,) * 3, (500,) * 3),
}
COUNTS = tuple(10**power for power in range(2, 10))


def forget() -> None:
    """Clear the caches of the planner."""
    for cached in (arrangements, structures, lowest, space_between):
        cached.cache_clear()


def budgets(problem: Problem) -> tuple[int, int, int]:
    """Return a large, a small and a tiny budget."""
    return problem.n_bytes, max(1, round(problem.n_bytes**0.6)), max(1, round(problem.n_bytes**0.3))


def measure(problem: Problem) -> tuple[float, int]:
    """Return the most CPU seconds and the most bytes that planning takes."""
    seconds, n_bytes = 0.0, 0
    for budget in budgets(problem):
        forget()
        start = process_time()
        plan_sweep(problem.within(budget))
        seconds = max(seconds, process_time() - start)
        forget()
        tracemalloc.start()
        plan_sweep(problem.within(budget))
        n_bytes = max(n_bytes, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return seconds, n_bytes


def lines() -> Iterator[str]:
    """Yield one line for each problem and number of blocks."""
    yield f"{'problem':<20} {'source blocks':>14} {'seconds':>8} {'MB':>6}"
    for name, case in CASES.items():
        for count in COUNTS:
            problem = Problem.regular(*case(count), dtype="float16", budget=1)
            seconds, n_bytes = measure(problem)
            n_blocks = problem.source.grid.n_blocks
            yield f"{name:<20} {n_blocks:>14,} {seconds:>8.3f} {n_bytes / 1e6:>6.1f}"


if __name__ == "__main__":
    for line in lines():
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
