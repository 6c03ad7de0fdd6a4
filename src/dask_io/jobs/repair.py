"""Repair a complete target: rewrite its damaged blocks from its source.

The checksums in the journal show which blocks are damaged. New versions of these blocks are
written to a folder inside the journal's folder, read back, and compared with the same checksums.
Only then does each replace the damaged one, in one step. The journal does not change. An
interrupted repair therefore never leaves the target worse than before.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from dask_io.codecs.deflate import encoder_in
from dask_io.engine.checksums import cells_of, find_damaged, is_damage, is_wrong
from dask_io.engine.commit import Outlet
from dask_io.engine.run import RunResult
from dask_io.errors import (
    DaskIOError,
    DataError,
    InterruptedRunError,
    LockedError,
    StorageError,
    UsageError,
)
from dask_io.formats.changed import LEFT_AS_IT_IS, refuse_other_array, say_reshaped
from dask_io.formats.places import holder_of, is_absent, journal_at, refuse_unfinished, targets_in
from dask_io.formats.reopening import read_back, remake_target
from dask_io.hierarchy.container import UndividedTarget
from dask_io.jobs.job import pace_of
from dask_io.jobs.planning import plan_rest
from dask_io.jobs.record import START_AGAIN, JobRecord, find_missing, is_tree, refuse_lost
from dask_io.jobs.resume import plan_recorded
from dask_io.jobs.targets import plan_resumes
from dask_io.jobs.tree_job import refuse_changed_tree
from dask_io.jobs.tree_record import TreeRecord
from dask_io.jobs.tree_resume import file_of, open_source_of, place_in, plan_tree_again
from dask_io.jobs.verify import check_copies, refuse_other_arrays, reopen_group, share_memory
from dask_io.journal.journal import ArrayLines, is_sealed, read_lines
from dask_io.journal.ledger import Ledger, any_freed, join
from dask_io.journal.logs import logs_of
from dask_io.notebook import Displayed
from dask_io.report.text import damage_text, repair_text, what_is_damaged
from dask_io.storage.files import medium_of, move_file
from dask_io.storage.location import locate
from dask_io.storage.medium import Durability
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.container import INSIDE
from dask_io.stores.store import Repairable
from dask_io.units import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from os import PathLike

    from dask_io.engine.run import Progress
    from dask_io.geometry import Grid
    from dask_io.hierarchy.container import DividedContainer, DividedTarget
    from dask_io.jobs.settings import Settings
    from dask_io.journal.ledger import Written
    from dask_io.storage.location import Location
    from dask_io.stores.store import Readback, Source, Target

_RESTORE = (
    "restore it as it was, with the times of its files (cp -p keeps them), or rewrite the target "
    "with --overwrite; the journal does not record which file differs"
)
# The folder of a repair in progress, and the name of a target of several files in it.
_FOLDER, _NEW = "repair", "target"
_METADATA, _ALL = "metadata", "all of it"
_MOST_IN_MESSAGE, _MOST_LISTED = 5, 1_000


@dataclass(frozen=True, slots=True, repr=False)
class Damage(Displayed):
    """Damage to one array of a target.

    Attributes
    ----------
    place
        The array.
    n_blocks
        Number of its blocks.
    n_damaged
        Number of damaged blocks.
    blocks
        Indices of the first damaged blocks; 1,000 at most.
    others
        Other damage: to metadata, or to data that was copied verbatim.
    needs_whole_file
        Whether all blocks must be rewritten, because they are in one file.
    """

    place: str
    n_blocks: int
    n_damaged: int = 0
    blocks: tuple[tuple[int, ...], ...] = ()
    others: tuple[str, ...] = ()
    needs_whole_file: bool = False

    def __bool__(self) -> bool:
        return bool(self.n_damaged or self.others)

    def __str__(self) -> str:
        return damage_text(self)

    def _where(self) -> Sequence[str]:
        return (self.place,)

    def _facts(self) -> Iterator[str]:
        yield what_is_damaged(self)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "place", self.place
        yield "blocks", f"{self.n_damaged:,} of {self.n_blocks:,} damaged"
        yield "damage", what_is_damaged(self)


@dataclass(frozen=True, slots=True, repr=False)
class Repair(Displayed):
    """The damage that `repair` found in a target, and the result of the run that repaired it.

    The result is empty if there was no damage, or in a dry run.
    """

    arrays: tuple[Damage, ...] = ()
    result: RunResult = field(default_factory=lambda: RunResult.of_nothing(0))

    @property
    def damaged(self) -> tuple[Damage, ...]:
        """The damaged arrays."""
        return tuple(filter(None, self.arrays))

    @property
    def n_blocks(self) -> int:
        """Number of blocks that were checked."""
        return sum(each.n_blocks for each in self.arrays)

    @property
    def n_damaged(self) -> int:
        """Number of damaged blocks."""
        return sum(each.n_damaged for each in self.arrays)

    def __str__(self) -> str:
        return repair_text(self)

    def _facts(self) -> Iterator[str]:
        yield f"{self.n_damaged:,} of {count(self.n_blocks, 'block')} damaged"
        if self.damaged:
            yield "repaired" if self.result.verified else "not repaired"

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "checked", count(self.n_blocks, "block")
        yield "damaged", count(self.n_damaged, "block")
        if self.damaged:
            yield "repaired", "yes" if self.result.verified else "no"
        for damage in self.damaged:
            yield damage.place, what_is_damaged(damage)

    def followed_by(self, other: Repair) -> Repair:
        """Return two repairs combined into one."""
        return Repair(self.arrays + other.arrays, self.result.followed_by(other.result))


@dataclass(frozen=True)
class RepairOptions:
    """Options of a repair; `settings.source` is the new place of a source that has been moved."""

    settings: Settings
    dry_run: bool = False
    on_progress: Callable[[Progress], None] | None = None

    def find_damaged(
        self,
        written: Readback,
        cells: Iterator[Written],
        counts: Callable[[DaskIOError], bool] = is_damage,
    ) -> set[tuple[int, ...]]:
        """Read cells back within the memory budget, and return the damaged blocks."""
        settings = self.settings
        written.tally.pace = pace_of(settings.max_rate)
        share = share_memory(written, settings.memory, settings.n_threads())
        return find_damaged(
            written, cells, **share._asdict(), counts=counts, on_progress=self.on_progress
        )


def repair_all(target: str | PathLike[str], options: RepairOptions) -> Repair:
    """Repair a target, or all targets in a folder; unfinished ones are completed first.

    Raises
    ------
    StorageError
        If the target or the source is not found.
    UsageError
        If nothing there has a journal.
    DataError
        If the source has changed, was consumed, or no longer gives the same data.
    """
    place = locate(target, options.settings.storage_options)
    targets = targets_in(place)
    missing = find_missing(targets, place)
    found = Repair()
    for each, record in missing.items():
        if record is not None:
            with _interruptible(place):
                found = found.followed_by(_write_missing(each, record, options))
    for each in targets:
        journal = journal_at(each)
        if journal is not None:
            with _interruptible(each):
                found = found.followed_by(_repair(each, journal, options))
    refuse_lost(missing, place)
    if targets:
        # All data has been read back; new blocks were read back before they got their names.
        verified = None if options.dry_run else True
        return replace(found, result=replace(found.result, verified=verified))
    name = str(place)
    if is_absent(place):
        raise StorageError(name, "no such file or directory", "check the path")
    raise UsageError(
        f"{name} has no journal, so its checksums are not known; only targets that Dask IO "
        "has written can be repaired"
    )


def _repair(place: Location, journal: Location, options: RepairOptions) -> Repair:
    if not is_sealed(journal):
        _complete(place, options)
    if is_tree(journal):
        record = TreeRecord.read(journal)
        # All arrays are checked before any is changed.
        refuse_other_arrays(place, record)
        if record.divided is not None:
            return _repair_group(place, record, record.divided, options)
        return _repair_file(journal, record, options)
    return _ArrayRepair(place, journal, JobRecord.read(journal), options).run()


def _complete(place: Location, options: RepairOptions) -> None:
    """Complete an unfinished target; blocks that are not written yet cannot be damaged."""
    if options.dry_run:
        refuse_unfinished(place)
    for job in plan_resumes(place, options.settings):
        job.execute(progress=options.on_progress)


@dataclass(frozen=True)
class _ArrayRepair:
    """The repair of one array that has its own journal."""

    place: Location
    journal: Location
    record: JobRecord
    options: RepairOptions

    def run(self) -> Repair:
        """Look for damage and, unless it is a dry run, repair it."""
        refuse_other_array(self.record.target, self.place)
        options, target = self.options, self._target_at(self.place)
        with _locked(self.place, self.journal, options):
            damage, blocks = self._find_damage(target)
            if options.dry_run or not damage:
                return Repair((damage,))
            if not isinstance(target, Repairable):
                raise DataError(
                    str(self.place),
                    [f"{damage.n_damaged:,} of {damage.n_blocks:,} blocks are damaged"],
                    f"{target.format} never changes stored data; rewrite it: run the first command "
                    "with --overwrite",
                )
            if _METADATA in damage.others:
                # Repaired first, because it does not need the source, which may be lost.
                target.describe_again()
            result = RunResult.of_nothing(0)
            if damage.n_damaged:
                result = self._rewrite(target, blocks, self._open_source())
            return Repair((damage,), result)

    def _target_at(self, place: Location) -> Target:
        """Return the target as it would be at a place, with durable writes."""
        described = self.record.target
        return remake_target(described, at=place, durability=Durability.FSYNC, reserve=True)

    def _find_damage(self, target: Target) -> tuple[Damage, frozenset[tuple[int, ...]] | None]:
        """Return the damage, and the blocks to rewrite; None for all of them, as one file."""
        others: tuple[str, ...] = ()
        is_whole = False
        cells = cells_of(self.journal, target.grid)
        place, n_blocks = str(self.place), target.grid.n_blocks
        try:
            if isinstance(target, Repairable):
                others = () if target.is_described() else (_METADATA,)
                is_whole = target.is_replaced_whole
                written = target.look_back()
            else:
                written = read_back(self.record.target, at=self.place)
            damaged = self.options.find_damaged(written, cells)
        except DaskIOError as error:
            if not is_whole or not is_damage(error):
                raise
            # The file cannot be read at all.
            return _all_damaged(place, target.grid, needs_whole_file=n_blocks > 1), None
        needs_all = is_whole and len(damaged) > 0 and n_blocks > 1
        listed = tuple(nsmallest(_MOST_LISTED, damaged))
        damage = Damage(place, n_blocks, len(damaged), listed, others, needs_all)
        return damage, None if is_whole else frozenset(damaged)

    def _open_source(self) -> Source:
        """Open the source at its old or new place, and check that it has not changed."""
        moved, options = self.options.settings.source, self.options.settings.storage_options
        place, name = str(self.place), quote(str(self.place))
        if moved is None and any_freed(read_lines(self.journal)):
            consumed = "it is damaged, and its source was consumed"
            advice = f"give a copy of the source with the same times: dask-io repair {name} SRC"
            raise DataError(place, [consumed], advice)
        at = None if moved is None else locate(moved, options)
        try:
            return self.record.open_source(None, at=at, storage_options=options).source
        except (DataError, StorageError) as error:
            where = at or self._recorded_source()
            if is_absent(where) or isinstance(error.__cause__, FileNotFoundError):
                found_at = f"give the new path of the source: dask-io repair {name} SRC"
                reason = "no such file or directory"
                raise StorageError(str(where), reason, found_at) from error
            with _advising_to_restore():
                raise

    def _recorded_source(self) -> Location:
        """Return the place of the source when the target was written."""
        described = self.record.source
        folder = locate(str(described.get("folder")), self.options.settings.storage_options)
        return folder / str(described["file"]) if "file" in described else folder

    def _rewrite(
        self, target: Repairable, blocks: frozenset[tuple[int, ...]] | None, source: Source
    ) -> RunResult:
        """Write blocks to a scratch folder, and replace the damaged ones if they are correct.

        All blocks are written if `blocks` is None.
        """
        journal, options = self.journal, self.options
        with _scratch(self.place, journal) as folder:
            # A file has the same name there, because the suffix may tell how it is compressed.
            name = holder_of(self.place).name if target.is_replaced_whole else _NEW
            new = self._target_at(folder / name)
            assert isinstance(new, Repairable), "it has the same type"
            new.refuse_loss(self.place)
            ledger = Ledger(new.grid, () if blocks is None else read_lines(journal))
            for index in blocks or ():
                ledger.drop(index)
            job = plan_rest(source, new, ledger, options.settings)
            new.create()
            result = job.carry_out(Outlet(new, ledger=ledger), options.on_progress)
            expected = cells_of(journal, new.grid)
            if blocks is not None:
                expected = (cell for cell in expected if cell.index in blocks)
            wrong = options.find_damaged(new.look_back(), expected, is_wrong)
            if blocks is not None:
                target.take_blocks(new, blocks - wrong)
            elif not wrong:
                # All blocks are in one file, so one index replaces it.
                target.take_blocks(new, islice(new.grid.indices(), 1))
        if wrong:
            listed = nsmallest(_MOST_IN_MESSAGE, wrong)
            raise _differs(
                source.place,
                self.place,
                listed,
                len(wrong),
                new.grid.n_blocks,
                encoder=encoder_in(new.metadata),
            )
        return result


def _all_damaged(
    place: str, grid: Grid, others: tuple[str, ...] = (), *, needs_whole_file: bool = False
) -> Damage:
    """Return the damage of an array that is lost completely."""
    listed = tuple(islice(grid.indices(), _MOST_LISTED))
    return Damage(place, grid.n_blocks, grid.n_blocks, listed, others, needs_whole_file)


def _differs(
    source: str,
    place: Location,
    blocks: Sequence[tuple[int, ...]],
    n_wrong: int,
    n_blocks: int,
    *,
    encoder: str | None = None,
) -> DataError:
    """Return the error for a source that no longer gives the data that was written."""
    listed = " ".join(map(join, blocks[:_MOST_IN_MESSAGE]))
    more = " and more" if n_wrong > _MOST_IN_MESSAGE else ""
    differs = (
        f"gives different data now for {n_wrong:,} of {n_blocks:,} blocks of "
        f"{place} ({listed}{more}), so these blocks were not replaced"
    )
    advice = "restore the source, or use the version of the codec that wrote the blocks"
    if encoder is not None:
        other = "libdeflate (pip install deflate)" if encoder == "zlib" else "zlib"
        advice += f": {encoder} compresses here, and {other} writes other bytes"
    return DataError(source, [differs], advice)


def _repair_group(
    place: Location, record: TreeRecord, container: DividedContainer, options: RepairOptions
) -> Repair:
    """Repair the arrays of a group, then those copied verbatim, then the group's metadata."""
    found, settings = Repair(), options.settings
    names = [name for name in record.copies if _is_copy_damaged(place, record, name)]
    _refuse_other_copies(place, record, names, settings)
    for name in record.arrays:
        each, chosen, inner = record.job_of(name), options, journal_at(place / name)
        if settings.source is not None:
            source = place_in(record.source_format, settings.source, name)
            chosen = replace(options, settings=replace(settings, source=source))
        if inner is None:
            repaired = _write_missing(place / name, each, chosen)
        else:
            repaired = _repair(place / name, inner, chosen)
        found = found.followed_by(repaired)
    if names and not options.dry_run:
        _copy_again(place, record, container, names, options)
    target = reopen_group(place, record, container)
    paths = target.damaged_groups()
    if paths and not options.dry_run:
        with _resumed(target):
            target.describe_again(paths)
    copies = (Damage(str(place / name), 0, others=(_ALL,)) for name in names)
    groups = (Damage(str(place / path), 0, others=(_METADATA,)) for path in paths)
    return replace(found, arrays=(*found.arrays, *copies, *groups))


