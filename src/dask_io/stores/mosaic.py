"""Block files that are opened as separate sources, and combined into one array.

Files of some formats are more than a header and elements: they may be compressed, in chunks, or
have their own scaling of stored values. Each file is opened by its format. The blocks of the array
are the chunks of all files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from operator import call
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64_intdigest

from dask_io.errors import DataError, UsageError
from dask_io.geometry import Axis, Grid
from dask_io.storage.medium import NOT_A_FILE
from dask_io.storage.tally import Tally
from dask_io.stores.listing import Problems, is_inside, locator, match_names
from dask_io.stores.not_kept import DIFFERING, is_same
from dask_io.stores.scaling import BOUNDS, SCALING, RealValues, Scaling, scaling_in
from dask_io.stores.slices import with_slice_steps, without_other_places
from dask_io.stores.space import Space, crop, is_close
from dask_io.stores.spec import SPACE
from dask_io.stores.store import Access, SourceDefaults

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dask_io.geometry import Layout, Region
    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format
    from dask_io.stores.block_names import BlockNames
    from dask_io.stores.store import BlockReader, Source

FILES = "files"
"""Key of the pattern of files in the description of a source that is combined from them."""
_MOST_SHOWN = 1000
# The most slices whose scaling is kept.
_MOST_SLICES = 2**22
OF_ONE_FILE = frozenset(("chunks", "maxshape", SPACE, SCALING, BOUNDS))
"""Keys of metadata that describe a single file, not the array."""
# Entries that differ between the blocks of one array; those of the first file are used.
_OF_EACH_FILE = frozenset(("start", "length", "ident", "history", "codecs"))
_OF_EACH_FILE |= frozenset(("valid_range", "valid_min", "valid_max"))
# Lists of names; the array has the names of all files.
_NAMES = frozenset(("attributes_of_file", "attributes_of_groups", "coordinates"))


def open_mosaic(
    folder: Location,
    files: Mapping[str, int],
    format: Format,  # noqa: A002 - the word that users know
    names: BlockNames,
) -> Mosaic:
    """Open all files that match a pattern, and combine them.

    If the scaling of the files cannot be expressed as one scaling of whole slices, the array
    contains the real values.

    Raises
    ------
    DataError
        If they are not the blocks of one array; it lists all that do not fit.
    """
    place, matches = str(folder), match_names(files, names)
    problems = Problems(place)
    for name, first in matches.doubles:
        problems.add(name, f"is extra: {first} is the same block")
    by_numbers = {
        numbers: name
        for numbers, name in sorted(matches.by_numbers.items())
        if min(numbers) >= 0 and files[name] != NOT_A_FILE
    }
    if not by_numbers:
        raise DataError(place, [f"no file is called like {names.pattern}"])
    opened = _open_files(folder, format, by_numbers, problems)
    problems.raise_if_any()
    grids = _lay_out(opened, by_numbers, names, problems)
    locators = [locator(axis, by_offset=names.by_offset) for axis in grids.files.axes]
    sources = {
        index: source
        for numbers, source in opened.items()
        if is_inside(index := tuple(map(call, locators, numbers)))
    }
    assert len(sources) == grids.files.n_blocks == len(opened), "every file has its place"
    space = common_space(sources, grids.files, problems, names.slice_axes)
    problems.raise_if_any()
    return _scale_alike(folder, names, grids, sources, space)


def _open_files(
    folder: Location,
    format: Format,  # noqa: A002 - the word that users know
    by_numbers: Mapping[tuple[int, ...], str],
    problems: Problems,
) -> dict[tuple[int, ...], Source]:
    assert format.open_file is not None, f"files of {format.name} cannot be opened alone"
    opened: dict[tuple[int, ...], Source] = {}
    for numbers, name in by_numbers.items():
        try:
            source = format.open_file(folder / name)
        except (DataError, UsageError) as error:
            problems.add(name, str(error).removeprefix(f"{folder / name}: "))
            continue
        first = next(iter(opened.values()), source)
        if len(source.grid.shape) != len(numbers):
            found = f"{len(source.grid.shape)} axes, but its name numbers {len(numbers)}"
            problems.add(name, f"has {found}")
            problems.advice = "give one field per axis; for slices along axis 0, write {0:slice}"
        for word in ("dtype", "layout"):
            if getattr(source, word) != getattr(first, word):
                found, expected = getattr(source, word), getattr(first, word)
                problems.add(name, f"has {word} {found}, expected {expected}")
        opened[numbers] = source
    return opened


@dataclass(frozen=True)
class _Grids:
    """The grids of the array: into files, and into the blocks of these files."""

    files: Grid
    blocks: Grid


def _lay_out(
    opened: Mapping[tuple[int, ...], Source],
    by_numbers: Mapping[tuple[int, ...], str],
    names: BlockNames,
    problems: Problems,
) -> _Grids:
    """Place files one after another along each axis; record those that do not fit."""
    along = [sorted(set(each)) for each in zip(*opened, strict=True)]
    expected = along if names.by_offset else [range(each[-1] + 1) for each in along]
    for numbers in first_missing(expected, opened):
        problems.add(names.name_of(numbers, numbers), "is missing")
    problems.raise_if_any()
    corner = next(iter(opened))
    of_files: list[Axis] = []
    of_blocks: list[Axis] = []
    for axis, positions in enumerate(along):
        position, lengths = 0, list[int]()
        runs: list[tuple[int, int]] = []
        for number in positions:
            one = opened[(*corner[:axis], number, *corner[axis + 1 :])]
            if names.by_offset and number != position:
                name = by_numbers[(*corner[:axis], number, *corner[axis + 1 :])]
                problems.add(name, f"begins at {number} along axis {axis}, expected {position}")
            lengths.append(one.grid.shape[axis])
            runs += one.grid.axes[axis].runs
            position += lengths[-1]
        if not all(lengths):
            problems.add(f"files along axis {axis}", "have no elements")
            problems.raise_if_any()
        of_files.append(Axis.of(lengths))
        of_blocks.append(Axis(tuple(runs)))
    for numbers, source in opened.items():
        for axis, number in enumerate(numbers):
            one = opened[(*corner[:axis], number, *corner[axis + 1 :])]
            if source.grid.axes[axis] != one.grid.axes[axis]:
                found = f"{source.grid} blocks of {source.grid.shape}"
                problems.add(by_numbers[numbers], f"has {found}, unlike {one.place} at axis {axis}")
    problems.raise_if_any()
    return _Grids(Grid(tuple(of_files)), Grid(tuple(of_blocks)))


def first_missing(
    expected: Sequence[Sequence[int]], opened: Collection[tuple[int, ...]]
) -> Iterator[tuple[int, ...]]:
    """Yield the numbers of missing files, up to a thousand."""
    # One by one, because a single name with a large number makes the list too long.
    n_expected = prod(map(len, expected))
    for flat in range(min(n_expected, len(opened) + _MOST_SHOWN)):
        rest, numbers = flat, list[int]()
        for each in reversed(expected):
            rest, place = divmod(rest, len(each))
            numbers.insert(0, each[place])
        if tuple(numbers) not in opened:
            yield tuple(numbers)


def common_space(
    sources: Mapping[tuple[int, ...], Source],
    grid: Grid,
    problems: Problems,
    slice_axes: tuple[int, ...] = (),
) -> Space | None:
    """Return the space of the array; record files that lie elsewhere in the world."""
    found = {index: source.metadata.get(SPACE) for index, source in sources.items()}
    spaces = {index: space for index, space in found.items() if isinstance(space, Space)}
    if not spaces:
        return None
    # Files that do not say where they lie take the place that their names give them.
    known = {index: space for index, space in spaces.items() if space.is_known}
    known = with_slice_steps(known, slice_axes) or {
        index: without_other_places(space, slice_axes) for index, space in known.items()
    }
    first_index, first = next(iter((known or spaces).items()))
    whole = crop(first, [-low for low in grid.block(first_index).start])
    if len(found) > 1 and all(space == first for space in known.values()):
        # The files have no positions.
        return whole
    for index, space in known.items():
        block = grid.block(index)
        expected = crop(whole, block.start)
        if is_close(expected, space, block.shape):
            continue
        if is_close(expected, replace(space, axes=expected.axes), block.shape):
            problem = f"has axes {_axes_text(space)}, expected {_axes_text(expected)}"
        else:
            problem = "lies at another place in the world than its name"
        problems.add(sources[index].place, problem)
    return whole


def _axes_text(space: Space) -> str:
    """Return names and units of axes, and types if there are any, for messages."""
    words = ((axis.name, axis.type, axis.unit and f"in {axis.unit}") for axis in space.axes)
    return ", ".join(" ".join(filter(None, each)) or "without a name" for each in words)


def _scale_alike(
    folder: Location,
    names: BlockNames,
    grids: _Grids,
    sources: dict[tuple[int, ...], Source],
    space: Space | None,
) -> Mosaic:
    """Combine the scalings of all files; if they contradict each other, apply them instead."""
    metadata = _agreed_metadata(sources)
    scalings = {index: scaling_in(source.metadata) for index, source in sources.items()}
    bounds = [source.metadata.get(BOUNDS) for source in sources.values()]
    if any(scalings.values()):
        parts = [(grids.files.block(i), scaling) for i, scaling in scalings.items() if scaling]
        together = combine(parts, grids.files.shape) if len(parts) == len(sources) else None
        if together is not None:
            metadata[SCALING] = together.to_json()
        else:
            sources = {
                index: source if (found := scalings[index]) is None else RealValues(source, found)
                for index, source in sources.items()
            }
            metadata = _agreed_metadata(sources)
            bounds = [source.metadata.get(BOUNDS) for source in sources.values()]
    if all(bounds):
        metadata[BOUNDS] = [min(b[0] for b in bounds if b), max(b[1] for b in bounds if b)]
    if space is not None:
        metadata[SPACE] = space
    return Mosaic(
        folder, names, files=grids.files, grid=grids.blocks, sources=sources, metadata=metadata
    )


def _agreed_metadata(sources: Mapping[tuple[int, ...], Source]) -> dict[str, Any]:
    """Return the metadata on which all files agree, and the names of entries that differ."""
    described = [
        {key: value for key, value in source.metadata.items() if key not in OF_ONE_FILE | _NAMES}
        for source in sources.values()
    ]
    kept, differing = agree(described)
    for key in sorted(_NAMES):
        names = [name for source in sources.values() for name in source.metadata.get(key, ())]
        if names:
            kept[key] = list(dict.fromkeys(names))
    return {**kept, DIFFERING: differing} if differing else kept


def agree(described: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the entries that several files have in common, and the names of the others.

    Examples
    --------
    >>> agree([{"a": 1, "b": {"x": 1, "y": 2}}, {"a": 1, "b": {"x": 1, "y": 3}, "c": 4}])
    ({'a': 1, 'b': {'x': 1}}, ('b/y', 'c'))
    """
    first, kept, differing = described[0], dict[str, Any](), list[str]()
    for name in dict.fromkeys(name for each in described for name in each):
        values: list[Any] = [each.get(name) for each in described]
        if all(isinstance(value, dict) for value in values):
            kept[name], inner = agree(values)
            differing += [f"{name}/{key}" for key in inner]
        elif name in _OF_EACH_FILE and name in first:
            kept[name] = first[name]
        elif all(name in each and is_same(each[name], values[0]) for each in described):
            kept[name] = values[0]
        elif name not in _OF_EACH_FILE:
            differing.append(name)
    return kept, tuple(differing)


