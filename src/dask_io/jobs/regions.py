"""Find out which part of a source a user means: by position, by dimension, or by coordinates."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats.opening import open_source
from dask_io.geometry.named import is_coordinate
from dask_io.geometry.ranges import Range, Ranges, bounds_of
from dask_io.hierarchy.select import paths_near
from dask_io.jobs.tree_source import find_group
from dask_io.storage.location import locate
from dask_io.stores.array_like import BlockArray
from dask_io.stores.container import INSIDE
from dask_io.stores.coordinates import Coordinate, index_along, position_along
from dask_io.stores.spec import SPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dask_io.geometry import Region
    from dask_io.hierarchy.tree import Tree
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
    shape = store.grid.shape
    positions = _Positions(store, names, described.get(SPACE), storage_options)
    try:
        given = ranges.by_number(names, len(shape))
        region = ranges.region(shape, names, positions.find)
    except ValueError as error:
        raise UsageError(str(error)) from None
    said = []
    for axis, each in sorted(given.items()):
        name = names[axis] if names else None
        if name is not None and (each.has_values or name in ranges.by_axis):
            elements = partial(positions.elements, axis, each)
            said += _resolution(name, each, region.bounds[axis], elements)
    if not region.size and all(shape):
        resolved = f" ({', '.join(said)})" if said else ""
        raise UsageError(
            f"the region {ranges} is empty{resolved}; give ranges with at least one element"
        )
    return Resolved(region, ", ".join(said))


@dataclass(frozen=True, slots=True)
class _Positions:
    """Where the elements of an array are: in its coordinates, and else in its space."""

    store: Source
    names: Sequence[str | None] | None
    space: Space | None
    storage_options: Mapping[str, Any] | None

    def coordinate(self, axis: int) -> Coordinate | None:
        name = None if self.names is None else self.names[axis]
        if name is None:
            return None
        length = self.store.grid.shape[axis]
        return _coordinate_near(self.store, name, length, self.storage_options)

    def find(self, axis: int, value: str) -> int:
        """Return the index of the first element at a value or behind it."""
        name, place = None if self.names is None else self.names[axis], self.store.place
        if (coordinate := self.coordinate(axis)) is not None:
            return coordinate.find(value)
        if self.space is not None and self.space.affine is not None:
            return _index_in(self.space.affine, self.store, axis, name, value)
        if name is None:
            raise UsageError(
                f"{value} is a value, but axis {axis} of {place} has no name and so no "
                "coordinate; give indices"
            )
        raise UsageError(
            f"{place} has no coordinate {name} in which values could be found; give indices"
        )

    def elements(self, axis: int, given: Range, first: int, last: int) -> list[str]:
        """Return the first and the last element of a range as text, nothing if unknown.

        Positions in space are only for ranges that are given by position.
        """
        if (coordinate := self.coordinate(axis)) is not None:
            return [coordinate.show(first), coordinate.show(last)]
        if self.space is None or self.space.affine is None or not given.has_values:
            return []
        affine, unit = self.space.affine, self.space.axes[axis].unit
        start, stop = (f"{position_along(affine, axis, index):.6g}" for index in (first, last))
        return [start, f"{stop} {unit}" if unit else stop]


def _resolution(
    name: str,
    given: Range,
    bounds: tuple[int, int],
    elements: Callable[[int, int], list[str]],
) -> list[str]:
    """Describe which indices a range of a dimension has, and where its ends are.

    `elements` returns the first and the last element between indices as text, if they are known.
    Nothing is said about a range of indices if they are not, or if they only count.
    """
    start, stop = bounds
    ends: list[str] = []
    if start < stop:
        # A coordinate that cannot be read or shown is not needed for indices.
        with suppress(DataError, StorageError, UsageError, IndexError):
            ends = elements(start, stop - 1)
    shown = f", {' to '.join(ends)}" if ends else ""
    if given.has_values:
        return [f"{name}={given} is {start}:{stop}{shown}"]
    if not ends or ends == [str(start), str(stop - 1)]:
        return []
    values = Range(*(None if each is None else str(each) for each in given))
    is_number = all(_NUMBER.fullmatch(each) for each in ends)
    advice = f"; for values write {name}={values}" if is_number else ""
    return [f"{name}={given} are indices{shown}{advice}"]


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
    store: Source, name: str, length: int, storage_options: Mapping[str, Any] | None
) -> Coordinate | None:
    """Return the coordinate of an array's dimension: in its group, or in one around it.

    Groups may have dimensions of one name with different lengths, so an array of another shape is
    not the coordinate. None if there is none.
    """
    for place in _places_near(store, name, storage_options):
        try:
            found = open_source(place, storage_options=storage_options)
        except (DataError, StorageError, UsageError):
            continue
        if found.grid.shape == (length,):
            return _read(name, found)
    return None


def _places_near(
    store: Source, name: str, storage_options: Mapping[str, Any] | None
) -> Iterator[str | Location]:
    described = store.describe()
    path, inside = described.get("path"), described.get("inside")
    if isinstance(path, str) and isinstance(inside, str):
        yield from (f"{path}{INSIDE}/{each}" for each in paths_near(inside.strip("/"), name))
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
        resolution = _resolution(str(name), each, found, partial(_elements, tree, str(name)))
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
    """Return the index of a value in the coordinates of a dimension, if they agree."""
    places: dict[int, str] = {}
    for name, each in _coordinates_in(tree, dimension):
        places.setdefault(each.find(value), name)
    if len(places) > 1:
        (one, first), (other, second), *_ = places.items()
        group = (second.rpartition("/") if "/" in second else first.rpartition("/"))[0]
        raise UsageError(
            f"{value} is at index {one} of {first}, but at index {other} of {second}; give "
            f"indices, or one group, as in {tree.place}{INSIDE}/{group}"
        )
    return next(iter(places))


def _elements(tree: Tree, dimension: str, first: int, last: int) -> list[str]:
    """Return elements of the coordinates of a dimension as text, nothing if they differ."""
    found = [[each.show(first), each.show(last)] for _, each in _coordinates_in(tree, dimension)]
    return found[0] if all(each == found[0] for each in found) else []


def _coordinates_in(tree: Tree, dimension: str) -> Iterator[tuple[str, Coordinate]]:
    """Yield the coordinates of a dimension: in a file, several groups may have one."""
    found = {
        name: each.source
        for name, each in tree.arrays.items()
        if each.dimensions == (dimension,) and is_coordinate(name, each.dimensions)
    }
    readable = [(name, source) for name, source in found.items() if source is not None]
    if not readable:
        raise UsageError(
            f"{tree.place} has no coordinate {dimension} in which values could be found; give "
            "indices"
        )
    for name, source in readable:
        yield name, _read(dimension, source)
