"""The verbs, their defaults and their errors."""

import json
import re
import shutil
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numpy.typing import NDArray

import dask_io
from dask_io.engine.staging import slab_for
from dask_io.errors import BudgetTooSmallError, DataError, StorageError, UsageError
from dask_io.geometry import Region
from dask_io.planning import Staging
from dask_io.storage.pace import Pace

ARRAY = np.random.default_rng(0).random((10, 7)).astype("<f4")


@pytest.fixture
def one_file(tmp_path: Path) -> Path:
    """An array in one file."""
    np.save(tmp_path / "one.npy", ARRAY)
    return tmp_path / "one.npy"


def save(folder: Path, name: str, array: NDArray[Any]) -> Path:
    """Save an array."""
    np.save(folder / name, array)
    return folder / name


def run(verb: Any, *arguments: Any, **options: Any) -> dask_io.RunResult:
    """Call a verb that runs a plan, and return its result."""
    result = verb(*arguments, **options)
    assert isinstance(result, dask_io.RunResult)
    return result


# The package.


@pytest.mark.parametrize("name", dask_io.__all__)
def test_public_names_are_documented(name: str) -> None:
    """Every public name is there, and says what it is."""
    found = getattr(dask_io, name)

    assert found.__doc__
    assert not found.__doc__.startswith(f"{name}(")
    assert name in dir(dask_io)


def test_other_names_are_refused() -> None:
    """A name that does not exist is an AttributeError that says so."""
    with pytest.raises(AttributeError, match="no attribute 'rechunk'"):
        _ = dask_io.rechunk


@pytest.mark.parametrize("name", ["api", "plan", "resplit"])
def test_other_systems_are_refused_in_one_line(name: str) -> None:
    """Whatever is used first says which systems there are, not which module is missing."""
    code = f"import sys; sys.platform = 'win32'; from dask_io import {name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last == "ImportError: Dask IO runs on Linux and macOS, not on win32"


def test_importing_loads_nothing_else() -> None:
    """Importing the package loads none of the libraries that it needs later."""
    script = "import sys, json, dask_io; print(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout

    loaded = {name.partition(".")[0] for name in json.loads(shown)}
    assert loaded.isdisjoint({"numpy", "dask", "click", "hypothesis", "pytest"})


def test_the_verbs_load_no_dask() -> None:
    """Resplitting needs NumPy and neither Dask nor click: half a second at every start."""
    script = "import sys, dask_io; dask_io.resplit; print('dask' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout

    assert shown == b"False\n"


# Opening and telling.


def test_open_and_info(one_file: Path) -> None:
    """A store tells its shape, dtype, blocks, order and sizes."""
    array, info = dask_io.open(one_file), dask_io.info(one_file)

    assert (array.shape, array.dtype, array.ndim) == ((10, 7), np.dtype("<f4"), 2)
    assert array.chunks == ((10,), (7,))
    assert (info.place, info.format, info.order) == (str(one_file), "npy", "C")
    assert (info.shape, info.dtype, info.grid.n_blocks) == ((10, 7), np.dtype("<f4"), 1)
    assert (info.n_bytes, info.n_bytes_on_disk) == (280, one_file.stat().st_size)
    assert dask_io.info(array) == info


def test_raw_files_are_described(tmp_path: Path) -> None:
    """What raw files do not say of themselves can be said, and is needed."""
    (tmp_path / "one.raw").write_bytes(np.asfortranarray(ARRAY).tobytes(order="F"))

    with pytest.raises(UsageError, match=r"give shape=\.\.\. and dtype="):
        dask_io.open(tmp_path / "one.raw")
    array = dask_io.open(tmp_path / "one.raw", shape=(10, 7), dtype="<f4", order="F")

    np.testing.assert_array_equal(array[...], ARRAY)
    run(dask_io.split, array, tmp_path / "blocks", chunks=4, verify=True)


def test_an_absent_source(tmp_path: Path) -> None:
    """A path that names nothing is a matter of storage, and is named."""
    with pytest.raises(StorageError, match=r"nothing\.npy"):
        dask_io.info(tmp_path / "nothing.npy")


