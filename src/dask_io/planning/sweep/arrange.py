"""Good orders of the axes, with read ends for each axis.

The memory of a sweep's inner axes depends on the outer ones only through two products
(`dask_io.planning.envelope`). So the best arrangements of a set of axes follow from the best
arrangements of the set without its outermost axis, for all sets from small to large.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

from dask_io.planning.envelope import NOTHING_WRITTEN, Envelope, is_never_above, most, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dask_io.planning.sweep.choices import Choice

# Outer products (a, b) for which arrangements are compared if too many are left.
_OUTER_PRODUCTS = ((4, 5), (5, 4), (2, 1), (1, 2), (10, 9), (3, 2), (9, 10))
# Every axis doubles the number of sets. With more axes than this, not all sets are considered.
_MOST_AXES = 10


@dataclass(frozen=True, slots=True)
class Arrangement:
    """An order of some axes, outermost first, with the read ends of each."""

    axes: tuple[int, ...]
    choices: tuple[Choice, ...]
    envelope: Envelope

    @property
    def held(self) -> int:
        """The most elements held, if these are all the axes."""
        return most(self.envelope)

    @property
    def n_steps(self) -> int:
        """Number of read cells."""
        return prod(choice.n_cells for choice in self.choices)

    @property
    def by_axis(self) -> dict[int, Choice]:
        """The read ends of each axis."""
        return dict(zip(self.axes, self.choices, strict=True))

    def around(self, axis: int, choice: Choice, inside: int) -> Arrangement:
        """Add an axis around these, which have `inside` elements."""
        envelope = wrap(choice.cells, self.envelope, inside)
        return Arrangement((axis, *self.axes), (choice, *self.choices), envelope)

    def with_choice(self, place: int, choice: Choice) -> Arrangement:
        """Replace the read ends of the axis at a position in the order."""
        choices = (*self.choices[:place], choice, *self.choices[place + 1 :])
        return arrangement_of(self.axes, choices)


def arrangement_of(axes: Sequence[int], choices: Sequence[Choice]) -> Arrangement:
    """Return the arrangement of axes in this order, outermost first."""
    arrangement, inside = Arrangement((), (), NOTHING_WRITTEN), 1
    for axis, choice in zip(reversed(axes), reversed(choices), strict=True):
        arrangement = arrangement.around(axis, choice, inside)
        inside *= choice.cells.length
    return arrangement


Table = dict[frozenset[int], list[Arrangement]]
"""For each set of axes, the arrangements that are worth keeping."""


def arrange(
    families: Mapping[int, Sequence[Choice]], *, most_kept: int, known: Table | None = None
) -> Table:
    """Find good arrangements for every set of axes; those of the whole set are sorted by memory.

    With very many axes, only those along which the most is carried are tried in all orders. The
    other axes are outside of them.

    Parameters
    ----------
    families
        Candidates for the read ends of each axis.
    most_kept
        The most arrangements kept for each set, after dominated ones have been dropped.
    known
        Sets whose arrangements are already known.
    """
    table: Table = {frozenset(): [Arrangement((), (), NOTHING_WRITTEN)], **(known or {})}
    for members in _sets(families):
        if members in table:
            continue
        ways = []
        for axis in members:
            inside = prod(families[other][0].cells.length for other in members - {axis})
            ways += [
                inner.around(axis, choice, inside)
                for inner in table.get(members - {axis}, ())
                for choice in families[axis]
            ]
        ways.sort(key=lambda way: (way.held, way.n_steps))
        is_all = len(members) == len(families)
        table[members] = ways if is_all else _worth_keeping(ways, most_kept)
    return table


def _sets(families: Mapping[int, Sequence[Choice]]) -> Iterator[frozenset[int]]:
    """Yield sets of axes from small to large, each an earlier set with one more axis."""
    axes = list(families)
    if len(axes) > _MOST_AXES:
        axes.sort(key=lambda axis: _carried(families[axis]), reverse=True)
    some, others = axes[:_MOST_AXES], axes[_MOST_AXES:]
    for size in range(1, len(some) + 1):
        yield from map(frozenset, combinations(some, size))
    for n_others in range(1, len(others) + 1):
        yield frozenset((*some, *others[:n_others]))


def _carried(choices: Sequence[Choice]) -> int:
    """Return the fewest elements carried along an axis, if it were the only axis."""
    return min(arrangement_of((0,), (choice,)).held - choice.longest for choice in choices)


def _worth_keeping(ways: list[Arrangement], most_kept: int) -> list[Arrangement]:
    """Drop dominated arrangements, then all but the best few for several outer cells."""
    kept: list[Arrangement] = []
    for way in ways:
        if not any(is_never_above(other.envelope, way.envelope) for other in kept):
            kept.append(way)
    if len(kept) <= most_kept:
        return kept
    chosen = dict.fromkeys(range(most_kept // 2))
    for rank in zip(*(_ranking(kept, *outer) for outer in _OUTER_PRODUCTS), strict=True):
        chosen |= dict.fromkeys(rank)
    return [kept[index] for index in list(chosen)[:most_kept]]


def _ranking(ways: list[Arrangement], a: int, b: int) -> list[int]:
    """Return the indices of arrangements, least memory first, within an outer cell."""
    return sorted(range(len(ways)), key=lambda index: most(ways[index].envelope, a, b))
