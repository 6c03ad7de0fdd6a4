"""The verbs: what the command line and Python programs call."""

from __future__ import annotations

from dask_io import why_unsupported

# Checked first, because some imports below fail on other systems.
if reason := why_unsupported():
    raise ImportError(reason)

from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from os import fspath
from typing import TYPE_CHECKING, Any, overload

from dask_io.cluster.finish import finish_parts
from dask_io.cluster.part import Part
from dask_io.cluster.parts import PartedJob, cut_into_parts, one_array, refuse_memory
from dask_io.cluster.parts import plan_parts as divide_job
from dask_io.cluster.run import run_part
from dask_io.cluster.sharing import OnePart, share_job
from dask_io.config import configured
from dask_io.engine.measure import find_device
from dask_io.engine.run import Progress, RunResult
from dask_io.engine.verify import Verification
from dask_io.errors import DaskIOError, DataError, UsageError
from dask_io.formats.opening import open_source
from dask_io.jobs import targets
from dask_io.jobs.info import GroupInfo, Info, describe, describe_tree
from dask_io.jobs.job import Complete, Job, JointJob
from dask_io.jobs.repair import Damage, Repair, RepairOptions, repair_all
from dask_io.jobs.requests import (
    Request,
    open_one_file,
    plan_any,
    plan_without_data,
    source_of,
)
from dask_io.jobs.settings import Settings, for_one_array
from dask_io.jobs.suggesting import suggest_for, suggest_for_tree
from dask_io.jobs.targets import run_each
from dask_io.jobs.tree_job import SeriesJob
from dask_io.jobs.tree_source import find_tree, name_one, verify_trees
from dask_io.jobs.verify import check_again, plan_comparison
from dask_io.planning import (
    AnyPlan,
    Cut,
    Device,
    Series,
)
from dask_io.planning.suggest import Suggestion
from dask_io.report.progress import Watch, taking
from dask_io.storage.location import locate
from dask_io.stores.array_like import BlockArray

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from os import PathLike
    from typing import Unpack

    from dask.delayed import Delayed
    from numpy.typing import DTypeLike

    from dask_io.cluster.distributed import ClusterJob
    from dask_io.cluster.processes import ProcessJob
    from dask_io.geometry.chunks import Chunks
    from dask_io.geometry.ranges import AnyRegion
    from dask_io.jobs.requests import Place
    from dask_io.jobs.settings import Options, ResumeOptions
    from dask_io.jobs.verify import Comparison
    from dask_io.report.progress import OnProgress
    from dask_io.stores.store import Source

    AnyJob = Job | JointJob | SeriesJob | OnePart | ProcessJob
    AnyClient = Any

__all__ = [
    "BlockArray",
    "Complete",
    "Damage",
    "GroupInfo",
    "Info",
    "Job",
    "JointJob",
    "Part",
    "PartedJob",
    "Progress",
    "Repair",
    "Request",
    "RunResult",
    "SeriesJob",
    "Suggestion",
    "Verification",
    "extract",
    "finish",
    "info",
    "info_group",
    "merge",
    "open",
    "open_one_file",
    "plan",
    "plan_extract",
    "plan_parts",
    "plan_resumes",
    "plan_shape",
    "plan_without_data",
    "repair",
    "resplit",
    "resume",
    "run_each",
    "run_part",
    "split",
    "suggest",
    "verify",
]


