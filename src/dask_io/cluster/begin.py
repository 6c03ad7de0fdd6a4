"""Begin a job in parts: one process creates the target, all others join."""

from __future__ import annotations

import json
import secrets
import time
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dask_io.codecs.deflate import encoder_in
from dask_io.engine.identity import Identity
from dask_io.errors import LockedError, TargetExistsError, UsageError
from dask_io.formats.places import journal_at
from dask_io.jobs.job import check_room
from dask_io.jobs.record import JobRecord, is_tree
from dask_io.journal.journal import is_sealed, read_lines
from dask_io.journal.journalled_target import is_cleared
from dask_io.journal.ledger import any_changed
from dask_io.journal.logs import logs_of
from dask_io.storage.location import locate
from dask_io.storage.own_names import JOURNAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.geometry import Grid
    from dask_io.jobs.job import Job
    from dask_io.jobs.settings import Settings
    from dask_io.storage.location import Location

# How long to wait for another process that creates the target, in seconds, and between two looks.
_PATIENCE, _LOOK_SECONDS = 600.0, 0.2


@dataclass(frozen=True, slots=True)
class WorkRecord:
    """Everything that a worker needs to know about a job, except the part."""

    place: str
    job: JobRecord
    strategy: str = "auto"
    objective: str = "time"
    device: str | None = None
    max_rate: int | None = None

    def to_bytes(self) -> bytes:
        """Return the record as bytes."""
        found = {
            "place": self.place,
            "job": self.job.to_json(),
            "strategy": self.strategy,
            "objective": str(self.objective),
            "device": self.device,
            "max_rate": self.max_rate,
        }
        return json.dumps(found).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> WorkRecord:
        """Return the record from its bytes."""
        found = json.loads(content)
        return cls(**{**found, "job": JobRecord.from_json(found["job"])})


def begin_parts(
    job: Job,
    grid: Grid,
    settings: Settings,
    command: str | None = None,
    *,
    limits: Settings | None = None,
    is_alone: bool = False,
) -> WorkRecord:
    """Create the target of a job in parts, or join if another process has begun it.

    A process that begins the job for all others, and `is_alone` in that, joins nothing if the
    target may be overwritten, but replaces it. A run that completes the target alone has the memory
    and the rate in `limits`, by default those of a part.

    Returns
    -------
    WorkRecord
        The record of the process that has begun the job; its parts may differ from `grid`, but
        there are as many.

    Raises
    ------
    TargetExistsError
        If the target exists, and may not be overwritten.
    UsageError
        If it is being written in another number of parts.
    LockedError
        If another run is writing it.
    """
    until = time.monotonic() + _PATIENCE
    joins = not (is_alone and settings.overwrite)
    while True:
        begun = _find_same(job, grid, settings) if joins else None
        if begun is not None and _is_ready(job):
            return work_record(job, begun, settings)
        try:
            if begun is None:
                _create(job, grid, settings, command, limits or settings, joins=joins)
                joins = True
            else:
                _go_on_clearing(job)
        except _BusyError as error:
            if time.monotonic() > until:
                raise error.locked from None
        except (TargetExistsError, LockedError):
            # Another process may have begun the same job just now.
            is_late = time.monotonic() > until
            if is_late or not joins or _find_same(job, grid, settings) is None:
                raise
        else:
            continue
        time.sleep(_LOOK_SECONDS)


def _find_same(job: Job, grid: Grid, settings: Settings) -> JobRecord | None:
    """Return the record of the same job in as many parts, if another process has begun it.

    Raises
    ------
    UsageError
        If it is being written in another number of parts.
    """
    begun = find_begun(job, replaces=settings.overwrite)
    return None if begun is None or _is_other(job, begun, grid) else begun


class _BusyError(Exception):
    """Another process is beginning to replace the same target."""

    def __init__(self, locked: LockedError) -> None:
        super().__init__(locked)
        self.locked = locked


