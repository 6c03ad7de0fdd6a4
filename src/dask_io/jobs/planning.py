"""Plan how to move one array to one target or to several."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import astuple, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dask_io.engine.measure import are_apart, find_device
from dask_io.engine.preflight import scratch_space
from dask_io.engine.problem import converted, make_problem, side_in_pieces, side_of
from dask_io.engine.staging import coding_bytes, has_large_blocks, slab_for, staging_for
from dask_io.errors import (
    BudgetTooSmallError,
    DataError,
    SpacingWarning,
    UsageError,
)
from dask_io.formats.creating import check_places, chunks_by_pattern, make_target
from dask_io.formats.places import name_in_group
from dask_io.formats.registry import find_row
from dask_io.formats.several_targets import check_apart
from dask_io.geometry import Layout
from dask_io.geometry.chunks import by_number, normalize_chunks
from dask_io.geometry.shards import normalize_shards
from dask_io.jobs.job import Job, JointJob
from dask_io.jobs.regions import region_of
from dask_io.jobs.sidecars import refuse_without_sidecar
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
from dask_io.stores.encoded import bytes_to_copy
from dask_io.stores.spec import SPACE, crop_described
from dask_io.stores.user_description import parse_order
from dask_io.stores.views import SourceView, TargetView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from dask_io.formats.registry import AnyFormat
    from dask_io.geometry import Grid
    from dask_io.geometry.chunks import Chunks
    from dask_io.geometry.ranges import Ranges
    from dask_io.jobs.settings import Settings
    from dask_io.journal.ledger import Ledger
    from dask_io.planning import AnyPlan, Device, Objective
    from dask_io.storage.location import Location
    from dask_io.stores.store import Source, Target


class RequestedTarget(NamedTuple):
    """One target as the user describes it."""

    target: str | PathLike[str] | Location | None
    chunks: Chunks
    order: str | None


class Disks(NamedTuple):
    """What planning needs to know about the devices of a source and a target."""

    device: Device
    """The device for which time is predicted."""
    apart: bool = False
    """Whether source and target are on different devices."""
    scratch: int | None = None
    """Bytes of the largest array for which there is room for scratch blocks; None if unknown."""

    @classmethod
    def of(
        cls, source: str, target: str | None, settings: Settings, *, has_scratch: bool = True
    ) -> Disks:
        """Find the devices of a source and, if there is one, of a target.

        To find the room for scratch blocks, all files of the target are looked at.
        """
        if target is None:
            return cls(find_device(settings.device, source))
        device = find_device(settings.device, source, target)
        room = scratch_space(target) if has_scratch else 0
        return cls(device, are_apart(source, target), room)


# Formats of images, which define the units that programs understand.
_FORMATS_WITH_UNITS = frozenset(("ome-zarr", "tiff", "nifti", "precomputed"))


class _PlannedTarget(NamedTuple):
    """A target with the values that planning needs."""

    target: Target | None
    """None if only the costs are planned."""
    side: Side
    dtype: np.dtype[Any]
    to_copy: int | None = None
    """Bytes needed to copy encoded blocks; None if they are stored differently in the source."""
    in_pieces: Side | None = None
    """Its side if it encodes blocks piece by piece, None if it cannot."""


def window_of(store: Source, ranges: Ranges | None, settings: Settings) -> Source:
    """Return the part of a source that is moved.

    Raises
    ------
    UsageError
        If the source has no such part.
    """
    if ranges is None:
        return store
    found = region_of(ranges, store, _described(store, settings), settings.storage_options)
    return SourceView(store, found.region, found.said)


def _describe_requested(
    store: Source, requested: RequestedTarget, settings: Settings
) -> _PlannedTarget:
    """Describe a target that the user requests.

    If only the costs are planned and blocks are encoded, a target next to the source is described
    to find the cost of encoding.
    """
    shape, dtype = store.grid.shape, settings.dtype_for(store.dtype)
    metadata = _described(store, settings)
    names = metadata.get("dimension_names")
    chunks, place = by_number(requested.chunks, names), requested.target
    if chunks is None and place is not None:
        chunks = chunks_by_pattern(place, len(shape), settings.storage_options)
    grid = normalize_chunks(chunks, shape, dtype.itemsize, like=store.grid)
    shards = None if settings.shards is None else normalize_shards(settings.shards, grid, names)
    layout = store.layout if requested.order is None else parse_order(requested.order, len(shape))
    if place is None:
        row = find_row(settings.format or store.format)
        if not _is_encoded(store, row.name, settings):
            fixed = row.fixed_order()
            stored = Layout.named(fixed, len(shape)) if fixed else layout
            _refuse_other_order(row.name, stored, requested.order, grid)
            return _PlannedTarget(None, Side(grid, stored, row.name), dtype)
        place = _unwritten_place(store, row.load(), settings)
    if dtype != store.dtype:
        metadata = cast_metadata(metadata, store.dtype, dtype)
    target = make_target(
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
        name=name_in_group(locate(store.place, settings.storage_options)),
        storage_options=settings.storage_options,
    )
    given = settings.given_space
    if given is not None and target.format in _FORMATS_WITH_UNITS:
        given.refuse_units(metadata[SPACE], target.format)
    if dtype != store.dtype and not np.can_cast(dtype, target.dtype, "equiv"):
        raise UsageError(
            f"{target.format} stores {dtype} as {target.dtype}, but elements are {store.dtype} and "
            f"would be converted twice; give --dtype {target.dtype}"
        )
    _refuse_other_order(target.format, target.layout, requested.order, grid)
    planned = _describe(store, target)
    if requested.target is None:
        return planned._replace(target=None)
    check_places(store, target)
    return planned


def _refuse_other_order(name: str, stored: Layout, order: str | None, grid: Grid) -> None:
    """Refuse an order that a target of this format cannot have."""
    if order is None:
        return
    wanted = parse_order(order, len(grid.axes))
    if order_of(stored, grid.longest) != order_of(wanted, grid.longest):
        raise UsageError(
            f"{name} stores elements in {stored.name} order, not {order}; leave --order out"
        )


def _described(store: Source, settings: Settings) -> Mapping[str, Any]:
    """Return the metadata of a source, with the axes as the user describes them."""
    given = settings.given_space
    if given is None:
        return store.metadata
    if isinstance(store, SourceView):
        whole = _described(store.whole, settings)
        added = {key: whole[key] for key in ("dimension_names", SPACE) if key in whole}
        return crop_described({**store.metadata, **added}, store.region)
    space = given.override(store.metadata, len(store.grid.axes))
    names = tuple(axis.name for axis in space.axes)
    named = {"dimension_names": names} if any(names) else {}
    return {**store.metadata, **named, SPACE: space}


def _warn_of_spacing(store: Source, settings: Settings) -> None:
    """Warn if the user's spacing contradicts that of the source, perhaps by its order."""
    given, whole = settings.given_space, store.whole if isinstance(store, SourceView) else store
    if given is None:
        return
    if found := given.contradicts(whole.metadata, len(whole.grid.axes)):
        space = given.override(whole.metadata, len(whole.grid.axes))
        names = ",".join(axis.name or str(n) for n, axis in enumerate(space.axes))
        message = f"the spacing contradicts the source, which has {found}; its order is {names}"
        warnings.warn(message, SpacingWarning, stacklevel=2)


