"""The verbs: what the command line and Python programs call."""

from __future__ import annotations

from dask_io import why_unsupported

# Checked first, because some imports below fail on other systems.
if reason := why_unsupported():
    raise ImportError(reason)

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from os import fspath
from typing import TYPE_CHECKING, Any, cast, overload

from dask_io.cluster.finish import finish_parts
from dask_io.cluster.part import Part
from dask_io.cluster.parts import PartedJob, cut_into_parts, one_array
from dask_io.cluster.parts import plan_parts as divide_job
from dask_io.cluster.run import run_part
from dask_io.cluster.sharing import OnePart, share_job
from dask_io.config import configured
from dask_io.engine.measure import find_device
from dask_io.engine.problem import make_problem
from dask_io.engine.run import Progress, RunResult
from dask_io.engine.verify import Verification
from dask_io.errors import DataError, UsageError
from dask_io.formats.creating import names_one_file
from dask_io.formats.opening import open_source
from dask_io.formats.places import has_field
from dask_io.formats.several_targets import region_places
from dask_io.geometry import Grid, Layout, Region
from dask_io.geometry.chunks import normalize_chunks
from dask_io.jobs import targets
from dask_io.jobs.job import Complete, Job, JointJob
from dask_io.jobs.planning import (
    RequestedTarget,
    count_workers,
    plan_one,
    plan_several,
    window_of,
)
from dask_io.jobs.repair import Damage, Repair, RepairOptions, repair_all
from dask_io.jobs.settings import Settings, for_one_array, parse_ranges
from dask_io.jobs.suggesting import suggest_for
from dask_io.jobs.tree_extract import plan_tree_extract
from dask_io.jobs.tree_job import SeriesJob
from dask_io.jobs.tree_plan import plan_tree
from dask_io.jobs.tree_source import find_tree, name_one, verify_trees
from dask_io.jobs.verify import check_again, plan_comparison
from dask_io.notebook import Displayed
from dask_io.planning import (
    AnyPlan,
    Cut,
    Device,
    Series,
    Side,
    plan_with,
)
from dask_io.planning.suggest import Suggestion
from dask_io.report.progress import Watch, taking
from dask_io.report.text import group_text, info_rows, info_text
from dask_io.storage.location import locate
from dask_io.stores.array_like import BlockArray
from dask_io.stores.gzip_files import GzipFiles
from dask_io.stores.spec import SPACE
from dask_io.stores.user_description import parse_dtype, parse_order
from dask_io.units import by, count, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from typing import Unpack

    import numpy as np
    from dask.delayed import Delayed
    from numpy.typing import DTypeLike

    from dask_io.cluster.distributed import ClusterJob
    from dask_io.cluster.processes import ProcessJob
    from dask_io.geometry.chunks import Chunks
    from dask_io.geometry.ranges import AnyRegion
    from dask_io.hierarchy.tree import Tree
    from dask_io.jobs.settings import Options, ResumeOptions
    from dask_io.jobs.verify import Comparison
    from dask_io.report.progress import OnProgress
    from dask_io.stores.store import Source

    Place = str | PathLike[str] | BlockArray
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
    "plan",
    "plan_extract",
    "plan_parts",
    "plan_resumes",
    "plan_shape",
    "repair",
    "resplit",
    "resume",
    "run_part",
    "split",
    "suggest",
    "verify",
]


@dataclass(frozen=True, slots=True, repr=False)
class Info(Displayed):
    """Description of a store."""

    place: str
    format: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: Grid
    order: str
    n_bytes: int
    n_bytes_on_disk: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    pattern: str | None = None
    """Pattern of the names of its block files."""
    inferred: str | None = None
    """Meaning of the numbers in file names, if the pattern was inferred from them."""

    def __str__(self) -> str:
        return info_text(self)

    def _where(self) -> Sequence[str]:
        return (self.place,)

    def _facts(self) -> Iterator[str]:
        yield self.format
        yield f"{by(self.shape)} of {self.dtype}"
        yield f"{count(self.grid.n_blocks, 'block')} of {self.grid}"
        yield format_bytes(self.n_bytes)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield from info_rows(self)


