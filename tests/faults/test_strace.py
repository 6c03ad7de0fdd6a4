"""Faults at real system calls, put there by ``strace``: the run can be resumed, nothing is wrong.

`test_every_call` goes through all calls with faults of its own making; this repeats a sample of
them where the system itself fails, or kills the process in the midst of a call.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.faults.conftest import Sample, Tool

pytestmark = [
    pytest.mark.linux,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]

# Processors differ in which of these they have.
CALLS = {
    "open": "openat",
    "write": "pwrite64,?pwritev,?pwritev2",
    "sync": "fdatasync",
    "sync at once": "io_submit",
    "wait": "io_getevents",
    "rename": "?rename,?renameat,?renameat2",
    "unlink": "?unlink,unlinkat",
}
FAULTS = {"kill": "signal=KILL", "EIO": "error=EIO", "ENOSPC": "error=ENOSPC"}


def paths_of(sample: Sample) -> Iterator[Path]:
    """Yield what a run touches that can be named beforehand; strace knows paths, not patterns."""
    yield from sample.blocks.iterdir()
    blocks = [f"b_{i}_{j}.npy" for i in range(6) for j in range(7)]
    journal = [f".dask-io/{name}" for name in ("journal", "lock")]
    for name in [*blocks, *journal, "dask-io.json", ".dask-io", "."]:
        yield sample.out / name
    for name in [*blocks, "dask-io.json"]:
        yield sample.out / f".{name}.part"


def run_with_fault(
    sample: Sample, call: str, fault: str, at: int
) -> subprocess.CompletedProcess[str] | None:
    """Run with a fault at the Nth call of a thread; None if there are not so many."""
    log = sample.folder / "log"
    inject = f"inject={CALLS[call]}:{FAULTS[fault]}:when={at}"
    paths = [word for path in paths_of(sample) for word in ("-P", str(path))]
    if call in {"sync at once", "wait"}:
        # They name no file, and nobody else makes them.
        paths = []
    strace = ["strace", "-f", "-o", str(log), "-e", f"trace={CALLS[call]}", "-e", inject, *paths]
    command = [*strace, sys.executable, "-m", "dask_io.cli", *sample.resplit, "--consume"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    happened = done.returncode == -9 or "(INJECTED)" in log.read_text()
    return done if happened else None


def survive(sample: Sample, tool: Tool, call: str, fault: str, at: int) -> bool:
    """Run with a fault, look at what it left, and complete it; False if there was none."""
    done = run_with_fault(sample, call, fault, at)
    if done is None:
        return False
    sample.check_blocks()
    if fault == "kill":
        assert done.returncode == -9
    elif done.returncode:
        # Where there is another way to go on, as where files cannot be opened directly, it is 0.
        assert (done.returncode, done.stdout) == (3, "")
        tool.only_line(done.stderr)
    is_begun = sample.out.exists() and any(sample.out.iterdir())
    tool.run(*(["resume", sample.out] if is_begun else sample.resplit), "--consume")
    sample.check_complete()
    assert not sample.blocks.exists(), "the source should be used up"
    return True


@pytest.mark.parametrize(
    ("call", "fault", "at"),
    [
        ("write", "kill", 30),
        ("rename", "kill", 20),
        ("unlink", "kill", 3),
        ("sync", "EIO", 2),
        ("sync at once", "EIO", 1),
        ("sync at once", "kill", 1),
        ("wait", "EIO", 1),
        ("wait", "kill", 1),
        ("write", "ENOSPC", 20),
        ("open", "EIO", 45),
    ],
)
def test_a_run_survives_a_failing_call(
    sample: Sample,
    tool: Tool,
    call: str,
    fault: str,
    *,
    at: int,
    record_property: Callable[[str, object], None],
) -> None:
    """What looks complete is right, `resume` completes the rest, and nothing else is left."""
    assert survive(sample, tool, call, fault, at), f"there are fewer calls than {at}"
    record_property("survived", {f"{fault} by strace": 1})


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_a_run_survives_failing_calls(
    sample: Sample,
    tool: Tool,
    call: str,
    fault: str,
    record_property: Callable[[str, object], None],
) -> None:
    """The same at the first call, the fourth and so on to the last."""
    saved, at = shutil.copytree(sample.blocks, sample.folder / "saved"), 1
    try:
        while survive(sample, tool, call, fault, at):
            shutil.rmtree(sample.out)
            shutil.copytree(saved, sample.blocks)
            at += 3
    except BaseException as error:
        error.add_note(f"{fault} at {call} number {at}")
        raise
    assert at > 1
    record_property("survived", {f"{fault} by strace": at // 3})
