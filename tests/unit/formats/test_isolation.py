"""Work in a process of its own: what it returns, and what becomes of one that does not survive."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from dask_io.formats.isolation import WORKER, Limits

if TYPE_CHECKING:
    from types import FrameType

LIMITS = Limits.for_file(0)
ENDLESS = range(10**15)


def run(program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own."""
    begin = "import os, sys\nfrom dask_io.formats.isolation import WORKER, Limits\n"
    command = [sys.executable, *options, "-c", begin + dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def is_running(pid: int) -> bool:
    """Tell whether a process is there, and is more than a note that it was."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for_the_end_of(pid: int) -> None:
    """Wait until a process is gone, which takes it a moment."""
    for _ in range(6000):
        if not is_running(pid):
            return
        time.sleep(0.01)
    pytest.fail(f"process {pid} stays")


def test_it_is_another_process_and_stays() -> None:
    """Work is done elsewhere, and always there."""
    first = WORKER.call(LIMITS, os.getpid)

    assert first == WORKER.pid != os.getpid()
    assert WORKER.call(LIMITS, os.getpid) == first


def test_it_holds_nothing_that_was_open(tmp_path: Path) -> None:
    """A lock ends with the file that was open when the process was started, as HDF5 opens files."""
    ended = run(
        f"""
        from fcntl import LOCK_EX, LOCK_NB, flock
        first = os.open({str(tmp_path / "a")!r}, os.O_RDWR | os.O_CREAT)
        os.set_inheritable(first, True)
        flock(first, LOCK_EX)
        WORKER.call(Limits.for_file(0), os.getpid)
        os.close(first)
        flock(os.open({str(tmp_path / "a")!r}, os.O_RDWR), LOCK_EX | LOCK_NB)
        """
    )

    assert not ended.stderr
    assert ended.returncode == 0


def test_an_error_is_raised_where_work_was_asked_for() -> None:
    """An exception comes back with a note of where it comes from, and ends nothing."""
    pid = WORKER.call(LIMITS, os.getpid)

    with pytest.raises(ZeroDivisionError) as caught:
        WORKER.call(LIMITS, operator.floordiv, 1, 0)

    assert any("function(*args)" in note for note in caught.value.__notes__)
    assert WORKER.pid == pid


def test_a_crash_is_an_error() -> None:
    """A crash is told with its signal, and the next work is done by a new process."""
    pid = WORKER.call(LIMITS, os.getpid)

    with pytest.raises(ValueError, match=r"cannot be read: .* \(SIGABRT\); it is broken"):
        WORKER.call(LIMITS, os.abort)

    assert not is_running(pid)
    assert WORKER.call(LIMITS, os.getpid) != pid


def test_work_that_does_not_end_is_stopped() -> None:
    """Time of the processor is limited."""
    with pytest.raises(ValueError, match="SIGXCPU"):
        WORKER.call(LIMITS._replace(seconds=0), sum, ENDLESS)


def test_memory_is_limited() -> None:
    """What may not be held is not, counted anew for all work."""
    limits = LIMITS._replace(n_bytes=64 * 2**20)
    for _ in range(3):
        assert len(WORKER.call(limits, bytes, 16 * 2**20)) == 16 * 2**20
        with pytest.raises(MemoryError):
            WORKER.call(limits, bytes, 80 * 2**20)


def test_limits_grow_with_the_file() -> None:
    """A large file has more to be listed."""
    small, large = Limits.for_file(2**10), Limits.for_file(2**40)

    assert small.seconds < large.seconds
    assert small.n_bytes < large.n_bytes


def test_a_process_that_somebody_stopped_is_no_fault_of_the_file() -> None:
    """Only a crash of a process that has done nothing else yet tells about its work."""
    os.kill(WORKER.call(LIMITS, os.getpid), signal.SIGKILL)

    assert WORKER.call(LIMITS, operator.add, 1, 2) == 3


def test_many_threads() -> None:
    """Every thread gets its own answer, from one process, whatever becomes of others' work."""

    def ask(number: int) -> int:
        if number % 50 == 7:
            with pytest.raises(ValueError, match="SIGABRT"):
                WORKER.call(LIMITS, os.abort)
        return WORKER.call(LIMITS, pow, number, 2)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(200))) == [number**2 for number in range(200)]


