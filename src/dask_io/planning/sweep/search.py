"""The search of the sweep strategy: the fewest seeks within the memory budget."""

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
from dask_io.planning.sweep.ends import best_ends, fewest_seeks, terms_of
from dask_io.planning.sweep.graph import FORBIDDEN, CutPrices
from dask_io.planning.sweep.streams import as_stream, streamed_space
from dask_io.planning.sweep.structures import Space, arrangements, space_between, structures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dask_io.planning.problem import Problem
    from dask_io.planning.slabs import Slabs
    from dask_io.planning.sweep.arrange import Arrangement

# Prices at which no block is cut.
_NO_CUTS = CutPrices(*(FORBIDDEN,) * 4)
# Streams are cut if whole blocks would hold more than this many bytes and times as much.
_LITTLE, _WORTH_CUTTING = 64 * 2**20, 2
# How many arrangements are improved to find the least memory without cuts.
_IMPROVED = 3


@dataclass(frozen=True, slots=True, order=True)
class _Rank:
    """Plans are ranked by seeks, then memory, then steps."""

    seeks: int
    held: int
    n_steps: int


def plan_sweep(problem: Problem) -> Plan:
    """Choose the order of the axes, the read ends and their marks for the fewest seeks.

    With at least `memory_for_lower_bound`, every block is touched once, with the least memory that
    the search finds. With less memory, blocks are cut as little as possible, along the slowest
    storage axis first. The plan is never worse than those of `plan_naive` and `plan_keep`, and
    more memory never needs more seeks. The budget must hold one element and the staging.

    Raises
    ------
    BudgetTooSmallError
        If the smallest unit of work does not fit in addition to the staging: one element, or one
        target block if target blocks are atomic.
    """
    n_elements = prod(problem.shape)
    unit, smallest = "element with its staging", min(n_elements, 1)
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
        # Moving whole blocks is faster, if they need little memory.
        little = max(_WORTH_CUTTING * lowest(streamed).held, _LITTLE // problem.itemsize)
        if best.held > min(budget, little):
            best = _with_fewest_steps(streamed, lowest(streamed))
            return _held_best(as_stream(_plan(problem, streamed, best)))
    if best.held > budget:
        best = _search(space, budget)
    best = _with_fewest_steps(space, best)
    return _held_best(_better_by_slab(_better_of_others(_plan(problem, space, best))))


def memory_for_lower_bound(problem: Problem) -> int:
    """Return the smallest budget found with which a plan touches every block once."""
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
    """Return the arrangement with the least memory that cuts no block.

    The best few arrangements are improved axis by axis, each with the best ends given the others.
    """
    every = space.ways[space.all_axes]
    found = [_settled(space, each) for each in every[:_IMPROVED]]
    return min(found, key=lambda each: (each.held, each.n_steps))


def _settled(space: Space, arrangement: Arrangement) -> Arrangement:
    """Improve one axis after another until no improvement is left."""
    while True:
        before = arrangement
        for place, axis in enumerate(arrangement.axes):
            pair = space.pair_of(axis, arrangement.choices[place])
            choice = best_ends(
                terms_of(arrangement.choices, place),
                pair,
                prices=_NO_CUTS,
                budget=arrangement.held,
            )
            if choice is None or choice.cuts != arrangement.choices[place].cuts:
                continue
            other = arrangement.with_choice(place, choice)
            arrangement = min(arrangement, other, key=lambda each: (each.held, each.n_steps))
        if arrangement.held == before.held:
            return arrangement


def _search(space: Space, budget: int) -> Arrangement:
    """Find the best arrangement within the budget.

    Structures are sorted by a lower bound of their seeks, so the search ends as soon as no later
    structure can be better. For each arrangement, the best ends for this budget are found along
    one axis.
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
        message = f"no arrangement of {space} fits in {budget} elements"
        raise AssertionError(message)
    return best


def _within(
    space: Space, arrangement: Arrangement, axis: int, *, budget: int, room: int | None
) -> Iterator[Arrangement]:
    """Yield the arrangement with the best ends along one axis for the budget.

    Yield nothing if these would need more than `room` additional seeks.
    """
    place = arrangement.axes.index(axis)
    pair = space.pair_of(axis, arrangement.choices[place])
    prices = space.prices(axis, arrangement.by_axis)
    terms = terms_of(arrangement.choices, place)
    least = fewest_seeks(terms, pair, prices=prices, budget=budget)
    if least is None or (room is not None and least > room):
        return
    choice = best_ends(terms, pair, prices=prices, budget=budget)
    if choice is not None and space.allows(axis, choice):
        yield arrangement.with_choice(place, choice)
    elif pair.is_long:
        # The best ends have too many runs.
        for each in (*space.whole[axis], *space.cut[axis]):
            if space.allows(axis, each):
                yield arrangement.with_choice(place, each)


def _with_fewest_steps(space: Space, arrangement: Arrangement) -> Arrangement:
    """Join reads along each axis where this needs no additional seeks or memory."""
    for place, axis in enumerate(arrangement.axes):
        choice = best_ends(
            terms_of(arrangement.choices, place),
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
    """Return the plan, or that of an older strategy if it is better.

    The older strategies do not support atomic target blocks.
    """
    if plan.problem.target.atomic:
        return plan
    space = space_between(plan.problem.source, plan.problem.target)
    strategies: list[Callable[[Problem], Plan]] = [plan_keep]
    if not any(pair.is_long for pair in space.pairs):
        # Listing every piece of long axes takes long, and cutting at one side's blocks is better.
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
    """Return the plan, or one whose ends differ between slabs if it has fewer seeks."""
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
    """Hold whole blocks if this is less work, because it saves a copy of all data.

    If no block is cut, other read ends may hold fewer blocks.
    """
    problem, blocks = plan.problem, replace(plan, hold=Hold.BLOCKS)
    can_be_less = plan.held_bytes < blocks.held_bytes
    leaves_room = plan.held_bytes + problem.staging.preferred <= problem.budget
    if can_be_less and leaves_room and plan.seeks.total == problem.lower_bound:
        space = space_between(problem.source, problem.target)
        other = replace(_plan(problem, space, space.way_in_blocks), hold=Hold.BLOCKS)
        blocks = min(blocks, other, key=lambda each: (each.held_bytes, each.n_steps))
    return plan.or_in_blocks(blocks)
