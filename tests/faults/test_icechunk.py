"""A commit is there or not, wherever a run into an icechunk repository is cut short."""

from __future__ import annotations

import errno
import multiprocessing
import random
import shutil
import time
from threading import Thread
from typing import TYPE_CHECKING, Any

import icechunk
import numpy as np
import pytest
import zarr

import dask_io
from dask_io.engine import commit
from dask_io.errors import DaskIOError, DataError, InterruptedRunError, LockedError
from dask_io.journal.journal import Journal, is_sealed, is_unfinished
from dask_io.journal.logs import logs_of
from dask_io.storage.own_names import sidecar_name
from dask_io.testing.faults import Faults, Killed, inject

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from pathlib import Path

ARRAY = np.random.default_rng(0).integers(1, 2**15, (200, 300), dtype="<i2")
KILLED = -9
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["dask_io.api"])


def _history(place: Path) -> list[str]:
    """Return the messages of commits, but for the one that every repository begins with."""
    if not (place / "refs" / "branch.main" / "ref.json").exists():
        return []
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(place)))
    return [each.message for each in repository.ancestry(branch="main")][:-1]


def _check(place: Path, array: str, values: Any) -> None:
    """Check with zarr-python that an array is there as a whole."""
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(place)))
    made = zarr.open_array(repository.readonly_session("main").store, path=array, mode="r")
    assert np.array_equal(np.asarray(made[...]), values)


@pytest.mark.parametrize("inside", ["", "::/day/1"])
def test_a_run_survives_kills(quick_path: Path, inside: str) -> None:
    """Killed at random moments it has left no commit, or the only one, which is right."""
    np.save(quick_path / "in.npy", ARRAY)
    place, chance, n_kills = quick_path / "x.icechunk", random.Random(), 0
    target = f"{place}{inside}"
    journal = quick_path / f"x.icechunk{inside.replace('::/', '::').replace('/', '::')}.dask-io"
    while not (n_kills and logs_of(journal).exists(journal) and is_sealed(journal)):
        if logs_of(journal).exists(journal) and is_sealed(journal):
            # It ended before it could be killed: once more.
            shutil.rmtree(place)
            logs_of(journal).remove(journal)
        run = _start(quick_path, target, is_begun=logs_of(journal).exists(journal))
        if n_kills < 6:
            _kill_some_time(run, journal, chance)
        run.join()
        assert run.exitcode in (0, KILLED), "it ended in an error"
        n_kills += run.exitcode == KILLED
        if _history(place):
            _check(place, inside.strip(":/"), ARRAY)

    assert len(_history(place)) == 1
    assert dask_io.verify(target).equal
    assert sorted(path.name for path in quick_path.iterdir()) == sorted(
        ["in.npy", "x.icechunk", sidecar_name(journal.name)]
    )


def _start(folder: Path, target: str, *, is_begun: bool) -> BaseProcess:
    options: dict[str, Any] = {"device": "ssd", "strategy": "naive"}
    call, places = dask_io.resume, [target]
    if not is_begun:
        call, places = dask_io.resplit, [str(folder / "in.npy"), target]  # type: ignore[assignment]
        options["chunks"] = (10, 15)
    run = PROCESSES.Process(target=call, args=places, kwargs=options)
    run.start()
    return run


def _kill_some_time(run: BaseProcess, journal: Path, chance: random.Random) -> None:
    """Kill a run after some time, or when it has noted some more chunks; it may end before."""
    enough = chance.randrange(20_000)
    while run.is_alive() and not (
        (journal / "journal").exists() and (journal / "journal").stat().st_size > enough
    ):
        time.sleep(0.0005)
    time.sleep(chance.uniform(0, 0.02))
    run.kill()


SMALL = ARRAY[:5, :4]
PLAIN: dict[str, Any] = {"chunks": (3, 2), "workers": 1, "strategy": "naive", "device": "ssd"}


