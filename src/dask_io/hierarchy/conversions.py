"""Convert trees for containers that cannot store everything that the source has.

All functions are pure: they take a tree, return a tree, and read no values. A container combines
those that it needs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dask_io.errors import UsageError
from dask_io.geometry.named import is_coordinate
from dask_io.hierarchy.tree import ROOT
from dask_io.stores.cf_attributes import STORED_BOOL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from dask_io.hierarchy.tree import Tree, TreeArray

# Generated names of unnamed dimensions; equal names need not mean the same dimension.
_MADE_UP = re.compile(r"dim_\d+")


def copy_text_verbatim(tree: Tree) -> Tree:
    """Copy strings of a fixed length verbatim, for containers without a type for them."""
    return _with_arrays(
        tree,
        {
            name: each.copied_verbatim("holds texts")
            for name, each in tree.arrays.items()
            if each.source is not None and each.source.dtype.kind == "U"
        },
    )


def store_booleans_as_integers(tree: Tree) -> Tree:
    """Convert booleans to integers, as xarray does for NetCDF."""
    return _with_arrays(
        tree,
        {
            name: replace(each, dtype=STORED_BOOL)
            for name, each in tree.arrays.items()
            if each.source is not None and each.source.dtype.kind == "b"
        },
    )


def _with_arrays(tree: Tree, changed: Mapping[str, TreeArray]) -> Tree:
    return replace(tree, arrays={**tree.arrays, **changed})


def refuse_types(tree: Tree, has_type: Callable[[np.dtype[Any]], bool], reason: str) -> Tree:
    """Refuse arrays whose type a container does not have; `reason` contains `{}` for the type."""
    stored = {name: (tree.arrays[name], each.dtype) for name, each in tree.sources.items()}
    refused = {
        name: reason.format(dtype)
        for name, (each, dtype) in stored.items()
        if not has_type(dtype if each.dtype is None else each.dtype)
    }
    return replace(tree, refused={**refused, **tree.refused})


def refuse_misnamed(tree: Tree) -> Tree:
    """Refuse arrays that have the name of a shared dimension, but other dimensions."""
    refused = {
        name: "has the name of a dimension, but does not lie along it alone"
        for name, each in tree.arrays.items()
        if name in tree.lengths and each.along != (name,)
    }
    return replace(tree, refused={**refused, **tree.refused})


def place_dimensions(tree: Tree, is_name: Callable[[str], bool]) -> Tree:
    """Turn the dimension names of single arrays into shared dimensions.

    A dimension belongs to the group of the first array along it, or of its coordinate. All arrays
    in that group and below share it. An array that needs another length gets a dimension in its
    own group.

    Raises
    ------
    UsageError
        If arrays of one group need dimensions of one name and different lengths, a dimension has
        the name of a group, or it has a name that `is_name` rejects.
    """
    lengths: dict[str, int] = {}
    placed: dict[str, TreeArray] = {}

    def rank(name: str) -> tuple[int, bool]:
        return name.count("/"), not is_coordinate(name, tree.arrays[name].dimensions)

    # Groups before their members, and in each group the coordinates first.
    for name in sorted(tree.arrays, key=rank):
        each = tree.arrays[name]
        names = _complete_names(each.dimensions, len(each.shape))
        for dimension in names:
            if not is_name(dimension) or dimension in {".", ".."}:
                raise UsageError(f"{tree.place} has a dimension with the invalid name {dimension}")
        is_own = is_coordinate(name, each.dimensions)
        along = [
            _place(lengths, name.rpartition("/")[0], *dimension, is_own=is_own, place=tree.place)
            for dimension in zip(names, each.shape, strict=True)
        ]
        placed[name] = replace(each, along=tuple(along))
    for path in sorted(lengths.keys() & tree.groups.keys()):
        raise UsageError(
            f"{tree.place} has both a group and a dimension {path}, which one file cannot hold; "
            "give one array"
        )
    arrays = {name: placed[name] for name in tree.arrays}
    return replace(tree, arrays=arrays, lengths=lengths, shares_dimensions=True)


def _complete_names(dimensions: tuple[str | None, ...], n_axes: int) -> list[str]:
    """Return a distinct name for every axis."""
    names: list[str] = []
    for axis in range(n_axes):
        name = dimensions[axis] if axis < len(dimensions) else None
        names.append(name if name and name not in names else f"dim_{axis}")
    return names


def _place(
    lengths: dict[str, int], group: str, name: str, length: int, *, is_own: bool, place: str
) -> str:
    """Return the path of a dimension in a group or around it, adding it if necessary."""
    parts = group.split("/") if group else []
    for n_parts in range(len(parts), -1, -1):
        path = "/".join([*parts[:n_parts], name])
        if lengths.get(path) == length and not (is_own and n_parts < len(parts)):
            return path
    path = "/".join([*parts, name])
    if path in lengths and _MADE_UP.fullmatch(name):
        longer = f"{name}_{length}"
        return _place(lengths, group, longer, length, is_own=is_own, place=place)
    if path in lengths:
        raise UsageError(
            f"{place} has arrays along a dimension {path} of {lengths[path]:,} and of {length:,} "
            "elements, which one file cannot hold; give one array"
        )
    lengths[path] = length
    return path


def has_renamed_dimensions(tree: Tree) -> bool:
    """Tell whether `place_dimensions` has renamed a dimension."""
    return any(
        name and name != path.rpartition("/")[2]
        for each in tree.arrays.values()
        for name, path in zip(each.dimensions, each.along, strict=False)
    )


def check_names(tree: Tree, is_name: Callable[[str], bool], holder: str, *, deepest: int) -> None:
    """Refuse names that a container cannot hold, and groups nested too deeply.

    Raises
    ------
    UsageError
        If there are any; the message calls the container `holder`.
    """
    for path in sorted({*tree.arrays, *tree.groups}.difference({ROOT})):
        if not all(map(is_name, path.split("/"))):
            raise UsageError(f"{holder} does not allow the name {path}")
        if path.count("/") >= deepest:
            raise UsageError(
                f"{tree.place} has groups nested more than {deepest} deep, which "
                f"{holder} cannot hold"
            )


def check_records(tree: Tree) -> None:
    """Refuse arrays that are shorter than a dimension that they share with others.

    Readers of NetCDF see them as long as the dimension. Other readers would not open the group.

    Raises
    ------
    UsageError
        If there are any.
    """
    if not tree.shares_dimensions:
        return
    longest: dict[tuple[str, str], int] = {}
    named = [
        ((name.rpartition("/")[0], dimension), length, name)
        for name, each in tree.arrays.items()
        if each.source is not None
        for dimension, length in zip(each.dimensions, each.shape, strict=False)
        if dimension
    ]
    for key, length, _ in named:
        longest[key] = max(length, longest.get(key, 0))
    for key, length, name in named:
        if length < longest[key]:
            raise UsageError(
                f"{tree.place} stores {length:,} of the {longest[key]:,} records along {key[1]} of "
                f"its variable {name}; store the missing ones too, as nccopy does, or resplit it "
                "to NetCDF"
            )
