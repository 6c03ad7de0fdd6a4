"""Parse the header of NetCDF 3 files, to find the variables and the offsets of their values.

Other libraries do not expose the offsets. The format is simple: lists of dimensions, attributes and
variables as big-endian numbers, then the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAGIC = b"CDF"
LONGEST_HEADER = 16 * 2**20
_FIRST_LOOK = 2**16
_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
_TYPES = ("i1", "S1", ">i2", ">i4", ">f4", ">f8", "u1", ">u2", ">u4", ">i8", ">u8")
# By version: the widths of a count and of an offset, in bytes.
_WIDTHS = {1: (4, 4), 2: (4, 8), 5: (8, 8)}
_MOST_AXES = 64


@dataclass(frozen=True)
class Variable:
    """A variable and the offset at which it begins.

    A variable along the unlimited dimension has one record per index. Records of all such variables
    are interleaved; those of one variable are `step` bytes apart.
    """

    name: str
    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    attributes: dict[str, Any]
    begin: int
    step: int | None

    @property
    def record_shape(self) -> tuple[int, ...]:
        """Shape of the part that is contiguous in the file."""
        return self.shape if self.step is None else (1, *self.shape[1:])

    @property
    def end(self) -> int:
        """Offset at which its last value ends."""
        n_bytes = prod(self.record_shape) * self.dtype.itemsize
        n_before = 0 if self.step is None else max(0, self.shape[0] - 1) * self.step
        return self.begin + n_before + n_bytes if prod(self.shape) else 0


@dataclass(frozen=True)
class Header:
    """The header of a file; `record` is its unlimited dimension."""

    attributes: dict[str, Any]
    dimensions: dict[str, int]
    variables: dict[str, Variable]
    record: str | None


def read_header(peek: Callable[[int], bytes], file_size: int) -> Header:
    """Read a header; ``peek(n)`` returns the first n bytes of the file, or all if fewer.

    Raises
    ------
    ValueError
        If the header is invalid; the message completes "the file ...".
    """
    n_bytes = _FIRST_LOOK
    while True:
        head = peek(n_bytes)
        try:
            return _Parser(head).header(file_size)
        except _EndsError:
            if len(head) < n_bytes or n_bytes >= LONGEST_HEADER:
                raise ValueError("is truncated: it ends within its header") from None
            n_bytes *= 4


class _EndsError(Exception):
    """More bytes are needed."""


class _Parser:
    """Parses the beginning of a file, from front to back."""

    def __init__(self, head: bytes) -> None:
        self._head, self._at = head, 0
        magic, version = self._take(3), self._take(1)[0]
        if magic != MAGIC or version not in _WIDTHS:
            raise ValueError("is not a NetCDF 3 file")
        self._count_width, self._offset_width = _WIDTHS[version]

    def _take(self, n_bytes: int) -> bytes:
        found = self._head[self._at : self._at + n_bytes]
        if len(found) < n_bytes:
            raise _EndsError
        self._at += n_bytes
        return found

    def _number(self, width: int = 4) -> int:
        return int.from_bytes(self._take(width), "big")

    def _count(self) -> int:
        return self._number(self._count_width)

    def _padded(self, n_bytes: int) -> bytes:
        """Take bytes that are padded to a multiple of four."""
        if n_bytes > LONGEST_HEADER:
            raise ValueError("has an implausibly large header entry")
        return self._take(-(-n_bytes // 4) * 4)[:n_bytes]

    def _name(self) -> str:
        try:
            return self._padded(self._count()).decode()
        except UnicodeDecodeError as error:
            raise ValueError("has a name that is not valid UTF-8") from error

    def _items(self, tag: int) -> Iterator[None]:
        """Yield once per item of a list of this kind; the list may be absent."""
        found, n_items = self._number(), self._count()
        if found not in {0, tag} or (not found and n_items):
            raise ValueError("has an invalid header")
        for _ in range(n_items):
            yield None

    def _type(self) -> np.dtype[Any]:
        number = self._number()
        if not 1 <= number <= len(_TYPES):
            raise ValueError(f"has values of the unknown type {number}")
        return np.dtype(_TYPES[number - 1])

    def _attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in self._items(_ATTRIBUTES):
            name, dtype, n_values = self._name(), self._type(), self._count()
            raw = self._padded(n_values * dtype.itemsize)
            values = np.frombuffer(raw, dtype)
            found[name] = np.bytes_(raw.rstrip(b"\0")) if dtype.kind == "S" else values
        return found

    def header(self, file_size: int) -> Header:
        """Parse the whole header."""
        n_records = self._count()
        dimensions = [(self._name(), self._count()) for _ in self._items(_DIMENSIONS)]
        attributes = self._attributes()
        described = [self._variable(len(dimensions)) for _ in self._items(_VARIABLES)]
        record = next((name for name, length in dimensions if not length), None)
        step = self._step(described, dimensions)
        if n_records == 2 ** (8 * self._count_width) - 1:
            begins = [begin for _, axes, _, _, begin in described if _is_record(axes, dimensions)]
            n_records = max(0, file_size - min(begins, default=file_size)) // max(1, step)
        variables = {}
        for name, axes, own, dtype, begin in described:
            is_record = _is_record(axes, dimensions)
            lengths = [dimensions[axis][1] for axis in axes]
            shape = (n_records, *lengths[1:]) if is_record else tuple(lengths)
            names = tuple(dimensions[axis][0] for axis in axes)
            own_step = step if is_record else None
            variables[name] = Variable(name, names, shape, dtype, own, begin, own_step)
        known = {name: length or n_records for name, length in dimensions}
        return Header(attributes, known, variables, record)

    def _variable(
        self, n_dimensions: int
    ) -> tuple[str, list[int], dict[str, Any], np.dtype[Any], int]:
        name, n_axes = self._name(), self._count()
        if n_axes > _MOST_AXES:
            raise ValueError(f"has a variable with {n_axes} axes; NumPy allows {_MOST_AXES}")
        axes = [self._count() for _ in range(n_axes)]
        if any(axis >= n_dimensions for axis in axes):
            raise ValueError("has a variable along a dimension that does not exist")
        attributes, dtype = self._attributes(), self._type()
        # Skip its size, which follows from the shape and is invalid for large variables.
        self._count()
        return name, axes, attributes, dtype, self._number(self._offset_width)

    def _step(self, described: list[Any], dimensions: list[tuple[str, int]]) -> int:
        """Return the distance between two records of a variable, in bytes."""
        sizes = [
            prod(dimensions[axis][1] for axis in axes[1:]) * dtype.itemsize
            for _, axes, _, dtype, _ in described
            if _is_record(axes, dimensions)
        ]
        # Records are padded only if there are several such variables.
        return sizes[0] if len(sizes) == 1 else sum(-(-size // 4) * 4 for size in sizes)


def _is_record(axes: list[int], dimensions: list[tuple[str, int]]) -> bool:
    return bool(axes) and not dimensions[axes[0]][1]
