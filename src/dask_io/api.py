"""The verbs: what the command line and Python programs call."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast

import numpy as np

from dask_io.engine.machine import available_memory, usable_cores
from dask_io.engine.measure import check_device_name, find_device
from dask_io.engine.preflight import check_before_run, check_space
from dask_io.engine.run import Progress, RunResult, Sweep, run_plan, run_sweeps
from dask_io.engine.spill import run_spill
from dask_io.engine.staging import comparison_slab, staging_for
from dask_io.engine.verify import Verification, verify_plan
from dask_io.errors import BudgetTooSmallError, DataError, InterruptedRunError, UsageError
from dask_io.geometry import Grid, Layout, Region
from dask_io.geometry.chunks import normalize_chunks
from dask_io.planning import (
    AnyPlan,
    Device,
    Plan,
    Problem,
    Side,
    SpillPlan,
    Staging,
    Sweeps,
    parse_objective,
    plan_sweep,
    plan_together,
    plan_with,
)
from dask_io.report.svg import job_svg
from dask_io.stores.array import BlockArray
from dask_io.stores.description import parse_dtype, parse_order
from dask_io.stores.formats import load_format
from dask_io.stores.registry import check_places, make_target, open_source
from dask_io.stores.several import check_apart, region_places
from dask_io.stores.window import Window
from dask_io.units import parse_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import Unpack

    from dask.delayed import Delayed
    from numpy.typing import DTypeLike

    from dask_io.geometry.chunks import Chunks
    from dask_io.stores.store import Source, Store, Target

    Place = str | PathLike[str] | BlockArray

__all__ = [
    "BlockArray",
    "Info",
    "Job",
    "JointJob",
    "Progress",
    "RunResult",
    "Verification",
    "extract",
    "info",
    "merge",
    "open",
    "plan",
    "plan_extract",
    "plan_shape",
    "resplit",
    "split",
    "verify",
]

# Threads wait for the disk most of the time, so a few more than there are cores.
_FEWEST_WORKERS, _MOST_WORKERS = 4, 8


class Options(TypedDict, total=False):
    """What `plan` and the verbs that run a plan have in common.

    Attributes
    ----------
    memory
        The budget: bytes, or text such as ``"4GiB"``. Half of what is available by default.
    strategy
        ``"auto"``, or the name of a strategy; `dask_io.planning.STRATEGIES` has them all.
    objective
        What ``"auto"`` looks for: the least ``"time"`` (the default), the fewest ``"seeks"``, or
        the least ``"memory"`` at which a run takes at most a tenth longer than the fastest.
    device
        What time is predicted for: ``"hdd"``, ``"ssd"``, ``"nvme"``, ``"nfs"``, ``"s3"``,
        ``"measured"`` to measure the target's folder; by default the kind of filesystem says it.
    format
        Format of the target's blocks, ``"npy"`` or ``"raw"``; by default what the target's
        name says, else the source's.
    region
        Move only this region of the source, such as ``"0:100,:,5:"``.
    order
        How elements lie in the target's blocks, ``"C"`` or ``"F"``; by default as in the source's.
        For several targets, one for all or a list with one for each.
    workers
        Number of threads at the most.
    overwrite
        Replace a target that is there already.
    check
        Look at every block's header before planning.
    """

    memory: int | str | None
    strategy: str
    objective: str | None
    device: str | None
    format: str | None
    region: str | Region | None
    order: str | Sequence[str | None] | None
    workers: int | None
    overwrite: bool
    check: bool


@dataclass(frozen=True)
class Job:
    """A plan with its source and, if one was named, its target; nothing has been moved yet.

    `plan` is the pure plan: what it will cost in seeks, bytes and memory. `run` carries it out.
    `device` is what time is predicted for.
    """

    plan: AnyPlan
    source: Source
    target: Target | None
    workers: int
    device: Device

    def run(
        self, *, verify: bool = False, on_progress: Callable[[Progress], None] | None = None
    ) -> RunResult:
        """Carry the plan out.

        Parameters
        ----------
        verify
            Read the target back afterwards and compare it with the source.
        on_progress
            Called now and then, from any thread, with how far the run has come.

        Raises
        ------
        DataError
            If blocks of the source turn out wrong, or verification finds a difference.
        StorageError
            If the disk is full, a file cannot be read or written, and the like.
        InterruptedRunError
            If the run is stopped from outside.
        """
        target = self.target
        if target is None:
            message = "this job has no target: name one when planning it"
            raise UsageError(message)
        check_before_run(target, workers=self.workers)
        # Planned beforehand: that there is too little memory for it should not show afterwards.
        budget, workers = self.plan.problem.budget, self.workers
        comparison = _plan_comparison(self.source, target, budget, workers) if verify else None
        try:
            result = _carry_out(self.plan, self.source, target, workers, on_progress)
            if comparison is None:
                return result
            found = comparison.run(self.source, _reopen(target))
        except KeyboardInterrupt:
            raise InterruptedRunError(target.place) from None
        _refuse_difference(found, self.source, target)
        return replace(result, verified=True)

    def visualize(self, path: str | PathLike[str] | None = None) -> str:
        """Draw the plan as SVG, into a file if a path is given, and return the drawing."""
        drawing = job_svg(self.plan)
        if path is not None:
            Path(path).write_text(drawing, encoding="utf-8")
        return drawing

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>{job_svg(self.plan)}"

    def __str__(self) -> str:
        places = [self.source.place, *([self.target.place] if self.target else [])]
        return f"{' to '.join(places)}\n{self.plan}"


@dataclass(frozen=True)
class JointJob:
    """Several targets that are written from one read of a source; nothing has been moved yet.

    `plan` says what it will cost. `windows` has for each target the part of the source that
    it will hold. `run` carries the plan out; `device` is what time is predicted for.
    """

    plan: Sweeps
    source: Source
    windows: tuple[Source, ...]
    targets: tuple[Target, ...]
    workers: int
    device: Device

    def run(
        self, *, verify: bool = False, on_progress: Callable[[Progress], None] | None = None
    ) -> RunResult:
        """Carry the plan out; otherwise as `Job.run`.

        Parameters
        ----------
        verify
            Read the targets back afterwards and compare them with the source.
        on_progress
            Called now and then, from any thread, with how far the run has come.
        """
        for target in self.targets:
            check_before_run(target, workers=self.workers)
        check_space(self.targets[0], needed=self.plan.n_bytes_written)
        pairs = list(zip(self.windows, self.targets, strict=True))
        memory, workers = self.plan.budget, self.workers
        comparisons = [_plan_comparison(*pair, memory, workers) for pair in pairs if verify]
        sweeps = [
            Sweep(bundle, Window(self.source, bundle.box), tuple(self.targets[n] for n in group))
            for bundle, group in zip(self.plan.bundles, self.plan.groups, strict=True)
        ]
        try:
            result = run_sweeps(sweeps, workers=workers, on_progress=on_progress)
            for comparison, (window, target) in zip(comparisons, pairs, strict=False):
                _refuse_difference(comparison.run(window, _reopen(target)), window, target)
        except KeyboardInterrupt:
            raise InterruptedRunError(self.targets[0].place) from None
        return replace(result, verified=True if verify else None)

    def __str__(self) -> str:
        first, *_, last = self.targets
        return f"{self.source.place} to {first.place} ... {last.place}\n{self.plan}"


@dataclass(frozen=True, slots=True)
class Info:
    """What a store says about itself."""

    place: str
    format: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: Grid
    order: str
    n_bytes: int
    n_bytes_on_disk: int


def open(  # noqa: A001  # the public name, as in `h5py` or `zarr`
    path: str | PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  # the word of the contract
    shape: Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    chunks: Chunks | None = None,
    order: str | None = None,
) -> BlockArray:
    """Open an array in blocks for reading; nothing but headers is read yet.

    Parameters
    ----------
    path
        One file, a directory of blocks, or a pattern such as ``"blocks/b_{0}_{1}.npy"``.
    format, shape, dtype, chunks, order
        What raw files do not say about themselves.

    Returns
    -------
    BlockArray
        Something with a shape, a dtype and chunks that can be indexed, and passed to the
        other verbs or to ``dask.array.from_array``.
    """
    return BlockArray(
        open_source(path, format=format, shape=shape, dtype=dtype, chunks=chunks, order=order)
    )


def open_one_file(source: Place) -> BlockArray:
    """Open what `split` takes: an array that is one block.

    Raises
    ------
    UsageError
        If it is in several.
    """
    array = BlockArray(_source(source))
    n_blocks = array.source.grid.n_blocks
    if n_blocks > 1:
        place = array.source.place
        message = f"split takes one file, but {place} has {n_blocks} blocks; use resplit"
        raise UsageError(message)
    return array


def info(source: Place) -> Info:
    """Tell what a store says about itself."""
    store = _source(source)
    return Info(
        place=store.place,
        format=store.format,
        shape=store.grid.shape,
        dtype=store.dtype,
        grid=store.grid,
        order=store.layout.name,
        n_bytes=store.grid.size * store.dtype.itemsize,
        n_bytes_on_disk=store.n_bytes_on_disk,
    )


def plan(
    source: Place,
    target: str | PathLike[str] | None = None,
    *,
    chunks: Chunks,
    **options: Unpack[Options],
) -> Job:
    """Plan how to move an array to blocks of another shape, and what that will cost.

    Parameters
    ----------
    source
        A path, or what `open` returned.
    target
        Where the blocks go; may be left out to see only the plan.
    chunks
        The target's blocks, as in Dask: integers, ``-1``, ``"auto"``, tuples, or a dict by axis.
    **options
        See `Options`.

    Raises
    ------
    BudgetTooSmallError
        If no plan fits the memory; it names the smallest budget that would do.
    """
    _check_names(options)
    store = _source(source)
    if options.get("check", False):
        store.check()
    if (region := options.get("region")) is not None:
        store = Window(store, _region(region, store.grid.shape))
    wanted = _Wanted(target, chunks, *_orders(options, 1))
    made, side = _lay_out(store, wanted, **options)
    problem = _problem(_side(store), side, store.dtype, **options)
    workers = _workers(options.get("workers"))
    places = [store.place, *([made.place] if made else [])]
    device = find_device(options.get("device"), *places)
    return Job(_make_plan(problem, device, **options), store, made, workers, device)


def plan_shape(
    shape: Sequence[int],
    dtype: DTypeLike,
    source_chunks: Chunks,
    target_chunks: Chunks,
    **options: Unpack[Options],
) -> AnyPlan:
    """Plan for an array that need not exist: raw blocks, in C order unless said otherwise.

    Examples
    --------
    >>> plan = plan_shape((3500,) * 3, "float16", 350, 500, memory="4GB")
    >>> plan.problem.lower_bound, plan.fits
    (1343, True)
    """
    _check_names(options)
    parse_dtype(dtype)  # says what is wrong with it
    kind = np.dtype(dtype)
    source = normalize_chunks(source_chunks, tuple(shape), kind.itemsize)
    target = normalize_chunks(target_chunks, tuple(shape), kind.itemsize, like=source)
    stored = Layout.c(len(source.axes))
    (order,) = _orders(options, 1)
    wanted = parse_order(order or "C", len(source.axes))
    problem = _problem(Side(source, stored), Side(target, wanted), kind, **options)
    return _make_plan(problem, find_device(options.get("device")), **options)


def resplit(
    source: Place,
    target: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    chunks: Chunks | Sequence[Chunks],
    compute: bool = True,
    verify: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Move an array to blocks of another shape, within a memory budget.

    Parameters
    ----------
    source
        A path, or what `open` returned.
    target
        Where the blocks go. A list of targets is written from one read.
    chunks
        The target's blocks, as in Dask: integers, ``-1``, ``"auto"``, tuples, or a dict by axis.
        For a list of targets, a list with the chunks of each.
    compute
        Run now; if False, return a Dask `Delayed` that will.
    verify
        Read the target back afterwards and compare it with the source.
    on_progress
        Called now and then, from any thread, with how far the run has come.
    **options
        See `Options`.
    """
    if isinstance(target, (list, tuple)):
        return _start(
            _plan_layouts(source, target, chunks, **options), compute, verify, on_progress
        )
    job = plan(source, cast("str", target), chunks=cast("Chunks", chunks), **options)
    return _start(job, compute, verify, on_progress)


