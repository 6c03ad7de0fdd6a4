"""What is empty, tiny, huge, full, in the way, changed or interrupted ends well."""

import os
import pickle
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dask_io
from dask_io.engine.run import Progress
from dask_io.errors import (
    DataError,
    InterruptedRunError,
    SamePlaceError,
    StorageError,
    TargetExistsError,
    UsageError,
)
from tests.commands import fail, run


def noise(shape: tuple[int, ...], dtype: str = "<i4") -> NDArray[Any]:
    """An array of random numbers."""
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


def make_source(folder: Path, array: NDArray[Any], chunks: tuple[int, ...]) -> Path:
    """Write an array as blocks with NumPy."""
    folder.mkdir()
    counts = (range(-(-n // chunk)) for n, chunk in zip(array.shape, chunks, strict=True))
    for index in product(*counts):
        place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))
        np.save(folder / f"b_{'_'.join(map(str, index))}.npy", array[place])
    return folder


def n_partial(folder: Path) -> int:
    """Number of block files in the making that were left behind."""
    return sum(1 for path in folder.rglob(".b_*.part"))


def check_blocks(folder: Path, array: NDArray[Any], chunks: tuple[int, ...]) -> int:
    """Check that blocks that are there are right; return how many there are."""
    found = [path for path in folder.iterdir() if re.fullmatch(r"b_[0-9_]+\.npy", path.name)]
    for path in found:
        index = [int(number) for number in re.findall("[0-9]+", path.name)]
        place = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))
        np.testing.assert_array_equal(np.load(path), array[place])
    return len(found)


def whole(path: Path) -> NDArray[Any]:
    """All of a store as an array."""
    return dask_io.open(path)[...]


# Shapes and blocks.


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0, 5), (0, 0)])
def test_an_array_without_elements(quick_path: Path, shape: tuple[int, ...]) -> None:
    """An array with an empty axis is resplit, merged, split and verified like any other."""
    np.save(quick_path / "one.npy", np.zeros(shape, "<i2"))

    dask_io.split(quick_path / "one.npy", quick_path / "blocks", chunks=2, verify=True)
    dask_io.resplit(quick_path / "blocks", quick_path / "others", chunks=3, verify=True)
    result = dask_io.merge(quick_path / "others", quick_path / "merged.npy", verify=True)

    assert isinstance(result, dask_io.RunResult)
    assert (result.seeks.total, result.blocks_written, result.held) == (0, 0, 0)
    merged = np.load(quick_path / "merged.npy")
    assert (merged.shape, merged.dtype) == (shape, np.dtype("<i2"))
    assert dask_io.open(quick_path / "others")[...].shape == shape


def test_blocks_of_one_element(quick_path: Path) -> None:
    """Blocks of one element are split and merged again."""
    array = noise((4, 3, 2))
    np.save(quick_path / "one.npy", array)

    dask_io.split(quick_path / "one.npy", quick_path / "blocks", chunks=1, memory="100kB")
    dask_io.merge(quick_path / "blocks", quick_path / "merged.npy", memory="100kB")

    assert check_blocks(quick_path / "blocks", array, (1, 1, 1)) == array.size
    np.testing.assert_array_equal(np.load(quick_path / "merged.npy"), array)


def test_the_sources_own_grid(quick_path: Path) -> None:
    """A target with the source's blocks is a copy, each block touched once on either side."""
    array = noise((10, 7))
    source = make_source(quick_path / "source", array, (4, 3))

    result = dask_io.resplit(source, quick_path / "target", chunks=(4, 3), memory="1MB")

    assert isinstance(result, dask_io.RunResult)
    assert (result.seeks.read, result.seeks.write) == (9, 9)
    assert check_blocks(quick_path / "target", array, (4, 3)) == 9


def test_a_block_larger_than_the_array(quick_path: Path) -> None:
    """A block shape beyond the array's gives one block of all."""
    array = noise((10, 7))
    source = make_source(quick_path / "source", array, (4, 3))

    dask_io.resplit(source, quick_path / "target", chunks=(4000, 3000))

    assert check_blocks(quick_path / "target", array, (4000, 3000)) == 1


