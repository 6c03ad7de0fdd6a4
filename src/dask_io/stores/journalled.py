"""Targets on a local disk: blocks are files, a journal says which of them are durable."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from dask_io.errors import DataError, TargetExistsError
from dask_io.stores import system
from dask_io.stores.files import Durability, Publisher, storage_errors, sync
from dask_io.stores.journal import NAME as JOURNAL
from dask_io.stores.journal import (
    Journal,
    is_sealed,
    is_unfinished,
    journal_of,
    read_lines,
    refuse_locked,
    remove_stale,
)
from dask_io.stores.ledger import Ledger, cells_in, line_of
from dask_io.stores.naming import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from dask_io.geometry import Grid
    from dask_io.stores.ledger import Written

# Lines of the journal: what is to be removed, and that it is gone.
_REPLACES, _CLEARED = "replaces", "cleared"


class JournalledTarget(ABC):
    """A target whose blocks become files; any number may be written at once.

    Until its journal is sealed it is unfinished. What a format has to say is what files there
    are, what may be replaced, and what makes an array of them in the end.

    Parameters
    ----------
    path
        The directory, or the file if there is only one.
    is_one_file
        Which of the two.
    overwrite
        Whether what is there may be replaced.
    durability
        What blocks outlast once they are committed.
    """

    def __init__(
        self, path: Path, *, is_one_file: bool, overwrite: bool, durability: Durability
    ) -> None:
        self.durability = durability
        self._target, self._is_one_file, self._overwrite = path, is_one_file, overwrite
        self._folder = path.parent if is_one_file else path
        self._journal_place = journal_of(path, is_one_file=is_one_file)
        self._forget_run()

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """What is written at once."""

    @abstractmethod
    def _file_of(self, index: tuple[int, ...]) -> tuple[str, int | None]:
        """Return the name of a block's file in the directory, and its size if that is known."""

    @abstractmethod
    def _find_old(self) -> list[Path]:
        """Return the files that will be replaced: what makes an array of them comes first.

        Raises
        ------
        TargetExistsError
            If there are some and they are not to be overwritten.
        UsageError
            If something is there that is not part of a target.
        """

    @abstractmethod
    def _old_names(self) -> list[str]:
        """Return words by which `_find_left` will know the files that are to be replaced."""

    @abstractmethod
    def _find_left(self, words: Sequence[str]) -> list[Path]:
        """Return what an earlier run did not come to remove."""

    @abstractmethod
    def _find_files(self) -> Mapping[str, int]:
        """Return the size of every block's file, and of those in the making, by name."""

    @abstractmethod
    def _complete(self) -> None:
        """Make an array of the blocks, which are all there."""

    def _is_left_out(self, name: str) -> bool:  # noqa: ARG002 - of most formats none is
        """Whether a block that is whole needs no file: what it holds is understood."""
        return False

    def _refuse(self) -> NoReturn:
        """Refuse to write where something is, and say what it is."""
        unfinished = is_unfinished(self._journal_place)
        if unfinished:
            refuse_locked(self._journal_place)
        raise TargetExistsError(printable(str(self._target)), unfinished)

    def _forget_run(self) -> None:
        """Be as new: what is there now belongs to whoever made it, not to the next run."""
        self._publisher = Publisher(self._folder, self.durability)
        self._journal: Journal | None = None
        self._any_committed = False
        # Files of which a part is durable.
        self._begun: set[str] = set()
        self._made: list[Path] = []

    def create(self, job: bytes = b"{}") -> None:
        """Make the place, with its parents; what exists is refused or, if asked, replaced.

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
            with storage_errors(self._target):
                self._make_place(job)
        except BaseException:
            self._let_go()
            self._remove_made()
            raise

    def _make_place(self, job: bytes) -> None:
        old, place, replaced = self._find_old(), self._journal_place, None
        missing = [p for p in (self._folder, *self._folder.parents) if not p.exists()]
        for folder in reversed(missing):
            with suppress(FileExistsError):
                system.calls.mkdir(folder)
                self._made.append(folder)
        if place.exists() and (self._overwrite or is_sealed(place)):
            replaced = Journal.resume(place, durable=False)
        remove_stale(self._aside)
        # What is left of the old target, if this run is killed, must not look complete: the new
        # journal comes first, then what makes an array of the old blocks goes, then they do.
        lines = [f"{_REPLACES} {word}" for word in self._old_names()] if old else [_CLEARED]
        self._begin_journal(job, lines, replaced)
        if old:
            self._clear(old)

    def _begin_journal(self, job: bytes, lines: list[str], replaced: Journal | None) -> None:
        try:
            self._journal = Journal.begin(
                self._journal_place,
                job,
                lines,
                aside=self._aside,
                durable=self.durability is Durability.FSYNC,
                replaced=replaced,
            )
        except FileExistsError:
            # Of two runs that find the place free, one gets it.
            raise TargetExistsError(printable(str(self._target)), unfinished=True) from None
        finally:
            if replaced is not None:
                replaced.close()

    @property
    def _aside(self) -> Path:
        """How the names begin of journals in the making: outside, so that they do not show."""
        path, folder = self._target.absolute(), self._folder
        outside = path.parent
        if not self._is_one_file and (
            outside.stat().st_dev != folder.stat().st_dev or not os.access(outside, os.W_OK)
        ):
            return folder / JOURNAL
        return outside / f".{path.name}{JOURNAL}"

    def _clear(self, old: list[Path]) -> None:
        """Remove what the target replaces; nothing is written before that is done."""
        assert self._journal is not None
        for path in old:
            system.calls.unlink(path)
        remove_empty_folders(self._folder)
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
        with storage_errors(self._target):
            durable = self.durability is Durability.FSYNC
            self._journal = Journal.resume(self._journal_place, durable=durable)
            try:
                replaced = [words for words in self._lines() if words[0] == _REPLACES]
                if not any(words == [_CLEARED] for words in self._lines()):
                    self._clear(self._find_left([word for _, word in replaced]))
                ledger = self._find_durable()
            except BaseException:
                self._let_go()
                raise
        self._any_committed = bool(ledger)
        return ledger

    def _lines(self) -> Iterable[list[str]]:
        return read_lines(self._journal_place)

    def _find_durable(self) -> Ledger:
        """Read what the journal says to be durable, and leave out what is not there any more."""
        try:
            ledger = Ledger(self.grid, cells_in(self._lines(), self.grid))
        except (ValueError, IndexError) as error:
            raise DataError(printable(str(self._journal_place)), [str(error)]) from error
        files = self._find_files()
        for index in ledger.blocks():
            if ledger.is_stored(index) and not self._is_there(index, files):
                ledger.drop(index)
        for index in list(ledger.parts):
            name, n_bytes = self._file_of(index)
            part = self._publisher.partial(name).relative_to(self._folder)
            if files.get(str(part)) == n_bytes:
                self._publisher.go_on(name)
            elif files.get(name) == n_bytes:
                # Its last cells were not noted before the run ended: they are written again.
                self._publisher.take_back(name)
            else:
                ledger.drop(index)
                continue
            self._begun.add(name)
        return ledger

    def _is_there(self, index: tuple[int, ...], files: Mapping[str, int]) -> bool:
        name, n_bytes = self._file_of(index)
        return name in files and files[name] == (files[name] if n_bytes is None else n_bytes)

    def commit(self, cells: Collection[Written]) -> None:
        """Sync cells that have been written, name the blocks that are whole, and note it."""
        assert self._journal is not None, "nothing has been created"
        names = {cell.index: self._file_of(cell.index)[0] for cell in cells}
        whole = [names[cell.index] for cell in cells if cell.is_last]
        # Blocks may have got their names before something goes wrong.
        self._any_committed = True
        left_out = {name for name in whole if self._is_left_out(name)}
        self._publisher.commit(
            names.values(), [name for name in whole if name not in left_out], left_out
        )
        self._journal.append(line_of(cell, self.grid) for cell in cells)
        self._begun.update(names.values())
        self._begun.difference_update(whole)

    def note(self, lines: Iterable[str]) -> None:
        """Add other lines to the journal."""
        assert self._journal is not None, "nothing has been created"
        self._journal.append(lines)

    def finish(self) -> None:
        """Make the target complete, and seal the journal."""
        assert self._journal is not None, "nothing has been created"
        self._complete()
        for folder in {self._folder, *(made.parent for made in self._made)}:
            with storage_errors(folder):
                sync(folder)
        with storage_errors(self._target):
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

    def _let_go(self) -> None:
        """Let another run have the journal."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _remove_made(self) -> None:
        """Remove the directories that were made, unless something is in them."""
        while self._made:
            with suppress(OSError):
                system.calls.rmdir(self._made.pop())


def remove_empty_folders(root: Path) -> None:
    """Remove the directories below one that hold nothing, innermost first."""
    for folder, _, _ in os.walk(root, topdown=False):
        if folder != str(root) and not os.listdir(folder):  # noqa: PTH208 - names are not needed
            system.calls.rmdir(folder)


def is_journal_in_the_making(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry of a target's directory is a journal that a killed run left."""
    name = entry.name
    return name.startswith(f"{JOURNAL}.") and name.endswith(".part") and entry.is_dir()
