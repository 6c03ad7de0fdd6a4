"""Write HDF5 datasets as NetCDF 4 variables, with dimension scales and typed attributes."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]
import numpy as np

from dask_io.errors import UsageError
from dask_io.formats.hdf5.dialects import (
    BARE,
    HIDDEN,
    INTERNAL,
    as_attribute,
    attributes_of,
    find_dataset,
    is_bare,
    make_dataset,
    make_groups,
    plain_attributes,
    reading,
    refuse_others,
)
from dask_io.formats.hdf5.dialects import write_attributes as write_all
from dask_io.formats.netcdf.enumerations import Enumerations
from dask_io.formats.netcdf.related_variables import MOST_BYTES, RelatedVariables, Variable, last_of
from dask_io.stores.cf_attributes import (
    BOOL_ATTRIBUTE,
    FILL_VALUE,
    NAMES,
    OF_ITS_TYPE,
    STORED_BOOL,
    missing_value_of,
)
from dask_io.stores.dtypes import cast_metadata
from dask_io.stores.not_kept import is_same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from dask_io.formats.hdf5.dialects import Attribute
    from dask_io.geometry import Region
    from dask_io.stores.container import NewArray

_RESERVED = INTERNAL | {NAMES, "_Format", "_IsNetcdf4", "_SuperblockVersion"}
_LONGEST_NAME = 256
_OF_ELEMENTS = OF_ITS_TYPE | {FILL_VALUE}
_KINDS = frozenset({"i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1"})


def has_type(dtype: np.dtype[Any]) -> bool:
    """Tell whether NetCDF has a type for elements."""
    return dtype.str[1:] in _KINDS


def _refuse_types(dtype: np.dtype[Any]) -> None:
    """Refuse elements that NetCDF has no type for."""
    if not has_type(dtype):
        other = "write .zarr" if dtype.kind == "U" else "write .h5"
        raise UsageError(
            f"NetCDF has no type for elements of {dtype}; it has integers of 1 to 8 bytes, floats "
            f"of 4 and 8 bytes, and single characters; {other} instead"
        )


def make_described(file: Any, wanted: NewArray, inside: str) -> None:
    """Create a variable to be written, with its dimensions and everything that belongs to it.

    Raises
    ------
    UsageError
        If NetCDF has no type for its elements, or a dimension has its name.
    """
    found, fill_value = _related_variables(wanted), _requested_fill_value(wanted)
    related = found.at(inside)
    if len(found.dimensions) > 1 and found.name in found.dimensions:
        related = related.without(inside)
    wanted = _booleans_as_integers(wanted)
    _refuse_types(wanted.dtype)
    lengths = _lengths(related, wanted.grid.shape)
    enumerations = Enumerations(
        file, [inside, *lengths, *related.groups, *(each.name for each in related.variables)]
    )
    kind = enumerations.main_type(wanted, inside)
    dataset = make_dataset(file, wanted, inside, in_order=True, kind=kind)
    sign(file)
    for path, attributes in related.groups.items():
        write_attributes(file[f"/{path}"], attributes)
    if inside in lengths and (dataset.ndim > 1 or related.dimensions != (inside,)):
        raise UsageError(
            f"variable {inside} has the name of a dimension; give another name, as in "
            f"file.nc::/{inside}_values"
        )
    others = (enumerations.as_storable(each) for each in related.variables if each.name != inside)
    variables = {each.name: each for each in others}
    for path in (*lengths, *variables):
        make_groups(file, path, in_order=True)
    scales = {}
    for number, (dimension, length) in enumerate(lengths.items()):
        if dimension == inside:
            dataset.make_scale(last_of(inside))
            scales[dimension] = dataset
        else:
            along = variables.get(dimension)
            is_coordinate = along is not None and along.dimensions == (dimension,)
            unlimited = dimension in related.unlimited
            scales[dimension] = make_scale(
                file, dimension, length, along if is_coordinate else None, unlimited=unlimited
            )
        scales[dimension].attrs["_Netcdf4Dimid"] = np.int32(number)
    attach(dataset, related.dimensions, scales)
    write_attributes(dataset, {**related.attributes, **fill_value})
    for each in variables.values():
        if each.name not in scales or each.dimensions != (each.name,):
            most = [None if d in related.unlimited else lengths[d] for d in each.dimensions]
            grows = {"maxshape": tuple(most), "chunks": each.values.shape} if None in most else {}
            made = make_variable(
                file, _hidden_variable(each) if each.name in scales else each, **grows
            )
            attach(made, each.dimensions, scales)


def _hidden_variable(found: Variable) -> Variable:
    """Return a variable under the hidden name that NetCDF uses if a dimension has its name."""
    last = last_of(found.name)
    return replace(found, name=f"{found.name.removesuffix(last)}{HIDDEN}{last}")


def _booleans_as_integers(wanted: NewArray) -> NewArray:
    """Return the array with integers if its elements are booleans."""
    if wanted.dtype.kind != "b":
        return wanted
    metadata = cast_metadata(wanted.metadata, wanted.dtype, STORED_BOOL)
    return replace(wanted, dtype=STORED_BOOL, metadata=metadata)


def describe_file(file: Any, attributes: Mapping[str, Any]) -> None:
    """Write the attributes of a file, and the program that created it."""
    sign(file)
    write_attributes(file, attributes)


def sign(file: Any) -> None:
    """Record the program that created a file, as the NetCDF library does."""
    file.attrs["_NCProperties"] = np.bytes_(
        f"version=2,dask-io={version('dask-io')},hdf5={h5py.version.hdf5_version}"
    )


def _related_variables(wanted: NewArray) -> RelatedVariables:
    """Return everything that belongs to the source, from NetCDF, HDF5 or any other format."""
    variable = wanted.metadata.get("netcdf")
    if variable is not None:
        found: RelatedVariables = variable.read(wanted.metadata.get("region"))
        truth = typed(BOOL_ATTRIBUTE) if wanted.dtype.kind == "b" else {}
        return replace(found, attributes={**found.attributes, **truth})
    names = list(wanted.metadata.get("dimension_names") or [None] * len(wanted.grid.shape))
    for axis, name in enumerate(names):
        if not name or not is_name(name) or name in names[:axis]:
            names[axis] = f"dim_{axis}"
    maxshape = wanted.metadata.get("maxshape") or wanted.grid.shape
    attributes = to_netcdf_attributes(wanted.metadata, wanted.dtype)
    scales: tuple[Variable, ...] = ()
    of_file: dict[str, Any] = {}
    if (original := wanted.metadata.get("hdf5")) is not None:
        with reading(original.path) as file:
            dataset = find_dataset(file, original.path, original.inside)
            attributes |= _exact_types(dataset, attributes)
            of_file = typed(plain_attributes(file))
            of_file |= _exact_types(file, of_file)
            scales = tuple(_scales_of(dataset, names, wanted.metadata.get("region")))
    unlimited = frozenset(name for name, most in zip(names, maxshape, strict=True) if most is None)
    return RelatedVariables("", tuple(names), attributes, {"": of_file}, unlimited, scales)


def _exact_types(owner: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numeric ones of some attributes, with the types that they have in HDF5."""
    exact = numeric_attributes(owner)
    return {name: exact[name] for name in attributes if name in exact and name not in _OF_ELEMENTS}