@dataclass(frozen=True, slots=True, repr=False)
class GroupInfo(Displayed):
    """Description of a group and, by path, of all its arrays.

    `others` are unsupported arrays, each with the reason. They are copied verbatim. Those in
    `uncopied` cannot be copied either, and a group with any of them is refused.
    """

    place: str
    format: str
    arrays: Mapping[str, Info]
    others: Mapping[str, str]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    uncopied: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return group_text(self)

    def _where(self) -> Sequence[str]:
        return (self.place,)

    def _facts(self) -> Iterator[str]:
        yield f"{len(self.arrays) + len(self.others):,} {self.format} arrays"
        yield format_bytes(sum(each.n_bytes for each in self.arrays.values()))

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "place", self.place
        yield "format", self.format
        for name, each in self.arrays.items():
            yield name, f"{by(each.shape)} of {each.dtype}, blocks of {each.grid}"
        for name, problem in self.others.items():
            yield name, f"cannot be copied: it {problem}" if name in self.uncopied else "copied"


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


def open_one_file(source: Place, storage_options: Mapping[str, Any] | None = None) -> BlockArray:
    """Open a source for `split`: an array that is one block.

    Raises
    ------
    UsageError
        If it has several blocks.
    """
    array = BlockArray(_source(source, storage_options))
    store = array.source
    # A gzip file is one file, although it is read in slabs.
    n_blocks = store.n_files if isinstance(store, GzipFiles) else store.grid.n_blocks
    if n_blocks > 1:
        place = array.source.place
        message = f"split takes one file, but {place} has {n_blocks} blocks; use resplit"
        raise UsageError(message)
    return array


def info(source: Place, *, storage_options: Mapping[str, Any] | None = None) -> Info:
    """Describe a store."""
    store = _source(source, storage_options)
    names = store.block_names
    return Info(
        place=store.place,
        format=store.format,
        shape=store.grid.shape,
        dtype=store.dtype,
        grid=store.grid,
        order=store.layout.name,
        n_bytes=store.grid.size * store.dtype.itemsize,
        n_bytes_on_disk=store.n_bytes_on_disk,
        metadata=store.metadata,
        pattern=None if names is None else names.pattern,
        inferred=names.meaning if names is not None and names.inferred else None,
    )


def info_group(
    source: Place, *, storage_options: Mapping[str, Any] | None = None
) -> GroupInfo | None:
    """Describe a group, or a file with several arrays; None if the source is one array."""
    tree = find_tree(source, storage_options)
    if tree is None:
        return None
    kind = tree.dialect or tree.format
    arrays = {name: _info_in(tree, name, each) for name, each in tree.sources.items()}
    verbatim = {name: each.verbatim for name, each in tree.arrays.items() if each.source is None}
    others = {**verbatim, **tree.refused}
    return GroupInfo(tree.place, kind, arrays, others, tree.groups[""], frozenset(tree.refused))


def _info_in(tree: Tree, name: str, source: Source) -> Info:
    """Describe an array of a group or a file, with the space that the group gives it."""
    found, space = info(BlockArray(source)), tree.arrays[name].space
    return found if space is None else replace(found, metadata={**found.metadata, SPACE: space})


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
    return _plan_any(source, target, chunks, Settings.of(**options))


def _plan_any(
    source: Place, target: str | PathLike[str] | None, chunks: Chunks, settings: Settings
) -> Job | SeriesJob:
    series = plan_tree(source, target, chunks, settings)
    return series or _plan_array(source, target, chunks, settings)


