"""How much disk a run needs beside its source, if the source is used up on the way."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dask_io.geometry import Region
    from dask_io.planning.plan import Plan
    from dask_io.planning.problem import Lag

# Walking through more than this takes longer than the answer is worth.
_MOST_PLACEMENTS = 10**6


def peak_when_consumed(plan: Plan, lag: Lag) -> int:
    """Return the most bytes that target blocks take up more than has been freed of the source.

    Source blocks are freed when everything that they feed is durable. It is a bound: as much as
    possible is written before it is durable. Of plans with very many pieces it is the whole array.
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