@pytest.mark.parametrize(
    "place", [np.zeros((4, 4)), None, 3], ids=lambda place: type(place).__name__
)
def test_what_is_no_place(place: Any, tmp_path: Path) -> None:
    """Arrays in memory, above all: it is said what to do with them."""
    needed = f"expected a path or a URL, not {type(place).__name__}; save"
    for call in (
        lambda: dask_io.info(place),
        lambda: dask_io.open(place),
        lambda: dask_io.resplit(place, tmp_path / "x", chunks=2),
        lambda: dask_io.verify(place, tmp_path),
    ):
        with pytest.raises(UsageError, match=needed):
            call()
    assert not list(tmp_path.iterdir())


# Planning.


def test_a_plan_touches_nothing(one_file: Path) -> None:
    """Planning writes nothing, with and without a target."""
    before = sorted(one_file.parent.iterdir())
    job = dask_io.plan(one_file, one_file.parent / "target", chunks=4, memory="1MiB")
    alone = dask_io.plan(one_file, chunks=4, memory="1MiB")

    assert job.plan == alone.plan
    assert "one.npy to " in str(job)
    assert "each block is read once and written once" in str(alone)
    assert sorted(one_file.parent.iterdir()) == before
    with pytest.raises(UsageError, match="no target"):
        alone.run()


def test_an_open_array_says_what_it_is(one_file: Path) -> None:
    """Shape, type and blocks, not where the object lies in memory."""
    shown = repr(dask_io.open(one_file))
    assert shown == f"<BlockArray: {one_file}, 10 x 7 of {ARRAY.dtype}, in blocks of 10 x 7>"


def test_defaults(one_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the memory, the source's order and format, and a few threads."""
    monkeypatch.setattr("dask_io.jobs.settings.available_memory", lambda: 2_000_000)
    monkeypatch.setattr("dask_io.jobs.settings.usable_cores", lambda: 64)
    job = dask_io.plan(dask_io.open(one_file), one_file.parent / "target", chunks=4)

    assert job.target is not None
    assert (job.target.format, job.target.layout.name) == ("npy", "C")
    assert job.plan.problem.budget == 1_000_000
    assert job.workers == 12
    monkeypatch.setattr("dask_io.jobs.settings.usable_cores", lambda: 1)
    assert dask_io.plan(one_file, chunks=4).workers == 5


@pytest.mark.parametrize(("chunk", "n_threads"), [(2**16 - 1, 6), (2**16, 10)])
def test_long_blocks_have_more_threads(
    chunk: int, n_threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for the disk, where short ones would wait for each other."""
    monkeypatch.setattr("dask_io.jobs.settings.usable_cores", lambda: 2)
    np.lib.format.open_memmap(tmp_path / "a.npy", "w+", dtype="f8", shape=(8 * chunk,))
    assert dask_io.plan(tmp_path / "a.npy", chunks=chunk).workers == n_threads
    plan = dask_io.plan_shape((8 * chunk,), "f8", chunk, chunk)
    slab = slab_for(plan.problem.source, plan.problem.target, 8)
    assert plan.problem.staging.threads == n_threads * slab


def test_threads_that_code_are_as_many_as_cores(
    one_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As are those of a run that consumes its source: what they have written lies beside it."""
    monkeypatch.setattr("dask_io.jobs.settings.usable_cores", lambda: 64)
    folder = one_file.parent
    dask_io.split(one_file, folder / "blocks", chunks=4)
    coded: dict[str, Any] = {"format": "zarr", "codec": "zstd:3"}
    assert dask_io.plan(one_file, folder / "x", chunks=4, **coded).workers == 32
    assert dask_io.plan(folder / "blocks", folder / "x", chunks=2, consume=True).workers == 32
    assert dask_io.plan(folder / "blocks", folder / "x", chunks=2).workers == 12
    both = dask_io.plan_extract(one_file, folder / "x", regions=["0:4", "2:6"], **coded)
    assert both.workers == 32


@pytest.mark.parametrize("apart", [False, True])
def test_much_is_written_behind_if_places_lie_apart(
    one_file: Path, monkeypatch: pytest.MonkeyPatch, *, apart: bool
) -> None:
    """For one target and for several."""
    folder, asked = one_file.parent, []

    def staging(*_: object, apart: bool, **__: object) -> Staging:
        asked.append(apart)
        return Staging()

    monkeypatch.setattr("dask_io.jobs.planning.are_apart", lambda *_: apart)
    monkeypatch.setattr("dask_io.jobs.planning.staging_for", staging)
    monkeypatch.setattr("dask_io.engine.problem.staging_for", staging)
    dask_io.plan(one_file, folder / "x", chunks=4)
    dask_io.plan_extract(one_file, folder / "x", regions=["0:4", "2:6"])
    assert asked == [apart] * 3


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "much"},
        {"memory": 0},
        {"memory": 1},
        {"workers": 0},
        {"max_rate": 0},
        {"max_rate": "fast"},
        {"strategy": "best"},
        {"order": "Z"},
        {"order": "0,1,2"},
        {"format": "zar"},
        {"chunks": 0},
        {"chunks": (1, 2, 3)},
        {"chunks": ((3, 3), 7)},
    ],
    ids=str,
)
def test_options_that_cannot_be(one_file: Path, options: dict[str, Any]) -> None:
    """A bad option is refused while planning, with and without a target."""
    for target in (None, one_file.parent / "target"):
        with pytest.raises(UsageError):
            dask_io.plan(one_file, target, **{"chunks": 4, **options})
    assert not (one_file.parent / "target").exists()


