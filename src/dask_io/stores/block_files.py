"""Reading an array from block files in one directory, or from one file."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from xxhash import xxh3_64_intdigest

from dask_io.errors import DataError, StorageError
from dask_io.journal.logs import logs_of
from dask_io.storage.files import medium_of
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Tally
from dask_io.stores import manifest
from dask_io.stores.addressable import AddressableReader, checksum_of
from dask_io.stores.block_names import BlockNames
from dask_io.stores.blocks import Blocks, order_of, peeking_at_header
from dask_io.stores.listing import (
    Checked,
    Expected,
    Problems,
    check_blocks,
    match_names,
)
from dask_io.stores.manifest import Manifest
from dask_io.stores.store import Access, Extent, SourceDefaults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout, Region
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Reader
    from dask_io.stores.listing import Matches

__all__ = ["BlockFileReader", "BlockFiles", "BlockStore", "Blocks", "order_of"]

# Number of block shapes for which a short header is cached.
_MOST_HEADS = 64


class BlockStore:
    """The description that sources and targets of block files share."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._medium = medium_of(blocks.folder)
        self.tally = Tally()
        self.path: Location = blocks.path
        self.grid: Grid = blocks.grid
        self.dtype: np.dtype[Any] = blocks.dtype
        self.layout: Layout = blocks.layout

    @property
    def place(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def format(self) -> str:
        """Name of the format."""
        return self._blocks.format.name

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the array from its files or manifest."""
        return self._blocks.spec.described

    @property
    def block_names(self) -> BlockNames | None:
        """The pattern of the files; None if there is only one file, or a stack of files."""
        return self._blocks.names if isinstance(self._blocks.names, BlockNames) else None

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the blocks can be opened or created again."""
        return {**self._blocks.manifest.to_json(), "folder": str(self._blocks.folder.absolute())}

    def _name_of(self, index: tuple[int, ...]) -> str:
        names = self._blocks.names
        return names.name_of(index, self.grid.block(index).start if names.by_offset else index)


class BlockFiles(BlockStore, SourceDefaults):
    """A source whose blocks are files; any number may be read at once.

    Parameters
    ----------
    blocks
        The blocks, and the files that contain them.
    files
        Size by name of all files in the directory, from one listing.
    matches
        Which of the files are blocks, if already known.
    offsets
        Where data begins in blocks whose headers have been read already.
    only_blocks
        Whether other files of the same format are an error. Unrelated files never are.
    absent
        Blocks that may be missing, because they were consumed.
    problems
        Problems found so far.

    Raises
    ------
    DataError
        If blocks are missing, extra or of the wrong size; it lists them all.
    """

    def __init__(
        self,
        blocks: Blocks,
        files: Mapping[str, int],
        *,
        matches: Matches | None = None,
        offsets: Mapping[tuple[int, ...], int] | None = None,
        only_blocks: bool = False,
        absent: AbstractSet[tuple[int, ...]] = frozenset(),
        problems: Problems | None = None,
    ) -> None:
        super().__init__(blocks)
        problems = problems or Problems(self.place)
        offset = 0 if blocks.format.longest_header else blocks.offset
        # The size of compressed data is not known in advance.
        itemsize = 0 if blocks.stream is not None else blocks.dtype.itemsize
        expected = Expected(blocks.grid, blocks.names, itemsize, blocks.format, absent, offset)
        matches = matches or match_names(files, blocks.names)
        # An array without elements has no blocks, but it may have a file with a header.
        empty = blocks.grid.n_blocks == 0 and not only_blocks
        checked = Checked() if empty else check_blocks(files, matches, expected, problems)
        self._odd_names = checked.odd_names
        if only_blocks:
            for name in matches.others:
                if not name.startswith(".") and name.endswith(blocks.format.suffixes):
                    problems.add(name, "is extra: it is not a block")
        self.n_bytes_on_disk = sum(files[name] for name in matches.by_numbers.values())
        self._find = self._medium.finder(blocks.folder)
        # Most headers are as long as the first. One byte per block records whether it was checked.
        self._known = bytearray(0 if problems.n_found else blocks.grid.n_blocks)
        self._usual_offset = -1
        self._other_offsets: dict[int, int] = {}
        # Most blocks of a shape have the same header: one equal to a valid one is not parsed again.
        self._right: dict[tuple[int, ...], tuple[bytes, int]] = {}
        for index, offset in (offsets or {}).items():
            self._remember(self.grid.flat(index), offset)
        # A file truncated by less than its header is still long enough for its data.
        if blocks.stream is None:
            self._check_headers(checked.unusual, problems)
        problems.raise_if_any()

    @property
    def blocks(self) -> Blocks:
        """The blocks, and the files that contain them."""
        return self._blocks

    @property
    def access(self) -> Access:
        """Parts of a block can be read."""
        return Access.ADDRESSABLE

    @property
    def reused_bytes(self) -> int:
        """No staging is needed: values are read without a copy."""
        return 0

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds."""
        return self._medium.bytes_to_read

    def reader(self, index: tuple[int, ...], *, after: Region | None = None) -> BlockFileReader:
        """Visit a block; its header is checked at the first visit.

        Raises
        ------
        DataError
            If the block does not match the grid.
        """
        blocks, grid = self._blocks, self._blocks.grid
        shape, flat, name = grid.block(index).shape, grid.flat(index), self._file_name(index)
        is_detached = blocks.format.is_detached
        comes_along = after is None and 0 <= self._usual_offset <= ALIGNMENT and not is_detached
        if not (self._known[flat] or comes_along):
            with self._medium.reader_in(blocks.folder, name, Tally()) as file:
                self.see(index, name, file.peek, file.size)
        offset = self._other_offsets.get(flat, self._usual_offset)
        file = self._medium.reader_in(blocks.folder, name, self.tally)
        if after is not None:
            n_before = blocks.layout.end_of(after, shape)
            file.go_on_from(offset + n_before * blocks.dtype.itemsize)
        extent = Extent(name, offset, shape)
        reader = AddressableReader(file, extent, blocks.dtype, blocks.layout)
        return BlockFileReader(self, index, reader, is_seen=bool(self._known[flat]))

    def offset_of(self, index: tuple[int, ...]) -> int:
        """Return where the data of a block begins; its header is checked at the first visit.

        Raises
        ------
        DataError
            If the block does not match the grid.
        """
        flat = self.grid.flat(index)
        if not self._known[flat]:
            name = self._file_name(index)
            with self._medium.reader_in(self._blocks.folder, name, Tally()) as file:
                self.see(index, name, file.peek, file.size)
        return self._other_offsets.get(flat, self._usual_offset)

    def open_file(self, index: tuple[int, ...], tally: Tally | None = None) -> Reader:
        """Open the file of a block; everything read from it counts as moved."""
        name = self._file_name(index)
        return self._medium.reader_in(self._blocks.folder, name, tally or self.tally)

    def see(
        self, index: tuple[int, ...], name: str, peek: Callable[[int], bytes], size: int
    ) -> int:
        """Check the header of a block, and return where its data begins.

        Raises
        ------
        DataError
            If the block does not match the grid.
        """
        region = self.grid.block(index)
        with self._peeking(name, peek) as peek_header:
            problem, offset = self._look(region, peek_header, size)
        if problem:
            advice = (
                "files may be damaged, swapped or misnamed; --check lists all such files before "
                "anything is written. Correct them, then run again with --overwrite"
            )
            raise DataError(f"{self._blocks.folder}/{name}", [problem], advice)
        self._remember(self.grid.flat(index), offset)
        return offset

    def check(self) -> None:
        """Check the header of every block.

        Raises
        ------
        DataError
            If some do not match; it lists them all.
        """
        problems = Problems(self.place)
        self._check_headers(self.grid.indices(), problems)
        problems.raise_if_any()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a block does."""
        blocks, name = self._blocks, self._file_name(index)
        place = f"{blocks.folder}/{name}"
        with storage_errors(place):
            found = self._medium.find(blocks.path) if blocks.is_one_file else self._find(name)
        if found is None:
            raise StorageError(place, "no such file or directory", "check the path")
        return xxh3_64_intdigest(f"{name}\0{found.size}\0{found.mark}".encode())

    def list_again(self) -> None:
        """Drop the cached listing that is used to find objects."""
        self._find = self._medium.finder(self._blocks.folder)

    def discard(self, index: tuple[int, ...]) -> None:
        """Remove a block's file, if it still exists."""
        name, format_ = self._file_name(index), self._blocks.format
        self._medium.remove([self._blocks.folder / name])
        if format_.is_detached:
            self._medium.remove([self._blocks.folder / format_.header_name(name)])

    def describe_in_place(self) -> None:
        """Write a manifest, unless one exists, all blocks are gone, or the array is one file."""
        folder = self._blocks.folder
        with storage_errors(folder):
            is_needed = not self._blocks.is_one_file and folder.is_dir()
            if is_needed and not (folder / manifest.NAME).exists():
                self._blocks.manifest.write(folder)

    def discard_rest(self) -> None:
        """Remove manifest and journal, and the directory if nothing else is in it."""
        blocks = self._blocks
        with storage_errors(blocks.path):
            if blocks.is_one_file:
                logs_of(blocks.journal).remove(blocks.journal)
                return
            # The manifest may describe the blocks of another array.
            if self._is_described():
                logs_of(blocks.journal).remove(blocks.journal)
                self._medium.remove([blocks.folder / manifest.NAME])
            self._medium.remove_if_empty(blocks.folder)

    def _is_described(self) -> bool:
        """Tell whether the directory's manifest describes these blocks."""
        if not (self._blocks.folder / manifest.NAME).is_file():
            return False
        try:
            return Manifest.read(self._blocks.folder).names == self._blocks.names
        except DataError:
            return False

    def _check_headers(self, indices: Iterable[tuple[int, ...]], problems: Problems) -> None:
        for index in indices:
            region, flat = self.grid.block(index), self.grid.flat(index)
            if any(self._known[flat : flat + 1]):
                continue
            path = self.path_of(index)
            try:
                with (
                    self._medium.reader(path, Tally()) as file,
                    self._peeking(path.name, file.peek) as peek,
                ):
                    problem, offset = self._look(region, peek, file.size)
            except DataError as error:
                problem, offset = error.problems[0], 0
            if problem:
                problems.add(path.name, problem)
            else:
                self._remember(flat, offset)

    @contextmanager
    def _peeking(self, name: str, peek: Callable[[int], bytes]) -> Iterator[Callable[[int], bytes]]:
        """Open the file with the header of a block's data."""
        blocks = self._blocks
        if not blocks.format.is_detached:
            yield peek
            return
        with peeking_at_header(blocks.folder, name, blocks.format) as peek_header:
            yield peek_header

    def _look(self, region: Region, peek: Callable[[int], bytes], size: int) -> tuple[str, int]:
        """Return the problem with a block's header or size, and where its data begins."""
        blocks, shape = self._blocks, region.shape
        if not blocks.format.longest_header:
            return blocks.problem_with(None, region, size), blocks.offset
        head, right_size = self._right.get(shape, (b"", -1))
        if size == right_size and peek(len(head)) == head:
            return "", len(head)
        try:
            header = blocks.format.parse_header(peek)
        except ValueError as error:
            return str(error), 0
        problem = blocks.problem_with(header, region, size)
        # Headers with positions differ for every block.
        is_alike = not blocks.format.has_space and not blocks.format.is_detached
        if is_alike and not problem and len(self._right) < _MOST_HEADS:
            self._right[shape] = peek(header.offset), size
        return problem, header.offset

    def path_of(self, index: tuple[int, ...]) -> Location:
        """Return the file of a block."""
        return self._blocks.folder / self._file_name(index)

    def _file_name(self, index: tuple[int, ...]) -> str:
        return self._odd_names.get(index) or self._name_of(index)

    def _remember(self, flat: int, offset: int) -> None:
        if self._usual_offset < 0:
            self._usual_offset = offset
        if offset != self._usual_offset:
            self._other_offsets[flat] = offset
        if self._known:
            self._known[flat] = True


@dataclass(slots=True)
class BlockFileReader:
    """One visit to a block's file.

    A header that has not been checked is assumed to be as long as the others. It is read together
    with the first data, which is used only if the header is valid.
    """

    source: BlockFiles
    index: tuple[int, ...]
    reader: AddressableReader
    is_seen: bool

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.reader.file.__exit__(kind, error, trace)

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Read a region, and the header too if it has not been checked."""
        if self.is_seen:
            return self.reader.read_into(region, buffer)
        self.is_seen = True
        reader, file, extent = self.reader, self.reader.file, self.reader.extent
        read = reader.read_first(region, buffer)
        found = self.source.see(self.index, extent.name, partial(_peek, file, read), file.size)
        data = read[found:]
        if found != extent.offset:
            reader.extent = extent._replace(offset=found)
        elif data and len(data) == region.size * reader.dtype.itemsize:
            file.count(found, len(data))
            return reader.view(data, region)
        return reader.read_into(region, buffer)

    def expect(self, region: Region) -> None:
        """Announce a region that will be read in parts, with a header that was not checked yet."""
        self.reader.expect(region, from_start=not self.is_seen)

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of a region's bytes, in storage order."""
        self.expect(region)
        reader = self.reader
        return checksum_of(self.read_into, region, staging, reader.dtype, reader.layout)


def _peek(file: Reader, read: memoryview, n_bytes: int) -> bytes:
    """Return a file's first bytes, from those already read if possible."""
    is_there = n_bytes <= len(read) or len(read) == file.size
    return bytes(read[:n_bytes]) if is_there else file.peek(n_bytes)
