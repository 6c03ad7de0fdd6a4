"""Arrays whose blocks are files of one directory, or one file: writing them."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.errors import DataError, StorageError, TargetExistsError, UsageError
from dask_io.stores import manifest, system
from dask_io.stores.addressable import AddressableWriter
from dask_io.stores.blockfiles import BlockStore
from dask_io.stores.files import (
    Durability,
    FileWriter,
    Publisher,
    storage_errors,
    sync,
    write_whole,
)
from dask_io.stores.journal import NAME as JOURNAL
from dask_io.stores.journal import Journal, is_sealed, is_unfinished, read_lines, remove_stale
from dask_io.stores.ledger import Ledger, cells_in, line_of
from dask_io.stores.listing import Problems, look_at, scan
from dask_io.stores.naming import BlockNames, printable
from dask_io.stores.store import Extent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from dask_io.stores.blockfiles import Blocks
    from dask_io.stores.ledger import Written
    from dask_io.stores.naming import OneName

# Lines of the journal: old files that are to go, and that they are gone.
_REPLACES, _CLEARED = "replaces", "cleared"


class BlockFilesTarget(BlockStore):
    """A target whose blocks become files; any number may be written at once.

    Until its journal is sealed a directory is unfinished.

    Parameters
    ----------
    blocks
        What the files will hold.
    overwrite
        Whether what is there may be replaced.
    durability
        What blocks outlast once they are committed.
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
        super().__init__(blocks)
        self.durability = durability
        self._overwrite, self._reserve = overwrite, reserve
        self._headers: dict[tuple[int, ...], bytes] = {}
        self._forget_run()

    def _forget_run(self) -> None:
        """Be as new: what is there now belongs to whoever made it, not to the next run."""
        self._publisher = Publisher(self._blocks.folder, self.durability)
        self._journal: Journal | None = None
        self._any_committed = False
        # Files of which a part is durable.
        self._begun: set[str] = set()
        self._made: list[Path] = []

    def create(self, job: bytes = b"{}") -> None:
        """Make the directory, with its parents; what exists is refused or, if asked, replaced.

        A second call, before the target is finished or abandoned, does nothing.

        Raises
        ------
        TargetExistsError
            If the target exists and is not to be overwritten.
        UsageError
            If it is to be, but holds files that are not its own, or is of another kind.
        """
        if self._journal is not None:
            return
        self._forget_run()
        try:
            with storage_errors(self.path):
                self._make_place(job)
        except BaseException:
            self._let_go()
            self._remove_made()
            raise

    def _let_go(self) -> None:
        """Let another run have the journal."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _make_place(self, job: bytes) -> None:
        blocks, replaced = self._blocks, None
        if blocks.is_one_file:
            self._refuse_file()
        old = [] if blocks.is_one_file else self._old_files()
        missing = [p for p in (blocks.folder, *blocks.folder.parents) if not p.exists()]
        for folder in reversed(missing):
            with suppress(FileExistsError):
                system.calls.mkdir(folder)
                self._made.append(folder)
        if blocks.journal.exists() and (self._overwrite or is_sealed(blocks.journal)):
            replaced = Journal.resume(blocks.journal, durable=False)
        remove_stale(self._aside)
        # What is left of the old target, if this run is killed, must not look complete: the new
        # journal comes first, then the old manifest goes, then the old blocks.
        patterns = [f"{_REPLACES} {_word(names.pattern)}" for names in self._patterns() if old]
        self._begin_journal(job, patterns or [_CLEARED], replaced)
        if old:
            self._clear(old)

    def _begin_journal(self, job: bytes, lines: list[str], replaced: Journal | None) -> None:
        try:
            self._journal = Journal.begin(
                self._blocks.journal,
                job,
                lines,
                aside=self._aside,
                durable=self.durability is Durability.FSYNC,
                replaced=replaced,
            )
        except FileExistsError:
            # Of two runs that find the place free, one gets it.
            raise TargetExistsError(printable(self.place), unfinished=True) from None
        finally:
            if replaced is not None:
                replaced.close()

    @property
    def _aside(self) -> Path:
        """How the names begin of journals in the making: outside, so that they do not show."""
        path, folder = self.path.absolute(), self._blocks.folder
        outside = path.parent
        if not self._blocks.is_one_file and (
            outside.stat().st_dev != folder.stat().st_dev or not os.access(outside, os.W_OK)
        ):
            return folder / JOURNAL
        return outside / f".{path.name}{JOURNAL}"

    def _refuse_file(self) -> None:
        path = self.path
        is_unfinished_ = is_unfinished(self._blocks.journal)
        if (os.path.lexists(path) or is_unfinished_) and not self._overwrite:
            raise TargetExistsError(printable(str(path)), unfinished=is_unfinished_)
        if path.is_dir():
            raise UsageError(f"{printable(str(path))} is a directory, not a file to overwrite")

    def _old_files(self) -> list[Path]:
        """Return what an earlier run left, if that is all there is: the manifest first."""
        folder = self._blocks.folder
        if not os.path.lexists(folder):
            return []
        if not folder.is_dir():
            if not self._overwrite:
                raise TargetExistsError(printable(str(folder)))
            raise UsageError(f"{printable(str(folder))} is a file, not a directory to overwrite")
        entries = [entry for entry in os.scandir(folder) if not _is_journal_in_the_making(entry)]
        if entries and not self._overwrite:
            unfinished = is_unfinished(self._blocks.journal)
            raise TargetExistsError(printable(str(folder)), unfinished=unfinished)
        patterns, foreign = self._patterns(), Problems(str(folder))
        old = [entry for entry in entries if entry.name != JOURNAL]
        for entry in old:
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
        return [
            Path(each.path) for each in sorted(old, key=lambda each: each.name != manifest.NAME)
        ]

    def _patterns(self) -> list[BlockNames | OneName]:
        patterns, folder = [self._blocks.names], self._blocks.folder
        with suppress(DataError, StorageError):
            patterns.append(manifest.Manifest.read(folder).names)
        return patterns

    def _clear(self, old: list[Path]) -> None:
        """Remove what the target replaces; nothing is written before that is done."""
        assert self._journal is not None
        for path in old:
            system.calls.unlink(path)
        self._journal.append([_CLEARED])

    def resume(self) -> Ledger:
        """Go on where another run ended.

        Raises
        ------
        StorageError
            If another run is writing it.
        DataError
            If the journal is not about this target.
        """
        self._forget_run()
        blocks = self._blocks
        with storage_errors(self.path):
            durable = self.durability is Durability.FSYNC
            self._journal = Journal.resume(blocks.journal, durable=durable)
            try:
                replaced = [words for words in read_lines(blocks.journal) if words[0] == _REPLACES]
                is_cleared = any(words == [_CLEARED] for words in read_lines(blocks.journal))
                if not is_cleared:
                    patterns = [BlockNames(json.loads(pattern)) for _, pattern in replaced]
                    names = [*patterns, *self._patterns()]
                    self._clear([p for p in blocks.folder.iterdir() if _is_ours(p.name, names)])
                ledger = self._find_durable()
            except BaseException:
                self._let_go()
                raise
        self._any_committed = bool(ledger)
        return ledger

    def _find_durable(self) -> Ledger:
        """Read what the journal says to be durable, and leave out what is not there any more."""
        blocks = self._blocks
        try:
            ledger = Ledger(self.grid, cells_in(read_lines(blocks.journal), self.grid))
        except (ValueError, IndexError) as error:
            raise DataError(printable(str(blocks.journal)), [str(error)]) from error
        files = self._files()
        for index in ledger.blocks():
            name, n_bytes = self._extent(index)
            if files.get(name) != n_bytes:
                ledger.drop(index)
        for index in list(ledger.parts):
            name, n_bytes = self._extent(index)
            if files.get(self._publisher.partial(name).name) == n_bytes:
                self._publisher.go_on(name)
            elif files.get(name) == n_bytes:
                # Its last cells were not noted before the run ended: they are written again.
                self._publisher.take_back(name)
            else:
                ledger.drop(index)
                continue
            self._begun.add(name)
        return ledger

    def _files(self) -> dict[str, int]:
        """Return the sizes of blocks and of blocks in the making."""
        if not self._blocks.is_one_file:
            return scan(self._blocks.folder)
        paths = [self.path, self._publisher.partial(self.path.name)]
        return {path.name: look_at(path)[path.name] for path in paths if path.exists()}

    def _extent(self, index: tuple[int, ...]) -> tuple[str, int]:
        """Return a block's name and how long its file is."""
        region = self.grid.block(index)
        header = self._header(region.shape)
        return self._name_of(index, region), len(header) + region.size * self.dtype.itemsize

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[AddressableWriter]:
        """Visit a block in the making."""
        blocks, shape = self._blocks, self.grid.block(index).shape
        header = self._header(shape)
        name, n_bytes = self._extent(index)
        path = self._publisher.begin(name, header, n_bytes, reserve=self._reserve)
        with FileWriter(path, self.tally) as file:
            extent = Extent(name, len(header), shape)
            yield AddressableWriter(file, extent, blocks.dtype, blocks.layout)

    def _header(self, shape: tuple[int, ...]) -> bytes:
        if shape not in self._headers:
            blocks = self._blocks
            self._headers[shape] = blocks.format.make_header(shape, blocks.dtype, blocks.layout)
        return self._headers[shape]

    def commit(self, cells: Collection[Written]) -> None:
        """Sync cells that have been written, name the blocks that are whole, and note it."""
        assert self._journal is not None, "nothing has been created"
        names = {cell.index: self._extent(cell.index)[0] for cell in cells}
        whole = [names[cell.index] for cell in cells if cell.is_last]
        # Blocks may have got their names before something goes wrong.
        self._any_committed = True
        self._publisher.commit(names.values(), whole)
        self._journal.append(line_of(cell, self.grid) for cell in cells)
        self._begun.update(names.values())
        self._begun.difference_update(whole)

    def note(self, lines: Iterable[str]) -> None:
        """Add other lines to the journal."""
        assert self._journal is not None, "nothing has been created"
        self._journal.append(lines)

    def finish(self) -> None:
        """Write the manifest, or the file of an array without elements, and seal the journal."""
        assert self._journal is not None, "nothing has been created"
        blocks = self._blocks
        if not blocks.is_one_file:
            blocks.manifest.write(blocks.folder)
        elif blocks.grid.n_blocks == 0:
            write_whole(self.path, self._header(blocks.grid.shape))
        for folder in {blocks.folder, *(made.parent for made in self._made)}:
            with storage_errors(folder):
                sync(folder)
        with storage_errors(self.path):
            remove_stale(self._aside)
        self._journal.seal()
        self._forget_run()

    def abandon(self) -> bool:
        """Remove what has not been committed; what has been stays, marked as unfinished.

        Without a `create` or `resume` that succeeded nothing is touched: what is there is not
        this run's.
        """
        if self._journal is None:
            return False
        is_begun = self._any_committed
        self._publisher.abandon(keep=self._begun)
        if not is_begun:
            with suppress(OSError):
                self._journal.remove(self._aside)
        self._let_go()
        self._remove_made()
        return is_begun

    def _remove_made(self) -> None:
        """Remove the directories that were made, unless something is in them."""
        while self._made:
            with suppress(OSError):
                system.calls.rmdir(self._made.pop())


def _word(text: str) -> str:
    """Write a text as one word of a line."""
    return json.dumps(text).replace(" ", "\\u0020")


def _is_journal_in_the_making(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    return name.startswith(f"{JOURNAL}.") and name.endswith(".part") and entry.is_dir()


def _is_ours(name: str, patterns: Collection[BlockNames | OneName]) -> bool:
    if name.startswith(".") and name.endswith(".part"):
        name = name[1:].removesuffix(".part")
    return name == manifest.NAME or any(names.parse(name) is not None for names in patterns)
