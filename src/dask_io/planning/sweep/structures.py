"""The candidates of the sweep strategy, independent of the budget.

A structure fixes the cuts of some axes and leaves the cuts of one axis to the budget. All other
axes have no cuts. Each structure has a few arrangements: orders of the axes with read ends. Since
nothing here depends on the budget, more memory can only add candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from dask_io.planning.cost import CutCounts, count_openings, count_runs
from dask_io.planning.sweep.arrange import Arrangement, Table, arrange, arrangement_of
from dask_io.planning.sweep.choices import Choice, in_blocks
from dask_io.planning.sweep.families import cut_choices, flushed_choices, whole_choices
from dask_io.planning.sweep.graph import FORBIDDEN, CutPrices
from dask_io.planning.sweep.segments import AxisPair

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dask_io.planning.problem import Side

Lengths = tuple[int, ...]

# The most read ends without cuts, read ends with cuts, and arrangements of a set of axes, by the
# number of axes. With more than three axes there are fewer, so that planning stays fast.
_WHOLE_CHOICES = (12, 12, 12, 8, 6, 4, 3)
_CUT_CHOICES = (6, 6, 6, 6, 4, 3, 2)
_WAYS = (8, 8, 8, 8, 6, 4, 3)
# With at least this many axes, only the slowest axes of each side are cut.
_MANY_AXES = 4
# The most arrangements for each candidate of the axis that the budget cuts.
_ARRANGEMENTS = 12
_ARRANGEMENTS_WITH_CUTS = 2


@dataclass(frozen=True)
class Structure:
    """Axes with fixed cuts, and the axis whose cuts depend on the budget.

    Attributes
    ----------
    axis
        The axis that the budget cuts.
    fixed
        Other axes with cuts, and their read ends.
    seeks
        Lower bound of the seeks: those without cuts along `axis`.
    held
        Lower bound of the elements held: the largest cell.
    """

    axis: int
    fixed: tuple[tuple[int, Choice], ...]
    seeks: int
    held: int


@dataclass(frozen=True, eq=False)
class Space:
    """The search space between two sides, independent of the budget."""

    source: Side
    target: Side
    forwards: frozenset[int] = frozenset()
    """Axes that may not be swept backwards."""

    @property
    def n_axes(self) -> int:
        """Number of axes."""
        return len(self.source.grid.axes)

    @property
    def all_axes(self) -> frozenset[int]:
        """The set of all axes."""
        return frozenset(range(self.n_axes))

    @cached_property
    def pairs(self) -> tuple[AxisPair, ...]:
        """The blocks of source and target along each axis."""
        source, target = self.source, self.target
        axes = zip(source.grid.axes, target.grid.axes, source.partial, target.partial, strict=True)
        return tuple(AxisPair(*axis) for axis in axes)

    def pair_of(self, axis: int, choice: Choice) -> AxisPair:
        """Return an axis in the reading direction of a choice."""
        return self.pairs[axis].mirrored if choice.backwards else self.pairs[axis]

    @cached_property
    def whole(self) -> Mapping[int, tuple[Choice, ...]]:
        """For each axis, read ends without cuts; in both directions if these differ."""
        limit = _WHOLE_CHOICES[min(self.n_axes, len(_WHOLE_CHOICES) - 1)]
        found = {}
        for axis, pair in enumerate(self.pairs):
            found[axis] = whole_choices(pair, limit)
            if not (axis in self.forwards or pair.is_symmetric):
                others = whole_choices(pair.mirrored, limit)
                found[axis] = _from_either_end(found[axis], others, self.n_axes)
        return found

    @cached_property
    def cut(self) -> Mapping[int, tuple[Choice, ...]]:
        """For each axis, read ends with cuts."""
        limit = _CUT_CHOICES[min(self.n_axes, len(_CUT_CHOICES) - 1)]
        return {
            axis: tuple(
                each for each in cut_choices(pair, limit) if each.cuts != self.whole[axis][0].cuts
            )
            for axis, pair in enumerate(self.pairs)
        }

    @cached_property
    def flushed(self) -> Mapping[int, tuple[Choice, ...]]:
        """For each axis, read ends that carry nothing; those at every element are last."""
        return {axis: flushed_choices(pair) for axis, pair in enumerate(self.pairs)}

    @cached_property
    def ways(self) -> Table:
        """Good arrangements of every set of axes without cuts."""
        return arrange(self.whole, most_kept=self.most_ways)

    @cached_property
    def way_in_blocks(self) -> Arrangement:
        """The best arrangement found without cuts, if blocks are held whole."""
        families = {
            axis: [in_blocks(self.pair_of(axis, choice), choice) for choice in choices]
            for axis, choices in self.whole.items()
        }
        return arrange(families, most_kept=self.most_ways)[self.all_axes][0]

    @cached_property
    def one_way(self) -> Mapping[int, tuple[Choice, ...]]:
        """Read ends without cuts, along each axis in the best direction only.

        The best direction is the one that touches every block once with the least memory. With
        cuts along some axes, there would be too many candidates for both directions.
        """
        best = self.ways[self.all_axes][0].by_axis
        return {
            axis: tuple(each for each in choices if each.backwards == best[axis].backwards)
            for axis, choices in self.whole.items()
        }

    @property
    def most_ways(self) -> int:
        """The most arrangements kept for a set of axes."""
        return _WAYS[min(self.n_axes, len(_WAYS) - 1)]

    def seeks(self, choices: Mapping[int, Choice]) -> int:
        """Return the seeks of read ends; missing axes have no cuts."""
        every = {axis: self.whole[axis][0] for axis in range(self.n_axes)} | dict(choices)
        return self.count_reads(every) + self.count_writes(every)

    def count_reads(self, choices: Mapping[int, Choice], shape: Lengths | None = None) -> int:
        """Return the seeks in the source, or in slabs of it with this total shape."""
        cuts = [choices[axis].read_cuts for axis in range(self.n_axes)]
        return self._count(self.source, cuts, shape)

    def count_writes(self, choices: Mapping[int, Choice]) -> int:
        """Return the seeks in the target."""
        return self._count(self.target, [choices[axis].write_cuts for axis in range(self.n_axes)])

    def _count(self, side: Side, cuts: Sequence[CutCounts], shape: Lengths | None = None) -> int:
        if side.atomic:
            return count_openings(cuts)
        return count_runs(side.layout, shape or self.source.grid.shape, cuts, side.through)

    def prices(
        self, axis: int, choices: Mapping[int, Choice], shape: Lengths | None = None
    ) -> CutPrices:
        """Return the prices of cuts along one axis, given the other axes."""
        prices: list[int] = []
        for side, name in ((self.source, "read_cuts"), (self.target, "write_cuts")):
            cuts = [getattr(choices[each], name) for each in range(self.n_axes)]
            # Seeks are linear in the numbers of uncut blocks and of pieces.
            seeks = []
            for uncut, pieces in ((0, 0), (-1, 2), (0, 1)):
                cuts[axis] = CutCounts(uncut, pieces)
                seeks.append(self._count(side, cuts, shape))
            prices += [seeks[1] - seeks[0], seeks[2] - seeks[0]]
        if self.target.atomic:
            prices[2:] = [FORBIDDEN, FORBIDDEN]
        return CutPrices(*prices)

    def allows(self, axis: int, choice: Choice) -> bool:
        """Whether read ends do not cut atomic target blocks."""
        return not self.target.atomic or choice.write_cuts == self.whole[axis][0].write_cuts


def _from_either_end(
    forwards: tuple[Choice, ...], backwards: tuple[Choice, ...], n_axes: int
) -> tuple[Choice, ...]:
    """Return the read ends in both directions; with many axes, in the better direction only.

    The better direction holds less if there were no other axes. Ties go to forwards.
    """
    if n_axes >= _MANY_AXES:
        return min(forwards, backwards, key=lambda choices: min(map(_held_alone, choices)))
    known = {choice.cells for choice in forwards}
    return (*forwards, *(choice for choice in backwards if choice.cells not in known))


def _held_alone(choice: Choice) -> int:
    return arrangement_of((0,), (choice,)).held


@lru_cache(maxsize=16)
def space_between(source: Side, target: Side, forwards: frozenset[int] = frozenset()) -> Space:
    """Return the search space between two sides, from a cache."""
    if source.sequential:
        forwards = frozenset(range(len(source.grid.axes)))
    return Space(source, target, forwards)


@lru_cache(maxsize=16)
def structures(space: Space) -> tuple[Structure, ...]:
    """Return all structures, fewest seeks first."""
    shortest = [min(each.longest for each in space.whole[axis]) for axis in range(space.n_axes)]
    found = {}
    for axis, fixed in _structures(space):
        if not all(space.allows(*each) for each in fixed):
            continue
        lengths = {**dict(enumerate(shortest)), axis: 1}
        lengths |= {other: choice.longest for other, choice in fixed}
        key = axis, tuple(sorted((other, choice.reads) for other, choice in fixed))
        found[key] = Structure(axis, fixed, space.seeks(dict(fixed)), prod(lengths.values()))
    return tuple(sorted(found.values(), key=lambda structure: structure.seeks))


def _structures(space: Space) -> Iterator[tuple[int, tuple[tuple[int, Choice], ...]]]:
    layouts = space.source.layout.axes, space.target.layout.axes
    for layout in layouts:
        yield layout[0], ()
    n_cut = space.n_axes if space.n_axes < _MANY_AXES else 2
    often_cut = sorted({axis for layout in layouts for axis in layout[:n_cut]})
    for axis, other in product(often_cut, often_cut):
        if axis != other:
            yield from ((axis, ((other, choice),)) for choice in space.cut[other])
    # With very little memory, axes are cut one after another, slowest first.
    for layout in layouts:
        for place in range(1, space.n_axes):
            slower, faster = layout[:place], layout[place + 1 :]
            for choices in _slower_cuts(space, slower):
                yield layout[place], tuple(zip(slower, choices, strict=True))
            elements = [(each, space.flushed[each][-1]) for each in slower]
            for other in faster:
                yield from (
                    (layout[place], (*elements, (other, choice))) for choice in space.cut[other]
                )


def _slower_cuts(space: Space, axes: Sequence[int]) -> Iterator[tuple[Choice, ...]]:
    """Yield cuts for all slower axes: at blocks, or at every element."""
    families = [space.flushed[axis] for axis in axes]
    yield from product(*families) if len(axes) < _MANY_AXES - 1 else zip(*families, strict=True)


@lru_cache(maxsize=4096)
def arrangements(space: Space, structure: Structure) -> tuple[Arrangement, ...]:
    """Return good orders and read ends for a structure.

    The axis that the budget cuts has placeholder ends: no cuts, or flushed at every block or
    element.
    """
    if not structure.fixed:
        found = _arranged(space, structure, space.flushed[structure.axis])
        return _distinct(structure.axis, [*space.ways[space.all_axes][:_ARRANGEMENTS], *found])
    if space.n_axes < _MANY_AXES:
        finest = max(space.whole[structure.axis], key=lambda choice: choice.n_cells)
        stand_ins = (finest, space.flushed[structure.axis][-1])
        return _distinct(structure.axis, _arranged(space, structure, stand_ins))
    return _distinct(structure.axis, _adapted(space, structure))


def _arranged(
    space: Space, structure: Structure, stand_ins: Sequence[Choice]
) -> Iterator[Arrangement]:
    """Yield the best arrangements for each placeholder of the axis that the budget cuts."""
    fixed = dict(structure.fixed)
    families = {**space.one_way, **{axis: (choice,) for axis, choice in fixed.items()}}
    limit = _ARRANGEMENTS_WITH_CUTS if fixed else _ARRANGEMENTS
    others = {*fixed, structure.axis}
    known = {members: ways for members, ways in space.ways.items() if not members & others}
    for stand_in in {each.reads: each for each in stand_ins}.values():
        families[structure.axis] = (stand_in,)
        table = arrange(families, most_kept=limit if fixed else space.most_ways, known=known)
        yield from table[space.all_axes][:limit]
        known.update(
            (members, ways) for members, ways in table.items() if structure.axis not in members
        )


def _adapted(space: Space, structure: Structure) -> Iterator[Arrangement]:
    """Yield the best arrangements without cuts, with the cut axes moved outwards."""
    fixed = dict(structure.fixed)
    for way in space.ways[space.all_axes][:_ARRANGEMENTS_WITH_CUTS]:
        choices = {**way.by_axis, **fixed}
        for outer in (tuple(fixed), (*fixed, structure.axis)):
            order = (*outer, *(axis for axis in way.axes if axis not in outer))
            yield arrangement_of(order, [choices[axis] for axis in order])


def _distinct(axis: int, found: Iterable[Arrangement]) -> tuple[Arrangement, ...]:
    """Drop arrangements that differ only in the axis that the budget cuts."""
    kept: dict[object, Arrangement] = {}
    for each in found:
        key = [
            (other, None if other == axis else (choice.reads, choice.backwards))
            for other, choice in zip(each.axes, each.choices, strict=True)
        ]
        kept.setdefault(tuple(key), each)
    return tuple(kept.values())
