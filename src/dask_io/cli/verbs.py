"""The commands, in the order of use. Their imports are deferred until they run."""

from __future__ import annotations

import warnings
from functools import partial
from itertools import repeat
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import dask_io
from dask_io.cli import options, reporting, sharing
from dask_io.cli.group import Verbs, one_line, say, show, show_json
from dask_io.cli.notices import remarks, say_first, show_progress, unit_of
from dask_io.errors import DaskIOError, DaskIOWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.api import Job, JointJob, RunResult, SeriesJob
    from dask_io.cli.notices import AnyJob
    from dask_io.cluster.distributed import ClusterJob
    from dask_io.cluster.processes import ProcessJob
    from dask_io.cluster.sharing import OnePart
    from dask_io.jobs.requests import Request
    from dask_io.planning import AnyPlan, Device, Series, Sweeps
    from dask_io.planning.suggest import Suggestion
    from dask_io.report.explain import Explanation

_WIDTH = 100
# Options of a plan without data.
_FOR_ANY_PLAN = ("memory", "strategy", "objective", "device", "workers", "order")


@click.group(
    name="io",
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDTH},
    epilog="Exit codes: 0 done, 1 the data is wrong, 2 usage, 3 the environment, 4 interrupted.",
)
@click.version_option(dask_io.__version__, prog_name="dask-io")
@click.pass_context
def commands(ctx: click.Context) -> None:
    """Split, merge and resplit arrays larger than memory; read and write each block once.

    SRC and DST are one file (volume.npy), a directory of blocks, a pattern of block files
    (blocks/b_{0}_{1}_{2}.npy), an array in a container (scan.zarr, scan.h5::/path), all arrays of a
    group or a file (year.zarr, year.nc), or the URL of one in an object store
    (s3://bucket/scan.zarr).
    """
    if ctx.invoked_subcommand is None:
        show(ctx.get_help())


@commands.command()
@click.argument("src")
@options.source
@options.as_json
@options.debug
def info(src: str, *, as_json: bool, **given: Any) -> None:
    r"""Show the shape, data type, blocks and size of SRC.

    For a group, or a file with several arrays, list all arrays.

    \b
    Example:
      dask-io info blocks/
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use
    from dask_io.report import jsonable  # noqa: PLC0415  # loaded on use

    source = options.open_source(src, given)
    group = api.info_group(source)
    if group is not None:
        json_info, text_info = jsonable.group_to_json(group), str(group)
    else:
        found = api.info(source)
        json_info, text_info = jsonable.info_to_json(found), str(found)
    if as_json:
        show_json(json_info)
    else:
        show(text_info)


@commands.command()
@click.argument("src", required=False)
@click.argument("dst", required=False)
@options.chunks
@options.region
@options.without_data
@click.option("--explain", is_flag=True, help="Show the cost of every strategy, and all details.")
@options.parts
@reporting.option
@options.planning
@options.as_json
@options.debug
def plan(
    src: str | None,
    dst: str | None,
    *,
    explain: bool,
    parts: int | None,
    as_json: bool,
    **given: Any,
) -> None:
    r"""Show how an array would be moved, and the cost.

    Nothing is changed. Without DST, the target has the format and codec of SRC, unless you give
    others. For a group, or a file with several arrays, all arrays are planned, with chunks by
    dimension name. Without SRC, describe the array with --shape, --dtype, --from and --to.

    \b
    Examples:
      dask-io plan blocks/ --chunks 500,500,500 --memory 4GiB
      dask-io plan blocks/ volume.zarr --chunks 64 --shards 512
      dask-io plan year.nc --chunks time=24,lat=-1,lon=-1
      dask-io plan blocks/ --chunks 500,500,500 --memory 4GiB --parts 16
      dask-io plan --shape 3500,3500,3500 --dtype float16 --from 350 --to 500 --memory 4GiB
    """
    found: AnyPlan | Series
    job: Job | SeriesJob | None = None
    inferred = ""
    del given["report"]
    if src is None:
        found, device = _plan_without_data(given)
    else:
        job = _plan_with_data(src, dst, given)
        found, device, inferred = job.plan, job.device, job.inferred
        if not as_json:
            _say_remarks(job)
    if parts is not None:
        if explain:
            raise click.UsageError("--explain and --parts cannot both be given")
        _show_parts(job or (found, device), dst, parts, given, as_json=as_json)
    elif explain:
        _show_explanation(found, device, given, as_json=as_json, inferred=inferred)
    else:
        codec = getattr(job, "codec", "")
        _show_plan(found, device, as_json=as_json, inferred=inferred, codec=codec)
    reporting.write_report(found, device, axes=None if job is None else job.axes)


@commands.command()
@click.argument("src")
@click.option(
    "--access",
    "accesses",
    metavar="HOW",
    multiple=True,
    help="How SRC will be read: 'time series', 'along AXIS', slices, 'slices AXIS', cubes, 'cubes "
    "SIDE', or the largest region, e.g. 0:10,:,:; may be repeated.",
)
@click.option("--chunk-size", metavar="SIZE", help="Most bytes of a chunk.  [default: 16MiB]")
@options.device
@options.source
@options.as_json
@options.debug
def suggest(
    src: str,
    *,
    accesses: tuple[str, ...],
    chunk_size: str | None,
    device: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    r"""Suggest chunks of SRC that suit how it will be read.

    Shows what each access costs now, and what it would cost with the suggested chunks. For a group
    or a file with several arrays, the chunks suit the largest array.

    \b
    Examples:
      dask-io suggest year.nc --access 'time series' --access slices
      dask-io suggest scan/ --access 'cubes 128'
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use
    from dask_io.report import jsonable  # noqa: PLC0415  # loaded on use

    source = options.open_source(src, given)
    found = api.suggest(source, access=accesses, chunk_size=chunk_size, device=device)
    if as_json:
        show_json(jsonable.suggestion_to_json(found))
    else:
        show(f"{found}\n{_resplit_command(found, src)}")


