"""What a run remembers of the cells that it writes."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.engine.member import CellRange, Member, Overlaps
from dask_io.planning import Hold, Plan, Problem, plan_sweep
from dask_io.stores import addressable

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize("slab", [512, None], ids=["in slabs", "at once"])
def test_pieces_are_assembled_in_slabs_or_at_once(
    slab: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same cells are written, however little of one is assembled at once."""
    values = np.random.default_rng(0).integers(0, 100, (40, 40, 40), "u1")
    np.save(tmp_path / "one.npy", values)
    dask_io.split(tmp_path / "one.npy", tmp_path / "small", chunks=8)
    if slab is not None:
        monkeypatch.setattr(addressable, "SLAB", slab)
    job = dask_io.plan(tmp_path / "small", tmp_path / "large", chunks=13, format="npy")
    assert isinstance(job.plan, Plan)
    assert job.plan.hold is Hold.PIECES
    job.run()

    assert np.array_equal(dask_io.open(tmp_path / "large")[...], values)
