"""Plan how to move one array to one target or to several."""

from __future__ import annotations

import tempfile
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.engine.measure import are_apart, find_device
from dask_io.engine.preflight import free_space
from dask_io.engine.problem import converted, make_problem, side_in_pieces, side_of
from dask_io.engine.staging import coding_bytes, slab_for, staging_for
from dask_io.errors import (
    DataError,
    UsageError,
)
from dask_io.formats.creating import check_places, make_target
from dask_io.formats.registry import find_row
from dask_io.formats.several_targets import check_apart
from dask_io.geometry.chunks import by_number, normalize_chunks
from dask_io.geometry.shards import normalize_shards
from dask_io.jobs.job import Job, JointJob
from dask_io.planning import (
    Plan,
    Problem,
    Side,
    Staging,
    plan_either,
    plan_sweep,
    plan_together,
    plan_with,
    read_through,
)
from dask_io.storage.location import is_url, locate
from dask_io.stores.block_files import order_of
from dask_io.stores.container import Container
from dask_io.stores.dtypes import cast_metadata
from dask_io.stores.encoded import bytes_to_copy, encode_in_pieces
from dask_io.stores.user_description import parse_order

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    import numpy as np

    from dask_io.formats.registry import AnyFormat
    from dask_io.geometry.chunks import Chunks
    from dask_io.jobs.settings import Settings
    from dask_io.journal.ledger import Ledger
    from dask_io.planning import AnyPlan
    from dask_io.storage.location import Location
    from dask_io.stores.store import Source, Target


# Bytes of a block, on average, from which on moving it takes longer than all else.
_LONG = 2**19


class RequestedTarget(NamedTuple):
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


def _lay_out(store: Source, wanted: RequestedTarget, settings: Settings) -> _Laid:
    """Describe a target.

    If none is named, but what it holds will be encoded, one beside the source says what that takes.
    """
    shape, dtype = store.grid.shape, settings.dtype_for(store.dtype)
    names = store.metadata.get("dimension_names")
    chunks = by_number(wanted.chunks, names)
    grid = normalize_chunks(chunks, shape, dtype.itemsize, like=store.grid)
    asked = settings.shards
    shards = None if asked is None else normalize_shards(asked, grid, names)
    layout = store.layout if wanted.order is None else parse_order(wanted.order, len(shape))
    place = wanted.target
    if place is None:
        row = find_row(settings.format or store.format)
        if not _is_to_be_encoded(store, row.name, settings):
            return _Laid(None, Side(grid, layout, row.name), dtype)
        place = _beside(store, row.load(), settings)
    metadata = store.metadata
    if dtype != store.dtype:
        metadata = cast_metadata(metadata, store.dtype, dtype)
    made = make_target(
        place,
        format=settings.format,
        like=store.format,
        grid=grid,
        dtype=dtype,
        layout=layout,
        overwrite=settings.overwrite,
        durability=settings.durability,
        reserve=not settings.consume,
        options=settings.target_options(shards),
        metadata=metadata,
        keep_order=wanted.order is not None,
        storage_options=settings.storage_options,
    )
    if made.dtype != dtype != store.dtype:
        raise UsageError(
            f"{made.format} stores {dtype} as {made.dtype}, but elements are {store.dtype} and "
            f"would be converted twice; give --dtype {made.dtype}"
        )
    longest = grid.longest
    if wanted.order is not None and order_of(made.layout, longest) != order_of(layout, longest):
        raise UsageError(
            f"{made.format} stores elements in {made.layout.name} order, not {wanted.order}; "
            "leave --order out"
        )
    laid = _lay(store, made)
    if wanted.target is None:
        return laid._replace(target=None)
    check_places(store, made)
    return laid


def _is_to_be_encoded(store: Source, format: str, settings: Settings) -> bool:  # noqa: A002 - the word that users know
    """Tell whether a target of a format has a codec, the source's or its own, or shards."""
    keeps = format == store.format and bool(store.metadata.get("codecs"))
    return keeps or settings.codec is not None or settings.shards is not None


def _beside(store: Source, kind: AnyFormat, settings: Settings) -> Location:
    """Return where a target of a format could be; nothing will be written there."""
    folder: Location = locate(store.place, settings.storage_options).parent
    if kind.name == "icechunk" and is_url(store.place):
        # Repositories in object stores can only be read.
        folder = Path(tempfile.gettempdir())
    return folder / (f"planned{kind.suffixes[0]}" if isinstance(kind, Container) else "planned")


def plan_one(store: Source, wanted: RequestedTarget, settings: Settings) -> Job:
    """Plan one target, or only what one would cost."""
    return _plan_move(store, _lay_out(store, wanted, settings), settings)


def plan_to(store: Source, target: Target, settings: Settings) -> Job:
    """Plan one target that has been described already."""
    return _plan_move(store, _lay(store, target), settings)


