"""Whole runs on a cluster: right results, refusals, interrupts, and workers within their limits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

import dask_io
from dask_io.cluster import series
from dask_io.engine.run import Progress, RunResult
from dask_io.errors import InterruptedRunError, UsageError
from tests.cluster.conftest import ARRAY, check
from tests.commands import fail, invoke

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.processes import Processes

distributed: Any = import_module("distributed")

CHUNKS = (24, 16, 40)
# Slow enough that something can happen in the middle of a part.
SLOW: dict[str, Any] = {"chunks": CHUNKS, "max_rate": "400kB", "workers": 1}


def once(act: Any) -> Any:
    """Return a function for `progress` that acts when the first block is written."""
    is_done: list[bool] = []

    def update(progress: Progress) -> None:
        if progress.n_blocks_written and not is_done:
            is_done.append(True)
            act()

    return update


@pytest.mark.parametrize("name", ["out", "out.zarr"])
def test_a_run_on_a_cluster_is_right(
    processes: Processes, client: Any, blocks: Path, name: str
) -> None:
    """The target is complete, progress is that of the whole run, and Dask stores nothing."""
    seen: list[Progress] = []
    target = blocks.parent / name

    result = dask_io.resplit(
        blocks, target, chunks=CHUNKS, client=client, verify=True, progress=seen.append
    )

    assert isinstance(result, RunResult)
    assert result.verified
    assert result.blocks_written == 20
    assert seen[-1] == Progress(ARRAY.nbytes, ARRAY.nbytes, 20, 20)
    check(target)
    for worker in processes.workers:
        log = processes.log_of(worker).lower()
        assert "paus" not in log
        assert "spill" not in log


def test_the_command_line_runs_on_a_cluster(processes: Processes, blocks: Path) -> None:
    """``--scheduler`` takes a scheduler file; parts and their memory are shown."""
    target = blocks.parent / "out"
    command = ["resplit", blocks, target, "--chunks", "24,16,40", "--scheduler", processes.file]

    dry = invoke(*command, "--dry-run")
    done = invoke(*command, "--json")

    assert dry.exit_code == 0, dry.output
    assert "at once, with" in dry.stderr
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["result"]["blocks_written"] == 20
    check(target)


def test_what_cannot_run_in_parts_is_refused(processes: Processes, blocks: Path) -> None:
    """One file, several regions and too much memory are usage errors, and nothing is written."""
    at = ["--scheduler", processes.address]
    folder = blocks.parent

    one = ["resplit", blocks, folder / "out.h5", "--chunks", "24,16,40", *at]
    assert "write Zarr, or a folder of block files" in fail(*one, code=2)
    split = ["resplit", blocks, folder / "out", "--chunks", "24,16,40", *at]
    assert "per part: 60%" in fail(*split, "--memory", "1GiB", code=2)
    two = ["extract", blocks, folder / "out", "--region", "0:5", "--region", "5:9", *at]
    assert "several regions" in fail(*two, code=2)
    memory = ["resplit", blocks, "memory://x/out", "--chunks", "24,16,40", *at]
    assert "is in the memory of this process" in fail(*memory, code=2)
    assert "cannot connect" in fail(*split[:-1], "nowhere://x", code=3)
    assert [path.name for path in folder.iterdir()] == ["in"]


def test_some_requests_are_refused_without_asking_the_cluster(blocks: Path) -> None:
    """No worker is waited for, or started, when no workers could change the answer."""
    nowhere = ["--scheduler", "tcp://127.0.0.1:1"]
    split = ["resplit", blocks, blocks.parent / "out", "--chunks", "24,16,40", *nowhere]

    merge = fail("merge", blocks, blocks.parent / "out.npy", *nowhere, code=2)
    assert "only one process can write; run it without a cluster, or use resplit" in merge
    assert "leave out consume, or the parts" in fail(*split, "--consume", code=2)
    assert "choose another strategy" in fail(*split, "--strategy", "spill", code=2)
    with pytest.raises(UsageError, match="write them one by one"):
        dask_io.resplit(blocks, ["a", "b"], chunks=[CHUNKS, CHUNKS], client=nowhere[1])


def test_a_group_runs_on_a_cluster(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts of all arrays are shared, also if a worker is killed in the middle."""
    monkeypatch.setattr(series, "_SMALL", 1000)
    rng = np.random.default_rng(0)
    values = {name: rng.integers(0, 1000, (48, 40, 30)).astype("i4") for name in "ab"}
    dataset = xr.Dataset(
        {name: (("time", "y", "x"), each) for name, each in values.items()},
        {"time": np.arange(48)},
    )
    dataset.to_netcdf(tmp_path / "in.nc")
    pid = next(iter(client.run(os.getpid).values()))

    result = dask_io.resplit(
        tmp_path / "in.nc",
        tmp_path / "out.zarr",
        chunks={"time": 24, "y": 10},
        client=client,
        verify=True,
        max_rate="400kB",
        progress=once(lambda: os.kill(pid, signal.SIGKILL)),
    )

    assert isinstance(result, RunResult)
    assert result.verified
    with xr.open_zarr(tmp_path / "out.zarr") as found:
        xr.testing.assert_identical(found.load(), dataset)
    assert not list(tmp_path.rglob("*.part"))
    assert not list(tmp_path.rglob("parts"))


