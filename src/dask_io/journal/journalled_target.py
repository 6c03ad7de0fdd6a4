"""Targets whose blocks are files or objects, with a journal of the durable blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, NoReturn, Protocol

from dask_io.errors import DataError, StorageError, TargetExistsError, UsageError
from dask_io.journal.journal import (
    Journal,
    is_sealed,
    is_unfinished,
    journal_of,
    read_all,
    read_lines,
    refuse_locked,
)
from dask_io.journal.ledger import Ledger, any_freed, dropped_line_of, line_of
from dask_io.journal.logs import logs_of
from dask_io.journal.part_journals import (
    Folded,
    PartJournal,
    find_attempts,
    find_whole_blocks,
    fold_parts,
    job_id_in,
    refuse_running,
    remove_attempts,
    remove_parts,
    still_running,
)
from dask_io.storage.files import medium_of, move_file, size_of
from dask_io.storage.location import is_taken
from dask_io.storage.medium import Durability, Writers
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import PARTS, is_marked, is_temporary

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from dask_io.geometry import Grid, Region
    from dask_io.journal.ledger import Written
    from dask_io.storage.location import Location
    from dask_io.storage.medium import Writer
    from dask_io.storage.tally import Tally

# Lines of the journal: names of blocks; files to be removed, and that they have been removed; the
# single file that will be replaced when the new one is complete.
_NAMES, _REPLACES, _CLEARED, _OLD = "names", "replaces", "cleared", "old"


def refuse_needed(journal: Location, target: Location) -> None:
    """Refuse to replace a target that a run is writing, or that has the only copy of its data.

    Raises
    ------
    StorageError
        If another run is writing it.
    UsageError
        If its source was consumed, and it is not complete.
    """
    if not is_unfinished(journal):
        return
    refuse_locked(journal)
    refuse_running(journal, target)
    if any_freed(read_lines(journal)):
        name = str(target)
        raise UsageError(
            f"{name} contains the only copy of data whose source was consumed; complete it with "
            f"dask-io resume {quote(name)}"
        )


def is_cleared(journal: Location) -> bool:
    """Tell whether a run has removed the old files, so that blocks can be written."""
    return any(words == [_CLEARED] for words in read_lines(journal))


class BlockPaths(Protocol):
    """A target whose blocks are separate files."""

    def path_of(self, index: tuple[int, ...]) -> Location:
        """Return the file of a block."""


class JournalledTarget(ABC):
    """A target whose blocks are files; any number may be written at once.

    It is unfinished until its journal is sealed. A format defines the files, which existing files
    may be replaced, and the metadata that is written at the end.

    Parameters
    ----------
    path
        The directory, or the file if there is only one.
    is_one_file
        Whether the target is one file.
    overwrite
        Whether an existing target may be replaced.
    durability
        What committed blocks survive.
    """

    grid: Grid

    def __init__(
        self, path: Location, *, is_one_file: bool, overwrite: bool, durability: Durability
    ) -> None:
        self.durability = durability
        self._target, self._is_one_file, self._overwrite = path, is_one_file, overwrite
        self._medium = medium_of(path)
        self._folder = path.parent if is_one_file else path
        self._journal_place = journal_of(path, is_one_file=is_one_file)
        self._forget_run()

    @property
    def place(self) -> str:
        """The path, for messages."""
        return str(self._target)

    @abstractmethod
    def _file_of(self, index: tuple[int, ...]) -> tuple[str, int | None]:
        """Return the name of a block's file, and its size if it is known."""

    def _header_of(self, index: tuple[int, ...]) -> bytes:  # noqa: ARG002 - most files have none
        """Return the header of a block's file."""
        return b""

    @abstractmethod
    def _find_old(self) -> list[Location]:
        """Return the files that will be replaced, metadata first.

        Raises
        ------
        TargetExistsError
            If there are files and `overwrite` is False.
        UsageError
            If there are files that are not part of a target.
        """

    def _own_names(self) -> list[str]:
        """Return words for the journal that describe how blocks are named, if this can vary."""
        return []

    def _old_names(self) -> list[str]:
        """Return such words for the files to be replaced, for `_find_left`."""
        return []

    def _find_left(self, words: Sequence[str]) -> list[Location]:  # noqa: ARG002 - most have none
        """Return old files that an interrupted run has not removed yet."""
        return []

    @abstractmethod
    def _find_files(self) -> Mapping[str, int]:
        """Return the size of every block's file, also of incomplete files, by name."""

    @abstractmethod
    def _complete(self) -> None:
        """Write the metadata that turns the complete blocks into an array."""

    def _is_left_out(self, index: tuple[int, ...]) -> bool:  # noqa: ARG002 - of most formats none is
        """Whether a complete block needs no file, because it has only the fill value."""
        return False

    def _refuse(self) -> NoReturn:
        """Refuse to overwrite an existing target."""
        unfinished = is_unfinished(self._journal_place)
        if unfinished:
            refuse_locked(self._journal_place)
        raise TargetExistsError(str(self._target), unfinished)

    def _refuse_file(self) -> None:
        """Refuse to overwrite an existing file, or a directory in its place."""
        is_there = is_taken(self._target) or is_unfinished(self._journal_place)
        if is_there and not self._overwrite:
            self._refuse()
        if self._target.is_dir():
            raise UsageError(f"{self._target} is a directory, not a file to overwrite")

    def _find_file(self) -> dict[str, int]:
        """Return the size of the single file, also of an incomplete one, by name."""
        paths = {self._target, self._publisher.partial(self._target.name)}
        return {path.name: size_of(path) for path in paths if path.exists()}

    def _forget_run(self) -> None:
        """Reset the state of the run."""
        self._publisher = self._medium.publisher(self._folder, self.durability)
        self._journal: Journal | None = None
        # The old journal of a file that stays until the new one is complete.
        self._replaced: bytes | None = None
        self._any_removed = self._any_committed = self._is_part = False
        # Files of which a part is durable.
        self._begun: set[str] = set()
        self._made: list[Location] = []

    def create(self, job: bytes = b"{}") -> None:
        """Create the target, with its parents; refuse or replace an existing one.

        A second call, before the target is finished or abandoned, does nothing.

        Raises
        ------
        TargetExistsError
            If the target exists and `overwrite` is False.
        UsageError
            If `overwrite` is True, but the target has foreign files or is of another kind.
        """
        if self._journal is not None:
            return
        self._forget_run()
        try:
            with storage_errors(self._target):
                self._make_place(job)
        except BaseException:
            self.abandon()
            self._medium.remove_folders(self._made)
            raise

    def check(self) -> None:
        """Raise the errors that `create` would raise, without changing anything.

        Raises
        ------
        TargetExistsError
            If the target exists and `overwrite` is False.
        UsageError
            If `overwrite` is True, but data would be lost.
        StorageError
            If another run is writing it.
        """
        self._find_replaceable()

    def _find_replaceable(self) -> list[Location]:
        """Return the files that will be replaced, after checking that they may be."""
        with storage_errors(self._target):
            old = self._find_old()
            refuse_needed(self._journal_place, self._target)
        return old

    def _make_place(self, job: bytes) -> None:
        old, place = self._find_replaceable(), self._journal_place
        self._medium.make_folders(self._folder, self._made, durable=self._is_durable)
        logs_of(place).remove_stale(place)
        lines = [f"{_NAMES} {word}" for word in self._own_names()]
        lines += [f"{_REPLACES} {word}" for word in self._old_names()] if old else [_CLEARED]
        if self._is_one_file and is_taken(self._target):
            lines.append(f"{_OLD} {self._medium.identity(self._target)}")
        # If this run is killed, the rest of the old target must not look complete. So the new
        # journal is written first, then the old metadata is removed, then the old blocks.
        if logs_of(place).exists(place) and (self._overwrite or is_sealed(place)):
            self._take_journal(job, lines, stays=not old)
        else:
            self._begin_journal(job, lines)
        if old:
            self._any_removed = True
            self._clear(old)

    @property
    def _is_durable(self) -> bool:
        return self.durability is Durability.FSYNC

    def _take_journal(self, job: bytes, lines: list[str], *, stays: bool) -> None:
        """Take over the journal of the old target; keep its content if the old target `stays`."""
        place = self._journal_place
        journal = Journal.resume(place, durable=self._is_durable)
        try:
            # They belong to the old target.
            remove_attempts(find_attempts(place), place)
            replaced = read_all(place) if stays and is_sealed(place) else None
            journal.begin_again(job, lines)
        except BaseException:
            journal.close()
            raise
        self._journal, self._replaced = journal, replaced

    def _begin_journal(self, job: bytes, lines: list[str]) -> None:
        place = self._journal_place
        try:
            self._journal = Journal.begin(place, job, lines, durable=self._is_durable)
        except FileExistsError:
            # Another run created the target at the same time.
            raise TargetExistsError(str(self._target), unfinished=True) from None

    def _clear(self, old: list[Location]) -> None:
        """Remove the old files, before anything is written."""
        assert self._journal is not None
        # Parts of the old target that have begun meanwhile find their journals and files removed.
        if late := find_attempts(self._journal_place):
            remove_attempts(late, self._journal_place)
            names = [name for name in self._find_files() if is_marked(name.rpartition("/")[2])]
            self._medium.remove(self._folder / name for name in names)
        self._remove_old(old)
        self._medium.tidy(self._folder, old)
        if self._is_durable:
            self._medium.sync_names([self._folder])
        self._journal.append([_CLEARED])

    def _remove_old(self, old: list[Location]) -> None:
        self._medium.remove(old)

    def resume(self) -> Ledger:
        """Continue where an interrupted run ended.

        Raises
        ------
        StorageError
            If another run is writing it.
        DataError
            If the journal does not match this target.
        """
        self._forget_run()
        with storage_errors(self._target):
            self._journal = Journal.resume(self._journal_place, durable=self._is_durable)
            try:
                if not is_cleared(self._journal_place):
                    self._clear(self._find_left(self._words_of(_REPLACES)))
                folded = fold_parts(self._journal, self._journal_place, self.grid)
                ledger = self._find_durable(self._journal, folded)
            except BaseException:
                self._let_go()
                raise
        # This run must not remove a journal that it has not created.
        self._any_committed = True
        return ledger

    def join(self, number: int, count: int, region: Region) -> Ledger:
        """Write one of several parts, of which others may be written by other processes.

        The region consists of whole blocks, and positions in the ledger are relative to it. If all
        blocks are durable, nothing is begun.
        """
        self._forget_run()
        place = self._journal_place
        with storage_errors(self._target):
            ledger = find_whole_blocks(place, number, count, self.grid, region)
            if ledger.is_complete:
                return ledger
            self._journal = PartJournal.begin_part(
                place, number, count, job_id=job_id_in(place), durable=self._is_durable
            )
            self._publisher = self._medium.publisher(self._folder, self.durability, own_names=True)
        self._is_part = True
        return ledger

    def _lines(self) -> Iterable[list[str]]:
        return read_lines(self._journal_place)

    def _words_of(self, kind: str) -> list[str]:
        return [words[1] for words in self._lines() if words[0] == kind and words[1:]]

    def _names_in_journal(self) -> list[str]:
        """Return the words that describe the names of blocks in the current journal."""
        is_there = logs_of(self._journal_place).exists(self._journal_place)
        return self._words_of(_NAMES) if is_there else []

    def _find_durable(self, journal: Journal, folded: Folded) -> Ledger:
        """Read the durable blocks from the journal, and drop those that no longer exist.

        The blocks of parts are in the journal, and nothing else of them is needed.
        """
        try:
            ledger = Ledger(self.grid, self._lines())
        except ValueError as error:
            raise DataError(str(self._journal_place), [str(error)]) from error
        files = self._find_files()
        lost = [
            index
            for index in ledger.blocks()
            if ledger.is_stored(index) and not self._is_there(index, files)
        ]
        files = self._end_parts(folded, ledger, files, any_lost=bool(lost))
        lost += [index for index in ledger.parts if not self._take_over(index, files)]
        self._remove_left_out(ledger, files)
        for index in lost:
            ledger.drop(index)
        if lost and any_freed(self._lines()):
            # The source may not have them any more. `Consumption` checks this first.
            ledger.lost = lost
        elif lost:
            # The journal records the drop, so that old lines do not count for the new blocks.
            journal.append(map(dropped_line_of, lost))
        return ledger

    def _end_parts(
        self, folded: Folded, ledger: Ledger, files: Mapping[str, int], *, any_lost: bool
    ) -> Mapping[str, int]:
        """Remove the journals of parts, and their incomplete files; return the other files.

        Raises
        ------
        LockedError
            If a part is still running, and not all blocks are durable.
        """
        is_complete = ledger.is_complete and not any_lost
        running = [] if is_complete else folded.running
        ended = [each for each in folded.attempts if each not in running]
        if ended:
            remove_attempts(ended, self._journal_place)
        if running:
            raise still_running(self._target, running[0])
        if self._medium.writes_whole:
            return files
        begun = {self._publisher.partial(self._file_of(index)[0]) for index in ledger.parts}
        # Without parts, a file without a mark may be the target, or is written again.
        is_left = is_temporary if folded.attempts else is_marked
        left = {
            name
            for name in files
            if is_left(name.rpartition("/")[2]) and self._folder / name not in begun
        }
        if left and not is_complete:
            # Files are listed before journals, so a part that has begun meanwhile is found.
            refuse_running(self._journal_place, self._target)
        # An attempt that runs cannot begin a file any more, because its journal is gone.
        self._medium.remove(self._folder / name for name in sorted(left))
        return {name: n_bytes for name, n_bytes in files.items() if name not in left}

    def _remove_left_out(self, ledger: Ledger, files: Mapping[str, int]) -> None:
        """Remove incomplete files of omitted blocks that an interrupted run has left."""
        if self._medium.writes_whole:
            return
        left_out = (index for index in ledger.blocks() if not ledger.is_stored(index))
        parts = (self._publisher.partial(self._file_of(index)[0]) for index in left_out)
        self._medium.remove(
            [part for part in parts if str(part.relative_to(self._folder)) in files]
        )

    def _take_over(self, index: tuple[int, ...], files: Mapping[str, int]) -> bool:
        """Continue a partly durable file, if it exists."""
        name, n_bytes = self._file_of(index)
        part = self._publisher.partial(name)
        if files.get(str(part.relative_to(self._folder))) != n_bytes:
            if files.get(name) != n_bytes or self._is_old(name):
                return False
            # The run ended before it recorded the last cells, so they are written again.
            self._publisher.take_back(name)
        self._publisher.go_on(name, self._header_of(index))
        self._begun.add(name)
        return True

    def _is_old(self, name: str) -> bool:
        """Tell whether a file is the old one that will be replaced."""
        return self._medium.identity(self._folder / name) in self._words_of(_OLD)

    def _is_there(self, index: tuple[int, ...], files: Mapping[str, int]) -> bool:
        name, n_bytes = self._file_of(index)
        return name in files and n_bytes in {None, files[name]}

    def _write_file(
        self,
        name: str,
        tally: Tally,
        *,
        header: bytes = b"",
        n_bytes: int | None = None,
        n_zeros: int = 0,
        reserve: bool = True,
    ) -> Writer:
        """Open a block's file for writing, if this run still holds the target."""
        self._check_held()
        # An object is put when the visit ends, which may be long after it began.
        return self._publisher.writer(
            name,
            tally,
            header=header,
            n_bytes=n_bytes,
            n_zeros=n_zeros,
            reserve=reserve,
            check=self._check_held,
        )

    def _check_held(self) -> None:
        if self._journal is not None:
            self._journal.check_held()

    def commit(self, cells: Collection[Written]) -> None:
        """Sync written cells, publish complete blocks, and record both in the journal."""
        assert self._journal is not None, "nothing has been created"
        if self._is_part:
            self._journal.check_held()
        names = {cell.index: self._file_of(cell.index)[0] for cell in cells}
        whole = [names[cell.index] for cell in cells if cell.is_last]
        # Blocks may be published before an error occurs.
        self._any_committed = True
        self._begun.update(names.values())
        last = {cell.index for cell in cells if cell.is_last}
        left_out = {names[index] for index in last if self._is_left_out(index)}
        kept = [name for name in whole if name not in left_out]
        self._publisher.commit(set(names.values()) - left_out, kept)
        self._journal.append(line_of(cell, self.grid) for cell in cells)
        # Only now: otherwise their recorded cells would count as lost.
        self._publisher.leave_out(left_out)
        self._begun.difference_update(whole)

    def note(self, lines: Iterable[str]) -> None:
        """Add other lines to the journal."""
        assert self._journal is not None, "nothing has been created"
        self._any_committed |= self._is_part
        self._journal.append(lines)

    def finish(self) -> None:
        """Complete the target, and seal the journal."""
        assert self._journal is not None, "nothing has been created"
        self._journal.check_held()
        if self._is_part:
            # Only all parts together are a complete target.
            self._journal.seal()
            self._journal.close()
            self._forget_run()
            return
        self._complete()
        self._medium.sync_names({self._folder, *(made.parent for made in self._made)})
        with storage_errors(self._target):
            logs_of(self._journal_place).remove_stale(self._journal_place)
            remove_parts(self._journal_place)
            self._journal.seal()
            # An attempt that began meanwhile may not have seen the seal.
            remove_parts(self._journal_place)
            self._journal.settle()
        self._forget_run()

    @property
    def writers(self) -> Writers:
        """Each block is a file, so processes can write different ones, unless there is one file."""
        return Writers.THREADS if self._is_one_file else Writers.PROCESSES

    @property
    def is_replaced_whole(self) -> bool:
        """Whether all blocks are in one file."""
        return self._is_one_file

    def is_described(self) -> bool:
        """Tell whether the metadata files of the array are valid; a format may have none."""
        return True

    def describe_again(self) -> None:
        """Write the metadata files of the array."""
        with storage_errors(self._target):
            self._complete()
            self._medium.sync_names([self._folder])

    def refuse_loss(self, path: Location) -> None:  # noqa: B027 - for the formats that hold more
        """Refuse to replace a file that holds more; in most formats a file holds one array."""

    def path_of(self, index: tuple[int, ...]) -> Location:
        """Return the file of a block; it does not exist if the block was left out."""
        return self._folder / self._file_of(index)[0]

    def take_blocks(self, other: BlockPaths, indices: Iterable[tuple[int, ...]]) -> None:
        """Replace these blocks by durable blocks of another target, each in one step."""
        new_of = {self.path_of(index): other.path_of(index) for index in indices}
        for old, new in new_of.items():
            if is_taken(new):
                move_file(new, old)
            else:
                self._medium.remove([old])
        self._medium.sync_names({old.parent for old in new_of})

    def abandon(self, *, keep: bool = False) -> bool:
        """Remove uncommitted files; keep committed ones, in an unfinished target.

        The journal also stays if old blocks have been removed, and with `keep` in any case. That of
        a part goes if it records nothing, but the target stays begun. Without a successful `create`
        or `resume`, nothing is changed, because the target is not this run's.
        """
        if self._journal is None:
            return False
        # This run must not remove files that another run may have taken over.
        is_held = self._journal.is_held()
        is_begun = self._any_removed or self._any_committed or keep or not is_held
        if is_held:
            # Another attempt cannot complete the files of this one.
            self._publisher.abandon(keep=() if self._is_part else self._begun)
        if not is_begun:
            with suppress(OSError, StorageError):
                self._give_back(self._journal)
        self._let_go()
        self._medium.remove_folders(self._made)
        return is_begun or self._is_part

    def _give_back(self, journal: Journal) -> None:
        """Restore the old journal, or remove the journal if there is no room to restore it."""
        if self._replaced is not None:
            with suppress(OSError, StorageError):
                journal.restore(self._replaced)
                journal.settle()
                return
        journal.remove()
        # Before, another attempt may just be creating its journal there.
        if self._is_part and is_sealed(self._journal_place):
            self._medium.remove_if_empty(self._journal_place / PARTS)

    def _let_go(self) -> None:
        """Release the journal."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
