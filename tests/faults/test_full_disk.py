"""Disks that are full, limited or read-only: real small filesystems, limits and permissions.

A run looks for room before it begins, so the disk is filled while it goes on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dask_io
from dask_io.errors import StorageError
from tests.commands import invoke
from tests.notices import without_notices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dask_io.engine.run import Progress
    from tests.faults.conftest import Sample, Tool

MiB = 2**20
FULL = "No space left on device"
ONE_THREAD: dict[str, Any] = {"workers": 1, "device": "ssd"}


@contextmanager
def small_disk(place: Path, limits: str) -> Iterator[Path]:
    """Mount a filesystem with limits, if that is allowed."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", limits, "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip("small filesystems cannot be mounted here: that takes root")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill_space(disk: Path) -> None:
    """Write until the disk is full."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    assert os.statvfs(disk).f_bavail == 0


def use_up_files(disk: Path) -> None:
    """Make files until the disk can hold no more of them."""
    with suppress(OSError):
        for n in range(10_000):
            (disk / f"filler_{n}").touch()
    assert os.statvfs(disk).f_favail == 0


def midway(act: Callable[[], None]) -> Callable[[Progress], None]:
    """Return what is to be told of progress, so that something is done once, midway."""
    done: list[bool] = []

    def look(now: Progress) -> None:
        if not done and 2 * now.n_bytes_written >= now.n_bytes:
            done.append(True)
            act()

    return look


@pytest.mark.parametrize(
    ("limits", "fill"),
    [("size=1m", fill_space), ("size=8m,nr_inodes=80", use_up_files)],
    ids=["space", "files"],
)
def test_a_disk_that_fills_up_during_a_run(
    sample: Sample, limits: str, fill: Callable[[Path], None]
) -> None:
    """The run ends with one line that says how to go on; with room again it is completed."""
    with small_disk(sample.folder / "disk", limits) as disk:
        sample = replace(sample, out=disk / "out")
        with pytest.raises(StorageError, match=rf'dask_io\.resume\("{sample.out}"\)') as caught:
            dask_io.resplit(
                sample.blocks,
                sample.out,
                chunks=sample.chunks,
                progress=midway(lambda: fill(disk)),
                **ONE_THREAD,
            )

        assert f"{FULL}; free some space" in str(caught.value)
        assert 16 <= sample.check_blocks() < 42
        with pytest.raises(StorageError, match=FULL):
            dask_io.resume(sample.out, **ONE_THREAD)
        for path in disk.glob("filler*"):
            path.unlink()
        dask_io.resume(sample.out, **ONE_THREAD)
        sample.check_complete()


def test_room_is_looked_for_before_a_run(sample: Sample, tool: Tool) -> None:
    """A disk that is too small is refused at once, and nothing is left on it."""
    with small_disk(sample.folder / "disk", "size=100k") as disk:
        sample = replace(sample, out=disk / "out")
        assert "are needed" in tool.fail(*sample.resplit, code=3)
        assert list(disk.iterdir()) == []


def test_what_may_not_fit_is_said_and_gone_on_with(sample: Sample) -> None:
    """Nobody knows what a codec makes of an array: a line tells, and what is written is kept."""
    with small_disk(sample.folder / "disk", "size=100k") as disk:
        sample = replace(sample, out=disk / "out.zarr")
        done = invoke(*sample.resplit, "--codec", "zstd:1")

        warned, failed = without_notices(done.stderr).splitlines()
        assert (done.exit_code, done.stdout) == (3, "")
        assert warned.startswith(f"dask-io: {sample.out}: ")
        assert (
            "may be needed, but only 100.00 KiB are free; if it fills up, free some space and"
            in warned
        )
        assert FULL in failed
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        dask_io.resume(sample.out)
        sample.check_complete(sample.out)


def test_what_hdf5_tells_of_a_full_disk_is_one_clear_line(sample: Sample) -> None:
    """Of a file that counts only as a whole nothing is left."""
    with small_disk(sample.folder / "disk", "size=20k") as disk:
        place, made = disk / "a.h5", sample.folder / "big.npy"
        np.save(made, np.random.default_rng(0).integers(0, 2**31, (100, 100)))
        command = ["split", str(made), str(place), "--chunks", "10", "--codec", "gzip:1"]
        done = invoke(*command)

        *_, warned, failed = done.stderr.splitlines()
        assert (done.exit_code, done.stdout) == (3, "")
        assert warned.endswith("if it fills up, free some space and run it again")
        assert failed.endswith(f"{FULL}; free some space, or choose another target")
        assert list(disk.iterdir()) == []


def test_one_file_has_its_room_from_the_start(sample: Sample) -> None:
    """A disk that fills up after that does it no harm."""
    with small_disk(sample.folder / "disk", "size=1m") as disk:
        place = disk / "out.npy"
        fill = midway(lambda: fill_space(disk))
        dask_io.merge(sample.blocks, place, strategy="naive", progress=fill, **ONE_THREAD)
        sample.check_complete(place)


@pytest.mark.parametrize("verb", ["resplit", "merge"])
def test_consuming_needs_no_room_for_two_copies(quick_path: Path, verb: str) -> None:
    """An array of 4 MiB becomes another one on a disk of 7 MiB, as its blocks make room."""
    array = np.arange(MiB, dtype="<i4").reshape(1024, 1024)
    with small_disk(quick_path / "disk", "size=7m") as disk:
        source, used = disk / "in", []
        source.mkdir()
        for i in range(64):
            np.save(source / f"b_{i}_0.npy", array[16 * i : 16 * i + 16])

        def measure(_: Progress) -> None:
            now = os.statvfs(disk)
            used.append((now.f_blocks - now.f_bfree) * now.f_frsize)

        options: dict[str, Any] = {"memory": "1MiB", "consume": True, "progress": measure}
        if verb == "resplit":
            place = disk / "out"
            dask_io.resplit(source, place, chunks=(12, 1024), **options, **ONE_THREAD)
        else:
            place = disk / "out.npy"
            dask_io.merge(source, place, strategy="naive", **options, **ONE_THREAD)

        assert np.array_equal(dask_io.open(place)[:, :], array)
        assert not source.exists()
        assert array.nbytes < max(used) < 2 * array.nbytes
        print(f"{verb}: at most {max(used) / MiB:.2f} MiB were used")  # noqa: T201 - to be told


def run_under(under: list[str], arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command under another one."""
    command = [*under, sys.executable, "-m", "dask_io.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.linux
@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is not installed")
@pytest.mark.parametrize(
    ("limit", "what", "is_begun"), [(1500, ".npy.part", False), (6000, ".dask-io/journal", True)]
)
def test_files_that_may_not_grow(
    sample: Sample, tool: Tool, limit: int, what: str, *, is_begun: bool
) -> None:
    """The limit hits the first block, or the journal midway; there is one line, and no harm."""
    sample = replace(sample, chunks=(1, 3))
    done = run_under(["prlimit", f"--fsize={limit}"], sample.resplit)

    assert (done.returncode, done.stdout) == (3, "")
    assert f"{what}: File too large" in tool.only_line(done.stderr)
    assert (sample.check_blocks() > 0, sample.out.exists()) == (is_begun, is_begun)
    tool.run(*(["resume", sample.out] if is_begun else sample.resplit))
    sample.check_complete()


@pytest.fixture
def mortal() -> list[str]:
    """The command that takes from root the right to write everywhere; others do not have it."""
    if os.getuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and setpriv, which changes that, is not installed")
    return ["setpriv", "--bounding-set=-dac_override"]


def test_a_folder_that_may_not_be_written(sample: Sample, tool: Tool, mortal: list[str]) -> None:
    """It is refused in one line, and nothing is changed."""
    closed = sample.folder / "closed"
    closed.mkdir(0o555)
    sample = replace(sample, out=closed / "out")
    done = run_under(mortal, sample.resplit)

    assert (done.returncode, done.stdout) == (3, "")
    assert "Permission denied; check its permissions" in tool.only_line(done.stderr)
    assert list(closed.iterdir()) == []


def test_a_folder_that_is_closed_during_a_run(
    sample: Sample, tool: Tool, mortal: list[str]
) -> None:
    """The run ends with one line that says how to go on; once it is open it is completed."""
    run = tool.hold(*sample.resplit, under=mortal)
    sample.out.chmod(0o555)
    told = tool.release(run)
    sample.out.chmod(0o755)

    assert run.returncode == 3
    assert "Permission denied; check its permissions" in tool.only_line(told)
    assert f"dask-io resume {sample.out}" in told
    sample.check_blocks()
    tool.run("resume", sample.out)
    sample.check_complete()