def test_irregular_chunks(quick_path: Path) -> None:
    """Blocks of any lengths are written and read back."""
    array = noise((10, 7))
    source = make_source(quick_path / "source", array, (4, 3))

    dask_io.resplit(source, quick_path / "uneven", chunks=((3, 6, 1), (2, 2, 3)))
    dask_io.resplit(quick_path / "uneven", quick_path / "target", chunks=(4, 3), verify=True)

    assert dask_io.open(quick_path / "uneven").chunks == ((3, 6, 1), (2, 2, 3))
    assert check_blocks(quick_path / "target", array, (4, 3)) == 9


@pytest.mark.parametrize("memory", ["17kB", "20kB", "1MB"])
@pytest.mark.parametrize("suffix", ["npy", "raw"])
def test_order_is_changed_and_back(quick_path: Path, memory: str, suffix: str) -> None:
    """C order becomes F order and C order again, with little memory and with much."""
    array = noise((10, 7, 5), ">f8")
    np.save(quick_path / "one.npy", array)

    options: dict[str, Any] = {"memory": memory, "format": suffix}
    dask_io.split(quick_path / "one.npy", quick_path / "f", chunks=4, order="F", **options)
    dask_io.resplit(quick_path / "f", quick_path / "c", chunks=3, order="C", **options)
    dask_io.merge(quick_path / "c", quick_path / "merged.npy", order="F", memory=memory)

    assert [dask_io.info(quick_path / name).order for name in "fc"] == ["F", "C"]
    merged = np.load(quick_path / "merged.npy")
    assert merged.dtype == array.dtype
    assert merged.flags.f_contiguous
    np.testing.assert_array_equal(merged, array)


def test_planning_beyond_64_bits() -> None:
    """An array of more than 2**63 elements is planned, exactly."""
    shape = (2**40, 2**30, 3 * 2**20)

    plan = dask_io.plan_shape(shape, "float64", 2**10, (2**11, 2**9, 2**10), memory="64GiB")

    assert plan.fits
    assert plan.problem.n_bytes == 3 * 2**93
    assert plan.problem.lower_bound == 3 * 2**60 * 2
    assert plan.seeks.total >= plan.problem.lower_bound


# Places.


def test_source_and_target_in_one_place(quick_path: Path) -> None:
    """A target that is the source, in it, around it or linked to it is refused."""
    source = make_source(quick_path / "source", noise((10, 7)), (4, 3))
    (quick_path / "link").symlink_to(source)
    (quick_path / "around").symlink_to(quick_path)
    targets = [
        source,
        source / "inside",
        quick_path,
        quick_path / "link",
        quick_path / "link" / "x",
    ]

    for target in [*targets, quick_path / "around" / "source"]:
        with pytest.raises(SamePlaceError):
            dask_io.resplit(source, target, chunks=5, overwrite=True)

    assert check_blocks(source, noise((10, 7)), (4, 3)) == 9


def test_an_existing_target_is_refused(quick_path: Path) -> None:
    """What exists stays as it is, unless it may be overwritten."""
    array = noise((10, 7))
    source = make_source(quick_path / "source", array, (4, 3))
    dask_io.resplit(source, quick_path / "target", chunks=5)

    with pytest.raises(TargetExistsError):
        dask_io.resplit(source, quick_path / "target", chunks=3)
    assert check_blocks(quick_path / "target", array, (5, 5)) == 4

    dask_io.resplit(source, quick_path / "target", chunks=3, overwrite=True)
    assert check_blocks(quick_path / "target", array, (3, 3)) == 12