def _is_copy_damaged(place: Location, record: TreeRecord, name: str) -> bool:
    if not (place / name).is_dir():
        return True
    return record.container.digests(place, [name])[name] != record.copies[name]


def _damaged_copies(file: Location, record: TreeRecord) -> list[str]:
    """Return the arrays that a file has copied verbatim and that differ; none if it is damaged."""
    try:
        found = record.container.digests(file, record.copies) if record.copies else {}
    except DaskIOError:
        return []
    return [name for name, digest in record.copies.items() if found[name] != digest]


def _refuse_other_copies(
    place: Location, record: TreeRecord, names: Sequence[str], settings: Settings
) -> None:
    """Refuse to copy arrays again that are intact, but have another shape than those of the source.

    Their shape was not recorded. Nothing is refused if the source has changed, or if the source or
    the target cannot be read.

    Raises
    ------
    DataError
        If there is one.
    """
    if not names:
        return
    try:
        tree = open_source_of(record, settings)
        refuse_changed_tree(tree, record, "has changed")
        before = record.container.convert(tree).arrays
        after = record.container.read_tree(holder_of(place), each=True).arrays
    except (DataError, StorageError, UsageError):
        return
    for name in names:
        if name not in before or name not in after:
            continue
        old, new = before[name].shape, after[name].shape
        # The shape of an array that is not understood is empty, too.
        if new and old != new:
            problem = say_reshaped(old, new, after[name].dimensions)
            raise DataError(f"{place}{INSIDE}/{name}", [problem], LEFT_AS_IT_IS)


