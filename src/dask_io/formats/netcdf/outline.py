"""What a file of NetCDF 4 holds besides values, and making it: groups, dimensions, variables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.errors import UsageError, printable
from dask_io.formats.hdf5.create import make_dataset
from dask_io.formats.hdf5.file import open_own, writing
from dask_io.formats.netcdf.conventions import (
    as_stored,
    attach,
    describe_file,
    is_name,
    make_scale,
    make_variable,
    said_in_netcdf,
    typed,
    write_attributes,
)
from dask_io.formats.netcdf.surroundings import Variable, last_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from dask_io.hierarchy.whole import Whole
    from dask_io.stores.container import Wanted

# Names of axes that have none; nothing is meant by two of them being the same.
_MADE_UP = re.compile(r"dim_\d+")


@dataclass(frozen=True)
class Outlined:
    """A variable without its values; its dimensions are named by their paths."""

    dimensions: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Outline:
    """A file without its values, by path; the file itself has the path ``""``, as a group.

    Attributes have the types that they will have in the file.
    """

    attributes: Mapping[str, Mapping[str, Any]]
    dimensions: Mapping[str, int]
    variables: Mapping[str, Outlined]
    unlimited: frozenset[str] = frozenset()

    def contents(self) -> set[str]:
        """Return the names of all that there will be, attributes behind an ``@``."""
        said = {name: one.attributes for name, one in self.variables.items()}
        owners = {**self.attributes, **said}
        return {*filter(None, owners)} | {
            f"{name}@{each}" for name in owners for each in owners[name]
        }

    def build(self, path: Path, wanted: Mapping[str, Wanted], read: Callable[[str], Any]) -> None:
        """Make a file, with the values of variables that are not wanted otherwise."""
        with writing(path), open_own(path, "w", track_order=True) as file:
            describe_file(file, self.attributes[""])
            for group, said in self.attributes.items():
                if group:
                    write_attributes(file.create_group(group, track_order=True), said)
            made = {name: self._make(file, name, wanted, read) for name in self.variables}
            scales = {}
            for number, (name, length) in enumerate(self.dimensions.items()):
                if name in made:
                    scales[name] = made[name]
                    made[name].make_scale(last_of(name))
                else:
                    unlimited = name in self.unlimited
                    scales[name] = make_scale(file, name, length, None, unlimited=unlimited)
                scales[name].attrs["_Netcdf4Dimid"] = np.int32(number)
            for name, dataset in made.items():
                attach(dataset, self.variables[name].dimensions, scales)

    def _make(
        self, file: Any, name: str, wanted: Mapping[str, Wanted], read: Callable[[str], Any]
    ) -> Any:
        one = self.variables[name]
        if name not in wanted:
            values, said = as_stored(read(name), one.attributes)
            return make_variable(file, Variable(name, one.dimensions, values, said))
        dataset = make_dataset(file, wanted[name], name, in_order=True)
        write_attributes(dataset, one.attributes)
        return dataset


def outline_of(source: Whole) -> Outline:
    """Return what becomes of a whole of another format.

    A dimension lies in the group of the first array along it, or of its coordinate, and is shared
    by the arrays in that group and below; where one of another length is meant, it is another one.

    Raises
    ------
    UsageError
        If arrays of one group mean dimensions of one name and different lengths, or a dimension has
        the name of a group.
    """
    moved = {name: each.grid.shape for name, each in source.arrays.items()}
    lengths = {**source.shapes, **moved}
    dimensions: dict[str, int] = {}
    along: dict[str, tuple[str, ...]] = {}
    # Groups before what is in them, and in each the coordinates first.
    for name in sorted(source.dimensions, key=lambda name: _rank(name, source.dimensions[name])):
        group = name.rpartition("/")[0]
        named = zip(_names(source.dimensions[name], len(lengths[name])), lengths[name], strict=True)
        is_own = _is_coordinate(name, source.dimensions[name])
        along[name] = tuple(
            _find(dimensions, group, *each, is_own=is_own, place=source.place) for each in named
        )
    for path in sorted(dimensions.keys() & set(source.groups)):
        raise UsageError(
            f"{printable(source.place)} has a group and a dimension {printable(path)}, which "
            "one file cannot hold together; name one array"
        )
    return Outline(
        attributes={path: typed(source.attributes[path]) for path in source.groups},
        dimensions=dimensions,
        variables={
            name: Outlined(along[name], _attributes(source, name)) for name in source.dimensions
        },
    )


def _rank(name: str, dimensions: tuple[str | None, ...]) -> tuple[int, bool]:
    return name.count("/"), not _is_coordinate(name, dimensions)


def _is_coordinate(name: str, dimensions: tuple[str | None, ...]) -> bool:
    return dimensions == (name.rpartition("/")[2],)


def _names(dimensions: tuple[str | None, ...], n_axes: int) -> list[str]:
    """Return a name for every axis, also of those that have none or one of another."""
    names: list[str] = []
    for axis in range(n_axes):
        name = dimensions[axis] if axis < len(dimensions) else None
        names.append(name if name and name not in names else f"dim_{axis}")
    return names


def _find(
    dimensions: dict[str, int], group: str, name: str, length: int, *, is_own: bool, place: str
) -> str:
    """Return the path of a dimension, in a group or around it; a new one is added."""
    if not is_name(name) or name in {".", ".."}:
        raise UsageError(f"{printable(place)} has a dimension {printable(name)}: that is no name")
    parts = group.split("/") if group else []
    for n_parts in range(len(parts), -1, -1):
        path = "/".join([*parts[:n_parts], name])
        if dimensions.get(path) == length and not (is_own and n_parts < len(parts)):
            return path
    path = "/".join([*parts, name])
    if path in dimensions and _MADE_UP.fullmatch(name):
        longer = f"{name}_{length}"
        return _find(dimensions, group, longer, length, is_own=is_own, place=place)
    if path in dimensions:
        raise UsageError(
            f"{printable(place)} has arrays along a dimension {printable(path)} of "
            f"{dimensions[path]:,} and of {length:,} elements, which one file cannot hold "
            "together; name one array"
        )
    dimensions[path] = length
    return path


def _attributes(source: Whole, name: str) -> dict[str, Any]:
    found = source.arrays.get(name)
    if found is None:
        return typed(source.attributes[name])
    return said_in_netcdf(found.metadata, found.dtype)
