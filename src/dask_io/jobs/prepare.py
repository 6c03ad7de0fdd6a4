"""From what the user asks for to a job that can be run."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.engine.commit import Consumption, Outlet
from dask_io.engine.job import JobRecord, find_members
from dask_io.engine.measure import are_apart, find_device
from dask_io.engine.preflight import free_space
from dask_io.engine.problem import converted, make_problem, side_in_pieces, side_of
from dask_io.engine.spill import remove_scratch
from dask_io.engine.staging import coding_bytes, slab_for, staging_for
from dask_io.errors import (
    DataError,
    KeptWarning,
    StorageError,
    TargetExistsError,
    UsageError,
    printable,
)
from dask_io.formats.creating import check_places, make_target
from dask_io.formats.places import is_absent, journal_at, targets_in
from dask_io.formats.registry import load_format
from dask_io.formats.reopening import remake_target, reopen_source
from dask_io.formats.several_targets import check_apart
from dask_io.geometry.chunks import by_number, normalize_chunks
from dask_io.geometry.shards import normalize_shards
from dask_io.jobs.compare import advising_repair
from dask_io.jobs.job import Complete, Job, JointJob, check_room
from dask_io.jobs.options import (
    Options,
    check_several,
    dtype_of,
    parse_durability,
    parse_memory,
    parse_rate,
    parse_workers,
    wishes_of,
)
from dask_io.journal.journal import is_sealed, refuse_locked
from dask_io.journal.ledger import Ledger
from dask_io.planning import (
    AnyPlan,
    Plan,
    Problem,
    Side,
    Staging,
    parse_objective,
    plan_either,
    plan_sweep,
    plan_together,
    plan_with,
    read_through,
)
from dask_io.storage.location import is_url, locate
from dask_io.storage.medium import Durability
from dask_io.stores.container import Container
from dask_io.stores.dtypes import cast_metadata
from dask_io.stores.encoded import bytes_to_copy, encode_in_pieces
from dask_io.stores.user_description import parse_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike
    from typing import Unpack

    import numpy as np

    from dask_io.engine.identity import Identity
    from dask_io.formats.registry import AnyFormat
    from dask_io.geometry.chunks import Chunks
    from dask_io.jobs.options import ResumeOptions
    from dask_io.planning import Device
    from dask_io.planning.through import Planned
    from dask_io.storage.location import Location
    from dask_io.stores.store import Source, Target


# Bytes of a block, on average, from which on moving it takes longer than all else.
_LONG = 2**19


class Wanted(NamedTuple):
    """One target as the user describes it."""

    target: str | PathLike[str] | Location | None
    chunks: Chunks
    order: str | None


class _Laid(NamedTuple):
    """A target, if one is named, its side, its elements' type, and what copying to it takes."""

    target: Target | None
    side: Side
    dtype: np.dtype[Any]
    to_copy: int | None = None
    """None if it does not store blocks as the source does."""
    in_pieces: Side | None = None
    """Its side if it encodes blocks piece by piece, None if it cannot."""


def _lay_out(store: Source, wanted: Wanted, **options: Unpack[Options]) -> _Laid:
    """Describe a target.

    If none is named, but what it holds will be encoded, one beside the source says what that takes.
    """
    shape, dtype = store.grid.shape, dtype_of(options, store.dtype)
    names = store.metadata.get("dimension_names")
    chunks = by_number(wanted.chunks, names)
    grid = normalize_chunks(chunks, shape, dtype.itemsize, like=store.grid)
    asked = options.get("shards")
    shards = None if asked is None else normalize_shards(asked, grid, names)
    layout = store.layout if wanted.order is None else parse_order(wanted.order, len(shape))
    place = wanted.target
    if place is None:
        kind = load_format(options.get("format") or store.format)
        if not _is_to_be_encoded(store, kind.name, options):
            return _Laid(None, Side(grid, layout, kind.name), dtype)
        place = _beside(store, kind, options)
    metadata = store.metadata
    if dtype != store.dtype:
        metadata = cast_metadata(metadata, store.dtype, dtype)
    made = make_target(
        place,
        format=options.get("format"),
        like=store.format,
        grid=grid,
        dtype=dtype,
        layout=layout,
        overwrite=options.get("overwrite", False),
        durability=parse_durability(options.get("durability", Durability.FSYNC)),
        reserve=not options.get("consume", False),
        wishes=wishes_of(options, shards),
        metadata=metadata,
        storage_options=options.get("storage_options"),
    )
    if made.dtype != dtype != store.dtype:
        raise UsageError(
            f"{made.format} stores {dtype} as {made.dtype}, but elements are {store.dtype} and "
            f"would be converted twice; give --dtype {made.dtype}"
        )
    laid = _lay(store, made)
    if wanted.target is None:
        return laid._replace(target=None)
    check_places(store, made)
    return laid