def test_an_option_that_does_not_exist(one_file: Path) -> None:
    """A misspelt option is an error, as for any function."""
    with pytest.raises(TypeError, match="memroy"):
        dask_io.plan(one_file, chunks=4, memroy="1GB")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="memroy"):
        dask_io.plan_shape((10,), "f4", 2, 5, memroy="1GB")  # type: ignore[call-arg]


def test_the_smallest_budget_is_named(one_file: Path) -> None:
    """A budget that is too small is refused with one that is just enough."""
    with pytest.raises(BudgetTooSmallError) as caught:
        dask_io.plan(one_file, chunks=4, memory=1000)
    required = caught.value.required

    assert dask_io.plan(dask_io.open(one_file), chunks=4, memory=required).plan.fits
    with pytest.raises(BudgetTooSmallError):
        dask_io.plan(one_file, chunks=4, memory=required - 1)


@pytest.mark.parametrize("n_targets", [1, 2, 3])
def test_several_targets_are_named(one_file: Path, n_targets: int) -> None:
    """A job for several targets prints as text, however many there are."""
    places = [str(one_file.parent / f"target{n}") for n in range(n_targets)]
    later = dask_io.resplit(one_file, places, chunks=[4] * n_targets, compute=False)
    assert not isinstance(later, dask_io.RunResult)
    job = later.dask[later.key].func.__self__

    assert str(job).startswith(f"{one_file} to {places[0]}")
    assert all(place in str(job) for place in {places[0], places[-1]})


def test_check_looks_at_every_header(tmp_path: Path) -> None:
    """With `check`, a block that does not match shows before anything is planned."""
    for row, column in np.ndindex(3, 3):
        save(tmp_path, f"b_{row}_{column}.npy", np.zeros((4, 4), "<i4"))
    # Headers along the axes are read anyway.
    save(tmp_path, "b_2_1.npy", np.zeros((4, 4), "<f4"))

    dask_io.plan(tmp_path, chunks=10)
    with pytest.raises(DataError, match=r"b_2_1\.npy"):
        dask_io.plan(tmp_path, chunks=10, check=True)


def test_planning_without_data() -> None:
    """An array that does not exist is planned: raw blocks, in C order or another."""
    plan = dask_io.plan_shape((100, 80), ">i2", (10, 80), (100, 20), memory="1MB", order="F")

    assert plan.problem.dtype == np.dtype(">i2")
    assert (plan.problem.source.format, plan.problem.target.layout.name) == ("raw", "F")
    assert plan.seeks.total == plan.problem.lower_bound == 14
    for dtype in ("nothing", "O"):
        with pytest.raises(UsageError):
            dask_io.plan_shape((100, 80), dtype, 10, 20)