@commands.command()
@click.argument("src")
@click.argument("dst")
@options.chunks
@options.region
@options.consume
@options.running
def resplit(src: str, dst: str, **given: Any) -> None:
    r"""Move the array in SRC to blocks of another shape in DST.

    For a group of Zarr arrays, or a NetCDF or HDF5 file with several arrays, all arrays are moved
    into another group or file, with chunks by dimension name.

    \b
    Examples:
      dask-io resplit blocks/ out/ --chunks 500,500,500 --memory 4GiB
      dask-io resplit 'slices/*.npy' volume.zarr --chunks 64,64,64
      dask-io resplit volume.zarr 'slices/z_{0:04}.npy'
      dask-io resplit year.zarr days.zarr --chunks time=24,y=-1,x=-1
      dask-io resplit year.nc days.zarr --chunks time=24,lat=-1,lon=-1
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use

    chunks = options.chunks_for(dst, given)
    source = options.open_source(src, given)
    _carry_out(api.Request("resplit", source, dst, chunks), given)


@commands.command()
@click.argument("src")
@click.argument("dst")
@options.chunks
@options.region
@options.consume
@options.running
def split(src: str, dst: str, **given: Any) -> None:
    r"""Split the file SRC into blocks in DST.

    \b
    Example:
      dask-io split volume.npy out/ --chunks 500,500,500 --memory 4GiB
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use

    chunks = options.chunks_for(dst, given)
    source = api.open_one_file(options.open_source(src, given))
    _carry_out(api.Request("split", source, dst, chunks), given)


