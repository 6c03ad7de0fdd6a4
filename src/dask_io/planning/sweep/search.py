"""The sweep strategy: the fewest seeks in the memory there is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from dask_io.errors import BudgetTooSmallError
from dask_io.planning.keep import plan_keep
from dask_io.planning.naive import plan_naive
from dask_io.planning.plan import Plan
from dask_io.planning.reads import Hold
from dask_io.planning.reread import box_plan
from dask_io.planning.sweep.by_slab import search_by_slab
from dask_io.planning.sweep.ends import FORBIDDEN, CutPrices, best_ends, fewest_seeks
from dask_io.planning.sweep.streams import as_stream, streamed_space
from dask_io.planning.sweep.structures import Space, arrangements, space_between, structures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dask_io.planning.problem import Problem
    from dask_io.planning.slabs import Slabs
    from dask_io.planning.sweep.arrange import Arrangement

# No block is cut at these prices.
_NO_CUTS = CutPrices(*(FORBIDDEN,) * 4)
# Streams are cut where whole blocks would hold more than so many bytes, and so many times as much.
_LITTLE, _WORTH_CUTTING = 64 * 2**20, 2
# Arrangements that are improved to find the least memory at which no block is cut.
_IMPROVED = 3


@dataclass(frozen=True, slots=True, order=True)
class _Rank:
    """What makes one plan better than another: fewer seeks, then less memory, then fewer steps."""

    seeks: int
    held: int
    n_steps: int


def plan_sweep(problem: Problem) -> Plan:
    """Choose the order of the axes, the read ends and their marks with the fewest seeks.

    With `memory_for_lower_bound` or more, every block is touched once, in the least memory
    known. With less, blocks are cut as little as possible, along the slowest axis of
    storage first. Never worse than `plan_naive` and `plan_keep`; more memory never costs
    more seeks. Any budget does that holds one element besides the staging.

    Raises
    ------
    BudgetTooSmallError
        If the smallest unit of work does not fit besides the staging: one element, or one
        target block if these are atomic.
    """
    n_elements = prod(problem.shape)
    unit, smallest = "element and the staging it needs", min(n_elements, 1)
    if problem.target.atomic:
        unit, smallest = "target block", prod(problem.target.grid.longest)
    if problem.holdable < smallest * problem.itemsize:
        required = problem.staging.budget_for(smallest * problem.itemsize)
        raise BudgetTooSmallError(required, problem.budget, unit)
    if not n_elements:
        return box_plan(problem, problem.target.grid.axes, "sweep")
    budget = problem.holdable // problem.itemsize
    space = space_between(problem.source, problem.target)
    best, streamed = lowest(space), streamed_space(space)
    if streamed is not None and lowest(streamed).held <= budget:
        # Whole blocks are quicker to move, if they take little memory.
        little = max(_WORTH_CUTTING * lowest(streamed).held, _LITTLE // problem.itemsize)
        if best.held > min(budget, little):
            best = _with_fewest_steps(streamed, lowest(streamed))
            return _held_best(as_stream(_plan(problem, streamed, best)))
    if best.held > budget:
        best = _search(space, budget)
    best = _with_fewest_steps(space, best)
    return _held_best(_better_by_slab(_better_of_others(_plan(problem, space, best))))


def memory_for_lower_bound(problem: Problem) -> int:
    """Return the smallest budget at which a plan touches every block once."""
    if problem.copied is not None:
        return problem.copied.minimum
    least = problem.piecewise or problem.staging
    if not prod(problem.shape):
        return least.budget_for(0)
    space = space_between(problem.source, problem.target)
    held = lowest(space).held
    if (streamed := streamed_space(space)) is not None:
        held = min(held, lowest(streamed).held)
    return least.budget_for(held * problem.itemsize)


@lru_cache(maxsize=64)
def lowest(space: Space) -> Arrangement:
    """Return the arrangement that cuts no block in the least memory.

    The best few are improved axis by axis, each time with the best ends given the others'.
    """
    every = space.ways[space.all_axes]
    found = [_settled(space, each) for each in every[:_IMPROVED]]
    return min(found, key=lambda each: (each.held, each.n_steps))


def _settled(space: Space, arrangement: Arrangement) -> Arrangement:
    """Improve one axis after another until none can be."""
    while True:
        before = arrangement
        for place, axis in enumerate(arrangement.axes):
            pair = space.pair_of(axis, arrangement.choices[place])
            choice = best_ends(arrangement.choices, place, pair, prices=_NO_CUTS)
            if choice is None or choice.cuts != arrangement.choices[place].cuts:
                continue
            other = arrangement.with_choice(place, choice)
            arrangement = min(arrangement, other, key=lambda each: (each.held, each.n_steps))
        if arrangement.held == before.held:
            return arrangement


def _search(space: Space, budget: int) -> Arrangement:
    """Find the best arrangement within the budget.

    Structures come with the least seeks they can have, so the search ends as soon as no
    later one can be better. For each arrangement the best ends for this budget are found
    along one axis.
    """
    best: Arrangement | None = None
    rank: _Rank | None = None
    for structure in structures(space):
        if rank is not None and structure.seeks >= rank.seeks:
            break
        if structure.held > budget:
            continue
        for arrangement in arrangements(space, structure):
            room = None if rank is None else rank.seeks - structure.seeks
            for found in _within(space, arrangement, structure.axis, budget=budget, room=room):
                new = _Rank(space.seeks(found.by_axis), found.held, found.n_steps)
                if found.held <= budget and (rank is None or new < rank):
                    best, rank = found, new
    if best is None:
        message = f"no arrangement of {space} holds within {budget} elements"
        raise AssertionError(message)
    return best


def _within(
    space: Space, arrangement: Arrangement, axis: int, *, budget: int, room: int | None
) -> Iterator[Arrangement]:
    """Yield the arrangement with the ends along one axis that the budget asks for.

    Nothing if these would cost more seeks than there is room for.
    """
    place = arrangement.axes.index(axis)
    pair = space.pair_of(axis, arrangement.choices[place])
    prices = space.prices(axis, arrangement.by_axis)
    least = fewest_seeks(arrangement.choices, place, pair, prices=prices, budget=budget)
    if least is None or (room is not None and least > room):
        return
    choice = best_ends(arrangement.choices, place, pair, prices=prices, budget=budget)
    if choice is not None and space.allows(axis, choice):
        yield arrangement.with_choice(place, choice)
    elif pair.is_long:
        # What is best cannot be written down.
        for each in (*space.whole[axis], *space.cut[axis]):
            if space.allows(axis, each):
                yield arrangement.with_choice(place, each)


def _with_fewest_steps(space: Space, arrangement: Arrangement) -> Arrangement:
    """Join reads along each axis as far as that costs neither seeks nor memory."""
    for place, axis in enumerate(arrangement.axes):
        choice = best_ends(
            arrangement.choices,
            place,
            space.pair_of(axis, arrangement.choices[place]),
            prices=space.prices(axis, arrangement.by_axis),
            budget=arrangement.held,
            fewest_steps=True,
        )
        if choice is None or choice.cuts != arrangement.choices[place].cuts:
            continue
        other = arrangement.with_choice(place, choice)
        if other.held <= arrangement.held and other.n_steps < arrangement.n_steps:
            arrangement = other
    return arrangement


def _plan(
    problem: Problem, space: Space, arrangement: Arrangement, slabs: Slabs | None = None
) -> Plan:
    choices = arrangement.by_axis
    reads = tuple(choices[axis].array_reads for axis in range(space.n_axes))
    backwards = frozenset(axis for axis, choice in choices.items() if choice.backwards)
    order = arrangement.axes
    return Plan(problem, order, reads, Hold.PIECES, "sweep", slabs, backwards)


def _better_of_others(plan: Plan) -> Plan:
    """Return the plan, or that of an older strategy should it be better.

    None of them knows of atomic target blocks.
    """
    if plan.problem.target.atomic:
        return plan
    space = space_between(plan.problem.source, plan.problem.target)
    strategies: list[Callable[[Problem], Plan]] = [plan_keep]
    if not any(pair.is_long for pair in space.pairs):
        # To list every piece of long axes takes long, and cutting at one side's blocks is better.
        strategies.append(plan_naive)
    for strategy in strategies:
        if plan.seeks.total == plan.problem.lower_bound:
            break
        try:
            other = strategy(plan.problem)
        except BudgetTooSmallError:
            continue
        if other.fits and _rank(other) < _rank(plan):
            plan = replace(other, strategy="sweep")
    return plan


def _better_by_slab(plan: Plan) -> Plan:
    """Return the plan, or one whose ends differ from slab to slab if that has fewer seeks."""
    problem = plan.problem
    if plan.seeks.total == problem.lower_bound:
        return plan
    space, budget = space_between(problem.source, problem.target), problem.holdable
    found = search_by_slab(space, budget // problem.itemsize, below=plan.seeks.total)
    if found is None:
        return plan
    return _plan(problem, space, found.arrangement, found.slabs)


def _rank(plan: Plan) -> _Rank:
    return _Rank(plan.seeks.total, plan.held_bytes, plan.n_steps)


def _held_best(plan: Plan) -> Plan:
    """Hold whole blocks, which saves a copy of all, where that pays.

    Where no block is cut, other read ends may hold less of them.
    """
    problem, blocks = plan.problem, replace(plan, hold=Hold.BLOCKS)
    can_be_less = plan.held_bytes < blocks.held_bytes
    leaves_room = plan.held_bytes + problem.staging.preferred <= problem.budget
    if can_be_less and leaves_room and plan.seeks.total == problem.lower_bound:
        space = space_between(problem.source, problem.target)
        other = replace(_plan(problem, space, space.way_in_blocks), hold=Hold.BLOCKS)
        blocks = min(blocks, other, key=lambda each: (each.held_bytes, each.n_steps))
    return plan.or_in_blocks(blocks)
