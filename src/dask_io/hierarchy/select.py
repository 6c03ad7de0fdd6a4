"""Select one array of a tree, with everything that belongs to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dask_io.hierarchy.tree import ROOT
from dask_io.stores.cf_attributes import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.hierarchy.tree import Tree


def select(tree: Tree, name: str) -> Tree:
    """Return a tree of one array, the coordinates of its dimensions, and arrays that it names.

    By the CF conventions, it names them in attributes, and they can name others. Arrays of one name
    are those in the closest group. Groups without any of these arrays are left out.
    """
    waiting, found = [name], set[str]()
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += _belonging_to(tree, one)
    kept = {ROOT, *(path for each in found for path in _groups_around(each))}
    return replace(
        tree,
        groups={path: each for path, each in tree.groups.items() if path in kept},
        arrays={path: each for path, each in tree.arrays.items() if path in found},
        refused={path: why for path, why in tree.refused.items() if path in found},
        main=name,
        selected=name,
    )


def _belonging_to(tree: Tree, name: str) -> Iterator[str]:
    array, group = tree.arrays[name], name.rpartition("/")[0]
    named = [*filter(None, array.dimensions), *names_in(array.attributes)]
    for each in named:
        around = [*_groups_around(f"{group}/"), ROOT] if group else [ROOT]
        paths = (
            [each.strip("/")] if "/" in each else [f"{at}/{each}" if at else each for at in around]
        )
        yield from [path for path in paths if path in tree.arrays][:1]


def _groups_around(path: str) -> list[str]:
    """Return the groups around an array, the innermost first, without the outermost."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
