"""Find out which part of a source a user means: by position, by dimension, or by coordinates."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats.opening import open_source
from dask_io.geometry.ranges import Range, Ranges, bounds_of
from dask_io.jobs.tree_source import find_group
from dask_io.storage.location import locate
from dask_io.stores.array_like import BlockArray
from dask_io.stores.container import INSIDE
from dask_io.stores.coordinates import Coordinate, index_along
from dask_io.stores.spec import SPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dask_io.geometry import Region
    from dask_io.hierarchy.tree import Tree, TreeArray
    from dask_io.storage.location import Location
    from dask_io.stores.space import Affine, Space
    from dask_io.stores.store import Source

_NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?")
# Bytes of a coordinate whose values are searched.
_LONGEST = 32 * 2**20


class Resolved(NamedTuple):
    """A region, and how the values in it were resolved to indices."""

    region: Region
    said: str


def region_of(
    ranges: Ranges,
    store: Source,
    described: Mapping[str, Any],
    storage_options: Mapping[str, Any] | None = None,
) -> Resolved:
    """Return the region that ranges describe of an array with this metadata.

    A value is that of the array's coordinate. If it has none, it is a position in its space.

    Raises
    ------
    UsageError
        If there is none, it is empty, or values in it cannot be found.
    """
    names: Sequence[str | None] | None = described.get("dimension_names")
    space: Space | None = described.get(SPACE)
    shape = store.grid.shape

    def find(axis: int, value: str) -> int:
        name = None if names is None else names[axis]
        near = None if name is None else _coordinate_near(store, name, storage_options)
        if near is not None:
            return near.find(value)
        if space is not None and space.affine is not None:
            return _index_in(space.affine, store, axis, name, value)
        if name is None:
            raise UsageError(
                f"the range {ranges} has values, but axis {axis} has no name and so no "
                "coordinate; give indices"
            )
        raise UsageError(
            f"{store.place} has no coordinate {name} in which values could be found; give indices"
        )

    try:
        given = ranges.by_number(names, len(shape))
        region = ranges.region(shape, names, find)
    except ValueError as error:
        raise UsageError(str(error)) from None
    near = partial(_coordinate_near, store, storage_options=storage_options)
    said = []
    for axis, each in sorted(given.items()):
        name = names[axis] if names else None
        if name is not None and (each.has_values or name in ranges.by_axis):
            said += _resolution(name, each, region.bounds[axis], near)
    if not region.size and all(shape):
        resolved = f" ({', '.join(said)})" if said else ""
        raise UsageError(
            f"the region {ranges} is empty{resolved}; give ranges with at least one element"
        )
    return Resolved(region, ", ".join(said))


def _resolution(
    name: str,
    given: Range,
    bounds: tuple[int, int],
    coordinate_of: Callable[[str], Coordinate | None],
) -> list[str]:
    """Describe which indices a range of a dimension has, and which elements of its coordinate.

    Nothing is said about a range of indices without a coordinate, or if that counts its elements.
    """
    start, stop = bounds
    ends: list[str] = []
    if start < stop:
        # A coordinate that cannot be read or shown is not needed for indices.
        with suppress(DataError, StorageError, UsageError, IndexError):
            if (coordinate := coordinate_of(name)) is not None:
                ends = [coordinate.show(start), coordinate.show(stop - 1)]
    elements = f", {' to '.join(ends)}" if ends else ""
    if given.has_values:
        return [f"{name}={given} is {start}:{stop}{elements}"]
    if not ends or ends == [str(start), str(stop - 1)]:
        return []
    values = Range(*(None if each is None else str(each) for each in given))
    is_number = all(_NUMBER.fullmatch(each) for each in ends)
    advice = f"; for values write {name}={values}" if is_number else ""
    return [f"{name}={given} are indices{elements}{advice}"]


def _index_in(affine: Affine, store: Source, axis: int, name: str | None, value: str) -> int:
    shown = f"axis {axis}" if name is None else name
    try:
        found = index_along(affine, store.grid.shape, axis, value)
    except ValueError:
        raise UsageError(
            f"{value} is not a position along {shown}; write a number, as in @-5:@3.5"
        ) from None
    if found is None:
        raise UsageError(
            f"{shown} of {store.place} lies obliquely in the world, so no single index along it "
            "has a given position; give indices, which the inverse of the affine map yields"
        )
    return found


def _coordinate_near(
    store: Source, name: str, storage_options: Mapping[str, Any] | None
) -> Coordinate | None:
    """Return the coordinate of an array's dimension: in its group, or in one around it.

    None if there is none.
    """
    for place in _places_near(store, name, storage_options):
        try:
            found = open_source(place, storage_options=storage_options)
        except (DataError, StorageError, UsageError):
            continue
        return _read(name, found)
    return None


def _places_near(
    store: Source, name: str, storage_options: Mapping[str, Any] | None
) -> Iterator[str | Location]:
    described = store.describe()
    path, inside = described.get("path"), described.get("inside")
    if isinstance(path, str) and isinstance(inside, str):
        groups = inside.strip("/").split("/")[:-1]
        for n_groups in range(len(groups), -1, -1):
            yield f"{path}{INSIDE}/{'/'.join([*groups[:n_groups], name])}"
        return
    folder = locate(store.place, storage_options).parent
    while find_group(folder) is not None:
        yield folder / name
        folder = folder.parent


def _read(name: str, source: Source) -> Coordinate:
    n_bytes = prod(source.grid.shape) * source.dtype.itemsize
    if n_bytes > _LONGEST:
        raise UsageError(
            f"the coordinate {name} has {n_bytes:,} bytes, but at most {_LONGEST:,} are searched; "
            "give indices"
        )
    return Coordinate(name, BlockArray(source)[...], source.metadata.get("attributes", {}))


class Part(NamedTuple):
    """The bounds of some dimensions, and how the values in them were resolved to indices."""

    bounds: Mapping[str, tuple[int, int]]
    said: str


def part_of(tree: Tree, ranges: Ranges) -> Part:
    """Return the bounds of the dimensions of a group or a file that ranges describe.

    Raises
    ------
    UsageError
        If ranges are not given by dimension, a dimension has several lengths, or a range is empty.
    """
    if tree.levels:
        raise UsageError(
            f"{tree.place} is an image with several levels, whose positions differ; give one "
            f"level, as in {tree.place}{INSIDE}/{next(iter(tree.arrays))}"
        )
    ranges = _by_name(tree, ranges)
    bounds, said = {}, []
    for name, each in ranges.by_axis.items():
        length = _length_of(tree, str(name))
        try:
            found = bounds_of(each, length, name, partial(_find, tree, str(name)))
        except ValueError as error:
            raise UsageError(str(error)) from None
        resolution = _resolution(str(name), each, found, partial(_coordinate_in, tree))
        if length and found[0] == found[1]:
            resolved = f" ({resolution[0]})" if resolution else ""
            raise UsageError(
                f"the range {each} of {name} is empty{resolved}; give at least one element"
            )
        bounds[str(name)] = found
        said += resolution
    return Part(bounds, ", ".join(said))


def _by_name(tree: Tree, ranges: Ranges) -> Ranges:
    """Return ranges by dimension name; if all else belongs to one array, its axes count."""
    main = tree.arrays.get(tree.main or "")
    if main is not None and all(main.dimensions):
        try:
            given = ranges.by_number(main.dimensions, len(main.dimensions))
        except ValueError as error:
            raise UsageError(str(error)) from None
        return Ranges({str(main.dimensions[axis]): each for axis, each in given.items()})
    known = sorted({name for each in tree.arrays.values() for name in each.dimensions if name})
    listed = f"the dimensions are {', '.join(known)}" if known else "all dimensions are unnamed"
    if any(isinstance(axis, int) for axis in ranges.by_axis):
        example = f", as in {known[0]}=0:10" if known else ""
        raise UsageError(
            f"{tree.place} holds several arrays; give ranges by dimension name{example}: {listed}"
        )
    for name in ranges.by_axis:
        if name not in known:
            raise UsageError(f"no array has a dimension {name!r}; {listed}")
    return ranges


def _length_of(tree: Tree, dimension: str) -> int:
    """Return the length of a dimension, which all arrays along it must have."""
    lengths: dict[int, str] = {}
    for name, each in tree.arrays.items():
        for axis, length in zip(each.dimensions, each.shape, strict=False):
            if axis == dimension:
                lengths.setdefault(length, name)
    if len(lengths) > 1:
        (one, first), (other, second), *_ = lengths.items()
        raise UsageError(
            f"the dimension {dimension} has {one:,} elements in {first}, but {other:,} in "
            f"{second}; give one array, as in {tree.place}{INSIDE}/{first}"
        )
    return next(iter(lengths))


def _find(tree: Tree, dimension: str, value: str) -> int:
    """Return the index of a value in the coordinate of a dimension."""
    return _coordinate_in(tree, dimension).find(value)


def _coordinate_in(tree: Tree, dimension: str) -> Coordinate:
    """Return the coordinate of a dimension of a group or a file."""
    found = {
        name: each
        for name, each in tree.arrays.items()
        if name.rpartition("/")[2] == dimension and each.dimensions == (dimension,)
    }
    readable: list[TreeArray] = [each for each in found.values() if each.source is not None]
    if not readable or readable[0].source is None:
        raise UsageError(
            f"{tree.place} has no coordinate {dimension} in which values could be found; give "
            "indices"
        )
    return _read(dimension, readable[0].source)
