"""What makes a dataset a variable of NetCDF 4: scales for its dimensions, and notes on them."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np

from dask_io.errors import UsageError
from dask_io.stores.hdf5.create import as_attribute
from dask_io.stores.hdf5.dataset import BARE
from dask_io.stores.naming import printable
from dask_io.stores.netcdf.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.stores.container import Wanted
    from dask_io.stores.netcdf.surroundings import Variable

_KINDS = frozenset({"i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1"})
_FILL = "_FillValue"


def _refuse_types(dtype: np.dtype[Any]) -> None:
    """Refuse elements that NetCDF has no type for."""
    if dtype.str[1:] not in _KINDS:
        raise UsageError(
            f"NetCDF has no elements of {dtype}; it has integers of 1 to 8 bytes, floats of 4 and "
            "8, and single characters"
        )


def describe(dataset: Any, wanted: Wanted) -> None:
    """Make a variable of a dataset, with its dimensions and all that belongs to it.

    Raises
    ------
    UsageError
        If NetCDF has no type for its elements, or no other place for its name.
    """
    _refuse_types(wanted.dtype)
    around, file = _surroundings(wanted), dataset.file
    describe_file(file, around.of_file)
    lengths = _lengths(around, dataset.shape)
    name = dataset.name.strip("/")
    if name in lengths and (dataset.ndim > 1 or around.dimensions != (name,)):
        raise UsageError(
            f"variable {printable(name)} has the name of a dimension; name another, as in "
            f"file.nc::/{printable(name)}_values"
        )
    variables = {each.name: each for each in around.variables if each.name != name}
    scales = {}
    for number, (dimension, length) in enumerate(lengths.items()):
        if dimension == name:
            dataset.make_scale(name)
            scales[dimension] = dataset
        else:
            found = variables.get(dimension)
            is_coordinate = found is not None and found.dimensions == (dimension,)
            unlimited = dimension in around.unlimited
            scales[dimension] = make_scale(
                file, dimension, length, found if is_coordinate else None, unlimited=unlimited
            )
        scales[dimension].attrs["_Netcdf4Dimid"] = np.int32(number)
    attach(dataset, around.dimensions, scales)
    write_attributes(dataset, {**around.attributes, **_fill_asked_for(wanted)})
    for each in variables.values():
        if each.name not in scales:
            most = [None if d in around.unlimited else lengths[d] for d in each.dimensions]
            grows = {"maxshape": tuple(most), "chunks": each.values.shape} if None in most else {}
            attach(make_variable(file, each, **grows), each.dimensions, scales)


def describe_file(file: Any, attributes: Mapping[str, Any]) -> None:
    """Write down what a file says, and who has made it."""
    sign(file)
    write_attributes(file, attributes)


def sign(file: Any) -> None:
    """Write down who has made a file, as the library of NetCDF does."""
    file.attrs["_NCProperties"] = np.bytes_(
        f"version=2,dask-io={version('dask-io')},hdf5={h5py.version.hdf5_version}"
    )


def _surroundings(wanted: Wanted) -> Surroundings:
    """Return what the source says, in NetCDF's words if they are its own."""
    original = wanted.metadata.get("netcdf")
    if original is not None:
        found: Surroundings = original.read(wanted.metadata.get("region"))
        return found
    names = list(wanted.metadata.get("dimension_names") or [None] * len(wanted.grid.shape))
    for axis, name in enumerate(names):
        if not name or name in names[:axis]:
            names[axis] = f"dim_{axis}"
    maxshape = wanted.metadata.get("maxshape") or wanted.grid.shape
    said = {
        name: _as_text(as_attribute(value))
        for name, value in wanted.metadata.get("attributes", {}).items()
        if value is not None
    }
    unlimited = frozenset(name for name, most in zip(names, maxshape, strict=True) if most is None)
    return Surroundings(tuple(names), said, unlimited=unlimited)


def _as_text(value: Any) -> Any:
    """Return text as NetCDF has always written it, if that can be."""
    is_plain = isinstance(value, str) and value and value.isascii()
    return np.bytes_(value.encode()) if is_plain else value


def _fill_asked_for(wanted: Wanted) -> dict[str, Any]:
    if wanted.wishes.fill_value is None:
        return {}
    return {_FILL: np.array([wanted.fill_value], wanted.dtype)}


def _lengths(around: Surroundings, shape: tuple[int, ...]) -> dict[str, int]:
    """Return all dimensions with their lengths."""
    lengths = dict(zip(around.dimensions, shape, strict=True))
    for each in around.variables:
        for name, length in zip(each.dimensions, each.values.shape, strict=True):
            lengths.setdefault(name, length)
    return lengths


def make_scale(
    file: Any, name: str, length: int, found: Variable | None, *, unlimited: bool
) -> Any:
    """Make the scale of a dimension: its variable, or one that says that there is none."""
    grows = {"maxshape": (None,), "chunks": (max(1, length),)} if unlimited else {}
    if found is not None:
        made = make_variable(file, found, **grows)
        made.make_scale(name)
    else:
        made = file.create_dataset(name, (length,), ">f4", track_order=True, **grows)
        made.make_scale(f"{BARE}{length:10}")
    return made


def make_variable(file: Any, found: Variable, **options: Any) -> Any:
    """Make a variable with its values."""
    fill = found.attributes.get(_FILL)
    if isinstance(fill, np.ndarray) and fill.size == 1:
        options["fillvalue"] = fill.reshape(-1)[0]
    made = file.create_dataset(
        found.name, data=found.values, dtype=found.values.dtype, track_order=True, **options
    )
    write_attributes(made, found.attributes)
    return made


def attach(dataset: Any, dimensions: tuple[str, ...], scales: Mapping[str, Any]) -> None:
    """Say along which dimensions a dataset lies."""
    for axis, name in zip(dataset.dims, dimensions, strict=True):
        if scales[name] != dataset:
            axis.attach_scale(scales[name])


def write_attributes(owner: Any, attributes: Mapping[str, Any]) -> None:
    """Write attributes with the types that they have."""
    for name, value in attributes.items():
        owner.attrs[name] = "" if isinstance(value, bytes) and not value else value
