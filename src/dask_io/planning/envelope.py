"""The most elements held within one cell of the outer axes, as a function of that cell.

The inner axes depend on the outer ones only through two products (docs/explanation/plans.md): `a`
of the increments of the current cell along each outer axis, `b` of the lengths that it completes.
The most elements held is a maximum of terms ``a * held - b * completed``, so an envelope is the set
of pairs that attain it. This makes it cheap to add an outer axis, and to compare two sweeps.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dask_io.planning.cost import AxisCells

Envelope: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs ``(held, completed)``, both ascending, each the maximum for some `a` and `b`."""

NOTHING_WRITTEN: Envelope = ((1, 0),)
"""The envelope without axes, while the cell is held and before anything is written."""
ALL_WRITTEN: Envelope = ((1, 1),)
"""The envelope without axes, after the completed elements have been written."""


def upper_hull(pairs: Iterable[tuple[int, int]]) -> Envelope:
    """Return the pairs that maximise ``a * held - b * completed`` for some a, b >= 0.

    Examples
    --------
    >>> upper_hull([(700, 0), (1000, 500), (2800, 2000), (3500, 3000), (3000, 3000)])
    ((700, 0), (2800, 2000), (3500, 3000))
    """
    hull: list[tuple[int, int]] = []
    highest = -1
    # Sorting pairs is faster than sorting by a key.
    for completed, less in sorted([(completed, -held) for held, completed in pairs]):
        held = -less
        if held <= highest:
            continue
        highest = held
        while len(hull) > 1:
            (held_0, completed_0), (held_1, completed_1) = hull[-2:]
            rise = (held_1 - held_0) * (completed - completed_0)
            if rise > (held - held_0) * (completed_1 - completed_0):
                break
            hull.pop()
        hull.append((held, completed))
    return tuple(hull)


def wrap(cells: AxisCells, inner: Envelope, inside: int) -> Envelope:
    """Add an axis with these cells around inner axes of `inside` elements.

    Examples
    --------
    >>> from dask_io.planning.cost import AxisCells
    >>> wrap(AxisCells(6, (((3, 2), ((0, 0),)), ((3, 4), ((3, 2),)))), NOTHING_WRITTEN, 1)
    ((3, 0), (6, 2))
    """
    return upper_hull(
        (held * inside + adds * inner_held, completed * inside + completes * inner_completed)
        for (adds, completes), corners in cells.kinds
        for inner_held, inner_completed in inner
        for held, completed in corners
    )


def most(envelope: Envelope, a: int = 1, b: int = 1) -> int:
    """Return the most elements held if the outer products are `a` and `b`."""
    return max([a * held - b * completed for held, completed in envelope])


def is_never_above(one: Envelope, other: Envelope) -> bool:
    """Tell whether the first envelope holds at most as much as the second for all outer cells.

    Both are convex in ``b / a``, and the second is linear between its corners. So comparing at
    these corners is sufficient.

    Examples
    --------
    >>> is_never_above(((5, 0), (8, 4)), ((6, 0), (9, 4)))
    True
    >>> is_never_above(((5, 0), (8, 4)), ((6, 0), (7, 1)))
    False
    """
    if one[-1][0] > other[-1][0] or one[0][1] < other[0][1]:
        return False
    if one[0][1] == other[0][1] and one[0][0] > other[0][0]:
        return False
    for (held_0, completed_0), (held_1, completed_1) in pairwise(other):
        a, b = completed_1 - completed_0, held_1 - held_0
        if most(one, a, b) > a * held_0 - b * completed_0:
            return False
    return True
