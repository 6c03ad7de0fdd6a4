"""Select one array of a tree, with everything that belongs to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dask_io.hierarchy.tree import ROOT
from dask_io.stores.cf_attributes import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dask_io.hierarchy.tree import Tree, TreeArray


def select(tree: Tree, name: str) -> Tree:
    """Return a tree of one array, the coordinates of its dimensions, and arrays that it names.

    By the CF conventions, it names them in attributes, and they can name others. Arrays of one name
    are those in the closest group where their lengths agree. Groups without any of these arrays are
    left out.
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


def paths_near(name: str, other: str) -> list[str]:
    """Return where an array of another name may be that belongs to an array, the closest first.

    It is in the group of the array, or in one around it. A name with slashes is its path.

    Examples
    --------
    >>> paths_near("a/b/data", "x"), paths_near("data", "x"), paths_near("a/data", "/b/x")
    (['a/b/x', 'a/x', 'x'], ['x'], ['b/x'])
    """
    if "/" in other:
        return [other.strip("/")]
    return [*(f"{group}/{other}" for group in _groups_around(name)), other]


def _belonging_to(tree: Tree, name: str) -> Iterator[str]:
    array = tree.arrays[name]
    lengths = dict(zip(array.dimensions, array.shape, strict=False))
    for other in [*filter(None, array.dimensions), *names_in(array.attributes)]:
        for path in paths_near(name, other):
            found = tree.arrays.get(path)
            if found is not None and ("/" in other or _suits(found, lengths)):
                yield path
                break


def _suits(array: TreeArray, lengths: Mapping[str | None, int]) -> bool:
    """Tell whether an array has these lengths along its dimensions, as far as they are listed.

    Groups may each have a dimension of one name, with lengths of their own.
    """
    pairs = zip(array.dimensions, array.shape, strict=False)
    return all(lengths.get(name, length) == length for name, length in pairs if name is not None)


def _groups_around(path: str) -> list[str]:
    """Return the groups around an array, the innermost first, without the outermost."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
