"""Parts whose processes are killed, run twice or interrupted: nothing is lost or wrong."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dask_io
from dask_io import api
from dask_io.cluster import processes
from dask_io.errors import DataError, InterruptedRunError, StorageError
from dask_io.journal.part_journals import find_whole_blocks
from tests.places import temporary_folder

if TYPE_CHECKING:
    from pathlib import Path

    from dask_io.api import PartedJob, Progress

ARRAY = np.random.default_rng(0).integers(0, 2**15, (60, 80), dtype="<i2")
CHUNKS, MEMORY, COUNT = (7, 9), 2**22, 6
# They have loaded what a run needs, so that most of their time is the run.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["dask_io.api"])
TARGETS: list[tuple[str, dict[str, Any]]] = [
    ("out", {}),
    ("out.zarr", {"codec": "none"}),
    ("out.zarr", {"codec": "zstd:1"}),
]


def plan(folder: Path, name: str, **options: Any) -> PartedJob:
    """Plan a job in parts, from a source that is made if it is missing."""
    source = folder / "blocks"
    if not source.exists():
        np.save(folder / "a.npy", ARRAY)
        dask_io.resplit(folder / "a.npy", source, chunks=(11, 13), memory=MEMORY)
    return dask_io.plan_parts(
        source,
        folder / name,
        chunks=CHUNKS,
        parts=COUNT,
        memory=MEMORY,
        workers=2,
        durability="rename",
        **options,
    )


def check(folder: Path, name: str) -> None:
    """Check that a target is complete and right, and that nothing else is left."""
    target = folder / name
    assert np.array_equal(dask_io.open(target)[:, :], ARRAY)
    assert dask_io.verify(target, memory=MEMORY)
    assert not list(target.rglob("*.part"))
    assert sorted(path.name for path in (target / ".dask-io").iterdir()) == ["journal", "lock"]


class StopError(Exception):
    """Ends a part early."""


def run(job: PartedJob, record: bytes, number: int, most: int | None = None) -> None:
    """Run a part, or only until it has written some blocks."""
    n_seen = 0

    def on_progress(_: Progress) -> None:
        nonlocal n_seen
        n_seen += 1
        if n_seen == most:
            raise StopError

    with suppress(StopError):
        dask_io.run_part(
            record, job.part(number), memory=MEMORY, threads=2, on_progress=on_progress
        )


@settings(max_examples=settings().max_examples // 10)
@given(
    target=st.sampled_from(TARGETS),
    attempts=st.lists(
        st.tuples(st.integers(1, COUNT), st.none() | st.integers(1, 9)), max_size=2 * COUNT
    ),
    folds=st.sets(st.integers(0, 2 * COUNT), max_size=3),
    resumes=st.booleans(),
)
def test_any_sequence_of_attempts_gives_the_same_target(
    target: tuple[str, dict[str, Any]],
    attempts: list[tuple[int, int | None]],
    folds: set[int],
    resumes: bool,  # noqa: FBT001 - drawn
) -> None:
    """Parts in any order, repeated or cut short, with early finishes in between."""
    name, options = target
    with temporary_folder() as folder:
        job = plan(folder, name, **options)
        record = job.begin()
        for step, (number, most) in enumerate(attempts):
            run(job, record, number, most)
            if step in folds:
                # Usually parts are still missing, but their journals are added up.
                with suppress(DataError):
                    job.finish()
        if resumes:
            dask_io.resume(folder / name, memory=MEMORY)
        else:
            for number in range(1, COUNT + 1):
                run(job, record, number)
            job.finish()
        check(folder, name)


def run_then_tell(begun: Any, job: PartedJob, record: bytes, number: int) -> None:
    """Run a part in a process of its own, and tell when the process is ready."""
    begun.set()
    run(job, record, number)


def soak(folder: Path, name: str, options: dict[str, Any], seed: int, *, rounds: int = 1) -> int:
    """Run parts at once in processes that are killed; return how many were killed in a run."""
    chance, n_killed = random.Random(seed), 0
    job = plan(folder, name, **options)
    record = job.begin()
    for _ in range(rounds):
        # The same part may run twice at once.
        numbers = [chance.randint(1, COUNT) for _ in range(3)]
        begun = [PROCESSES.Event() for _ in numbers]
        started = [
            PROCESSES.Process(target=run_then_tell, args=(event, job, record, number))
            for event, number in zip(begun, numbers, strict=True)
        ]
        for process in started:
            process.start()
        for process, event in zip(started, begun, strict=True):
            event.wait()
            time.sleep(chance.uniform(0, 0.1))
            process.kill()
            process.join()
            n_killed += process.exitcode == -signal.SIGKILL
    if chance.random() < 0.5:
        dask_io.resume(folder / name, memory=MEMORY)
    else:
        for number in range(1, COUNT + 1):
            run(job, record, number)
        job.finish()
    check(folder, name)
    return n_killed


@pytest.mark.parametrize(("name", "options"), TARGETS[:2])
def test_parts_survive_kills(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    """Parts are killed at random moments; then `finish` or `resume` completes the target."""
    print(f"{soak(tmp_path, name, options, seed=1)} of 3 processes were killed")  # noqa: T201


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), TARGETS)
def test_parts_survive_many_kills(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    """The same, many times, with other moments each time."""
    n_killed = 0
    for seed in range(100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        n_killed += soak(folder, name, options, seed, rounds=2)
    print(f"{n_killed} of 600 processes were killed in a part")  # noqa: T201
    assert n_killed > 60


def share(folder: Path) -> Any:
    """Plan a job for two processes."""
    plan(folder, "unused")
    request = api.Request("resplit", folder / "blocks", folder / "out", CHUNKS)
    return api.plan_shared(request, memory=MEMORY, processes=2)


def test_a_killed_process_is_replaced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part whose process is killed runs again; the result is that of an undisturbed run."""
    job = share(tmp_path)
    killed: list[int] = []
    crew = processes._Crew  # noqa: SLF001 - where processes are started
    start = crew._started  # noqa: SLF001 - as above

    def kill_first(one: Any, process: Any) -> None:
        start(one, process)
        if not killed:
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)

    monkeypatch.setattr(crew, "_started", kill_first)
    job.run()
    assert killed
    check(tmp_path, "out")