def combine(parts: list[tuple[Region, Scaling]], shape: tuple[int, ...]) -> Scaling | None:
    """Combine the scalings of parts of an array; None if parts of one slice differ.

    Examples
    --------
    >>> from dask_io.geometry import Region
    >>> one, two = (Scaling((0.0, 9.0), np.array(0.0), np.array(high)) for high in (1.0, 2.0))
    >>> left, right = Region((0, 0, 0), (1, 1, 1)), Region((0, 0, 1), (1, 1, 2))
    >>> combine([(left, one), (right, two)], (1, 1, 2)) is None
    True
    >>> behind = Region((1, 0, 0), (2, 1, 1))
    >>> combine([(left, one), (behind, two)], (2, 1, 1)).high.tolist()
    [1.0, 2.0]
    """
    ranges = [scaling.valid for _, scaling in parts]
    if all(scaling.is_identity for _, scaling in parts):
        valid = (min(low for low, _ in ranges), max(high for _, high in ranges))
        return Scaling(valid, np.asarray(valid[0]), np.asarray(valid[1]))
    if len(set(ranges)) > 1:
        return None
    fewest = max(scaling.n_axes for _, scaling in parts)
    for n_axes in range(fewest, max(fewest, len(shape) - 2) + 1):
        if prod(shape[:n_axes]) > _MOST_SLICES:
            return None
        ends = [_fill(parts, shape[:n_axes], end) for end in ("low", "high")]
        if ends[0] is not None and ends[1] is not None:
            return Scaling(ranges[0], ends[0], ends[1])
    return None