def plan_shared(
    source: Place,
    target: str | PathLike[str],
    *,
    chunks: Chunks,
    processes: int | None = None,
    part: str | tuple[int, int] | None = None,
    command: str | None = None,
    **options: Unpack[Options],
) -> OnePart | ProcessJob:
    """Plan a job that several processes share; `processes` and `part` are those of `resplit`.

    `command` is the command that runs a part, for messages.
    """
    return share_job(
        lambda settings: _plan_any(source, target, chunks, settings),
        Settings.of(**options),
        processes=processes,
        part=part,
        command=command,
    )


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
    settings = Settings.of(**options)
    job = one_array(_plan_any(source, target, chunks, settings))
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
            "several arrays are written by one process, because they share a journal; give one "
            "array to see its parts"
        )
    return cut_into_parts(plan, device, count, strategy=strategy, objective=objective)


def default_threads() -> int:
    """Return the default number of threads of a part."""
    return Settings.of().n_threads()


def _plan_array(
    source: Place, target: str | PathLike[str] | None, chunks: Chunks, settings: Settings
) -> Job:
    store = _source(source, settings.storage_options)
    if settings.check:
        store.check()
    requested = RequestedTarget(target, chunks, *settings.orders(1))
    return plan_one(window_of(store, settings.region, settings), requested, settings)


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
        A path, or an array returned by `open`.
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
    store = _source(source, storage_options)
    accesses = [access] if isinstance(access, str) else list(access)
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
    return plan_without_data(shape, dtype, source_chunks, target_chunks, **options)[0]


def plan_without_data(
    shape: Sequence[int],
    dtype: DTypeLike,
    source_chunks: Chunks,
    target_chunks: Chunks,
    /,
    **options: Unpack[Options],
) -> tuple[AnyPlan, Device]:
    """Plan as `plan_shape` does, and also return the device for which time is predicted."""
    settings, kind = Settings.of(**options), parse_dtype(dtype)
    if kind is None:
        raise UsageError("a plan without data needs a dtype, such as float32")
    source = normalize_chunks(source_chunks, tuple(shape), kind.itemsize)
    target = normalize_chunks(target_chunks, tuple(shape), kind.itemsize, like=source)
    stored = Layout.c(len(source.axes))
    (order,) = settings.orders(1)
    requested = parse_order(order or "C", len(source.axes))
    sides = Side(source, stored), Side(target, requested)
    workers = count_workers(settings, sides, kind.itemsize)
    problem = make_problem(*sides, kind, memory=settings.memory, workers=workers)
    device, objective = find_device(settings.device), settings.objective
    return plan_with(settings.strategy, problem, objective=objective, device=device), device


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
    job: AnyJob
    _refuse_both(client, processes, part)
    is_one = isinstance(target, str) or not isinstance(target, Sequence)
    if chunks is None and is_one and not has_field(place := fspath(cast("str", target))):
        raise UsageError(f"chunks are missing for {place}; give chunks, such as -1 for one block")
    if client is not None:
        request = Request("resplit", source, target, chunks)
        return _run_on_cluster(client, request, compute, verify, progress, options)
    if processes is not None or part is not None:
        if not is_one:
            raise UsageError("several targets cannot be written in parts; write them one by one")
        job = plan_shared(
            source,
            cast("str", target),
            chunks=cast("Chunks", chunks),
            processes=processes,
            part=part,
            **options,
        )
    elif isinstance(target, Sequence) and not isinstance(target, str):
        job = _plan_layouts(source, target, chunks, Settings.of(**options))
    else:
        job = plan(source, target, chunks=cast("Chunks", chunks), **options)
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


def _refuse_both(client: AnyClient | None, processes: object, part: object) -> None:
    if client is not None and not (processes is None and part is None):
        raise UsageError("client cannot be given with part or processes; leave out one of them")


@dataclass(frozen=True, slots=True)
class Request:
    """A verb with its arguments, to be planned when the memory of each worker is known."""

    verb: str
    source: Place
    target: Any
    chunks: Any = -1
    regions: AnyRegion | Sequence[AnyRegion] = ()

    @property
    def places(self) -> tuple[str, str]:
        """The source and the target."""
        source = self.source
        place = source.source.place if isinstance(source, BlockArray) else fspath(source)
        return place, fspath(self.target)

    def plan(self, settings: Settings) -> AnyJob:
        """Plan it."""
        match self.verb:
            case "merge":
                return _plan_merge(self.source, self.target, settings)
            case "extract":
                place = self.source, self.target
                return _plan_extract(*place, self.regions, self.chunks, settings, alone=True)
            case _:
                return _plan_any(self.source, self.target, self.chunks, settings)


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

    if isinstance(request.target, Sequence) and not isinstance(request.target, str):
        raise UsageError("several targets do not run on a cluster; write them one by one")
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


