"""Files that hold slices of an array, each without the axes along which it is a slice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dask_io.geometry import Layout
from dask_io.stores.block_names import BlockNames, OneName
from dask_io.stores.space import Space, SpaceAxis, select

if TYPE_CHECKING:
    from dask_io.geometry import Grid
    from dask_io.stores.block_format import Format, Header, Peek
    from dask_io.stores.block_names import Names


def format_of_files(names: Names, format: Format) -> Format:  # noqa: A002 - the word that users know
    """Return how files with these names hold blocks: unchanged, as slices, or with a header apart.

    Only its content tells whether one file has its data in another; see `OneName.header`.
    """
    format = format.of_file(names.pattern)  # noqa: A001 - as above
    if isinstance(names, OneName) and names.header:
        return replace(format, header_file=names.header)
    if isinstance(names, OneName) and format.data_name(names.pattern) != names.pattern:
        return replace(format, suffixes=(format.header_suffix,), header_suffix="")
    axes = names.slice_axes if isinstance(names, BlockNames) else ()
    if not axes:
        return format
    parse, make = partial(_parse_header, format, axes), partial(_make_header, format, axes)
    return replace(format, parse_header=parse, make_header=make)


def thick_slices(names: Names, grid: Grid) -> str:
    """Return the problem if a file would contain more than one slice; else empty."""
    for axis in names.slice_axes if isinstance(names, BlockNames) else ():
        if grid.axes[axis].longest > 1:
            return f"files hold one slice along axis {axis}, but chunks are longer than 1 there"
    return ""


def _parse_header(whole: Format, axes: tuple[int, ...], peek: Peek) -> Header:
    """Read a header, and add the axes that the file does not have."""
    header = whole.parse_header(peek)
    shape, n_axes = list(header.shape), len(header.shape) + len(axes)
    for axis in axes:
        shape.insert(axis, 1)
    # An axis of length 1 fits anywhere, so keep C and F, which all formats can store.
    if header.layout.name in {"C", "F"}:
        layout = Layout.named(header.layout.name, n_axes)
    else:
        there = _axes_in_file(axes, n_axes)
        layout = Layout((*axes, *(there[axis] for axis in header.layout.axes)))
    # The distance between slices is unknown, so their positions in the world are too.
    space = header.space
    if space is not None:
        named = list(space.axes)
        for axis in axes:
            named.insert(axis, SpaceAxis())
        space = Space(tuple(named))
    return replace(header, shape=tuple(shape), layout=layout, space=space)


def _make_header(whole: Format, axes: tuple[int, ...], block: Header) -> bytes:
    """Return the header of a block, without the axes that files do not have."""
    there = _axes_in_file(axes, len(block.shape))
    order = Layout(tuple(there.index(axis) for axis in block.layout.axes if axis in there))
    shape = tuple(block.shape[axis] for axis in there)
    space = None if block.space is None else select(block.space, there)
    return whole.make_header(replace(block, shape=shape, layout=order, space=space))


def _axes_in_file(axes: tuple[int, ...], n_axes: int) -> list[int]:
    return [axis for axis in range(n_axes) if axis not in axes]
