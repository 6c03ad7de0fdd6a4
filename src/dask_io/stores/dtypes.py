"""Types of elements: which ones can be stored, and how they are written in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.lib import format as npy_format

from dask_io.codecs.registry import cast_codec

if TYPE_CHECKING:
    from collections.abc import Mapping

Casting = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
CASTINGS: tuple[Casting, ...] = get_args(Casting)
"""NumPy's rules for converting values, the strictest first."""
# Kinds of numbers, which can be converted to each other, and strings, only to their own kind.
_NUMBERS, _TEXTS = "biufc", "SU"
_UNCHANGED = "nothing is clipped or scaled"


def check_dtype(dtype: np.dtype[Any]) -> str:
    """Explain why elements of a type cannot be moved as bytes; empty if they can.

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


def check_cast(stored: np.dtype[Any], dtype: np.dtype[Any], casting: Casting) -> str:
    """Explain why elements cannot be converted to another type; empty if they can.

    Examples
    --------
    >>> check_cast(np.dtype("f4"), np.dtype("f8"), "safe")
    ''
    >>> check_cast(np.dtype("f8"), np.dtype("f4"), "safe")
    'float64 to float32 is not safe, because it rounds values; allow it with --casting same_kind'
    """
    kinds = stored.kind, dtype.kind
    can_be = all(kind in _NUMBERS for kind in kinds) or (
        stored.kind == dtype.kind and dtype.kind in _TEXTS
    )
    if not (can_be or np.can_cast(stored, dtype, "equiv")):
        return f"{stored} to {dtype} converts neither numbers nor strings of one kind"
    if np.can_cast(stored, dtype, casting):
        return ""
    enough = next(word for word in CASTINGS if np.can_cast(stored, dtype, word))
    loss = f", because {found}" if (found := _loss(stored, dtype)) else ""
    return f"{stored} to {dtype} is not {casting}{loss}; allow it with --casting {enough}"


def _loss(stored: np.dtype[Any], dtype: np.dtype[Any]) -> str:
    """Return what a conversion does to values that do not fit; empty if all fit.

    Examples
    --------
    >>> _loss(np.dtype("u2"), np.dtype("u1"))
    'values that do not fit wrap around (nothing is clipped or scaled)'
    """
    if np.can_cast(stored, dtype, "safe"):
        return ""
    if dtype.kind in _TEXTS:
        return "it cuts off texts that are too long"
    if dtype.kind == "b":
        return "all values but 0 become true"
    drops = "it drops imaginary parts" if stored.kind == "c" and dtype.kind != "c" else ""
    if dtype.kind in "fc":
        return f"{drops} and rounds values" if drops else "it rounds values"
    if stored.kind in "iu":
        return f"values that do not fit wrap around ({_UNCHANGED})"
    cuts = f"{drops} and fractions" if drops else "it cuts off fractions"
    return f"{cuts}, and values that do not fit become any number ({_UNCHANGED})"


def cast_metadata(
    metadata: Mapping[str, Any], stored: np.dtype[Any], dtype: np.dtype[Any]
) -> Mapping[str, Any]:
    """Return metadata for an array after conversion: with a new fill value and new filters."""
    codecs = [cast_codec(each, stored, dtype) for each in metadata.get("codecs", ())]
    made = {**metadata, "codecs": codecs} if codecs else metadata
    value = metadata.get("fill_value")
    if value is None:
        return made
    fill = np.asarray(value)
    if fill.dtype.kind == "c" and dtype.kind != "c":
        fill = fill.real
    with np.errstate(all="ignore"):
        return {**made, "fill_value": fill.astype(dtype)[()]}
