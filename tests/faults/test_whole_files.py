"""Faults while all arrays of a file are written: the file is whole, or is begun anew."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest

import dask_io
from dask_io.errors import DataError
from dask_io.storage.own_names import sidecar_name

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.conftest import Tool

pytestmark = pytest.mark.linux
VALUES = np.arange(600, dtype="<i4").reshape(20, 30)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of arrays with filters and without, one that grows, and texts."""
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("plain", data=VALUES)
        file.create_dataset("packed", data=VALUES, chunks=(5, 30), compression=1)
        file.create_dataset("grows", data=VALUES, chunks=(5, 30), maxshape=(None, 30))
        file["note"] = "a text"
    return path


@pytest.fixture
def group(source: Path) -> Path:
    """A group of Zarr arrays that holds the same."""
    path = source.with_name("in.zarr")
    dask_io.resplit(source, path, chunks=10, durability="none")
    return path


def check_complete(source: Path, target: Path) -> None:
    """Check that all is there, and nothing in the making."""
    with h5py.File(target) as file:
        for name in ("plain", "packed", "grows"):
            assert np.array_equal(file[name][...], VALUES)
            assert file[name].chunks == (4, 7)
        assert file["note"][()] == b"a text"
    assert dask_io.verify(target)
    assert dask_io.verify(source, target)
    sidecars = {sidecar_name(f"{path.name}.dask-io") for path in target.parent.iterdir()}
    left = [path.name for path in target.parent.glob(".*") if path.name not in sidecars]
    assert left == [], "temporary files are left"


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize(
    ("kind", "fault", "calls"),
    [
        ("source", "signal=KILL", (2, 12)),
        pytest.param("source", "error=EIO", (2, 12), marks=pytest.mark.slow),
        pytest.param("source", "error=ENOSPC", (2, 12), marks=pytest.mark.slow),
        ("group", "signal=KILL", (2,)),
        ("group", "error=ENOSPC", (12,)),
    ],
)
def test_a_fault_at_a_write(
    kind: str,
    tool: Tool,
    fault: str,
    calls: tuple[int, ...],
    request: pytest.FixtureRequest,
) -> None:
    """Whoever was about to write, what has the file's name is whole, and a run completes it."""
    source: Path = request.getfixturevalue(kind)
    place, part = source.with_name("out.h5"), source.with_name(".out.h5.part")
    log = source.with_name("log")
    command = ["resplit", str(source), str(place), "--chunks", "4,7"]
    for at in calls:
        strace = ["strace", "-f", "-o", str(log), "-P", str(part), "-e", "trace=pwrite64"]
        run = [*strace, "-e", f"inject=pwrite64:{fault}:when={at}", sys.executable]
        run += ["-m", "dask_io.cli", *command, "--workers", "1"]
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode != 0, "a fault went unseen"
        if done.returncode > 0:
            assert not place.exists()
            tool.only_line(done.stderr)
        is_begun = place.with_name("out.h5.dask-io").exists()
        tool.run(*(["resume", place] if is_begun else command))
        log.unlink()
        check_complete(source, place)
        place.unlink()
        place.with_name(".out.h5.dask-io").unlink()


def test_a_run_that_is_killed_midway(source: Path, tool: Tool) -> None:
    """It is begun anew by the same chunks and filters, unless the source has changed."""
    place = source.with_name("out.h5")
    chosen = ["--chunks", "4,7", "--codec", "gzip:2"]

    tool.kill(tool.hold("resplit", source, place, *chosen, "--workers", "1", "--device", "ssd"))
    assert not place.exists()
    assert "unfinished" in tool.fail("info", place, code=1)
    assert "unfinished" in tool.fail("resplit", source, place, *chosen, code=2)
    moved = source.rename(source.with_name("moved.h5"))
    done = dask_io.resume(place, verify=True, source=str(moved))
    assert (done.blocks_written, done.blocks_skipped) == (75, 0)
    check_complete(moved, place)
    with h5py.File(place) as file:
        assert file["plain"].compression_opts == 2
    place.unlink()
    place.with_name(".out.h5.dask-io").unlink()

    tool.kill(tool.hold("resplit", moved, place, *chosen, "--workers", "1", "--device", "ssd"))
    with h5py.File(moved, "a") as file:
        file["plain"][0] = 7
    with pytest.raises(DataError, match="has changed since the run began"):
        dask_io.resume(place)


def test_a_run_from_a_group_that_is_killed_midway(group: Path, tool: Tool) -> None:
    """It is begun anew, by naming the folder too, unless an array of the group has changed."""
    folder = group.with_name("files")
    chosen = ["--chunks", "4,7", "--codec", "gzip:2", "--workers", "1", "--device", "ssd"]

    for name in ("a.nc", "b.nc"):
        tool.kill(tool.hold("resplit", group, folder / name, *chosen))
    shown = tool.run("resume", folder)
    assert ("a.nc: " in shown, "b.nc: " in shown) == (True, True)
    for name in ("a.nc", "b.nc"):
        check_complete(group, folder / name)
    assert "equal" in tool.run("verify", folder)

    tool.kill(tool.hold("resplit", group, folder / "c.nc", *chosen))
    (group / "plain/c/0/0").unlink()
    with pytest.raises(DataError, match="has changed since the run began"):
        dask_io.resume(folder / "c.nc")


def test_scratch_blocks_of_a_run_that_was_killed_are_removed(source: Path, tool: Tool) -> None:
    """Also if the next run goes another way."""
    place = source.with_name("out.h5")
    spill = ["--strategy", "spill", "--workers", "1", "--device", "ssd"]
    tool.kill(tool.hold("resplit", source, place, "--chunks", "4,7", *spill))
    assert list(source.parent.glob(".out.h5.*.scratch"))
    dask_io.resume(place, strategy="naive")
    check_complete(source, place)


def test_two_runs_at_once(source: Path, tool: Tool) -> None:
    """Only one of them writes."""
    place = source.with_name("out.h5")
    command = ["resplit", source, place, "--chunks", "4,7", "--workers", "1", "--device", "ssd"]
    run = tool.hold(*command)
    assert "another run is writing it" in tool.fail(*command, code=3)
    assert "another run is writing it" in tool.fail("resume", place, code=3)
    assert "another run is writing it" in tool.fail("info", place, code=3)
    tool.release(run)
    check_complete(source, place)
