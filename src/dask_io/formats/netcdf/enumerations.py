"""Enumerations, which NetCDF stores as named types."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]

from dask_io.formats.hdf5.dialects import (
    find_dataset,
    make_groups,
    objects_in_scope,
    path_of_type,
    reading,
    type_of,
)
from dask_io.formats.netcdf.related_variables import last_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dask_io.formats.netcdf.related_variables import Variable
    from dask_io.stores.container import NewArray


def name_of_enumeration(dataset: Any) -> str:
    """Return the name of the enumeration that a dataset's values are of; empty if of none.

    The type of a variable may be only equal to the named type, which is in the group of the
    variable or in one around it.
    """
    if h5py.check_enum_dtype(dataset.dtype) is None:
        return ""
    kind = dataset.id.get_type()
    equal = (each.name for each in objects_in_scope(dataset, h5py.Datatype) if each.id.equal(kind))
    return last_of(path_of_type(dataset.file, kind) or next(equal, ""))


class Enumerations:
    """Enumerations of a new file.

    Each is in the group of its variable and created before it, because the NetCDF library would
    not show the variable otherwise. The library cannot read enumerations of big-endian integers,
    so these are stored as plain integers.
    """

    def __init__(self, file: Any, taken: Iterable[str]) -> None:
        self._file, self._taken = file, set(taken)

    def main_type(self, wanted: NewArray, inside: str) -> Any:
        """Return the HDF5 type of the written variable: that of the source, if NetCDF has it."""
        original = wanted.metadata.get("hdf5")
        if original is None:
            return type_of(wanted.dtype)
        with reading(original.path) as source:
            found = find_dataset(source, original.path, original.inside)
            kind, is_same = found.id.get_type(), found.dtype == wanted.dtype
            if not is_same or h5py.check_enum_dtype(found.dtype) is None:
                return type_of(wanted.dtype) if kind.committed() or not is_same else kind.copy()
            if wanted.dtype.str.startswith(">"):
                return type_of(wanted.dtype)
            return self._commit(kind.copy(), inside, name_of_enumeration(found))

    def as_storable(self, found: Variable) -> Variable:
        """Return a related variable as NetCDF can store it."""
        dtype = found.values.dtype
        if h5py.check_enum_dtype(dtype) is None:
            return found
        if dtype.str.startswith(">"):
            return replace(found, values=found.values.view(dtype.str))
        self._commit(h5py.h5t.py_create(dtype, logical=True), found.name, found.type_name)
        return found

    def _commit(self, kind: Any, variable: str, name: str) -> Any:
        """Store a type under an unused name, and return it."""
        last = last_of(variable)
        first = f"{variable.removesuffix(last)}{name or f'{last}_t'}"
        paths = (f"{first}_{number}" if number else first for number in count())
        path = next(path for path in paths if self._is_free(path, kind))
        if path not in self._file:
            group = make_groups(self._file, path, in_order=True)
            kind.commit(group.id, last_of(path).encode())
        return self._file[path].id

    def _is_free(self, path: str, kind: Any) -> bool:
        """Tell whether a path is free for a type, or already holds the same type."""
        found = self._file.get(path)
        if found is None:
            return path not in self._taken
        return isinstance(found, h5py.Datatype) and bool(found.id.equal(kind))