def test_overwriting_keeps_foreign_files(quick_path: Path) -> None:
    """A directory that holds something else is not overwritten, nor is any of it touched."""
    array = noise((10, 7))
    source = make_source(quick_path / "source", array, (4, 3))
    dask_io.resplit(source, quick_path / "target", chunks=5)
    (quick_path / "target" / "notes.txt").write_text("mine")

    with pytest.raises(UsageError, match=r"notes\.txt"):
        dask_io.resplit(source, quick_path / "target", chunks=3, overwrite=True)

    assert check_blocks(quick_path / "target", array, (5, 5)) == 4
    assert (quick_path / "target" / "notes.txt").read_text() == "mine"


def test_a_file_in_place_of_a_directory(quick_path: Path) -> None:
    """A target below a file cannot be made, and that is said."""
    source = make_source(quick_path / "source", noise((10, 7)), (4, 3))
    (quick_path / "file").write_text("mine")

    with pytest.raises(StorageError):
        dask_io.resplit(source, quick_path / "file" / "target", chunks=5)

    assert (quick_path / "file").read_text() == "mine"


@pytest.mark.linux
def test_a_target_that_cannot_be_written(quick_path: Path) -> None:
    """A place that takes no files, whoever asks, is a matter of storage."""
    source = make_source(quick_path / "source", noise((10, 7)), (4, 3))

    with pytest.raises(StorageError, match="/proc/"):
        dask_io.resplit(source, "/proc/self/target", chunks=5)


@pytest.mark.linux
def test_a_read_only_filesystem(quick_path: Path, small_disk: Path) -> None:
    """A filesystem that is mounted for reading only is a matter of storage."""
    source = make_source(quick_path / "source", noise((10, 7)), (4, 3))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    with pytest.raises(StorageError, match="Read-only"):
        dask_io.resplit(source, small_disk / "folder" / "target", chunks=5)


# A source that is not what it was.


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("n_bytes", [0, 100, 140])
def test_a_source_truncated_meanwhile(quick_path: Path, workers: int, n_bytes: int) -> None:
    """A block that has shrunk since it was listed is named, and nothing unfinished stays."""
    array = noise((10, 7))
    source = make_source(quick_path / "source", array, (4, 3))
    job = dask_io.plan(source, quick_path / "target", chunks=5, workers=workers)
    os.truncate(source / "b_1_1.npy", n_bytes)

    with pytest.raises(DataError, match=r"b_1_1\.npy"):
        job.run()

    assert n_partial(quick_path) == 0
    if (quick_path / "target").exists():
        check_blocks(quick_path / "target", array, (5, 5))
        assert not (quick_path / "target" / "dask-io.json").exists()


def test_a_source_changed_meanwhile(quick_path: Path) -> None:
    """A block that has another shape or type by now is named."""
    source = make_source(quick_path / "source", noise((10, 7)), (4, 3))
    job = dask_io.plan(source, quick_path / "target", chunks=5)
    np.save(source / "b_1_1.npy", noise((3, 4)))

    with pytest.raises(DataError, match=r"b_1_1\.npy.*shape"):
        job.run()


def test_a_source_gone_meanwhile(quick_path: Path) -> None:
    """A block that is no longer there is named."""
    source = make_source(quick_path / "source", noise((10, 7)), (4, 3))
    job = dask_io.plan(source, quick_path / "target", chunks=5)
    (source / "b_1_1.npy").unlink()

    with pytest.raises(StorageError, match=r"b_1_1\.npy"):
        job.run()
    assert n_partial(quick_path) == 0


# A target that fills up.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 256 KiB; without the right to mount one, the test is skipped."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a filesystem")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.linux
def test_a_target_without_room_is_refused(quick_path: Path, small_disk: Path) -> None:
    """An array that cannot fit is refused before anything is written."""
    source = make_source(quick_path / "source", noise((400, 400)), (100, 100))

    with pytest.raises(StorageError, match="free"):
        dask_io.resplit(source, small_disk / "target", chunks=150)

    assert not (small_disk / "target").exists()