def _copy_again(
    place: Location,
    record: TreeRecord,
    container: DividedContainer,
    names: Sequence[str],
    options: RepairOptions,
) -> None:
    """Copy arrays of a complete group verbatim from its source again.

    Raises
    ------
    DataError
        If the source now has different data; nothing has been changed then.
    """
    tree = open_source_of(record, options.settings)
    gone = [name for name in names if name not in tree.arrays]
    target = reopen_group(
        place, record, container, tree=tree, copies=[name for name in names if name not in gone]
    )
    digests = target.digests()
    for name in names:
        if digests.get(name) != record.copies[name]:
            changed = [f"array {name} has changed since it was copied"]
            raise DataError(tree.place, changed, "restore it as it was")
    with _resumed(target):
        target.copy_again()


@contextmanager
def _resumed(target: DividedTarget) -> Iterator[None]:
    """Keep other runs from writing to a group."""
    target.resume()
    try:
        yield
    finally:
        target.abandon()


def _write_missing(place: Location, record: JobRecord, options: RepairOptions) -> Repair:
    """Write a target, or an array of a group, that is missing together with its journal."""
    target = remake_target(record.target, at=place, durability=record.durability, reserve=True)
    damage = _all_damaged(str(place), target.grid, (_ALL,))
    if options.dry_run:
        return Repair((damage,))
    job = plan_recorded(place, record, options.settings)
    return Repair((damage,), job.execute(verify=True, progress=options.on_progress))