def _is_encoded(store: Source, format: str, settings: Settings) -> bool:  # noqa: A002 - the word that users know
    """Tell whether a target of a format has a codec, from the source or the settings, or shards."""
    keeps = format == store.format and bool(store.metadata.get("codecs"))
    return keeps or settings.codec is not None or settings.shards is not None


def _unwritten_place(store: Source, kind: AnyFormat, settings: Settings) -> Location:
    """Return a possible path of a target, to which nothing will be written."""
    folder: Location = locate(store.place, settings.storage_options).parent
    if kind.name == "icechunk" and is_url(store.place):
        # Repositories in object stores can only be read.
        folder = Path(tempfile.gettempdir())
    return folder / (f"planned{kind.suffixes[0]}" if isinstance(kind, Container) else "planned")


def plan_one(store: Source, requested: RequestedTarget, settings: Settings) -> Job:
    """Plan one target, or only the costs of one."""
    _warn_of_spacing(store, settings)
    planned = _describe_requested(store, requested, settings)
    if planned.target is not None and not settings.sidecar:
        refuse_without_sidecar(planned.target, planned.target.place)
    return _plan_move(store, planned, settings)


def plan_to(
    store: Source, target: Target, settings: Settings, *, disks: Disks | None = None
) -> Job:
    """Plan how to write a given target; `disks` are those of all arrays of a tree."""
    return _plan_move(store, _describe(store, target), settings, disks=disks)


