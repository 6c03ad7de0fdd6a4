"""Finding the grid of block files without a manifest, from their names and a few headers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from operator import call
from typing import TYPE_CHECKING

from dask_io.errors import DataError
from dask_io.geometry import Axis, Grid
from dask_io.storage.medium import NOT_A_FILE
from dask_io.stores.block_files import BlockFiles, Blocks, order_of
from dask_io.stores.block_names import BlockNames, OneName
from dask_io.stores.blocks import peeking_at_header
from dask_io.stores.listing import Problems, is_inside, locator, match_names
from dask_io.stores.slices import format_of_files
from dask_io.stores.space import crop
from dask_io.stores.spec import ArraySpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.geometry import Layout
    from dask_io.storage.location import Location
    from dask_io.stores.block_format import Format, Header

# Headers that are read one by one if there are fewer, and the number read at once otherwise.
_MANY_HEADERS, _AT_ONCE = 64, 8


def open_by_headers(
    folder: Location,
    files: Mapping[str, int],
    format: Format,  # noqa: A002 - the word that users know
    names: BlockNames | OneName,
) -> BlockFiles:
    """Open block files with headers; only those of the first blocks along each axis are read.

    Raises
    ------
    DataError
        If they are not the blocks of one array; it lists all that do not fit.
    """
    place = str(folder / names.pattern if isinstance(names, OneName) else folder)
    matches = match_names(files, names)
    chosen = format_of_files(names, format)
    search = _Search(folder, files, chosen, matches.by_numbers, Problems(place))
    if not search.counted:
        raise DataError(place, [f"no file is called like {names.pattern}"])
    blocks, offsets = search.find(names)
    return BlockFiles(blocks, files, matches=matches, offsets=offsets, problems=search.problems)


@dataclass(slots=True)
class _Search:
    """Block files whose headers are read when needed, each once."""

    folder: Location
    files: Mapping[str, int]
    format: Format
    names: Mapping[tuple[int, ...], str]
    problems: Problems
    headers: dict[tuple[int, ...], Header | None] = field(default_factory=dict)

    def find(self, names: BlockNames | OneName) -> tuple[Blocks, dict[tuple[int, ...], int]]:
        """Find the grid; return its blocks, and the offset of the data where it is known."""
        values = [sorted(set(along)) for along in zip(*self.counted, strict=True)]
        corner = tuple(along[0] for along in values)
        first = self.header_near(corner)
        if first is None:
            self.problems.raise_if_any()
            raise DataError(self.problems.place, ["none of the blocks is a file"])
        if len(first.shape) != len(values):
            found = f"blocks have {len(first.shape)} axes, but their names number {len(values)}"
            advice = "give one field per axis; for slices along axis 0, write {0:slice}"
            raise DataError(self.problems.place, [found], advice)
        axes = []
        for axis, along in enumerate(values):
            self.read_ahead([(*corner[:axis], value, *corner[axis + 1 :]) for value in along])
            lengths = [self.length_at(corner, axis, value) for value in along]
            axes.append(self.lay_out(axis, along, lengths, by_offset=names.by_offset))
        grid = Grid(tuple(axes))
        layout = self.layout(corner, values)
        spec = ArraySpec(grid, first.dtype, layout, metadata=first.metadata)
        blocks = Blocks(self.folder, names, self.format, spec)
        if first.space is not None:
            space = crop(first.space, self.back_to_origin(blocks, first))
            blocks = replace(blocks, spec=replace(spec, space=space))
        return blocks, self.offsets(blocks)

    def back_to_origin(self, blocks: Blocks, header: Header) -> list[int]:
        """Return the position of the array's first element relative to that of a block."""
        numbers = next(numbers for numbers, found in self.headers.items() if found is header)
        locate = [locator(axis, by_offset=blocks.names.by_offset) for axis in blocks.grid.axes]
        index = tuple(map(call, locate, numbers))
        low = blocks.grid.block(index).start if is_inside(index) else (0,) * len(index)
        return [-n for n in low]

    @property
    def counted(self) -> list[tuple[int, ...]]:
        """The blocks whose numbers are not below the first number of the pattern."""
        return [numbers for numbers in self.names if min(numbers) >= 0]

    def header(self, numbers: tuple[int, ...]) -> Header | None:
        """Return the header of a block, None if it is invalid; the problem is recorded."""
        if numbers not in self.headers:
            self.record(numbers, self.read(numbers))
        return self.headers[numbers]

    def read(self, numbers: tuple[int, ...]) -> Header | str:
        """Return the header of a block, or the problem with it; empty if it is not a file."""
        name = self.names[numbers]
        if self.files[name] == NOT_A_FILE:  # the check of sizes reports it
            return ""
        try:
            with peeking_at_header(self.folder, name, self.format) as peek:
                return self.format.parse_header(peek)
        except ValueError as error:
            return str(error)
        except DataError as error:
            return error.problems[0]

    def record(self, numbers: tuple[int, ...], found: Header | str) -> None:
        """Remember a header, or the problem with it."""
        self.headers[numbers] = None if isinstance(found, str) else found
        if isinstance(found, str) and found:
            self.problems.add(self.names[numbers], found)

    def read_ahead(self, wanted: list[tuple[int, ...]]) -> None:
        """Read many headers at once: each may take a while on a network."""
        wanted = [n for n in wanted if n in self.names and n not in self.headers]
        if len(wanted) < _MANY_HEADERS:
            return
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for numbers, found in zip(wanted, pool.map(self.read, wanted), strict=True):
                self.record(numbers, found)

    def header_near(self, numbers: tuple[int, ...], axis: int | None = None) -> Header | None:
        """Return the header of a block, else of any other block at its position on an axis."""
        found = self.header(numbers) if numbers in self.names else None
        if found is not None:
            return found
        others = (n for n in sorted(self.names) if axis is None or n[axis] == numbers[axis])
        return next(filter(None, map(self.header, others)), None)

    def length_at(self, corner: tuple[int, ...], axis: int, value: int) -> int:
        """Return the length of the blocks at a position on an axis, 0 if no header is valid."""
        header = self.header_near((*corner[:axis], value, *corner[axis + 1 :]), axis)
        return header.shape[axis] if header and len(header.shape) == len(corner) else 0

    def lay_out(self, axis: int, values: list[int], lengths: list[int], *, by_offset: bool) -> Axis:
        """Place blocks one after another along an axis; missing ones fill gaps."""
        usual = next(filter(None, lengths), 0)
        if not usual:
            return Axis(())
        runs: list[tuple[int, int]] = []
        position = 0
        for value, length in zip(values, lengths, strict=True):
            gap = value - position
            if gap < 0 or not length:
                problem = "begin within those before" if gap < 0 else "have no known length"
                self.problems.add(f"blocks at {value} along axis {axis}", problem)
            runs += [(usual, gap // usual), (gap % usual, 1)] if by_offset else [(usual, gap)]
            runs.append((length or usual, 1))
            position = value + ((length or usual) if by_offset else 1)
        return Axis(tuple((length, count) for length, count in runs if length > 0 and count > 0))

    def layout(self, corner: tuple[int, ...], values: list[list[int]]) -> Layout:
        """Return the order of the first block whose shape makes a difference between C and F."""
        headers = [header for header in self.headers.values() if header is not None]
        for header in headers:
            if len(order_of(header.layout, header.shape)) > 1:
                return header.layout
        lengths = [
            {self.length_at(corner, axis, value): value for value in reversed(along)}
            for axis, along in enumerate(values)
        ]
        widest = tuple(by_length[max(by_length)] for by_length in lengths)
        last = self.header(widest) if widest in self.names else None
        return (last or headers[0]).layout

    def offsets(self, blocks: Blocks) -> dict[tuple[int, ...], int]:
        """Compare the headers read so far with the grid; return where their data begins."""
        locate = [locator(axis, by_offset=blocks.names.by_offset) for axis in blocks.grid.axes]
        offsets = {}
        for numbers, header in self.headers.items():
            index = tuple(map(call, locate, numbers))
            if header is None or not is_inside(index):
                continue
            name = self.names[numbers]
            problem = blocks.problem_with(header, blocks.grid.block(index), self.files[name])
            if problem:
                self.problems.add(name, problem)
            offsets[index] = header.offset
        if self.have_one_position:
            self.problems.advice = (
                "all blocks that were looked at have the same position; they were probably cut "
                "without adapting their affine. Give each block the affine of its own first voxel "
                "(nibabel's img.slicer does), or none (qform and sform code 0)"
            )
        return offsets

    @property
    def have_one_position(self) -> bool:
        """Whether the headers read so far all have the same named position."""
        spaces = [header.space for header in self.headers.values() if header is not None]
        affines = [None if space is None else space.affine for space in spaces]
        first = affines[0] if len(affines) > 1 else None
        return (
            first is not None and bool(first.coordinates) and affines.count(first) == len(affines)
        )
