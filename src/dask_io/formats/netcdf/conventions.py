"""What makes a dataset a variable of NetCDF 4: scales for its dimensions, and notes on them."""

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
from dask_io.formats.netcdf.surroundings import MOST_BYTES, Surroundings, Variable, last_of
from dask_io.stores.cf_attributes import (
    FILL_VALUE,
    NAMES,
    OF_ITS_TYPE,
    SAYS_TRUTH,
    TRUTH,
    gap_of,
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
        other = "Zarr has: name a .zarr" if dtype.kind == "U" else "HDF5 has: call the file .h5"
        raise UsageError(
            f"NetCDF has no elements of {dtype}; it has integers of 1 to 8 bytes, floats of 4 and "
            f"8, and single characters ({other})"
        )


def make_described(file: Any, wanted: NewArray, inside: str) -> None:
    """Make a variable that is to be written, with its dimensions and all that belongs to it.

    Raises
    ------
    UsageError
        If NetCDF has no type for its elements, or no other place for its name.
    """
    found, gap = _surroundings(wanted), _gap_asked_for(wanted)
    around = found.at(inside)
    if len(found.dimensions) > 1 and found.name in found.dimensions:
        around = around.without(inside)
    wanted = _as_numbers(wanted)
    _refuse_types(wanted.dtype)
    lengths = _lengths(around, wanted.grid.shape)
    enumerations = Enumerations(
        file, [inside, *lengths, *around.groups, *(each.name for each in around.variables)]
    )
    kind = enumerations.type_of_main(wanted, inside)
    dataset = make_dataset(file, wanted, inside, in_order=True, kind=kind)
    sign(file)
    for path, said in around.groups.items():
        write_attributes(file[f"/{path}"], said)
    if inside in lengths and (dataset.ndim > 1 or around.dimensions != (inside,)):
        raise UsageError(
            f"variable {inside} has the name of a dimension; name another, as in "
            f"file.nc::/{inside}_values"
        )
    others = (enumerations.of_other(each) for each in around.variables if each.name != inside)
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
            unlimited = dimension in around.unlimited
            scales[dimension] = make_scale(
                file, dimension, length, along if is_coordinate else None, unlimited=unlimited
            )
        scales[dimension].attrs["_Netcdf4Dimid"] = np.int32(number)
    attach(dataset, around.dimensions, scales)
    write_attributes(dataset, {**around.attributes, **gap})
    for each in variables.values():
        if each.name not in scales or each.dimensions != (each.name,):
            most = [None if d in around.unlimited else lengths[d] for d in each.dimensions]
            grows = {"maxshape": tuple(most), "chunks": each.values.shape} if None in most else {}
            made = make_variable(file, _hidden(each) if each.name in scales else each, **grows)
            attach(made, each.dimensions, scales)


def _hidden(found: Variable) -> Variable:
    """Return a variable that has the name of a dimension as NetCDF stores it beside that."""
    last = last_of(found.name)
    return replace(found, name=f"{found.name.removesuffix(last)}{HIDDEN}{last}")


def _as_numbers(wanted: NewArray) -> NewArray:
    """Return what an array becomes: of truth, numbers."""
    if wanted.dtype.kind != "b":
        return wanted
    said = cast_metadata(wanted.metadata, wanted.dtype, TRUTH)
    return replace(wanted, dtype=TRUTH, metadata=said)


def describe_file(file: Any, attributes: Mapping[str, Any]) -> None:
    """Write down what a file says, and who has made it."""
    sign(file)
    write_attributes(file, attributes)


def sign(file: Any) -> None:
    """Write down who has made a file, as the library of NetCDF does."""
    file.attrs["_NCProperties"] = np.bytes_(
        f"version=2,dask-io={version('dask-io')},hdf5={h5py.version.hdf5_version}"
    )


def _surroundings(wanted: NewArray) -> Surroundings:
    """Return what the source says, in NetCDF's words if they are its own."""
    variable = wanted.metadata.get("netcdf")
    if variable is not None:
        found: Surroundings = variable.read(wanted.metadata.get("region"))
        truth = typed(SAYS_TRUTH) if wanted.dtype.kind == "b" else {}
        return replace(found, attributes={**found.attributes, **truth})
    names = list(wanted.metadata.get("dimension_names") or [None] * len(wanted.grid.shape))
    for axis, name in enumerate(names):
        if not name or not is_name(name) or name in names[:axis]:
            names[axis] = f"dim_{axis}"
    maxshape = wanted.metadata.get("maxshape") or wanted.grid.shape
    said = said_in_netcdf(wanted.metadata, wanted.dtype)
    scales: tuple[Variable, ...] = ()
    of_file: dict[str, Any] = {}
    if (original := wanted.metadata.get("hdf5")) is not None:
        with reading(original.path) as file:
            dataset = find_dataset(file, original.path, original.inside)
            said |= _exactly(dataset, said)
            of_file = typed(plain_attributes(file))
            of_file |= _exactly(file, of_file)
            scales = tuple(_scales_of(dataset, names, wanted.metadata.get("region")))
    unlimited = frozenset(name for name, most in zip(names, maxshape, strict=True) if most is None)
    return Surroundings("", tuple(names), said, {"": of_file}, unlimited, scales)


def _exactly(owner: Any, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some attributes that are numbers, with the types that they have in HDF5."""
    exact = exact_numbers(owner)
    return {name: exact[name] for name in said if name in exact and name not in _OF_ELEMENTS}


def _scales_of(dataset: Any, names: list[str], region: Region | None) -> Iterator[Variable]:
    """Yield the scales along a dataset of HDF5 that have the names of its dimensions."""
    for number, (name, axis) in enumerate(zip(names, dataset.dims, strict=True)):
        for scale in axis.values() if len(axis) else ():
            is_it = last_of(scale.name or "") == name and not is_bare(scale)
            if is_it and scale.ndim == 1 and has_type(scale.dtype) and scale.nbytes <= MOST_BYTES:
                refuse_others(scale)
                values = scale[...] if region is None else scale[slice(*region.bounds[number])]
                said = said_in_netcdf({"attributes": plain_attributes(scale)}, values.dtype)
                yield Variable(name, (name,), values, {**said, **_exactly(scale, said)})


def said_in_netcdf(metadata: Mapping[str, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return what a source of another format says, as a variable of NetCDF says it.

    What speaks of its values has their type; fractions beside whole numbers speak of what these
    stand for once they are scaled, and stay fractions.
    """
    said, gap = metadata.get("attributes", {}), gap_of(metadata, dtype)
    if dtype.kind == "b":
        # Truth has no value to spare: xarray would take one of its two for gaps.
        said, gap, dtype = {**said, **SAYS_TRUTH}, None, TRUTH
    made = typed({name: value for name, value in said.items() if name != FILL_VALUE})
    for name in OF_ITS_TYPE.intersection(made):
        value = np.asarray(made[name])
        if value.dtype.kind in ("iuf" if dtype.kind == "f" else "iu") and dtype.kind in "iuf":
            with np.errstate(all="ignore"):
                same = value.astype(dtype)
            made[name] = same if np.array_equal(same, value, equal_nan=True) else made[name]
    return made if gap is None else {FILL_VALUE: np.array([gap], dtype), **made}


def typed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes that are plain values with types of NetCDF."""
    return {
        name: _as_usual(as_attribute(_without_nul(value)))
        for name, value in attributes.items()
        if value is not None and can_be_said(name)
    }


def _without_nul(value: object) -> object:
    """Return text as JSON if it holds what ends one."""
    return json.dumps(value) if isinstance(value, str) and "\0" in value else value


def is_name(text: str) -> bool:
    """Tell whether the library of NetCDF can read a name.

    Examples
    --------
    >>> is_name("a b"), is_name(" a"), is_name("a/b"), is_name("a" * 256)
    (True, False, False, False)
    """
    begins_well = text[:1].isprintable() and text[:1] not in {"", " "}
    is_short = len(text.encode(errors="surrogatepass")) < _LONGEST_NAME
    return begins_well and is_short and "/" not in text and "\0" not in text


def can_be_said(name: str) -> bool:
    """Tell whether an attribute can have a name, which some mean something else by."""
    return is_name(name) and name not in _RESERVED


def write_attributes(owner: Any, attributes: Mapping[str, Any]) -> None:
    """Write attributes with the types that they have, as far as they can be said."""
    write_all(owner, {name: value for name, value in attributes.items() if can_be_said(name)})


def has_other_types(attributes: Mapping[str, Any]) -> bool:
    """Tell whether some attributes that are plain values become others, as NetCDF has no types.

    That are truth, numbers that are too large, and what is made of other values.
    """
    made = typed(attributes)
    return not all(is_same(attributes[name], _as_plain(made[name])) for name in made)


def _as_plain(value: Any) -> Any:
    found = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return found.decode() if isinstance(found, bytes) else found


def _as_usual(value: Any) -> Any:
    """Return text, truth and whole numbers as NetCDF has always written them, if that can be."""
    if isinstance(value, str):
        return np.bytes_(value.encode()) if value and value.isascii() else value
    numbers = np.asarray(value)
    if numbers.dtype.kind == "b":
        return numbers.astype(np.int8)
    is_whole = numbers.dtype.kind == "i" and np.array_equal(numbers, numbers.astype(np.int32))
    return numbers.astype(np.int32) if is_whole else value


def exact_numbers(owner: Any) -> dict[str, Any]:
    """Return the attributes of a dataset, group or file that are numbers of NetCDF's types.

    Values that have names are numbers without them: their type would have to have a name.
    """
    found = ((each.name, exact_number(each)) for each in attributes_of(owner))
    return {name: value for name, value in found if value is not None}


def exact_number(attribute: Attribute) -> Any:
    """Return the value of an attribute if that is a number of NetCDF's types, or several."""
    dtype, value = attribute.dtype, attribute.value
    if dtype is None or dtype.kind not in "iuf" or not has_type(dtype):
        return None
    is_list = np.ndim(value) <= 1 and not isinstance(value, h5py.Empty)
    return np.asarray(value).astype(dtype.str)[()] if is_list else None


def _gap_asked_for(wanted: NewArray) -> dict[str, Any]:
    if wanted.options.fill_value is None or wanted.dtype.kind == "b":
        return {}
    return {FILL_VALUE: np.array([wanted.fill_value], wanted.dtype)}


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
        made.make_scale(last_of(name))
    else:
        made = file.create_dataset(name, (length,), ">f4", track_order=True, **grows)
        made.make_scale(f"{BARE}{length:10}")
    return made


def as_stored(values: Any, attributes: Mapping[str, Any]) -> tuple[NDArray[Any], Mapping[str, Any]]:
    """Return values that are copied as they are as NetCDF stores them, and what is said of them."""
    found = np.asarray(values)
    if found.dtype.kind == "b":
        said = {name: value for name, value in attributes.items() if name != FILL_VALUE}
        found, attributes = found.astype(TRUTH), {**said, **typed(SAYS_TRUTH)}
    is_text = found.dtype.kind in "UT" or (
        found.dtype.kind == "O" and all(isinstance(each, str) for each in found.ravel())
    )
    if FILL_VALUE in attributes and found.dtype.kind in "iuf":
        gap = np.array(attributes[FILL_VALUE], found.dtype).reshape(1)
        attributes = {**attributes, FILL_VALUE: gap}
    return (found.astype(h5py.string_dtype()) if is_text else found), attributes


def make_variable(file: Any, found: Variable, **options: Any) -> Any:
    """Make a variable with its values."""
    fill = found.attributes.get(FILL_VALUE)
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
