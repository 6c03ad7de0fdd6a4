"""Faults of a cluster at random moments: whatever happens, `resume` completes the same bytes."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.cluster import attempts
from dask_io.errors import DaskIOError, StorageError
from dask_io.units import parse_bytes
from tests.cluster.conftest import check
from tests.cluster.processes import Processes, wait_until
from tests.cluster.test_runs import CHUNKS, SLOW, once
from tests.faults.test_full_disk import FULL, fill_space, small_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dask_io.engine.run import Progress

distributed: Any = import_module("distributed")


@pytest.fixture
def inside() -> Iterator[Any]:
    """Two workers in this process, which start at once."""
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",
        memory_limit="4GiB",
    ) as made:
        yield made


def test_a_worker_that_retires_hands_its_part_over(inside: Any, blocks: Path) -> None:
    """A worker that is retired in the middle of a part stops, and another one runs the part."""
    target = blocks.parent / "out"
    with distributed.Client(inside, set_as_default=False) as client:
        one, _ = client.nthreads()

        dask_io.resplit(
            blocks,
            target,
            client=client,
            progress=once(lambda: client.retire_workers([one])),
            **SLOW,
        )

        assert list(client.nthreads()) != [one]
    check(target)


def test_a_cluster_that_scales_by_its_load(blocks: Path) -> None:
    """A cluster without workers starts some for the run."""
    target = blocks.parent / "out"
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, dashboard_address="127.0.0.1:0", threads_per_worker=1
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        cluster.adapt(minimum=0, maximum=2, interval="100ms")
        dask_io.resplit(blocks, target, chunks=CHUNKS, client=client)

    check(target)


class Cluster:
    """A cluster for one test, and one run after another on it."""

    def __init__(self, folder: Path, n_workers: int = 2) -> None:
        self.folder = folder
        self.processes = Processes(folder / "cluster")
        self.processes.folder.mkdir()
        self.n_workers = n_workers
        self.n_runs = 0

    def start(self) -> None:
        """Start the scheduler and the workers."""
        self.processes.start_scheduler()
        for number in range(self.n_workers):
            self.processes.start_worker(f"worker-{number}")

    def connect(self) -> Any:
        """Return a client, when all workers are there."""
        client = distributed.Client(self.processes.address, set_as_default=False)
        wait_until(lambda: len(client.nthreads()) >= self.n_workers, "all workers are there")
        return client

    def new_target(self) -> Path:
        """Return a place for another run."""
        self.n_runs += 1
        return self.folder / f"out-{self.n_runs}"

    def start_command(self, target: Path) -> subprocess.Popen[str]:
        """Run the command line in a process of its own."""
        command = [sys.executable, "-m", "dask_io.cli", "resplit", str(self.folder / "in")]
        command += [str(target), "--chunks", ",".join(map(str, CHUNKS))]
        command += ["--max-rate", "400kB", "--workers", "1"]
        command += ["--scheduler", self.processes.address]
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )


@pytest.fixture
def cluster(blocks: Path) -> Iterator[Cluster]:
    """A cluster that a test may damage."""
    made = Cluster(blocks.parent)
    try:
        made.start()
        yield made
    finally:
        made.processes.close()


def complete(target: Path) -> str:
    """Complete a target that a run may have begun, and return whether it had."""
    if not target.exists():
        return "before anything was written"
    deadline = time.monotonic() + 60
    while True:
        try:
            dask_io.resume(target)
        except DaskIOError:
            # Parts end some time after their client or their scheduler.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            check(target)
            return "midway"


def kill_scheduler(cluster: Cluster, begun: str, seconds: float = 0) -> str:
    """Kill the scheduler so long after the target has some files; return what `resume` found."""
    target = cluster.new_target()
    run = cluster.start_command(target)
    wait_until(lambda: any(target.glob(begun)), "the run has begun")
    time.sleep(seconds)
    cluster.processes.kill_scheduler()
    stderr = run.communicate(timeout=90)[1]

    assert run.returncode == 3, stderr
    last = stderr.strip().splitlines()[-1]
    assert "the cluster was lost" in last
    assert f"dask-io resume {target}" in last
    return complete(target)


def test_a_scheduler_is_killed(blocks: Path) -> None:
    """When the scheduler is killed, the command ends with one line that tells how to resume."""
    cluster = Cluster(blocks.parent, n_workers=1)
    try:
        cluster.processes.start_scheduler()
        cluster.processes.start_worker("worker", "--no-nanny")
        kill_scheduler(cluster, "*.npy")
    finally:
        cluster.processes.close()


def run_or_give_up(source: Path, target: Path, client: Any) -> str:
    """Run, and return the message if the run gives up."""
    try:
        dask_io.resplit(source, target, client=client, **SLOW)
    except StorageError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_runs_complete_if_blocks_are_written_between_kills(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """A run never gives up while it writes new blocks between the deaths of its workers."""
    chance, n_killed = random.Random(4), 0
    with cluster.connect() as client:
        for _ in range(3):
            n_written = 0

            def kill_after_some(progress: Progress) -> None:
                nonlocal n_killed, n_written
                if progress.n_blocks_written < n_written + 3:
                    return
                n_written = progress.n_blocks_written
                if pids := list(client.run(os.getpid, on_error="ignore").values()):
                    n_killed += kill(chance.choice(pids))

            target = cluster.new_target()
            dask_io.resplit(
                cluster.folder / "in", target, client=client, progress=kill_after_some, **SLOW
            )
            check(target)
    record_property("survived", {"killed workers": n_killed})
    print(f"{n_killed} workers were killed in 3 runs, and all runs completed")  # noqa: T201
    assert n_killed >= 6


def kill(pid: int) -> bool:
    """Kill a process, and return whether it was still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_workers_are_killed(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """While workers are killed, a run completes, or gives up with one line and can be resumed."""
    chance, survived, ends = random.Random(1), Counter[str](), Counter[str]()
    with cluster.connect() as client:
        for fewest, most in ((2, 5), (2, 5), (2, 5), (0.3, 1), (0.3, 1)):
            is_over: list[bool] = []
            target = cluster.new_target()

            def kill_some(
                fewest: float = fewest, most: float = most, is_over: list[bool] = is_over
            ) -> None:
                while not is_over:
                    time.sleep(chance.uniform(fewest, most))
                    pids = list(client.run(os.getpid, on_error="ignore").values())
                    if pids and not is_over:
                        survived["killed workers"] += kill(chance.choice(pids))

            killer = Thread(target=kill_some)
            killer.start()
            try:
                gave_up = run_or_give_up(cluster.folder / "in", target, client)
            finally:
                is_over.append(True)
                killer.join()
            if gave_up:
                assert re.search(r"part \d+ was running on \d+ workers when they died", gave_up)
                assert f'dask_io.resume("{target}")' in gave_up
                complete(target)
            check(target)
            ends["gave up, and was resumed" if gave_up else "completed"] += 1
    record_property("survived", dict(survived))
    print(f"{dict(survived)} in runs that ended so: {dict(ends)}")  # noqa: T201
    assert survived["killed workers"] >= 5


@pytest.mark.slow
def test_clients_are_killed(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """The command line is killed at random moments, and `resume` completes the target."""
    chance, survived = random.Random(2), Counter[str]()
    cluster.connect().close()
    for _ in range(6):
        target = cluster.new_target()
        run = cluster.start_command(target)
        wait_until(target.exists, "the run has begun")
        time.sleep(chance.uniform(0, 2))
        run.kill()
        run.communicate()
        survived[f"killed clients {complete(target)}"] += 1
    record_property("survived", dict(survived))
    print(dict(survived))  # noqa: T201


@pytest.mark.slow
def test_schedulers_are_killed(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """When the scheduler is killed, the run ends with one line that tells how to resume."""
    chance, survived = random.Random(3), Counter[str]()
    for _ in range(3):
        cluster.connect().close()
        survived[
            f"killed schedulers {kill_scheduler(cluster, '.dask-io', chance.uniform(0, 2))}"
        ] += 1
        cluster.processes.close()
        cluster.start()
    record_property("survived", dict(survived))
    print(dict(survived))  # noqa: T201


@pytest.mark.slow
def test_a_worker_hangs(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """A worker that is stopped keeps its part, which runs elsewhere; later it does no harm."""
    monkeypatch.setattr(attempts, "_FEWEST_SECONDS", 2.0)
    with cluster.connect() as client:
        pid = next(iter(client.run(os.getpid).values()))
        target = cluster.new_target()
        try:
            dask_io.resplit(
                cluster.folder / "in",
                target,
                client=client,
                progress=once(lambda: os.kill(pid, signal.SIGSTOP)),
                **SLOW,
            )
            check(target)
        finally:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: not any(client.processing().values()), "it has stopped")
        time.sleep(2)
        check(target)
    record_property("survived", {"hanging workers": 1})


@pytest.mark.slow
def test_a_worker_has_a_full_disk(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """Parts that fail on a worker that cannot write run on the other one."""
    with cluster.connect() as client:
        one, _ = client.nthreads()

        def cannot_write() -> None:
            import resource  # noqa: PLC0415  # on the worker

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        # Signals are set in the main thread, in which the worker runs its event loop.
        client.run(cannot_write, workers=[one])
        target = cluster.new_target()
        dask_io.resplit(cluster.folder / "in", target, client=client, **SLOW)
        check(target)
    logs = map(cluster.processes.log_of, cluster.processes.workers)
    n_failed = sum(log.count("Compute Failed") for log in logs)
    record_property("survived", {"parts that failed on a full disk": n_failed})
    print(f"{n_failed} parts failed on the worker with a full disk")  # noqa: T201
    assert n_failed > 0


@pytest.mark.slow
def test_the_disk_of_all_workers_is_full(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """The run ends with one line, and when there is room again, `resume` completes the target."""
    with cluster.connect() as client, small_disk(cluster.folder / "disk", "size=3m") as disk:
        target = disk / "out"
        fill = once(lambda: fill_space(disk))

        with pytest.raises(StorageError, match=rf"{FULL}.*dask_io\.resume"):
            dask_io.resplit(cluster.folder / "in", target, client=client, progress=fill, **SLOW)
        (disk / "filler").unlink()
        assert complete(target) == "midway"
    record_property("survived", {"full disks of all workers": 1})


@pytest.mark.slow
def test_workers_reach_their_lifetime(
    blocks: Path, record_property: Callable[[str, object], None]
) -> None:
    """Workers that retire and start again every few seconds hand their parts over."""
    cluster = Cluster(blocks.parent)
    seen: set[str] = set()
    try:
        cluster.processes.start_scheduler()
        for name in ("one", "two"):
            cluster.processes.start_worker(name, "--lifetime", "4s", "--lifetime-restart")
        with distributed.Client(cluster.processes.address, set_as_default=False) as client:
            for _ in range(2):
                target = cluster.new_target()
                dask_io.resplit(
                    blocks,
                    target,
                    client=client,
                    progress=lambda _: seen.update(client.nthreads()),
                    **{**SLOW, "max_rate": "100kB"},
                )
                check(target)
    finally:
        cluster.processes.close()
    n_retired = len(seen) - 2
    record_property("survived", {"workers that reached their lifetime": n_retired})
    print(f"{n_retired} workers reached their lifetime in 2 runs")  # noqa: T201
    assert n_retired > 0


@pytest.mark.slow
def test_a_cluster_shrinks_and_grows(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    """A run goes on while its cluster shrinks to one worker, and grows to three."""
    numbers: list[int] = []
    with cluster.connect() as client:
        target = cluster.new_target()

        def shrink_and_grow() -> None:
            one, *_ = client.nthreads()
            client.retire_workers([one])
            numbers.append(len(client.nthreads()))
            for name in ("late-1", "late-2"):
                cluster.processes.start_worker(name)

        begin = once(shrink_and_grow)

        def look(progress: Progress) -> None:
            begin(progress)
            if progress.n_blocks_written < progress.n_blocks:
                numbers.append(len(client.nthreads()))

        dask_io.resplit(
            cluster.folder / "in",
            target,
            client=client,
            progress=look,
            **{**SLOW, "max_rate": "50kB"},
        )
        check(target)
    survived = {"workers that left": 1, "workers that joined": max(numbers) - min(numbers)}
    record_property("survived", survived)
    print(f"numbers of workers during the run: {list(dict.fromkeys(numbers))}")  # noqa: T201
    assert (min(numbers), max(numbers)) == (1, 3)


@pytest.mark.parametrize(
    ("limit", "side"),
    [
        ("256MiB", 240),
        *(
            pytest.param(limit, 480, marks=pytest.mark.slow)
            for limit in ("256MiB", "512MiB", "1GiB")
        ),
    ],
)
def test_workers_never_reach_a_threshold(tmp_path: Path, limit: str, side: int) -> None:
    """With all the memory that a worker has, it is never paused, and its disk is not used."""
    import zarr  # noqa: PLC0415  # only here

    rng = np.random.default_rng(0)
    made = zarr.create_array(
        tmp_path / "in.zarr", shape=(side,) * 3, chunks=(10, side, side), dtype="f4"
    )
    for start in range(0, side, 10):
        made[start : start + 10] = rng.random((10, side, side), "f4")
    ttl = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "20s"}
    processes = Processes(tmp_path / "cluster", ttl)
    processes.folder.mkdir()
    try:
        processes.start_scheduler()
        for name in ("one", "two"):
            processes.start_worker(name, memory=limit)
        with distributed.Client(processes.address, set_as_default=False) as client:
            wait_until(lambda: len(client.nthreads()) == 2, "both workers are there")
            dask_io.resplit(
                tmp_path / "in.zarr", tmp_path / "out.zarr", chunks=(side, 40, 40), client=client
            )
            peaks = client.run(_peak)
            spilled = client.run(_spilled)
    finally:
        processes.close()
    assert dask_io.verify(tmp_path / "in.zarr", tmp_path / "out.zarr")
    assert max(peaks.values()) < 0.8 * parse_bytes(limit), "above the threshold for pausing"
    assert set(spilled.values()) == {0}
    for name in ("one", "two"):
        log = processes.log_of(name).lower()
        assert "paus" not in log
        assert "restarting" not in log
    assert "heartbeat" not in processes.log_of("scheduler").lower()


def _spilled(dask_worker: Any) -> float:
    """Return how many bytes a worker has moved to its disk so far."""
    return float(dask_worker.data.cumulative_metrics["disk-write", "bytes"])


def _peak() -> int:
    """Return the highest resident size of this process so far."""
    with open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
