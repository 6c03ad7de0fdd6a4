"""Several targets from one read: prediction equals walk equals what is counted on real files."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
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
from dask_io.engine.run import RunResult, Sweep, run_sweeps
from dask_io.engine.staging import staging_for
from dask_io.errors import BudgetTooSmallError
from dask_io.formats.creating import make_target
from dask_io.formats.opening import open_source
from dask_io.planning import (
    Bundle,
    Hold,
    Plan,
    Problem,
    Seeks,
    Side,
    Staging,
    Sweeps,
    plan_keep,
    plan_together,
)
from dask_io.planning.bundle import box_around, window_of
from dask_io.storage.local import system
from dask_io.stores.views import SourceView
from dask_io.testing import Walked, walk, walk_bundle
from dask_io.testing.strategies import bundles, plans, shared_problems
from tests.places import temporary_folder

WORKERS = st.sampled_from([1, 2, 5])
EXAMPLES = settings().max_examples


def opaque(array: NDArray[Any]) -> NDArray[Any]:
    """The array as elements without a meaning, so that every byte counts."""
    return array.view(np.dtype((np.void, array.dtype.itemsize)))


def write_source(folder: Path, side: Side, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Write random bytes as raw blocks without any help of ours, and describe them."""
    folder.mkdir()
    grid = side.stored
    noise = np.random.default_rng(0).bytes(prod(grid.shape) * dtype.itemsize)
    array = np.frombuffer(noise, dtype).reshape(grid.shape)
    for index in grid.indices():
        name = f"b_{'_'.join(map(str, index))}.raw"
        block = opaque(array)[grid.block(index).slices]
        (folder / name).write_bytes(block.transpose(side.layout.axes).tobytes())
    manifest = {
        "version": 1,
        "format": "raw",
        "shape": grid.shape,
        "dtype": np.lib.format.dtype_to_descr(dtype),
        "chunks": [list(axis.lengths()) or 1 for axis in grid.axes],
        "order": side.layout.axes,
        "pattern": f"b_{'_'.join(f'{{{n}}}' for n in range(array.ndim))}.raw",
    }
    (folder / "dask-io.json").write_text(json.dumps(manifest), encoding="utf-8")
    return array


