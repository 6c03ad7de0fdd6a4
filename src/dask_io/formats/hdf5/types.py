"""Types of elements that have a name in their file, and those whose values have names."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import h5py  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import numpy as np

# A type is looked for among so many objects.
_MOST_OBJECTS = 10_000


def dtype_of(dataset: Any) -> np.dtype[Any] | None:
    """Return the type of elements, None if NumPy has none like it."""
    try:
        found: np.dtype[Any] = dataset.dtype
    except (TypeError, ValueError):
        return None
    return found


def names_of_values(dtype: np.dtype[Any] | None) -> list[str]:
    """Return the names that stand for values of elements, or of their fields."""
    if dtype is None:
        return []
    if dtype.names:
        return [each for name in dtype.names for each in names_of_values(dtype[name])]
    if dtype.subdtype is not None:
        return names_of_values(dtype.subdtype[0])
    return list(h5py.check_enum_dtype(dtype) or ())


def path_of_type(file: Any, kind: Any) -> str:
    """Return the path of a type that has a name in its file, nothing if none is found."""
    if not kind.committed():
        return ""
    address, numbers = address_of(kind), count()

    def path_of(path: str, found: Any) -> str | None:
        if next(numbers) >= _MOST_OBJECTS:
            return ""
        is_it = isinstance(found, h5py.Datatype) and address_of(found.id) == address
        return path if is_it else None

    path = file.visititems(path_of)
    # There are names that are no text.
    return path if isinstance(path, str) else ""


def address_of(kind: Any) -> int:
    """Return where in its file a type is that has a name there."""
    address: int = h5py.h5o.get_info(kind).addr
    return address