@pytest.mark.linux
@pytest.mark.parametrize("workers", [1, 4])
def test_a_target_that_fills_up(quick_path: Path, small_disk: Path, workers: int) -> None:
    """When the disk is full, what is there of the target is whole and nothing else is there."""
    array = noise((160, 160))
    source = make_source(quick_path / "source", array, (80, 80))

    def use_up(progress: Progress) -> None:
        # Someone else takes what is left, which the check beforehand cannot know.
        if progress.n_blocks_written:
            with suppress(OSError):
                (small_disk / "other").write_bytes(bytes(256 * 2**10))

    with pytest.raises(StorageError, match="No space left"):
        dask_io.resplit(
            source,
            small_disk / "target",
            chunks=40,
            workers=workers,
            strategy="keep",
            progress=use_up,
        )

    assert n_partial(small_disk) == 0
    assert not (small_disk / "target" / "dask-io.json").exists()
    assert 0 < check_blocks(small_disk / "target", array, (40, 40)) < 16


LIMITED = """
import resource, signal, sys
import dask_io

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
job = dask_io.plan(sys.argv[1], sys.argv[2], chunks=-1, workers=int(sys.argv[3]))
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    job.run()
except dask_io.errors.StorageError as error:
    print(error)
"""


@pytest.mark.parametrize("workers", [1, 4])
def test_a_file_that_may_not_grow(quick_path: Path, workers: int) -> None:
    """A limit on the size of files ends in the same way."""
    source = make_source(quick_path / "source", noise((100, 100)), (50, 50))

    shown = run_script(LIMITED, source, quick_path / "target", workers)

    assert "File too large" in shown
    assert n_partial(quick_path) == 0
    assert not list(quick_path.glob("target/b_*"))
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 20_000


def run_script(script: str, *arguments: object) -> str:
    """Run a script that has to end within seconds, and return what it prints."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


# Interrupts and errors in the middle.


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize(
    ("raised", "expected"),
    [(KeyboardInterrupt, InterruptedRunError), (RuntimeError, RuntimeError)],
)
def test_an_error_in_a_thread_ends_the_run(
    quick_path: Path,
    workers: int,
    raised: type[BaseException],
    expected: type[BaseException],
) -> None:
    """The first error stops everyone; what is there of the target is whole."""
    array = noise((60, 60))
    source = make_source(quick_path / "source", array, (15, 15))

    def stop(progress: dask_io.Progress) -> None:
        if progress.n_blocks_written > 5:
            raise raised

    with pytest.raises(expected):
        dask_io.resplit(source, quick_path / "target", chunks=7, workers=workers, progress=stop)

    assert n_partial(quick_path) == 0
    assert not (quick_path / "target" / "dask-io.json").exists()
    assert 5 < check_blocks(quick_path / "target", array, (7, 7)) < 81


INTERRUPTED = """
import signal, sys, time
import dask_io

# Ignored if the tests run in the background of a shell.
signal.signal(signal.SIGINT, signal.default_int_handler)

def slowly(progress):
    if progress.n_blocks_written == 3:
        print("ready", flush=True)
    time.sleep(0.02)

try:
    dask_io.resplit(
        sys.argv[1], sys.argv[2], chunks=7, workers=int(sys.argv[3]), memory=sys.argv[4],
        progress=slowly,
    )
except dask_io.errors.InterruptedRunError as error:
    print("interrupted", error)
