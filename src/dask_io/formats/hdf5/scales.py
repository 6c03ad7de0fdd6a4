"""Dimension scales: what axes are called by, and how NetCDF uses them for its dimensions."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Where NetCDF notes the dimensions of a variable that is one itself, and has several.
_COORDINATES = "_Netcdf4Coordinates"
# What is around a dataset is looked for among so many names of a group.
_MOST_NAMES = 10_000
HIDDEN = "_nc4_non_coord_"
"""How variables begin that have the name of a dimension, and do not lie along it alone."""
# How NetCDF calls a dimension scale that is no variable.
BARE = "This is a netCDF dimension but not a netCDF variable."


def is_bare(dataset: Any) -> bool:
    """Tell whether a dataset stands for a dimension of NetCDF alone, and holds nothing."""
    name = name_of_scale(dataset) if dataset.is_scale else b""
    text = name.decode(errors="replace") if isinstance(name, bytes) else name
    return text.startswith(BARE)


def names_of(
    dataset: Any, numbered: Mapping[int, str] | None = None
) -> tuple[str | None, ...] | None:
    """Return what the axes are called: by their labels, or else by the scales along them.

    A scale is its own; of one with more axes NetCDF notes what the others are.
    """
    noted = noted_dimensions(dataset, numbered)
    if noted is not None:
        return tuple(path and path.rpartition("/")[2] for path in noted)
    names = tuple(name_of(dataset, number) for number in range(dataset.ndim))
    return names if any(names) else None


def noted_dimensions(
    dataset: Any, numbered: Mapping[int, str] | None = None
) -> tuple[str | None, ...] | None:
    """Return the paths of the dimensions of a scale with several, which NetCDF notes by numbers.

    None if it is no such scale. Paths by numbers are looked for around it, if they are not known.
    """
    if not dataset.is_scale or dataset.ndim == 1 or _COORDINATES not in dataset.attrs:
        return None
    if numbered is None:
        numbered = numbered_dimensions(found_around(dataset, h5py.Dataset))
    numbers = np.ravel(dataset.attrs[_COORDINATES]).tolist()
    return tuple(map(numbered.get, numbers)) if len(numbers) == dataset.ndim else None


def numbered_dimensions(datasets: Iterable[Any]) -> dict[int, str]:
    """Return the paths of dimensions by the numbers that NetCDF gives them."""
    paths: dict[int, str] = {}
    for found in datasets:
        number = found.attrs.get("_Netcdf4Dimid") if found.is_scale else None
        if isinstance(number, np.integer):
            paths.setdefault(int(number), found.name.strip("/"))
    return paths


def found_around(dataset: Any, kind: type) -> Iterator[Any]:
    """Yield what is of a kind in the group of a dataset, and in those around it, outermost last."""
    group = dataset
    while group.name != "/":
        group = group.parent
        for name in islice(group, _MOST_NAMES):
            is_hard = isinstance(group.get(name, getlink=True), h5py.HardLink)
            if is_hard and group.get(name, getclass=True) is kind:
                yield group[name]


def name_of(dataset: Any, number: int) -> str | None:
    """Return what an axis is called."""
    axis = dataset.dims[number]
    if axis.label:
        return str(axis.label)
    if dataset.is_scale and dataset.ndim == 1:
        scales = [dataset.name]
    else:
        scales = [scale.name for scale in axis.values()] if len(axis) else []
    return scales[0].rpartition("/")[2] if scales and scales[0] else None


def name_of_scale(scale: Any) -> bytes | str:
    """Return what a scale says that it is called, nothing if that is no name."""
    name = scale.attrs.get("NAME", b"")
    return name if isinstance(name, bytes | str) else b""


def scales_along(dataset: Any) -> tuple[str, ...]:
    """Return the names of the scales along the axes, but for those that hold nothing."""
    scales = [scale for axis in dataset.dims if len(axis) for scale in axis.values()]
    names = (scale.name.rpartition("/")[2] for scale in scales if scale.name and not is_bare(scale))
    return tuple(dict.fromkeys(names))