def _repair_file(journal: Location, record: TreeRecord, options: RepairOptions) -> Repair:
    """Rewrite a file with several arrays if any part of it is damaged."""
    place = file_of(journal)
    with _locked(place, journal, options):
        _refuse_other_copies(place, record, _damaged_copies(place, record), options.settings)
        found = Repair(tuple(_find_file_damage(place, journal, record, options)))
        if options.dry_run or not found.damaged:
            return found
        with _scratch(place, journal) as folder:
            new = Path(str(folder), place.name)
            with _advising_to_restore():
                series = plan_tree_again(journal, new, options.settings)
            target = series.named_output.target
            assert isinstance(target, UndividedTarget), "a file is written as a whole"
            target.refuse_loss(place)
            result = series.execute(progress=options.on_progress)
            wrong = [
                each for each in _find_file_damage(new, journal, record, options, is_wrong) if each
            ]
            if not wrong:
                move_file(new, place)
                medium_of(place).sync_names([place.parent])
        if wrong:
            blocks = [index for each in wrong for index in each.blocks]
            n_wrong = sum(each.n_damaged for each in wrong)
            raise _differs(series.place, place, blocks, n_wrong, found.n_blocks)
        return replace(found, result=result)


def _find_file_damage(
    place: Location,
    journal: Location,
    record: TreeRecord,
    options: RepairOptions,
    counts: Callable[[DaskIOError], bool] = is_damage,
) -> Iterator[Damage]:
    """Find damage in a file with several arrays; `counts` decides which errors are damage."""
    lines = ArrayLines(journal)
    for array, each in enumerate(record.arrays.values()):
        described = each["target"]
        name = f"{place}{INSIDE}/{described.get('inside')}"
        try:
            written = read_back(described, at=place)
        except DaskIOError as error:
            if not counts(error):
                raise
            yield Damage(name, 0, others=(_ALL,), needs_whole_file=True)
            continue
        grid = written.grid
        cells = cells_of(journal, grid, partial(lines.read, array))
        damaged = options.find_damaged(written, cells, counts)
        listed = tuple(nsmallest(_MOST_LISTED, damaged))
        yield Damage(name, grid.n_blocks, len(damaged), listed, (), bool(damaged))
    try:
        check_copies(place, record)
    except DaskIOError as error:
        if not counts(error):
            raise
        yield Damage(str(place), 0, others=("data copied verbatim",), needs_whole_file=True)