def work_record(job: Job, record: JobRecord, settings: Settings) -> WorkRecord:
    """Return what a worker needs to know about a job that has begun."""
    device = None if settings.device == "measured" else settings.device
    return WorkRecord(
        job.named_target.place,
        record,
        settings.strategy,
        settings.objective,
        device,
        settings.max_rate,
    )


def find_begun(job: Job, *, replaces: bool = False) -> JobRecord | None:
    """Return the record of a run in parts that moves the same array to the same target.

    Whether the source has changed since is checked at the end, unless the target is complete or may
    be replaced.
    """
    journal = _journal_of(job)
    if journal is None or is_tree(journal):
        return None
    record = JobRecord.read(journal)
    if record.parts is None or not _is_same(record, job):
        return None
    if replaces or is_sealed(journal):
        is_other = Identity(job.source).total != record.identity
        return None if is_other or any_changed(read_lines(journal)) else record
    return record


def _journal_of(job: Job) -> Location | None:
    return journal_at(locate(job.named_target.place, job.storage_options))


def _is_same(record: JobRecord, job: Job) -> bool:
    """Tell whether a record describes a job, apart from the identity of its source."""
    wanted = JobRecord.describe(job.source, job.named_target, gives_space=job.gives_space)
    wanted = replace(
        wanted,
        identity=record.identity,
        job_id=record.job_id,
        parts=record.parts,
        command=record.command,
        memory=record.memory,
        max_rate=record.max_rate,
        encoder=record.encoder,
    )
    return bool(json.loads(wanted.to_bytes()) == json.loads(record.to_bytes()))


def _is_other(job: Job, begun: JobRecord, grid: Grid) -> bool:
    """Tell whether a complete target was written in another number of parts.

    Raises
    ------
    UsageError
        If it is not complete.
    """
    assert begun.parts is not None, "only runs in parts are found"
    n_begun, n_wanted = begun.parts.n_blocks, grid.n_blocks
    if n_begun == n_wanted:
        return False
    journal = _journal_of(job)
    if journal is not None and is_sealed(journal):
        return True
    place = job.named_target.place
    raise UsageError(
        f"{place} is being written in {n_begun} parts, but {n_wanted} are requested; use {n_begun} "
        f"parts, or complete it with dask-io resume {place}"
    )


def _is_ready(job: Job) -> bool:
    """Tell whether a target that another process has begun can be written."""
    journal = _journal_of(job)
    return journal is not None and (is_sealed(journal) or is_cleared(journal))


def _go_on_clearing(job: Job) -> None:
    """Remove the rest of an old target, if the process that began this has ended."""
    target = job.named_target
    target.resume()
    target.abandon(keep=True)


def _create(
    job: Job,
    grid: Grid,
    settings: Settings,
    command: str | None,
    limits: Settings,
    *,
    joins: bool,
) -> None:
    target, place = job.named_target, locate(job.named_target.place, job.storage_options)
    with _replacing(place) if settings.overwrite else nullcontext():
        if joins and settings.overwrite and _find_same(job, grid, settings) is not None:
            return
        target.check()
        check_room([job])
        identity = Identity(job.source)
        record = JobRecord.of(
            identity,
            target,
            gives_space=job.gives_space,
            memory=limits.memory,
            max_rate=limits.max_rate,
        )
        record = replace(
            record,
            parts=grid,
            command=command,
            job_id=secrets.token_hex(8),
            encoder=encoder_in(target.metadata),
        )
        target.create(record.to_bytes())
        target.abandon(keep=True)


@contextmanager
def _replacing(place: Location) -> Iterator[None]:
    """Hold a lock that only processes need which begin to replace the same target.

    Otherwise one of them could replace the new target that another has just begun.
    """
    folder = place.parent / f".{place.name}.begin{JOURNAL}"
    with ExitStack() as stack:
        # Without a folder around it, there is nothing to replace.
        if place.parent.is_dir():
            try:
                stack.enter_context(logs_of(folder).holding(folder))
            except LockedError as error:
                raise _BusyError(error) from None
        yield