def test_extract_and_split_run_on_a_cluster(client: Any, blocks: Path) -> None:
    """A region is extracted in parts, and a file is split in parts."""
    folder = blocks.parent
    dask_io.merge(blocks, folder / "whole.npy")

    dask_io.split(folder / "whole.npy", folder / "out", chunks=CHUNKS, client=client)
    dask_io.extract(
        blocks, folder / "part.zarr", regions=["10:90,:,5:"], chunks=(40, 80, 35), client=client
    )

    check(folder / "out")
    assert dask_io.open(folder / "part.zarr")[:, :, :].tolist() == ARRAY[10:90, :, 5:].tolist()


def test_a_killed_worker_does_not_matter(client: Any, blocks: Path) -> None:
    """A worker that is killed in the middle of its part is replaced."""
    pid = next(iter(client.run(os.getpid).values()))
    target = blocks.parent / "out"

    dask_io.resplit(
        blocks,
        target,
        client=client,
        progress=once(lambda: os.kill(pid, signal.SIGKILL)),
        **SLOW,
    )

    check(target)


def test_an_interrupted_run_resumes(client: Any, blocks: Path) -> None:
    """After Ctrl-C, the same call goes on where the run ended, and so does `resume`."""
    target = blocks.parent / "out"

    for _ in range(2):
        with pytest.raises(InterruptedRunError, match=r"dask_io\.resume"):
            dask_io.resplit(blocks, target, client=client, progress=once(_interrupt), **SLOW)
    result = dask_io.resume(target)

    assert result.blocks_skipped > 0
    check(target)


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_a_local_cluster_with_threads(blocks: Path) -> None:
    """Two parts at once in one process divide its memory."""
    target = blocks.parent / "out"
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            dashboard_address="127.0.0.1:0",
            memory_limit="4GiB",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        with pytest.raises(UsageError, match="compute=False"):
            dask_io.resplit(blocks, target, chunks=CHUNKS, client=client, compute=False)
        dask_io.resplit(blocks, target, chunks=CHUNKS, client=client)

    check(target)


def resplit_in_task(source: str, target: str, client: Any) -> None:
    """Run in a task of a cluster."""
    dask_io.resplit(source, target, chunks=CHUNKS, client=client)


def test_a_run_in_a_task_leaves_its_slot_to_the_parts(blocks: Path) -> None:
    """The only worker runs the task that waits for the parts, and the parts."""
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            dashboard_address="127.0.0.1:0",
            memory_limit="4GiB",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        for number, given in enumerate(("current", cluster.scheduler_address)):
            target = blocks.parent / f"out-{number}"
            client.submit(resplit_in_task, str(blocks), str(target), given).result(timeout=60)
            check(target)


def test_distributed_is_loaded_only_when_it_is_used() -> None:
    """Runs without a cluster do not import it."""
    code = "import sys, dask_io.api, dask_io.cli.verbs; sys.exit('distributed' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
