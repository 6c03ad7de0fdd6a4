"""Prediction equals walk equals what the transport counted on real files."""

import json
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dask_io.engine.commit import Outlet
from dask_io.engine.run import RunResult, run_plan
from dask_io.engine.staging import staging_for
from dask_io.errors import BudgetTooSmallError
from dask_io.formats.creating import make_target
from dask_io.formats.opening import open_source
from dask_io.planning import (
    Hold,
    Plan,
    Problem,
    Seeks,
    Side,
    Staging,
    plan_from_json,
    plan_keep,
    plan_naive,
    plan_to_json,
)
from dask_io.storage.medium import ALIGNMENT
from dask_io.testing import Walked, walk
from dask_io.testing.strategies import plans, problems
from tests.places import temporary_folder

Strategy = Callable[[Problem], Plan]
WORKERS = st.sampled_from([1, 2, 5])
# So large that only three elements go through the smallest staging buffer at once.
LARGE_ELEMENTS = np.dtype("V2500")
NUMBERS = st.sampled_from(["?", "u1", "<i2", ">i4", "<f2", ">f4", "<f8", ">c16"]).map(np.dtype)
# An example here touches dozens of files, so there are fewer of them.
EXAMPLES = settings().max_examples


def opaque(array: NDArray[Any]) -> NDArray[Any]:
    """The array as elements without a meaning, so that every byte counts, NaNs and padding too."""
    return array.view(np.dtype((np.void, array.dtype.itemsize)))


def noise(problem: Problem) -> NDArray[Any]:
    """An array of random bytes; of small numbers if they are to be converted."""
    if problem.converted is not None:
        small = np.random.default_rng(0).integers(0, 100, problem.shape)
        return small.astype(problem.converted)
    raw = np.random.default_rng(0).bytes(problem.n_bytes)
    return np.frombuffer(raw, problem.dtype).reshape(problem.shape)


def block_names(side: Side, suffix: str) -> list[tuple[str, tuple[slice, ...]]]:
    """Names and places of all blocks."""
    return [
        (f"b_{'_'.join(map(str, index))}.{suffix}", side.grid.block(index).slices)
        for index in side.grid.indices()
    ]


def format_for(side: Side) -> str:
    """The format that was drawn, as far as it can hold the layout."""
    return side.format if side.layout.name in {"C", "F"} else "raw"


def write_blocks(folder: Path, side: Side, array: NDArray[Any]) -> None:
    """Write an array as blocks without any help of ours, and describe them."""
    folder.mkdir()
    kind = format_for(side)
    for name, place in block_names(side, kind):
        block = array[place]
        if kind == "npy":
            # The opaque view saves us from NumPy's copies, which may drop padding.
            stored = opaque(block).copy(order="F" if side.layout.name == "F" else "C")
            np.save(folder / name, stored.view(array.dtype))
        else:
            (folder / name).write_bytes(opaque(block).transpose(side.layout.axes).tobytes())
    manifest = {
        "version": 1,
        "format": kind,
        "shape": side.grid.shape,
        "dtype": np.lib.format.dtype_to_descr(array.dtype),
        "chunks": [list(axis.lengths()) or 1 for axis in side.grid.axes],
        "order": side.layout.axes,
        "pattern": f"b_{'_'.join(f'{{{n}}}' for n in range(array.ndim))}.{kind}",
    }
    (folder / "dask-io.json").write_text(json.dumps(manifest), encoding="utf-8")


