"""Dimension scales, which give axes their names, and how NetCDF uses them for its dimensions."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Attribute with the dimensions of a NetCDF variable that is itself a scale with several axes.
_COORDINATES = "_Netcdf4Coordinates"
# Members of one group that are searched.
_MOST_NAMES = 10_000
HIDDEN = "_nc4_non_coord_"
"""Prefix of a variable that has the name of a dimension, but is not its coordinate variable."""
# Name of a dimension scale that is a NetCDF dimension without a variable.
BARE = "This is a netCDF dimension but not a netCDF variable."


def is_bare(dataset: Any) -> bool:
    """Tell whether a dataset is only a NetCDF dimension, without values."""
    name = name_of_scale(dataset) if dataset.is_scale else b""
    text = name.decode(errors="replace") if isinstance(name, bytes) else name
    return text.startswith(BARE)


def names_of(
    dataset: Any, numbered: Mapping[int, str] | None = None
) -> tuple[str | None, ...] | None:
    """Return the names of the axes: their labels, else the names of the scales along them.

    The only axis of a scale has the scale's name. If a scale has several axes, NetCDF records their
    dimensions.
    """
    recorded = recorded_dimensions(dataset, numbered)
    if recorded is not None:
        return tuple(path and path.rpartition("/")[2] for path in recorded)
    names = tuple(name_of(dataset, number) for number in range(dataset.ndim))
    return names if any(names) else None


def recorded_dimensions(
    dataset: Any, numbered: Mapping[int, str] | None = None
) -> tuple[str | None, ...] | None:
    """Return the paths of the dimensions of a scale with several axes, else None.

    NetCDF records the dimensions as numbers. `numbered` maps these to paths; without it, the groups
    around the dataset are searched.
    """
    if not dataset.is_scale or dataset.ndim == 1 or _COORDINATES not in dataset.attrs:
        return None
    if numbered is None:
        numbered = numbered_dimensions(objects_in_scope(dataset, h5py.Dataset))
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


def objects_in_scope(dataset: Any, kind: type) -> Iterator[Any]:
    """Yield objects of a class in the group of a dataset, then in each group around it."""
    group = dataset
    while group.name != "/":
        group = group.parent
        for name in islice(group, _MOST_NAMES):
            is_hard = isinstance(group.get(name, getlink=True), h5py.HardLink)
            if is_hard and group.get(name, getclass=True) is kind:
                yield group[name]


def name_of(dataset: Any, number: int) -> str | None:
    """Return the name of an axis, None if it has none."""
    axis = dataset.dims[number]
    if axis.label:
        return str(axis.label)
    if dataset.is_scale and dataset.ndim == 1:
        scales = [dataset.name]
    else:
        scales = [scale.name for scale in axis.values()] if len(axis) else []
    return scales[0].rpartition("/")[2] if scales and scales[0] else None


def name_of_scale(scale: Any) -> bytes | str:
    """Return the name that a scale has as an attribute, empty if it is missing or not a string."""
    name = scale.attrs.get("NAME", b"")
    return name if isinstance(name, bytes | str) else b""


def renamed_scale(scale: Any, length: int) -> bytes | str:
    """Return the name that a scale gets when it has another length.

    The name of a NetCDF dimension without a variable ends with its length, in ten columns.
    """
    return f"{BARE}{length:10d}" if is_bare(scale) else name_of_scale(scale)


def scales_along(dataset: Any) -> tuple[str, ...]:
    """Return the names of the scales along the axes, except those without values."""
    scales = [scale for axis in dataset.dims if len(axis) for scale in axis.values()]
    names = (scale.name.rpartition("/")[2] for scale in scales if scale.name and not is_bare(scale))
    return tuple(dict.fromkeys(names))
