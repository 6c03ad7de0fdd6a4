"""The outline of a NetCDF 4 file, which is everything except values, and how to create the file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import sub
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.formats.hdf5.dialects import make_dataset, open_own, writing
from dask_io.formats.netcdf.conventions import (
    as_stored,
    attach,
    describe_file,
    make_scale,
    make_variable,
    to_netcdf_attributes,
    typed,
    write_attributes,
)
from dask_io.formats.netcdf.related_variables import Variable, last_of
from dask_io.stores.own_attribute import add_own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from dask_io.hierarchy.cut import Bounds
    from dask_io.hierarchy.tree import Tree, TreeArray
    from dask_io.stores.container import NewArray


@dataclass(frozen=True)
class OutlinedVariable:
    """A variable without its values; its dimensions are paths."""

    dimensions: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Outline:
    """A file without its values, by path; the file itself has the path ``""``, as a group.

    Attributes have the types that they will have in the file.
    """

    attributes: Mapping[str, Mapping[str, Any]]
    dimensions: Mapping[str, int]
    variables: Mapping[str, OutlinedVariable]
    unlimited: frozenset[str] = frozenset()

    def contents(self) -> set[str]:
        """Return the names of everything in the file, attributes behind an ``@``."""
        of_variables = {name: one.attributes for name, one in self.variables.items()}
        owners = {**self.attributes, **of_variables}
        return {*filter(None, owners)} | {
            f"{name}@{each}" for name in owners for each in owners[name]
        }

    def cut(self, bounds: Mapping[str, Bounds]) -> Outline:
        """Return the outline of a file in which only a part of some dimensions is left."""
        left = {
            name: length if last_of(name) not in bounds else sub(*reversed(bounds[last_of(name)]))
            for name, length in self.dimensions.items()
        }
        return replace(self, dimensions=left)

    def build(self, path: Path, wanted: Mapping[str, NewArray], read: Callable[[str], Any]) -> None:
        """Create a file with the values of all variables, except those that are `wanted`."""
        with writing(path), open_own(path, "w", track_order=True) as file:
            describe_file(file, self.attributes[""])
            for group, attributes in self.attributes.items():
                if group:
                    write_attributes(file.create_group(group, track_order=True), attributes)
            datasets = {name: self._make(file, name, wanted, read) for name in self.variables}
            scales = {}
            for number, (name, length) in enumerate(self.dimensions.items()):
                if name in datasets:
                    scales[name] = datasets[name]
                    datasets[name].make_scale(last_of(name))
                else:
                    unlimited = name in self.unlimited
                    scales[name] = make_scale(file, name, length, None, unlimited=unlimited)
                scales[name].attrs["_Netcdf4Dimid"] = np.int32(number)
            for name, dataset in datasets.items():
                attach(dataset, self.variables[name].dimensions, scales)

    def _make(
        self, file: Any, name: str, wanted: Mapping[str, NewArray], read: Callable[[str], Any]
    ) -> Any:
        one = self.variables[name]
        if name not in wanted:
            values, attributes = as_stored(read(name), one.attributes)
            return make_variable(file, Variable(name, one.dimensions, values, attributes))
        dataset = make_dataset(file, wanted[name], name, in_order=True)
        write_attributes(dataset, one.attributes)
        return dataset


def outline_of(tree: Tree) -> Outline:
    """Return the outline of a file that holds a tree whose dimensions have been placed."""
    return Outline(
        attributes={path: typed(attributes) for path, attributes in tree.groups.items()},
        dimensions=tree.lengths,
        variables={
            name: OutlinedVariable(each.along, _attributes(each))
            for name, each in tree.arrays.items()
        },
    )


def _attributes(array: TreeArray) -> dict[str, Any]:
    if array.source is None:
        return typed(array.attributes)
    metadata = add_own(array.source.metadata, as_text=True)
    return to_netcdf_attributes(metadata, array.source.dtype)
