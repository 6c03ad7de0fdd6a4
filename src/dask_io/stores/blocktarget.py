"""Arrays whose blocks are files of one directory, or one file: writing them."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.errors import DataError, StorageError, TargetExistsError, UsageError
from dask_io.stores import manifest
from dask_io.stores.addressable import AddressableWriter
from dask_io.stores.blockfiles import BlockStore
from dask_io.stores.files import FileWriter, Publisher, storage_errors, sync, write_whole
from dask_io.stores.listing import Problems
from dask_io.stores.naming import BlockNames, printable
from dask_io.stores.store import Extent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.stores.blockfiles import Blocks
    from dask_io.stores.naming import OneName


class BlockFilesTarget(BlockStore):
    """A target whose blocks become files; any number may be written at once.

    A directory's manifest gets its name last; until then it is hidden, and marks the directory
    as unfinished.
    """

    def __init__(self, blocks: Blocks, *, overwrite: bool = False, durable: bool = True) -> None:
        super().__init__(blocks)
        self._overwrite, self._durable = overwrite, durable
        self._publisher = Publisher(blocks.folder, durable=durable)
        self._headers: dict[tuple[int, ...], bytes] = {}
        self._manifest = _manifest_of(blocks)
        self._forget_run()

    def _forget_run(self) -> None:
        """Be as new: what is there now belongs to whoever made it, not to the next run."""
        self._is_created = self._any_published = False
        self._made: list[Path] = []

    def create(self) -> None:
        """Make the directory, with its parents; what exists is refused or, if asked, replaced.

        A second call, before the target is finished or abandoned, does nothing.

        Raises
        ------
        TargetExistsError
            If the target exists and is not to be overwritten.
        UsageError
            If it is to be, but holds files that are not its own, or is of another kind.
        """
        if self._is_created:
            return
        self._publisher = Publisher(self._blocks.folder, durable=self._durable)
        try:
            with storage_errors(self.path):
                self._make_place()
        except BaseException:
            self._remove_made()
            raise
        self._is_created = True

    def _make_place(self) -> None:
        blocks, path, old = self._blocks, self.path, list[Path]()
        if blocks.is_one_file:
            self._refuse_file(path)
        elif os.path.lexists(path):
            old = self._old_files(path)
        missing = [p for p in (blocks.folder, *blocks.folder.parents) if not p.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            self._made.append(folder)
        # What is left of the old target, if this run is killed, must not look complete: the mark
        # comes first, then the old manifest goes, then the old blocks.
        self._mark_unfinished()
        for each in old:
            each.unlink()

    def _mark_unfinished(self) -> None:
        if self._manifest is None:
            return
        mark = self._blocks.folder / manifest.UNFINISHED
        try:
            # Of two runs that find the place free, one gets it.
            mark.touch(exist_ok=False)
        except FileExistsError:
            if not self._overwrite:
                raise TargetExistsError(printable(self.place)) from None
            self._manifest.begin(self._blocks.folder)
            return
        try:
            self._manifest.begin(self._blocks.folder)
        except BaseException:
            mark.unlink(missing_ok=True)
            raise

    def _refuse_file(self, path: Path) -> None:
        if os.path.lexists(path) and not self._overwrite:
            raise TargetExistsError(printable(str(path)))
        if path.is_dir():
            raise UsageError(f"{printable(str(path))} is a directory, not a file to overwrite")

    def _old_files(self, folder: Path) -> list[Path]:
        """Return what an earlier run left, if that is all there is: the manifest first."""
        if not folder.is_dir():
            if not self._overwrite:
                raise TargetExistsError(printable(str(folder)))
            raise UsageError(f"{printable(str(folder))} is a file, not a directory to overwrite")
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name != manifest.NAME)
        if entries and not self._overwrite:
            raise TargetExistsError(printable(str(folder)))
        patterns = self._patterns(folder)
        foreign = Problems(str(folder))
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) or not _is_ours(entry.name, patterns):
                foreign.add(entry.name, "")
        if foreign.n_found:
            rest = foreign.n_found - len(foreign.shown)
            listed = ", ".join(sorted(name.rstrip() for name in foreign.shown)) + (
                f" and {rest} more" if rest else ""
            )
            raise UsageError(
                f"{printable(str(folder))} holds what is not part of a target: {listed}; "
                "move it away, or choose another target"
            )
        return [Path(entry.path) for entry in entries if entry.name != manifest.UNFINISHED]

    def _patterns(self, folder: Path) -> list[BlockNames | OneName]:
        patterns = [self._blocks.names]
        with suppress(DataError, StorageError):
            patterns.append(manifest.Manifest.read(folder).names)
        return patterns

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[AddressableWriter]:
        """Visit a block in the making."""
        blocks, region = self._blocks, self.grid.block(index)
        header = self._header(region.shape)
        name = self._name_of(index, region)
        n_bytes = len(header) + region.size * blocks.dtype.itemsize
        path = self._publisher.begin(name, header, n_bytes)
        with FileWriter(path, self.tally) as file:
            extent = Extent(name, len(header), region.shape)
            yield AddressableWriter(file, extent, blocks.dtype, blocks.layout)

    def _header(self, shape: tuple[int, ...]) -> bytes:
        if shape not in self._headers:
            blocks = self._blocks
            self._headers[shape] = blocks.format.make_header(shape, blocks.dtype, blocks.layout)
        return self._headers[shape]

    def publish(self, index: tuple[int, ...]) -> None:
        """Sync a block and give it its name."""
        self._publisher.publish(self._name_of(index, self.grid.block(index)))
        self._any_published = True

    def finish(self) -> None:
        """Write the manifest, or the file of an array without elements, and sync the directory."""
        blocks = self._blocks
        if self._manifest:
            self._manifest.write(blocks.folder)
        elif blocks.grid.n_blocks == 0:
            write_whole(self.path, self._header(blocks.grid.shape))
        for folder in {blocks.folder, *(made.parent for made in self._made)}:
            with storage_errors(folder):
                sync(folder)
        self._forget_run()

    def abandon(self) -> None:
        """Remove what has not been published; blocks that have been stay marked as unfinished.

        Without a `create` that succeeded nothing is touched: what is there is not this run's.
        """
        if not self._is_created:
            return
        self._publisher.abandon()
        if not self._any_published:
            if self._manifest:
                with suppress(OSError):
                    (self._blocks.folder / manifest.UNFINISHED).unlink()
            self._remove_made()
        self._forget_run()

    def _remove_made(self) -> None:
        """Remove the directories that were made, unless something is in them."""
        while self._made:
            with suppress(OSError):
                self._made.pop().rmdir()


def _manifest_of(blocks: Blocks) -> manifest.Manifest | None:
    if not isinstance(blocks.names, BlockNames):
        return None
    return manifest.Manifest(
        blocks.format.name, blocks.grid, blocks.dtype, blocks.layout, blocks.names
    )


def _is_ours(name: str, patterns: list[BlockNames | OneName]) -> bool:
    if name.startswith(".") and name.endswith(".part"):
        name = name[1:].removesuffix(".part")
    return name == manifest.NAME or any(names.parse(name) is not None for names in patterns)
