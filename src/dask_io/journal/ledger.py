"""The durable write cells of a target, and their lines in the journal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from xxhash import xxh3_64_intdigest

from dask_io.geometry import Region

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dask_io.geometry import Grid

_CELL, _DROPPED, _FREED = "cell", "dropped", "freed"
CHANGED_LINE = "changed"
"""The line that records that the source changed while it was read."""
NOTHING = xxh3_64_intdigest(b"")
"""Checksum of a cell for which nothing was written: it holds only the fill value."""
_DURABLE, _STORED = 1, 2


@dataclass(frozen=True, slots=True)
class Written:
    """A write cell that has been written to its block's file.

    `region` is a region of the array. `checksum` is that of the bytes in storage order. `is_last`
    tells that the cell completes its block.
    """

    index: tuple[int, ...]
    region: Region
    checksum: int
    is_last: bool = False


def line_of(cell: Written, grid: Grid) -> str:
    """Return the journal line of a durable cell; a whole block has no region."""
    region = "-" if cell.region == grid.block(cell.index) else str(cell.region)
    return f"{_CELL} {join(cell.index)} {region} {cell.checksum:016x}"


def dropped_line_of(index: Iterable[int]) -> str:
    """Return the journal line of a lost block."""
    return f"{_DROPPED} {join(index)}"


def freed_line_of(index: Iterable[int], fingerprint: int) -> str:
    """Return the journal line of a removed source block."""
    return f"{_FREED} {join(index)} {fingerprint:016x}"


def any_freed(lines: Iterable[Sequence[str]]) -> bool:
    """Tell whether a journal lists removed source blocks."""
    return any(words[0] == _FREED for words in lines)


def any_changed(lines: Iterable[Sequence[str]]) -> bool:
    """Tell whether a journal records, for any array, that the source changed during a run."""
    return any(words[-1] == CHANGED_LINE for words in lines)


def freed_in(lines: Iterable[Sequence[str]]) -> dict[tuple[int, ...], int]:
    """Return the removed source blocks of a journal, with their fingerprints."""
    found = (_behind(words, 2) for words in lines if words[0] == _FREED)
    return {tuple(map(int, index.split(","))): int(mark, 16) for index, mark in found}


def join(index: Iterable[int]) -> str:
    """Format an index as one word."""
    return ",".join(map(str, index))


def _parse_cell(words: Sequence[str], grid: Grid) -> Written:
    numbers, region, checksum = _behind(words, 3)
    index = _parse_index(numbers, grid)
    block = grid.block(index)
    found = block if region == "-" else Region.parse(region, grid.shape)
    if found & block != found:
        raise ValueError(f"{region} is not a part of block {numbers}")
    return Written(index, found, int(checksum, 16))


def _behind(words: Sequence[str], n_words: int) -> Sequence[str]:
    """Return the words after the first one, of which there must be `n_words`."""
    if len(words) != 1 + n_words:
        raise ValueError(f"a line that starts with {words[0]} needs {n_words} more words")
    return words[1:]


def _parse_index(numbers: str, grid: Grid) -> tuple[int, ...]:
    index = tuple(map(int, numbers.split(",")))
    if index not in grid:
        raise ValueError(f"block {numbers} is out of bounds")
    return index


def whole_blocks(
    lines: Iterable[Sequence[str]], grid: Grid
) -> Iterator[tuple[tuple[int, ...], list[str]]]:
    """Yield the blocks that a journal completes, each with the lines of its cells.

    A block that the journal drops is yielded without lines, because it may have been complete.

    Examples
    --------
    >>> from dask_io.geometry import Grid
    >>> lines = ["cell 0 0:2 1f", "cell 1 - 2f", "cell 0 2:4 3f", "cell 2 8:9 4f", "dropped 1"]
    >>> for index, found in whole_blocks(map(str.split, lines), Grid.regular((12,), (4,))):
    ...     print(index, found)
    (1,) ['cell 1 - 2f']
    (0,) ['cell 0 0:2 1f', 'cell 0 2:4 3f']
    (1,) []
    """
    begun: dict[tuple[int, ...], dict[Region, str]] = {}
    missing: dict[tuple[int, ...], int] = {}
    for words in lines:
        if words[0] == _DROPPED:
            index = _parse_index(_behind(words, 1)[0], grid)
            begun.pop(index, None)
            missing.pop(index, None)
            yield index, []
        if words[0] != _CELL:
            continue
        cell = _parse_cell(words, grid)
        size = missing.get(cell.index, grid.block(cell.index).size)
        found = begun.setdefault(cell.index, {})
        if cell.region not in found:
            size -= cell.region.size
        found[cell.region] = " ".join(words)
        missing[cell.index] = size
        if not size:
            del missing[cell.index]
            yield cell.index, list(begun.pop(cell.index).values())


@dataclass
class Parts:
    """The durable parts of an incomplete block, as disjoint regions."""

    regions: list[Region]

    def covers(self, region: Region) -> bool:
        """Whether a region is durable."""
        # A region may start or end inside a part, between two cuts.
        cells = tuple(
            slice(np.searchsorted(cuts, low, "right") - 1, np.searchsorted(cuts, high))
            for cuts, (low, high) in zip(self.cuts, region.bounds, strict=True)
        )
        found = self._is_durable[cells]
        return bool(found.size and found.all())

    @cached_property
    def cuts(self) -> tuple[list[int], ...]:
        """Where parts start and end along each axis."""
        bounds = zip(*(part.bounds for part in self.regions), strict=True)
        return tuple(sorted({end for pair in along for end in pair}) for along in bounds)

    @cached_property
    def _is_durable(self) -> NDArray[Any]:
        """Whether each cell between the cuts is durable, for fast lookups."""
        found = np.zeros([len(cuts) - 1 for cuts in self.cuts], bool)
        for part in self.regions:
            pairs = zip(self.cuts, part.bounds, strict=True)
            found[tuple(slice(*np.searchsorted(cuts, bounds)) for cuts, bounds in pairs)] = True
        return found


class Ledger:
    """The durable blocks and parts of blocks of a target."""

    def __init__(self, grid: Grid, lines: Iterable[Sequence[str]] = ()) -> None:
        self.grid = grid
        self.n_blocks = 0
        self.parts: dict[tuple[int, ...], Parts] = {}
        # Lost blocks that the journal does not record yet.
        self.lost: list[tuple[int, ...]] = []
        # How often each block was dropped: cells recorded before do not count.
        self._n_drops: Counter[tuple[int, ...]] = Counter()
        # One byte per block, because there may be millions.
        self._blocks = bytearray(grid.n_blocks)
        begun: dict[tuple[int, ...], set[Region]] = {}
        missing: dict[tuple[int, ...], int] = {}
        for words in lines:
            if words[0] == _CELL:
                self._add(_parse_cell(words, grid), begun, missing)
            elif words[0] == _DROPPED:
                [numbers] = _behind(words, 1)
                index = _parse_index(numbers, grid)
                self._n_drops[index] += 1
                self.drop(index)
                begun.pop(index, None)
                missing.pop(index, None)
        self.parts = {index: Parts(list(regions)) for index, regions in begun.items()}

    def _add(
        self,
        cell: Written,
        begun: dict[tuple[int, ...], set[Region]],
        missing: dict[tuple[int, ...], int],
    ) -> None:
        index, flat = cell.index, self.grid.flat(cell.index)
        if cell.checksum != NOTHING:
            self._blocks[flat] |= _STORED
        # After a crash, a cell may have been written and recorded twice.
        if self.has_block(index) or cell.region in begun.get(index, ()):
            return
        size = self.grid.block(index).size
        begun.setdefault(index, set()).add(cell.region)
        missing[index] = missing.get(index, size) - cell.region.size
        if not missing[index] or cell.region.size == size:
            self._blocks[flat] |= _DURABLE
            self.n_blocks += 1
            del begun[index], missing[index]

    @property
    def is_complete(self) -> bool:
        """Whether all blocks are durable."""
        return self.n_blocks == self.grid.n_blocks

    def has_block(self, index: tuple[int, ...]) -> bool:
        """Whether all of a block is durable."""
        return bool(self._blocks[self.grid.flat(index)] & _DURABLE)

    def is_stored(self, index: tuple[int, ...]) -> bool:
        """Whether a file was written for the durable part of a block."""
        return bool(self._blocks[self.grid.flat(index)] & _STORED)

    def covers(self, index: tuple[int, ...], region: Region) -> bool:
        """Whether a region of a block is durable."""
        parts = self.parts.get(index)
        return self.has_block(index) or (parts is not None and parts.covers(region))

    def drop(self, index: tuple[int, ...]) -> None:
        """Forget a lost block."""
        self.parts.pop(index, None)
        self.n_blocks -= self.has_block(index)
        self._blocks[self.grid.flat(index)] = 0

    def count_in(self, parts: Grid) -> NDArray[Any]:
        """Count the durable blocks of each part; parts consist of whole blocks."""
        found = np.frombuffer(self._blocks, np.uint8).reshape(self.grid.counts) & _DURABLE
        for number, (axis, along) in enumerate(zip(self.grid.axes, parts.axes, strict=True)):
            first = [axis.index_at(along.start_of(part)) for part in range(along.n_blocks)]
            found = np.add.reduceat(found, first, axis=number, dtype=np.int64)
        return found

    def note_whole(self, index: tuple[int, ...]) -> None:
        """Note that all of a block is durable."""
        self.parts.pop(index, None)
        self.n_blocks += not self.has_block(index)
        self._blocks[self.grid.flat(index)] = _DURABLE | _STORED

    def blocks(self) -> Iterator[tuple[int, ...]]:
        """Yield the blocks that are durable."""
        return (index for index in self.grid.indices() if self.has_block(index))

    def cells(self, lines: Iterable[Sequence[str]]) -> Iterator[Written]:
        """Yield the valid cells in these lines; `is_last` is unknown.

        Cells recorded before their block was dropped are omitted.
        """
        n_drops = self._n_drops.copy()
        for words in lines:
            if words[0] == _DROPPED:
                n_drops[_parse_index(words[1], self.grid)] -= 1
            elif words[0] == _CELL:
                cell = _parse_cell(words, self.grid)
                if not n_drops[cell.index]:
                    yield cell

    def regions(self) -> Iterator[Region]:
        """Yield everything that is durable, as disjoint regions."""
        yield from map(self.grid.block, self.blocks())
        for parts in self.parts.values():
            yield from parts.regions

    @property
    def size(self) -> int:
        """Number of elements that are durable."""
        return sum(region.size for region in self.regions())

    @property
    def cuts(self) -> tuple[list[int], ...]:
        """Where durable parts of blocks start and end along each axis."""
        along = zip(*(parts.cuts for parts in self.parts.values()), strict=True)
        found = [sorted(set().union(*cuts)) for cuts in along]
        return tuple(found) or tuple([] for _ in self.grid.axes)

    def __bool__(self) -> bool:
        return bool(self.n_blocks or self.parts)
