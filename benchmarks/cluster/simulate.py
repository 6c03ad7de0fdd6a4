"""Simulate runs on 10 to 10,000 workers, from the plan alone: nothing is read or written.

Cubes of float32 in chunks of 256³ become chunks of 320³, compressed or not, on a device with the
figures of a network filesystem. Every worker has the full bandwidth of the device, so the times
show what the division into parts costs, not what a shared filesystem costs.

    python -m benchmarks.cluster.simulate --svg docs/explanation/cluster.svg
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from html import escape
from itertools import product
from math import ceil, log10
from pathlib import Path

import numpy as np

from dask_io.engine.problem import make_problem
from dask_io.geometry import Grid, Layout, Region
from dask_io.planning import (
    DEVICES,
    AnyPlan,
    Device,
    Problem,
    Side,
    choose_counts,
    plan_cut,
    plan_with,
    predict_seconds,
    read_through,
)
from dask_io.planning.cut import cut_problem
from dask_io.units import format_bytes

WORKERS = (10, 100, 1_000, 10_000)
POWERS = (30, 40, 50)
_ITEM = np.dtype("f4")
_BEFORE, _AFTER, _MEMORY, _THREADS = 256, 320, 4 * 2**30, 4
# As in `dask_io.cluster.dispatch`: events per second of all workers, and of one worker.
_MOST_EVENTS, _MOST_OF_ONE = 100, 2
_COLUMNS = (
    *("array", "blocks", "workers", "parts", "balance", "read again", "seeks", "events/s"),
    *("time", "efficiency"),
)
_COLOURS = ("#3b6ea5", "#2a8a4a", "#d1495b", "#8a5a9e")
_WIDTH, _HEIGHT, _MARGIN = 300, 200, 50


@dataclass(frozen=True)
class Simulated:
    """A run that was only planned."""

    n_bytes: int
    compressed: bool
    workers: int
    parts: int
    balance: float
    redundant: float
    """Bytes that are read more than once, as a fraction of the array."""
    seeks: float
    """Seeks of all parts, as a multiple of those of one process."""
    seconds: float
    efficiency: float
    """Time of one process, divided by the time of all workers and their number."""

    @property
    def events(self) -> float:
        """Events that the scheduler handles per second, at most."""
        running = min(self.parts, self.workers)
        # Each part is submitted, starts, ends and returns a result.
        return min(_MOST_EVENTS, _MOST_OF_ONE * running) + 4 * self.parts / max(self.seconds, 1)


def simulate(
    n_bytes: int, workers: int, memory: int = _MEMORY, *, compressed: bool = True
) -> Simulated:
    """Plan the run of an array on a number of workers.

    Parts of blocks that are not compressed can be read by themselves.
    """
    side = round((n_bytes / _ITEM.itemsize) ** (1 / 3))
    shape, layout, device = (side,) * 3, Layout.c(3), DEVICES["nfs"]
    source, target = (
        Side(Grid.regular(shape, (each,) * 3), layout, atomic=compressed)
        for each in (_BEFORE, _AFTER)
    )
    problem = make_problem(source, target, _ITEM, memory=memory, workers=_THREADS)
    whole = _plan(problem, device)

    def plan(region: Region) -> AnyPlan:
        return _plan(cut_problem(problem, region), device)

    alone = predict_seconds(whole, device)
    counts = choose_counts(alone, problem.target.grid.n_blocks, workers)
    cut = plan_cut(problem, counts, device, plan, workers=workers)
    seconds = cut.predict_seconds(workers)
    return Simulated(
        n_bytes,
        compressed,
        workers,
        cut.count,
        cut.balance,
        max(0.0, cut.n_bytes_read / whole.n_bytes_read - 1),
        (cut.seeks.read + cut.seeks.write) / whole.seeks.total,
        seconds,
        alone / seconds / workers,
    )


def _plan(problem: Problem, device: Device) -> AnyPlan:
    return read_through(plan_with("auto", problem, device=device, scratch=0), device)


def table(rows: list[Simulated]) -> str:
    """Return the results as a table."""
    lines = [
        f"| {' | '.join(_COLUMNS)} |",
        f"|{'---|' * len(_COLUMNS)}",
    ]
    lines += [
        f"| {_size(row)} | {'compressed' if row.compressed else 'plain'} | {row.workers:,} "
        f"| {row.parts:,} "
        f"| {row.balance:.2f} | {row.redundant:.0%} | {row.seeks:.2f} | {row.events:,.0f} "
        f"| {_duration(row.seconds)} | {row.efficiency:.0%} |"
        for row in rows
    ]
    return "\n".join(lines)


def _size(row: Simulated) -> str:
    return format_bytes(row.n_bytes).replace(".00", "")


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def draw(rows: list[Simulated]) -> str:
    """Draw data that is read twice, and efficiency, by the number of workers.

    Lines are solid for compressed blocks, and dashed for others.
    """
    panels = [
        _panel(rows, "data read again", [row.redundant for row in rows], 0),
        _panel(rows, "efficiency", [row.efficiency for row in rows], 1),
    ]
    sizes = {row.n_bytes: _size(row) for row in rows}
    texts = [
        *zip(sizes.values(), _COLOURS, strict=False),
        ("solid: compressed, dashed: plain", "#444"),
    ]
    keys = [
        f'<text x="{_MARGIN + 110 * n}" y="{_HEIGHT + 75}" fill="{colour}">{escape(text)}</text>'
        for n, (text, colour) in enumerate(texts)
    ]
    width, height = 2 * (_WIDTH + _MARGIN) + _MARGIN, _HEIGHT + 90
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" '
        f'fill="#444">{"".join(panels)}{"".join(keys)}</svg>\n'
    )


def _panel(rows: list[Simulated], title: str, values: list[float], number: int) -> str:
    highest = max(1.0, *map(ceil, values))
    left, top = _MARGIN + number * (_WIDTH + _MARGIN), 30
    first, last = (log10(each) for each in (rows[0].workers, rows[-1].workers))

    def x(workers: int) -> float:
        return left + _WIDTH * (log10(workers) - first) / max(last - first, 1e-9)

    def y(fraction: float) -> float:
        return top + _HEIGHT * (1 - fraction / highest)

    parts = [
        f'<text x="{left}" y="{top - 12}">{escape(title)}</text>',
        f'<path d="M{left} {top}V{top + _HEIGHT}H{left + _WIDTH}" fill="none" stroke="#444"/>',
    ]
    parts += [
        f'<text x="{left - 6}" y="{y(each) + 4:.1f}" text-anchor="end">{each:.0%}</text>'
        for each in (0.0, highest / 2, highest)
    ]
    parts += [
        f'<text x="{x(each):.1f}" y="{top + _HEIGHT + 18}" text-anchor="middle">{each:,}</text>'
        for each in sorted({row.workers for row in rows})
    ]
    sizes = sorted({row.n_bytes for row in rows})
    for (size, colour), compressed in product(zip(sizes, _COLOURS, strict=False), (True, False)):
        points = " ".join(
            f"{x(row.workers):.1f},{y(value):.1f}"
            for row, value in zip(rows, values, strict=True)
            if (row.n_bytes, row.compressed) == (size, compressed)
        )
        dashes = "" if compressed else ' stroke-dasharray="5 3"'
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
        )
    return "".join(parts)


def main() -> None:
    """Parse the arguments, simulate, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster.simulate", description=__doc__
    )
    add = parser.add_argument
    add("--workers", default=",".join(map(str, WORKERS)), help="numbers of workers")
    add("--powers", default=",".join(map(str, POWERS)), help="sizes of arrays, as powers of two")
    add("--svg", type=Path, help="file for the drawing")
    args = parser.parse_args()
    rows = [
        simulate(2**power, workers, compressed=compressed)
        for compressed in (True, False)
        for power in map(int, args.powers.split(","))
        for workers in map(int, args.workers.split(","))
    ]
    sys.stdout.write(f"{table(rows)}\n")
    if args.svg is not None:
        args.svg.write_text(draw(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
