"""Check one listing of a directory against the expected blocks; report all problems at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from math import prod
from operator import call
from typing import TYPE_CHECKING, TypeGuard

from dask_io.errors import DataError
from dask_io.storage.files import medium_of
from dask_io.storage.medium import NOT_A_FILE
from dask_io.stores.block_names import BlockNames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from dask_io.geometry import Axis, Grid
    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format
    from dask_io.stores.block_names import Names

COPY_MISSING = (
    "copy or write the missing files; if they are empty on purpose, write blocks of zeros"
)
"""Advice for files that somebody else has written."""
LINK_SLICES = (
    "add the missing slices, or link those before or after the gap into a folder of their own"
)
"""Advice for folders with gaps between slices, which are not opened."""
# Problems that are kept: a hostile description may claim any number of blocks.
_MOST_SHOWN = 1000


class Problems:
    """Problems with a store's blocks; beyond a thousand they are only counted."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.shown: list[str] = []
        self.advice = ""
        self.n_found = 0
        self._named: set[str] = set()

    def add(self, name: str, problem: str) -> None:
        """Record a problem with a file, unless the file has one already."""
        if name in self._named:
            return
        self._named.add(name)
        self.n_found += 1
        if len(self.shown) < _MOST_SHOWN:
            self.shown.append(f"{name} {problem}")

    def raise_if_any(self) -> None:
        """Raise all of them as one error.

        Raises
        ------
        DataError
            If there was a problem.
        """
        if self.n_found:
            raise DataError(self.place, self.shown, self.advice, self.n_found)


def scan(folder: Location) -> dict[str, int]:
    """Return the size of every file in a directory by name; links are followed, nothing is opened.

    Entries that are not regular files get `NOT_A_FILE`.
    """
    return medium_of(folder).sizes(folder)


