"""NumPy's ``.npy``: a header with shape, dtype and order, then the elements.

Headers come from files that anyone may have made. They are read as literals, never executed or
unpickled, and only up to `LONGEST_HEADER` bytes. Our own are padded so that the data begins at
a multiple of 4096 bytes, which every reader of the format accepts.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from numpy.lib import format as npy_format

from dask_io.geometry import Layout
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.block_format import Format, Header
from dask_io.stores.dtypes import check_dtype

if TYPE_CHECKING:
    from dask_io.stores.block_format import Peek

LONGEST_HEADER = 65536
_MOST_AXES = 64
# `np.load` refuses longer headers, by default.
_NUMPY_LIMIT = 10000
_MAGIC = b"\x93NUMPY"
_SHORTEST = 12
# Major version: bytes of the header's length, encoding of the header.
_VERSIONS = {1: (2, "latin1"), 2: (4, "latin1"), 3: (4, "utf-8")}
_PYTHON_2_LONG = re.compile(r"(?<=[0-9])L(?=[,) ])")
_PARSING = Lock()


def parse_header(peek: Peek) -> Header:
    """Read a header without trusting it."""
    head = peek(ALIGNMENT)
    if len(head) < _SHORTEST and _MAGIC.startswith(head[:6]):
        raise ValueError("is truncated: it ends within its header")
    if head[:6] != _MAGIC:
        raise ValueError("is not a .npy file: it does not begin as one")
    if head[6] not in _VERSIONS or head[7] != 0:
        raise ValueError("has a version of .npy that is not known")
    width, encoding = _VERSIONS[head[6]]
    length = int.from_bytes(head[8 : 8 + width], "little")
    offset = 8 + width + length
    if offset > LONGEST_HEADER:
        raise ValueError(f"claims a header of {length} bytes; {LONGEST_HEADER} are allowed")
    if offset > len(head):
        head = peek(offset)
    if offset > len(head):
        raise ValueError("is truncated: it ends within its header")
    return _understand(head[8 + width : offset], encoding, offset)


def make_header(block: Header) -> bytes:
    """Return a header of the lowest version that can hold the dtype's names."""
    order = block.layout.name
    if order not in {"C", "F"}:
        raise ValueError(f"stores blocks in C or F order, not with the axes {order}")
    entries = {
        "descr": npy_format.dtype_to_descr(block.dtype),
        "fortran_order": order == "F",
        "shape": tuple(block.shape),
    }
    text = repr(entries)
    try:
        version, content = 1, text.encode("latin1")
    except UnicodeEncodeError:
        version, content = 3, text.encode("utf-8")
    if version == 1 and 10 + len(content) >= 2**16 - 64:
        version = 2
    start = 8 + _VERSIONS[version][0]
    total = _round_up(start + len(content) + 1, ALIGNMENT)
    if total - start > _NUMPY_LIMIT:
        total = _round_up(start + len(content) + 1, 64)
    if total > LONGEST_HEADER:
        raise ValueError(f"allows headers of {LONGEST_HEADER} bytes; this dtype needs {total}")
    length = (total - start).to_bytes(start - 8, "little")
    return _MAGIC + bytes([version, 0]) + length + content.ljust(total - start - 1) + b"\n"


def _round_up(n_bytes: int, multiple: int) -> int:
    return -(-n_bytes // multiple) * multiple


# Most blocks of an array have the same header.
@lru_cache(maxsize=64)
def _understand(content: bytes, encoding: str, offset: int) -> Header:
    try:
        entries = _evaluate(content.decode(encoding))
    except Exception as error:  # a hostile header may make Python's parser raise anything
        raise ValueError("has a header that cannot be read") from error
    if not isinstance(entries, dict) or entries.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("has a header that does not name descr, fortran_order and shape")
    shape, fortran = entries["shape"], entries["fortran_order"]
    if not isinstance(shape, tuple) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError("has a header whose shape is not a tuple of lengths")
    if not isinstance(fortran, bool):
        raise ValueError("has a header whose fortran_order is not True or False")  # noqa: TRY004 - wrong data, not a wrong call
    try:
        dtype = npy_format.descr_to_dtype(entries["descr"])
    except Exception as error:  # as above
        raise ValueError("has a header whose dtype is not known") from error
    problem = check_dtype(dtype)
    if problem:
        raise ValueError(f"holds {problem}")
    if not 1 <= len(shape) <= _MOST_AXES:
        raise ValueError(f"has {len(shape)} axes; 1 to {_MOST_AXES} are allowed")
    layout = Layout.f(len(shape)) if fortran else Layout.c(len(shape))
    return Header(shape, dtype, layout, offset)


def _evaluate(text: str) -> object:
    # Python 3.11 loses count of its recursion when several threads parse at once.
    with _PARSING:
        try:
            return ast.literal_eval(text.strip())
        except SyntaxError:
            return ast.literal_eval(_PYTHON_2_LONG.sub("", text.strip()))


FORMAT = Format("npy", (".npy",), LONGEST_HEADER, parse_header, make_header)
