"""The outline of a file of NetCDF 4, everything except values, and making a file from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.formats.hdf5.dialects import make_dataset, open_own, writing
from dask_io.formats.netcdf.conventions import (
    as_stored,
    attach,
    describe_file,
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

    from dask_io.hierarchy.tree import Tree, TreeArray
    from dask_io.stores.container import NewArray


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
        """Return the names of everything in the file, attributes behind an ``@``."""
        said = {name: one.attributes for name, one in self.variables.items()}
        owners = {**self.attributes, **said}
        return {*filter(None, owners)} | {
            f"{name}@{each}" for name in owners for each in owners[name]
        }

    def build(self, path: Path, wanted: Mapping[str, NewArray], read: Callable[[str], Any]) -> None:
        """Make a file with the values of all variables except those that are wanted."""
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
        self, file: Any, name: str, wanted: Mapping[str, NewArray], read: Callable[[str], Any]
    ) -> Any:
        one = self.variables[name]
        if name not in wanted:
            values, said = as_stored(read(name), one.attributes)
            return make_variable(file, Variable(name, one.dimensions, values, said))
        dataset = make_dataset(file, wanted[name], name, in_order=True)
        write_attributes(dataset, one.attributes)
        return dataset


def outline_of(tree: Tree) -> Outline:
    """Return the outline of a file that holds a tree whose dimensions have been placed."""
    return Outline(
        attributes={path: typed(said) for path, said in tree.groups.items()},
        dimensions=tree.lengths,
        variables={
            name: Outlined(each.along, _attributes(each)) for name, each in tree.arrays.items()
        },
    )


def _attributes(array: TreeArray) -> dict[str, Any]:
    if array.source is None:
        return typed(array.attributes)
    return said_in_netcdf(array.source.metadata, array.source.dtype)
