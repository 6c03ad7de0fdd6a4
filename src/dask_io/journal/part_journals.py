"""The journals of parts: several processes write one target at once, each with its own journal.

The journal of a part is a folder in the target's journal, such as
``parts/00003-of-00016.1f8b2c33a9d0``. The last word identifies the attempt: a part may run several
times, even at once. Each attempt has its own journal and lock. Only whole blocks count, because an
attempt cannot complete the files of another. `fold_parts` adds the blocks to the target's journal.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from dask_io.errors import DataError, LockedError, StorageError
from dask_io.journal.journal import VERSION, Journal, read_job, read_lines, refuse_locked
from dask_io.journal.ledger import CHANGED_LINE, Ledger, any_changed, dropped_line_of, whole_blocks
from dask_io.journal.logs import logs_of
from dask_io.storage.files import medium_of
from dask_io.storage.local.regular_files import refuse_link
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dask_io.geometry import Grid, Region
    from dask_io.storage.location import Location

_NAME = re.compile(r"([0-9]{5,})-of-([0-9]{5,})\.[0-9a-f]{12}")
# Lines that are added to the target's journal at once.
_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Attempt:
    """The journal of one attempt to write a part; parts are numbered from 1."""

    folder: Location
    number: int
    count: int

    @property
    def job_id(self) -> object:
        """The job that the part belongs to; None if the journal is damaged."""
        try:
            return read_job(self.folder).get("job_id")
        except (DataError, StorageError):
            return None

    def is_running(self) -> bool:
        """Tell whether a process is writing the part."""
        try:
            refuse_locked(self.folder)
        except LockedError:
            return True
        except (FileNotFoundError, StorageError):
            return False
        return False

    def __str__(self) -> str:
        return f"part {self.number} of {self.count}"


class PartJournal(Journal):
    """The journal of an attempt to write a part."""

    folder: Location

    @classmethod
    def begin_part(
        cls, journal: Location, number: int, count: int, *, job_id: str, durable: bool
    ) -> Self:
        """Create the journal of an attempt, in the journal of the target."""
        place = journal / PARTS
        folder = place / f"{number:05}-of-{count:05}.{secrets.token_hex(6)}"
        job = json.dumps({"version": VERSION, "job_id": job_id, "part": number, "parts": count})
        medium_of(place).make_folders(place, [], durable=durable)
        try:
            found = cls.begin(folder, job.encode(), (), durable=durable)
        except FileNotFoundError:
            # A run that removes the journals of other attempts has removed the empty folder.
            medium_of(place).make_folders(place, [], durable=durable)
            found = cls.begin(folder, job.encode(), (), durable=durable)
        found.folder = folder
        return found

    def check_held(self) -> None:
        """Raise an error if another run has completed or replaced the target."""
        super().check_held()
        # A lock on local disk stays, even if its file has been removed.
        if isinstance(self.folder, Path) and not logs_of(self.folder).exists(self.folder):
            raise StorageError(
                str(self.folder.parents[2]),
                "another run has completed or replaced it meanwhile",
                "nothing is left to do, unless that run failed",
            )

    def append(self, lines: Iterable[str]) -> None:
        """Add lines, unless another run has completed or replaced the target.

        In an object store, a line would bring the journal back that this run has removed.
        """
        self._log.confirm_held()
        super().append(lines)


def find_attempts(journal: Location) -> list[Attempt]:
    """Return the journals of all parts in a target's journal, in the order of the parts."""
    place = journal / PARTS
    if not place.is_dir():
        return []
    with storage_errors(place):
        names = {name: _NAME.fullmatch(name) for name in sorted(medium_of(place).names(place))}
    return [
        Attempt(place / name, int(found[1]), int(found[2]))
        for name, found in names.items()
        if found is not None and logs_of(place).exists(place / name)
    ]


def find_running(attempts: list[Attempt]) -> list[Attempt]:
    """Return the attempts that a process is writing."""
    return [attempt for attempt in attempts if attempt.is_running()]


def refuse_running(journal: Location, target: Location) -> None:
    """Refuse a target of which a process is writing a part.

    Raises
    ------
    LockedError
        If one does.
    """
    for attempt in find_running(find_attempts(journal)):
        raise still_running(target, attempt)


def still_running(target: Location, attempt: Attempt) -> LockedError:
    """Return the error that a part is still being written."""
    return LockedError(str(target), f"{attempt} is still running", "wait for it, or stop it")


class Folded(NamedTuple):
    """The attempts whose blocks have been added to a target's journal.

    Those in `running` may have written more blocks since.
    """

    attempts: list[Attempt]
    running: list[Attempt]


