"""Faults at what HDF5 itself writes, put there by ``strace``: nothing is wrong, a run begins anew.

Its calls do not go through ours, so that `test_every_call` cannot come between.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

import dask_io

if TYPE_CHECKING:
    from tests.faults.conftest import Sample, Tool

pytestmark = pytest.mark.linux
FAULTS = {"kill": "signal=KILL", "EIO": "error=EIO", "ENOSPC": "error=ENOSPC"}


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        ("kill", (1, 5, 20)),
        *(pytest.param(each, (1, 2, 3, 5, 9, 20, 40), marks=pytest.mark.slow) for each in FAULTS),
    ],
)
@pytest.mark.parametrize("codec", ["none", "gzip:1"])
def test_a_fault_while_hdf5_writes(
    sample: Sample, tool: Tool, codec: str, fault: str, calls: tuple[int, ...]
) -> None:
    """Whatever HDF5 was about, what has the file's name is whole, and the next run completes it."""
    place, log = sample.folder / "out.h5", sample.folder / "log"
    part = sample.folder / ".out.h5.part"
    command = ["split", str(sample.whole), str(place), "--chunks", "4,3", "--codec", codec]
    for at in calls:
        strace = ["strace", "-f", "-o", str(log), "-P", str(part), "-e", "trace=pwrite64"]
        inject = ["-e", f"inject=pwrite64:{FAULTS[fault]}:when={at}"]
        run = [*strace, *inject, sys.executable, "-m", "dask_io.cli", *command, "--workers", "1"]
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode == 0:
            assert "(INJECTED)" not in log.read_text(), "a fault went unseen"
        elif fault != "kill":
            assert done.returncode == 3
            tool.only_line(done.stderr)
        if done.returncode != 0:
            assert not place.exists()
            is_begun = place.with_name("out.h5.dask-io").exists()
            tool.run(*(["resume", place] if is_begun else command))
        log.unlink()
        sample.check_complete(place)
        with h5py.File(place) as file:
            assert np.array_equal(file["data"][...], sample.array)
        place.unlink()
        place.with_name(".out.h5.dask-io").unlink()


@pytest.mark.parametrize("codec", ["none", "gzip:1"])
def test_a_run_that_is_killed_midway(sample: Sample, tool: Tool, codec: str) -> None:
    """With filters it begins anew, and the plan had said so; without, it goes on."""
    place = sample.folder / "out.h5"
    command = ["resplit", sample.blocks, place, "--chunks", "4,3", "--codec", codec]
    job = dask_io.plan(dask_io.open(sample.blocks), place, chunks=(4, 3), codec=codec)
    assert job.plan.problem.target.grain == ("cell" if codec == "none" else "container")

    tool.kill(tool.hold(*command, "--workers", "1", "--device", "ssd"))
    assert not place.exists()
    assert "unfinished" in tool.fail("info", place, code=1)
    done = dask_io.resume(place, verify=True)

    assert (done.blocks_skipped > 0) == (codec == "none")
    assert done.blocks_written + done.blocks_skipped == 42
    sample.check_complete(place)
