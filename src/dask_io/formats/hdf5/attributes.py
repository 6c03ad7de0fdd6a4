"""Attributes of datasets, groups and files: reading, copying and writing them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py  # type: ignore[import-untyped]
import numpy as np

from dask_io.errors import UsageError
from dask_io.formats.hdf5.types import dtype_of
from dask_io.stores.cf_attributes import REFERENCE, is_plain_number

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_LONGEST = 16 * 2**20
# Attributes that HDF5 uses for dimension scales, and NetCDF for its dimensions.
INTERNAL = frozenset(
    {
        "CLASS",
        "NAME",
        "DIMENSION_LABELS",
        "DIMENSION_LIST",
        "REFERENCE_LIST",
        "_NCProperties",
        "_Netcdf4Coordinates",
        "_Netcdf4Dimid",
        "_nc3_strict",
    }
)
_OF_SCALES = frozenset({"CLASS", "NAME"})
# An attribute without a value.
_NOTHING = h5py.Empty("f4")
_NO_TYPE = "no type of NumPy"


class Attribute(NamedTuple):
    """An attribute; `dtype` is None if NumPy has no type for it."""

    name: str
    dtype: np.dtype[Any] | None
    value: Any
    is_reference: bool

    @property
    def type_name(self) -> str:
        """A name for the type, to detect attributes whose type changes."""
        if self.is_reference:
            return REFERENCE
        if self.dtype is None:
            return _NO_TYPE
        if self.is_text:
            return "text" if _is_utf8(self.value) else "bytes"
        names = h5py.check_enum_dtype(self.dtype)
        return f"{self.dtype.newbyteorder('=').str}{sorted(names.items()) if names else ''}"

    @property
    def is_text(self) -> bool:
        """Whether the value is a string, or an array of strings."""
        return self.dtype is not None and h5py.check_string_dtype(self.dtype) is not None

    def plain(self) -> tuple[bool, Any]:
        """Return whether JSON can represent the value, possibly with loss, and that value."""
        return (False, None) if self.dtype is None else _as_plain(self.value)

    def is_plain(self, owner: np.dtype[Any] | None) -> bool:
        """Tell whether JSON keeps value and type; `owner` is the dtype of the owner's elements."""
        if self.dtype is None or self.is_reference:
            return False
        if self.is_text:
            return _is_utf8(self.value)
        if isinstance(self.value, h5py.Empty):
            return bool(self.dtype == _NOTHING.dtype)
        return is_plain_number(self.name, self.dtype, owner)


def attributes_of(owner: Any) -> list[Attribute]:
    """Return the attributes of a dataset, group or file, without those internal to HDF5.

    Raises
    ------
    ValueError
        If one is implausibly large.
    """
    return [_read(owner, name) for name in names_of_attributes(owner)]


def names_of_attributes(owner: Any) -> list[str]:
    """Return the names of these attributes without reading their values.

    ``CLASS`` and ``NAME`` are internal only for scales: images use the same names.
    """
    is_scale = isinstance(owner, h5py.Dataset) and owner.is_scale
    internal = INTERNAL if is_scale else INTERNAL - _OF_SCALES
    return [name for name in owner.attrs if name not in internal]


def _read(owner: Any, name: str) -> Attribute:
    found = owner.attrs.get_id(name)
    _refuse_long(found, name)
    is_reference = _is_reference(found)
    try:
        return Attribute(name, found.dtype, owner.attrs[name], is_reference)
    except (TypeError, ValueError):
        return Attribute(name, None, None, is_reference)


def _refuse_long(attribute: Any, name: str) -> None:
    n_values = attribute.get_space().get_simple_extent_npoints()
    n_bytes = n_values * attribute.get_type().get_size()
    if n_bytes > _LONGEST:
        raise ValueError(f"has an attribute {name} of {n_bytes} bytes")


def _is_reference(attribute: Any) -> bool:
    return bool(attribute.get_type().detect_class(h5py.h5t.REFERENCE))


def plain_attributes(owner: Any) -> dict[str, Any]:
    """Return the attributes that JSON can represent, as plain values."""
    found = ((each.name, each.plain()) for each in attributes_of(owner))
    return {name: value for name, (is_known, value) in found if is_known}


def beyond_json(owner: Any) -> dict[str, str]:
    """Return the attributes that JSON cannot represent exactly, with the names of their types.

    They have a type that a reader cannot infer, are strings but not valid UTF-8, or are references.
    """
    dtype = dtype_of(owner) if isinstance(owner, h5py.Dataset) else None
    return {each.name: each.type_name for each in attributes_of(owner) if not each.is_plain(dtype)}


