"""Read ends along one axis that are chosen for each slab of an outer axis.

If all slabs had the same ends, the slab that holds the most would determine the number of cuts in
all slabs. Here every slab has only as many cuts as it needs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING

from dask_io.planning.cost import AxisCells, CutCounts
from dask_io.planning.envelope import upper_hull
from dask_io.planning.reads import AxisPlan
from dask_io.planning.slabs import SlabRange, Slabs
from dask_io.planning.sweep.arrange import arrangement_of
from dask_io.planning.sweep.ends import best_ends, terms_of
from dask_io.planning.sweep.families import finest_kept
from dask_io.planning.sweep.graph import FORBIDDEN
from dask_io.planning.sweep.structures import arrangements, structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dask_io.planning.reads import AxisStep
    from dask_io.planning.sweep.arrange import Arrangement
    from dask_io.planning.sweep.choices import Choice
    from dask_io.planning.sweep.segments import AxisPair
    from dask_io.planning.sweep.structures import Space, Structure

# Axes with more read cells than this are not searched slab by slab.
_MOST_SLABS = 256


@dataclass(frozen=True, slots=True)
class BySlab:
    """An arrangement, the slabs in which one axis has different ends (if any), and the seeks."""

    arrangement: Arrangement
    slabs: Slabs | None
    seeks: int


def search_by_slab(space: Space, budget: int, *, below: int) -> BySlab | None:
    """Return the result with the fewest seeks within the budget, if it has fewer than `below`."""
    best: BySlab | None = None
    for structure in structures(space):
        if structure.seeks >= below:
            break
        if structure.held > budget:
            continue
        for arrangement, outer in _candidates(space, structure, budget):
            found = _cut_by_slab(
                space, arrangement, (outer, structure.axis), budget=budget, below=below
            )
            if found is not None:
                best, below = found, found.seeks
    return best


def _candidates(
    space: Space, structure: Structure, budget: int
) -> Iterator[tuple[Arrangement, int]]:
    """Yield arrangements, each with an axis along which slabs may differ.

    These are the arrangements of the structure. If the structure cuts no other axis, they also
    include arrangements with its axis innermost, where fine ends save the most memory. For these,
    all ends of the outer axis that fit in the budget are tried.
    """
    inner = structure.axis
    finest = None if structure.fixed else finest_kept(space.pairs[inner])
    tried = set()
    for arrangement in arrangements(space, structure):
        for outer in arrangement.axes[: arrangement.axes.index(inner)]:
            if arrangement.by_axis[outer].n_cells <= _MOST_SLABS:
                yield arrangement, outer
        if finest is None:
            continue
        choices = {**arrangement.by_axis, inner: finest}
        order = (*(axis for axis in arrangement.axes if axis != inner), inner)
        for outer in order[:-1]:
            key = outer, *((axis, choices[axis].reads) for axis in order if axis != outer)
            if key in tried:
                continue
            tried.add(key)
            for ends in space.one_way[outer]:
                within = [{**choices, outer: ends}[axis] for axis in order]
                # At least one cell is held, which rules out most ends quickly.
                cell = prod(choice.longest for choice in within)
                if ends.n_cells > _MOST_SLABS or cell > budget:
                    continue
                found = arrangement_of(order, within)
                if found.held <= budget:
                    yield found, outer


def _cut_by_slab(
    space: Space, arrangement: Arrangement, axes: tuple[int, int], *, budget: int, below: int
) -> BySlab | None:
    """Cut the second axis as each slab of the first needs; None if seeks are not below `below`."""
    (outer, inner), choices = axes, arrangement.by_axis
    place, uncut = arrangement.axes.index(inner), space.whole[inner][0]
    seeks = space.count_writes({**choices, inner: uncut})
    found: dict[AxisStep, Choice] = {}
    for kind, cells in _kinds_of_slabs(space.pair_of(outer, choices[outer]), choices[outer]):
        within = {**choices, outer: kind}
        shape = _shape_within(space, outer, cells)
        prices = space.prices(inner, within, shape)
        ends = best_ends(
            terms_of([within[axis] for axis in arrangement.axes], place),
            space.pair_of(inner, choices[inner]),
            prices=prices._replace(first_write=FORBIDDEN, next_write=FORBIDDEN),
            budget=budget,
            fewest_steps=True,
        )
        if ends is None or ends.write_cuts != uncut.write_cuts:
            return None
        seeks += space.count_reads({**within, inner: ends}, shape)
        if seeks >= below:
            return None
        found |= dict.fromkeys(cells, ends)
    if not found:
        return None
    usual = Counter(found.values()).most_common(1)[0][0]
    ranges = _join_neighbours(found, usual)
    if choices[outer].backwards:
        length = space.source.grid.shape[outer]
        ranges = [SlabRange(length - b, length - a, reads) for a, b, reads in ranges[::-1]]
    slabs = Slabs(outer, inner, tuple(ranges)) if ranges else None
    return BySlab(arrangement.with_choice(place, usual), slabs, seeks)


@lru_cache(maxsize=256)
def _kinds_of_slabs(pair: AxisPair, choice: Choice) -> tuple[tuple[Choice, list[AxisStep]], ...]:
    """Group slabs by the lengths that they add, complete and find carried, most carried first.

    Each kind is returned as a choice of its own.
    """
    plan = AxisPlan(pair.target, choice.reads)

    def key(cell: AxisStep) -> tuple[int, int, int]:
        adds, completes = cell.stop - cell.start, cell.done_stop - cell.done_start
        return cell.done_start - cell.start, adds, completes

    kinds = []
    for (_, adds, completes), group in groupby(sorted(plan.cells(), key=key), key=key):
        cells = list(group)
        before = upper_hull((cell.start, cell.done_start) for cell in cells)
        kind = replace(
            choice,
            cells=AxisCells(choice.cells.length, (((adds, completes), before),)),
            read_cuts=sum((_cuts_of(pair, cell) for cell in cells), CutCounts(0, 0)),
        )
        kinds.append((kind, cells))
    return tuple(kinds)


def _cuts_of(pair: AxisPair, cell: AxisStep) -> CutCounts:
    """Count the source blocks within a slab, and those that extend beyond it."""
    blocks, (start, stop, *_) = pair.source, cell
    extends_beyond = (
        blocks.floor(start) < start or (start == 0 and pair.source_partial[0]),
        blocks.ceil(stop) > stop or (stop == blocks.length and pair.source_partial[1]),
    )
    n_blocks = blocks.index_at(stop - 1) - blocks.index_at(start) + 1
    n_cut = min(n_blocks, sum(extends_beyond))
    return CutCounts(n_blocks - n_cut, n_cut)


def _shape_within(space: Space, axis: int, cells: Sequence[AxisStep]) -> tuple[int, ...]:
    shape = list(space.source.grid.shape)
    shape[axis] = sum(cell.stop - cell.start for cell in cells)
    return tuple(shape)


def _join_neighbours(found: Mapping[AxisStep, Choice], usual: Choice) -> list[SlabRange]:
    """Join neighbouring slabs with the same ends into one range; omit slabs with usual ends."""
    ranges = []
    for same, group in groupby(sorted(found), key=found.__getitem__):
        cells = list(group)
        if same != usual:
            ranges.append(SlabRange(cells[0].start, cells[-1].stop, same.array_reads))
    return ranges