@pytest.mark.parametrize("chunks", [3, -1])
def test_a_job_is_shown(tmp_path: Path, chunks: int) -> None:
    """The report is the same page in a file, and in a notebook in a frame of its own."""
    source = save(tmp_path, "a.npy", ARRAY)
    report = dask_io.plan(dask_io.open(source), chunks=chunks).visualize()

    report.save(tmp_path / "plan.html")

    assert (tmp_path / "plan.html").read_text(encoding="utf-8") == report.html
    inside = re.fullmatch('<iframe .* srcdoc="([^"]*)"></iframe>', report._repr_html_())
    assert inside is not None
    assert unescape(inside[1]) == report.html


@pytest.mark.parametrize("verb", ["extract", "resplit"])
def test_spill_is_for_one_target(one_file: Path, verb: str) -> None:
    """A strategy that cannot write several targets is refused, and nothing is written."""
    target = one_file.parent / "targets"
    several: dict[str, dict[str, Any]] = {
        "extract": {"target": target, "regions": ["0:4", "2:6"]},
        "resplit": {"target": [target / "a", target / "b"], "chunks": [3, 4]},
    }
    with pytest.raises(UsageError, match="strategy spill writes one target"):
        getattr(dask_io, verb)(one_file, strategy="spill", **several[verb])
    assert not target.exists()


@pytest.mark.parametrize("strategy", ["sweep", "keep", "naive", "reread"])
def test_a_named_strategy_plans_several_targets(one_file: Path, strategy: str) -> None:
    """Each of them alone, by the strategy that was asked for."""
    target = one_file.parent / "targets"
    job = dask_io.plan_extract(one_file, target, regions=["0:4", "2:6"], strategy=strategy)

    assert isinstance(job, dask_io.JointJob)
    assert job.plan.strategy == strategy
    assert {member.strategy for one in job.plan.bundles for member in one.members} == {strategy}


# Running.


def test_the_verbs(one_file: Path) -> None:
    """One file is split, resplit and merged, and comes back as it was."""
    folder = one_file.parent
    split = run(dask_io.split, one_file, folder / "a", chunks=(4, 3))
    resplit = run(dask_io.resplit, folder / "a", folder / "b", chunks={0: 3}, verify=True)
    merged = run(dask_io.merge, folder / "b", folder / "merged.npy")

    assert (split.blocks_written, split.verified) == (9, None)
    assert (resplit.blocks_written, resplit.verified) == (12, True)
    assert dask_io.open(folder / "b").chunks == ((3, 3, 3, 1), (3, 3, 1))
    assert (merged.seeks.write, merged.n_bytes_read, merged.n_bytes_written) == (1, 280, 280)
    assert merged.seconds > 0
    np.testing.assert_array_equal(np.load(folder / "merged.npy"), ARRAY)


@pytest.mark.parametrize("options", [{}, {"processes": 1}, {"client": "tcp://localhost:1"}])
def test_chunks_may_only_be_omitted_for_slices(options: dict[str, Any], one_file: Path) -> None:
    """Only a pattern of slices implies its chunks; any other target needs them."""
    with pytest.raises(UsageError, match=r"chunks are missing for .*b\.npy; give chunks"):
        dask_io.resplit(one_file, one_file.parent / "b.npy", **options)


def test_split_takes_one_file(one_file: Path) -> None:
    """A source of several blocks is not split, and the verb that would do is named."""
    run(dask_io.split, one_file, one_file.parent / "blocks", chunks=4)

    with pytest.raises(UsageError, match="use resplit"):
        dask_io.split(one_file.parent / "blocks", one_file.parent / "others", chunks=3)


def test_progress_is_told(one_file: Path) -> None:
    """Progress grows to all bytes and all blocks."""
    told: list[dask_io.Progress] = []
    target = one_file.parent / "blocks"
    run(dask_io.split, one_file, target, chunks=4, workers=1, progress=told.append)

    assert [progress.n_blocks_written for progress in told] == [1, 2, 3, 4, 5, 6]
    last = told[-1]
    assert (last.n_bytes_written, last.n_bytes, last.n_bytes_read) == (280, 280, 280)
    assert (last.n_blocks_written, last.n_blocks) == (6, 6)
    assert max(each.n_bytes_held for each in told) > 0