@commands.command()
@click.argument("src")
@click.argument("dst")
@options.region
@options.consume
@options.running
def merge(src: str, dst: str, **given: Any) -> None:
    r"""Merge all blocks of SRC into the file DST.

    \b
    Example:
      dask-io merge blocks/ volume.npy --memory 4GiB
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use

    if sharing.is_shared(given):
        raise click.UsageError(
            "merge writes one file, which only one process can write; leave out --part and "
            "--processes, or use resplit to write Zarr or block files"
        )
    source = options.open_source(src, given)
    _carry_out(api.Request("merge", source, dst), given)


@commands.command()
@click.argument("src")
@click.argument("dst")
@options.regions
@options.regions_file
@click.option(
    "--chunks",
    metavar="C,C,...",
    help="Blocks of each region.  [default: as source in Zarr, HDF5 and NetCDF; else one block]",
)
@options.running
def extract(src: str, dst: str, **given: Any) -> None:
    r"""Write regions of SRC as separate arrays, reading SRC once.

    One region goes to DST; several go to DST/region_000, DST/region_001, ... Regions may overlap.
    Blocks outside of all regions are not opened. Of a group, or a file with several arrays, all
    arrays are cut along the dimensions of one region. One array of them takes its coordinates
    along into a new group or file.

    \b
    Examples:
      dask-io extract blocks/ rois/ --region 0:100,:,: --region 50:150,20:80,:
      dask-io extract year.nc january.nc --region time=0:744
      dask-io extract year.zarr::/tas january.zarr --region time=2020-01:2020-02
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use

    regions = list(given["regions"])
    if given["regions_file"] is not None:
        regions += options.read_regions(given["regions_file"])
    if not regions:
        raise click.UsageError("give at least one region with '--region' or '--regions-file'")
    chunks = None if given["chunks"] is None else options.parse_chunks(given["chunks"])
    source = options.open_source(src, given)
    _carry_out(api.Request("extract", source, dst, chunks, regions), given)


@commands.command()
@click.argument("dst")
@options.memory_to_resume
@options.strategy
@options.objective
@options.device
@options.workers
@options.max_rate_to_resume
@click.option("--source", metavar="SRC", help="New location of the source, if it was moved.")
@options.consume
@options.verify
@options.sidecar
@reporting.option
@options.progress
@options.verbose
@options.as_json
@options.quiet
@options.debug
def resume(dst: str, **given: Any) -> None:
    r"""Complete DST after an interrupted run.

    Durable blocks are not written again. DST may also be a group, or a folder of several targets.
    After a run with --consume, source blocks are removed only if --consume is given again.

    \b
    Example:
      dask-io resume out/ --memory 2GiB
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use

    if given["quiet"]:
        warnings.simplefilter("ignore", DaskIOWarning)

    def report(problem: DaskIOError) -> None:
        say(f"dask-io: {problem}")

    results: list[tuple[AnyJob, RunResult]] = []
    jobs = api.plan_resumes(dst, on_problem=report, **options.select(given))
    try:
        for each in api.run_each(jobs, partial(_run_job, label="resume", given=given)):
            results.append(each)  # noqa: PERF402 - the results before an error are shown, too
    except DaskIOError:
        if results and not given["as_json"]:
            _show_results(results, dst, given, is_only=False)
        raise
    _show_results(results, dst, given, is_only=len(results) == 1)
    reporting.write_run_report(results)


@commands.command()
@click.argument("dst")
@click.option("--source", metavar="SRC", help="New location of the source, if it was moved.")
@options.verify
@options.memory
@options.workers
@options.as_json
@options.quiet
@options.debug
def finish(dst: str, *, as_json: bool, quiet: bool, **given: Any) -> None:
    r"""Complete DST after all its parts have been written with --part.

    A missing part is reported, with the command that writes it. Nothing happens if DST is already
    complete.

    \b
    Example:
      dask-io finish out/
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use
    from dask_io.report import jsonable  # noqa: PLC0415  # loaded on use

    result = api.finish(dst, **given)
    if as_json:
        show_json(jsonable.run_to_json(None, result))
    elif not quiet:
        lost = ", ".join(result.not_kept).replace("_", " ")
        verified = "; verified: read back and compared" if result.verified else ""
        not_kept = f"; not kept: {lost}" if lost else ""
        told = f"{result.blocks_skipped:,} blocks{verified}{one_line(not_kept)}"
        show(f"{one_line(dst)}: is complete: {told}")