def _as_plain(value: Any) -> tuple[bool, Any]:
    """Return whether JSON can represent a value, and the value in that form."""
    if isinstance(value, h5py.Empty):
        return True, None if h5py.check_string_dtype(value.dtype) is None else ""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in "biufSUO":
            return False, None
        value = value.tolist()
    if isinstance(value, list):
        known = [_as_plain(each) for each in value]
        return all(good for good, _ in known), [each for _, each in known]
    if isinstance(value, bytes | str):
        value = _encoded(value).decode(errors="replace")
    return isinstance(value, str | int | float), value


def _encoded(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode(errors="surrogateescape")


def _is_utf8(value: Any) -> bool:
    """Tell whether a string, or every string of an array, is valid UTF-8."""
    texts = value.ravel().tolist() if isinstance(value, np.ndarray) else [value]
    try:
        for text in texts:
            if isinstance(text, bytes | str):
                _encoded(text).decode()
    except UnicodeDecodeError:
        return False
    return True


def copy_attributes(
    source: Any, target: Any, internal: Collection[str] = (), *, strict: bool = True
) -> bool:
    """Copy attributes byte for byte, and the given `internal` ones of HDF5.

    References are left out, as they are valid only in their own file. Attributes that are too long
    are left out too, unless `strict`. Returns True if there were no references.

    Raises
    ------
    ValueError
        If one is implausibly large.
    UsageError
        If one is too long for its owner.
    """
    has_all = True
    for name in [*names_of_attributes(source), *internal]:
        found = source.attrs.get_id(name) if name in source.attrs else None
        if found is None or _is_reference(found):
            has_all &= found is None
            continue
        try:
            _refuse_long(found, name)
            _copy(found, target, name)
        except (UsageError, ValueError):
            if strict:
                raise
    return has_all


def _copy(found: Any, target: Any, name: str) -> None:
    kind, space = found.get_type().copy(), found.get_space()
    if name in target.attrs:
        del target.attrs[name]
    try:
        made = h5py.h5a.create(target.id, name.encode(errors="surrogateescape"), kind, space)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"HDF5 cannot hold attribute {name}: {error}") from error
    if space.get_simple_extent_type() != h5py.h5s.NULL:
        memory = np.empty(space.shape, f"V{kind.get_size()}")
        found.read(memory, kind)
        made.write(memory, kind)


def write_attributes(owner: Any, attributes: Mapping[str, Any]) -> None:
    """Write attributes with the types of their values, except those internal to HDF5."""
    kind = attributes.get("CLASS")
    is_scale = isinstance(kind, bytes | str) and _encoded(kind) == b"DIMENSION_SCALE"
    internal = INTERNAL if is_scale else INTERNAL - _OF_SCALES
    for name, value in attributes.items():
        if name not in internal:
            is_empty = isinstance(value, bytes | str) and not value
            owner.attrs[name] = h5py.Empty("S1") if is_empty else value


def as_attribute(value: object) -> Any:
    """Convert a value for HDF5; a value that HDF5 has no type for becomes JSON text."""
    if value is None:
        return _NOTHING
    if isinstance(value, str):
        # HDF5 ends strings of variable length at the first zero byte.
        text = value.encode(errors="surrogatepass")
        return np.array(text, h5py.string_dtype("utf-8", len(text))) if "\0" in value else value
    if isinstance(value, bool | int | float) and _have_type([value]):
        return value
    if isinstance(value, list):
        kinds = {type(each) for each in value}
        if kinds <= {str} and not any("\0" in each for each in value):
            return np.array(value, h5py.string_dtype()) if value else np.zeros(0)
        if kinds == {bool} or (kinds <= {int, float} and _have_type(value)):
            is_large = kinds == {int} and max(value) >= 2**63
            return np.array(value, np.uint64 if is_large else None)
    return json.dumps(value, default=str)


def _have_type(numbers: list[Any]) -> bool:
    """Tell whether one type can hold all numbers, with every integer exact."""
    whole = [each for each in numbers if isinstance(each, int)]
    least, most = min(whole, default=0), max(whole, default=0)
    if len(whole) < len(numbers):
        return max(most, -least) <= 2**53
    return (least >= 0 and most < 2**64) or (least >= -(2**63) and most < 2**63)


def groups_around(dataset: Any) -> dict[str, Any]:
    """Return the groups that contain a dataset by their paths, without the root group."""
    path = dataset.name.strip("/")
    above = [path[:at] for at, sign in enumerate(path) if sign == "/"]
    return {each: dataset.file[each] for each in above}
