"""Where the axes of an array point in the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.stores.space import OPPOSITE

if TYPE_CHECKING:
    from dask_io.stores.space import Affine


def directions(affine: Affine) -> tuple[str, ...] | None:
    """Return the direction in which each axis mostly points; None if directions have no names.

    Examples
    --------
    >>> from dask_io.stores.space import Affine
    >>> directions(Affine.scaled((-2.0, 2.0), (0.0, 0.0), ("right", "anterior")))
    ('left', 'anterior')
    """
    if not affine.coordinates:
        return None
    found = []
    for column in zip(*affine.matrix, strict=True):
        row = max(range(len(column)), key=lambda n: abs(column[n]))
        name = affine.coordinates[row]
        if column[row] < 0:
            name = OPPOSITE.get(name, f"-{name}")
        found.append(name if column[row] else "none")
    return tuple(found)


def is_oblique(affine: Affine) -> bool:
    """Tell whether an axis changes more than one coordinate."""
    return any(sum(n != 0 for n in column) > 1 for column in zip(*affine.matrix, strict=True))