def _is_to_be_encoded(store: Source, format: str, options: Options) -> bool:  # noqa: A002 - the word that users know
    """Tell whether a target of a format has a codec, the source's or its own, or shards."""
    keeps = format == store.format and bool(store.metadata.get("codecs"))
    return keeps or options.get("codec") is not None or options.get("shards") is not None


def _beside(store: Source, kind: AnyFormat, options: Options) -> Location:
    """Return where a target of a format could be; nothing will be written there."""
    folder: Location = locate(store.place, options.get("storage_options")).parent
    if kind.name == "icechunk" and is_url(store.place):
        # Repositories in object stores can only be read.
        folder = Path(tempfile.gettempdir())
    return folder / (f"planned{kind.suffixes[0]}" if isinstance(kind, Container) else "planned")


def plan_one(store: Source, wanted: Wanted, **options: Unpack[Options]) -> Job:
    """Plan one target, or only what one would cost."""
    return _plan_move(store, _lay_out(store, wanted, **options), options)


def plan_to(store: Source, target: Target, **options: Unpack[Options]) -> Job:
    """Plan one target that has been described already."""
    return _plan_move(store, _lay(store, target), options)


def _lay(store: Source, target: Target) -> _Laid:
    """Describe a target that is to hold a source, or part of it."""
    to_copy, in_pieces = bytes_to_copy(store, target), side_in_pieces(target)
    return _Laid(target, side_of(target), target.dtype, to_copy, in_pieces)


def _plan_move(store: Source, laid: _Laid, options: Options) -> Job:
    """Plan all of a target, or only what one would cost."""
    if consume := options.get("consume", False):
        _refuse_consuming(side_of(store), laid.side)
    scratch = free_space(laid.target) if laid.target else None
    return _make_job(store, laid, options, consume=consume, lags=consume, scratch=scratch)


def _make_job(
    store: Source,
    laid: _Laid,
    options: Options | ResumeOptions,
    *,
    consume: bool,
    lags: bool,
    scratch: int | None,
) -> Job:
    """Plan as the options say, and have the target encode its blocks as planned.

    With `lags` the plan counts what keeps blocks from being consumed at once; `scratch` is the
    room for scratch blocks, if it is known.
    """
    made, dtype, sides = laid.target, laid.dtype, (side_of(store), laid.side)
    workers = count_workers(options.get("workers"), sides, dtype.itemsize, consume=consume)
    pose = partial(
        make_problem,
        sides[0],
        dtype=dtype,
        memory=parse_memory(options.get("memory")),
        workers=workers,
        consume=lags,
        stored=store.dtype,
        to_copy=laid.to_copy,
        apart=made is not None and are_apart(store.place, made.place),
    )
    device = find_device(options.get("device"), store.place, *([made.place] if made else []))
    strategy = options.get("strategy", "auto")
    planned = make_plan(
        pose(laid.side),
        device,
        in_pieces=None if laid.in_pieces is None else pose(laid.in_pieces),
        scratch=scratch,
        strategy=strategy,
        objective=options.get("objective"),
    )
    # Piece by piece if memory is short.
    encode_in_pieces(made, wanted=planned.problem.target == laid.in_pieces)
    planned = with_gaps(planned, device, strategy)
    max_rate, reach = parse_rate(options.get("max_rate")), options.get("storage_options")
    return Job(planned, store, made, workers, device, consume, max_rate, storage_options=reach)


def count_workers(
    asked: int | None, sides: Sequence[Side], itemsize: int, *, consume: bool = False
) -> int:
    """Return the number of threads: those asked for, or what suits the problem."""
    grids = [side.grid for side in sides]
    is_long = all(grid.size * itemsize >= grid.n_blocks * _LONG for grid in grids)
    # What each thread has written and not committed yet keeps source blocks from being consumed.
    codes = consume or any(side.is_coded for side in sides)
    return parse_workers(asked, codes=codes, long=is_long)


def _refuse_consuming(source: Side, target: Side) -> None:
    """Refuse to remove blocks that cannot be removed, or whose data would not be safe yet."""
    if source.grain == "container":
        raise UsageError(
            f"consume removes source blocks one by one, but of {source.format} nothing can be "
            "removed alone; leave it out"
        )
    if target.grain == "container":
        raise UsageError(
            f"consume removes source blocks as soon as they are safe, but what goes to this "
            f"{target.format} target is safe only when all of it is there; leave it out"
        )


