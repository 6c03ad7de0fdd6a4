"""Writing an array as block files in one directory, or as one file."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from dask_io.errors import DataError, StorageError, TargetExistsError, UsageError
from dask_io.geometry import Region
from dask_io.journal.journalled_target import JournalledTarget
from dask_io.storage.files import peeking, read_whole, write_whole
from dask_io.storage.location import is_taken
from dask_io.storage.medium import Durability, Writers
from dask_io.storage.own_names import JOURNAL, whole_name
from dask_io.stores import manifest
from dask_io.stores.addressable import AddressableWriter
from dask_io.stores.block_files import BlockFiles, BlockStore
from dask_io.stores.block_names import BlockNames
from dask_io.stores.listing import Problems, scan
from dask_io.stores.store import Access, Extent, TargetDefaults

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from dask_io.storage.location import Location
    from dask_io.stores.block_files import Blocks
    from dask_io.stores.block_names import Names

# Headers that are remembered: each is needed several times while its block is written.
_MOST_HEADERS = 256


class BlockFilesTarget(BlockStore, TargetDefaults, JournalledTarget):
    """A target whose blocks become files, described by their headers or by a manifest.

    Parameters
    ----------
    blocks
        The blocks, and the files that will contain them.
    overwrite
        Whether existing blocks may be replaced.
    durability
        What committed blocks survive.
    reserve
        Whether a block's space is reserved when it is begun.
    """

    def __init__(
        self,
        blocks: Blocks,
        *,
        overwrite: bool = False,
        durability: Durability = Durability.FSYNC,
        reserve: bool = True,
    ) -> None:
        BlockStore.__init__(self, blocks)
        JournalledTarget.__init__(
            self,
            blocks.path,
            is_one_file=blocks.is_one_file,
            overwrite=overwrite,
            durability=durability,
        )
        self._reserve = reserve
        self._headers: dict[object, bytes] = {}

    @property
    def writers(self) -> Writers:
        """Processes can write different files, but not one file."""
        return Writers.THREADS if self._blocks.is_one_file else Writers.PROCESSES

    @property
    def access(self) -> Access:
        """Parts of a block can be written, unless the format writes only whole files."""
        return Access.ATOMIC if self._medium.writes_whole else Access.ADDRESSABLE

    @property
    def reused_bytes(self) -> int:
        """No staging is needed: values are written without a copy."""
        return 0

    @property
    def codec_bytes(self) -> int:
        """Other bytes that a visit holds."""
        longest = Region.whole(self.grid.longest)
        return self._medium.bytes_to_write(self._file_size(longest))

    def writer(self, index: tuple[int, ...]) -> AddressableWriter:
        """Visit an unfinished block."""
        blocks, region, name = self._blocks, self.grid.block(index), self._name_of(index)
        header, shape = self._header(region), region.shape
        n_bytes = region.size * blocks.dtype.itemsize
        size = blocks.format.size_of_data(n_bytes)
        file = self._write_file(
            name,
            self.tally,
            header=header,
            n_bytes=len(header) + size,
            n_zeros=size - n_bytes,
            reserve=self._reserve,
        )
        extent = Extent(name, len(header), shape)
        return AddressableWriter(file, extent, blocks.dtype, blocks.layout)

    def look_back(self) -> BlockFiles:
        """Open the written blocks; a file is checked when its block is visited."""
        return BlockFiles(self._blocks, {}, absent=frozenset(self.grid.indices()))

    def is_described(self) -> bool:
        """Tell whether the manifest is valid; a single file needs no manifest."""
        if not self._has_headers():
            return False
        if self._blocks.is_one_file:
            return True
        try:
            manifest.Manifest.read(self._folder)
        except (DataError, StorageError):
            return False
        return True

    def _header_of(self, index: tuple[int, ...]) -> bytes:
        return self._header(self.grid.block(index))

    def _header(self, region: Region) -> bytes:
        """Return everything before the data in a block's file."""
        if self._blocks.format.is_detached:
            return b""
        # Headers of blocks with one shape are equal, unless they have the block's position.
        block = region if self._blocks.format.has_space else region.shape
        header = self._headers.get(block)
        if header is None:
            header = self._blocks.header_of(region)
            if len(self._headers) >= _MOST_HEADERS:
                self._headers.clear()
            self._headers[block] = header
        return header

    def _file_of(self, index: tuple[int, ...]) -> tuple[str, int]:
        return self._name_of(index), self._file_size(self.grid.block(index))

    def _file_size(self, region: Region) -> int:
        data = self._blocks.format.size_of_data(region.size * self.dtype.itemsize)
        return len(self._header(region)) + data

    def _find_old(self) -> list[Location]:
        if self._blocks.is_one_file:
            self._refuse_file()
            self._refuse_header()
            return []
        folder = self._blocks.folder
        if not is_taken(folder):
            return []
        if not folder.is_dir():
            if not self._overwrite:
                self._refuse()
            raise UsageError(f"{folder} is a file, not a directory to overwrite")
        old = self._medium.names(folder)
        if old and not self._overwrite:
            self._refuse()
        old.pop(JOURNAL, None)
        patterns, foreign = self._patterns(), Problems(str(folder))
        for name, is_folder in old.items():
            if is_folder or not self._is_ours(name, patterns):
                foreign.add(name, "")
        if foreign.n_found:
            rest = foreign.n_found - len(foreign.shown)
            listed = ", ".join(sorted(name.rstrip() for name in foreign.shown)) + (
                f" and {rest} more" if rest else ""
            )
            raise UsageError(
                f"{folder} contains files that are not part of a target: {listed}; "
                "move them away, or choose another target"
            )
        return [folder / name for name in sorted(old, key=lambda name: name != manifest.NAME)]

    def _refuse_header(self) -> None:
        """Refuse to overwrite a header, even if asked to, that belongs to other data."""
        chosen = self._blocks.format
        for path, _ in self._header_files():
            if not is_taken(path):
                continue
            if not self._overwrite:
                raise TargetExistsError(str(path))
            if not chosen.names_data:
                continue
            with suppress(ValueError), peeking(path) as peek:
                found = chosen.parse_header(peek).data_file or path.name
                if found != self.path.name:
                    raise UsageError(
                        f"{path} is the header of {found!r:.200}, which this target would not "
                        "replace; choose another target"
                    )

    def _patterns(self) -> list[Names]:
        """Return the pattern of existing blocks, from the manifest or the journal."""
        found: list[Names] = list(map(_parse_word, self._names_in_journal()))
        with suppress(DataError, StorageError):
            found.append(manifest.Manifest.read(self._folder).names)
        return found

    def _own_names(self) -> list[str]:
        return [] if self._blocks.is_one_file else [_to_word(self._blocks.names.pattern)]

    def _old_names(self) -> list[str]:
        return [_to_word(names.pattern) for names in self._patterns()]

    def _find_left(self, words: Sequence[str]) -> list[Location]:
        patterns = [*map(_parse_word, words), *self._patterns()]
        return [self._folder / name for name in scan(self._folder) if self._is_ours(name, patterns)]

    def _find_files(self) -> dict[str, int]:
        return self._find_file() if self._blocks.is_one_file else scan(self._blocks.folder)

    def _complete(self) -> None:
        """Write the manifest, or the file of an array without elements."""
        blocks = self._blocks
        for path, region in self._header_files():
            write_whole(path, blocks.header_of(region))
        if not blocks.is_one_file:
            blocks.manifest.write(blocks.folder)
        elif blocks.grid.n_blocks == 0:
            write_whole(self.path, self._header(Region.whole(blocks.grid.shape)))

    def _header_files(self) -> Iterator[tuple[Location, Region]]:
        """Yield the files of headers that are not in the files of their blocks."""
        blocks, grid = self._blocks, self.grid
        if not blocks.format.is_detached:
            return
        folder, name_of = self._folder, blocks.format.header_name
        if blocks.is_one_file:
            yield folder / name_of(self.path.name), Region.whole(grid.shape)
            return
        for index in grid.indices():
            yield folder / name_of(self._name_of(index)), grid.block(index)

    def _has_headers(self) -> bool:
        """Tell whether every header file has the content that it should have."""
        header_of, longest = self._blocks.header_of, self._blocks.format.longest_header
        return all(
            path.is_file() and read_whole(path, longest) == header_of(region)
            for path, region in self._header_files()
        )

    def _is_ours(self, name: str, patterns: Collection[Names]) -> bool:
        """Tell whether a file of the directory belongs to blocks with such names."""
        return _is_ours(name, patterns) or _is_ours(self._blocks.format.data_name(name), patterns)


def _to_word(pattern: str) -> str:
    """Return a pattern as a word without spaces, for a line of the journal."""
    return json.dumps(pattern).replace(" ", "\\u0020")


def _parse_word(word: str) -> BlockNames:
    return BlockNames(json.loads(word))


def _is_ours(name: str, patterns: Collection[Names]) -> bool:
    name = whole_name(name)
    return name == manifest.NAME or any(names.parse(name) is not None for names in patterns)