def read_target(folder: Path, side: Side, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Read raw blocks back without any help of ours."""
    array = np.zeros(side.grid.shape, dtype)
    for index in side.grid.indices():
        place = side.grid.block(index)
        raw = (folder / f"b_{'_'.join(map(str, index))}.raw").read_bytes()
        stored = np.frombuffer(raw, dtype).reshape([place.shape[a] for a in side.layout.axes])
        array[place.slices] = stored.transpose(side.layout.inverse)
    return array


def run(sweeps: Sweeps, workers: int) -> RunResult:
    """Carry sweeps out on files, check the targets, and that no other block was opened."""
    problems = sweeps.problems
    side, dtype = problems[0].source, problems[0].dtype
    with temporary_folder() as folder:
        array = write_source(folder / "source", side, dtype)
        source = open_source(folder / "source")
        targets = [
            make_target(
                folder / f"target_{number}",
                grid=problem.target.grid,
                dtype=dtype,
                layout=problem.target.layout,
                format="raw",
            )
            for number, problem in enumerate(problems)
        ]
        parts = [
            Sweep(bundle, SourceView(source, bundle.box), tuple(Outlet(targets[n]) for n in group))
            for bundle, group in zip(sweeps.bundles, sweeps.groups, strict=True)
        ]
        with opened_files() as opened:
            result = run_sweeps(parts, workers=workers)
        check_opened(opened, folder / "source", problems)
        for number, problem in enumerate(problems):
            written = read_target(folder / f"target_{number}", problem.target, opaque(array).dtype)
            assert written.tobytes() == opaque(array)[window_of(problem.source).slices].tobytes()
    return result


@contextmanager
def opened_files() -> Iterator[set[Path]]:
    """Note every file that is opened."""
    opened: set[Path] = set()
    really = system.calls.open

    def note(path: Any, *arguments: Any, **options: Any) -> int:
        opened.add(Path(path))
        return really(path, *arguments, **options)

    with patch.object(system.calls, "open", note):
        yield opened


def check_opened(opened: set[Path], folder: Path, problems: tuple[Problem, ...]) -> None:
    """Check that exactly those blocks were opened that hold something of a window."""
    needed = {
        folder / f"b_{'_'.join(map(str, index))}.raw"
        for problem in problems
        for index, _ in problem.source.stored.pieces(window_of(problem.source))
    }
    assert {path for path in opened if path.parent == folder and path.suffix == ".raw"} == needed


def check_prediction(bundle: Bundle, walked: Walked) -> None:
    """Compare what a bundle says with what walking it counted."""
    assert walked.seeks == bundle.seeks
    assert walked.openings == bundle.openings
    assert walked.n_steps == bundle.n_steps
    assert walked.read_bytes == bundle.n_bytes_read
    assert walked.written_bytes == bundle.n_bytes_written
    assert walked.held_bytes == bundle.held_bytes
    assert walked.peak_bytes == bundle.peak_bytes
    assert walked.array_is_rebuilt


def check_run(sweeps: Sweeps, result: RunResult) -> None:
    """Compare what sweeps say with what running them counted."""
    assert result.seeks == sweeps.seeks
    assert result.openings == sweeps.openings
    assert result.n_bytes_read == sweeps.n_bytes_read
    assert result.n_bytes_written == sweeps.n_bytes_written
    assert result.held == sweeps.held_bytes
    assert result.blocks_written == sum(p.target.grid.n_blocks for p in sweeps.problems)


def with_staging(problems: list[Problem], workers: int) -> list[Problem]:
    """The problems with staging for all threads, and for a block behind each of them."""
    least = max(staging_for(p.target, p.dtype, workers).minimum for p in problems)
    block_bytes = max(prod(p.target.grid.longest) * p.itemsize for p in problems)
    staging = Staging(least, workers * (least + block_bytes))
    return [replace(problem, staging=staging) for problem in problems]


@given(bundle=bundles())
def test_a_bundle_costs_what_it_says(bundle: Bundle) -> None:
    """The costs of any bundle are those of an element-wise walk of its sweep."""
    check_prediction(bundle, walk_bundle(bundle))


@given(plan=plans(max_axes=4, windows=True))
def test_a_plan_is_a_bundle_of_one(plan: Plan) -> None:
    """A bundle of one plan costs what the plan costs, and walks the same way."""
    bundle = Bundle.of(plan)

    walked = walk_bundle(bundle)

    assert walked == walk(plan)
    check_prediction(bundle, walked)


@settings(max_examples=EXAMPLES // 2)
@given(bundle=bundles(), workers=WORKERS, plenty=st.booleans())
def test_a_bundle_costs_on_files_what_it_says(
    bundle: Bundle, workers: int, *, plenty: bool
) -> None:
    """What the transport counts is the prediction, and blocks outside are never opened."""
    problems = [member.problem for member in bundle.members]
    if plenty:
        problems = with_staging(problems, workers)
        budget = bundle.held_bytes + problems[0].staging.preferred
        problems = [problem.within(budget) for problem in problems]
    hold = bundle.members[0].hold
    bundle = Bundle.sharing(problems, bundle.order, bundle.reads, hold)
    sweeps = Sweeps((bundle,), (tuple(range(len(problems))),))

    result = run(sweeps, workers)

    check_run(sweeps, result)


def draw_budget(problems: list[Problem], data: st.DataObject) -> list[Problem]:
    """The problems with any budget from the smallest on."""
    try:
        plan_together([problem.within(1) for problem in problems], plan_keep)
    except BudgetTooSmallError as error:
        least = error.required
    else:
        least = 1
    n_bytes = sum(problem.n_bytes for problem in problems)
    more = st.integers(0, n_bytes) | st.integers(0, problems[0].staging.preferred + 2 * n_bytes)
    budget = least + data.draw(st.just(0) | more, label="budget")
    return [problem.within(budget) for problem in problems]


@settings(max_examples=EXAMPLES // 4)
@given(problems=shared_problems(), workers=WORKERS, data=st.data())
def test_planned_sweeps_cost_on_files_what_they_say(
    problems: list[Problem], workers: int, data: st.DataObject
) -> None:
    """Predicted, walked and counted agree for what is planned, at any budget that suffices."""
    problems = draw_budget(with_staging(problems, workers), data)

    sweeps = plan_together(problems, plan_keep)

    assert sweeps.fits
    assert sorted(n for group in sweeps.groups for n in group) == list(range(len(problems)))
    for bundle in sweeps.bundles:
        check_prediction(bundle, walk_bundle(bundle))
    check_run(sweeps, run(sweeps, workers))


@settings(max_examples=EXAMPLES // 2)
@given(problems=shared_problems())
def test_with_plenty_of_memory_nothing_is_touched_twice(problems: list[Problem]) -> None:
    """There is one sweep, at the lower bound, and it is never worse than one target at a time."""
    n_bytes = 2 * sum(problem.n_bytes for problem in problems)
    n_bytes += max(problem.staging.preferred + problem.staging.most for problem in problems)
    roomy = [problem.within(n_bytes + 1) for problem in problems]

    sweeps = plan_together(roomy, plan_keep)

    assert len(sweeps.bundles) == 1
    assert sweeps.n_bytes_read_again == 0
    alone = [plan_keep(problem).seeks for problem in roomy]
    assert sweeps.seeks.total <= sum(seeks.total for seeks in alone)
    if len(roomy) > 1:
        assert sweeps.seeks.total == sweeps.lower_bound


@pytest.mark.parametrize("hold", list(Hold))
def test_threads_change_no_count(hold: Hold) -> None:
    """One worker and several touch, hold and write the same."""
    problem = Problem.regular((9, 8), (4, 3), (3, 5), dtype="int16", budget=10**6)
    problems = with_staging(
        [
            replace(problem, source=replace(problem.source, window=box_around([window])))
            for window in (window_of(problem.source),) * 2
        ],
        4,
    )
    reads = plan_keep(problems[0]).reads
    sweeps = Sweeps((Bundle.sharing(problems, (1, 0), reads, hold),), ((0, 1),))

    one, several = run(sweeps, 1), run(sweeps, 4)

    assert replace(one, seconds=0.0, peak_memory=0) == replace(several, seconds=0.0, peak_memory=0)
    assert one.seeks == Seeks(sweeps.seeks.read, sweeps.seeks.write)