def _scales_of(dataset: Any, names: list[str], region: Region | None) -> Iterator[Variable]:
    """Yield the scales of an HDF5 dataset that have the names of its dimensions."""
    for number, (name, axis) in enumerate(zip(names, dataset.dims, strict=True)):
        for scale in axis.values() if len(axis) else ():
            is_it = last_of(scale.name or "") == name and not is_bare(scale)
            if is_it and scale.ndim == 1 and has_type(scale.dtype) and scale.nbytes <= MOST_BYTES:
                refuse_others(scale)
                values = scale[...] if region is None else scale[slice(*region.bounds[number])]
                plain = {"attributes": plain_attributes(scale)}
                attributes = to_netcdf_attributes(plain, values.dtype)
                attributes |= _exact_types(scale, attributes)
                yield Variable(name, (name,), values, attributes)


def to_netcdf_attributes(metadata: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Convert the attributes of a source of another format to those of a NetCDF variable.

    Attributes that refer to its values get the type of the elements. For integer elements, floats
    stay as they are, because they refer to the values after scaling.
    """
    plain, fill_value = metadata.get("attributes", {}), missing_value_of(metadata, dtype)
    if dtype.kind == "b":
        # With a fill value, xarray would read one of the two booleans as missing.
        plain, fill_value, dtype = {**plain, **BOOL_ATTRIBUTE}, None, STORED_BOOL
    found = typed({name: value for name, value in plain.items() if name != FILL_VALUE})
    for name in OF_ITS_TYPE.intersection(found):
        value = np.asarray(found[name])
        if value.dtype.kind in ("iuf" if dtype.kind == "f" else "iu") and dtype.kind in "iuf":
            with np.errstate(all="ignore"):
                converted = value.astype(dtype)
            if np.array_equal(converted, value, equal_nan=True):
                found[name] = converted
    return found if fill_value is None else {FILL_VALUE: np.array([fill_value], dtype), **found}


def typed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Convert attributes from plain values to NetCDF types."""
    return {
        name: _as_usual_type(as_attribute(_without_nul(value)))
        for name, value in attributes.items()
        if value is not None and is_attribute_name(name)
    }


def _without_nul(value: object) -> object:
    """Return text as JSON if it contains a NUL, which would end it."""
    return json.dumps(value) if isinstance(value, str) and "\0" in value else value


def is_name(text: str) -> bool:
    """Tell whether the NetCDF library can read a name.

    Examples
    --------
    >>> is_name("a b"), is_name(" a"), is_name("a/b"), is_name("a" * 256)
    (True, False, False, False)
    """
    begins_well = text[:1].isprintable() and text[:1] not in {"", " "}
    is_short = len(text.encode(errors="surrogatepass")) < _LONGEST_NAME
    return begins_well and is_short and "/" not in text and "\0" not in text


def is_attribute_name(name: str) -> bool:
    """Tell whether an attribute can have a name; some names are reserved."""
    return is_name(name) and name not in _RESERVED


def write_attributes(owner: Any, attributes: Mapping[str, Any]) -> None:
    """Write attributes with their types; skip those with names that NetCDF does not allow."""
    write_all(owner, {name: value for name, value in attributes.items() if is_attribute_name(name)})


def has_other_types(attributes: Mapping[str, Any]) -> bool:
    """Tell whether some plain values change because NetCDF has no type for them.

    These are booleans, integers that are too large, and nested values.
    """
    converted = typed(attributes)
    return not all(is_same(attributes[name], _as_plain(converted[name])) for name in converted)


def _as_plain(value: Any) -> Any:
    found = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return found.decode() if isinstance(found, bytes) else found


def _as_usual_type(value: Any) -> Any:
    """Return ASCII text as bytes, booleans as int8 and small integers as int32, as is usual."""
    if isinstance(value, str):
        return np.bytes_(value.encode()) if value and value.isascii() else value
    numbers = np.asarray(value)
    if numbers.dtype.kind == "b":
        return numbers.astype(np.int8)
    is_whole = numbers.dtype.kind == "i" and np.array_equal(numbers, numbers.astype(np.int32))
    return numbers.astype(np.int32) if is_whole else value


def numeric_attributes(owner: Any) -> dict[str, Any]:
    """Return the attributes of a dataset, group or file that are numbers of NetCDF types.

    Enumerations become integers, because NetCDF would need a named type for them.
    """
    found = ((each.name, numeric_value(each)) for each in attributes_of(owner))
    return {name: value for name, value in found if value is not None}


def numeric_value(attribute: Attribute) -> Any:
    """Return the value of an attribute if it is a number, or a list, of a NetCDF type."""
    dtype, value = attribute.dtype, attribute.value
    if dtype is None or dtype.kind not in "iuf" or not has_type(dtype):
        return None
    is_list = np.ndim(value) <= 1 and not isinstance(value, h5py.Empty)
    return np.asarray(value).astype(dtype.str)[()] if is_list else None


def _requested_fill_value(wanted: NewArray) -> dict[str, Any]:
    if wanted.options.fill_value is None or wanted.dtype.kind == "b":
        return {}
    return {FILL_VALUE: np.array([wanted.fill_value], wanted.dtype)}


def _lengths(related: RelatedVariables, shape: tuple[int, ...]) -> dict[str, int]:
    """Return the lengths of all dimensions."""
    lengths = dict(zip(related.dimensions, shape, strict=True))
    for each in related.variables:
        for name, length in zip(each.dimensions, each.values.shape, strict=True):
            lengths.setdefault(name, length)
    return lengths


def make_scale(
    file: Any, name: str, length: int, found: Variable | None, *, unlimited: bool
) -> Any:
    """Create the scale of a dimension: its variable, or a placeholder if it has none."""
    grows = {"maxshape": (None,), "chunks": (max(1, length),)} if unlimited else {}
    if found is not None:
        scale = make_variable(file, found, **grows)
        scale.make_scale(last_of(name))
    else:
        scale = file.create_dataset(name, (length,), ">f4", track_order=True, **grows)
        scale.make_scale(f"{BARE}{length:10}")
    return scale


def as_stored(values: Any, attributes: Mapping[str, Any]) -> tuple[NDArray[Any], Mapping[str, Any]]:
    """Return values that are copied verbatim, and their attributes, as NetCDF stores them."""
    found = np.asarray(values)
    if found.dtype.kind == "b":
        others = {name: value for name, value in attributes.items() if name != FILL_VALUE}
        found, attributes = found.astype(STORED_BOOL), {**others, **typed(BOOL_ATTRIBUTE)}
    is_text = found.dtype.kind in "UT" or (
        found.dtype.kind == "O" and all(isinstance(each, str) for each in found.ravel())
    )
    if FILL_VALUE in attributes and found.dtype.kind in "iuf":
        fill_value = np.array(attributes[FILL_VALUE], found.dtype).reshape(1)
        attributes = {**attributes, FILL_VALUE: fill_value}
    return (found.astype(h5py.string_dtype()) if is_text else found), attributes


def make_variable(file: Any, found: Variable, **options: Any) -> Any:
    """Create a variable with its values."""
    fill = found.attributes.get(FILL_VALUE)
    if isinstance(fill, np.ndarray) and fill.size == 1:
        options["fillvalue"] = fill.reshape(-1)[0]
    dataset = file.create_dataset(
        found.name, data=found.values, dtype=found.values.dtype, track_order=True, **options
    )
    write_attributes(dataset, found.attributes)
    return dataset


def attach(dataset: Any, dimensions: tuple[str, ...], scales: Mapping[str, Any]) -> None:
    """Attach the scales of its dimensions to a dataset."""
    for axis, name in zip(dataset.dims, dimensions, strict=True):
        if scales[name] != dataset:
            axis.attach_scale(scales[name])
