"""Read and write the file ``info`` of a stack without trusting it.

The file is a pickle, which could run arbitrary code if it were loaded. It is parsed without calling
anything that it names. Only numbers, strings, tuples, lists, dicts and placeholders for dtypes are
allowed.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from dask_io.errors import DataError
from dask_io.geometry import Axis, Grid
from dask_io.storage.files import read_whole
from dask_io.stores.dtypes import check_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dask_io.storage.location import Location

NAME = "info"
_LONGEST = 16 * 2**20
_DTYPES = frozenset({("numpy", "dtype"), ("numpy.dtypes", "dtype")})


@dataclass(frozen=True)
class Info:
    """The content of the file: the axis that is cut, the grid and the dtype."""

    axis: int
    grid: Grid
    dtype: np.dtype[Any]


def read_info(folder: Location) -> Info:
    """Read the file ``info`` of a stack.

    Raises
    ------
    DataError
        If it is invalid.
    StorageError
        If it cannot be read.
    """
    path = folder / NAME
    content = read_whole(path, _LONGEST)
    try:
        found = _load_plain(content)
        axis, grid = parse_chunks(found.get("chunks"), found.get("axis"))
        return Info(axis, grid, _dtype_of(found.get("dtype")))
    except ValueError as error:
        raise DataError(str(path), [str(error)]) from error


def write_info(axis: int, grid: Grid, dtype: np.dtype[Any]) -> bytes:
    """Return the content of the file ``info``, which Dask reads."""
    chunks = tuple(tuple(each.lengths()) or (0,) for each in grid.axes)
    return pickle.dumps({"chunks": chunks, "dtype": dtype, "axis": axis}, protocol=4)


def parse_chunks(chunks: object, axis: object) -> tuple[int, Grid]:
    """Check chunks; return the axis that is cut, and the grid.

    Raises
    ------
    ValueError
        If they are missing or invalid; the message completes "the file ...".
    """
    if not isinstance(chunks, list | tuple) or not chunks:
        raise ValueError("does not contain the lengths of its blocks")
    for lengths in chunks:
        if not isinstance(lengths, list | tuple) or any(
            type(n) is not int or n < 0 for n in lengths
        ):
            raise ValueError("has lengths of blocks that are not integers")
    if type(axis) is not int or not 0 <= axis < len(chunks):
        raise ValueError("does not contain the axis that is cut")
    if any(len(lengths) != 1 for other, lengths in enumerate(chunks) if other != axis):
        raise ValueError("has blocks along more than one axis")
    if len(chunks[axis]) > 1 and 0 in chunks[axis]:
        raise ValueError("has blocks without elements")
    return axis, Grid(tuple(Axis.of(n for n in lengths if n) for lengths in chunks))


@dataclass
class _Dtype:
    """Placeholder for a pickled dtype, so that unpickling does not call NumPy."""

    arguments: tuple[Any, ...]
    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _make_dtype(*arguments: Any) -> _Dtype:
    return _Dtype(arguments)


class _Unpickler(pickle.Unpickler):
    """Loads a pickle of plain values, with a placeholder for dtypes, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Callable[..., _Dtype]:
        if (module, name) not in _DTYPES:
            raise pickle.UnpicklingError(f"names {module}.{name}, which is never loaded")
        return _make_dtype

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError(f"refers to {pid!r:.40}, which is never loaded")


def _load_plain(content: bytes) -> Mapping[str, Any]:
    """Return the plain values in a pickle.

    Raises
    ------
    ValueError
        If it contains anything else.
    """
    if len(content) > _LONGEST:
        raise ValueError(f"is longer than {_LONGEST} bytes")
    try:
        found = _Unpickler(io.BytesIO(content)).load()
    except Exception as error:  # a broken pickle raises many kinds
        reason = str(error) or type(error).__name__
        raise ValueError(f"does not describe a stack: {reason[:200]}") from error
    if not isinstance(found, dict):
        raise ValueError("does not describe a stack")  # noqa: TRY004 - wrong data
    return found


def _dtype_of(found: Any) -> np.dtype[Any]:
    """Return the dtype that a placeholder describes.

    Raises
    ------
    ValueError
        If it is invalid or not supported.
    """
    try:
        dtype = _build_dtype(found)
    except Exception as error:  # NumPy raises many kinds of errors for invalid dtypes
        raise ValueError("does not contain a valid dtype") from error
    problem = check_dtype(dtype)
    if problem:
        raise ValueError(f"holds {problem}")
    return dtype


def _build_dtype(found: Any) -> np.dtype[Any]:
    kind, state = found.arguments[0], found.state
    if not isinstance(kind, str) or not isinstance(state, tuple):
        raise TypeError
    _, order, subtype, names, fields, itemsize, *_ = state
    if subtype is not None:
        base, shape = subtype
        return np.dtype((_build_dtype(base), tuple(map(int, shape))))
    if names is not None:
        described: Any = {
            "names": list(map(str, names)),
            "formats": [_build_dtype(fields[name][0]) for name in names],
            "offsets": [int(fields[name][1]) for name in names],
            "itemsize": int(itemsize),
        }
        structured: np.dtype[Any] = np.dtype(described)
        return structured
    if kind in {"M8", "m8"}:
        unit, count, _, _ = state[8][1]
        kind = f"{kind}[{int(count)}{unit.decode()}]"
    return np.dtype(kind).newbyteorder(order if order in {"<", ">"} else "=")
