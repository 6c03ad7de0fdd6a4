"""Files that hold slices of an array, each without the axes along which it is a slice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from dask_io.geometry import Layout
from dask_io.stores.block_names import BlockNames, OneName
from dask_io.stores.given_space import type_of
from dask_io.stores.space import Affine, Space, SpaceAxis, crop, select

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.geometry import Grid
    from dask_io.stores.block_format import Format, Header, Peek
    from dask_io.stores.block_names import Names

T = TypeVar("T")
# The part of a step by which the positions of slices may differ from even ones.
_TOLERANCE = 1e-3


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
    words = names.words if isinstance(names, BlockNames) else {}
    parse, make = partial(_parse_header, format, axes, words), partial(_make_header, format, axes)
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


def _parse_header(
    whole: Format, axes: tuple[int, ...], words: Mapping[int, str], peek: Peek
) -> Header:
    """Read a header, and add the axes that the file does not have."""
    header = whole.parse_header(peek)
    shape = tuple(insert_axes(header.shape, axes, 1))
    space = header.space
    if space is not None:
        space = without_other_places(stacked_space(space, axes, words), axes)
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


def stacked_space(
    space: Space, axes: tuple[int, ...], words: Mapping[int, str] = MappingProxyType({})
) -> Space:
    """Return the space of an array from that of its first slice.

    The distance between slices is unknown. If each axis of a slice has its own coordinate, the
    number of a slice is its position; otherwise positions in the world are unknown, and so are
    units. A slice that was cut from a larger array may also have the coordinates of the axes that
    it lacks. If it has coordinates of even more axes, all are kept, for `with_slice_steps`.

    Parameters
    ----------
    space
        The space of the slice.
    axes
        The axes that the slice does not have.
    words
        Names of these axes, as far as the names of files give them.

    Examples
    --------
    >>> picture = Space((SpaceAxis("y"), SpaceAxis("x")), Affine.scaled((0.5, 0.5), (0, 0)))
    >>> volume = stacked_space(picture, (0,))
    >>> [axis.name for axis in volume.axes], volume.affine.steps
    (['z', 'y', 'x'], (1.0, 0.5, 0.5))
    >>> [axis.name for axis in stacked_space(picture, (0,), {0: "t"}).axes]
    ['t', 'y', 'x']
    """
    names = [axis.name for axis in space.axes]
    is_volume = axes == (0,) and names[:2] == ["y", "x"]
    named = list(space.axes)
    for axis in axes:
        name = words.get(axis) or ("z" if is_volume else None)
        is_new = name is not None and name not in names
        named.insert(axis, SpaceAxis(name, None, type_of(str(name))) if is_new else SpaceAxis())
    affine, n_axes = space.affine, len(named)
    if affine is None:
        return Space(tuple(named))
    rows = affine.rows_of_axes
    if affine.coordinates or rows is None:
        return _without_places(Space(tuple(named)))
    if len(affine.origin) > n_axes:
        matrix = tuple(tuple(insert_axes(row, axes, 0.0)) for row in affine.matrix)
        return Space(tuple(named), replace(affine, matrix=matrix))
    steps = insert_axes([affine.matrix[row][n] for n, row in enumerate(rows)], axes, 1.0)
    if len(affine.origin) == n_axes and rows == tuple(_axes_in_file(axes, n_axes)):
        return Space(tuple(named), Affine.scaled(steps, affine.origin))
    origin = insert_axes([affine.origin[row] for row in rows], axes, 0.0)
    return Space(tuple(named), Affine.scaled(steps, origin))


def without_other_places(space: Space, axes: tuple[int, ...]) -> Space:
    """Return a space of `stacked_space` without coordinates that belong to no axis of its slice."""
    affine = space.affine
    if affine is None or not axes or len(affine.origin) == len(space.axes):
        return space
    return _with_rows(space, _rows_in_file(affine, axes), {})


def _without_places(space: Space) -> Space:
    """Return the names and types of axes; a unit without a step would stand for a step of 1."""
    return Space(tuple(replace(axis, unit=None) for axis in space.axes))


def _rows_in_file(affine: Affine, axes: tuple[int, ...]) -> dict[int, int]:
    """Return the coordinate of each axis that slices have."""
    columns = list(zip(*affine.matrix, strict=True))
    return {
        axis: next(row for row, step in enumerate(columns[axis]) if step)
        for axis in _axes_in_file(axes, len(columns))
    }


def _with_rows(space: Space, rows: Mapping[int, int], steps: Mapping[int, float]) -> Space:
    """Return a space with one coordinate for each axis.

    Axes that are not in `rows` have no coordinate yet. Those in `steps` get another step.
    """
    assert space.affine is not None, "there are coordinates"
    matrix, at = space.affine.matrix, space.affine.origin
    found = [
        steps.get(axis, (matrix[rows[axis]][axis] if axis in rows else 0.0) or 1.0)
        for axis in range(len(space.axes))
    ]
    origin = [at[rows[axis]] if axis in rows else 0.0 for axis in range(len(space.axes))]
    return replace(space, affine=Affine.scaled(found, origin))


def with_slice_steps(
    spaces: Mapping[tuple[int, ...], Space], axes: tuple[int, ...]
) -> dict[tuple[int, ...], Space] | None:
    """Return the spaces of slices with the step between them; None if it is unknown.

    Slices that were cut from a larger array have the coordinates of all its axes. The coordinate
    that changes with the number of the slice along an axis is that of this axis, in any order. The
    step is unknown if coordinates do not grow evenly.

    Parameters
    ----------
    spaces
        The spaces that `stacked_space` returned, by the number of the slice along every axis.
    axes
        The axes that the slices do not have.

    Examples
    --------
    >>> cut = [Space((SpaceAxis("x"),), Affine(((0,), (2,)), (z, 0))) for z in (5.0, 5.5)]
    >>> stacked = {(n, 0): stacked_space(space, (0,)) for n, space in enumerate(cut)}
    >>> with_slice_steps(stacked, (0,))[0, 0].affine.steps
    (0.5, 2.0)
    """
    affines = {index: space.affine for index, space in spaces.items() if space.affine is not None}
    if not axes or not 0 < len(spaces) == len(affines):
        return None
    first = next(iter(affines.values()))
    n_rows, n_axes = len(first.origin), len(next(iter(spaces)))
    if n_rows < n_axes or any(len(each.origin) != n_rows for each in affines.values()):
        return None
    rows, steps = _rows_in_file(first, axes), dict[int, float]()
    if any(_rows_in_file(each, axes) != rows for each in affines.values()):
        return None
    free = [row for row in range(n_rows) if row not in rows.values()]
    for row in free.copy():
        if len({each.origin[row] for each in affines.values()}) == 1:
            continue
        found = [
            (axis, along)
            for axis in axes
            if axis not in rows and (along := _positions_along(axis, row, affines)) is not None
        ]
        if len(found) != 1 or (step := _even_step(found[0][1])) is None:
            return None
        axis = found[0][0]
        rows[axis], steps[axis] = row, step
        free.remove(row)
    rest = [axis for axis in axes if axis not in rows]
    if len(rest) == len(free):
        rows |= zip(rest, free, strict=True)
    return {index: _with_rows(space, rows, steps) for index, space in spaces.items()}


def _positions_along(
    axis: int, row: int, affines: Mapping[tuple[int, ...], Affine]
) -> dict[int, float] | None:
    """Return a coordinate by the number of the slice along an axis; None if others change it."""
    found = {index[axis]: each.origin[row] for index, each in affines.items()}
    is_alone = all(found[index[axis]] == each.origin[row] for index, each in affines.items())
    return found if is_alone else None


def _even_step(positions: Mapping[int, float]) -> float | None:
    """Return the step between positions by the number of the slice; None if it is not even."""
    (first, start), *others = sorted(positions.items())
    number, position = others[0]
    # Positions were rounded, and so is their difference.
    step = float(f"{(position - start) / (number - first):.12g}")
    if any(abs(start + (n - first) * step - at) > abs(step) * _TOLERANCE for n, at in others):
        return None
    return step


def space_of_slices(
    spaces: Mapping[tuple[int, ...], Space], axes: tuple[int, ...]
) -> tuple[Space, bool]:
    """Return the space of an array from those of its slices, and whether it is that of all.

    If slices lie at different places, only the steps that all have in common are known.
    """
    first = next(iter(spaces.values()))
    if all(space == first for space in spaces.values()):
        return without_other_places(first, axes), True
    if any(space.axes != first.axes for space in spaces.values()):
        return Space.unknown(len(first.axes)), False
    stepped = with_slice_steps(spaces, axes)
    placed = stepped or {i: without_other_places(space, axes) for i, space in spaces.items()}
    start, one = next(iter(placed.items()))
    affines = [space.affine for space in placed.values()]
    if one.affine is None or any(a is None or a.matrix != one.affine.matrix for a in affines):
        return _without_places(one), False
    elsewhere = _outside(one.affine.origin, axes)
    if stepped is None or any(a and _outside(a.origin, axes) != elsewhere for a in affines):
        return one, False
    return crop(one, [-n for n in start]), True


def _outside(values: Sequence[T], axes: tuple[int, ...]) -> list[T]:
    """Return the values of the axes that slices have."""
    return [values[axis] for axis in _axes_in_file(axes, len(values))]


def _make_header(whole: Format, axes: tuple[int, ...], block: Header) -> bytes:
    """Return the header of a block, without the axes that files do not have."""
    there = _axes_in_file(axes, len(block.shape))
    order = Layout(tuple(there.index(axis) for axis in block.layout.axes if axis in there))
    shape = tuple(block.shape[axis] for axis in there)
    space = None if block.space is None else select(block.space, there)
    return whole.make_header(replace(block, shape=shape, layout=order, space=space))


def _axes_in_file(axes: tuple[int, ...], n_axes: int) -> list[int]:
    return [axis for axis in range(n_axes) if axis not in axes]