def plan_rest(
    store: Source,
    target: Target,
    ledger: Ledger,
    settings: Settings,
    *,
    is_consumed: bool = False,
) -> Job:
    """Plan the missing part of a target; if the source is consumed, blocks of it may be gone."""
    if is_consumed and settings.strategy == "spill":
        raise UsageError(
            "spill reads the whole source, but blocks of it have been consumed; "
            "choose another strategy"
        )
    if store.grid.shape != target.grid.shape:
        found = f"of shape {store.grid.shape}, but the target has shape {target.grid.shape}"
        problem = f"its journal describes a source {found}"
        raise DataError(target.place, [problem], "start again with --overwrite")
    planned = _describe(store, target)
    if ledger.parts:
        # Copying whole blocks cannot complete a block that is written in part.
        planned = planned._replace(to_copy=None)
    move = partial(_plan_move, store, planned, settings, is_begun=True)
    # Scratch blocks hold the whole source, so they are not worth it if little is missing.
    is_little = settings.strategy == "auto" and ledger.size * 2 >= target.grid.size
    try:
        job = move(has_scratch=not (is_consumed or is_little))
    except BudgetTooSmallError:
        if is_consumed or not is_little:
            raise
        job = move()
    # Write cells must not cross the boundary of data that is already written.
    return replace(job, plan=job.plan.flushed_at(ledger.cuts))


def plan_part(store: Source, target: Target, settings: Settings) -> Job:
    """Plan a part of a target that another process has created; it has no scratch blocks."""
    return _plan_move(store, _describe(store, target), settings, is_begun=True, has_scratch=False)


def _describe(store: Source, target: Target) -> _PlannedTarget:
    """Describe a target for a source, or for a part of it."""
    to_copy, in_pieces = bytes_to_copy(store, target), side_in_pieces(target)
    return _PlannedTarget(target, side_of(target), target.dtype, to_copy, in_pieces)


def _plan_move(
    store: Source,
    planned: _PlannedTarget,
    settings: Settings,
    *,
    is_begun: bool = False,
    has_scratch: bool = True,
    disks: Disks | None = None,
) -> Job:
    """Plan a target, or only the costs of one, and let it encode its blocks as planned.

    If another run has begun the target, the plan does not count source blocks that cannot be
    consumed immediately. Without `has_scratch`, there is no room for scratch blocks.
    """
    target, dtype, sides = planned.target, planned.dtype, (side_of(store), planned.side)
    if settings.consume and not is_begun:
        _refuse_consuming(*sides)
    workers = count_workers(settings, sides, dtype.itemsize)
    place = None if target is None else target.place
    disks = disks or Disks.of(store.place, place, settings, has_scratch=has_scratch)
    pose = partial(
        make_problem,
        sides[0],
        dtype=dtype,
        memory=settings.memory,
        workers=workers,
        consume=settings.consume and not is_begun,
        stored=store.dtype,
        to_copy=planned.to_copy,
        apart=disks.apart,
    )
    whole = pose(planned.side)
    has_room = disks.scratch is None or whole.n_bytes <= disks.scratch
    has_scratch = has_scratch and has_room and not settings.in_parts
    plan = _choose_plan(
        settings.strategy,
        whole,
        None if planned.in_pieces is None else pose(planned.in_pieces),
        objective=settings.objective,
        device=disks.device,
        has_scratch=has_scratch,
    )
    # The plan encodes blocks piece by piece if memory is short.
    if target is not None and target.piecewise is not None:
        whole_target = target.whole if isinstance(target, TargetView) else target
        whole_target.in_pieces = plan.problem.target == planned.in_pieces
    return Job(
        plan,
        store,
        target,
        workers,
        _limited(disks.device, store, [planned.side], settings),
        settings.consume,
        settings.max_rate,
        storage_options=settings.storage_options,
        gives_space=settings.given_space is not None,
        gives_steps=settings.spacing is not None,
        requested=settings.strategy,
        objective=settings.objective,
        sidecar=settings.sidecar,
    )