def plan_several(
    store: Source, windows: Sequence[Source], wanted: Sequence[Wanted], **options: Unpack[Options]
) -> JointJob:
    """Plan targets that are written together; a named strategy plans each of them alone."""
    check_several(options)
    if options.get("check", False):
        store.check()
    laid = [_lay_out(window, each, **options) for window, each in zip(windows, wanted, strict=True)]
    targets = [each.target for each in laid if each.target is not None]
    check_apart(targets)
    if len(dtypes := {each.dtype for each in laid}) > 1:
        listed = " and ".join(sorted(map(str, dtypes)))
        raise UsageError(f"the targets store elements as {listed}; write them one by one")
    (dtype,), sides = dtypes, [side_of(store), *(each.side for each in laid)]
    workers = count_workers(options.get("workers"), sides, dtype.itemsize)
    budget, coding = parse_memory(options.get("memory")), coding_bytes(sides)
    apart = any(are_apart(store.place, target.place) for target in targets)
    stagings = [
        staging_for(
            side,
            dtype,
            workers,
            coding=coding,
            stored=store.dtype,
            slab=slab_for(sides[0], side, max(dtype.itemsize, store.dtype.itemsize)),
            apart=apart,
        )
        for side in sides[1:]
    ]
    staging = Staging(*map(max, zip(*map(astuple, stagings), strict=True)))
    problems = [
        Problem(
            side_of(window),
            each.side,
            dtype,
            budget,
            staging,
            converted=converted(store.dtype, dtype),
        )
        for window, each in zip(windows, laid, strict=True)
    ]
    device = find_device(options.get("device"), store.place, targets[0].place)

    def plan_alone(problem: Problem) -> Plan:
        found = make_plan(problem, device, **options)
        return found if isinstance(found, Plan) else plan_sweep(problem)

    strategy = options.get("strategy", "auto")
    sweeps = plan_together(problems, plan_alone, apart=strategy != "auto")
    sweeps = with_gaps(sweeps, device, strategy)
    if strategy != "auto":
        sweeps = replace(sweeps, strategy=strategy)
    max_rate = parse_rate(options.get("max_rate"))
    reach = options.get("storage_options")
    return JointJob(sweeps, store, tuple(windows), tuple(targets), workers, device, max_rate, reach)


def plan_array_resumes(
    target: str | PathLike[str], **options: Unpack[ResumeOptions]
) -> Iterator[Job | Complete]:
    """Plan what `resume` does, one target after another: each has run when the next is planned."""
    for place, record in _find_resumable(locate(target, options.get("storage_options"))).items():
        yield plan_recorded(place, record, **options)


def plan_recorded(
    place: Location, record: JobRecord, **options: Unpack[ResumeOptions]
) -> Job | Complete:
    """Plan how to complete a target of which a journal, its own or another's, says what it is."""
    journal = journal_at(place)
    if journal is None:
        return _plan_not_begun(place, record, **options)
    if JobRecord.read(journal).job_id != record.job_id:
        raise _holds_something_else(place)
    return _plan_resume(place, journal, record, **options)


def make_complete(place: Location, options: ResumeOptions, n_blocks: int = 0) -> Complete:
    """Return what is left to do of a target that is complete."""
    memory, workers = parse_memory(options.get("memory")), parse_workers(options.get("workers"))
    return Complete(place, n_blocks, memory, workers, parse_rate(options.get("max_rate")))


def _find_resumable(place: Location) -> dict[Location, JobRecord]:
    """Return the targets at a path, and all other targets of the jobs that wrote them.

    Raises
    ------
    StorageError
        If nothing is there.
    UsageError
        If nothing there has a journal.
    """
    found = find_members(targets_in(place))
    if found:
        return found
    name = printable(str(place))
    if is_absent(place):
        raise StorageError(name, "no such file or directory", "check the path")
    raise UsageError(
        f"{name} has no journal, so there is nothing to go on with; only what Dask IO has begun "
        "to write can be resumed"
    )


def _open_again(record: JobRecord, journal: Location | None, options: ResumeOptions) -> Identity:
    """Open a source where it was, or where it has been moved to."""
    moved, reach = options.get("source"), options.get("storage_options")
    at = None if moved is None else locate(moved, reach)
    return record.open_source(journal, at=at, storage_options=reach)