def plan_rest(
    store: Source,
    target: Target,
    ledger: Ledger,
    settings: Settings,
    *,
    is_consumed: bool = False,
) -> Job:
    """Plan the missing part of a target; source blocks may be gone if it is consumed."""
    if is_consumed and settings.strategy == "spill":
        raise UsageError(
            "spill reads the whole source, but blocks of it have been consumed; "
            "choose another strategy"
        )
    if store.grid.shape != target.grid.shape:
        found = f"of shape {store.grid.shape}, but the target has shape {target.grid.shape}"
        problem = f"its journal describes a source {found}"
        raise DataError(target.place, [problem], "start again with --overwrite")
    laid = _lay(store, target)
    if ledger.parts:
        # What is there of a block in parts cannot be completed by copying.
        laid = laid._replace(to_copy=None)
    job = _plan_move(store, laid, settings, is_begun=True, is_consumed=is_consumed)
    # What has been written before must be whole write cells.
    return replace(job, plan=job.plan.flushed_at(ledger.cuts))


def _lay(store: Source, target: Target) -> _Laid:
    """Describe a target that is to hold a source, or part of it."""
    to_copy, in_pieces = bytes_to_copy(store, target), side_in_pieces(target)
    return _Laid(target, side_of(target), target.dtype, to_copy, in_pieces)


def _plan_move(
    store: Source,
    laid: _Laid,
    settings: Settings,
    *,
    is_begun: bool = False,
    is_consumed: bool = False,
) -> Job:
    """Plan a target, or only what one would cost, and let it encode its blocks as planned.

    If another run has begun the target, the plan does not count what keeps blocks from being
    consumed at once. If that run consumed source blocks, there is no room for scratch blocks.
    """
    made, dtype, sides = laid.target, laid.dtype, (side_of(store), laid.side)
    if settings.consume and not is_begun:
        _refuse_consuming(*sides)
    workers = count_workers(settings, sides, dtype.itemsize)
    pose = partial(
        make_problem,
        sides[0],
        dtype=dtype,
        memory=settings.memory,
        workers=workers,
        consume=settings.consume and not is_begun,
        stored=store.dtype,
        to_copy=laid.to_copy,
        apart=made is not None and are_apart(store.place, made.place),
    )
    device = find_device(settings.device, store.place, *([made.place] if made else []))
    strategy, whole = settings.strategy, pose(laid.side)
    plan_as: partial[AnyPlan] = partial(plan_with, strategy, whole)
    if laid.in_pieces is not None:
        plan_as = partial(plan_either, strategy, whole, pose(laid.in_pieces))
    scratch = 0 if is_consumed else free_space(made) if made else None
    plan = plan_as(objective=settings.objective, device=device, scratch=scratch)
    # Piece by piece if memory is short.
    encode_in_pieces(made, wanted=plan.problem.target == laid.in_pieces)
    if strategy == "auto":
        # Any other strategy was named, and its plan stays unchanged.
        plan = read_through(plan, device)
    return Job(
        plan,
        store,
        made,
        workers,
        device,
        settings.consume,
        settings.max_rate,
        storage_options=settings.storage_options,
    )


def count_workers(settings: Settings, sides: Sequence[Side], itemsize: int) -> int:
    """Return the number of threads: those asked for, or what suits the problem."""
    grids = [side.grid for side in sides]
    is_long = all(grid.size * itemsize >= grid.n_blocks * _LONG for grid in grids)
    # What each thread has written and not committed yet keeps source blocks from being consumed.
    codes = settings.consume or any(side.is_coded for side in sides)
    return settings.n_threads(codes=codes, long=is_long)


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
    store: Source, windows: Sequence[Source], wanted: Sequence[RequestedTarget], settings: Settings
) -> JointJob:
    """Plan targets that are written together; a named strategy plans each of them alone."""
    settings.refuse_for_several_targets()
    if settings.check:
        store.check()
    laid = [_lay_out(window, each, settings) for window, each in zip(windows, wanted, strict=True)]
    targets = [each.target for each in laid if each.target is not None]
    check_apart(targets)
    if len(dtypes := {each.dtype for each in laid}) > 1:
        listed = " and ".join(sorted(map(str, dtypes)))
        raise UsageError(f"the targets store elements as {listed}; write them one by one")
    (dtype,), sides = dtypes, [side_of(store), *(each.side for each in laid)]
    workers, coding = count_workers(settings, sides, dtype.itemsize), coding_bytes(sides)
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
            settings.memory,
            staging,
            converted=converted(store.dtype, dtype),
        )
        for window, each in zip(windows, laid, strict=True)
    ]
    device = find_device(settings.device, store.place, targets[0].place)
    strategy = settings.strategy

    def plan_alone(problem: Problem) -> Plan:
        found = plan_with(strategy, problem, objective=settings.objective, device=device)
        return found if isinstance(found, Plan) else plan_sweep(problem)

    sweeps = plan_together(problems, plan_alone, apart=strategy != "auto")
    if strategy == "auto":
        sweeps = read_through(sweeps, device)
    else:
        sweeps = replace(sweeps, strategy=strategy)
    return JointJob(
        sweeps,
        store,
        tuple(windows),
        tuple(targets),
        workers,
        device,
        settings.max_rate,
        settings.storage_options,
    )
