"""Files of NetCDF as a whole: those of version 4 as HDF5 has them, those of version 3 made anew."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]

from dask_io.errors import DataError
from dask_io.geometry import Grid
from dask_io.stores.files import storage_errors
from dask_io.stores.hdf5 import whole as hdf5
from dask_io.stores.hdf5.create import make_dataset
from dask_io.stores.hdf5.file import writing
from dask_io.stores.hdf5.source import Hdf5Source
from dask_io.stores.naming import printable
from dask_io.stores.netcdf.conventions import (
    attach,
    describe_file,
    make_scale,
    make_variable,
    sign,
    write_attributes,
)
from dask_io.stores.netcdf.source import (
    ClassicSource,
    belonging_to_dataset,
    open_header,
    read_classic,
)
from dask_io.stores.netcdf.surroundings import MOST_BYTES, Variable
from dask_io.stores.whole import WholeFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dask_io.stores.container import Wanted
    from dask_io.stores.netcdf.classic import Header
    from dask_io.stores.netcdf.classic import Variable as Described

# Records that are not re-split become chunks of about so many bytes.
_CHUNK_BYTES = 4 * 2**20


class _Variable(Hdf5Source):
    """A variable of NetCDF 4 that is moved with all others."""

    format = "netcdf"


@dataclass(frozen=True)
class Netcdf4Model(hdf5.Hdf5Model):
    """A file of NetCDF 4."""

    def build(self, path: Path, wanted: Mapping[str, Wanted]) -> tuple[str, ...]:
        """Make a file with all that is in this one, but without the values of some variables."""
        not_kept = super().build(path, wanted)
        with writing(path), h5py.File(path, "r+") as file:
            sign(file)
        return not_kept


def open_netcdf4(path: Path) -> WholeFile:
    """Look at everything in a file of version 4."""
    return hdf5.open_all(
        path, kind=_Variable, model=Netcdf4Model(path), belonging_to=belonging_to_dataset
    )


def open_classic_file(path: Path) -> WholeFile:
    """Look at everything in a file of version 3.

    Raises
    ------
    DataError
        If its header cannot be trusted, or it is truncated.
    """
    header, size = open_header(path)
    arrays = {}
    for name, one in header.variables.items():
        if one.end > size:
            short = f"is truncated: it has {size} bytes, {name} ends at {one.end}"
            raise DataError(printable(str(path)), [printable(short)])
        if one.shape:
            arrays[name] = ClassicSource(path, header, one)
    return WholeFile(
        model=ClassicModel(path, header),
        format="netcdf",
        arrays=arrays,
        others={name: "has no axes" for name, one in header.variables.items() if not one.shape},
        dimensions={name: one.dimensions for name, one in header.variables.items()},
        only=_find_only(header, arrays),
        uncopied={
            name: "has the name of a dimension, but does not lie along it alone"
            for name, one in header.variables.items()
            if name in header.dimensions and one.dimensions != (name,)
        },
        kept={name: _kept(one) for name, one in header.variables.items() if one.shape},
        attributes=header.attributes,
    )


def _find_only(header: Header, arrays: Mapping[str, ClassicSource]) -> str | None:
    """Return the one variable that all others belong to, if there is one."""
    data = [name for name in arrays if header.variables[name].dimensions != (name,)]
    if len(data) != 1:
        return None
    beside = [header.variables[name] for name in arrays[data[0]].metadata["coordinates"]]
    if sum(prod(one.shape) * one.dtype.itemsize for one in beside) > MOST_BYTES:
        return None
    known = {data[0], *(one.name for one in beside)}
    used = {axis for name in known for axis in header.variables[name].dimensions}
    has_all = known.issuperset(header.variables) and used.issuperset(header.dimensions)
    return data[0] if has_all else None


def _kept(one: Described) -> Grid:
    """Return the blocks of a variable that is not re-split: several records in each."""
    lengths = [max(1, length) for length in one.shape]
    if one.step is not None:
        n_bytes = max(1, prod(lengths[1:]) * one.dtype.itemsize)
        lengths[0] = max(1, min(lengths[0], _CHUNK_BYTES // n_bytes))
    return Grid.regular(one.shape, lengths)


@dataclass(frozen=True)
class ClassicModel:
    """A file of NetCDF 3, of which one of NetCDF 4 is made."""

    path: Path
    header: Header

    def contents(self) -> set[str]:
        """Return the names of all that the file holds."""
        variables = self.header.variables
        of_variables = {
            f"{name}@{each}" for name in variables for each in variables[name].attributes
        }
        return {*variables, *of_variables, *(f"@{each}" for each in self.header.attributes)}

    def build(self, path: Path, wanted: Mapping[str, Wanted]) -> tuple[str, ...]:
        """Make a file with all that is in this one, but without the values of some variables."""
        header = self.header
        with writing(path), h5py.File(path, "w", track_order=True) as file:
            describe_file(file, header.attributes)
            made = {name: self._make(file, name, wanted) for name in header.variables}
            scales = {}
            for number, (name, length) in enumerate(header.dimensions.items()):
                if name in made:
                    scales[name] = made[name]
                    made[name].make_scale(name)
                else:
                    unlimited = name == header.record
                    scales[name] = make_scale(file, name, length, None, unlimited=unlimited)
                scales[name].attrs["_Netcdf4Dimid"] = number
            for name, dataset in made.items():
                attach(dataset, header.variables[name].dimensions, scales)
        return ()

    def _make(self, file: Any, name: str, wanted: Mapping[str, Wanted]) -> Any:
        one = self.header.variables[name]
        if name not in wanted:
            values = self.read(name)
            return make_variable(file, Variable(name, one.dimensions, values, one.attributes))
        dataset = make_dataset(file, wanted[name], name, in_order=True)
        write_attributes(dataset, one.attributes)
        return dataset

    def read(self, name: str) -> Any:
        """Return the values of a variable that is copied as it is."""
        with storage_errors(self.path):
            return read_classic(self.path, self.header.variables[name])
