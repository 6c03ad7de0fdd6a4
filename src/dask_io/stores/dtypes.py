"""Types of elements: which ones can be stored, and how they are written in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.lib import format as npy_format

if TYPE_CHECKING:
    import numpy as np


def check_dtype(dtype: np.dtype[Any]) -> str:
    """Say why elements of a type cannot be moved as bytes; empty if they can.

    Examples
    --------
    >>> import numpy as np
    >>> check_dtype(np.dtype("f4")), check_dtype(np.dtype("O"))
    ('', 'Python objects, which are never loaded')
    """
    if dtype.hasobject or dtype.kind == "T":
        return "Python objects, which are never loaded"
    if dtype.itemsize < 1:
        return f"elements of no size ({dtype.str})"
    if dtype.subdtype is not None:
        return "elements that are arrays themselves"
    return ""


def dtype_to_json(dtype: np.dtype[Any]) -> object:
    """Write a type as its string, or as a list of fields if it has any.

    Examples
    --------
    >>> import numpy as np
    >>> dtype_to_json(np.dtype("<f4")), dtype_to_json(np.dtype([("a", "<i2"), ("b", "u1", (3,))]))
    ('<f4', [('a', '<i2'), ('b', '|u1', (3,))])
    """
    described: object = npy_format.dtype_to_descr(dtype)
    return described


def dtype_from_json(value: object) -> np.dtype[Any]:
    """Read back what `dtype_to_json` wrote.

    Raises
    ------
    ValueError
        If it is not a type that can be stored.
    """
    try:
        dtype = npy_format.descr_to_dtype(_as_descr(value))
    except Exception as error:  # NumPy raises many kinds for what is not a dtype
        raise ValueError("dtype is not known") from error
    problem = check_dtype(dtype)
    if problem:
        raise ValueError(f"dtype means {problem}")
    return dtype


def _as_descr(value: object) -> Any:
    """Turn the lists of JSON into the tuples that NumPy expects."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise TypeError
    fields = []
    for name, kind, *shape in value:
        title = tuple(name) if isinstance(name, list) else name
        fields.append((title, _as_descr(kind), *map(tuple, shape)))
    return fields