@dataclass(slots=True)
class Matches:
    """Files that match a pattern, by their numbers; two files of one block are a problem."""

    by_numbers: dict[tuple[int, ...], str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    doubles: list[tuple[str, str]] = field(default_factory=list)


def match_names(files: Iterable[str], names: Names) -> Matches:
    """Sort out which files are blocks."""
    found = Matches()
    for name in sorted(files):
        numbers = names.parse(name)
        if numbers is None:
            found.others.append(name)
        elif (first := found.by_numbers.setdefault(numbers, name)) != name:
            found.doubles.append((name, first))
    return found


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected contents of a directory of blocks."""

    grid: Grid
    names: Names
    itemsize: int
    """Bytes of an element; 0 if files are compressed, so that their sizes are unknown."""
    format: Format
    absent: AbstractSet[tuple[int, ...]] = frozenset()
    """Blocks that may be missing."""
    offset: int = 0
    """Bytes before the data, if files do not describe themselves."""

    def name_of(self, index: tuple[int, ...]) -> str:
        """Return the name of a block."""
        return self.names.name_of(index, self.grid.block(index).start)


@dataclass(slots=True)
class Checked:
    """Results of a listing for blocks without problems so far."""

    odd_names: dict[tuple[int, ...], str] = field(default_factory=dict)
    """Names with more zeros than we would write."""
    by_excess: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    """Blocks by the number of bytes in their files that are not data."""

    @property
    def unusual(self) -> list[tuple[int, ...]]:
        """Blocks whose files have more or fewer bytes that are not data than most."""
        usual = max(self.by_excess.values(), key=len, default=None)
        return [i for blocks in self.by_excess.values() if blocks is not usual for i in blocks]


def check_blocks(
    files: Mapping[str, int], matches: Matches, expected: Expected, problems: Problems
) -> Checked:
    """Record blocks that are missing, extra or of the wrong size."""
    axes, by_offset = expected.grid.axes, expected.names.by_offset
    locate = [locator(axis, by_offset=by_offset) for axis in axes]
    lengths = [_length_of(axis) for axis in axes]
    size_of_data = expected.format.size_of_data
    present: set[tuple[int, ...]] = set()
    checked = Checked()
    for name, first in matches.doubles:
        problems.add(name, f"is extra: {first} is the same block")
    for numbers, name in matches.by_numbers.items():
        index = tuple(map(call, locate, numbers))
        if not is_inside(index):
            problems.add(name, "is extra: it lies outside the grid of blocks")
            continue
        present.add(index)
        if name != expected.names.name_of(numbers, numbers):
            checked.odd_names[index] = name
        data = size_of_data(expected.itemsize * prod(map(call, lengths, index)))
        problem = _wrong_size(files[name], data, expected)
        if problem:
            problems.add(name, problem)
        else:
            checked.by_excess.setdefault(files[name] - data, []).append(index)
    present |= expected.absent
    n_missing = expected.grid.n_blocks - len(present)
    names = expected.names
    if n_missing and isinstance(names, BlockNames) and names.only_slices:
        (axis,) = names.slice_axes
        report_missing_slices(names, (i[axis] for i in present), axes[axis].n_blocks, problems)
        return checked
    if present and any(min(along) > 0 for along in zip(*present, strict=True)):
        problems.advice = "numbers start at 0 in this pattern; do your names start at 1?"
    for index in _first_missing(expected.grid, present, min(n_missing, _MOST_SHOWN)):
        problems.add(expected.name_of(index), "is missing")
    if n_missing:
        problems.advice = problems.advice or COPY_MISSING
    problems.n_found += max(0, n_missing - _MOST_SHOWN)
    return checked


def report_missing_slices(
    names: BlockNames, present: Iterable[int], n_slices: int, problems: Problems
) -> None:
    """Record the gaps between slices that are numbered along one axis."""
    (axis,), expected = names.slice_axes, 0
    for index in [*sorted(present), n_slices]:
        if index > expected:
            place = [expected if each == axis else 0 for each in range(names.n_axes)]
            first, last = names.number_of(expected), names.number_of(index - 1)
            name = names.name_of(place, place)
            if first == last:
                problems.add(f"slice {first}", f"is missing: there is no {name}")
            else:
                problems.add(f"slices {first} to {last}", f"are missing, from {name} on")
            problems.advice = LINK_SLICES
        expected = index + 1


def locator(axis: Axis, *, by_offset: bool) -> Callable[[int], int | None]:
    """Return a function from the number in a name to the block's, None outside the grid."""

    def locate(number: int) -> int | None:
        if not by_offset:
            return number if 0 <= number < axis.n_blocks else None
        index = axis.index_at(number)
        return index if number < axis.length and axis.start_of(index) == number else None

    return cache(locate)


def is_inside(index: tuple[int | None, ...]) -> TypeGuard[tuple[int, ...]]:
    """Tell whether all numbers in a name have been found in the grid."""
    return None not in index


def _length_of(axis: Axis) -> Callable[[int], int]:
    return cache(lambda index: axis.start_of(index + 1) - axis.start_of(index))


def _wrong_size(size: int, data: int, expected: Expected) -> str:
    if size == NOT_A_FILE:
        return "is not a file"
    if not expected.itemsize:
        return ""
    if expected.offset and size != data + expected.offset:
        word = "truncated" if size < data + expected.offset else "too long"
        found = f"{expected.offset} before the data and {data} of data"
        return f"is {word}: it has {size} bytes, expected {found}"
    if size < data:
        return f"is truncated: it has {size} bytes, but its data alone needs {data}"
    if size > data + expected.offset + expected.format.longest_header:
        return f"is too long: it has {size} bytes, but its data needs only {data}"
    return ""


def _first_missing(
    grid: Grid, present: set[tuple[int, ...]], n_wanted: int
) -> Iterator[tuple[int, ...]]:
    # Counted one by one, because the grid of a hostile manifest may be too large for a list.
    flat = 0
    while n_wanted > 0:
        index = _unravel(flat, grid.counts)
        if index not in present:
            yield index
            n_wanted -= 1
        flat += 1


def _unravel(flat: int, counts: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for count in reversed(counts):
        flat, i = divmod(flat, count)
        index.append(i)
    return tuple(reversed(index))
