"""An array in blocks, as a format describes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.stores.space import Space, crop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from dask_io.geometry import Grid, Layout

SPACE = "space"
"""Key of the space among all that a store says about its array."""
FOREIGN_HEADERS = frozenset({"nifti"})
"""Keys of headers that formats keep for the way back: plain values that a manifest can hold."""


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array in blocks, as a format describes it.

    Attributes
    ----------
    grid
        How it is cut.
    dtype
        Type of the elements, as stored.
    layout
        Order of the elements in a block.
    space
        Names and units of the axes, and where they lie in the world; None if that is unknown.
    metadata
        What else the format says: plain values, as JSON holds them.
    """

    grid: Grid
    dtype: np.dtype[Any]
    layout: Layout
    space: Space | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def described(self) -> Mapping[str, Any]:
        """All that a store says about the array besides grid, dtype and layout."""
        if self.space is None:
            return self.metadata
        names = tuple(axis.name for axis in self.space.axes)
        named = {"dimension_names": names} if any(names) else {}
        return MappingProxyType({**self.metadata, **named, SPACE: self.space})


def crop_described(described: Mapping[str, Any], start: Sequence[int]) -> Mapping[str, Any]:
    """Return what is said about an array as it is true of a region that begins at `start`."""
    space = described.get(SPACE)
    return {**described, SPACE: crop(space, start)} if isinstance(space, Space) else described
