"""What makes files that are published durable."""

import os
from contextlib import suppress
from pathlib import Path
from threading import Semaphore

import pytest

from dask_io.stores import system
from dask_io.stores.files import Tally
from dask_io.stores.publishing import Publisher


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the directories that have been synced, as they are."""
    found: list[str] = []

    def fsync(fd: int) -> None:
        found.append(os.path.relpath(Path(f"/proc/self/fd/{fd}").readlink(), tmp_path))
        os.fsync(fd)

    monkeypatch.setattr(system.calls, "fsync", fsync)
    return found


def publish(publisher: Publisher, *names: str) -> None:
    """Write files and give them their names."""
    for name in names:
        publisher.begin(name, b"content", 7)
    publisher.commit(names, names)


@pytest.mark.linux
def test_a_directory_is_made_durable_once(synced: list[str], tmp_path: Path) -> None:
    """Names of files in it each time, its own name and those of the ones around it once."""
    publisher = Publisher(tmp_path)
    publish(publisher, "a/b/1", "a/b/2")
    assert synced == [".", "a", "a/b"]
    publish(publisher, "a/b/3")
    assert synced == [".", "a", "a/b", "a/b"]
    publish(publisher, "a/c/1", "a/b/4", "5")
    assert sorted(synced[4:]) == [".", "a", "a/b", "a/c"]


@pytest.mark.linux
def test_a_directory_that_is_there_may_not_be_durable(synced: list[str], tmp_path: Path) -> None:
    """A run that was killed has made it."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    publish(Publisher(tmp_path), "a/b/1")
    assert synced == [".", "a", "a/b"]


@pytest.mark.linux
def test_what_is_left_out_needs_no_directory(synced: list[str], tmp_path: Path) -> None:
    """It has none that could be synced, and one that comes later is not taken for durable."""
    publisher = Publisher(tmp_path)
    publisher.leave_out(["a/b/1"])
    assert not synced
    publish(publisher, "a/b/2")
    assert synced == [".", "a", "a/b"]


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget files that other tests have left open."""
    monkeypatch.setattr("dask_io.stores.publishing._slots.free", Semaphore(32))


def n_open(folder: Path) -> int:
    """Count the files of a directory that this process has open; others come and go."""
    found = 0
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += fd.readlink().is_relative_to(folder)
    return found


@pytest.mark.linux
@pytest.mark.usefixtures("slots")
@pytest.mark.parametrize("end", ["commit", "leave out", "abandon"])
def test_files_stay_open_until_they_are_synced(end: str, tmp_path: Path) -> None:
    """Few of them at a time, whoever they belong to, and none for longer."""
    # Twice: whatever ends it makes room for others.
    for folder in (tmp_path / "1", tmp_path / "2"):
        folder.mkdir()
        publishers, names = [Publisher(folder) for _ in range(3)], [str(n) for n in range(25)]
        for n, publisher in enumerate(publishers):
            for name in names:
                publisher.begin(f"{n}-{name}", b"content", 7)
        assert n_open(folder) == 32
        for n, publisher in enumerate(publishers):
            own = [f"{n}-{name}" for name in names]
            match end:
                case "commit":
                    publisher.commit(own, own)
                case "leave out":
                    publisher.leave_out(own)
                case _:
                    publisher.abandon()
        assert n_open(folder) == 0
        n_left = 75 if end == "commit" else 0
        assert len(list(folder.iterdir())) == len(list(folder.glob("[!.]*"))) == n_left


@pytest.mark.linux
@pytest.mark.usefixtures("slots")
def test_visits_that_end_after_all_is_given_up_leave_nothing_open(tmp_path: Path) -> None:
    """A thread may still write while another one gives up."""
    publisher = Publisher(tmp_path)
    with publisher.writer("1", Tally(), n_bytes=7) as file:
        publisher.abandon()
        file.write(0, memoryview(b"content"))
    assert n_open(tmp_path) == 0
    assert not any(tmp_path.iterdir())
