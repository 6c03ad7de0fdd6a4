"""What the verbs ask for, as jobs that are ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import fspath
from typing import TYPE_CHECKING, Any, cast

from dask_io.engine.measure import find_device
from dask_io.engine.problem import make_problem
from dask_io.errors import UsageError
from dask_io.formats.creating import chunks_by_pattern, keeps_chunks, names_one_file
from dask_io.formats.opening import open_source
from dask_io.formats.places import has_field
from dask_io.formats.several_targets import region_places
from dask_io.geometry import Layout, Region
from dask_io.geometry.chunks import normalize_chunks
from dask_io.geometry.ranges import is_index
from dask_io.jobs.planning import (
    RequestedTarget,
    count_workers,
    plan_one,
    plan_several,
    window_of,
)
from dask_io.jobs.settings import parse_ranges
from dask_io.jobs.tree_extract import plan_tree_extract
from dask_io.jobs.tree_plan import plan_tree
from dask_io.jobs.tree_source import find_tree, name_one
from dask_io.planning import Side, plan_with
from dask_io.stores.array_like import BlockArray
from dask_io.stores.gzip_files import GzipFiles
from dask_io.stores.user_description import parse_dtype, parse_order

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import DTypeLike

    from dask_io.geometry.chunks import Chunks
    from dask_io.geometry.ranges import AnyRegion
    from dask_io.jobs.job import Job, JointJob
    from dask_io.jobs.settings import Settings
    from dask_io.jobs.tree_job import SeriesJob
    from dask_io.planning import AnyPlan, Device
    from dask_io.stores.store import Source

    Place = str | PathLike[str] | BlockArray


def source_of(place: Place, storage_options: Mapping[str, Any] | None) -> Source:
    """Open a source, unless it is open."""
    if isinstance(place, BlockArray):
        return place.source
    return open_source(place, storage_options=storage_options)


def open_one_file(source: Place, storage_options: Mapping[str, Any] | None = None) -> BlockArray:
    """Open a source for `split`: an array that is one block.

    Raises
    ------
    UsageError
        If it has several blocks.
    """
    array = BlockArray(source_of(source, storage_options))
    store = array.source
    # A gzip file is one file, although it is read in slabs.
    n_blocks = store.n_files if isinstance(store, GzipFiles) else store.grid.n_blocks
    if n_blocks > 1:
        place = array.source.place
        message = f"split takes one file, but {place} has {n_blocks} blocks; use resplit"
        raise UsageError(message)
    return array


def plan_any(
    source: Place, target: str | PathLike[str] | None, chunks: Chunks, settings: Settings
) -> Job | SeriesJob:
    """Plan `resplit` of one array, or of all arrays of a group or a file."""
    series = plan_tree(source, target, chunks, settings)
    return series or plan_array(source, target, chunks, settings)


def plan_array(
    source: Place, target: str | PathLike[str] | None, chunks: Chunks, settings: Settings
) -> Job:
    """Plan `resplit` of one array."""
    store = source_of(source, settings.storage_options)
    if settings.check:
        store.check()
    requested = RequestedTarget(target, chunks, *settings.orders(1))
    return plan_one(window_of(store, settings.region, settings), requested, settings)


def plan_merge(source: Place, target: str | PathLike[str], settings: Settings) -> Job:
    """Plan `merge`.

    Raises
    ------
    UsageError
        If the target's name is not that of a single file.
    """
    if not names_one_file(target, settings.format, settings.storage_options):
        name = fspath(target)
        raise UsageError(
            f"merge writes one file, but {name} does not have the suffix of a known file format; "
            f"use {name.rstrip('./') or 'whole'}.npy, for example"
        )
    return plan_array(source, target, -1, settings)


def plan_extract(
    source: Place,
    target: str | PathLike[str],
    regions: AnyRegion | Sequence[AnyRegion],
    chunks: Chunks,
    settings: Settings,
    *,
    alone: bool,
) -> Job | JointJob | SeriesJob:
    """Plan `extract`; `alone` tells that an array is moved without its coordinates.

    Raises
    ------
    UsageError
        If no region is given, or several regions of a group or a file.
    """
    if settings.region is not None and regions:
        raise UsageError("regions and region cannot both be given; leave out region")
    is_one = isinstance(regions, (str, Region, Mapping)) or is_index(regions)
    listed = cast("Sequence[AnyRegion]", [regions] if is_one else regions)
    given = [parse_ranges(region) for region in listed]
    if settings.region is not None:
        given = [settings.region]
    if not given:
        raise UsageError("no region is given; give at least one, as in 0:100,:,5:")
    if len(given) == 1:
        one = replace(settings, region=given[0])
        series = plan_tree_extract(source, target, chunks, one, alone=alone)
        if series is not None or chunks is not None:
            return series or plan_array(source, target, chunks, one)
        store = source_of(source, settings.storage_options)
        window = window_of(store, given[0], settings)
        usual = _usual_chunks(store, window, target, settings)
        return plan_array(BlockArray(store), target, usual, one)
    tree = find_tree(source, settings.storage_options)
    if tree is not None and not tree.levels:
        raise UsageError(
            f"{tree.place} holds several arrays, of which one region is written at a time; extract "
            f"the regions one by one, or give one array, as in {name_one(tree)}"
        )
    store = source_of(source, settings.storage_options)
    windows = [window_of(store, ranges, settings) for ranges in given]
    # Regions of an image are images.
    format_ = settings.format or (store.format if tree is None else "ome-zarr")
    names = region_places(
        target,
        len(windows),
        format=format_,
        one_file=chunks in (None, -1),
        codec=settings.codec,
        overwrite=settings.overwrite,
        storage_options=settings.storage_options,
    )
    orders = settings.orders(len(windows))
    requested = [
        RequestedTarget(
            name, _usual_chunks(store, window, name, settings) if chunks is None else chunks, order
        )
        for window, name, order in zip(windows, names, orders, strict=True)
    ]
    return plan_several(store, windows, requested, settings)


def _usual_chunks(
    store: Source, window: Source, target: str | PathLike[str], settings: Settings
) -> Chunks:
    """Return the chunks of a region without others: those of the source, or one block.

    A pattern of slices has chunks of its own. Formats that hold groups, such as Zarr, keep chunks.
    """
    by_pattern = chunks_by_pattern(target, len(window.grid.shape), settings.storage_options)
    if by_pattern is not None:
        return by_pattern
    if not keeps_chunks(target, settings.format, settings.storage_options):
        return -1
    pairs = zip(store.grid.longest, window.grid.shape, strict=True)
    return tuple(max(1, min(pair)) for pair in pairs)


def plan_layouts(
    source: Place, targets: Sequence[str | PathLike[str]], chunks: Any, settings: Settings
) -> JointJob:
    """Plan several layouts of one array, written from one read.

    Raises
    ------
    UsageError
        If the targets do not have chunks each.
    """
    if not isinstance(chunks, (list, tuple)) or not len(chunks) == len(targets) > 0:
        raise UsageError(
            f"there are {len(targets)} targets; give a list with the chunks of each, as in "
            "[(100, 100), -1]"
        )
    store, orders = source_of(source, settings.storage_options), settings.orders(len(targets))
    requested = [RequestedTarget(*each) for each in zip(targets, chunks, orders, strict=True)]
    window = window_of(store, settings.region, settings)
    return plan_several(store, [window] * len(requested), requested, settings)


def plan_without_data(
    shape: Sequence[int],
    dtype: DTypeLike,
    source_chunks: Chunks,
    target_chunks: Chunks,
    settings: Settings,
) -> tuple[AnyPlan, Device]:
    """Plan for an array that need not exist; also return the device for which time is predicted.

    Raises
    ------
    UsageError
        If there is no dtype.
    """
    kind = parse_dtype(dtype)
    if kind is None:
        raise UsageError("a plan without data needs a dtype, such as float32")
    source = normalize_chunks(source_chunks, tuple(shape), kind.itemsize)
    target = normalize_chunks(target_chunks, tuple(shape), kind.itemsize, like=source)
    (order,) = settings.orders(1)
    n_axes = len(source.axes)
    sides = Side(source, Layout.c(n_axes)), Side(target, parse_order(order or "C", n_axes))
    workers = count_workers(settings, sides, kind.itemsize)
    problem = make_problem(*sides, kind, memory=settings.memory, workers=workers)
    device, objective = find_device(settings.device), settings.objective
    return plan_with(settings.strategy, problem, objective=objective, device=device), device


@dataclass(frozen=True, slots=True)
class Request:
    """A verb with its arguments, to be planned when the memory of each worker is known."""

    verb: str
    source: Place
    target: Any
    chunks: Any = -1
    regions: AnyRegion | Sequence[AnyRegion] = ()

    def __post_init__(self) -> None:
        """Refuse a target that needs chunks without them."""
        implied = (
            self.verb == "extract" or self.has_several_targets or has_field(fspath(self.target))
        )
        if self.chunks is None and not implied:
            raise UsageError(
                f"chunks are missing for {fspath(self.target)}; give chunks, such as -1 for one "
                "block"
            )

    @property
    def has_several_targets(self) -> bool:
        """Whether one read is written to several targets."""
        return isinstance(self.target, Sequence) and not isinstance(self.target, str)

    @property
    def places(self) -> tuple[str, str]:
        """The source and the target."""
        source = self.source
        place = source.source.place if isinstance(source, BlockArray) else fspath(source)
        return place, fspath(self.target)

    def plan(self, settings: Settings, *, alone: bool = False) -> Job | JointJob | SeriesJob:
        """Plan it; `alone` tells that `extract` leaves the coordinates of an array behind."""
        source, target, chunks = self.source, self.target, self.chunks
        match self.verb:
            case "merge":
                return plan_merge(source, target, settings)
            case "extract":
                return plan_extract(source, target, self.regions, chunks, settings, alone=alone)
            case _ if self.has_several_targets:
                return plan_layouts(source, target, chunks, settings)
            case _:
                return plan_any(source, target, chunks, settings)
