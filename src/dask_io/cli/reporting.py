"""The option for a report, and writing it after a plan or a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dask_io.cli.group import one_line, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dask_io.engine.run import Progress, RunResult
    from dask_io.planning import AnyPlan, Device, Series, Sweeps

_RECORDER = "dask_io.recorder"


def _check(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    """Check the path before anything is planned or run."""
    if path is not None:
        from dask_io.report.page import check_report  # noqa: PLC0415  # only when it is used

        check_report(path)
    return path


option = click.option(
    "--report",
    metavar="FILE.html",
    callback=_check,
    help="Write a page that shows the plan and the run; open it in a browser. It may replace an "
    "earlier report, but no other file.",
)


def recording(
    update: Callable[[Progress], None] | None,
) -> Callable[[Progress], None] | None:
    """Return a progress callback that also records, if the current command writes a report."""
    ctx = click.get_current_context()
    if ctx.params.get("report") is None:
        return update
    from dask_io.report.recorder import Recorder  # noqa: PLC0415  # only when it is used

    # A target that is already complete records nothing, and must not replace what was recorded.
    recorder: Recorder = ctx.meta.setdefault(_RECORDER, Recorder())
    if update is None:
        return recorder.update

    def both(progress: Progress) -> None:
        recorder.update(progress)
        update(progress)

    return both


def write_report(
    plan: AnyPlan | Sweeps | Series,
    device: Device,
    *,
    source: str | None = None,
    target: str | None = None,
    result: RunResult | None = None,
    records: bool = True,
    axes: Mapping[str, Sequence[str | None]] | None = None,
) -> None:
    """Write the report of the current command, if it was asked for.

    `source` and `target` are their names, unless the command has them as arguments. Without
    `records`, what was recorded is not shown. `axes` are the names of the axes of each array.
    """
    ctx = click.get_current_context()
    given: dict[str, Any] = ctx.params
    path = given.get("report")
    if path is None:
        return
    from dask_io.planning import parse_objective  # noqa: PLC0415  # only when it is used
    from dask_io.report import page  # noqa: PLC0415  # only when it is used

    recorder = ctx.meta.get(_RECORDER) if records else None
    report = page.make_report(
        plan,
        device,
        source=given.get("src") or source or "an array without data",
        target=given.get("dst") or target,
        requested=given.get("strategy") or "auto",
        objective=parse_objective(given.get("objective")),
        result=result,
        samples=() if recorder is None else recorder.samples,
        axes=axes or {},
    )
    page.write_report(report, path)
    if not given.get("quiet"):
        say(f"dask-io: report: {one_line(path)}")


def write_run_report(finished: Sequence[tuple[Any, RunResult]]) -> None:
    """Write the report of a command that ran one or several jobs."""
    ran = [(job, result) for job, result in finished if job.plan is not None]
    if not ran:
        if click.get_current_context().params.get("report") is not None:
            say("dask-io: no report is written, because nothing was left to do")
        return
    (job, result), *others = ran
    source = getattr(getattr(job, "source", None), "place", None)
    if not others:
        axes = getattr(job, "axes", None)
        write_report(job.plan, job.device, source=source, result=result, axes=axes)
        return
    from dask_io.planning import Series  # noqa: PLC0415  # only when it is used

    for _, other in others:
        result = result.followed_by(other)
    plans = {
        f"target {number}{f', {name}' if name else ''}": plan
        for number, (each, _) in enumerate(ran, 1)
        for name, plan in getattr(each.plan, "plans", {"": each.plan}).items()
    }
    # Each job counts its own progress, so the records do not form one curve.
    write_report(Series(plans), job.device, source=source, result=result, records=False)
