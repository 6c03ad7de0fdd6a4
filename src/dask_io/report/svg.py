"""Draw a plan: the source's blocks, the cells that are read, and the target's blocks.

The drawing shows the two outermost axes that are cut. The number of lines is limited, however many
blocks there are.
"""

from __future__ import annotations

from bisect import bisect_right
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from dask_io.planning import CopyPlan, SpillPlan
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dask_io.geometry import Axis
    from dask_io.planning import AnyPlan, AxisPlan, Plan

_SIDE, _SMALLEST_SIDE = 200, 40
_LEFT, _TOP, _GAP, _BELOW = 24, 44, 36, 78
_MOST_LINES = 64

_INK, _SOURCE, _TARGET = "#444", "#3b6ea5", "#8a5a9e"
_KEEP, _FLUSH = "#2a8a4a", "#d1495b"


class _Line(NamedTuple):
    """A boundary to draw: its position, colour and extent. Positions run from 0 to 1."""

    at: float
    colour: str
    start: float = 0.0
    stop: float = 1.0


class _Panel(NamedTuple):
    """One panel of the drawing: its captions, and its lines along both axes."""

    title: str
    caption: str
    down: list[_Line]
    across: list[_Line]


def job_svg(plan: AnyPlan) -> str:
    """Draw a plan, or every pass of a plan with several passes."""
    match plan:
        case SpillPlan():
            return "".join(map(plan_svg, plan.passes))
        case CopyPlan():
            return plan_svg(plan.moves, costs=plan)
        case _:
            return plan_svg(plan)


def plan_svg(plan: Plan, *, costs: Plan | CopyPlan | None = None) -> str:
    """Draw a plan, with its own costs unless others are given.

    The left and right panels show the blocks of the source and of the target. The middle panel
    shows the cells that are read one after another. Incomplete target blocks stay in memory at a
    green end, and are written in part at a red end.

    Examples
    --------
    >>> from dask_io.planning import Problem, plan_keep
    >>> problem = Problem.regular((12, 12), (4, 4), (3, 6), budget=100)
    >>> plan_svg(plan_keep(problem))[:4]
    '<svg'
    """
    costs = costs or plan
    rows, columns = _shown_axes(plan)
    height, width = _sides(plan, rows, columns)
    panels = _panels(plan, rows, columns)
    across, down = _LEFT * 2 + 3 * _SIDE + 2 * _GAP, _TOP + height + _BELOW
    size = f'width="{across}" height="{down}" viewBox="0 0 {across} {down}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif">',
        f"<title>{escape(f'{plan.strategy} plan: {costs.seeks.total:,} seeks')}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, panel in enumerate(panels):
        parts += _draw_panel(panel, _LEFT + number * (_SIDE + _GAP), width, height)
    parts += _legend(plan, rows, columns, _TOP + height)
    parts.append(_text(_LEFT, _TOP + height + 56, _costs(costs)))
    return "\n".join([*parts, "</svg>"])


def _shown_axes(plan: Plan) -> tuple[int | None, int | None]:
    """Return the axes to draw downwards and across; axes that are cut are preferred."""

    def is_cut(axis: int) -> bool:
        problem = plan.problem
        grids = (problem.source.grid.axes[axis], problem.target.grid.axes[axis])
        return any(one.n_blocks > 1 for one in (*grids, plan.axes[axis].ends))

    cut = [axis for axis in plan.order if is_cut(axis)]
    whole = [axis for axis in plan.order if not is_cut(axis)]
    chosen = set((cut + whole)[:2])
    shown = [axis for axis in plan.order if axis in chosen]
    return (shown[0], shown[1]) if len(shown) > 1 else (None, shown[0] if shown else None)


