"""The commands, in the order of use. Their imports are deferred until they run."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import click

import dask_io
from dask_io.cli import options, sharing
from dask_io.cli.group import Verbs, one_line, say, show, show_json
from dask_io.errors import DaskIOWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.api import Complete, Job, JointJob, Request, RunResult, SeriesJob
    from dask_io.cluster.distributed import ClusterJob
    from dask_io.cluster.processes import ProcessJob
    from dask_io.cluster.sharing import OnePart
    from dask_io.planning import AnyPlan, Device, Series, Sweeps
    from dask_io.report.explain import Explanation

    AnyJob = Job | JointJob | SeriesJob | Complete | ClusterJob | OnePart | ProcessJob

_WIDTH = 100


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
    from dask_io.report import jsonable, text  # noqa: PLC0415  # loaded on use

    source = options.open_source(src, given)
    group = api.info_group(source)
    if group is not None:
        json_info, text_info = jsonable.group_to_json(group), text.group_text(group)
    else:
        found = api.info(source)
        json_info, text_info = jsonable.info_to_json(found), text.info_text(found)
    if as_json:
        show_json(json_info)
    else:
        show(text_info)


@commands.command()
@click.argument("src", required=False)
@click.option("--chunks", metavar="C,C,...", help="Blocks of the target.")
@click.option("--shape", metavar="N,N,...", help="Without SRC: shape of the array.")
@click.option(
    "--dtype",
    metavar="TYPE",
    help="Data type, e.g. float32: without SRC of the array, with SRC of the target.",
)
@options.casting
@options.region
@click.option("--from", "from_", metavar="C,C,...", help="Without SRC: blocks of the source.")
@click.option("--to", metavar="C,C,...", help="Without SRC: blocks of the target.")
@options.memory
@options.strategy
@options.objective
@options.device
@options.workers
@options.format_
@options.codec
@options.order
@click.option("--explain", is_flag=True, help="Show the cost of every strategy.")
@options.parts
@options.source
@options.as_json
@options.debug
def plan(src: str | None, *, explain: bool, parts: int | None, as_json: bool, **given: Any) -> None:
    r"""Show how an array would be moved, and the cost.

    The target has the format and codec of SRC, unless you give others. Use resplit SRC DST
    --dry-run to see the plan for a certain target. For a group, or a file with several arrays,
    all arrays are planned, with chunks by dimension name.

    \b
    Examples:
      dask-io plan blocks/ --chunks 500,500,500 --memory 4GiB
      dask-io plan year.nc --chunks time=24,lat=-1,lon=-1
      dask-io plan blocks/ --chunks 500,500,500 --memory 4GiB --parts 16
      dask-io plan --shape 3500,3500,3500 --dtype float16 --from 350 --to 500 --memory 4GiB
    """
    found: AnyPlan | Series
    inferred = ""
    if src is None:
        found, device = _plan_without_data(given)
    else:
        job = _plan_with_data(src, given)
        found, device, inferred = job.plan, job.device, job.inferred
    if parts is not None:
        if explain:
            raise click.UsageError("--explain and --parts cannot both be given")
        _show_parts(found, device, parts, given, as_json=as_json, inferred=inferred)
    elif explain:
        _show_explanation(found, device, given, as_json=as_json, inferred=inferred)
    else:
        _show_plan(found, device, as_json=as_json, inferred=inferred)


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
    if given["scheduler"]:
        return _run_on_cluster(api.Request("resplit", source, dst, chunks), given)
    if sharing.is_shared(given):
        shared = sharing.shared_options(given)
        one = api.plan_shared(source, dst, chunks=chunks, **shared, **options.select(given))
        return _show_or_run(one, dst, label="resplit", given=given)
    job = api.plan(source, dst, chunks=chunks, **options.select(given))
    return _show_or_run(job, dst, label="resplit", given=given)


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
    if given["scheduler"]:
        return _run_on_cluster(api.Request("split", source, dst, chunks), given)
    if sharing.is_shared(given):
        shared = sharing.shared_options(given)
        one = api.plan_shared(source, dst, chunks=chunks, **shared, **options.select(given))
        return _show_or_run(one, dst, label="split", given=given)
    job = api.plan(source, dst, chunks=chunks, **options.select(given))
    return _show_or_run(job, dst, label="split", given=given)


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
    if given["scheduler"]:
        return _run_on_cluster(api.Request("merge", source, dst), given)
    job = api.plan_merge(source, dst, **options.select(given))
    return _show_or_run(job, dst, label="merge", given=given)


@commands.command()
@click.argument("src")
@click.argument("dst")
@options.regions
@options.regions_file
@click.option("--chunks", metavar="C,C,...", help="Blocks of each region.  [default: one block]")
@options.running
def extract(src: str, dst: str, **given: Any) -> None:
    r"""Write regions of SRC as separate arrays, reading SRC once.

    One region goes to DST; several go to DST/region_000, DST/region_001, ... Regions may overlap.
    Blocks outside of all regions are not opened.

    \b
    Example:
      dask-io extract blocks/ rois/ --region 0:100,:,: --region 50:150,20:80,:
    """
    from dask_io import api  # noqa: PLC0415  # loaded on use

    regions = list(given["regions"])
    if given["regions_file"] is not None:
        regions += options.read_regions(given["regions_file"])
    if not regions:
        raise click.UsageError("give at least one region with '--region' or '--regions-file'")
    chunks = -1 if given["chunks"] is None else options.parse_chunks(given["chunks"])
    source = options.open_source(src, given)
    if given["scheduler"]:
        return _run_on_cluster(api.Request("extract", source, dst, chunks, regions), given)
    if sharing.is_shared(given):
        shared = sharing.shared_options(given)
        one = api.plan_shared_extract(
            source, dst, regions=regions, chunks=chunks, **shared, **options.select(given)
        )
        return _show_or_run(one, dst, label="extract", given=given)
    chosen = options.select(given)
    job = api.plan_extract(source, dst, regions=regions, chunks=chunks, **chosen)
    return _show_or_run(job, dst, label="extract", given=given)


@commands.command()
@click.argument("dst")
@options.memory
@options.strategy
@options.objective
@options.device
@options.workers
@options.max_rate
@click.option("--source", metavar="SRC", help="New location of the source, if it was moved.")
@options.consume
@options.verify
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
    results = [
        _run_job(job, label="resume", verify=given["verify"], quiet=given["quiet"])
        for job in api.plan_resumes(dst, **options.select(given))
    ]
    _show_results(results, dst, as_json=given["as_json"], quiet=given["quiet"])


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
        show(f"{one_line(dst)}: is complete: {result.blocks_skipped:,} blocks{verified}{not_kept}")


@commands.command()
@click.argument("src")
@click.argument("dst", required=False)
@options.memory
@options.workers
@options.source
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
    from dask_io.jobs.verify import advise_repair  # noqa: PLC0415  # loaded on use
    from dask_io.report import jsonable, text  # noqa: PLC0415  # loaded on use

    chosen = {name: given[name] for name in ("memory", "workers")}
    found = api.verify(options.open_source(src, given), dst, **chosen)
    if as_json:
        show_json(jsonable.verification_to_json(found))
    elif found and not quiet:
        show(text.verification_text(found))
    if not found:
        other = "its checksums" if dst is None else src
        advice = advise_repair(src) if dst is None else ""
        differs = f"differs from {other}: {text.verification_text(found)}"
        raise DataError(dst or src, [differs], advice)


@commands.command()
@click.argument("dst")
@click.argument("src", required=False)
@options.memory
@options.workers
@options.max_rate
@click.option("--dry-run", is_flag=True, help="Show what is damaged; change nothing.")
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
    from dask_io.jobs.verify import advise_repair  # noqa: PLC0415  # loaded on use
    from dask_io.report import jsonable, text  # noqa: PLC0415  # loaded on use
    from dask_io.report.progress import ProgressLine  # noqa: PLC0415  # loaded on use

    with ProgressLine(sys.stderr, label="repair", quiet=quiet) as progress:
        found = api.repair(dst, src, on_progress=progress.update, **given)
    if as_json:
        show_json(jsonable.repair_to_json(found))
    elif not quiet:
        show(f"{one_line(dst)}: {text.repair_text(found)}")
    if given["dry_run"] and found.damaged:
        raise DataError(one_line(dst), ["is damaged"], advise_repair(dst))


@commands.command()
@click.option("--size", default="256MiB", show_default=True, help="Approximate array size.")
@click.option("--memory", metavar="SIZE", help="Memory budget.  [default: 1/6 of the array]")
@options.workers
@click.option("--dir", "folder", metavar="DIR", help="Folder to use.  [default: temporary files]")
@click.option("--keep-files", is_flag=True, help="Do not remove the arrays.")
@options.debug
def demo(**given: Any) -> None:
    r"""Resplit an example array, and compare this with the naive strategy.

    \b
    Example:
      dask-io demo --size 1GiB
    """
    from dask_io.cli.demo import run_demo  # noqa: PLC0415  # loaded on use

    run_demo(**given)


def _plan_with_data(src: str, given: dict[str, Any]) -> Job | SeriesJob:
    from dask_io import api  # noqa: PLC0415  # loaded on use

    names = {"shape": "--shape", "from_": "--from", "to": "--to"}
    extra = [option for name, option in names.items() if given[name] is not None]
    if extra:
        raise click.UsageError(f"{', '.join(extra)} describe an array without data, not SRC")
    if given["chunks"] is None:
        raise click.UsageError("missing option '--chunks' for the blocks of the target")
    chunks = options.parse_chunks(given["chunks"])
    source = options.open_source(src, given)
    return api.plan(source, chunks=chunks, **options.select(given))


def _plan_without_data(given: dict[str, Any]) -> tuple[AnyPlan, Device]:
    from dask_io import api  # noqa: PLC0415  # loaded on use

    needed = {"--shape": "shape", "--dtype": "dtype", "--from": "from_", "--to": "to"}
    missing = [option for option, name in needed.items() if given[name] is None]
    if missing:
        raise click.UsageError(f"give SRC, or describe an array: missing {', '.join(missing)}")
    for_data = {"chunks", "region", "casting", "format", "codec"}
    useless = [name for name in given if name.startswith("source_") or name in for_data]
    extra = [f"--{name.replace('_', '-')}" for name in useless if given[name] is not None]
    if extra:
        raise click.UsageError(f"{', '.join(extra)} need SRC; without data use --from and --to")
    return api.plan_without_data(
        options.parse_shape(given["shape"], "--shape"),
        given["dtype"],
        options.parse_chunks(given["from_"]),
        options.parse_chunks(given["to"]),
        **options.select(given),
    )


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
            return
        _, result = _run_job(job, label=request.verb, verify=given["verify"], quiet=quiet)
        sharing.show_shared_result(job, result, dst, as_json=as_json, quiet=quiet)


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
        if job.inferred_axes and not quiet and not as_json:
            say(f"dask-io: {_explain_axes(job)}")
        if isinstance(job, (OnePart, ProcessJob)):
            sharing.show_shared_plan(job, dst, as_json=as_json)
        else:
            _show_plan(job.plan, job.device, as_json=as_json, inferred=job.inferred)
        return
    finished = _run_job(job, label=label, verify=given["verify"], quiet=quiet)
    if isinstance(job, (OnePart, ProcessJob)):
        sharing.show_shared_result(job, finished[1], dst, as_json=as_json, quiet=quiet)
    else:
        _show_results([finished], dst, as_json=as_json, quiet=quiet)


def _show_parts(
    plan: AnyPlan | Series,
    device: Device,
    count: int,
    given: dict[str, Any],
    *,
    as_json: bool,
    inferred: str,
) -> None:
    from dask_io import api  # noqa: PLC0415  # loaded on use

    cut = api.cut_plan(plan, device, count, given["strategy"], given["objective"])
    # Without data there is nothing to submit.
    command = sharing.command_line("resplit", "DST") if given.get("chunks") else None
    sharing.show_parts(
        plan,
        cut,
        device,
        as_json=as_json,
        inferred=inferred,
        command=command,
        target="DST",
        threads=given["workers"] or api.default_threads(),
    )


def _run_job(job: AnyJob, *, label: str, verify: bool, quiet: bool) -> tuple[AnyJob, RunResult]:
    """Print what was inferred for a job, run it, and return it with its result."""
    from dask_io.report.progress import ProgressLine  # noqa: PLC0415  # loaded on use

    then = "verifying" if verify else ""
    if quiet:
        warnings.simplefilter("ignore", DaskIOWarning)
    else:
        _say_first(job)
    with ProgressLine(sys.stderr, label=label, then=then, quiet=quiet) as progress:
        return job, job.run(verify=verify, on_progress=progress.update)


def _say_first(job: AnyJob) -> None:
    """Print what was inferred from file names, and which blocks are visited more than once."""
    from dask_io.planning import explain_visits  # noqa: PLC0415  # loaded on use

    if job.inferred:
        say(f"dask-io: file names are taken as {one_line(job.inferred)}")
    if job.inferred_axes:
        say(f"dask-io: {_explain_axes(job)}")
    if job.plan is not None and (visits := explain_visits(job.plan)):
        say(f"dask-io: {visits}")


def _explain_axes(job: AnyJob) -> str:
    return f"axes are taken as {one_line(job.inferred_axes)}; give other names with --axes"


def _show_results(
    finished: Sequence[tuple[AnyJob, RunResult]], dst: str, *, as_json: bool, quiet: bool
) -> None:
    """Print the results of jobs: one line for each of several, or one JSON object for all."""
    from dask_io.report import jsonable, text  # noqa: PLC0415  # loaded on use

    if as_json:
        found = [
            jsonable.run_to_json(job.plan, result, job.device, inferred=job.inferred)
            for job, result in finished
        ]
        show_json(found[0] if len(found) == 1 else {"targets": found})
    elif not quiet:
        complete = "is complete"
        is_only = len(finished) == 1
        if all(job.plan is None for job, _ in finished):
            complete += "; there is nothing left to do (dask-io verify looks for damage)"
        for job, result in finished:
            what = complete
            if job.plan is not None:
                what = text.run_text(job.plan, result) if is_only else text.done_text(result)
            show(f"{one_line(dst if is_only else _place_of(job, dst))}: {what}")


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
    plan: AnyPlan | Sweeps | Series, device: Device, *, as_json: bool, inferred: str
) -> None:
    from dask_io.report.jsonable import any_plan_to_json  # noqa: PLC0415  # loaded on use
    from dask_io.report.text import plan_text  # noqa: PLC0415  # loaded on use

    if as_json:
        show_json({**any_plan_to_json(plan, device), "inferred": inferred or None})
    else:
        show(plan_text(plan, device, inferred=inferred))


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

    def explained(one: AnyPlan) -> Explanation:
        objective = parse_objective(given["objective"])
        return explain(one, device=device, objective=objective, requested=given["strategy"])

    if isinstance(plan, Series):
        arrays = {name: explained(each) for name, each in plan.plans.items()}
        if as_json:
            series = jsonable.explained_series_to_json(plan, arrays, device)
            show_json({**series, "inferred": inferred or None})
        else:
            show(text.explained_series_text(plan, arrays, device))
    elif as_json:
        show_json({**jsonable.explained_to_json(explained(plan)), "inferred": inferred or None})
    else:
        show(text.explained_text(explained(plan), inferred=inferred))


for _command in commands.commands.values():
    # Click does not rewrap the lines after a backspace. A raw docstring has only its escape.
    _command.help = (_command.help or "").replace("\\b\n", "\b\n")
