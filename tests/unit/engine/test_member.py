"""What a run remembers of the cells that it writes."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest

from dask_io.engine.member import CellRange, Member, Overlaps
from dask_io.planning import Problem, plan_sweep

N_BLOCKS = 40_000


@pytest.mark.parametrize(("chunk", "target"), [(4, 1600), (1600, 4)], ids=["merged", "split"])
def test_what_is_remembered_does_not_grow_with_the_blocks(chunk: int, target: int) -> None:
    """Of many blocks along one axis little is kept from step to step."""
    problem = Problem.regular((4 * N_BLOCKS,), (chunk,), (target,), dtype="i4", budget=2**20)
    plan, side = plan_sweep(problem), problem.target
    store = SimpleNamespace(grid=side.grid, layout=side.layout, dtype=problem.dtype)
    outlet: Any = SimpleNamespace(target=store, ledger=None)
    room: Any = None
    member = Member(plan, outlet, room, lambda *_: None)
    n_found = 0
    for step in plan.steps():
        (along,) = member.begin(step.cell).along
        member.cells.clear()
        for _, part in problem.source.grid.pieces(step.cell):
            n_found += len(along.overlaps(part.bounds[0]).starts)
    assert n_found == N_BLOCKS

    kept = sum(isinstance(each, Overlaps | CellRange) for each in gc.get_objects())

    assert kept < N_BLOCKS // 4
