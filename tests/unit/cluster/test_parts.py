"""Jobs in parts: any process writes any part, in any order, any number of times."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import dask_io
from dask_io import api
from dask_io.cluster.attempts import Parts, PartState
from dask_io.cluster.begin import WorkRecord
from dask_io.cluster.finish import finish_parts
from dask_io.cluster.part import Part
from dask_io.cluster.part_task import MOVED
from dask_io.cluster.parts import PartedJob, PartsProgress, plan_parts
from dask_io.cluster.run import run_part
from dask_io.codecs import deflate
from dask_io.engine.run import Progress
from dask_io.errors import DataError, LockedError, StorageError, TargetExistsError, UsageError
from dask_io.jobs.settings import Settings
from dask_io.journal import local_log
from dask_io.journal.journal import Journal, read_lines
from dask_io.journal.part_journals import PartJournal, find_attempts, fold_parts, remove_attempts
from dask_io.storage.local.publishing import OwnNames
from dask_io.storage.location import locate

SHAPE, CHUNKS, MEMORY = (24, 20), (5, 7), 2**24
ARRAY = np.arange(np.prod(SHAPE), dtype="u2").reshape(SHAPE)
FOLD_PARTS = "dask_io.journal.journalled_target.fold_parts"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """An array in one file."""
    path = tmp_path / "a.npy"
    np.save(path, ARRAY)
    return path


def plan(source: Path, target: Path | str, count: int | None = 4, **options: Any) -> PartedJob:
    """Plan a job in parts."""
    chosen: Any = {"memory": MEMORY, "workers": 2, **options}
    job = api.plan(api.open(source), target, chunks=CHUNKS, **chosen)
    return plan_parts(job, Settings.of(**chosen), count=count)


def run(record: bytes, part: Part, **more: Any) -> dask_io.RunResult:
    """Run a part."""
    return run_part(record, part, memory=MEMORY, threads=2, **more)


def read(place: Path | str) -> Any:
    """Read all of an array."""
    return dask_io.open(place)[:, :]


class StopError(Exception):
    """Ends a part early."""


def stop_after(n_blocks: int) -> Any:
    """Return a callback that ends a run when it has written some blocks."""

    def on_progress(progress: Progress) -> None:
        if progress.n_blocks_written >= n_blocks:
            raise StopError

    return on_progress


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("out", {}),
        ("out.zarr", {"codec": "none"}),
        ("out.zarr", {"codec": "zstd:1"}),
        ("out.zarr", {"shards": (10, 14)}),
        ("out.ome.zarr", {"axes": "y,x"}),
        ("group.zarr/inner", {}),
        ("out.n5", {}),
        ("out", {"format": "nifti"}),
        ("out", {"format": "hdf5"}),
        ("out", {"format": "tiff"}),
    ],
)
def test_parts_make_the_same_target_as_one_run(
    source: Path, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    """Parts in reverse order, one of them twice, give the files of an ordinary run."""
    whole, target = tmp_path / "whole" / name, tmp_path / "parts" / name
    job = plan(source, target, **options)
    dask_io.resplit(api.open(source), whole, chunks=CHUNKS, memory=MEMORY, **options)
    record = job.begin()
    results = [run(record, part) for part in reversed(job.parts)]
    assert run(record, job.parts[0]).blocks_written == 0
    result = job.finish(results)
    assert result.blocks_written == job.target.grid.n_blocks
    assert files_of(whole.parents[name.count("/")]) == files_of(target.parents[name.count("/")])
    assert dask_io.verify(target)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of all files but journals, by relative path."""
    paths = (path for path in folder.rglob("*") if path.is_file() and ".dask-io" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_target_is_unfinished_until_all_parts_are_done(source: Path, tmp_path: Path) -> None:
    """A missing part is reported with its number, and the target cannot be read before."""
    job = plan(source, target := tmp_path / "out")
    record = job.begin()
    for part in (job.parts[0], job.parts[1], job.parts[3]):
        run(record, part)
    with pytest.raises(DataError, match=r"1 of 4 parts missing: part 3 \(0 of \d+ blocks\)"):
        job.finish()
    with pytest.raises(DataError, match="unfinished"):
        dask_io.verify(target)
    run(record, job.parts[2])
    job.finish()
    assert np.array_equal(read(target), ARRAY)


def test_finishing_twice_is_harmless(source: Path, tmp_path: Path) -> None:
    """A complete target stays as it is, and its parts have nothing to do."""
    job = plan(source, target := tmp_path / "out.zarr")
    job.run()
    before = files_of(target)
    assert finish_parts(target).blocks_skipped == job.target.grid.n_blocks
    record = plan(source, target).begin()
    assert run(record, job.parts[1]).blocks_written == 0
    assert files_of(target) == before
    assert not (target / ".dask-io" / "parts").exists()


def test_the_same_part_runs_twice_at_once(source: Path, tmp_path: Path) -> None:
    """Two attempts write the same blocks at once; the target is right, whoever is first."""
    job = plan(source, target := tmp_path / "out", count=2)
    record = job.begin()
    threads = [Thread(target=run, args=(record, part)) for part in job.parts * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    job.finish()
    assert np.array_equal(read(target), ARRAY)
    assert not list(target.glob(".*.part"))


@pytest.mark.parametrize("complete", ["resume", "parts"])
def test_an_interrupted_part_is_completed(source: Path, tmp_path: Path, complete: str) -> None:
    """Blocks of an attempt that failed are kept, by another attempt and by `resume`."""
    job = plan(source, target := tmp_path / "out.zarr", count=2)
    record = job.begin()
    with pytest.raises(StopError):
        run(record, job.parts[0], on_progress=stop_after(3))
    if complete == "resume":
        result = dask_io.resume(target, memory=MEMORY)
    else:
        results = [run(record, part) for part in job.parts]
        result = job.finish(results)
    assert result.blocks_skipped >= 3
    assert np.array_equal(read(target), ARRAY)
    assert dask_io.verify(target)


def test_parts_go_on_after_an_interrupted_resume(source: Path, tmp_path: Path) -> None:
    """Blocks that `resume` has written are skipped by the parts."""
    job = plan(source, target := tmp_path / "out", count=2)
    record = job.begin()
    with pytest.raises(StopError):
        run(record, job.parts[1], on_progress=stop_after(2))
    with pytest.raises(StopError):
        dask_io.resume(target, memory=MEMORY, progress=stop_after(5))
    results = [run(record, part) for part in job.parts]
    assert sum(result.blocks_skipped for result in results) >= 4
    job.finish(results)
    assert np.array_equal(read(target), ARRAY)
    assert dask_io.verify(target)


def test_a_running_part_is_not_overtaken(source: Path, tmp_path: Path) -> None:
    """While a part runs, neither `finish`, `resume` nor `overwrite` takes the target away."""
    job = plan(source, target := tmp_path / "out", count=2)
    record = job.begin()

    def look(_: Progress) -> None:
        with pytest.raises(LockedError, match="part 1 of 2 is still running"):
            finish_parts(target)
        with pytest.raises(LockedError, match="part 1 of 2 is still running"):
            dask_io.resume(target, memory=MEMORY)
        with pytest.raises(LockedError, match="part 1 of 2 is still running"):
            dask_io.resplit(source, target, chunks=3, memory=MEMORY, overwrite=True)

    run(record, job.parts[0], on_progress=look)
    run(record, job.parts[1])
    job.finish()
    assert np.array_equal(read(target), ARRAY)


def test_the_loser_of_a_race_notices(source: Path, tmp_path: Path) -> None:
    """An attempt whose target another attempt completes meanwhile ends without harm."""
    job = plan(source, target := tmp_path / "out", count=1)
    record = job.begin()
    done: list[bool] = []

    def overtake(_: Progress) -> None:
        if not done:
            done.append(True)
            run(record, job.parts[0])
            job.finish()

    result = run(record, job.parts[0], on_progress=overtake)
    assert result.blocks_skipped == job.target.grid.n_blocks
    assert np.array_equal(read(target), ARRAY)
    assert not (target / ".dask-io" / "parts").exists()
    assert not list(target.glob(".*.part"))


def test_the_loser_of_a_race_may_see_a_target_that_is_not_complete_yet(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its blocks are durable, so it ends without harm before the target is sealed."""
    job = plan(source, target := tmp_path / "out", count=1)
    record = job.begin()
    done: list[bool] = []

    seal = Journal.seal

    def stop(journal: Journal) -> None:
        if not isinstance(journal, PartJournal):
            raise StopError
        seal(journal)

    def overtake(_: Progress) -> None:
        if not done:
            done.append(True)
            run(record, job.parts[0])
            with pytest.raises(StopError):
                job.finish()

    monkeypatch.setattr(Journal, "seal", stop)
    result = run(record, job.parts[0], on_progress=overtake)
    assert result.blocks_skipped == job.target.grid.n_blocks
    monkeypatch.undo()
    job.finish()
    assert np.array_equal(read(target), ARRAY)


def test_a_late_attempt_leaves_nothing_in_an_object_store(source: Path) -> None:
    """It does not bring back its journal, which the run that completed the target has removed."""
    job = plan(source, f"memory://{uuid4()}/out.zarr", count=2)
    record = job.begin()
    done: list[bool] = []

    def overtake(_: Progress) -> None:
        if not done:
            done.append(True)
            for part in job.parts:
                run(record, part)
            job.finish()

    run(record, job.parts[0], on_progress=overtake)
    journal = locate(job.target.place) / ".dask-io"
    assert not (journal / "parts").is_dir()
    assert np.array_equal(read(job.target.place), ARRAY)


def test_many_processes_begin_one_job(source: Path, tmp_path: Path) -> None:
    """Whoever comes first creates the target; all others get the same record."""
    (tmp_path / "out").mkdir()
    dask_io.resplit(source, tmp_path / "out", chunks=4, memory=MEMORY, overwrite=True)
    jobs = [plan(source, tmp_path / "out", overwrite=True) for _ in range(5)]
    records: list[bytes] = []
    threads = [Thread(target=lambda job=job: records.append(job.begin())) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(records) == 5
    assert len(set(records)) == 1
    for part in jobs[0].parts:
        run(records[0], part)
    jobs[1].finish()
    assert np.array_equal(read(tmp_path / "out"), ARRAY)


def test_an_unfinished_target_is_continued_or_overwritten(source: Path, tmp_path: Path) -> None:
    """A run of all parts continues the same job, or replaces it if it may overwrite."""
    first = plan(source, target := tmp_path / "out")
    run(first.begin(), first.parts[0])
    again = plan(source, target, overwrite=True)
    assert again.run().blocks_skipped == 0
    second = plan(source, other := tmp_path / "other")
    run(second.begin(), second.parts[0])
    assert plan(source, other).run().blocks_skipped > 0
    assert np.array_equal(read(target), ARRAY)


def test_progress_tells_what_earlier_runs_wrote(source: Path, tmp_path: Path) -> None:
    """The bytes of earlier runs do not count for the speed of this one."""
    job = plan(source, tmp_path / "out")
    with pytest.raises(StopError):
        run(job.begin(), job.parts[0], on_progress=stop_after(1))
    seen: list[Progress] = []
    result = job.run(progress=seen.append)
    assert result.blocks_skipped > 0
    assert seen[-1].n_bytes_written == ARRAY.nbytes
    assert seen[-1].n_bytes_written - seen[-1].n_bytes_skipped == result.n_bytes_array


def test_a_repeated_attempt_skips_what_this_run_wrote() -> None:
    """On a cluster and in other processes, only the first attempt of a part skips earlier runs."""
    total = Progress(0, 20, 0, 4)
    seen: list[Progress] = []
    by_event = Parts([PartState(0, 1.0), PartState(1, 1.0)], total)
    counter = PartsProgress(total, seen.append)
    steps = [(0, 0, 5, 1, 5), (1, 0, 5, 1, 0), (0, 1, 10, 2, 10), (0, 0, 5, 1, 5)]
    for part, attempt, n_bytes, n_blocks, skipped in steps:
        counter.update(part, Progress(n_bytes, 10, n_blocks, 2, 0, skipped))
        if attempt == len(by_event.states[part].attempts):
            by_event.states[part].new_attempt()
        event = {"bytes": n_bytes, "blocks": n_blocks, "skipped": skipped, "kind": MOVED}
        by_event.take_note({**event, "part": part, "attempt": attempt, "worker": ""})
        assert by_event.progress() == seen[-1]
    assert (seen[-1].n_bytes_written, seen[-1].n_bytes_skipped) == (15, 5)


@pytest.mark.parametrize("task", [b"", pickle.dumps(["a task"] * 100)[:-9], b"damaged"])
def test_a_process_ends_with_the_one_that_started_it(task: bytes) -> None:
    """A process that writes parts does not wait for ever for the rest of a task."""
    reading, writing = os.pipe()
    program = f"from dask_io.cluster.worker import main; main({writing})"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=task, pass_fds=[writing], timeout=60, check=False)
    os.close(reading)
    os.close(writing)
    assert done.returncode == 0


def test_a_part_that_runs_is_not_overwritten(source: Path, tmp_path: Path) -> None:
    """A run of all parts that may overwrite is refused at once, and the part goes on."""
    job = plan(source, target := tmp_path / "out")
    record = job.begin()
    errors: list[Any] = []

    def overwrite(_: Progress) -> None:
        if not errors:
            with pytest.raises(LockedError, match="still running") as caught:
                plan(source, target, overwrite=True).run()
            errors.append(caught)

    run(record, job.parts[0], on_progress=overwrite)
    assert errors
    job.run()
    assert np.array_equal(read(target), ARRAY)


def test_two_processes_begin_in_the_same_moment(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal that is not locked yet looks like one that a killed run has left."""
    job = plan(source, tmp_path / "out", count=2)
    lock = local_log._lock  # noqa: SLF001 - between the folder and its lock
    records: list[bytes] = []

    def begin_first(folder: Path) -> int:
        if not records and folder.name.endswith(".part"):
            records.append(b"")
            records.append(plan(source, tmp_path / "out", count=2).begin())
        return lock(folder)

    monkeypatch.setattr(local_log, "_lock", begin_first)
    assert job.begin() == records[1]


@pytest.mark.parametrize(
    "options",
    [
        {"format": "zarr", "codec": "gzip:6"},
        {"format": "zarr", "codec": "zlib", "format_version": 2},
        {"format": "n5", "codec": "gzip"},
        {"format": "nifti", "codec": "gzip:1"},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_all_attempts_compress_with_one_library(
    source: Path, tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose DEFLATE library writes other bytes is refused before it writes any."""
    job = plan(source, target := tmp_path / "out", **options)
    record = job.begin()
    with monkeypatch.context() as patch:
        patch.setattr(deflate, "_LIBDEFLATE", None)
        with pytest.raises(
            StorageError, match=r"with libdeflate, but .* zlib.*pip install deflate"
        ):
            run(record, job.parts[0])
        begun = plan(source, tmp_path / "other", **options).begin()
    with pytest.raises(StorageError, match=r"compressed with zlib, but .* with libdeflate"):
        run(begun, job.parts[0])
    assert job.run().blocks_skipped == 0
    assert dask_io.verify(target)


def test_another_number_of_parts_is_refused(source: Path, tmp_path: Path) -> None:
    """Parts of different divisions could leave gaps."""
    target = tmp_path / "out"
    plan(source, target, count=4).begin()
    with pytest.raises(UsageError, match="is being written in 4 parts, but 2 are requested"):
        plan(source, target, count=2).begin()
    assert plan(source, target, count=None).cut.count == 4
    plan(source, target, count=4).run()
    with pytest.raises(TargetExistsError):
        plan(source, target, count=2).begin()


def test_processes_of_this_machine_share_a_job(source: Path, tmp_path: Path) -> None:
    """Parts are written by other processes; progress and results are those of all of them."""
    seen: list[Progress] = []
    result = dask_io.resplit(
        source,
        tmp_path / "out",
        chunks=CHUNKS,
        memory=MEMORY,
        processes=2,
        verify=True,
        progress=seen.append,
    )
    assert isinstance(result, dask_io.RunResult)
    assert result.blocks_written == 15
    assert result.verified
    assert [each.n_bytes_written for each in seen] == sorted(each.n_bytes_written for each in seen)
    assert np.array_equal(read(tmp_path / "out"), ARRAY)


@pytest.mark.parametrize("is_source", [True, False])
def test_memory_is_not_shared_with_processes(
    source: Path, tmp_path: Path, *, is_source: bool
) -> None:
    """What is in the memory of this process is refused before anything begins."""
    there = f"memory://{uuid4()}/out.zarr"
    if is_source:
        dask_io.resplit(source, there, chunks=CHUNKS, memory=MEMORY)
    places = (there, tmp_path / "out") if is_source else (source, there)
    with pytest.raises(UsageError, match="is in the memory of this process"):
        dask_io.resplit(*places, chunks=CHUNKS, memory=MEMORY, processes=2)


def test_an_error_of_a_process_is_reported_once(source: Path, tmp_path: Path) -> None:
    """An error in another process is raised here, and the rest can be resumed."""
    dask_io.resplit(source, tmp_path / "blocks", chunks=6, memory=MEMORY)
    request = api.Request("resplit", tmp_path / "blocks", tmp_path / "out", CHUNKS)
    job = api.plan_shared(request, memory=MEMORY, processes=2)
    block = next((tmp_path / "blocks").glob("*.npy"))
    content = block.read_bytes()
    block.write_bytes(content[:-1])
    with pytest.raises(DataError, match=block.name):
        job.run()
    block.write_bytes(content)


def test_one_part_is_written_by_each_call(source: Path, tmp_path: Path) -> None:
    """`part` and `finish` are all that a job array needs."""
    target = tmp_path / "out.zarr"
    for number in (3, 1, 2):
        with pytest.raises((DataError, StorageError)):
            dask_io.finish(target)
        dask_io.resplit(source, target, chunks=CHUNKS, memory=MEMORY, part=(number, 3))
    assert dask_io.finish(target, verify=True).verified
    assert np.array_equal(read(target), ARRAY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"part": (4, 3)}, "part 4/3 does not exist"),
        ({"part": "3"}, "'3' is not a part"),
        ({"part": (1, 2), "processes": 2}, "cannot both be given"),
        ({"processes": 0}, "at least one process"),
        ({"part": (1, 2), "verify": True}, r"dask_io\.finish\(verify=True\)"),
    ],
)
def test_bad_ways_to_share_are_refused(
    source: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    """Nothing is created if the request is wrong."""
    with pytest.raises(UsageError, match=message):
        dask_io.resplit(source, tmp_path / "out", chunks=CHUNKS, memory=MEMORY, **options)
    assert not (tmp_path / "out").exists()


def test_another_job_is_refused(source: Path, tmp_path: Path) -> None:
    """A target of another job is not touched, unless it may be overwritten."""
    target = tmp_path / "out"
    first = plan(source, target)
    record = first.begin()
    run(record, first.parts[0])
    with pytest.raises(TargetExistsError):
        plan(source, target, dtype="u4").begin()
    second = plan(source, target, dtype="u4", overwrite=True)
    second.run()
    assert read(target).dtype == "u4"
    with pytest.raises(StorageError, match="another run has replaced"):
        run(record, first.parts[1])
    assert np.array_equal(read(target), ARRAY)


def test_a_source_that_changes_is_noticed(source: Path, tmp_path: Path) -> None:
    """Neither `finish` nor `resume` completes a target whose source changed between parts."""
    job = plan(source, target := tmp_path / "out", count=2)
    record = job.begin()
    run(record, job.parts[0])
    np.save(source, ARRAY + 1)
    run(record, job.parts[1])
    with pytest.raises(DataError, match="has changed since the run began"):
        job.finish()
    again = plan(source, target, count=2, overwrite=True)
    again.run()
    assert np.array_equal(read(target), ARRAY + 1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("out.h5", {}, "one hdf5 file or repository, which only one process can write"),
        ("out.npy", {}, "write Zarr, or a folder of block files"),
        ("out.nii.gz", {}, "only one process can write"),
        ("out.icechunk", {}, "only one process can write"),
        ("out", {"strategy": "spill"}, "spill moves the whole array through scratch files"),
        ("out", {"durability": "none"}, "durability none writes blocks in place"),
    ],
)
def test_jobs_that_cannot_be_divided_are_refused(
    source: Path, tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    """The reason and the alternative are in the message, and nothing is created."""
    chunks = -1 if name.endswith((".npy", ".gz")) else CHUNKS
    chosen: Any = {"memory": MEMORY, **options}
    job = api.plan(api.open(source), tmp_path / name, chunks=chunks, **chosen)
    with pytest.raises(UsageError, match=message):
        plan_parts(job, Settings.of(**chosen), count=2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_a_source_is_not_consumed_in_parts(tmp_path: Path) -> None:
    """A source block may be needed by another part."""
    dask_io.resplit(_saved(tmp_path), tmp_path / "blocks", chunks=6, memory=MEMORY)
    with pytest.raises(UsageError, match="several parts may need it"):
        plan(tmp_path / "blocks", tmp_path / "out", consume=True)


def _saved(tmp_path: Path) -> Path:
    np.save(tmp_path / "a.npy", ARRAY)
    return tmp_path / "a.npy"


def test_a_region_of_a_source_is_moved_in_parts(source: Path, tmp_path: Path) -> None:
    """Parts of a region read only what they need, and the target is the region."""
    job = plan(source, target := tmp_path / "out", region="3:21,2:")
    job.run()
    assert np.array_equal(read(target), ARRAY[3:21, 2:])


def test_counted_reads_are_those_of_the_run(source: Path, tmp_path: Path) -> None:
    """Every part takes the seeks that its plan predicts, and all together those of the cut."""
    dask_io.resplit(source, tmp_path / "blocks", chunks=(7, 6), memory=MEMORY)
    job = plan(tmp_path / "blocks", tmp_path / "out", count=6)
    record = job.begin()
    results = [run(record, part) for part in job.parts]
    assert sum(each.seeks.read for each in results) == job.cut.seeks.read
    assert sum(each.seeks.write for each in results) == job.cut.seeks.write
    assert sum(each.n_bytes_read for each in results) == job.cut.n_bytes_read
    assert job.redundant.seeks == job.cut.seeks.read - job.plan.seeks.read > 0
    job.finish(results)


def test_temporary_files_of_killed_attempts_are_removed(source: Path, tmp_path: Path) -> None:
    """What a killed attempt leaves neither stays nor counts."""
    job = plan(source, target := tmp_path / "out", count=2)
    record = job.begin()
    (target / ".b_0_0.npy.~0123456789ab.part").write_bytes(b"half")
    run(record, job.parts[0])
    assert len(find_attempts(target / ".dask-io")) == 1
    run(record, job.parts[1])
    job.finish()
    assert not list(target.glob(".*.part"))
    assert np.array_equal(read(target), ARRAY)


def test_temporary_files_stay_not_even_after_an_early_finish(source: Path, tmp_path: Path) -> None:
    """The journal of the attempt that left them may be gone when the target is completed."""
    job = plan(source, target := tmp_path / "out", count=2)
    record = job.begin()
    with pytest.raises(StopError):
        run(record, job.parts[0], on_progress=stop_after(2))
    (target / ".b_0_0.npy.~0123456789ab.part").write_bytes(b"half")

    def finish(_: Progress) -> None:
        with pytest.raises(LockedError, match="part 2 of 2 is still running"):
            job.finish()
        raise StopError

    with pytest.raises(StopError):
        run(record, job.parts[1], on_progress=finish)
    [attempt] = find_attempts(target / ".dask-io")
    remove_attempts([attempt], target / ".dask-io")
    dask_io.resume(target, memory=MEMORY)
    assert not list(target.glob(".*.part"))
    assert np.array_equal(read(target), ARRAY)


def test_a_part_whose_block_was_lost_writes_it_again(source: Path, tmp_path: Path) -> None:
    """A part does not skip a block that `finish` found missing, and named."""
    job = plan(source, target := tmp_path / "out", count=2)
    record = job.begin()
    for part in job.parts:
        run(record, part)
    (target / "b_0_0.npy").unlink()
    with pytest.raises(DataError, match=r"1 of 2 parts missing: part 1 \("):
        job.finish()
    assert run(record, job.parts[0]).blocks_written == 1
    job.finish()
    assert np.array_equal(read(target), ARRAY)
    assert dask_io.verify(target)


def test_a_part_begins_while_the_parts_are_added_up(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of an attempt that `finish` has not seen at first stay."""
    job = plan(source, target := tmp_path / "out", count=2)
    record = job.begin()
    with pytest.raises(StopError):
        run(record, job.parts[0], on_progress=stop_after(2))
    has_begun, is_finished = Event(), Event()
    commit = OwnNames.commit

    def wait_then_commit(publisher: OwnNames, *names: Any) -> None:
        has_begun.set()
        is_finished.wait()
        commit(publisher, *names)

    other = Thread(target=run, args=(record, job.parts[1]))

    def fold_then_begin(*given: Any) -> Any:
        found = fold_parts(*given)
        monkeypatch.setattr(OwnNames, "commit", wait_then_commit)
        other.start()
        has_begun.wait()
        return found

    monkeypatch.setattr(FOLD_PARTS, fold_then_begin)
    with pytest.raises(LockedError, match="part 2 of 2 is still running"):
        job.finish()
    is_finished.set()
    other.join()
    monkeypatch.undo()
    run(record, job.parts[0])
    job.finish()
    assert np.array_equal(read(target), ARRAY)


def test_a_part_that_ends_while_the_parts_are_added_up(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that it writes after its journal has been read are not forgotten."""
    job = plan(source, target := tmp_path / "out", count=2)
    record = job.begin()
    run(record, job.parts[0])
    is_read, is_finished = Event(), Event()
    n_seen = 0

    def wait(_: Progress) -> None:
        nonlocal n_seen
        n_seen += 1
        if n_seen == 2:
            other_waits.set()
            is_read.wait()

    other_waits = Event()

    def write() -> None:
        run(record, job.parts[1], on_progress=wait)
        is_finished.set()

    other = Thread(target=write)
    other.start()
    other_waits.wait()

    def fold_then_end(*given: Any) -> Any:
        found = fold_parts(*given)
        is_read.set()
        is_finished.wait()
        return found

    monkeypatch.setattr(FOLD_PARTS, fold_then_end)
    with pytest.raises(LockedError, match="part 2 of 2 is still running"):
        job.finish()
    other.join()
    monkeypatch.undo()
    job.finish()
    assert np.array_equal(read(target), ARRAY)


def test_a_part_begins_while_earlier_attempts_are_removed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of an attempt count, although its journal goes before it is read."""
    job = plan(source, tmp_path / "out", count=2)
    record = job.begin()
    with pytest.raises(StopError):
        run(record, job.parts[0], on_progress=stop_after(3))
    is_gone: list[bool] = []

    def remove_then_read(folder: Path, *given: Any) -> Any:
        if folder.parent.name == "parts" and not is_gone:
            is_gone.append(True)
            with pytest.raises(DataError, match="2 of 2 parts missing"):
                job.finish()
        return read_lines(folder, *given)

    monkeypatch.setattr("dask_io.journal.part_journals.read_lines", remove_then_read)
    assert run(record, job.parts[0]).blocks_skipped >= 3
    assert is_gone


def test_a_part_of_a_target_that_is_being_replaced_writes_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins when the run that replaces the target has already looked for running parts."""
    job = plan(source, target := tmp_path / "out", count=1)
    record = job.begin()
    with pytest.raises(StopError):
        run(record, job.parts[0], on_progress=stop_after(2))
    has_begun, is_replaced = Event(), Event()
    failed: list[StorageError] = []
    commit, begin_again = OwnNames.commit, Journal.begin_again

    def wait_then_commit(publisher: OwnNames, *names: Any) -> None:
        has_begun.set()
        is_replaced.wait()
        commit(publisher, *names)

    def write() -> None:
        with pytest.raises(StorageError) as error:
            run(record, job.parts[0])
        failed.append(error.value)

    other = Thread(target=write)

    def begin_part_first(*given: Any) -> None:
        other.start()
        has_begun.wait()
        begin_again(*given)

    monkeypatch.setattr(OwnNames, "commit", wait_then_commit)
    monkeypatch.setattr(Journal, "begin_again", begin_part_first)
    changed = tmp_path / "changed.npy"
    np.save(changed, ARRAY + 1)
    dask_io.resplit(changed, target, chunks=CHUNKS, memory=MEMORY, overwrite=True)
    is_replaced.set()
    other.join()
    assert failed
    assert np.array_equal(read(target), ARRAY + 1)
    assert not list(target.glob(".*.part"))


def test_the_folder_of_the_journals_may_be_removed_just_before_one_begins(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part does not fail because `finish` has removed the last other journal."""
    job = plan(source, target := tmp_path / "out", count=1)
    record = job.begin()
    begin = Journal.begin.__func__  # type: ignore[attr-defined]  # of a class method
    is_gone: list[bool] = []

    def remove_then_begin(journal: type[Journal], folder: Path, *given: Any, **more: Any) -> Any:
        if not is_gone:
            is_gone.append(True)
            (target / ".dask-io" / "parts").rmdir()
        return begin(journal, folder, *given, **more)

    monkeypatch.setattr(Journal, "begin", classmethod(remove_then_begin))
    run(record, job.parts[0])
    assert is_gone
    job.finish()
    assert np.array_equal(read(target), ARRAY)


def test_a_damaged_target_of_parts_is_repaired(source: Path, tmp_path: Path) -> None:
    """The folded journal has the checksums of all blocks."""
    job = plan(source, target := tmp_path / "out.zarr")
    job.run(verify=True)
    chunk = next(path for path in target.rglob("*") if path.is_file() and path.name == "1")
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"x")
    assert not dask_io.verify(target)
    assert dask_io.repair(target, memory=MEMORY).damaged
    assert np.array_equal(read(target), ARRAY)


def test_a_record_is_plain_data(source: Path, tmp_path: Path) -> None:
    """A record survives the way to another process."""
    record = plan(source, tmp_path / "out").begin()
    assert WorkRecord.from_bytes(record).to_bytes() == record