@pytest.mark.parametrize(
    ("failure", "before", "step"),
    [
        (errno.ENOSPC, 0, 5),
        (None, 1, 5),
        *(
            pytest.param(failure, before, 1, marks=pytest.mark.slow)
            for failure in (None, errno.EIO, errno.ENOSPC)
            for before in (0, 1)
        ),
    ],
)
def test_a_fault_at_every_call(
    failure: int | None, before: int, step: int, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing half done is ever seen; what was cut short is resumed, or begun again."""
    monkeypatch.setattr(commit, "MOST_CELLS", 2)
    overwrite = before > 0
    at = n_calls = n_cut = 0
    while at <= n_calls:
        folder = quick_path / str(at)
        place = _prepare(folder, n_commits=before)
        faults = Faults(at=at, error=failure)
        with inject(faults):
            try:
                dask_io.resplit(folder / "in.npy", f"{place}::/b", overwrite=overwrite, **PLAIN)
            except (Killed, DaskIOError):
                n_cut += 1
        n_calls = n_calls or faults.n_calls
        is_committed, journal = len(_history(place)) > before, folder / "x.icechunk::b.dask-io"
        if is_committed:
            _check(place, "b", SMALL)
        if is_unfinished(journal):
            dask_io.resume(f"{place}::/b", device="ssd")
        elif not is_committed:
            dask_io.resplit(folder / "in.npy", f"{place}::/b", overwrite=overwrite, **PLAIN)
        _check(place, "b", SMALL)
        assert dask_io.verify(f"{place}::/b").equal
        assert len(_history(place)) == before + 1
        shutil.rmtree(folder)
        at += step
    assert n_cut > 20 // step


def _prepare(folder: Path, *, n_commits: int) -> Path:
    folder.mkdir()
    np.save(folder / "in.npy", SMALL)
    place = folder / "x.icechunk"
    if n_commits:
        np.save(folder / "old.npy", SMALL + 1)
        dask_io.resplit(folder / "old.npy", f"{place}::/b", chunks=(2, 2), device="ssd")
    return place


def test_killed_between_the_commit_and_the_seal(
    quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing left to do, and nothing is committed twice."""
    np.save(quick_path / "in.npy", ARRAY)
    place = quick_path / "x.icechunk"

    def die(journal: Journal) -> None:
        journal.close()
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "seal", die)
        patch.setattr("dask_io.engine.commit.Outlet.abandon", lambda *_, **__: None)
        with pytest.raises(Killed):
            dask_io.resplit(quick_path / "in.npy", place, chunks=(100, 100))
    with pytest.raises(DataError, match="unfinished"):
        dask_io.open(place)

    done = dask_io.resume(place)

    assert (done.blocks_written, done.blocks_skipped) == (0, 6)
    assert len(_history(place)) == 1
    assert np.array_equal(np.asarray(dask_io.open(place)), ARRAY)


@pytest.mark.parametrize("before", [0, 1])
def test_a_run_that_is_stopped_leaves_nothing(before: int, quick_path: Path) -> None:
    """No repository, if there was none; no commit and no journal, if there was one."""
    np.save(quick_path / "in.npy", ARRAY)
    place = quick_path / "x.icechunk"
    if before:
        dask_io.resplit(quick_path / "in.npy", f"{place}::/a", chunks=(100, 100))
    names = sorted(path.name for path in quick_path.iterdir())

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError):
        dask_io.resplit(quick_path / "in.npy", f"{place}::/b", chunks=(50, 50), progress=stop)

    assert sorted(path.name for path in quick_path.iterdir()) == names
    assert len(_history(place)) == before


def test_two_runs_at_once(quick_path: Path) -> None:
    """Of one array the second is refused; of two arrays both are committed, one after the other."""
    np.save(quick_path / "in.npy", ARRAY)
    place, refused = quick_path / "x.icechunk", list[DaskIOError]()
    dask_io.resplit(quick_path / "in.npy", f"{place}::/a", chunks=(100, 100))

    def write_too(name: str) -> None:
        try:
            dask_io.resplit(quick_path / "in.npy", f"{place}::/{name}", chunks=(40, 40))
        except DaskIOError as error:
            refused.append(error)

    for other in ("b", "c"):
        second = Thread(target=write_too, args=(other,))

        def start(_: object, second: Thread = second) -> None:
            if not second.ident:
                second.start()
                second.join(timeout=60)

        dask_io.resplit(
            quick_path / "in.npy",
            f"{place}::/b",
            chunks=(50, 50),
            progress=start,
            overwrite=True,
        )
        second.join()

    assert [isinstance(error, LockedError) for error in refused] == [True]
    assert "another run is writing it" in str(refused[0])
    assert len(_history(place)) == 4
    for name in "abc":
        _check(place, name, ARRAY)
        assert dask_io.verify(f"{place}::/{name}").equal