@commands.command()
@click.argument("src")
@click.argument("dst", required=False)
@options.memory
@options.workers
@options.source
@options.progress
@options.as_json
@options.quiet
@options.debug
def verify(src: str, dst: str | None, *, as_json: bool, quiet: bool, **given: Any) -> None:
    r"""Compare two arrays, or one array with its checksums.

    Blocks and formats may differ. For groups, and files with several arrays, all arrays are
    compared by name. Values of the same data type are compared bitwise. An array that Dask IO has
    written can be compared with the checksums in its journal. The exit code is 1 if anything
    differs.

    \b
    Examples:
      dask-io verify blocks/ out/ --memory 4GiB
      dask-io verify out/
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use
    from dask_io.errors import DataError  # noqa: PLC0415  # loaded on use
    from dask_io.formats.places import advise_repair  # noqa: PLC0415  # loaded on use
    from dask_io.report import jsonable  # noqa: PLC0415  # loaded on use
    from dask_io.report.progress import Watch  # noqa: PLC0415  # loaded on use

    chosen = {name: given[name] for name in ("memory", "workers")}
    with show_progress(Watch("verify"), {**given, "quiet": quiet}) as update:
        found = api.verify(options.open_source(src, given), dst, progress=update, **chosen)
    if as_json:
        show_json(jsonable.verification_to_json(found))
    elif found and not quiet:
        show(str(found))
    if not found:
        other = "its checksums" if dst is None else src
        advice = advise_repair(src) if dst is None else ""
        differs = str(found)
        if found.n_differing is not None:
            differs = f"differs from {other}: {differs}"
        raise DataError(dst or src, [differs], advice)


@commands.command()
@click.argument("dst")
@click.argument("src", required=False)
@options.memory
@options.workers
@options.max_rate
@click.option("--dry-run", is_flag=True, help="Show what is damaged; change nothing.")
@options.progress
@options.as_json
@options.quiet
@options.debug
def repair(dst: str, src: str | None, *, as_json: bool, quiet: bool, **given: Any) -> None:
    r"""Rewrite damaged blocks of DST from its source.

    Every block is compared with the checksum in the journal. Missing and damaged blocks are read
    from the source again, and replaced only if the new data matches the checksums. SRC is the new
    location of the source, if it was moved. An HDF5 or NetCDF file is rewritten as a whole. With
    --dry-run, the exit code is 1 if anything is damaged, as for verify.

    \b
    Examples:
      dask-io repair out/ --dry-run
      dask-io repair out/
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use
    from dask_io.errors import DataError  # noqa: PLC0415  # loaded on use
    from dask_io.formats.places import advise_repair  # noqa: PLC0415  # loaded on use
    from dask_io.report import jsonable  # noqa: PLC0415  # loaded on use
    from dask_io.report.progress import Watch  # noqa: PLC0415  # loaded on use

    shown = {"quiet": quiet, "progress": given.pop("progress")}
    with show_progress(Watch("repair"), shown) as update:
        found = api.repair(dst, src, progress=update, **given)
    if as_json:
        show_json(jsonable.repair_to_json(found))
    elif not quiet:
        show(f"{one_line(dst)}: {found}")
    if given["dry_run"] and found.damaged:
        raise DataError(one_line(dst), ["is damaged"], advise_repair(dst))


@commands.command()
@click.option("--size", default="256MiB", show_default=True, help="Approximate array size.")
@click.option("--memory", metavar="SIZE", help="Memory budget.  [default: 1/6 of the array]")
@options.workers
@click.option("--dir", "folder", metavar="DIR", help="Folder to use.  [default: temporary files]")
@click.option("--keep-files", is_flag=True, help="Do not remove the arrays.")
@reporting.option
@options.debug
def demo(**given: Any) -> None:
    r"""Resplit an example array; compare this with the naive strategy.

    \b
    Example:
      dask-io demo --size 1GiB
    """
    from dask_io.cli.demo import run_demo  # noqa: PLC0415  # loaded on use

    del given["report"]
    run_demo(**given)