def _run_on_cluster(  # noqa: PLR0917  # the arguments of all verbs
    client: AnyClient,
    request: Request,
    compute: bool,  # noqa: FBT001
    verify: bool,  # noqa: FBT001
    progress: OnProgress,
    options: Options,
) -> RunResult:
    if not compute:
        raise UsageError("compute=False returns a task of Dask; leave out client, or compute")
    with on_cluster(client, request, **options) as job:
        return job.execute(verify=verify, progress=progress)


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
    _refuse_both(client, processes, part)
    if client is not None:
        request = Request("split", array, target, chunks)
        return _run_on_cluster(client, request, compute, verify, progress, options)
    return resplit(
        array,
        target,
        chunks=chunks,
        compute=compute,
        verify=verify,
        progress=progress,
        processes=processes,
        part=part,
        **options,
    )


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
    if client is not None:
        request = Request("merge", source, target)
        return _run_on_cluster(client, request, compute, verify, progress, options)
    job = plan_merge(source, target, **options)
    return start(job, compute=compute, verify=verify, progress=progress)


def plan_merge(source: Place, target: str | PathLike[str], **options: Unpack[Options]) -> Job:
    """Plan `merge`, and predict the cost.

    Raises
    ------
    UsageError
        If the target's name is not that of a single file.
    """
    return _plan_merge(source, target, Settings.of(**options))


def _plan_merge(source: Place, target: str | PathLike[str], settings: Settings) -> Job:
    if not names_one_file(target, settings.format, settings.storage_options):
        name = fspath(target)
        raise UsageError(
            f"merge writes one file, but {name} does not have the suffix of a known file format; "
            f"use {name.rstrip('./') or 'whole'}.npy, for example"
        )
    return _plan_array(source, target, -1, settings)


