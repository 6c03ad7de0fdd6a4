"""What workers offer, and what is refused before anything runs on them."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from dask_io.cluster import probe
from dask_io.cluster.connect import connected
from dask_io.cluster.probe import Probe
from dask_io.cluster.workers import Worker, Workers, find_workers
from dask_io.errors import StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

distributed: Any = import_module("distributed")
MiB = 2**20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster in this process, with one worker of two threads."""
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        dashboard_address="127.0.0.1:0",
        memory_limit="4GiB",
        resources={"disk": 1},
    ) as made:
        yield made


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    """A client of the cluster."""
    with distributed.Client(cluster, set_as_default=False) as made:
        yield made


def worker(limit: int, threads: int = 1, resident: int = 100 * MiB) -> Worker:
    """Return a worker with a memory limit."""
    reported = Probe("0.1.0", resident, 0.6, 1000 * MiB)
    return Worker(f"tcp://{limit}", "host", limit, threads, {"disk": 2}, reported)


def test_memory_is_what_dask_leaves_alone() -> None:
    """Parts that run at once share 60 % of the limit, less what the process uses by itself."""
    one, two = worker(1000 * MiB), worker(1000 * MiB, threads=5)

    assert one.memory_per_part({}) == 500 * MiB
    assert two.memory_per_part({}) == 100 * MiB
    assert two.memory_per_part({"disk": 1}) == 250 * MiB
    assert Workers("tcp://s", (one, two)).memory_per_part == 100 * MiB


def test_memory_without_a_limit_is_that_of_the_machine() -> None:
    """Workers without a limit divide half of the memory that is left on their machine."""
    workers = Workers("tcp://s", (worker(0), worker(0)))

    assert workers.memory_per_part == 250 * MiB


def test_memory_that_does_not_fit_is_refused() -> None:
    """The error has the requested memory, what a worker has, and how that is derived."""
    workers = Workers("tcp://s", (worker(400 * MiB), worker(1000 * MiB)))

    assert workers.choose_memory(None) == 140 * MiB
    assert workers.choose_memory(MiB) == MiB
    with pytest.raises(
        UsageError, match=r"200.00 MiB, but .* 140.00 MiB per part: 60% .* 400.00 MiB"
    ):
        workers.choose_memory(200 * MiB)
    with pytest.raises(UsageError, match="larger --memory-limit"):
        Workers("tcp://s", (worker(100 * MiB),)).choose_memory(None)


def test_a_survey_finds_what_workers_offer(client: Any, tmp_path: Path) -> None:
    """Limits, threads and resources are those of the workers, and nothing is left behind."""
    found = find_workers(client, [str(tmp_path)], [str(tmp_path / "new" / "out")])

    (only,) = found.workers
    assert (only.threads, only.memory_limit, dict(only.resources)) == (2, 2**32, {"disk": 1})
    assert found.n_slots == 2
    assert 0 < found.memory_per_part < 0.6 * 2**32 / 2
    assert list(tmp_path.iterdir()) == []


def test_resources_that_no_worker_has_are_refused(client: Any, tmp_path: Path) -> None:
    """Tasks would wait forever, so they are not submitted."""
    place = [str(tmp_path)]

    assert find_workers(client, place, place, resources={"disk": 1}).n_slots == 1
    with pytest.raises(UsageError, match=r"needs the resources \{'disk': 2\}, but .* \{'disk': 1"):
        find_workers(client, place, place, resources={"disk": 2})


def test_no_workers_is_one_line(tmp_path: Path) -> None:
    """A cluster without workers is reported after a short wait."""
    place = [str(tmp_path)]
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(StorageError, match="no workers after 0 s; start some with: dask worker"),
    ):
        find_workers(client, place, place, wait_seconds=0.2)


def test_another_version_is_refused(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers must have the version of Dask IO that the client has."""
    original = probe._probe  # noqa: SLF001
    monkeypatch.setattr(probe, "_probe", lambda *given: replace(original(*given), version="0.0.9"))

    with pytest.raises(UsageError, match=r"has dask-io 0\.0\.9, but this is"):
        find_workers(client, [str(tmp_path)], [str(tmp_path)])


def test_clients_are_found_or_refused(client: Any, tmp_path: Path) -> None:
    """A client, the current one, or an address; a cluster is never used by itself."""
    with connected(client) as same:
        assert same is client
    with pytest.raises(UsageError, match="no current client"), connected("current"):
        pass
    with client.as_current(), connected("current") as found:
        assert found is client
    with pytest.raises(StorageError, match="no such scheduler file"):
        connected(str(tmp_path / "scheduler.json")).__enter__()
    with pytest.raises(UsageError, match="client is int"):
        connected(3).__enter__()


def test_a_scheduler_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong address is reported with advice, after a short wait."""
    monkeypatch.setattr("dask_io.cluster.connect._CONNECT_SECONDS", 0.3)

    with pytest.raises(StorageError, match="cannot connect to the scheduler"):
        connected("tcp://127.0.0.1:1").__enter__()
    with pytest.raises(StorageError, match="cannot connect to the scheduler"):
        connected("nonsense://x").__enter__()


def test_a_path_that_workers_do_not_see(processes: Any, tmp_path: Path) -> None:
    """Files that only this process sees are reported, with the workers that do not see them."""
    # Each process sees its own open files here.
    mine = os.open(tmp_path / "mine", os.O_CREAT)
    high = fcntl.fcntl(mine, fcntl.F_DUPFD_CLOEXEC, 900)
    try:
        with (
            distributed.Client(processes.address, set_as_default=False) as client,
            pytest.raises(StorageError, match=r"\d of \d workers cannot read here .*filesystem"),
        ):
            find_workers(client, [f"/proc/self/fd/{high}"], [str(tmp_path / "out")])
    finally:
        os.close(mine)
        os.close(high)