def fold_parts(main: Journal, journal: Location, grid: Grid) -> Folded:
    """Add the blocks that parts have written to a target's journal, and return the attempts.

    Their journals stay until `remove_attempts`.

    Raises
    ------
    DataError
        If a journal does not match the target.
    """
    attempts = find_attempts(journal)
    if not attempts:
        return Folded([], [])
    # Asked before their lines are read: an attempt that ends meanwhile may add more.
    running = find_running(attempts)
    job_id = read_job(journal).get("job_id")
    try:
        known = Ledger(grid, read_lines(journal))
        for attempt in attempts:
            if attempt.job_id == job_id:
                _append(main, _new_lines(attempt, known))
    except ValueError as error:
        raise DataError(str(journal), [str(error)]) from error
    return Folded(attempts, running)


def _append(main: Journal, lines: Iterator[str]) -> None:
    while some := list(islice(lines, _AT_ONCE)):
        main.append(some)


def _new_lines(attempt: Attempt, known: Ledger) -> Iterator[str]:
    """Yield the lines of blocks that are not known yet, and note these blocks as known."""
    if any_changed(read_lines(attempt.folder)):
        yield CHANGED_LINE
    for index, lines in whole_blocks(read_lines(attempt.folder), known.grid):
        if known.has_block(index):
            continue
        if index in known.parts:
            # The block's cells from another run are in a file that nobody completes.
            yield dropped_line_of(index)
        yield from lines
        known.note_whole(index)


def remove_attempts(attempts: list[Attempt], journal: Location) -> None:
    """Remove the journals of attempts after their blocks are in the target's journal."""
    place = journal / PARTS
    with storage_errors(place):
        for attempt in attempts:
            logs_of(attempt.folder).remove(attempt.folder)
        medium_of(place).remove_if_empty(place)


def remove_parts(journal: Location, *, only_ended: bool = False) -> None:
    """Remove what attempts have left that were killed at their start or began late, on local disk.

    An attempt that is just beginning may create its journal meanwhile. It finds the target
    complete then, and removes its journal itself. With `only_ended`, those that are still running
    stay. An object store has no folders that could be left.

    Raises
    ------
    StorageError
        If a link is in place of their folder. Then nothing is removed.
    """
    place = journal / PARTS
    if not isinstance(place, Path) or not place.is_dir():
        return
    refuse_link(place)
    # An attempt that ends meanwhile may remove the folder.
    with suppress(FileNotFoundError):
        for folder in list(place.iterdir()):
            with suppress(OSError, StorageError):
                if only_ended:
                    # A process that is building or writing the journal holds its lock.
                    refuse_locked(folder)
                medium_of(place).remove_tree(folder)
    medium_of(place).remove_if_empty(place)


def job_id_in(journal: Location) -> str:
    """Return the identifier of a job that is written in parts.

    Raises
    ------
    DataError
        If the journal has none.
    """
    job_id = read_job(journal).get("job_id")
    if not isinstance(job_id, str):
        raise DataError(str(journal), ["is not the journal of a job that is written in parts"])
    return job_id


def find_whole_blocks(
    journal: Location, number: int, count: int, grid: Grid, region: Region
) -> Ledger:
    """Return the blocks of a part that are durable, relative to its region.

    They are those of the target's journal, and of earlier or concurrent attempts of the part.

    Raises
    ------
    DataError
        If a journal does not match the target, or records that the source changed.
    """
    own = [each for each in find_attempts(journal) if (each.number, each.count) == (number, count)]
    job_id, target = job_id_in(journal), journal.parent
    written: list[tuple[int, ...]] = []
    for attempt in own:
        if attempt.job_id == job_id:
            try:
                written += [index for index, _ in _blocks_in(attempt.folder, target, grid, region)]
            except (DataError, StorageError):
                if logs_of(attempt.folder).exists(attempt.folder):
                    raise
    ledger = Ledger(grid.clipped(region))
    # Read last: a run that removes the journal of an attempt has added its blocks to this one.
    for index, is_durable in _blocks_in(journal, target, grid, region):
        if is_durable:
            ledger.note_whole(index)
        else:
            ledger.drop(index)
    for index in written:
        ledger.note_whole(index)
    return ledger


def _blocks_in(
    folder: Location, target: Location, grid: Grid, region: Region
) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Yield the blocks of a region that a journal of a target completes, or drops after that.

    Raises
    ------
    DataError
        If the journal does not match the target, or records that the source changed.
    """
    if any_changed(read_lines(folder)):
        raise DataError(
            str(target),
            ["its source changed while an earlier run was reading it"],
            "start again: remove the target, and run all parts again",
        )
    first, counts = grid.index_at(region.start), grid.clipped(region)
    try:
        for index, lines in whole_blocks(read_lines(folder), grid):
            inside = tuple(a - b for a, b in zip(index, first, strict=True))
            if inside in counts:
                yield inside, bool(lines)
    except ValueError as error:
        raise DataError(str(folder), [str(error)]) from error