def read_blocks(folder: Path, side: Side, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Read blocks back without any help of ours; there has to be nothing else."""
    kind, layout = format_for(side), side.layout
    blocks = block_names(side, kind)
    described = {"dask-io.json", ".dask-io"}
    assert {path.name for path in folder.iterdir()} == described | {name for name, _ in blocks}
    array = np.zeros(side.grid.shape, np.dtype((np.void, dtype.itemsize)))
    for name, place in blocks:
        if kind == "npy":
            block = np.load(folder / name)
            assert block.dtype == dtype
            array[place] = opaque(block)
        else:
            shape = [array[place].shape[axis] for axis in layout.axes]
            stored = np.frombuffer((folder / name).read_bytes(), array.dtype).reshape(shape)
            array[place] = stored.transpose(layout.inverse)
    return array


def run(plan: Plan, workers: int) -> RunResult:
    """Carry a plan out on files, and check that the target holds the array."""
    problem = plan.problem
    array = noise(problem)
    with temporary_folder() as folder:
        write_blocks(folder / "source", problem.source, array)
        target = make_target(
            folder / "target",
            grid=problem.target.grid,
            dtype=problem.dtype,
            layout=problem.target.layout,
            format=format_for(problem.target),
        )
        result = run_plan(plan, open_source(folder / "source"), Outlet(target), workers=workers)
        written = read_blocks(folder / "target", problem.target, problem.dtype)
    assert written.tobytes() == opaque(convert(array, problem.dtype)).tobytes()
    return result


def convert(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The array in another type, as NumPy has it; what has none of its own stays as it is."""
    if array.dtype == dtype:
        return array
    return (array.real if dtype.kind != "c" else array).astype(dtype)


def check_counts(plan: Plan, result: RunResult, walked: Walked) -> None:
    """Compare what was predicted, walked and counted."""
    problem = plan.problem
    assert result.seeks == plan.seeks == walked.seeks
    assert result.openings == plan.openings == walked.openings
    assert result.n_bytes_read == plan.n_bytes_read == walked.read_bytes
    if not problem.source.through:
        assert walked.read_bytes == prod(problem.shape) * problem.source_itemsize
    assert result.n_bytes_written == problem.n_bytes == walked.written_bytes
    assert result.held == plan.held_bytes == walked.held_bytes
    assert result.blocks_written == problem.target.grid.n_blocks


def with_staging(problem: Problem, workers: int) -> Problem:
    """The problem with staging for all threads, and for a block behind each of them.

    The engine itself asks for no more than the array, which is too small here for threads.
    """
    least = staging_for(problem.target, problem.dtype, workers).minimum
    block_bytes = prod(problem.target.grid.longest) * problem.itemsize
    return replace(problem, staging=Staging(least, workers * (least + block_bytes)))


def smallest_budget(problem: Problem) -> int:
    """The smallest budget with which keep finds a plan."""
    try:
        plan_keep(problem.within(1))
    except BudgetTooSmallError as error:
        return error.required
    return 1


def check_any_plan(plan: Plan, workers: int, *, plenty: bool) -> None:
    """Run a plan with the staging that was drawn, or with all that the engine asks for."""
    if plenty:
        # Room for all threads, and for writing behind.
        problem = with_staging(plan.problem, workers)
        plan = replace(plan, problem=problem.within(plan.held_bytes + problem.staging.preferred))

    check_counts(plan, run(plan, workers), walk(plan))


@settings(max_examples=EXAMPLES // 2)
@given(plan=plans(), workers=WORKERS, plenty=st.booleans())
def test_any_plan_costs_on_files_what_it_says(plan: Plan, workers: int, *, plenty: bool) -> None:
    """What the transport counts is the prediction and the walk, for any order, marks and hold."""
    check_any_plan(plan, workers, plenty=plenty)


@pytest.mark.slow
@given(plan=plans(), workers=WORKERS, plenty=st.booleans())
def test_any_of_many_plans_costs_on_files_what_it_says(
    plan: Plan, workers: int, *, plenty: bool
) -> None:
    """The same for many more plans."""
    check_any_plan(plan, workers, plenty=plenty)


def check_strategy(strategy: Strategy, problem: Problem, workers: int, data: st.DataObject) -> None:
    """Run a strategy's plan at any budget from the smallest on."""
    problem = with_staging(problem, workers)
    least = smallest_budget(problem)
    most = max(least, problem.staging.preferred + 2 * problem.n_bytes)
    small = st.integers(least, min(most, least + problem.n_bytes))
    budget = data.draw(st.just(least) | small | st.integers(least, most), label="budget")
    try:
        plan = strategy(problem.within(budget))
    except BudgetTooSmallError as error:
        assert strategy is plan_naive
        plan = strategy(problem.within(error.required))

    assert plan.fits
    check_counts(plan, run(plan, workers), walk(plan))


@pytest.mark.parametrize("strategy", [plan_naive, plan_keep])
@settings(max_examples=EXAMPLES // 3)
@given(problem=problems(), workers=WORKERS, data=st.data())
def test_a_strategys_plan_costs_on_files_what_it_says(
    strategy: Strategy, problem: Problem, workers: int, data: st.DataObject
) -> None:
    """Counted, walked and predicted agree from the smallest budget to more than the array."""
    check_strategy(strategy, problem, workers, data)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [plan_naive, plan_keep])
@given(problem=problems(), workers=WORKERS, data=st.data())
def test_a_strategys_many_plans_cost_on_files_what_they_say(
    strategy: Strategy, problem: Problem, workers: int, data: st.DataObject
) -> None:
    """The same for many more problems."""
    check_strategy(strategy, problem, workers, data)


@settings(max_examples=EXAMPLES // 4)
@given(plan=plans(max_axes=3), workers=WORKERS)
def test_slabs_cost_nothing(plan: Plan, workers: int) -> None:
    """What goes through staging in many slabs is counted, and placed, as if it went in one."""
    plan = replace(plan, problem=replace(plan.problem, dtype=LARGE_ELEMENTS))

    check_counts(plan, run(plan, workers), walk(plan))


@settings(max_examples=EXAMPLES // 3)
@given(plan=plans(max_axes=3), stored=NUMBERS, dtype=NUMBERS, workers=WORKERS)
def test_a_conversion_costs_on_files_what_it_says(
    plan: Plan, stored: np.dtype[np.generic], dtype: np.dtype[np.generic], workers: int
) -> None:
    """Bytes read are of the source's type, bytes held and written of the target's."""
    problem = replace(plan.problem, dtype=dtype, converted=None if stored == dtype else stored)
    plan = replace(plan, problem=with_staging(problem, workers))

    check_counts(plan, run(plan, workers), walk(plan))
    assert plan_from_json(plan_to_json(plan)) == plan


@settings(max_examples=EXAMPLES // 4)
@given(plan=plans(max_axes=3), workers=WORKERS)
def test_long_runs_cost_what_short_ones_do(plan: Plan, workers: int) -> None:
    """What goes past the page cache is counted, and placed, as what goes through it."""
    problem = replace(plan.problem, dtype=LARGE_ELEMENTS)
    problem = replace(problem, staging=Staging(2**20, 2**22))
    plan = replace(plan, problem=problem.within(plan.problem.budget * 2500 + 2**22))
    with (
        patch("dask_io.storage.local.transport.LARGE", 2 * ALIGNMENT),
        patch("dask_io.stores.addressable.LARGE", 2 * ALIGNMENT),
        patch("dask_io.engine.memory._ALIGNED", 2 * ALIGNMENT),
        patch("dask_io.engine.run._LONG_RUN", 4 * ALIGNMENT),
        patch("dask_io.engine.member._LONG_RUN", 2 * ALIGNMENT),
    ):
        check_counts(plan, run(plan, workers), walk(plan))


@settings(max_examples=EXAMPLES // 5)
@given(plan=plans(max_axes=3), workers=WORKERS, share=st.integers(1, 64))
def test_a_visit_shared_by_threads_is_one(plan: Plan, workers: int, share: int) -> None:
    """However small the parts are that threads read of a block, they count as one visit."""
    plan = replace(plan, problem=with_staging(plan.problem, workers))
    plan = replace(plan, problem=plan.problem.within(plan.problem.budget + plan.held_bytes + 10**6))
    with patch("dask_io.engine.run._SHARE", share):
        check_counts(plan, run(plan, workers), walk(plan))


@settings(max_examples=EXAMPLES // 5)
@given(problem=problems(max_axes=3), hold=st.sampled_from(Hold))
def test_threads_change_no_count(problem: Problem, hold: Hold) -> None:
    """One thread and several count the same seeks, openings and bytes, and hold as much."""
    problem = with_staging(problem, 4)
    plan = replace(
        plan_keep(problem.within(problem.staging.preferred + problem.n_bytes)), hold=hold
    )

    one, several = run(plan, 1), run(plan, 4)

    def unmeasured(result: RunResult) -> RunResult:
        return replace(result, seconds=0.0, peak_memory=0)

    assert unmeasured(one) == unmeasured(several)
    assert one.seeks == Seeks(plan.seeks.read, plan.seeks.write)