def _sides(plan: Plan, rows: int | None, columns: int | None) -> tuple[int, int]:
    """Return height and width of a panel, in proportion to the array but never too thin to see."""
    lengths = [1 if axis is None else max(1, plan.problem.shape[axis]) for axis in (rows, columns)]
    if rows is None:
        return _SMALLEST_SIDE, _SIDE
    longest = max(lengths)
    height, width = (max(_SMALLEST_SIDE, _SIDE * length // longest) for length in lengths)
    return height, width


def _panels(plan: Plan, rows: int | None, columns: int | None) -> list[_Panel]:
    source, target = plan.problem.source, plan.problem.target

    def grid_lines(axes: tuple[Axis, ...], axis: int | None, colour: str) -> list[_Line]:
        return [] if axis is None else list(_boundaries(axes[axis], colour))

    blocks = [
        _Panel(
            f"{name}: {side.format}",
            f"{side.grid.n_blocks:,} blocks of {_by(side.grid.longest)}",
            grid_lines(side.grid.axes, rows, colour),
            grid_lines(side.grid.axes, columns, colour),
        )
        for name, side, colour in (("source", source, _SOURCE), ("target", target, _TARGET))
    ]
    read = _Panel(
        f"reads: {plan.strategy}",
        f"{plan.n_steps:,} steps of up to {_by(plan.longest_reads)}",
        [] if rows is None else list(_ends(plan, rows, columns)),
        [] if columns is None else list(_ends(plan, columns, rows)),
    )
    return [blocks[0], read, blocks[1]]


def _sampled(n_blocks: int) -> range:
    """Return the numbers of the inner boundaries to draw."""
    return range(1, n_blocks, max(1, -(-n_blocks // _MOST_LINES)))


def _boundaries(axis: Axis, colour: str) -> Iterator[_Line]:
    for index in _sampled(axis.n_blocks):
        yield _Line(axis.start_of(index) / axis.length, colour)


def _ends(plan: Plan, axis: int, across: int | None) -> Iterator[_Line]:
    """Yield the ends of read cells, in the colour of their mark, as far as they go across."""
    slabs = plan.slabs
    are_shown = slabs is not None and (slabs.inner, slabs.outer) == (axis, across)
    if slabs is None or not are_shown or len(slabs.ranges) > _MOST_LINES:
        yield from _ends_along(plan.axes[axis])
        return
    length = plan.problem.shape[slabs.outer]
    for part in plan.uniform_slabs:
        for start, stop in part.ranges:
            for line in _ends_along(part.axes[axis]):
                yield line._replace(start=start / length, stop=stop / length)


def _ends_along(axis: AxisPlan) -> Iterator[_Line]:
    counts = list(accumulate(run.n_cells for run in axis.reads))
    for index in _sampled(axis.ends.n_blocks):
        # A boundary has the mark of the cell that is read before it.
        keep = axis.reads[bisect_right(counts, index if axis.backwards else index - 1)].keep
        at = axis.ends.start_of(index) / axis.ends.length
        yield _Line(at, _KEEP if keep else _FLUSH)


def _draw_panel(panel: _Panel, left: int, width: int, height: int) -> Iterator[str]:
    yield _text(left, _TOP - 24, panel.title, weight="bold")
    yield _text(left, _TOP - 9, panel.caption, size=9)
    for at, colour, start, stop in panel.down:
        x, y = left + start * width, _TOP + at * height
        yield _path(f"M{x:.1f} {y:.1f}h{(stop - start) * width:.1f}", colour)
    for at, colour, start, stop in panel.across:
        x, y = left + at * width, _TOP + start * height
        yield _path(f"M{x:.1f} {y:.1f}v{(stop - start) * height:.1f}", colour)
    yield (
        f'<rect x="{left}" y="{_TOP}" width="{width}" height="{height}" fill="none" '
        f'stroke="{_INK}"/>'
    )


def _legend(plan: Plan, rows: int | None, columns: int | None, top: int) -> Iterator[str]:
    where = [
        f"axis {axis} ({plan.problem.shape[axis]:,}) {direction}"
        for axis, direction in ((rows, "downwards"), (columns, "across"))
        if axis is not None
    ]
    is_sampled = _most_lines(plan, (rows, columns)) > _MOST_LINES
    note = "; not every boundary is drawn" if is_sampled else ""
    yield _text(_LEFT, top + 18, f"{', '.join(where)}{note}", size=10)
    yield _path(f"M{_LEFT} {top + 32}h16", _KEEP)
    yield _text(_LEFT + 22, top + 36, "kept: incomplete blocks stay in memory", size=10)
    yield _path(f"M{_LEFT + 240} {top + 32}h16", _FLUSH)
    yield _text(_LEFT + 262, top + 36, "flushed: incomplete blocks are written", size=10)


def _costs(plan: Plan | CopyPlan) -> str:
    return (
        f"{plan.seeks.total:,} seeks (at least {plan.problem.lower_bound:,}), peak memory "
        f"{format_bytes(plan.peak_bytes)} of {format_bytes(plan.problem.budget)}, "
        f"{_shortened(str(plan.problem.dtype))}"
    )


def _most_lines(plan: Plan, axes: Iterable[int | None]) -> int:
    source, target = plan.problem.source.grid.axes, plan.problem.target.grid.axes
    return max(
        (
            one.n_blocks
            for axis in axes
            if axis is not None
            for one in (source[axis], target[axis], plan.axes[axis].ends)
        ),
        default=0,
    )


def _path(line: str, colour: str) -> str:
    return f'<path d="{line}" stroke="{colour}" stroke-width="1.2"/>'


def _text(x: int, y: int, text: str, *, size: int = 11, weight: str = "normal") -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{_INK}">'
        f"{escape(text)}</text>"
    )


def _shortened(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _by(lengths: Iterable[int]) -> str:
    return " x ".join(map(str, lengths))