def test_progress_never_goes_backwards(one_file: Path) -> None:
    """With several threads too, what is told grows, and ends with everything."""
    told: list[dask_io.Progress] = []
    target = one_file.parent / "blocks"
    run(dask_io.split, one_file, target, chunks=1, workers=4, progress=told.append)

    written = [one.n_bytes_written for one in told]
    assert written == sorted(written)
    assert written[-1] == told[-1].n_bytes == ARRAY.nbytes


def test_a_store_can_be_used_twice(one_file: Path) -> None:
    """What a run counts is its own, whatever else was read from the same store."""
    array = dask_io.open(one_file)
    _ = array[2:5]
    first = run(dask_io.split, array, one_file.parent / "a", chunks=4)
    job = dask_io.plan(array, one_file.parent / "b", chunks=4, overwrite=True)
    again = [job.run(), job.run()]

    for result in again:
        assert result.seeks == first.seeks == job.plan.seeks
        assert result.n_bytes_read == first.n_bytes_read == ARRAY.nbytes
        assert result.n_bytes_written == first.n_bytes_written == ARRAY.nbytes
        assert result.openings == first.openings == job.plan.openings


@pytest.mark.parametrize("verb", ["split", "resplit", "merge"])
def test_a_run_can_wait(one_file: Path, verb: str) -> None:
    """With ``compute=False`` a verb gives a Dask Delayed, which runs when it is computed."""
    delayed = pytest.importorskip("dask.delayed")
    target = one_file.parent / "target"
    options = {} if verb == "merge" else {"chunks": 4}

    later = getattr(dask_io, verb)(
        one_file, f"{target}.npy" if verb == "merge" else target, compute=False, **options
    )

    assert isinstance(later, delayed.Delayed)
    assert [path.name for path in one_file.parent.iterdir()] == ["one.npy"]
    result = later.compute(scheduler="synchronous")
    assert isinstance(result, dask_io.RunResult)
    assert result.blocks_written == (1 if verb == "merge" else 6)


def test_padding_of_records_is_kept(tmp_path: Path) -> None:
    """Records come out bit by bit, also what lies between their fields."""
    kind = np.dtype({"names": ["a", "b"], "formats": ["u1", "<f8"], "offsets": [0, 8]})
    raw = np.random.default_rng(0).bytes(100 * kind.itemsize)
    source = save(tmp_path, "one.npy", np.frombuffer(raw, kind))
    before = source.read_bytes()[-len(raw) :]

    run(dask_io.split, source, tmp_path / "blocks", chunks=30, verify=True)
    run(dask_io.merge, tmp_path / "blocks", tmp_path / "merged.npy", verify=True)

    assert (tmp_path / "merged.npy").read_bytes()[-len(raw) :] == before


# Verifying.


def test_equal_arrays_in_other_blocks(one_file: Path) -> None:
    """Blocks and order do not matter, values do."""
    run(dask_io.split, one_file, one_file.parent / "blocks", chunks=(4, 3), order="F")

    found = dask_io.verify(one_file, one_file.parent / "blocks")

    assert found
    assert found.equal
    assert (found.n_elements, found.n_differing, found.first_difference) == (70, 0, None)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_first_difference_is_named(one_file: Path, workers: int) -> None:
    """The first region that differs is the smallest box around what differs in a block."""
    folder = one_file.parent
    run(dask_io.split, one_file, folder / "blocks", chunks=(4, 3))
    for name in ("b_1_1.npy", "b_2_0.npy"):
        block = np.load(folder / "blocks" / name)
        block[1:3, 1:] += 1
        save(folder / "blocks", name, block)

    found = dask_io.verify(one_file, folder / "blocks", workers=workers)

    assert not found
    assert found.first_difference == Region((5, 4), (7, 6))
    assert found.n_differing == 4 + 2


def test_equal_types_are_compared_by_bits(tmp_path: Path) -> None:
    """A NaN equals itself but no other NaN, and zero is not minus zero."""
    one = np.array([np.nan, 0.0, 1.0, np.nan])
    other = np.array([np.nan, -0.0, 1.0, -np.nan])
    a, b = save(tmp_path, "a.npy", one), save(tmp_path, "b.npy", other)

    assert dask_io.verify(a, a)
    assert dask_io.verify(a, b).n_differing == 2