def open(  # noqa: A001  # the public name, as in `h5py` or `zarr`
    path: str | PathLike[str],
    *,
    format: str | None = None,  # noqa: A002  # the word of the contract
    shape: Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
    chunks: Chunks | None = None,
    order: str | None = None,
    offset: int | None = None,
    strict: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> BlockArray:
    """Open an array in blocks for reading; only headers are read.

    Parameters
    ----------
    path
        One file, a directory of blocks, a pattern such as ``"blocks/b_{0}_{1}.npy"``, or an array
        in a container such as ``"scan.zarr::/day/1"``; or a URL, ``"s3://bucket/scan.zarr"``.
    format, shape, dtype, chunks, order, offset
        Description of raw files, which have no header that Dask IO can read. `offset` is the number
        of bytes before the data in each file.
    strict
        Treat missing blocks as errors, even if they could mean the fill value.
    storage_options
        Options to connect to an object store; see `Options`.

    Returns
    -------
    BlockArray
        An array-like with a shape, a dtype and chunks. It can be indexed, and passed to the other
        verbs or to ``dask.array.from_array``.
    """
    return BlockArray(
        open_source(
            path,
            format=format,
            shape=shape,
            dtype=dtype,
            chunks=chunks,
            order=order,
            offset=offset,
            strict=strict,
            storage_options=storage_options,
        )
    )


def refuse_several(path: str | PathLike[str], option: str) -> None:
    """Refuse an option for a path with several arrays.

    Raises
    ------
    UsageError
        If the path is a group, or a file with several arrays.
    """
    tree = find_tree(fspath(path))
    if tree is not None:
        raise for_one_array(option, name_one(tree))


def info(source: Place, *, storage_options: Mapping[str, Any] | None = None) -> Info:
    """Describe a store."""
    return describe(source_of(source, storage_options))


def info_group(
    source: Place, *, storage_options: Mapping[str, Any] | None = None
) -> GroupInfo | None:
    """Describe a group, or a file with several arrays; None if the source is one array."""
    tree = find_tree(source, storage_options)
    return None if tree is None else describe_tree(tree)


@overload
def plan(
    source: BlockArray,
    target: str | PathLike[str] | None = None,
    *,
    chunks: Chunks,
    **options: Unpack[Options],
) -> Job: ...


@overload
def plan(
    source: str | PathLike[str],
    target: str | PathLike[str] | None = None,
    *,
    chunks: Chunks,
    **options: Unpack[Options],
) -> Job | SeriesJob: ...


def plan(
    source: Place,
    target: str | PathLike[str] | None = None,
    *,
    chunks: Chunks,
    **options: Unpack[Options],
) -> Job | SeriesJob:
    """Plan how to move an array to blocks of another shape, and predict the cost.

    Parameters
    ----------
    source
        A path, or an array returned by `open`.
    target
        Where the blocks go; leave it out to see only the plan.
    chunks
        The target's blocks, as in Dask: integers, ``-1``, ``"auto"``, tuples, or a dict by axis
        number or dimension name.
    **options
        See `Options`.

    Returns
    -------
    Job | SeriesJob
        The job, ready to run. For a group, or a file with several arrays, it is a `SeriesJob`,
        which moves all arrays one after another. Arrays without the dimensions in `chunks` keep
        their chunks, and so do coordinates: arrays of one axis that have the name of its dimension.

    Raises
    ------
    BudgetTooSmallError
        If no plan fits the memory; it names the smallest sufficient budget.
    UsageError
        If no array has a dimension in `chunks`, or an option applies to single arrays only.
    """
    return plan_any(source, target, chunks, Settings.of(**options))


def plan_request(request: Request, **options: Unpack[Options]) -> Job | JointJob | SeriesJob:
    """Plan a verb with its arguments, for this process."""
    return request.plan(Settings.of(**options))


def plan_shared(
    request: Request,
    *,
    processes: int | None = None,
    part: str | tuple[int, int] | None = None,
    command: str | None = None,
    **options: Unpack[Options],
) -> OnePart | ProcessJob:
    """Plan a job that several processes share; `processes` and `part` are those of `resplit`.

    `command` is the command that runs a part, for messages.

    Raises
    ------
    UsageError
        If there are several targets.
    """
    if request.has_several_targets:
        raise UsageError("several targets cannot be written in parts; write them one by one")
    if processes is not None:
        refuse_memory(request.places)
    settings = replace(Settings.of(**options), in_parts=True)
    # A part is one of a single array.
    plan = partial(request.plan, alone=part is not None)
    return share_job(plan, settings, processes=processes, part=part, command=command)


def plan_parts(
    source: Place,
    target: str | PathLike[str],
    *,
    chunks: Chunks,
    parts: int | None = None,
    n_workers: int | None = None,
    **options: Unpack[Options],
) -> PartedJob:
    """Plan a job in parts, which processes on any machines can write.

    Parameters
    ----------
    source, target, chunks
        As in `plan`; only one array can be written in parts.
    parts
        The number of parts; by default several for each worker, each some minutes long. If the
        target has too few blocks, or they cannot be divided so, there are fewer.
    n_workers
        The number of workers that will share the parts.
    **options
        See `Options`. `memory` is that of each part.

    Returns
    -------
    PartedJob
        The parts, their predicted costs, and how to begin and finish them.

    Raises
    ------
    UsageError
        If the target can only be written by one process.
    """
    settings = replace(Settings.of(**options), in_parts=True)
    job = one_array(plan_any(source, target, chunks, settings))
    return divide_job(job, settings, count=parts, workers=n_workers)


def cut_plan(
    plan: AnyPlan | Series, device: Device, count: int, strategy: str, objective: str | None
) -> Cut:
    """Cut a plan into parts, to show their costs.

    Raises
    ------
    UsageError
        If the plan moves several arrays, or cannot be cut into so many parts.
    """
    if isinstance(plan, Series):
        raise UsageError(
            "the parts of several arrays are planned when they are written, with --processes or "
            "--scheduler; give one array to see its parts"
        )
    return cut_into_parts(plan, device, count, strategy=strategy, objective=objective)


def cut_job(job: Job | SeriesJob, count: int, **options: Unpack[Options]) -> Cut:
    """Cut a job with a target into parts, as `plan_parts` does, to show their costs.

    Raises
    ------
    UsageError
        If the job moves several arrays, or the target can only be written by one process.
    """
    return divide_job(one_array(job), Settings.of(**options), count=count).cut


def default_threads() -> int:
    """Return the default number of threads of a part."""
    return Settings.of().n_threads()


def suggest(
    source: Place,
    *,
    access: str | Sequence[str],
    chunk_size: int | str | None = None,
    device: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Suggestion:
    """Suggest chunks that suit how an array will be read.

    Parameters
    ----------
    source
        A path, or an array returned by `open`. For a group, or a file with several arrays, the
        chunks suit the largest array, and are meant for all arrays with its dimensions.
    access
        How the array will be read: ``"time series"``, ``"along AXIS"``, ``"slices"``, ``"slices
        AXIS"``, ``"cubes"``, ``"cubes SIDE"``, or the largest region that is read at once. A list
        if it is read in several ways.
    chunk_size
        The most bytes of a chunk, 16 MiB by default.
    device
        The device that the chunks will be on, as in `plan`.
    storage_options
        Options to connect to object stores, as in `plan`.

    Returns
    -------
    Suggestion
        Chunks, shards if there would be too many files, and the cost of each access before and
        after.

    Raises
    ------
    UsageError
        If an access is not understood.
    """
    accesses = [access] if isinstance(access, str) else list(access)
    tree = find_tree(source, storage_options)
    if tree is not None and tree.sources and not tree.levels:
        device_of_tree = find_device(device, tree.place)
        return suggest_for_tree(tree, accesses, device_of_tree, chunk_size)
    store = source_of(source, storage_options)
    return suggest_for(store, accesses, find_device(device, store.place), chunk_size)


def plan_shape(
    shape: Sequence[int],
    dtype: DTypeLike,
    source_chunks: Chunks,
    target_chunks: Chunks,
    /,
    **options: Unpack[Options],
) -> AnyPlan:
    """Plan for an array that need not exist: raw blocks, by default in C order.

    Parameters
    ----------
    shape, dtype
        Shape of the array, and type of its elements.
    source_chunks, target_chunks
        Blocks of the source and of the target, as in `plan`.
    **options
        See `Options`.

    Examples
    --------
    >>> plan = plan_shape((3500,) * 3, "float16", 350, 500, memory="4GB")
    >>> plan.problem.lower_bound, plan.fits
    (1343, True)
    """
    settings = Settings.of(**options)
    return plan_without_data(shape, dtype, source_chunks, target_chunks, settings)[0]


def resplit(
    source: Place,
    target: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    chunks: Chunks | Sequence[Chunks] = None,
    compute: bool = True,
    verify: bool = False,
    progress: OnProgress = None,
    processes: int | None = None,
    part: str | tuple[int, int] | None = None,
    client: AnyClient | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Move an array to blocks of another shape, within a memory budget.

    Parameters
    ----------
    source
        A path, or an array returned by `open`. All arrays of a Zarr group, or of a NetCDF or HDF5
        file, are re-split into another group or file: see `plan`.
    target
        Where the blocks go. A list of targets is written from one read.
    chunks
        The target's blocks, as in Dask: integers, ``-1``, ``"auto"``, tuples, or a dict by axis.
        For a list of targets, a list with the chunks of each. Leave it out if the target is a
        pattern of slices, such as ``"z_{0:04}.tif"``, which implies the chunks.
    compute
        Run now; if False, return a Dask `Delayed` that runs later.
    verify
        Read the target back afterwards, and compare it with the checksums that were computed
        while writing.
    progress
        True shows the progress: as a bar on a terminal or in Jupyter, else as lines; "bar",
        "plain", "json" and "none" choose, as ``--progress`` does. A function is
        called now and then with the `Progress` of the run, from any thread but one at a time. An
        exception that it raises ends the run, which `resume` can then continue.
    processes
        Share the work among this many processes of this machine. The memory and the threads are
        divided among them.
    part
        Write only this part, as ``(3, 16)`` for the third of 16 parts; other processes, on any
        machines, write the others. Memory and threads are those of the part. `finish` completes
        the target when all parts are done.
    client
        Run in parts on the workers of a dask.distributed cluster: a `distributed.Client`, the
        address or file of a scheduler, or ``"current"`` for the client that is current. `memory` is
        then the budget of each part. Without it, the run uses this process only.
    **options
        See `Options`.
    """
    request = Request("resplit", source, target, chunks)
    return _carry_out(request, compute, verify, progress, options, processes, part, client)


def _carry_out(  # noqa: PLR0917  # the arguments of all verbs
    request: Request,
    compute: bool,  # noqa: FBT001
    verify: bool,  # noqa: FBT001
    progress: OnProgress,
    options: Options,
    processes: int | None = None,
    part: str | tuple[int, int] | None = None,
    client: AnyClient | None = None,
) -> RunResult | Delayed:
    job: AnyJob
    is_shared = processes is not None or part is not None
    if client is not None:
        if is_shared:
            raise UsageError("client cannot be given with part or processes; leave out one of them")
        if not compute:
            raise UsageError("compute=False returns a task of Dask; leave out client, or compute")
        with on_cluster(client, request, **options) as parted:
            return parted.execute(verify=verify, progress=progress)
    if is_shared:
        job = plan_shared(request, processes=processes, part=part, **options)
    else:
        job = plan_request(request, **options)
    return start(job, compute=compute, verify=verify, progress=progress)


def start(
    job: AnyJob,
    *,
    compute: bool,
    verify: bool,
    progress: OnProgress,
) -> RunResult | Delayed:
    """Run a job now, or return a Dask `Delayed` that runs it."""
    if compute:
        return job.execute(verify=verify, progress=progress)
    from dask.delayed import delayed  # noqa: PLC0415  # takes half a second, rarely needed

    later: Delayed = delayed(job.run, pure=False)(verify=verify, progress=progress)
    return later


@contextmanager
def on_cluster(
    client: AnyClient, request: Request, **options: Unpack[Options]
) -> Iterator[ClusterJob]:
    """Plan a verb for the workers of a cluster, and yield the job while it is connected.

    Raises
    ------
    MissingLibraryError
        If dask.distributed is not installed.
    StorageError
        If the scheduler or its workers cannot be reached, or do not see source and target.
    UsageError
        If the workers lack memory or resources, or the target cannot be written in parts.
    """
    from dask_io.cluster import distributed  # noqa: PLC0415  # takes a second, rarely needed

    if request.has_several_targets:
        raise UsageError("several targets do not run on a cluster; write them one by one")
    if request.verb == "merge":
        raise UsageError(
            "merge writes one file, which only one process can write; run it without a cluster, or "
            "use resplit to write Zarr or block files"
        )
    settings = Settings.of(**options)
    is_given = options.get("memory") is not None or configured("memory") is not None
    with distributed.on_cluster(
        client,
        request.plan,
        settings,
        places=request.places,
        memory=settings.memory if is_given else None,
        label=request.verb,
    ) as job:
        yield job


def split(
    source: Place,
    target: str | PathLike[str],
    *,
    chunks: Chunks = None,
    compute: bool = True,
    verify: bool = False,
    progress: OnProgress = None,
    processes: int | None = None,
    part: str | tuple[int, int] | None = None,
    client: AnyClient | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Split one file into blocks.

    Parameters
    ----------
    source
        One file, or an array in it, or an array returned by `open`.
    target
        Where the blocks go.
    """
    array = open_one_file(source, options.get("storage_options"))
    request = Request("split", array, target, chunks)
    return _carry_out(request, compute, verify, progress, options, processes, part, client)


def merge(
    source: Place,
    target: str | PathLike[str],
    *,
    compute: bool = True,
    verify: bool = False,
    progress: OnProgress = None,
    client: AnyClient | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Merge all blocks into one file.

    Parameters
    ----------
    source
        A path, or an array returned by `open`.
    target
        The file.
    """
    request = Request("merge", source, target)
    return _carry_out(request, compute, verify, progress, options, client=client)


def extract(
    source: Place,
    target: str | PathLike[str],
    *,
    regions: AnyRegion | Sequence[AnyRegion] = (),
    chunks: Chunks = None,
    compute: bool = True,
    verify: bool = False,
    progress: OnProgress = None,
    processes: int | None = None,
    part: str | tuple[int, int] | None = None,
    client: AnyClient | None = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Write regions of an array as separate arrays, from one read.

    Blocks that no region needs are not opened. Regions may overlap; data that several regions
    share is read once. Of a Zarr group, or a NetCDF or HDF5 file, one region is written to another
    group or file: all arrays are cut along its dimensions, and keep their attributes. An array of a
    group or a file takes its coordinates along if the target is a new group or file, unless `part`
    is given, or an option for single arrays, such as `dtype`. Only a single region can be written
    in parts, or on a cluster.

    Parameters
    ----------
    source
        A path, or an array returned by `open`.
    target
        Where a single region goes. Several regions go to ``region_000``, ``region_001`` and so on
        in this folder, in the order of `regions`.
    regions
        Regions such as ``"0:100,:,5:"``, ``np.s_[:100, :, 5:]`` or ``{"time": slice(0, 744)}``, as
        for `resplit`. A single one may also be given as `region`.
    chunks
        Blocks of each region. By default, regions in Zarr, HDF5 and NetCDF have the chunks of the
        source, and others are one block. A pattern of slices needs no chunks.
    compute, verify, progress, processes, part, client, **options
        As in `resplit`.
    """
    request = Request("extract", source, target, chunks, regions)
    return _carry_out(request, compute, verify, progress, options, processes, part, client)


def plan_extract(
    source: Place,
    target: str | PathLike[str],
    *,
    regions: AnyRegion | Sequence[AnyRegion] = (),
    chunks: Chunks = None,
    **options: Unpack[Options],
) -> Job | JointJob | SeriesJob:
    """Plan `extract`, and predict the cost.

    Parameters
    ----------
    source, target, regions, chunks
        As in `extract`.
    """
    return plan_request(Request("extract", source, target, chunks, regions), **options)


def resume(
    target: str | PathLike[str],
    *,
    verify: bool = False,
    progress: OnProgress = None,
    **options: Unpack[ResumeOptions],
) -> RunResult:
    """Resume an interrupted run; blocks that are already durable are not written again.

    Parameters
    ----------
    target
        The target of the run, or the folder of the regions that `extract` was writing.
    verify, progress
        As in `resplit`.
    **options
        See `ResumeOptions`; they need not be those of the first run.

    Raises
    ------
    DataError
        If the source has changed, or the journal is invalid.
    StorageError
        If another run is writing the target.
    UsageError
        If the target has no journal, or `consume` is given but the first run did not have it.
    """
    jobs = plan_resumes(target, **options)
    results = run_each(jobs, lambda job: job.execute(verify=verify, progress=progress))
    return reduce(RunResult.followed_by, results)


def finish(
    target: str | PathLike[str],
    *,
    source: str | PathLike[str] | None = None,
    verify: bool = False,
    memory: int | str | None = None,
    workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> RunResult:
    """Complete a target after all its parts have been written; a complete one stays as it is.

    Parameters
    ----------
    target
        The target.
    source
        New place of the source, if it has been moved.
    verify
        Read the target back, and compare it with the checksums that were computed while writing.
    memory, workers
        Memory and threads to verify it; see `Options`.
    storage_options
        Options to connect to object stores; see `Options`.

    Raises
    ------
    DataError
        If parts are missing, or the source has changed.
    StorageError
        If a part is still running.
    UsageError
        If the target has not been written in parts.
    """
    place = locate(target, storage_options)
    at = None if source is None else locate(source, storage_options)
    result = finish_parts(place, at=at, storage_options=storage_options)
    if verify:
        settings = Settings.of(memory=memory, workers=workers)
        check_again([place], settings.memory, settings.n_threads())
    return replace(result, verified=True if verify else None)


def plan_resumes(
    target: str | PathLike[str],
    *,
    on_problem: Callable[[DaskIOError], None] | None = None,
    **options: Unpack[ResumeOptions],
) -> Generator[Job | SeriesJob | Complete]:
    """Plan `resume`, one array after another; each job must run before the next is planned."""
    return targets.plan_resumes(target, Settings.to_resume(**options), on_problem)


def repair(
    target: str | PathLike[str],
    source: str | PathLike[str] | None = None,
    *,
    dry_run: bool = False,
    memory: int | str | None = None,
    workers: int | None = None,
    max_rate: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: OnProgress = None,
) -> Repair:
    """Rewrite the damaged blocks of a target from its source.

    Every block is read back. A block is damaged if it is missing, or does not match the checksum
    that was computed when it was written. Only a block that matches this checksum replaces it.
    An unfinished target is completed first.

    Parameters
    ----------
    target
        A target that a run has written, or a folder with several targets.
    source
        New place of the source, if it has been moved.
    dry_run
        Only find the damaged blocks; nothing is changed, and no source is needed.
    memory, workers, max_rate, storage_options
        As in `Options`.
    progress
        As in `resplit`.

    Raises
    ------
    DataError
        If the source has changed, was consumed, or no longer gives the same data.
    StorageError
        If the source is not found, or another run is writing the target.
    UsageError
        If the target has no journal.
    """
    settings = Settings.to_resume(
        memory=memory,
        workers=workers,
        max_rate=max_rate,
        source=None if source is None else fspath(source),
        storage_options=storage_options,
    )
    with taking(progress, Watch("repairing")) as on_progress:
        return repair_all(target, RepairOptions(settings, dry_run, on_progress))


def verify(
    a: Place,
    b: Place | None = None,
    *,
    memory: int | str | None = None,
    workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: OnProgress = None,
) -> Verification:
    """Compare two arrays, with any blocks and formats, or one array with its checksums.

    Elements of the same type are compared bitwise. Elements of different types are compared by
    value, records field by field, and NaN equals NaN. If the journal of the second array records
    that its elements were converted from the type of the first, they are converted again and
    compared bitwise. A single array is compared with the checksums that Dask IO computed when it
    wrote it. True as `progress` shows how much has been compared, a function takes it.

    Raises
    ------
    DataError
        If the shapes differ, or an array is incomplete.
    UsageError
        If a single array has no checksums.
    BudgetTooSmallError
        If the memory is too small; it names the smallest sufficient budget.
    """
    settings = Settings.of(memory=memory, workers=workers)
    budget, threads = settings.memory, settings.n_threads()
    if b is None:
        place = locate(a.source.place if isinstance(a, BlockArray) else a, storage_options)
        with taking(progress, Watch("verifying")) as on_progress:
            return targets.verify_alone(place, budget, threads, on_progress)

    def plan_pair(one: Source, other: Source) -> Comparison:
        if one.grid.shape != other.grid.shape:
            shapes = f"has shape {other.grid.shape}, but {one.place} has {one.grid.shape}"
            raise DataError(other.place, [shapes])
        at = locate(other.place, storage_options)
        return plan_comparison(one, other, budget, threads, at=at)

    trees = [find_tree(each, storage_options, each=True) for each in (a, b)]
    if trees[0] is not None and trees[1] is not None:
        with taking(progress, Watch("verifying")) as on_progress:
            return verify_trees(trees[0], trees[1], plan_pair, on_progress)
    if trees[0] is not None:
        source_of(b, storage_options)  # report first if it does not exist
    one, other = source_of(a, storage_options), source_of(b, storage_options)
    with taking(progress, Watch("verifying")) as on_progress:
        return plan_pair(one, other).run(one, other, on_progress)