def test_an_interrupt_ends_the_work() -> None:
    """What interrupts the wait comes through, and nothing is left of work or answer."""

    class Interrupt(BaseException):
        pass

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise Interrupt

    pid = WORKER.call(LIMITS, os.getpid)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Interrupt):
            WORKER.call(LIMITS._replace(seconds=600), sum, ENDLESS)
    finally:
        signal.signal(signal.SIGALRM, before)

    assert not is_running(pid)
    assert WORKER.call(LIMITS, operator.add, 1, 2) == 3


def test_paths_are_relative_to_where_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of directory is followed, even to one that is gone."""
    here = tmp_path / "a"
    here.mkdir()
    WORKER.call(LIMITS, os.getpid)
    monkeypatch.chdir(here)

    assert WORKER.call(LIMITS, os.getcwd) == str(here.resolve())

    here.rmdir()
    assert WORKER.call(LIMITS, os.getcwd) == os.sep


@pytest.mark.parametrize(
    "spoil", ["sys.executable = '/nowhere/python'", "sys.path[:] = []"], ids=["none", "lost"]
)
def test_a_process_that_cannot_be_started(spoil: str) -> None:
    """That is a matter of the environment, not of the file."""
    done = run(
        f"""
        import operator
        from dask_io.errors import StorageError
        {spoil}
        try:
            WORKER.call(Limits.for_file(0), operator.add, 1, 2)
        except StorageError as error:
            print(error)
        """
    )

    assert done.stdout.endswith("cannot be started to read the metadata of files\n"), done.stderr


def test_it_ends_with_us_and_leaves_no_trace() -> None:
    """No warning at the end of the interpreter, no process that stays, none to be waited for."""
    done = run(
        """
        try:
            WORKER.call(Limits.for_file(0), os.abort)
        except ValueError:
            pass
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("no child", end=" ")
        print(WORKER.call(Limits.for_file(0), os.getpid))
        """,
        "-Werror",
        "-Xdev",
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("no child ")
    wait_for_the_end_of(int(done.stdout.split()[-1]))


def test_it_ends_when_we_are_killed() -> None:
    """A process that can clean up nothing leaves none behind."""
    done = run(
        """
        print(WORKER.call(Limits.for_file(0), os.getpid), flush=True)
        os.kill(os.getpid(), 9)
        """
    )

    assert done.returncode == -signal.SIGKILL
    wait_for_the_end_of(int(done.stdout))


def test_a_fork_starts_its_own() -> None:
    """Parent and child do not talk into each other's work, and each ends its own."""
    done = run(
        """
        limits = Limits.for_file(0)
        first = WORKER.call(limits, os.getpid)
        forked = os.fork()
        second = WORKER.call(limits, os.getpid)
        print(first, second, flush=True)
        if forked:
            os.waitpid(forked, 0)
        """
    )

    pids = [line.split() for line in done.stdout.splitlines()]
    assert done.stderr == ""
    assert sorted(first == second for first, second in pids) == [False, True]
    for pid in {pid for line in pids for pid in line}:
        wait_for_the_end_of(int(pid))


def test_other_formats_do_without(tmp_path: Path) -> None:
    """Neither the library nor a run from and to files of other formats starts the process."""
    program = f"""
    import os, sys
    import numpy as np
    import dask_io
    np.save({str(tmp_path / "a.npy")!r}, np.zeros((4, 4)))
    dask_io.resplit({str(tmp_path / "a.npy")!r}, {str(tmp_path / "b")!r}, chunks=(2, 2))
    print("dask_io.formats.isolation" in sys.modules)
    """
    command = [sys.executable, "-c", dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "False"