@pytest.mark.parametrize(
    ("one", "other", "n_differing"),
    [
        (np.array([np.nan, 1, 2]), np.array([np.nan, 1, 3], "f4"), 1),
        (np.array([np.nan, 1, 2]), np.array([-np.nan, 1, 2], ">f8"), 0),
        (np.array([np.nan, 1]), np.array([np.nan, 1], "c8"), 0),
        (np.array([0.0, 1]), np.array([-0.0, 1], "f4"), 0),
        (np.array([0, 1, 255], "u1"), np.array([0, 1, -1], "i1"), 1),
        (np.array([2**64 - 1, 1], "u8"), np.array([-1, 1], "i8"), 1),
        (np.array([True, False]), np.array([1.0, 0.5]), 1),
        (np.array(["NaT", "2020"], "M8[D]"), np.array(["NaT", "2020"], "M8[s]"), 0),
        (np.array(["a", "b"], "U1"), np.array(["a", "bc"], "U2"), 1),
        (np.array(["a", "b"], "U1"), np.array([1, 2]), 2),
        (np.zeros(2, [("a", "<i4")]), np.zeros(2, [("a", ">i4")]), 0),
        (np.zeros(2, [("a", "<i4")]), np.zeros(2), 2),
        (np.full(2, np.nan, [("a", "<f4")]), np.full(2, np.nan, [("a", ">f8")]), 0),
        (np.full(2, np.nan, [("a", "<f4")]), np.full(2, np.nan, [("b", "<f4")]), 2),
        (
            np.full(2, np.nan, [("a", [("b", "<f4", (3,))])]),
            np.full(2, np.nan, [("a", [("b", ">f4", (3,))])]),
            0,
        ),
        (np.zeros(2, [("a", "<f4", (3,))]), np.zeros(2, [("a", "<f4", (2,))]), 2),
    ],
    ids=lambda value: str(getattr(value, "dtype", value)),
)
def test_different_types_are_compared_by_values(
    tmp_path: Path, one: NDArray[Any], other: NDArray[Any], n_differing: int
) -> None:
    """Numbers count, not how they are stored; a NaN is equal to a NaN."""
    a, b = save(tmp_path, "a.npy", one), save(tmp_path, "b.npy", other)

    assert dask_io.verify(a, b).n_differing == n_differing
    assert dask_io.verify(b, a).n_differing == n_differing


def test_shapes_that_differ(one_file: Path) -> None:
    """Arrays of different shapes are not compared, and both shapes are named."""
    other = save(one_file.parent, "other.npy", ARRAY.T)

    with pytest.raises(DataError, match=r"\(7, 10\).*\(10, 7\)"):
        dask_io.verify(one_file, other)


@pytest.mark.parametrize("memory", [40_000, 70_000, 200_000])
def test_verifying_within_a_small_budget(one_file: Path, memory: int) -> None:
    """Verification makes do with little memory, by using fewer threads."""
    run(dask_io.split, one_file, one_file.parent / "blocks", chunks=4)

    assert dask_io.verify(one_file, one_file.parent / "blocks", memory=memory, workers=4)


def test_the_memory_for_a_run_is_enough_to_verify_it(one_file: Path) -> None:
    """The smallest budget at all is one at which a target can be read back."""
    with pytest.raises(BudgetTooSmallError) as caught:
        dask_io.plan(one_file, chunks=4, memory=1)

    memory = caught.value.required
    found = run(
        dask_io.split, one_file, one_file.parent / "b", chunks=4, memory=memory, verify=True
    )
    assert found.verified


@pytest.mark.parametrize(
    ("options", "passes"), [({}, 1), ({"verify": True}, 1), ({"strategy": "spill"}, 2)]
)
def test_every_byte_waits_for_the_pace(
    one_file: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], passes: int
) -> None:
    """All that is read and written counts towards the rate, also for scratch and verifying."""
    waited: list[int] = []
    monkeypatch.setattr(Pace, "wait_for", lambda _, n_bytes: waited.append(n_bytes))
    target = one_file.parent / "blocks"

    run(dask_io.split, one_file, target, chunks=4, max_rate="1kB", **options)

    verified = 1 if options.get("verify") else 0
    assert sum(waited) == (2 * passes + verified) * ARRAY.nbytes