def _fill(
    parts: list[tuple[Region, Scaling]], shape: tuple[int, ...], end: str
) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Return the values of all slices, None if two parts differ."""
    found = np.full(shape, np.nan)
    for region, scaling in parts:
        slices: tuple[Any, ...] = (*region.slices[: len(shape)], ...)
        here, values = found[slices], getattr(scaling, end)
        values = values.reshape((*values.shape, *(1,) * (len(shape) - values.ndim)))
        if not (np.isnan(here) | (here == values)).all():
            return None
        here[...] = values
    return found


def is_mosaic(described: Mapping[str, Any]) -> bool:
    """Tell whether a description is that of a source combined from files."""
    return FILES in described


class Mosaic(SourceDefaults):
    """An array whose blocks are those of several files; any number may be read at once."""

    is_indivisible = True

    def __init__(
        self,
        folder: Location,
        names: BlockNames,
        *,
        files: Grid,
        grid: Grid,
        sources: Mapping[tuple[int, ...], Any],
        metadata: Mapping[str, Any],
    ) -> None:
        self.folder, self._names, self.files, self.grid = folder, names, files, grid
        # A plain dictionary, because a read-only view of one cannot be pickled.
        self.sources, self._metadata = sources, dict(metadata)
        self.tally = Tally()
        for source in sources.values():
            plain: Any = source.stored if isinstance(source, RealValues) else source
            plain.tally = self.tally

    @property
    def _first(self) -> Source:
        first: Source = next(iter(self.sources.values()))
        return first

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the array, read-only."""
        return MappingProxyType(self._metadata)

    @property
    def place(self) -> str:
        """The directory."""
        return str(self.folder)

    @property
    def block_names(self) -> BlockNames:
        """The pattern of the files."""
        return self._names

    @property
    def format(self) -> str:
        """Name of the format."""
        return self._first.format

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self._first.dtype

    @property
    def layout(self) -> Layout:
        """Order of the elements in each block."""
        return self._first.layout

    @cached_property
    def access(self) -> Access:
        """Blocks are decoded whole if those of any file are."""
        found = {source.access for source in self.sources.values()}
        return Access.ATOMIC if Access.ATOMIC in found else Access.ADDRESSABLE

    @cached_property
    def reused_bytes(self) -> int:
        """Staging bytes of a visit: the most that any file needs."""
        return max(int(source.reused_bytes) for source in self.sources.values())

    @cached_property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds: the most that any file needs."""
        return max(int(source.codec_bytes) for source in self.sources.values())

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes of all files."""
        return sum(source.n_bytes_on_disk for source in self.sources.values())

    @cached_property
    def n_absent(self) -> int | None:
        """Number of blocks that are not stored; None if unknown for some files."""
        found = [source.n_absent for source in self.sources.values()]
        known = [n for n in found if n is not None]
        return sum(known) if len(known) == len(found) else None

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the files can be opened again."""
        return {
            "format": self.format,
            "shape": list(self.grid.shape),
            "dtype": str(self.dtype),
            FILES: self._names.pattern,
            "folder": str(self.folder.absolute()),
        }

    def _find(self, index: tuple[int, ...]) -> tuple[Source, tuple[int, ...]]:
        """Return the file that contains a block, and the block's index in it."""
        starts = self.grid.block(index).start
        axes = self.files.axes
        file = tuple(axis.index_at(low) for axis, low in zip(axes, starts, strict=True))
        source, corner = self.sources[file], self.files.block(file).start
        inner = zip(source.grid.axes, starts, corner, strict=True)
        return source, tuple(axis.index_at(low - begin) for axis, low, begin in inner)

    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> AbstractContextManager[BlockReader]:
        """Visit a block of one of the files."""
        source, inner = self._find(index)
        return source.reader(inner, after=after)

    def check(self) -> None:
        """Check the blocks of every file."""
        for source in self.sources.values():
            source.check()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when the file of a block does, but not with the folder."""
        source, inner = self._find(index)
        file = self.files.index_at(self.grid.block(index).start)
        return xxh3_64_intdigest(f"{file}\0{source.fingerprint(inner)}".encode())

    def discard(self, index: tuple[int, ...]) -> None:  # noqa: ARG002 - none can be
        """Refuse: a file may hold other blocks too."""
        raise UsageError(f"blocks of {self.format} files cannot be consumed one by one")

    def discard_rest(self) -> None:
        """Keep the files."""
