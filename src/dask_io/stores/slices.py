"""Files that hold slices of an array, each without the axes along which it is a slice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from dask_io.geometry import Layout
from dask_io.stores.block_names import BlockNames, OneName
from dask_io.stores.space import Affine, AxisType, Space, SpaceAxis, select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.geometry import Grid
    from dask_io.stores.block_format import Format, Header, Peek
    from dask_io.stores.block_names import Names

T = TypeVar("T")


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


def slices_by_names(names: Names) -> dict[int, int]:
    """Return the chunks that files with these names have by themselves: whole slices."""
    if not isinstance(names, BlockNames) or not names.slice_axes:
        return {}
    return {axis: 1 if axis in names.axes else -1 for axis in range(names.n_axes)}


def check_slices(names: Names, grid: Grid) -> str:
    """Return the problem if files with these names cannot hold the blocks of a grid; else empty."""
    slice_axes = names.slice_axes if isinstance(names, BlockNames) else ()
    for axis in slice_axes:
        if grid.axes[axis].longest > 1:
            return f"files hold one slice along axis {axis}, but chunks are longer than 1 there"
    for axis, along in enumerate(grid.axes if slice_axes else ()):
        if isinstance(names, BlockNames) and axis not in names.axes and along.n_blocks > 1:
            return f"files are not numbered along axis {axis}, but chunks cut it"
    return ""


def _parse_header(whole: Format, axes: tuple[int, ...], peek: Peek) -> Header:
    """Read a header, and add the axes that the file does not have."""
    header = whole.parse_header(peek)
    shape = tuple(insert_axes(header.shape, axes, 1))
    space = None if header.space is None else stacked_space(header.space, axes)
    return replace(header, shape=shape, layout=stacked_layout(header.layout, axes), space=space)


def insert_axes(values: Sequence[T], axes: tuple[int, ...], value: T) -> list[T]:
    """Return one value for each axis of an array, from those of a slice.

    Examples
    --------
    >>> insert_axes((480, 640), (0,), 1)
    [1, 480, 640]
    """
    found = list(values)
    for axis in axes:
        found.insert(axis, value)
    return found


def stacked_layout(layout: Layout, axes: tuple[int, ...]) -> Layout:
    """Return the order of elements in a slice, with the axes that its file does not have."""
    n_axes = len(layout.axes) + len(axes)
    # An axis of length 1 fits anywhere, so keep C and F, which all formats can store.
    if layout.name in {"C", "F"}:
        return Layout.named(layout.name, n_axes)
    there = _axes_in_file(axes, n_axes)
    return Layout((*axes, *(there[axis] for axis in layout.axes)))


def stacked_space(space: Space, axes: tuple[int, ...]) -> Space:
    """Return the space of an array from that of its first slice.

    The distance between slices is unknown. If the axes of a slice are the coordinates, the number
    of a slice is its position; otherwise positions in the world are unknown.

    Examples
    --------
    >>> picture = Space((SpaceAxis("y"), SpaceAxis("x")), Affine.scaled((0.5, 0.5), (0, 0)))
    >>> volume = stacked_space(picture, (0,))
    >>> [axis.name for axis in volume.axes], volume.affine.steps
    (['z', 'y', 'x'], (1.0, 0.5, 0.5))
    """
    names = [axis.name for axis in space.axes]
    is_volume = axes == (0,) and names[:2] == ["y", "x"] and "z" not in names
    added = SpaceAxis("z", None, AxisType.SPACE) if is_volume else SpaceAxis()
    named, affine = tuple(insert_axes(space.axes, axes, added)), space.affine
    if affine is None or affine.coordinates or affine.rows_of_axes != tuple(range(len(names))):
        return Space(named)
    steps = [affine.matrix[axis][axis] for axis in range(len(names))]
    origin = insert_axes(affine.origin, axes, 0.0)
    return Space(named, Affine.scaled(insert_axes(steps, axes, 1.0), origin))


def _make_header(whole: Format, axes: tuple[int, ...], block: Header) -> bytes:
    """Return the header of a block, without the axes that files do not have."""
    there = _axes_in_file(axes, len(block.shape))
    order = Layout(tuple(there.index(axis) for axis in block.layout.axes if axis in there))
    shape = tuple(block.shape[axis] for axis in there)
    space = None if block.space is None else select(block.space, there)
    return whole.make_header(replace(block, shape=shape, layout=order, space=space))


def _axes_in_file(axes: tuple[int, ...], n_axes: int) -> list[int]:
    return [axis for axis in range(n_axes) if axis not in axes]
