"""The disk space that a run needs if it consumes its source."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dask_io.geometry import Region
    from dask_io.planning.plan import Plan
    from dask_io.planning.problem import Lag

# Simulating more copies would take too long.
_MOST_PLACEMENTS = 10**6


def peak_when_consumed(plan: Plan, lag: Lag) -> int:
    """Return the most bytes by which written target blocks exceed freed source blocks.

    A source block is freed when all target data from it is durable. The result is an upper bound,
    because it assumes the longest possible delay. For plans with very many pieces, the bound is
    the size of the whole array.
    """
    if plan.n_placements > _MOST_PLACEMENTS:
        return plan.n_bytes_written
    source, itemsize = plan.problem.source.grid, plan.problem.itemsize
    source_itemsize = plan.problem.source_itemsize
    missing: dict[tuple[int, ...], int] = {}
    waiting: deque[Region] = deque()
    n_waiting = written = freed = peak = 0
    for step in plan.steps():
        for cell in plan.write_cells(step.done) if step.done.size else ():
            waiting.append(cell)
            n_waiting += cell.size
            written += cell.size * itemsize
        peak = max(peak, written - freed)
        while len(waiting) > lag.n_cells or n_waiting * itemsize > lag.n_bytes:
            cell = waiting.popleft()
            n_waiting -= cell.size
            for index, part in source.pieces(cell):
                left = missing.pop(index, source.block(index).size) - part.size
                if left:
                    missing[index] = left
                else:
                    freed += source.block(index).size * source_itemsize
    return peak
