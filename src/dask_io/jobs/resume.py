"""Plan how to complete targets whose runs were interrupted."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from dask_io.engine.commit import Consumption, Outlet
from dask_io.engine.spill import remove_scratch
from dask_io.errors import (
    DataError,
    KeptWarning,
    StorageError,
    TargetExistsError,
    UsageError,
)
from dask_io.formats.places import advise_repair, advising_repair, is_absent, journal_at
from dask_io.formats.reopening import remake_target, reopen_source
from dask_io.jobs.job import Complete, Job, check_room
from dask_io.jobs.planning import plan_rest
from dask_io.jobs.record import JobRecord, find_members, refuse_changed
from dask_io.journal.journal import is_sealed, refuse_locked
from dask_io.journal.ledger import Ledger
from dask_io.journal.logs import logs_of
from dask_io.journal.part_journals import remove_parts
from dask_io.storage.location import locate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dask_io.engine.identity import Identity
    from dask_io.jobs.settings import Settings
    from dask_io.storage.location import Location


def plan_array_resumes(
    place: Location, targets: Iterable[Location], settings: Settings
) -> Iterator[Iterator[Job | Complete]]:
    """Plan how to complete the jobs that wrote targets at a path, each target by target.

    A planned target must be written before the next is planned.
    """
    jobs: dict[object, dict[Location, JobRecord]] = {}
    for target, record in _find_resumable(place, targets).items():
        jobs.setdefault(record.job_id or target, {})[target] = record
    for members in jobs.values():
        yield (plan_recorded(target, record, settings) for target, record in members.items())


def plan_recorded(place: Location, record: JobRecord, settings: Settings) -> Job | Complete:
    """Plan how to complete a target, given its record from its own journal or another's.

    The limits of the first run hold, unless the settings have others.
    """
    settings = settings.limited_by(record.memory, record.max_rate)
    journal = journal_at(place)
    if journal is None:
        return _plan_not_begun(place, record, settings)
    if JobRecord.read(journal).job_id != record.job_id:
        raise _contains_other_data(place)
    return _plan_resume(place, journal, record, settings)


def make_complete(place: Location, settings: Settings, n_blocks: int = 0) -> Complete:
    """Return the job of a complete target, which does nothing."""
    return Complete(
        place,
        n_blocks,
        settings.memory,
        settings.n_threads(),
        settings.max_rate,
        sidecar=settings.sidecar,
    )


def _find_resumable(place: Location, targets: Iterable[Location]) -> dict[Location, JobRecord]:
    """Return targets at a path, and all other targets of the jobs that wrote them.

    Raises
    ------
    StorageError
        If nothing is there.
    UsageError
        If nothing there has a journal.
    """
    found = find_members(targets)
    if found:
        return found
    name = str(place)
    if is_absent(place):
        raise StorageError(name, "no such file or directory", "check the path")
    raise UsageError(
        f"{name} has no journal, so there is nothing to resume; only targets that Dask IO has "
        "begun to write can be resumed"
    )


def _open_again(record: JobRecord, journal: Location | None, settings: Settings) -> Identity:
    """Open a source at its recorded place, or where it has been moved to."""
    moved, options = settings.source, settings.storage_options
    at = None if moved is None else locate(moved, options)
    return record.open_source(journal, at=at, storage_options=options)


def _plan_not_begun(place: Location, record: JobRecord, settings: Settings) -> Job:
    """Plan a target that an interrupted job had not begun to write."""
    refuse_late_consuming(place, settings)
    identity = _open_again(record, None, settings)
    target = remake_target(record.target, at=place, durability=record.durability, reserve=True)
    try:
        target.check()
    except TargetExistsError:
        raise _contains_other_data(place) from None
    planned = plan_rest(identity.source, target, Ledger(target.grid), settings)
    check_room([planned])
    outlet = Outlet(target, record.to_bytes(), identity=identity)
    given = record.gives_space
    return replace(planned, outlet=outlet, gives_space=given, gives_steps=given)


def _contains_other_data(place: Location) -> UsageError:
    return UsageError(
        f"{place} is a target of the interrupted run, but contains other data; move that away and "
        "resume again, or run the first command again with --overwrite"
    )


def _plan_resume(
    place: Location, journal: Location, record: JobRecord, settings: Settings
) -> Job | Complete:
    """Plan how to complete one target, which is locked until the job has run."""
    removes = settings.consume
    if is_sealed(journal):
        remove_parts(journal, only_ended=True)
        logs_of(journal).remove_stale(journal)
        if is_absent(place):
            raise DataError(str(place), ["is missing"], advise_repair(place))
        # Its blocks may have been removed since.
        with advising_repair(place):
            n_blocks = reopen_source(record.target, at=place).grid.n_blocks
        return make_complete(place, settings, n_blocks)
    if not record.consume:
        refuse_late_consuming(place, settings)
    # Checked before the source is opened, because a running job may be removing its blocks.
    refuse_locked(journal)
    target = remake_target(
        record.target, at=place, durability=record.durability, reserve=not removes
    )
    identity = _open_again(record, journal, settings)
    ledger = target.resume()
    try:
        remove_scratch(target)
        if record.parts is not None:
            # Parts may have recorded that the source changed.
            refuse_changed(journal, identity.source.place)
        planned = plan_rest(identity.source, target, ledger, settings, is_consumed=record.consume)
        if record.consume and not removes:
            _warn_of_kept_blocks(identity)
    except BaseException:
        target.abandon()
        raise
    consumption = Consumption(identity, target, removes=removes) if record.consume else None
    outlet = Outlet(target, ledger=ledger, consumption=consumption, identity=identity)
    given = record.gives_space
    return replace(planned, outlet=outlet, gives_space=given, gives_steps=given)


def refuse_late_consuming(place: Location, settings: Settings) -> None:
    """Refuse to consume the source of a run that was started without `consume`.

    Raises
    ------
    UsageError
        If `consume` is given.
    """
    if settings.consume:
        raise UsageError(
            f"the run that began {place} was not given --consume, so its source is "
            "kept; resume without --consume"
        )


def _warn_of_kept_blocks(identity: Identity) -> None:
    """Warn that the remaining source blocks are kept, although the first run consumed some."""
    n_blocks = identity.source.grid.n_blocks
    warnings.warn(
        f"{identity.source.place}: the remaining blocks "
        f"({n_blocks - len(identity.freed)} of {n_blocks}) are kept, because --consume was not "
        "given; once the target is complete, remove them yourself to free the space",
        KeptWarning,
        stacklevel=2,
    )