"""


@pytest.mark.parametrize("memory", ["30kB", "10MB"])
@pytest.mark.parametrize("workers", [1, 4])
def test_an_interrupt_from_outside(quick_path: Path, workers: int, memory: str) -> None:
    """Ctrl-C ends a run soon; blocks that are there are right, and none is in the making."""
    array = noise((140, 140))
    source = make_source(quick_path / "source", array, (20, 20))
    target = quick_path / "target"
    command = [sys.executable, "-c", INTERRUPTED, str(source), str(target), str(workers), memory]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        shown, _ = child.communicate(timeout=60)

    assert shown.startswith("interrupted")
    assert n_partial(quick_path) == 0
    assert not (target / "dask-io.json").exists()
    assert 3 <= check_blocks(target, array, (7, 7)) < 400

    dask_io.resplit(source, target, chunks=7, overwrite=True, verify=True)


def test_a_killed_run_stays_unfinished(quick_path: Path) -> None:
    """What a kill leaves is refused as a source, also after another run was refused."""
    array = noise((140, 140))
    source = make_source(quick_path / "source", array, (20, 20))
    target = quick_path / "target"
    command = [sys.executable, "-c", INTERRUPTED, str(source), str(target), "1", "30kB"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.kill()

    for strategy in ("keep", "spill"):
        with pytest.raises(TargetExistsError):
            dask_io.resplit(source, target, chunks=7, strategy=strategy)
        with pytest.raises(DataError, match="unfinished"):
            dask_io.open(target)
    dask_io.resplit(source, target, chunks=7, overwrite=True, verify=True)


@pytest.mark.parametrize("strategy", ["keep", "spill"])
def test_a_job_runs_once(quick_path: Path, strategy: str) -> None:
    """A second run is refused as the first would have been; without the target it runs again."""
    array = noise((20, 20))
    source = make_source(quick_path / "source", array, (5, 20))
    target = quick_path / "target"
    job = dask_io.plan(source, target, chunks=(20, 5), strategy=strategy, memory="1MB")

    job.run()
    written = {path.name: path.stat().st_ino for path in target.iterdir()}
    with pytest.raises(TargetExistsError):
        job.run()

    assert {path.name: path.stat().st_ino for path in target.iterdir()} == written
    shutil.rmtree(target)
    job.run(verify=True)


@pytest.mark.parametrize("strategy", ["keep", "spill"])
def test_a_job_runs_again_after_a_failure(quick_path: Path, strategy: str) -> None:
    """A run that failed before any block was whole leaves nothing in the way of the next."""
    array = noise((20, 20))
    source = make_source(quick_path / "source", array, (5, 20))
    target = quick_path / "target"
    job = dask_io.plan(source, target, chunks=(20, 5), strategy=strategy, memory="1MB")
    block, aside = source / "b_3_0.npy", quick_path / "aside"

    block.rename(aside)
    with pytest.raises(StorageError):
        job.run()
    assert not target.exists()
    aside.rename(block)

    job.run(verify=True)


FAILING = """
import sys, threading
import dask_io
from dask_io.stores.block_files import BlockFiles

read = BlockFiles.reader

def fail(self, index, **options):
    if index == (3, 3):
        raise RuntimeError("this block fails")
    return read(self, index, **options)

BlockFiles.reader = fail
try:
    dask_io.resplit(
        sys.argv[1], sys.argv[2], chunks=7, workers=int(sys.argv[3]), memory=sys.argv[4]
    )
except RuntimeError as error:
    print(error, threading.active_count())