def test_processes_that_keep_dying_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a part kills its process again, the run ends with one line, and can be resumed."""
    monkeypatch.setattr(processes, "_PROGRAM", "import os; os.kill(os.getpid(), 9)  # {}")
    with pytest.raises(StorageError, match=r"was killed by SIGKILL, 2 times.*dask_io\.resume"):
        share(tmp_path).run()
    dask_io.resume(tmp_path / "out", memory=MEMORY)
    check(tmp_path, "out")


def test_an_interrupt_ends_all_processes(tmp_path: Path) -> None:
    """After Ctrl-C no process is left, and the rest can be resumed."""

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    job = share(tmp_path)
    with pytest.raises(InterruptedRunError, match=r"dask_io\.resume"):
        job.run(progress=interrupt)
    dask_io.resume(tmp_path / "out", memory=MEMORY)
    check(tmp_path, "out")


def test_leftovers_of_late_attempts_are_removed(tmp_path: Path) -> None:
    """An attempt that was killed after the target was complete leaves nothing for long."""
    job = plan(tmp_path, "out")
    record = job.begin()
    for number in range(1, COUNT + 1):
        run(job, record, number)
    job.finish()
    parts = tmp_path / "out" / ".dask-io" / "parts"
    for resumes in (False, True):
        left = parts / ".00001-of-00006.0123456789ab.01234567.part"
        left.mkdir(parents=True)
        (left / "lock").touch()
        if resumes:
            dask_io.resume(tmp_path / "out", memory=MEMORY)
        else:
            job.finish()
        check(tmp_path, "out")


def test_an_attempt_that_begins_too_late_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target is completed just before an attempt creates its journal; it removes it again."""
    job = plan(tmp_path, "out")
    record = job.begin()
    is_late: list[bool] = []

    def find_then_complete(*given: Any) -> Any:
        found = find_whole_blocks(*given)
        if not is_late:
            is_late.append(True)
            for number in range(1, COUNT + 1):
                run(job, record, number)
            job.finish()
        return found

    where = "dask_io.journal.journalled_target.find_whole_blocks"
    monkeypatch.setattr(where, find_then_complete)
    run(job, record, 1)
    assert is_late
    check(tmp_path, "out")
