"""Named types and enumerations."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import numpy as np

# Objects that are searched for a named type.
_MOST_OBJECTS = 10_000


def dtype_of(dataset: Any) -> np.dtype[Any] | None:
    """Return the dtype of a dataset, None if NumPy has no such type."""
    try:
        found: np.dtype[Any] = dataset.dtype
    except (TypeError, ValueError):
        return None
    return found


def names_of_values(dtype: np.dtype[Any] | None) -> list[str]:
    """Return the names of the values of an enumeration, also within fields."""
    if dtype is None:
        return []
    if dtype.names:
        return [each for name in dtype.names for each in names_of_values(dtype[name])]
    if dtype.subdtype is not None:
        return names_of_values(dtype.subdtype[0])
    return list(h5py.check_enum_dtype(dtype) or ())


def path_of_type(file: Any, kind: Any) -> str:
    """Return the path of a named type, empty if it has no name or is not found."""
    if not kind.committed():
        return ""
    address, numbers = address_of(kind), count()

    def path_of(path: str, found: Any) -> str | None:
        if next(numbers) >= _MOST_OBJECTS:
            return ""
        is_it = isinstance(found, h5py.Datatype) and address_of(found.id) == address
        return path if is_it else None

    path = file.visititems(path_of)
    # h5py returns bytes for names that are not valid UTF-8.
    return path if isinstance(path, str) else ""


def address_of(kind: Any) -> int:
    """Return the address of a named type in its file."""
    address: int = h5py.h5o.get_info(kind).addr
    return address
