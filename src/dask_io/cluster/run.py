"""Run one part of a job, in any process that reaches source and target."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from dask_io.cluster.begin import WorkRecord
from dask_io.codecs.deflate import encoder_in
from dask_io.engine.commit import Outlet
from dask_io.engine.identity import Identity
from dask_io.engine.run import RunResult
from dask_io.errors import DataError, InterruptedRunError, StorageError
from dask_io.formats.places import journal_at
from dask_io.formats.reopening import remake_target
from dask_io.jobs.planning import plan_part
from dask_io.jobs.settings import Settings
from dask_io.journal.journal import is_sealed, read_job
from dask_io.journal.part_journals import find_whole_blocks
from dask_io.planning import parse_objective
from dask_io.storage.location import locate
from dask_io.stores.views import SourceView, TargetView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dask_io.cluster.part import Part
    from dask_io.engine.run import Progress
    from dask_io.geometry import Region
    from dask_io.storage.location import Location
    from dask_io.stores.store import SharedTarget, Source


def run_part(
    record: bytes,
    part: Part,
    *,
    memory: int,
    threads: int,
    storage_options: Mapping[str, Any] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Write one part of a target, within a memory budget; blocks that are durable are skipped.

    A part may run again, even at the same time: all attempts write the same bytes, each has its own
    journal, and blocks appear whole.

    Parameters
    ----------
    record
        The record that `PartedJob.begin` returned.
    part
        The part.
    memory
        The memory budget, in bytes.
    threads
        Maximum number of threads.
    storage_options
        Options to connect to object stores.
    on_progress
        Called now and then with the progress of the part, from any thread but one at a time. An
        exception that it raises ends the run; durable blocks stay.

    Raises
    ------
    DataError
        If source blocks are invalid, or change during the run.
    StorageError
        If the target has been removed or replaced, the disk is full, or a file cannot be moved.
    """
    work = WorkRecord.from_bytes(record)
    place = locate(work.place, storage_options)
    target = cast(
        "SharedTarget",
        remake_target(work.job.target, at=place, durability=work.job.durability, reserve=True),
    )
    nothing = RunResult.of_nothing(target.grid.clipped(part.region).n_blocks)
    if _is_complete(work, place):
        return nothing
    _refuse_other_encoder(work, target)
    settings = Settings(
        memory=memory,
        workers=threads,
        strategy=work.strategy,
        objective=parse_objective(work.objective),
        device=work.device,
        max_rate=work.max_rate,
        storage_options=storage_options,
    )
    try:
        ledger = target.join(part.number, part.count, part.region)
        # Asked again now that others see the journal of this attempt: a run that completes the
        # target removes all journals that it sees, and this attempt removes its own.
        if ledger.is_complete or _is_complete(work, place):
            return nothing
        whole = work.job.reopen_source(storage_options=storage_options)
        source, view = view_source(whole, part.region), TargetView(target, part.region)
        job = replace(plan_part(source, view, settings), member=True)
        outlet = Outlet(view, ledger=ledger, identity=Identity(source))
        return job.carry_out(outlet, on_progress)
    except KeyboardInterrupt:
        raise InterruptedRunError(work.place, True) from None  # noqa: FBT003 - it can be resumed
    except StorageError:
        # Another attempt may have been faster; the run that adds it up removes all journals.
        if _is_complete(work, place) or _is_written(target, place, part):
            return nothing
        raise
    finally:
        # After a success, there is nothing to abandon.
        target.abandon()


def view_source(source: Source, region: Region) -> SourceView:
    """Return the part of a source that feeds a region of the target."""
    if isinstance(source, SourceView):
        # One view of the stored blocks, so that costs are those of the stored blocks.
        return SourceView(source.whole, region.shifted_by(source.region.start))
    return SourceView(source, region)


def _refuse_other_encoder(work: WorkRecord, target: SharedTarget) -> None:
    """Refuse to encode with another library than all other attempts.

    Raises
    ------
    StorageError
        If that library is not the one here.
    """
    begun, here = work.job.encoder, encoder_in(target.metadata)
    if begun is None or here == begun:
        return
    advice = "install it: pip install deflate"
    if begun == "zlib":
        advice = "install deflate where the run begins, too, and begin it again with --overwrite"
    raise StorageError(
        work.place,
        f"its parts are compressed with {begun}, but this process compresses with {here}, which "
        "writes other bytes",
        advice,
    )


def _is_complete(work: WorkRecord, place: Location) -> bool:
    """Tell whether the whole target of this job is already complete.

    Raises
    ------
    StorageError
        If there is no such target.
    """
    journal = journal_at(place)
    if journal is None:
        raise StorageError(
            work.place, "the target of this part has been removed", "begin the job again"
        )
    if read_job(journal).get("job_id") != work.job.job_id:
        raise StorageError(
            work.place, "another run has replaced the target of this part", "begin the job again"
        )
    return is_sealed(journal)


def _is_written(target: SharedTarget, place: Location, part: Part) -> bool:
    """Tell whether all blocks of a part are durable, by whichever attempts."""
    journal = journal_at(place)
    if journal is None:
        return False
    with suppress(DataError, StorageError):
        found = find_whole_blocks(journal, part.number, part.count, target.grid, part.region)
        return found.is_complete
    return False