def test_several_targets_share_a_pace(one_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions that are extracted together wait for one another; without a rate nobody waits."""
    waited: dict[Pace, int] = {}

    def wait_for(pace: Pace, n_bytes: int) -> None:
        waited[pace] = waited.get(pace, 0) + n_bytes

    monkeypatch.setattr(Pace, "wait_for", wait_for)
    source, regions = dask_io.open(one_file), ["0:5,:", "5:10,:"]
    run(dask_io.extract, source, one_file.parent / "one", regions=regions, max_rate=1000)
    run(dask_io.extract, source, one_file.parent / "two", regions=regions)

    assert list(waited.values()) == [2 * ARRAY.nbytes]


@pytest.mark.parametrize("option", ["codec", "overwrite", "max_rte"])
def test_a_run_that_is_resumed_takes_no_other_options(one_file: Path, option: str) -> None:
    """What was chosen at first holds, and what is not heeded is an error."""
    target = one_file.parent / "blocks"
    run(dask_io.split, one_file, target, chunks=4)
    with pytest.raises(TypeError, match=f"unknown option {option}"):
        dask_io.resume(target, **{option: True})  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["a.h5::/x", "a.zarr::/x", "a.zarr/x", "a.icechunk::/x"])
def test_an_array_without_a_journal_is_there(place: str, one_file: Path) -> None:
    """Neither checksums nor a run to go on with; where nothing is, a line says that."""
    path = one_file.parent / place
    dask_io.resplit(one_file, path, chunks=4)
    for journal in list(one_file.parent.rglob("*.dask-io")):
        journal.unlink() if journal.is_file() else shutil.rmtree(journal)
    with pytest.raises(UsageError, match="has no checksums"):
        dask_io.verify(path)
    with pytest.raises(UsageError, match="has no journal"):
        dask_io.resume(path)
    with pytest.raises(StorageError, match="no such file"):
        dask_io.verify(one_file.parent / f"absent-{place}")


def test_a_raw_file_of_ours_describes_itself(one_file: Path) -> None:
    """By its journal, as long as it is there and nothing else is said."""
    raw = one_file.parent / "one.raw"
    dask_io.merge(one_file, raw)
    assert dask_io.verify(one_file, raw)
    assert np.array_equal(dask_io.open(raw)[:, :], ARRAY)
    assert dask_io.open(raw, shape=(7, 10), dtype="<f4").shape == (7, 10)
    (one_file.parent / ".one.raw.dask-io").unlink()
    with pytest.raises(UsageError, match="does not describe itself"):
        dask_io.open(raw)


@pytest.mark.parametrize("target", [3, -1])
def test_absurdly_many_blocks_are_refused_at_once(target: int, tmp_path: Path) -> None:
    """Whatever a file says of its shape, neither time nor memory is taken for it."""
    zarr.create_array(tmp_path / "a.zarr", shape=(2**50, 16), chunks=(5, 6), dtype="i4")
    with pytest.raises(UsageError, match=r"blocks, which is implausibly many; use larger"):
        dask_io.plan(tmp_path / "a.zarr", chunks=target, memory="64MiB")


def test_progress_is_shown_or_given_to_a_function(one_file: Path, tmp_path: Path) -> None:
    """True shows it on stderr; a function that raises stops the run, which can be resumed."""
    stopped = RuntimeError("enough")

    def stop(progress: dask_io.Progress) -> None:
        if progress.n_blocks_written > 1:
            raise stopped

    options: Any = {"chunks": 1, "workers": 1}
    dask_io.split(one_file, tmp_path / "shown", progress=True, **options)
    with pytest.raises(RuntimeError, match="enough"):
        dask_io.split(one_file, tmp_path / "stopped", progress=stop, **options)
    dask_io.resume(tmp_path / "stopped")
    assert dask_io.verify(one_file, tmp_path / "stopped")
    with pytest.raises(TypeError, match="memroy; did you mean memory"):
        dask_io.plan(one_file, chunks=1, memroy=3)  # type: ignore[call-overload]
