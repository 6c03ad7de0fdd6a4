"""Cut a part out of a tree: a range of each of some dimensions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dask_io.geometry import Grid, Region
from dask_io.stores.space import crop
from dask_io.stores.views import SourceView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.hierarchy.tree import Tree, TreeArray

Bounds = tuple[int, int]
"""Start and stop along a dimension."""


def cut_tree(tree: Tree, bounds: Mapping[str, Bounds]) -> Tree:
    """Return the part of a tree within these bounds of dimensions; no values are read.

    Arrays without these dimensions stay whole.
    """
    if not bounds:
        return tree
    arrays = {name: _cut_array(each, bounds) for name, each in tree.arrays.items()}
    return replace(tree, arrays=arrays, content=tree.content.cut(bounds), bounds=dict(bounds))


def _cut_array(array: TreeArray, bounds: Mapping[str, Bounds]) -> TreeArray:
    region = region_along(array.dimensions, array.shape, bounds)
    if region is None:
        return array
    found = replace(array, shape=region.shape)
    if array.source is not None:
        # Chunks keep their length, although the first one may begin in the middle of one.
        kept = array.source.grid if array.kept_grid is None else array.kept_grid
        grid = Grid.regular(region.shape, [max(1, length) for length in kept.longest])
        found = replace(found, source=SourceView(array.source, region), kept_grid=grid)
    if array.space is not None:
        found = replace(found, space=crop(array.space, region.start))
    return found


def region_along(
    dimensions: Sequence[str | None], shape: tuple[int, ...], bounds: Mapping[str, Bounds]
) -> Region | None:
    """Return the region of an array within bounds of its dimensions, None if none is bounded."""
    if not any(name in bounds for name in dimensions):
        return None
    return Region.of(
        bounds.get(name or "", (0, length)) for name, length in zip(dimensions, shape, strict=True)
    )


def cut_values(values: Any, dimensions: Sequence[str | None], bounds: Mapping[str, Bounds]) -> Any:
    """Return the part of values in memory within bounds of their dimensions."""
    region = region_along(dimensions, values.shape, bounds)
    return values if region is None else values[region.slices]
