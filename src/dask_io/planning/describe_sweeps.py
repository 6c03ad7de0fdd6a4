"""Sweeps that write several targets, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask_io.planning.bundle import window_of
from dask_io.planning.describe import absent_of, gaps_of
from dask_io.planning.device import predict_seconds
from dask_io.planning.serial import plan_to_json
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from dask_io.planning.device import Device
    from dask_io.planning.together import Sweeps

# The most targets shown.
_SHOWN = 4


def describe_sweeps(sweeps: Sweeps) -> str:
    """Describe sweeps and their cost in about ten lines."""
    problems, bundle = sweeps.problems, sweeps.bundles[0]
    n_targets, n_sweeps = len(problems), len(sweeps.bundles)
    side = problems[0].source
    targets = [
        f"{window_of(problem.source)} to {target.format}, {target.grid.n_blocks:,} "
        f"block{'s' * (target.grid.n_blocks != 1)} of {target.grid}, {target.layout.name} order"
        for problem in problems[:_SHOWN]
        for target in (problem.target,)
    ]
    if n_targets > _SHOWN:
        targets.append(f"and {n_targets - _SHOWN:,} more")
    again = sweeps.n_bytes_read_again
    excess = "" if sweeps.fits else ", which it exceeds"
    lines = [
        (
            "source",
            (
                f"{side.format}, {side.stored.n_blocks:,} "
                f"block{'s' * (side.stored.n_blocks != 1)} of {side.stored}, "
                f"{side.layout.name} order, {problems[0].dtype}{absent_of(side)}"
            ),
        ),
        *(("target", text) for text in targets),
        (
            "sweeps",
            f"{n_sweeps:,}" + (f", {format_bytes(again)} are read more than once" * bool(again)),
        ),
        ("steps", f"{sweeps.n_steps:,}"),
        (
            "seeks",
            (
                f"{sweeps.seeks.read:,} read + {sweeps.seeks.write:,} write = "
                f"{sweeps.seeks.total:,} (lower bound {sweeps.lower_bound:,}, "
                f"naive {sweeps.naive_seeks:,})"
            ),
        ),
        ("openings", f"{sweeps.openings:,}"),
        (
            "bytes",
            (
                f"{format_bytes(sweeps.n_bytes_read)} read{gaps_of(sweeps)}, "
                f"{format_bytes(sweeps.n_bytes_written)} written"
            ),
        ),
        (
            "memory",
            (
                f"{format_bytes(sweeps.held_bytes)} held + {format_bytes(sweeps.staging_bytes)} "
                f"staging = {format_bytes(sweeps.peak_bytes)} of "
                f"{format_bytes(sweeps.budget)}{excess}"
            ),
        ),
    ]
    order = ", ".join(map(str, bundle.order))
    how = f", axes swept {order} (outermost first), held in {bundle.members[0].hold}"
    head = f"bundle plan for {n_targets:,} targets{how if n_sweeps == 1 else ''}"
    return "\n".join([head, *(f"  {name:<9} {text}" for name, text in lines)])


def sweeps_to_json(sweeps: Sweeps, device: Device | None = None) -> dict[str, Any]:
    """Return sweeps as the ``"plan"`` object of the command line; unknown values are None.

    In addition to the keys of a plan there are ``"targets"``, each with its ``"window"`` of the
    source, and ``"sweeps"``, each with a list of plans, one for each target that it writes.
    """
    bundles, problems = sweeps.bundles, sweeps.problems
    members = [[plan_to_json(member) for member in bundle.members] for bundle in bundles]
    by_number = {
        number: member
        for group, plans in zip(sweeps.groups, members, strict=True)
        for number, member in zip(group, plans, strict=True)
    }
    first, stored = by_number[0], problems[0].source.stored
    orders = {bundle.order for bundle in bundles}
    holds = {bundle.members[0].hold for bundle in bundles}
    return {
        **first,
        "shape": list(stored.shape),
        "strategy": sweeps.strategy,
        "order": first["order"] if len(orders) == 1 else None,
        "hold": first["hold"] if len(holds) == 1 else None,
        "source": {
            **first["source"],
            "chunks": [axis.chunk for axis in stored.axes],
            "blocks": stored.n_blocks,
            "window": None,
        },
        "target": None,
        "targets": [
            {**by_number[n]["target"], "window": by_number[n]["source"]["window"]}
            for n in range(len(problems))
        ],
        "axes": None,
        "read_chunks": [
            max(bundle.ends[axis].longest for bundle in bundles)
            for axis in range(len(stored.shape))
        ],
        "steps": sweeps.n_steps,
        "seeks": {
            "read": sweeps.seeks.read,
            "write": sweeps.seeks.write,
            "total": sweeps.seeks.total,
            "lower_bound": sweeps.lower_bound,
            "naive": sweeps.naive_seeks,
        },
        "openings": sweeps.openings,
        "bytes": {
            "read": sweeps.n_bytes_read,
            "read_again": sweeps.n_bytes_read_again,
            "written": sweeps.n_bytes_written,
            "scratch": 0,
        },
        "decodes": None,
        "seconds": device and predict_seconds(sweeps, device),
        "device": device and device.name,
        "memory": {
            **first["memory"],
            "budget": sweeps.budget,
            "peak": sweeps.peak_bytes,
            "held": sweeps.held_bytes,
            "staging": sweeps.staging_bytes,
            "for_lower_bound": sweeps.memory_for_lower_bound,
        },
        "sweeps": [
            {"targets": list(group), "members": plans}
            for group, plans in zip(sweeps.groups, members, strict=True)
        ],
    }