def _limited(device: Device, store: Source, targets: Sequence[Side], settings: Settings) -> Device:
    """Return the device for which time is predicted: a rate limits stored bytes.

    Of a compressed target, the size is not known yet. If the source is compressed, too, it is
    taken to be as large as the source.
    """
    if settings.max_rate is None:
        return device
    stored = _stored_share(store)
    written = stored if all(side.is_coded for side in targets) else 1.0
    return device.limited_to(settings.max_rate, read=stored, written=written)


def _stored_share(store: Source) -> float:
    """Return the stored bytes per byte of an array; 1 without codecs, and where it is not known."""
    whole = store.whole if isinstance(store, SourceView) else store
    n_bytes = whole.grid.size * whole.dtype.itemsize
    # To list the objects of a remote array may take long.
    if is_url(whole.place) or not (side_of(whole).is_coded and n_bytes):
        return 1.0
    return min(1.0, whole.n_bytes_on_disk / n_bytes)


# Many arrays of a group or a file pose the same problem.
@lru_cache(maxsize=64)
def _choose_plan(
    strategy: str,
    whole: Problem,
    in_pieces: Problem | None,
    *,
    objective: Objective,
    device: Device,
    has_scratch: bool,
) -> AnyPlan:
    """Choose the plan of a problem, or of the same one with blocks encoded `in_pieces`."""
    plan_as: partial[AnyPlan] = partial(plan_with, strategy, whole)
    if in_pieces is not None:
        plan_as = partial(plan_either, strategy, whole, in_pieces)
    # Scratch blocks take as many bytes as the target.
    plan = plan_as(objective=objective, device=device, scratch=None if has_scratch else 0)
    # The plan of a strategy that the user chose stays unchanged.
    return read_through(plan, device) if strategy == "auto" else plan


def count_workers(settings: Settings, sides: Sequence[Side], itemsize: int) -> int:
    """Return the number of threads: the requested number, or one that suits the problem."""
    # Uncommitted blocks of each thread delay consuming the source, so there are fewer threads.
    codes = settings.consume or any(side.is_coded for side in sides)
    return settings.n_threads(codes=codes, long=has_large_blocks(sides, itemsize))


def _refuse_consuming(source: Side, target: Side) -> None:
    """Refuse to remove blocks that cannot be removed, or whose data would not be safe yet."""
    if source.grain == "container":
        raise UsageError(
            f"consume removes source blocks one by one, but single blocks cannot be removed from "
            f"{source.format}; leave it out"
        )
    if target.grain == "container":
        raise UsageError(
            f"consume removes source blocks as soon as their data is durable, but this "
            f"{target.format} target is durable only when it is complete; leave it out"
        )


def plan_several(
    store: Source,
    windows: Sequence[Source],
    requested: Sequence[RequestedTarget],
    settings: Settings,
) -> JointJob:
    """Plan targets that are written together, or each alone if a strategy is given."""
    settings.refuse_for_several_targets()
    if settings.check:
        store.check()
    _warn_of_spacing(store, settings)
    planned = [
        _describe_requested(window, each, settings)
        for window, each in zip(windows, requested, strict=True)
    ]
    targets = [each.target for each in planned if each.target is not None]
    check_apart(targets)
    if len(dtypes := {each.dtype for each in planned}) > 1:
        listed = " and ".join(sorted(map(str, dtypes)))
        raise UsageError(f"the targets store elements as {listed}; write them one by one")
    (dtype,), sides = dtypes, [side_of(store), *(each.side for each in planned)]
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
        for window, each in zip(windows, planned, strict=True)
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
    if not settings.sidecar:
        for target in targets:
            refuse_without_sidecar(target, target.place)
    return JointJob(
        sweeps,
        store,
        tuple(windows),
        tuple(targets),
        workers,
        _limited(device, store, [each.side for each in planned], settings),
        settings.max_rate,
        settings.storage_options,
        gives_space=settings.given_space is not None,
        sidecar=settings.sidecar,
    )