def extract(
    source: Place,
    target: str | PathLike[str],
    *,
    regions: AnyRegion | Sequence[AnyRegion],
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
    group or a file takes its coordinates along if the target is a new group or file, unless it is
    written in parts, or with an option for single arrays, such as `dtype`. Only a single region can
    be written in parts, or on a cluster.

    Parameters
    ----------
    source
        A path, or an array returned by `open`.
    target
        Where a single region goes. Several regions go to ``region_000``, ``region_001`` and so on
        in this folder, in the order of `regions`.
    regions
        Regions such as ``"0:100,:,5:"`` or ``{"time": slice(0, 744)}``, as for `resplit`.
    chunks
        Blocks of each region; one block by default. Arrays of a group or a file keep their chunks.
    compute, verify, progress, processes, part, client, **options
        As in `resplit`.
    """
    _refuse_both(client, processes, part)
    if client is not None:
        request = Request("extract", source, target, chunks, regions)
        return _run_on_cluster(client, request, compute, verify, progress, options)
    job: AnyJob
    if processes is not None or part is not None:
        job = plan_shared_extract(
            source,
            target,
            regions=regions,
            chunks=chunks,
            processes=processes,
            part=part,
            **options,
        )
    else:
        job = plan_extract(source, target, regions=regions, chunks=chunks, **options)
    return start(job, compute=compute, verify=verify, progress=progress)


def plan_extract(
    source: Place,
    target: str | PathLike[str],
    *,
    regions: AnyRegion | Sequence[AnyRegion],
    chunks: Chunks = None,
    **options: Unpack[Options],
) -> Job | JointJob | SeriesJob:
    """Plan `extract`, and predict the cost.

    Parameters
    ----------
    source, target, regions, chunks
        As in `extract`.
    """
    return _plan_extract(source, target, regions, chunks, Settings.of(**options), alone=False)


def plan_shared_extract(
    source: Place,
    target: str | PathLike[str],
    *,
    regions: AnyRegion | Sequence[AnyRegion],
    chunks: Chunks = None,
    processes: int | None = None,
    part: str | tuple[int, int] | None = None,
    command: str | None = None,
    **options: Unpack[Options],
) -> OnePart | ProcessJob:
    """Plan `extract` of one region that several processes share; see `plan_shared`."""
    return share_job(
        lambda settings: _plan_extract(source, target, regions, chunks, settings, alone=True),
        Settings.of(**options),
        processes=processes,
        part=part,
        command=command,
    )


def _plan_extract(
    source: Place,
    target: str | PathLike[str],
    regions: AnyRegion | Sequence[AnyRegion],
    chunks: Chunks,
    settings: Settings,
    *,
    alone: bool,
) -> Job | JointJob | SeriesJob:
    """Plan `extract`; `alone` tells that an array is moved without its coordinates."""
    if settings.region is not None:
        raise UsageError("regions and region cannot both be given; leave out region")
    listed = [regions] if isinstance(regions, (str, Region, Mapping)) else regions
    if not listed:
        raise UsageError("no region is given; give at least one, as in 0:100,:,5:")
    given = [parse_ranges(region) for region in listed]
    if len(given) == 1:
        one = replace(settings, region=given[0])
        series = plan_tree_extract(source, target, chunks, one, alone=alone)
        return series or _plan_array(source, target, -1 if chunks is None else chunks, one)
    tree = find_tree(source, settings.storage_options)
    if tree is not None and not tree.levels:
        raise UsageError(
            f"{tree.place} holds several arrays, of which one region is written at a time; extract "
            f"the regions one by one, or give one array, as in {name_one(tree)}"
        )
    chunks = -1 if chunks is None else chunks
    store = _source(source, settings.storage_options)
    windows = [window_of(store, ranges, settings) for ranges in given]
    names = region_places(
        target,
        len(windows),
        format=settings.format or store.format,
        one_file=chunks == -1,
        codec=settings.codec,
        overwrite=settings.overwrite,
        storage_options=settings.storage_options,
    )
    orders = settings.orders(len(windows))
    requested = [
        RequestedTarget(*each) for each in zip(names, [chunks] * len(windows), orders, strict=True)
    ]
    return plan_several(store, windows, requested, settings)


def _plan_layouts(
    source: Place, targets: Sequence[str | PathLike[str]], chunks: Any, settings: Settings
) -> JointJob:
    """Plan several layouts of one array, written from one read."""
    if not isinstance(chunks, (list, tuple)) or not len(chunks) == len(targets) > 0:
        raise UsageError(
            f"there are {len(targets)} targets; give a list with the chunks of each, as in "
            "[(100, 100), -1]"
        )
    store, orders = _source(source, settings.storage_options), settings.orders(len(targets))
    requested = [RequestedTarget(*each) for each in zip(targets, chunks, orders, strict=True)]
    window = window_of(store, settings.region, settings)
    return plan_several(store, [window] * len(requested), requested, settings)


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
    results = (job.execute(verify=verify, progress=progress) for job in jobs)
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
    target: str | PathLike[str], **options: Unpack[ResumeOptions]
) -> Iterator[Job | SeriesJob | Complete]:
    """Plan `resume`, one array after another; each job must run before the next is planned."""
    return targets.plan_resumes(target, Settings.to_resume(**options))


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
        _source(b, storage_options)  # report first if it does not exist
    one, other = _source(a, storage_options), _source(b, storage_options)
    with taking(progress, Watch("verifying")) as on_progress:
        return plan_pair(one, other).run(one, other, on_progress)


def _source(place: Place, storage_options: Mapping[str, Any] | None) -> Source:
    if isinstance(place, BlockArray):
        return place.source
    return open_source(place, storage_options=storage_options)
