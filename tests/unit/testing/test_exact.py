"""The exact solver for tiny grids, and the bound below it."""

from dataclasses import replace
from itertools import permutations, product

import pytest

from dask_io.planning import Problem
from dask_io.planning.sweep import memory_for_lower_bound
from dask_io.testing.exact import TooManyStatesError, held_at_least, least_held

CASES = [
    ((7,), (3,), (2,)),
    ((10,), (3,), (4,)),
    ((6, 2), (2, 2), (3, 1)),
    ((4, 4), (2, 2), (3, 3)),
    ((5, 4), (2, 2), (3, 1)),
    ((3, 4, 2), (3, 2, 1), (2, 4, 2)),
]
each_case = pytest.mark.parametrize("case", CASES)
Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def least_of_all_orders(problem: Problem) -> int:
    """The least peak of all permutations of the source blocks, element by element."""
    source, target = problem.source.grid, problem.target.grid
    blocks = [
        set(product(*map(range, block.start, block.stop)))
        for block in map(source.block, source.indices())
    ]
    wanted = [
        set(product(*map(range, block.start, block.stop)))
        for block in map(target.block, target.indices())
    ]
    least = len(set.union(*blocks))
    for order in permutations(blocks):
        held: set[tuple[int, ...]] = set()
        peak = 0
        for block in order:
            held |= block
            peak = max(peak, len(held))
            held -= set().union(*(cell for cell in wanted if cell <= held))
        least = min(least, peak)
    return least


@each_case
def test_the_least_peak_is_that_of_the_best_permutation(case: Case) -> None:
    """Best-first search finds what trying every order finds."""
    problem = Problem.regular(*case, budget=1)
    assert least_held(problem) == least_of_all_orders(problem)


@each_case
def test_bound_optimum_and_sweep_are_in_this_order(case: Case) -> None:
    """No order beats the bound, and no sweep the best order, where blocks are moved whole."""
    problem = Problem.regular(*case, dtype="int16", budget=2)
    source, target = (replace(side, atomic=True) for side in (problem.source, problem.target))
    problem = replace(problem, source=source, target=target)
    assert held_at_least(problem) <= least_held(problem) <= memory_for_lower_bound(problem)


def test_any_order_can_be_better_than_a_sweep() -> None:
    """Blocks taken one by one can leave less over than rows of them, from whichever end."""
    problem = Problem.regular((10, 10), (3, 3), (4, 4), budget=1)
    assert (held_at_least(problem), least_held(problem)) == (16, 29)
    assert memory_for_lower_bound(problem) == 33


def test_large_grids_are_refused() -> None:
    """Rather than run forever, the solver says that there are too many states."""
    problem = Problem.regular((40, 40), (3, 3), (4, 4), budget=1)
    with pytest.raises(TooManyStatesError):
        least_held(problem, most_states=1000)