@commands.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    r"""Print a script for the shell to complete commands and options.

    \b
    Examples:
      dask-io completion bash >> ~/.bashrc
      dask-io completion zsh >> ~/.zshrc
      dask-io completion fish > ~/.config/fish/completions/dask-io.fish
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415  # loaded on use

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    show(kind(commands, {}, "dask-io", "_DASK_IO_COMPLETE").source())


def _resplit_command(found: Suggestion, src: str) -> str:
    """Return the command that makes the suggested chunks."""

    def written(lengths: tuple[int, ...]) -> str:
        names = (f"{quote(name)}=" for name in found.dimensions) if found.array else repeat("")
        return ",".join(f"{name}{length}" for name, length in zip(names, lengths, strict=False))

    chosen = f"--chunks {written(found.chunks)}"
    if found.shards is not None:
        chosen += f" --shards {written(found.shards)}"
    return f"dask-io resplit {quote(src)} DST.zarr {chosen}"


def _plan_with_data(src: str, dst: str | None, given: dict[str, Any]) -> Job | SeriesJob:
    from dask_io import api  # noqa: PLC0415  # loaded on use

    names = {"shape": "--shape", "from_": "--from", "to": "--to"}
    extra = [option for name, option in names.items() if given[name] is not None]
    if extra:
        raise click.UsageError(f"{', '.join(extra)} describe an array without data, not SRC")
    if given["chunks"] is None and dst is None:
        raise click.UsageError("missing option '--chunks' for the blocks of the target")
    chunks = options.chunks_for(dst or "", given)
    source = options.open_source(src, given)
    return api.plan(source, dst, chunks=chunks, **options.select(given))


def _plan_without_data(given: dict[str, Any]) -> tuple[AnyPlan, Device]:
    from dask_io import api  # noqa: PLC0415  # loaded on use
    from dask_io.jobs.settings import Settings  # noqa: PLC0415  # loaded on use

    needed = {"--shape": "shape", "--dtype": "dtype", "--from": "from_", "--to": "to"}
    missing = [option for option, name in needed.items() if given[name] is None]
    if missing:
        raise click.UsageError(f"give SRC, or describe an array: missing {', '.join(missing)}")
    known = {*needed.values(), *_FOR_ANY_PLAN}
    source_of = click.get_current_context().get_parameter_source
    asked = [name for name in given if source_of(name) is ParameterSource.COMMANDLINE]
    extra = [f"--{name.replace('_', '-')}" for name in asked if name not in known]
    if extra:
        raise click.UsageError(f"{', '.join(extra)} need SRC; without data use --from and --to")
    settings = Settings.of(**options.select({name: given[name] for name in _FOR_ANY_PLAN}))
    return api.plan_without_data(
        options.parse_shape(given["shape"], "--shape"),
        given["dtype"],
        options.parse_chunks(given["from_"]),
        options.parse_chunks(given["to"]),
        settings,
    )


def _carry_out(request: Request, given: dict[str, Any]) -> None:
    """Plan a verb, and show the plan or run it."""
    from dask_io import api  # noqa: PLC0415  # loaded on use

    if given["scheduler"]:
        _run_on_cluster(request, given)
        return
    job: AnyJob | OnePart | ProcessJob
    chosen = options.select(given)
    if sharing.is_shared(given):
        job = api.plan_shared(request, **sharing.shared_options(given), **chosen)
    else:
        job = api.plan_request(request, **chosen)
    _show_or_run(job, str(request.target), label=request.verb, given=given)


def _run_on_cluster(request: Request, given: dict[str, Any]) -> None:
    """Plan a verb for the workers of a cluster, and show the plan or run it there."""
    import logging  # noqa: PLC0415  # loaded on use

    if sharing.is_shared(given):
        raise click.UsageError("--scheduler runs all parts; leave out --part and --processes")
    from dask_io import api  # noqa: PLC0415  # loaded on use

    # Its log repeats in many lines what an error reports in one.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with api.on_cluster(given["scheduler"], request, **options.select(given)) as job:
        if not given["quiet"]:
            say(f"dask-io: {one_line(job.summary)}")
        dst, as_json, quiet = str(request.target), given["as_json"], given["quiet"]
        if given["dry_run"]:
            sharing.show_shared_plan(job, dst, as_json=as_json)
            reporting.write_report(job.plan, job.device)
            return
        _, result = _run_job(job, label=request.verb, given=given)
        sharing.show_shared_result(job, result, dst, as_json=as_json, quiet=quiet)
        reporting.write_run_report([(job, result)])


def _show_or_run(
    job: Job | JointJob | SeriesJob | ClusterJob | OnePart | ProcessJob,
    dst: str,
    *,
    label: str,
    given: dict[str, Any],
) -> None:
    from dask_io.cluster.processes import ProcessJob  # noqa: PLC0415  # loaded on use
    from dask_io.cluster.sharing import OnePart  # noqa: PLC0415  # loaded on use

    as_json, quiet = given["as_json"], given["quiet"]
    if given["dry_run"]:
        if not quiet and not as_json:
            _say_remarks(job)
        if isinstance(job, (OnePart, ProcessJob)):
            sharing.show_shared_plan(job, dst, as_json=as_json)
        else:
            codec, inferred = getattr(job, "codec", ""), job.inferred
            _show_plan(job.plan, job.device, as_json=as_json, inferred=inferred, codec=codec)
        reporting.write_report(job.plan, job.device, axes=getattr(job, "axes", None))
        return
    finished = _run_job(job, label=label, given=given)
    if isinstance(job, (OnePart, ProcessJob)):
        sharing.show_shared_result(job, finished[1], dst, as_json=as_json, quiet=quiet)
    else:
        _show_results([finished], dst, given)
    reporting.write_run_report([finished])


def _say_remarks(job: AnyJob) -> None:
    for line in remarks(job):
        say(f"dask-io: {one_line(line)}")


def _show_parts(
    planned: Job | SeriesJob | tuple[AnyPlan | Series, Device],
    dst: str | None,
    count: int,
    given: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    """Show the parts of a job, or of a plan without data, for which there is nothing to submit."""
    from dask_io import api  # noqa: PLC0415  # loaded on use

    plan: AnyPlan | Series
    if isinstance(planned, tuple):
        (plan, device), inferred, command = planned, "", None
    else:
        plan, device, inferred = planned.plan, planned.device, planned.inferred
        command = sharing.command_line("resplit", "DST" if dst is None else None)
    if isinstance(planned, tuple) or dst is None:
        cut = api.cut_plan(plan, device, count, given["strategy"], given["objective"])
    else:
        cut = api.cut_job(planned, count, **options.select(given))
    sharing.show_parts(
        plan,
        cut,
        device,
        as_json=as_json,
        inferred=inferred,
        command=command,
        target=dst or "DST",
        threads=given["workers"] or api.default_threads(),
        requested=count,
    )


def _run_job(job: AnyJob, *, label: str, given: dict[str, Any]) -> tuple[AnyJob, RunResult]:
    """Print what a job will do, run it, and return it with its result."""
    from dask_io.jobs.job import Runnable  # noqa: PLC0415  # loaded on use
    from dask_io.report.progress import Watch  # noqa: PLC0415  # loaded on use

    verify, quiet = given["verify"], given["quiet"]
    if isinstance(job, Runnable):
        job.check_targets()
    if quiet:
        warnings.simplefilter("ignore", DaskIOWarning)
    else:
        say_first(job)
    # The memory of other processes is not known here.
    budget = None if job.plan is None or hasattr(job, "parted") else job.plan.peak_bytes
    watch = Watch(label, "verifying" if verify else "", unit_of(job), budget)
    with show_progress(watch, given) as update:
        return job, job.run(verify=verify, progress=reporting.recording(update))


def _show_results(
    finished: Sequence[tuple[AnyJob, RunResult]],
    dst: str,
    given: dict[str, Any],
    *,
    is_only: bool = True,
) -> None:
    """Print the results of jobs: one line for each of several, or one JSON object for all."""
    from dask_io.report import jsonable, text  # noqa: PLC0415  # loaded on use

    if given["as_json"]:
        found = [
            jsonable.run_to_json(job.plan, result, job.device, inferred=job.inferred)
            for job, result in finished
        ]
        show_json(found[0] if len(found) == 1 else {"targets": found})
    elif not given["quiet"]:
        complete = "is complete"
        if all(job.plan is None for job, _ in finished):
            complete += "; there is nothing left to do (dask-io verify looks for damage)"
        for job, result in finished:
            what = complete
            if job.plan is not None:
                unit = unit_of(job)
                what = result.describe(unit=unit)
                if is_only:
                    what = text.run_text(job.plan, result, unit=unit)
                if given["verbose"]:
                    what = f"{what}\n{text.counts_text(job.plan, result)}"
            show(f"{one_line(dst if is_only else _place_of(job, dst))}: {what}")
        _mention_sidecars([job for job, _ in finished if job.plan is not None])


def _mention_sidecars(jobs: Sequence[AnyJob]) -> None:
    """Tell in one line where the checksums of new one-file targets are."""
    from dask_io.units import count  # noqa: PLC0415  # loaded on use

    files = [file for job in jobs for file in job.sidecars()]
    if len(files) == 1:
        show(f"checksums for verify and repair are in {one_line(files[0].name)}")
    elif files:
        others = count(len(files) - 1, "more file")
        show(f"checksums for verify and repair are in {one_line(str(files[0]))} and {others}")


def _place_of(job: AnyJob, dst: str) -> str:
    """Return the target of a job, which may be one of several in DST."""
    from dask_io.jobs.job import Complete, Job  # noqa: PLC0415  # loaded on use
    from dask_io.jobs.tree_job import SeriesJob  # noqa: PLC0415  # loaded on use

    if isinstance(job, Complete):
        return str(job.place)
    if isinstance(job, SeriesJob) and job.output is not None:
        return job.output.place
    return job.target.place if isinstance(job, Job) and job.target is not None else dst


def _show_plan(
    plan: AnyPlan | Sweeps | Series,
    device: Device,
    *,
    as_json: bool,
    inferred: str,
    codec: str = "",
) -> None:
    from dask_io.report.jsonable import any_plan_to_json  # noqa: PLC0415  # loaded on use
    from dask_io.report.summary import plan_summary  # noqa: PLC0415  # loaded on use

    if as_json:
        show_json({**any_plan_to_json(plan, device), "inferred": inferred or None})
    else:
        show(plan_summary(plan, device, inferred=inferred, codec=codec))
        show("--explain compares all strategies, and shows the details")


def _show_explanation(
    plan: AnyPlan | Series,
    device: Device,
    given: dict[str, Any],
    *,
    as_json: bool,
    inferred: str,
) -> None:
    from dask_io.planning import Series, parse_objective  # noqa: PLC0415  # loaded on use
    from dask_io.report import jsonable, text  # noqa: PLC0415  # loaded on use
    from dask_io.report.explain import explain  # noqa: PLC0415  # loaded on use
    from dask_io.report.summary import GLOSSARY  # noqa: PLC0415  # loaded on use

    def explained(one: AnyPlan) -> Explanation:
        objective = parse_objective(given["objective"])
        return explain(one, device=device, objective=objective, requested=given["strategy"])

    if isinstance(plan, Series):
        arrays = {name: explained(each) for name, each in plan.plans.items()}
        if as_json:
            series = jsonable.explained_series_to_json(plan, arrays, device)
            show_json({**series, "inferred": inferred or None})
        else:
            show(f"{text.explained_series_text(plan, arrays, device)}\n\n{GLOSSARY}")
    elif as_json:
        show_json({**jsonable.explained_to_json(explained(plan)), "inferred": inferred or None})
    else:
        show(f"{text.explained_text(explained(plan), inferred=inferred)}\n\n{GLOSSARY}")


for _command in commands.commands.values():
    # Click does not rewrap the lines after a backspace. A raw docstring has only its escape.
    _command.help = (_command.help or "").replace("\\b\n", "\b\n")