def _plan_not_begun(place: Location, record: JobRecord, **options: Unpack[ResumeOptions]) -> Job:
    """Plan a target that an interrupted job had not begun to write."""
    refuse_late_consuming(place, options)
    identity = _open_again(record, None, options)
    target = remake_target(record.target, at=place, durability=record.durability, reserve=True)
    try:
        target.check()
    except TargetExistsError:
        raise _holds_something_else(place) from None
    planned = _plan_rest(identity.source, target, Ledger(target.grid), options)
    check_room([planned])
    return replace(planned, outlet=Outlet(target, record.to_bytes(), identity=identity))


def _holds_something_else(place: Location) -> UsageError:
    name = printable(str(place))
    return UsageError(
        f"{name} is a target of the interrupted run, but holds something else; move that away and "
        "resume again, or run the first command again with --overwrite"
    )


def _plan_resume(
    place: Location, journal: Location, record: JobRecord, **options: Unpack[ResumeOptions]
) -> Job | Complete:
    """Plan how to complete one target, which is locked until the job has run."""
    removes = options.get("consume", False)
    if is_sealed(journal):
        # Its blocks may have been removed since.
        with advising_repair(place):
            n_blocks = reopen_source(record.target, at=place).grid.n_blocks
        return make_complete(place, options, n_blocks)
    if not record.consume:
        refuse_late_consuming(place, options)
    # Before the source is looked at, of which the other run may be removing blocks.
    refuse_locked(journal)
    target = remake_target(
        record.target, at=place, durability=record.durability, reserve=not removes
    )
    identity = _open_again(record, journal, options)
    ledger = target.resume()
    try:
        remove_scratch(target)
        planned = _plan_rest(identity.source, target, ledger, options, record)
        if record.consume and not removes:
            _warn_of_kept_blocks(identity)
    except BaseException:
        target.abandon()
        raise
    consumption = Consumption(identity, target, removes=removes) if record.consume else None
    outlet = Outlet(target, ledger=ledger, consumption=consumption, identity=identity)
    return replace(planned, outlet=outlet)


def refuse_late_consuming(place: Location, options: ResumeOptions) -> None:
    """Refuse to consume a source if the first run was not started to consume it.

    Raises
    ------
    UsageError
        If `consume` is given.
    """
    if options.get("consume", False):
        raise UsageError(
            f"the run that began {printable(str(place))} was not given --consume, so its source is "
            "kept; resume without --consume"
        )


def _warn_of_kept_blocks(identity: Identity) -> None:
    """Warn that source blocks are kept that the first run would have removed."""
    n_blocks = identity.source.grid.n_blocks
    warnings.warn(
        f"{printable(identity.source.place)}: the remaining blocks "
        f"({n_blocks - len(identity.freed)} of {n_blocks}) are kept, because --consume was not "
        "given; once the target is complete, remove them yourself to free the space",
        KeptWarning,
        stacklevel=2,
    )


def _plan_rest(
    source: Source,
    target: Target,
    ledger: Ledger,
    options: ResumeOptions,
    record: JobRecord | None = None,
) -> Job:
    """Plan the missing part of a target; source blocks may be gone if the record says so."""
    is_consumed = record is not None and record.consume
    if is_consumed and options.get("strategy") == "spill":
        raise UsageError(
            "spill reads the whole source, but blocks of it have been consumed; "
            "choose another strategy"
        )
    if source.grid.shape != target.grid.shape:
        found = f"of shape {source.grid.shape}, but the target has shape {target.grid.shape}"
        problem = f"its journal describes a source {found}"
        raise DataError(printable(target.place), [problem], "start again with --overwrite")
    laid = _lay(source, target)
    if ledger.parts:
        # What is there of a block in parts cannot be gone on with by copying.
        laid = laid._replace(to_copy=None)
    scratch = 0 if is_consumed else free_space(target)
    removes = options.get("consume", False)
    job = _make_job(source, laid, options, consume=removes, lags=False, scratch=scratch)
    # What has been written before must be whole write cells.
    return replace(job, plan=job.plan.flushed_at(ledger.cuts))


def make_plan(
    problem: Problem,
    on: Device,
    *,
    in_pieces: Problem | None = None,
    scratch: int | None = None,
    **options: Unpack[Options],
) -> AnyPlan:
    """Plan as the options say; `in_pieces` is the same with blocks encoded piece by piece."""
    objective, strategy = parse_objective(options.get("objective")), options.get("strategy", "auto")
    if in_pieces is None:
        return plan_with(strategy, problem, objective=objective, device=on, scratch=scratch)
    return plan_either(
        strategy, problem, in_pieces, objective=objective, device=on, scratch=scratch
    )


def with_gaps(planned: Planned, on: Device, strategy: str) -> Planned:
    """Have gaps read through where that is faster; a strategy that was named stays as it is."""
    return read_through(planned, on) if strategy == "auto" else planned
