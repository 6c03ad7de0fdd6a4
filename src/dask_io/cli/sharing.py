"""Options and output of runs that several processes share."""

from __future__ import annotations

from shlex import join, quote
from typing import TYPE_CHECKING, Any

import click

from dask_io.cli.group import one_line, show, show_json
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from dask_io.api import RunResult
    from dask_io.cluster.distributed import ClusterJob
    from dask_io.cluster.processes import ProcessJob
    from dask_io.cluster.series import PartedSeries
    from dask_io.cluster.sharing import OnePart
    from dask_io.planning import AnyPlan, Cut, Device, Series

# Options of a command that are not part of the command that writes a part.
_DROPPED = frozenset(
    {
        "part",
        "parts",
        "processes",
        "dry_run",
        "as_json",
        "explain",
        "verify",
        "report",
        "progress",
        "verbose",
    }
)


def is_shared(given: dict[str, Any]) -> bool:
    """Tell whether several processes share a run."""
    return given.get("part") is not None or given.get("processes") is not None


def shared_options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that tell how processes share a run."""
    if given["part"] is not None and given["verify"]:
        raise click.UsageError(
            "one part cannot be verified before the target is complete; use dask-io finish --verify"
        )
    return {
        "part": given["part"],
        "processes": given["processes"],
        "command": command_line() if given["part"] is not None else None,
    }


def command_line(verb: str | None = None, target: str | None = None) -> str:
    """Return the current command, without the options for parts, as a shell command.

    Parameters
    ----------
    verb
        Another verb, by default the current one.
    target
        The target, if the current command has none.
    """
    ctx = click.get_current_context()
    words, optional = [], []
    for param in ctx.command.params:
        name = param.name or ""
        source, value = ctx.get_parameter_source(name), ctx.params.get(name)
        if isinstance(param, click.Argument):
            words += [] if value is None else [str(value)]
        elif source is click.core.ParameterSource.COMMANDLINE and name not in _DROPPED:
            for each in value or () if param.multiple else (value,):
                optional += [param.opts[0]] if each is True else [param.opts[0], str(each)]
    words += [] if target is None else [target]
    return join(["dask-io", verb or str(ctx.command.name), *words, *optional])


def show_parts(
    plan: AnyPlan | Series, cut: Cut, device: Device, *, as_json: bool, inferred: str, **more: Any
) -> None:
    """Print a plan, its parts, and a script that submits them."""
    from dask_io.report.jsonable import any_plan_to_json  # noqa: PLC0415  # loaded on use
    from dask_io.report.parts import (  # noqa: PLC0415  # loaded on use
        parts_text,
        parts_to_json,
        slurm_script,
    )
    from dask_io.report.summary import plan_summary  # noqa: PLC0415  # loaded on use

    command, target, processes = more["command"], more["target"], more.get("processes")
    whole: Any = plan
    script = None
    if command is not None and cut.count:
        script = slurm_script(
            cut, command, quote(target), memory=whole.problem.budget, threads=more["threads"]
        )
    if as_json:
        parts = parts_to_json(cut, whole, script=script)
        show_json({**any_plan_to_json(plan, device), "inferred": inferred or None, "parts": parts})
        return
    n_shares = more.get("n_shares", 1)
    show(f"As one process with {format_bytes(whole.problem.budget)} of memory:\n")
    show(plan_summary(plan, device, inferred=inferred, n_shares=n_shares))
    show("\nIn parts:\n")
    show(parts_text(cut, whole, processes=processes, requested=more.get("requested")))
    if script is not None:
        show(f"\nTo run them on SLURM, execute this script:\n\n{script}")


def show_shared_plan(job: OnePart | ProcessJob | ClusterJob, dst: str, *, as_json: bool) -> None:
    """Print the plan of a run that several processes share."""
    from dask_io.cluster.series import PartedSeries  # noqa: PLC0415  # loaded on use
    from dask_io.cluster.sharing import OnePart  # noqa: PLC0415  # loaded on use

    parted = job.parted
    if isinstance(parted, PartedSeries):
        _show_parts_of_arrays(parted, n_shares=job.n_shares, as_json=as_json)
        return
    show_parts(
        parted.plan,
        parted.cut,
        parted.device,
        as_json=as_json,
        inferred=job.inferred,
        command=parted.command,
        target=dst,
        threads=parted.threads,
        processes=getattr(job, "processes", None),
        n_shares=job.n_shares,
        requested=job.part.count if isinstance(job, OnePart) else None,
    )


def _show_parts_of_arrays(parted: PartedSeries, *, n_shares: int, as_json: bool) -> None:
    """Print the plan of a group, and the parts of its large arrays."""
    from dask_io.report.jsonable import any_plan_to_json  # noqa: PLC0415  # loaded on use
    from dask_io.report.parts import (  # noqa: PLC0415  # loaded on use
        parts_of_arrays_text,
        parts_of_arrays_to_json,
    )
    from dask_io.report.summary import plan_summary  # noqa: PLC0415  # loaded on use

    plan, device, inferred = parted.whole.plan, parted.whole.device, parted.whole.inferred
    if as_json:
        parts = parts_of_arrays_to_json(parted.cuts, plan)
        show_json({**any_plan_to_json(plan, device), "inferred": inferred or None, "parts": parts})
        return
    show(f"As one process with {format_bytes(parted.memory)} of memory:\n")
    show(plan_summary(plan, device, inferred=inferred, n_shares=n_shares))
    show("\nIn parts:\n")
    show(parts_of_arrays_text(parted.cuts, plan))


def show_shared_result(
    job: OnePart | ProcessJob | ClusterJob,
    result: RunResult,
    dst: str,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Print the result of a run that several processes share."""
    from dask_io.cluster.series import PartedSeries  # noqa: PLC0415  # loaded on use
    from dask_io.cluster.sharing import OnePart  # noqa: PLC0415  # loaded on use
    from dask_io.report import jsonable  # noqa: PLC0415  # loaded on use
    from dask_io.report.parts import (  # noqa: PLC0415  # loaded on use
        parts_of_arrays_to_json,
        parts_to_json,
    )

    if isinstance(job, OnePart):
        found: dict[str, Any] = {"part": job.part.number, "count": job.part.count}
        done = result.describe()
        if not result.blocks_written + result.blocks_skipped:
            done = "empty, because the target has fewer blocks or cannot be divided so"
        what = f"{job.part}: {done}; when all parts are done, run: dask-io finish"
        what = f"{what} {one_line(quote(dst))}"
        if not result.blocks_written and job.is_complete:
            what = f"{job.part}: the target is already complete; nothing is replaced"
    else:
        parted = job.parted
        if isinstance(parted, PartedSeries):
            found = parts_of_arrays_to_json(parted.cuts, parted.whole.plan)
        else:
            found = parts_to_json(parted.cut, parted.job.plan)
        found["processes"] = job.processes
        what = f"{result.describe()}; {len(parted.parts)} parts, {job.processes} processes"
    if as_json:
        run = jsonable.run_to_json(job.plan, result, job.device, inferred=job.inferred)
        show_json({**run, "parts": found})
    elif not quiet:
        show(f"{one_line(dst)}: {what}")