@contextmanager
def _locked(place: Location, journal: Location, options: RepairOptions) -> Iterator[None]:
    """Keep other runs from writing to a complete target; a dry run takes no lock."""
    with ExitStack() as stack:
        if not options.dry_run:
            # Releasing the lock may fail, too.
            stack.enter_context(storage_errors(journal))
            stack.enter_context(logs_of(journal).holding(journal))
        if not is_sealed(journal):
            reason = "another run has begun to write it"
            raise LockedError(str(place), reason, "wait for it, then try again")
        if not options.dry_run:
            # Leftovers of a killed repair.
            medium_of(journal).remove_tree(journal / _FOLDER)
        yield


@contextmanager
def _scratch(place: Location, journal: Location) -> Iterator[Location]:
    """Provide a folder on the disk of the target, inside the journal's folder."""
    folder = journal / _FOLDER
    try:
        yield folder
    except StorageError as error:
        # The inner run's error says how to resume it, but its files are removed.
        first = error.__cause__ if isinstance(error.__cause__, StorageError) else error
        again = f"then run again: dask-io repair {quote(str(place))}"
        advice = f"{first.advice}; {again}" if first.advice else again
        raise type(first)(first.path, first.reason, advice) from error
    finally:
        # If this fails, the next repair removes the folder.
        with suppress(StorageError):
            medium_of(journal).remove_tree(folder)


@contextmanager
def _advising_to_restore() -> Iterator[None]:
    """Advise to restore a source that has changed; a complete target is not resumed."""
    try:
        yield
    except DataError as error:
        if error.advice not in {"", START_AGAIN}:
            raise
        raise DataError(error.place, error.problems, _RESTORE) from error


@contextmanager
def _interruptible(place: Location) -> Iterator[None]:
    """Report that an interrupted repair can be run again."""
    try:
        yield
    except (KeyboardInterrupt, InterruptedRunError):
        raise InterruptedRunError(quote(str(place)), True, "repair") from None  # noqa: FBT003 - arguments are positional
