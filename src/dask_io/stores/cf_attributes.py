"""Attributes with a meaning in NetCDF, and how xarray stores them in Zarr.

NetCDF marks missing data with the value of ``_FillValue``. Zarr 2 uses the array's fill value for
this. In Zarr 3 every array has a fill value, even without missing data, so xarray stores
``_FillValue`` as an attribute again, in an encoding that survives JSON without loss.
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
STORED_BOOL = np.dtype("i1")
"""The dtype that stores booleans in NetCDF, which has no boolean type."""
BOOL_ATTRIBUTE: Mapping[str, str] = MappingProxyType({"dtype": "bool"})
"""The attribute by which xarray recognises integers as booleans."""
NAMES = "_ARRAY_DIMENSIONS"
"""The attribute in which xarray keeps dimension names in Zarr 2, which has no field for them."""
REFERENCE = "reference"
"""The type of HDF5 attributes that refer to another object in their file."""
_ZARR_2 = 2
# Attributes whose values are names of variables that belong to theirs.
_NAMING = ("coordinates", "grid_mapping", "bounds", "ancillary_variables")


def names_in(attributes: Mapping[str, Any]) -> list[str]:
    """Return the names of the variables that belong to one with these attributes.

    Examples
    --------
    >>> names_in({"coordinates": "lat lon", "grid_mapping": "crs: x y", "units": "K"})
    ['lat', 'lon', 'crs', 'x', 'y']
    """
    found: list[str] = []
    for word in _NAMING:
        named = attributes.get(word)
        text = named.decode(errors="replace") if isinstance(named, bytes) else named
        if isinstance(text, str):
            # A mapping may be written as "name: first second".
            found += (part.rstrip(":") for part in text.split())
    return found


def missing_value_of(metadata: Mapping[str, Any], dtype: np.dtype[Any]) -> Any:
    """Return the value that marks missing data according to a source's metadata, else None.

    Examples
    --------
    >>> attributes = {"_FillValue": "AAAAAAAA8L8="}
    >>> missing_value_of({"zarr_format": 3, "attributes": attributes}, np.dtype("f4"))
    np.float32(-1.0)
    """
    version = metadata.get("zarr_format")
    if version == _ZARR_2:
        return metadata.get("fill_value")
    stored = metadata.get("attributes", {}).get(FILL_VALUE)
    try:
        return None if stored is None else _read(stored, dtype, is_encoded=version is not None)
    except (OverflowError, TypeError, ValueError, struct.error):
        # An invalid value is treated as an ordinary attribute.
        return None


def _read(stored: Any, dtype: np.dtype[Any], *, is_encoded: bool) -> Any:
    if dtype.kind == "f" and is_encoded and isinstance(stored, str):
        stored = struct.unpack("<d", b64decode(stored))[0]
    elif dtype.kind == "S" and isinstance(stored, str):
        stored = b64decode(stored) if is_encoded else stored.encode("utf-8", "surrogateescape")
    found = np.array(stored)
    value = found.astype(dtype)
    if value.size != 1 or (dtype.kind in "iu" and not np.array_equal(value, found)):
        raise ValueError("is not one value of this type")
    return value.reshape(())[()]


def is_plain_number(name: str, kind: np.dtype[Any], dtype: np.dtype[Any] | None) -> bool:
    """Tell whether readers infer an attribute's numeric type from JSON, which stores no types.

    `dtype` is that of the variable's elements, None for attributes of a file or a group.
    """
    if dtype is not None and name in {FILL_VALUE, *OF_ITS_TYPE}:
        return kind.newbyteorder("=") == dtype.newbyteorder("=")
    return kind.str[1:] in {"i4", "i8", "f8", "b1"}


def encoded(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value as xarray writes it to the attributes of Zarr 3.

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
