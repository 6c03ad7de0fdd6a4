"""Plans as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.planning.cost import naive_seeks
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.planning.copy import CopyPlan
    from dask_io.planning.plan import Plan
    from dask_io.planning.problem import Problem, Side
    from dask_io.planning.reads import ReadRun
    from dask_io.planning.slabs import Slabs
    from dask_io.planning.together import Sweeps

# The most runs of read cells shown for one axis.
_SHOWN = 4


def describe_plan(plan: Plan) -> str:
    """Describe a plan and its cost in about ten lines.

    Examples
    --------
    >>> from dask_io.planning import Problem, plan_naive
    >>> print(plan_naive(Problem.regular((10, 6), (4, 3), (5, 6), dtype="int16", budget=1000)))
    naive plan, axes swept 0, 1 (outermost first), held in blocks
      array     10 x 6 of int16, 120 B
      source    raw, 6 blocks of 4 x 3, C order
      target    raw, 2 blocks of 5 x 6, C order
      read      axis 0: 2 × 4 flush, 1 × 2 flush; axis 1: 2 × 3 flush
      steps     6
      seeks     6 read + 20 write = 26 (lower bound 8, naive 26)
      openings  14
      bytes     120 B read, 120 B written
      memory    24 B held + 0 B staging = 24 B of 1000 B
    """
    reads = "; ".join(f"axis {axis}: {_cells(runs)}" for axis, runs in enumerate(plan.reads))
    if plan.slabs is not None:
        reads += f"; {_slabs(plan.slabs)}"
    order = ", ".join(
        f"{axis} backwards" if axis in plan.backwards else f"{axis}" for axis in plan.order
    )
    head = f"{plan.strategy} plan, axes swept {order} (outermost first), held in {plan.hold}"
    if plan.streams:
        head += ", as a stream"
    return _listed(head, {**_what(plan.problem), "read": reads, **_costs(plan)})


def describe_copy(plan: CopyPlan) -> str:
    """Describe a plan that copies blocks verbatim."""
    head = "copy plan: blocks are copied verbatim, without decoding"
    return _listed(head, {**_what(plan.problem), **_costs(plan)})


def _listed(head: str, lines: Mapping[str, str]) -> str:
    return "\n".join([head, *(f"  {name:<9} {text}" for name, text in lines.items())])


def _what(problem: Problem) -> dict[str, str]:
    shape = " x ".join(map(str, problem.shape))
    return {
        "array": f"{shape} of {_types(problem)}, {format_bytes(problem.n_bytes)}",
        "source": _side(problem.source),
        "target": _side(problem.target),
    }


def _costs(plan: Plan | CopyPlan) -> dict[str, str]:
    problem = plan.problem
    excess = "" if plan.fits else ", which it exceeds"
    return {
        "steps": f"{plan.n_steps:,}",
        "seeks": f"{plan.seeks.read:,} read + {plan.seeks.write:,} write = {plan.seeks.total:,} "
        f"(lower bound {problem.lower_bound:,}, naive {naive_seeks(problem):,})",
        "openings": f"{plan.openings:,}",
        "bytes": f"{format_bytes(plan.n_bytes_read)} read{gaps_of(plan)}, "
        f"{format_bytes(plan.n_bytes_written)} written",
        "memory": f"{format_bytes(plan.held_bytes)} held + "
        f"{format_bytes(plan.staging_bytes)} staging = {format_bytes(plan.peak_bytes)} of "
        f"{format_bytes(problem.budget)}{excess}",
    }


def gaps_of(plan: Plan | CopyPlan | Sweeps) -> str:
    """Describe how many of the bytes read are gaps between needed runs."""
    n_bytes = plan.n_bytes_in_gaps
    return f" ({format_bytes(n_bytes)} of it gaps, read through)" if n_bytes else ""


def _types(problem: Problem) -> str:
    if problem.converted is None:
        return f"{problem.dtype}"
    return f"{problem.converted} converted to {problem.dtype}"


def _side(side: Side) -> str:
    n_blocks, kind = side.grid.n_blocks, "atomic block" if side.atomic else "block"
    blocks = f"{n_blocks:,} {kind}{'s' if n_blocks != 1 else ''} of {side.stored}"
    window = "" if side.window is None else f", of which {side.window}"
    forward = ", decoded forward without random access" if side.sequential else ""
    order = f"{side.layout.name} order"
    return f"{side.format}, {blocks}, {order}{forward}{window}{absent_of(side)}"


def absent_of(*sides: Side) -> str:
    """Describe how many blocks are not stored, so that the costs are upper bounds."""
    known = [side.absent for side in sides if side.absent is not None]
    if not any(known) and len(known) == len(sides):
        return ""
    n_absent = sum(known)
    some = f"{n_absent:,} {'is' if n_absent == 1 else 'are'} not"
    if len(known) < len(sides):
        some = "some may not be"
    return f"; {some} stored, so that costs are upper bounds"


def _slabs(slabs: Slabs) -> str:
    n_ranges = len(slabs.ranges)
    where = ", ".join(f"{start}:{stop}" for start, stop, _ in slabs.ranges[:_SHOWN])
    more = f" and {n_ranges - _SHOWN} more ranges" if n_ranges > _SHOWN else ""
    return f"axis {slabs.inner} differently at {where}{more} of axis {slabs.outer}"


def _cells(runs: Sequence[ReadRun]) -> str:
    shown = [f"{run.n_cells} × {run.length} {mark(run)}" for run in runs[:_SHOWN]]
    rest = len(runs) - _SHOWN
    return (
        ", ".join([*shown, f"{rest} more run{'s' if rest > 1 else ''}"] if rest > 0 else shown)
        or "nothing"
    )


def mark(run: ReadRun) -> str:
    """Return ``"keep"`` or ``"flush"`` for the ends of read cells."""
    return "keep" if run.keep else "flush"


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Align columns: the first and columns without a heading to the left, the others to the right.

    Examples
    --------
    >>> print(table([("", "seeks"), ("keep", "12"), ("naive", "3,456")]))
           seeks
    keep      12
    naive  3,456
    """
    n_columns = len(rows[0])
    is_note = [i > 0 and not rows[0][i] for i in range(n_columns)]
    widths = [max(len(row[i]) for row in rows) for i in range(n_columns)]
    lines = (
        "  ".join(
            cell.ljust(width) if i == 0 or note else cell.rjust(width)
            for i, (cell, width, note) in enumerate(zip(row, widths, is_note, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
