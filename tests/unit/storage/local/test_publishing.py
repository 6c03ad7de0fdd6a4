"""What makes files that are published durable."""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import Barrier, Event, Semaphore

import pytest

from dask_io.storage.local import system
from dask_io.storage.local.publishing import Publisher
from dask_io.storage.local.system import System
from dask_io.storage.tally import Tally


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the directories that have been synced, as they are."""
    found: list[str] = []

    def fsync(fd: int) -> None:
        found.append(os.path.relpath(Path(f"/proc/self/fd/{fd}").readlink(), tmp_path))
        os.fsync(fd)

    calls = System()
    monkeypatch.setattr(calls, "fsync", fsync)
    monkeypatch.setattr(system, "calls", calls)
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
    monkeypatch.setattr("dask_io.storage.local.publishing._slots.free", Semaphore(32))


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


@pytest.mark.linux
@pytest.mark.usefixtures("slots")
def test_fewer_files_stay_open_where_few_may_be(tmp_path: Path) -> None:
    """All others that a run needs can still be opened."""
    program = """
import resource, sys
from pathlib import Path
from dask_io.storage.local.publishing import Publisher
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
publisher, names = Publisher(Path(sys.argv[1])), [str(n) for n in range(60)]
for name in names:
    publisher.begin(name, b"content", 7)
others = [open("/dev/null") for _ in range(20)]
publisher.commit(names, names)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert len(list(tmp_path.glob("[!.]*"))) == 60


@pytest.mark.linux
@pytest.mark.usefixtures("slots")
def test_files_count_as_open_while_they_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many threads commit at once, no more are open than may be."""
    begun, go_on = Barrier(3), Event()

    def sync_all(fds: Sequence[int], *, only_data: bool = True) -> list[None]:
        if not only_data:
            return [None] * len(fds)
        begun.wait(10)
        assert go_on.wait(10)
        return [None] * len(fds)

    monkeypatch.setattr(system.calls, "sync_all", sync_all)
    publisher = Publisher(tmp_path)
    batches = [[f"{n}-{name}" for name in range(16)] for n in range(2)]
    for name in chain(*batches):
        publisher.begin(name, b"content", 7)
    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(publisher.commit, names, names) for names in batches]
        begun.wait(10)
        # These find no room any more.
        for n in range(16):
            publisher.begin(f"2-{n}", b"content", 7)
        most = n_open(tmp_path)
        go_on.set()
    assert [each.result() for each in done] == [None, None]
    assert (most, n_open(tmp_path)) == (32, 0)


def test_a_target_may_be_in_the_root_directory(synced: list[str], tmp_path: Path) -> None:
    """As is usual in containers."""
    Publisher(Path("/"))._sync_folders({""})  # noqa: SLF001 - nothing is written there

    assert [(tmp_path / each).resolve() for each in synced] == [Path("/")]
