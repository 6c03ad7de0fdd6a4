"""A report on a plan or a run: one HTML page that needs nothing else, not even a network."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import StorageError, UsageError, printable
from dask_io.planning import Objective, Series, Sweeps, explain_visits, predict_seconds
from dask_io.python_errors import raises_for_python
from dask_io.report.explain import explain
from dask_io.report.jsonable import explained_to_json, result_to_json
from dask_io.report.scenes import memory_curve, plans_in, scenes_to_json
from dask_io.storage.files import write_whole
from dask_io.storage.os_errors import storage_errors
from dask_io.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from dask_io.engine.run import RunResult
    from dask_io.planning import AnyPlan, Device
    from dask_io.report.recorder import Sample

# The beginning of every report, by which a later run knows that it may replace the file.
_MARK = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="generator" content="dask-io report">'
)
# In the order in which the page runs them.
_SCRIPTS = ("head", "animation", "charts", "strategies", "controls")
_SUFFIXES = (".html",)
_NO_NAMES: Mapping[str, Sequence[str | None]] = MappingProxyType({})


@dataclass(frozen=True, repr=False)
class Report:
    """A page that shows a plan, and a run if there was one. Notebooks display it.

    Attributes
    ----------
    html
        The page. It loads nothing from a network.
    """

    html: str

    @raises_for_python
    def save(self, path: str | PathLike[str]) -> None:
        """Write the page into a file; an earlier report is replaced, but no other file.

        Raises
        ------
        UsageError
            If the path does not end in .html, or another file is there.
        StorageError
            If the folder does not exist, or the file cannot be written.
        """
        write_report(self, path)

    def __repr__(self) -> str:
        size = format_bytes(len(self.html.encode()))
        return f'<Report: {size}; save("plan.html") writes it>'

    def _repr_html_(self) -> str:
        # In a frame of its own, the page and the notebook cannot change each other's style.
        return (
            '<iframe title="Dask IO report" sandbox="allow-scripts" loading="lazy" '
            'style="width:100%;height:720px;border:1px solid #8888" '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )


def write_report(report: Report, path: str | PathLike[str]) -> None:
    """Write a report into a file; see `Report.save`."""
    write_whole(check_report(path), report.html.encode())


def check_report(path: str | PathLike[str]) -> Path:
    """Check that a report can be written, before a run that may take hours.

    Raises
    ------
    UsageError
        If the path does not end in .html, or a file is there that is not a report.
    StorageError
        If the folder does not exist or cannot be written.
    """
    place, name = Path(path), printable(os.fspath(path))
    if place.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"a report is an HTML page; let its name end in .html: {name}")
    with storage_errors(place):
        try:
            found = place.lstat()
        except FileNotFoundError:
            found = None
        if not place.parent.is_dir():
            folder = str(place.parent)
            raise StorageError(
                folder, "is not a folder", "create it, or write the report to another folder"
            )
        if not os.access(place.parent, os.W_OK):
            raise StorageError(
                str(place.parent), "cannot be written", "write the report to another folder"
            )
        if found is not None and not _is_report(place, found.st_mode):
            raise UsageError(f"{name} exists and is not a report of Dask IO; give another name")
    return place


def _is_report(place: Path, mode: int) -> bool:
    if not stat.S_ISREG(mode):
        return False
    with place.open("rb") as file:
        return file.read(len(_MARK)) == _MARK.encode()


def make_report(
    plan: AnyPlan | Sweeps | Series,
    device: Device,
    *,
    source: str,
    target: str | None = None,
    requested: str = "auto",
    objective: Objective = Objective.TIME,
    result: RunResult | None = None,
    samples: Sequence[Sample] = (),
    axes: Mapping[str, Sequence[str | None]] = _NO_NAMES,
) -> Report:
    """Return the report on a plan.

    Parameters
    ----------
    plan
        The plan.
    device
        The device for which time is predicted.
    source, target
        Names of the source and of the target, to show.
    requested, objective
        The strategy that was requested, and the objective of the choice.
    result, samples
        The result of the run and its recorded progress, if there was a run.
    axes
        Names of the axes of each array, or of a single array without a name.

    Examples
    --------
    >>> from dask_io.planning import DEVICES, Problem, plan_sweep
    >>> plan = plan_sweep(Problem.regular((12, 12), (4, 4), (6, 6), budget=65536))
    >>> make_report(plan, DEVICES["ssd"], source="<a>", target="b").html[:15]
    '<!DOCTYPE html>'
    """
    data: dict[str, Any] = {
        "version": version("dask-io"),
        "source": printable(source),
        "target": None if target is None else printable(target),
        **_plan_to_json(plan, device),
        **_choice_to_json(plan, device, requested, objective),
        **scenes_to_json(plan, axes),
        "run": result and {**result_to_json(result), "samples": samples},
    }
    title = f"{data['source']} to {data['target']}" if target is not None else data["source"]
    web = files("dask_io.report") / "web"
    page, style = ((web / f"page.{kind}").read_text("utf-8") for kind in ("html", "css"))
    script = "\n".join((web / f"{name}.js").read_text("utf-8") for name in _SCRIPTS)
    content = json.dumps(data, separators=(",", ":"))
    # Nothing in the data may end its element or begin another.
    for character in "<>&\u2028\u2029":
        content = content.replace(character, f"\\u{ord(character):04x}")
    parts = {"TITLE": escape(title), "STYLE": style, "SCRIPT": script, "DATA": content}
    head, *rest = page.split("{{")
    for each in rest:
        word, _, text = each.partition("}}")
        head += parts[word] + text
    return Report(_MARK + head)


def _plan_to_json(plan: AnyPlan | Sweeps | Series, device: Device) -> dict[str, Any]:
    plans = [each.plan for each in plans_in(plan)]
    curve = memory_curve(plan)
    budget = max((each.problem.budget for each in plans), default=0)
    bound = plan.lower_bound if isinstance(plan, Series | Sweeps) else plan.problem.lower_bound
    return {
        "strategy": plan.strategy,
        "dtype": str(plans[0].problem.dtype) if plans else "",
        "device": device.name,
        "seconds": format_seconds(predict_seconds(plan, device)),
        "steps": plan.n_steps,
        "seeks": {"read": plan.seeks.read, "write": plan.seeks.write, "lower_bound": bound},
        "bytes": {
            "read": plan.n_bytes_read,
            "written": plan.n_bytes_written,
            "scratch": getattr(plan, "scratch_bytes", 0),
        },
        "memory": {
            "budget": budget,
            "peak": plan.peak_bytes,
            "held": plan.held_bytes,
            "curve": [(round(part, 5), held) for part, held in curve],
            # Each step has two points, and the first point is the start.
            "sampled": 0 < len(curve) < 2 * plan.n_steps,
        },
        "visits": explain_visits(plan),
    }


def _choice_to_json(
    plan: AnyPlan | Sweeps | Series, device: Device, requested: str, objective: Objective
) -> dict[str, Any]:
    """Return the costs of all strategies, and the reason for the choice."""
    if isinstance(plan, Series | Sweeps):
        return {"candidates": [], "reason": "", "naive": getattr(plan, "naive_seeks", None)}
    explained = explained_to_json(
        explain(plan, device=device, objective=objective, requested=requested)
    )
    candidates = [
        {
            **each,
            "seconds": each["seconds"] and format_seconds(each["seconds"]),
            "memory": each["memory"] and format_bytes(each["memory"]),
        }
        for each in explained["candidates"]
    ]
    return {"candidates": candidates, "reason": explained["reason"], "naive": None}
