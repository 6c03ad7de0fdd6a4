"""What NetCDF says among attributes, and what xarray makes of it in Zarr.

The value that stands for a gap is ``_FillValue`` in NetCDF. In Zarr 2 it is the fill value of the
array. In Zarr 3 every array has a fill value, which need not mean a gap, so that it is an attribute
again, in an encoding that JSON can hold without loss.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

FILL_VALUE = "_FillValue"
"""The name of the attribute."""
OF_ITS_TYPE = frozenset(
    {"missing_value", "valid_min", "valid_max", "valid_range", "flag_values", "flag_masks"}
)
"""Attributes that have the type of their variable's elements."""
TRUTH = np.dtype("i1")
"""What truth is stored as in NetCDF, which has no booleans."""
SAYS_TRUTH: Mapping[str, str] = MappingProxyType({"dtype": "bool"})
"""What xarray says beside it, and reads booleans by."""
NAMES = "_ARRAY_DIMENSIONS"
"""Where xarray keeps the names of dimensions in Zarr 2, which has no place for them."""
REFERENCE = "reference"
"""The type of attributes of HDF5 that lead to another place in their file."""
_NO_NAMES_FOR_GAPS = 2


def gap_of(metadata: Mapping[str, Any], dtype: np.dtype[Any]) -> Any:
    """Return the value that stands for a gap in what a source says, None if none does.

    Examples
    --------
    >>> attributes = {"_FillValue": "AAAAAAAA8L8="}
    >>> gap_of({"zarr_format": 3, "attributes": attributes}, np.dtype("f4"))
    np.float32(-1.0)
    """
    version = metadata.get("zarr_format")
    if version == _NO_NAMES_FOR_GAPS:
        return metadata.get("fill_value")
    said = metadata.get("attributes", {}).get(FILL_VALUE)
    try:
        return None if said is None else _read(said, dtype, is_encoded=version is not None)
    except (OverflowError, TypeError, ValueError, struct.error):
        # What is none stays an attribute like any other.
        return None


def _read(said: Any, dtype: np.dtype[Any], *, is_encoded: bool) -> Any:
    if dtype.kind == "f" and is_encoded and isinstance(said, str):
        said = struct.unpack("<d", b64decode(said))[0]
    elif dtype.kind == "S" and isinstance(said, str):
        said = b64decode(said) if is_encoded else said.encode("utf-8", "surrogateescape")
    found = np.array(said)
    value = found.astype(dtype)
    if value.size != 1 or (dtype.kind in "iu" and not np.array_equal(value, found)):
        raise ValueError("is not one value of this type")
    return value.reshape(())[()]


def is_plain_number(name: str, kind: np.dtype[Any], dtype: np.dtype[Any] | None) -> bool:
    """Tell whether the type of an attribute is known without saying it, which JSON cannot.

    `dtype` is that of the variable's elements, None for attributes of a file or a group.
    """
    if dtype is not None and name in {FILL_VALUE, *OF_ITS_TYPE}:
        return kind.newbyteorder("=") == dtype.newbyteorder("=")
    return kind.str[1:] in {"i4", "i8", "f8", "b1"}


def encoded(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value as xarray writes it among the attributes of Zarr 3.

    Examples
    --------
    >>> encoded(-1, np.dtype("f4")), encoded(-1, np.dtype("i2"))
    ('AAAAAAAA8L8=', -1)
    """
    if dtype.kind == "f":
        return b64encode(struct.pack("<d", float(value))).decode()
    if dtype.kind == "S":
        return b64encode(bytes(value)).decode()
    return np.asarray(value).item()