def _start(
    job: Job | JointJob,
    compute: bool,  # noqa: FBT001  # handed on as they are
    verify: bool,  # noqa: FBT001
    on_progress: Callable[[Progress], None] | None,
) -> RunResult | Delayed:
    """Run a job now, or make a Dask `Delayed` of it."""
    if compute:
        return job.run(verify=verify, on_progress=on_progress)
    from dask.delayed import delayed  # noqa: PLC0415  # half a second, needed by few

    later: Delayed = delayed(job.run, pure=False)(verify=verify, on_progress=on_progress)
    return later


def split(
    source: Place,
    target: str | PathLike[str],
    *,
    chunks: Chunks,
    compute: bool = True,
    verify: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Cut one file into blocks; otherwise as `resplit`."""
    return resplit(
        open_one_file(source),
        target,
        chunks=chunks,
        compute=compute,
        verify=verify,
        on_progress=on_progress,
        **options,
    )


def merge(
    source: Place,
    target: str | PathLike[str],
    *,
    compute: bool = True,
    verify: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Put all blocks into one file; otherwise as `resplit`."""
    return resplit(
        source,
        target,
        chunks=-1,
        compute=compute,
        verify=verify,
        on_progress=on_progress,
        **options,
    )


def extract(
    source: Place,
    target: str | PathLike[str],
    *,
    regions: Sequence[str | Region],
    chunks: Chunks = -1,
    compute: bool = True,
    verify: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Write regions of an array, each as an array of its own, from one read.

    Blocks that no region needs are not opened, and regions may overlap: what several of
    them need is read once.

    Parameters
    ----------
    source
        A path, or what `open` returned.
    target
        Where a single region goes; for several, a folder in which they become
        ``region_000``, ``region_001`` and so on, in the order of `regions`.
    regions
        Such as ``"0:100,:,5:"``.
    chunks
        Blocks of each region; one block by default.
    compute, verify, on_progress, **options
        As in `resplit`.
    """
    job = plan_extract(source, target, regions=regions, chunks=chunks, **options)
    return _start(job, compute, verify, on_progress)


def plan_extract(
    source: Place,
    target: str | PathLike[str],
    *,
    regions: Sequence[str | Region],
    chunks: Chunks = -1,
    **options: Unpack[Options],
) -> Job | JointJob:
    """Plan what `extract` does, and what that will cost."""
    _check_names(options)
    if options.get("region") is not None:
        raise UsageError("regions are given, so there can be no region besides")
    if not regions:
        raise UsageError("no region is given; name at least one, as in 0:100,:,5:")
    store = _source(source)
    boxes = [_region(region, store.grid.shape) for region in regions]
    for text, box in zip(regions, boxes, strict=True):
        if not box.size and store.grid.size:
            raise UsageError(f"the region {text} is empty; give ranges that hold something")
    if len(boxes) == 1:
        options["region"] = boxes[0]
        return plan(BlockArray(store), target, chunks=chunks, **options)
    names = region_places(
        target,
        len(boxes),
        format=options.get("format") or store.format,
        one_file=chunks == -1,
        overwrite=options.get("overwrite", False),
    )
    orders = _orders(options, len(boxes))
    wanted = [_Wanted(*each) for each in zip(names, [chunks] * len(boxes), orders, strict=True)]
    return _plan_several(store, [Window(store, box) for box in boxes], wanted, **options)


def _plan_layouts(
    source: Place,
    targets: Sequence[str | PathLike[str]],
    chunks: Any,
    **options: Unpack[Options],
) -> JointJob:
    """Plan several layouts of one array, written from one read."""
    _check_names(options)
    if not isinstance(chunks, (list, tuple)) or not len(chunks) == len(targets) > 0:
        raise UsageError(
            f"there are {len(targets)} targets; give as many chunks, as in [(100, 100), -1]"
        )
    store = _source(source)
    window = store
    if (region := options.get("region")) is not None:
        window = Window(store, _region(region, store.grid.shape))
    orders = _orders(options, len(targets))
    wanted = [_Wanted(*each) for each in zip(targets, chunks, orders, strict=True)]
    return _plan_several(store, [window] * len(wanted), wanted, **options)


class _Wanted(NamedTuple):
    """One target as the user describes it."""

    target: str | PathLike[str] | None
    chunks: Chunks
    order: str | None


def _orders(options: Options, n_targets: int) -> list[str | None]:
    """Return the order of elements of every target."""
    order = options.get("order")
    if order is None or isinstance(order, str):
        return [order] * n_targets
    if len(order) != n_targets:
        raise UsageError(f"{len(order)} orders are given for {n_targets} targets")
    return list(order)


def _lay_out(
    store: Source, wanted: _Wanted, **options: Unpack[Options]
) -> tuple[Target | None, Side]:
    """Describe a target, if one is named, and its side of the problem."""
    shape, itemsize = store.grid.shape, store.dtype.itemsize
    grid = normalize_chunks(wanted.chunks, shape, itemsize, like=store.grid)
    layout = store.layout if wanted.order is None else parse_order(wanted.order, len(shape))
    if wanted.target is None:
        return None, Side(grid, layout, load_format(options.get("format") or store.format).name)
    made = make_target(
        wanted.target,
        format=options.get("format"),
        like=store.format,
        grid=grid,
        dtype=store.dtype,
        layout=layout,
        overwrite=options.get("overwrite", False),
    )
    check_places(store, made)
    return made, Side(grid, layout, made.format)


def _plan_several(
    store: Source, windows: Sequence[Source], wanted: Sequence[_Wanted], **options: Unpack[Options]
) -> JointJob:
    """Plan targets that are written together; a named strategy plans each of them alone."""
    if options.get("check", False):
        store.check()
    laid = [_lay_out(window, each, **options) for window, each in zip(windows, wanted, strict=True)]
    targets = [target for target, _ in laid if target is not None]
    check_apart(targets)
    workers, dtype = _workers(options.get("workers")), store.dtype
    budget = _memory(options.get("memory"))
    stagings = [staging_for(side, dtype, workers) for _, side in laid]
    staging = Staging(*map(max, zip(*map(astuple, stagings), strict=True)))
    problems = [
        Problem(_side(window), side, dtype, budget, staging)
        for window, (_, side) in zip(windows, laid, strict=True)
    ]
    device = find_device(options.get("device"), store.place, targets[0].place)

    def plan_alone(problem: Problem) -> Plan:
        found = _make_plan(problem, device, **options)
        return found if isinstance(found, Plan) else plan_sweep(problem)

    apart = options.get("strategy", "auto") != "auto"
    sweeps = plan_together(problems, plan_alone, apart=apart)
    return JointJob(sweeps, store, tuple(windows), tuple(targets), workers, device)


def _refuse_difference(found: Verification, source: Store, target: Store) -> None:
    if found.first_difference is not None:
        differs = f"differs from {source.place} at {found.first_difference}"
        raise DataError(target.place, [differs], "the disk or the memory may be faulty")


def verify(
    a: Place,
    b: Place,
    *,
    memory: int | str | None = None,
    workers: int | None = None,
) -> Verification:
    """Compare two arrays, whatever blocks they are in, within a memory budget.

    Elements of one type are compared by their bits, of different types by their values, a NaN
    being equal to a NaN.

    Raises
    ------
    DataError
        If the shapes differ.
    """
    one, other = _source(a), _source(b)
    if one.grid.shape != other.grid.shape:
        shapes = f"has shape {other.grid.shape}, but {one.place} has {one.grid.shape}"
        raise DataError(other.place, [shapes])
    return _plan_comparison(one, other, _memory(memory), _workers(workers)).run(one, other)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """How two arrays will be compared."""

    plan: Plan
    workers: int
    slab: int

    def run(self, a: Source, b: Source) -> Verification:
        return verify_plan(self.plan, a, b, workers=self.workers, slab=self.slab)


def _plan_comparison(a: Store, b: Store, memory: int, workers: int) -> _Comparison:
    """Plan within a budget, with one thread if there is too little for several."""
    slab = comparison_slab(memory, b.dtype.itemsize, workers)
    left = max(1, memory - workers * slab)
    try:
        problem = _problem(_side(a), _side(b), a.dtype, memory=left, workers=workers)
        return _Comparison(plan_sweep(problem), workers, slab)
    except BudgetTooSmallError as error:
        if workers > 1:
            return _plan_comparison(a, b, memory, 1)
        raise BudgetTooSmallError(error.required + slab, memory, error.unit) from None


def _carry_out(
    plan: AnyPlan,
    source: Source,
    target: Target,
    workers: int,
    on_progress: Callable[[Progress], None] | None,
) -> RunResult:
    if isinstance(plan, SpillPlan):
        return run_spill(plan, source, target, workers=workers, on_progress=on_progress)
    return run_plan(plan, source, target, workers=workers, on_progress=on_progress)


def _source(place: Place) -> Source:
    return place.source if isinstance(place, BlockArray) else open_source(place)


def _side(store: Store) -> Side:
    if isinstance(store, Window):
        return Side(store.whole.grid, store.layout, store.format, store.region)
    return Side(store.grid, store.layout, store.format)


def _region(region: str | Region, shape: tuple[int, ...]) -> Region:
    try:
        return Region.parse(str(region), shape)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _reopen(target: Target) -> Source:
    return open_source(
        target.place,
        format=target.format,
        shape=target.grid.shape,
        dtype=target.dtype,
        order=target.layout.name,
    )


def _check_names(options: Options) -> None:
    """Refuse an option that does not exist, as Python does for arguments that are spelled out."""
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no option {', '.join(sorted(unknown))}")
    parse_objective(options.get("objective"))
    check_device_name(options.get("device"))


def _problem(
    source: Side, target: Side, dtype: np.dtype[Any], **options: Unpack[Options]
) -> Problem:
    budget = _memory(options.get("memory"))
    workers = _workers(options.get("workers"))
    return Problem(source, target, dtype, budget, staging_for(target, dtype, workers))


def _make_plan(problem: Problem, on: Device, **options: Unpack[Options]) -> AnyPlan:
    objective = parse_objective(options.get("objective"))
    return plan_with(options.get("strategy", "auto"), problem, objective=objective, device=on)


def _memory(memory: int | str | None) -> int:
    if memory is None:
        return max(1, available_memory() // 2)
    try:
        return parse_bytes(memory)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _workers(workers: int | None) -> int:
    if workers is None:
        return min(max(_FEWEST_WORKERS, usable_cores()), _MOST_WORKERS)
    if workers < 1:
        message = f"at least one worker is needed, not {workers}"
        raise UsageError(message)
    return workers