"""


@pytest.mark.parametrize("memory", ["30kB", "10MB"])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_failing_thread_leaves_nobody_waiting(
    quick_path: Path, workers: int, memory: str
) -> None:
    """A run in which one block fails ends, with that error, and no thread stays behind."""
    array = noise((140, 140))
    source = make_source(quick_path / "source", array, (20, 20))

    shown = run_script(FAILING, source, quick_path / "target", workers, memory)

    assert shown == "this block fails 1\n"
    assert n_partial(quick_path) == 0


# The array that `open` returns.


INDICES: list[Any] = [
    ...,
    3,
    -1,
    (2, -3, 1),
    slice(2, 9),
    slice(None, None, 2),
    slice(9, 2, -3),
    slice(-4, None),
    slice(5, 5),
    slice(100, 200),
    (..., 2),
    (1, ...),
    (slice(1, 8, 3), 0, slice(None, None, -1)),
    (slice(3, None), ..., slice(-2, None)),
    (np.int64(4), slice(None), np.int64(-1)),
    (),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_indexing_is_numpys(quick_path: Path, index: Any, order: str) -> None:
    """Integers, slices with any step and the ellipsis give what they give in NumPy."""
    array = noise((10, 7, 5))
    np.save(quick_path / "one.npy", array)
    dask_io.split(quick_path / "one.npy", quick_path / "blocks", chunks=(4, 3, 2), order=order)
    blocks = dask_io.open(quick_path / "blocks")

    found = blocks[index]

    expected = array[index]
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (10, "index 10 is out of range: axis 0 has 10 elements"),
        (-11, "index -11 is out of range: axis 0 has 10 elements"),
        ((0, 0, 0, 0), "4 indices for an array of 2 axes"),
        ((0, 7), "index 7 is out of range: axis 1 has 7 elements"),
        ((slice(3), [1, 2]), "integers and slices as index, but that of axis 1 is a list"),
        (np.array([1, 2]), "integers and slices as index, but that of axis 0 is a ndarray"),
    ],
    ids=str,
)
def test_an_index_outside_is_refused(quick_path: Path, index: Any, said: str) -> None:
    """An index beyond the array, or for more axes than it has, or one that only NumPy takes."""
    source = make_source(quick_path / "source", noise((10, 7)), (4, 3))

    with pytest.raises(IndexError, match=said):
        dask_io.open(source)[index]


def test_dask_reads_our_blocks(quick_path: Path) -> None:
    """A Dask array made of an open store has its chunks and its values."""
    dask_array = pytest.importorskip("dask.array")
    array = noise((10, 7))
    source = make_source(quick_path / "source", array, (4, 3))
    blocks = dask_io.open(source)

    chunked = dask_array.from_array(blocks, chunks=blocks.chunks)

    assert chunked.chunks == ((4, 4, 2), (3, 3, 1))
    np.testing.assert_array_equal(chunked.compute(scheduler="threads"), array)
    np.testing.assert_array_equal(
        dask_array.from_array(blocks)[2:5, ::2].compute(), array[2:5, ::2]
    )
    np.testing.assert_array_equal(whole(source), array)


@pytest.mark.parametrize("strategy", ["auto", "keep", "spill"])
def test_a_job_travels_to_another_process(quick_path: Path, strategy: str) -> None:
    """A job that was planned here can be pickled and run elsewhere."""
    array = noise((20, 20))
    source = make_source(quick_path / "source", array, (5, 20))
    options: dict[str, Any] = {"chunks": (20, 5), "strategy": strategy, "memory": "1MB"}
    job = dask_io.plan(source, quick_path / "a", **options)
    pickle.loads(pickle.dumps(job)).run(verify=True)  # noqa: S301 - our own
    np.testing.assert_array_equal(whole(quick_path / "a"), array)

    pytest.importorskip("dask")
    later: Any = dask_io.resplit(source, quick_path / "b", compute=False, **options)
    later.compute(scheduler="processes", num_workers=1)
    np.testing.assert_array_equal(whole(quick_path / "b"), array)


def test_errors_say_what_to_do_and_nothing_twice(tmp_path: Path) -> None:
    """About missing and truncated blocks, checksums that differ, reports and names to merge."""
    np.save(tmp_path / "x.npy", np.arange(64.0))
    run("split", tmp_path / "x.npy", tmp_path / "b", "--chunks", 16)
    block = tmp_path / "b" / "b_1.npy"
    content = bytearray(block.read_bytes())
    content[-1] ^= 1
    block.write_bytes(content)
    assert "differs from its checksums" not in (told := fail("verify", tmp_path / "b", code=1))
    assert told.count("differs") == 1
    block.write_bytes(content[:20])
    assert "but its data alone needs 128" in fail("info", tmp_path / "b", code=1)
    block.unlink()
    told = fail("info", tmp_path / "b", code=1)
    assert "b_1.npy is missing; repair it with: dask-io repair" in told
    told = fail("merge", tmp_path / "x.npy", tmp_path / "y.gz.", code=2)
    assert "y.gz.npy, for example" in told
    told = fail("plan", tmp_path / "x.npy", "--chunks", 8, "--report", tmp_path / "p.htm", code=2)
    assert "end in .html" in told
