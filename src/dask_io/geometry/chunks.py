"""Chunks as users specify them, and the grids that they describe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from operator import index as as_int
from typing import SupportsIndex, TypeAlias, TypeGuard

from dask_io.errors import UsageError
from dask_io.geometry.axis import Axis
from dask_io.geometry.grid import Grid

MOST_AXES = 64
# Lengths as they are often written: 64x64x64.
_LENGTHS = re.compile(r"-?\d+(?:\s*[xX×]\s*-?\d+)+")
AUTO_BYTES = 64 * 2**20

AxisChunks: TypeAlias = int | str | Sequence[int] | None
"""Chunks along one axis: a length, -1 (the whole axis), "auto", all lengths, or None (default)."""
ByAxis: TypeAlias = (
    Mapping[int, AxisChunks] | Mapping[str, AxisChunks] | Mapping[int | str, AxisChunks]
)
Chunks: TypeAlias = AxisChunks | Sequence[AxisChunks] | ByAxis
"""Chunks along all axes: one `AxisChunks` for every axis, a sequence with one per axis, or a
mapping by axis number or, if the array has named axes, by axis name."""


def normalize_chunks(
    chunks: Chunks, shape: Sequence[int], itemsize: int, *, like: Grid | None = None
) -> Grid:
    """Return the grid that `chunks` describes for an array of this shape.

    Parameters
    ----------
    chunks
        As in Dask: a length for all axes, a sequence with an entry per axis, or a mapping from
        axis to entry; or text that `parse_chunks` understands. An entry is a length, -1 (the whole
        axis), ``"auto"`` (nearly cubic blocks of about 64 MiB), all lengths along the axis, or
        None.
    shape
        Shape of the array.
    itemsize
        Bytes per element, for ``"auto"``.
    like
        Grid for axes whose entry is None or missing. By default these are one block.

    Raises
    ------
    UsageError
        If `chunks` is invalid for this shape.

    Examples
    --------
    >>> str(normalize_chunks((4, -1, (3, 2)), (10, 7, 5), itemsize=8))
    '4 x 7 x 3'
    >>> str(normalize_chunks({1: 2}, (10, 7), itemsize=8, like=Grid.regular((10, 7), (5, 7))))
    '5 x 2'
    >>> str(normalize_chunks("auto", (1000, 1000, 1000), itemsize=8))
    '200 x 200 x 200'
    >>> str(normalize_chunks("4x-1x3", (10, 7, 5), itemsize=8))
    '4 x 7 x 3'
    """
    shape = tuple(shape)
    if not 1 <= len(shape) <= MOST_AXES:
        raise UsageError(f"the array has {len(shape)} axes; 1 to {MOST_AXES} are supported")
    if min(shape) < 0:
        raise UsageError(f"shape {_join(shape)} has a negative length")
    entries = _per_axis(parse_chunks(chunks) if isinstance(chunks, str) else chunks, shape)
    axes = [_cut(entry, axis, shape[axis], like) for axis, entry in enumerate(entries)]
    fixed = [axis for axis in axes if axis is not None]
    largest = max(1, AUTO_BYTES // max(1, itemsize * prod(axis.longest or 1 for axis in fixed)))
    open_lengths = [n for n, axis in zip(shape, axes, strict=True) if axis is None]
    sides = iter(_near_cube(open_lengths, largest))
    return Grid(
        tuple(
            Axis.regular(n, next(sides)) if axis is None else axis
            for n, axis in zip(shape, axes, strict=True)
        )
    )


def by_number(chunks: Chunks, names: Sequence[str | None] | None, what: str = "chunks") -> Chunks:
    """Replace axis names by axis numbers; `what` is the option that error messages name.

    Raises
    ------
    UsageError
        If a name is not an axis name of the array.

    Examples
    --------
    >>> by_number({"y": -1, 0: 24}, ["time", "y"]), by_number((3, 4), None)
    ({1: -1, 0: 24}, (3, 4))
    >>> by_number("y=-1", ["time", "y"])
    {1: -1}
    """
    if isinstance(chunks, str):
        chunks = parse_chunks(chunks)
    if not isinstance(chunks, Mapping):
        return chunks
    known = [name for name in names or () if name is not None]
    for axis in chunks:
        if isinstance(axis, str) and axis not in known:
            unnamed = f"the array has unnamed axes; give {what} by axis number, as in 0=24"
            found = f"its axes are {', '.join(known)}" if known else unnamed
            raise UsageError(f"{what} are given for axis {axis!r}, but {found}")
    return {
        list(names or ()).index(axis) if isinstance(axis, str) else axis: entry
        for axis, entry in chunks.items()
    }


def _per_axis(chunks: Chunks, shape: tuple[int, ...]) -> list[object]:
    """Return one entry for each axis."""
    if isinstance(chunks, Mapping):
        entries: list[object] = [None] * len(shape)
        for axis, entry in chunks.items():
            number = as_int(axis) if is_int(axis) else len(shape)
            if not -len(shape) <= number < len(shape):
                raise UsageError(
                    f"chunks are given for axis {axis}, but the array has {len(shape)} axes"
                )
            entries[number] = entry
        return entries
    if isinstance(chunks, str) or chunks is None or not isinstance(chunks, Iterable):
        return [chunks] * len(shape)
    entries = list(chunks)
    if len(entries) == 1 < len(shape) and isinstance(entries[0], (tuple, list)):
        # One length per axis in brackets, as a shape is printed.
        entries = list(entries[0])
    if len(shape) == 1 and len(entries) > 1 and all(map(is_int, entries)):
        return [entries]
    if len(entries) != len(shape):
        raise UsageError(
            f"chunks are given for {len(entries)} axes, but the array has {len(shape)}: "
            f"its shape is {_join(shape)}"
        )
    return entries


def _cut(entry: object, number: int, length: int, like: Grid | None) -> Axis | None:
    """Return the blocks along one axis, None for "auto"."""
    if entry is None:
        return like.axes[number] if like else Axis.regular(length, max(1, length))
    if isinstance(entry, str):
        if entry == "auto":
            return None
    elif is_int(entry):
        size = as_int(entry)
        if size == -1:
            return Axis.regular(length, max(1, length))
        if size > 0:
            return Axis.regular(length, size)
        raise UsageError(f"chunks along axis {number} are {size}; give a positive length, or -1")
    elif isinstance(entry, Iterable):
        return _cut_by_lengths(list(entry), number, length)
    raise UsageError(
        f"chunks along axis {number} are {entry!r}; give a length, -1, 'auto' or all lengths"
    )


def _cut_by_lengths(lengths: list[object], number: int, length: int) -> Axis:
    sizes = [as_int(size) for size in lengths if is_int(size)]
    if len(sizes) < len(lengths):
        raise UsageError(f"chunks along axis {number} are not all integers: {_join(lengths)}")
    if length == 0 and not any(sizes):
        return Axis(())
    if min(sizes, default=0) < 1:
        raise UsageError(f"chunks along axis {number} are not all positive: {_join(lengths)}")
    if sum(sizes) != length:
        raise UsageError(
            f"chunks along axis {number} add up to {sum(sizes)}, but the axis has length {length}"
        )
    return Axis.of(sizes)


def is_int(value: object) -> TypeGuard[SupportsIndex]:
    """Tell whether a value is an integer, of Python or NumPy, but not a bool."""
    return isinstance(value, SupportsIndex) and not isinstance(value, bool)


def _join(values: Sequence[object]) -> str:
    shown = [str(value) for value in values[:8]]
    return ",".join(shown + ["..."] * (len(values) > len(shown)))


def _near_cube(lengths: Sequence[int], largest: int) -> list[int]:
    """Return the sides of a box of at most `largest` elements that divides `lengths` evenly."""
    sides = [1] * len(lengths)
    by_length = sorted(range(len(lengths)), key=lambda axis: lengths[axis])
    for n_left, axis in zip(range(len(lengths), 0, -1), by_length, strict=True):
        side = max(1, min(lengths[axis], _root(largest, n_left)))
        n_blocks = -(-lengths[axis] // side)
        sides[axis] = max(1, -(-lengths[axis] // max(1, n_blocks)))
        largest = max(1, largest // sides[axis])
    return sides


def _root(value: int, degree: int) -> int:
    """Return the integer part of a root."""
    root: int = round(value ** (1 / degree))
    return root if root**degree <= value else root - 1


def parse_chunks(text: str) -> Chunks:
    """Parse chunks as written on the command line, or as text in Python.

    Raises
    ------
    UsageError
        If the syntax is invalid.

    Examples
    --------
    >>> parse_chunks("500,500,-1"), parse_chunks("auto"), parse_chunks("-1")
    ((500, 500, -1), 'auto', -1)
    >>> parse_chunks("(3,4,3),5"), parse_chunks("0=24,2=(3,4)"), parse_chunks("time=24,y=-1")
    (((3, 4, 3), 5), {0: 24, 2: (3, 4)}, {'time': 24, 'y': -1})
    >>> parse_chunks("64x64x32"), parse_chunks("64X64")
    ((64, 64, 32), (64, 64))
    """
    entries = _split(_LENGTHS.sub(lambda found: re.sub(r"\s*[xX×]\s*", ",", found[0]), text))
    if any("=" in entry for entry in entries):
        pairs = [entry.partition("=") for entry in entries]
        axes = [_parse_axis(axis.strip(), text) for axis, _, _ in pairs]
        if len(set(axes)) < len(axes):
            raise UsageError(f"chunks {text!r} contain an axis twice")
        return {
            axis: _parse_entry(entry, text) for axis, (_, _, entry) in zip(axes, pairs, strict=True)
        }
    parsed = tuple(_parse_entry(entry, text) for entry in entries)
    return parsed[0] if len(parsed) == 1 and not isinstance(parsed[0], tuple) else parsed


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    entries, depth = [""], 0
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            entries.append("")
        else:
            entries[-1] += char
    if len(entries) > 1 and not entries[-1].strip():
        entries.pop()
    return [entry.strip() for entry in entries]


def _parse_entry(entry: str, text: str) -> int | str | tuple[int, ...]:
    entry = entry.strip()
    if entry == "auto":
        return entry
    if entry[:1] + entry[-1:] in {"()", "[]"}:
        return tuple(_parse_int(part, text) for part in _split(entry[1:-1]))
    return _parse_int(entry, text)


def _parse_axis(axis: str, text: str) -> int | str:
    return axis if axis and not axis.lstrip("+-").isdigit() else _parse_int(axis, text)


def _parse_int(entry: str, text: str) -> int:
    try:
        return int(entry)
    except ValueError:
        raise UsageError(
            f"chunks {text!r} are invalid; write them as 500,500,500 or -1 or auto or "
            "(3,4,3),5 or 0=24,2=-1 or time=24,y=-1"
        ) from None
