"""Files that are synced at once: as if each had been synced by itself."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dask_io.storage.local.syncing import syncing
from dask_io.storage.local.system import System

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from dask_io.storage.local.syncing import Syncing

pytestmark = pytest.mark.linux


@pytest.fixture
def kernel() -> Syncing:
    """What the kernel offers, which it does on the processors that most have."""
    found = syncing()
    if found is None:
        pytest.skip(f"nobody has written down how to ask for it on {platform.machine()}")
    return found


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    """Some files with something in them."""
    fds = [os.open(tmp_path / str(n), os.O_WRONLY | os.O_CREAT) for n in range(20)]
    for fd in fds:
        os.write(fd, b"content")
    yield fds
    for fd in fds:
        os.close(fd)


def test_all_are_taken(kernel: Syncing, files: list[int]) -> None:
    """One answer each, again and again, from a queue that is kept."""
    for _ in range(3):
        assert kernel.sync(files) == [None] * len(files)
    assert kernel.sync([]) == []
    assert len(kernel._free) == 1  # noqa: SLF001 - what it keeps is not to be seen


def test_no_more_are_taken_than_a_queue_holds(kernel: Syncing, files: list[int]) -> None:
    """The others are left to the caller."""
    fds = files * 10
    taken = kernel.sync(fds)
    assert len(files) < len(taken) < len(fds)
    assert System(kernel).sync_all(fds) == [None] * len(fds)


@pytest.mark.parametrize("wrong", [0, 7, 19])
def test_what_cannot_be_synced_is_told_in_its_place(
    kernel: Syncing, files: list[int], wrong: int
) -> None:
    """The same for each file as one by one, whether the kernel takes them all or not."""
    pipe = os.pipe()
    fds = [*files[:wrong], pipe[1], *files[wrong + 1 :]]
    at_once, one_by_one = (each.sync_all(fds) for each in (System(kernel), System()))
    for fd in pipe:
        os.close(fd)
    for errors in (at_once, one_by_one):
        assert [n for n, error in enumerate(errors) if error is not None] == [wrong]
    assert [str(error) for error in at_once] == [str(error) for error in one_by_one]


def answering(kernel: Syncing, results: Sequence[int], *, most: int = 3) -> Callable[..., int]:
    """Return a kernel's call that answers a few requests at a time, the last one first."""
    numbers, left = kernel._numbers, list(enumerate(results))  # noqa: SLF001 - stands in for it

    def call(number: object, *arguments: object) -> int:
        match getattr(number, "value", None):
            case numbers.submit:
                return len(results)
            case numbers.getevents:
                answers, n_new = arguments[3], min(most, len(left))
                for place in range(n_new):
                    answers[place].data, answers[place].result = left.pop()  # type: ignore[index]
                return n_new
            case _:
                return 0

    return call


def test_answers_come_in_any_order(kernel: Syncing, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a few at a time; each is that of its file."""
    results = [0, -errno.EIO, 0, 0, -errno.ENOSPC, 0, 0, 0]
    monkeypatch.setattr(kernel, "_call", answering(kernel, results))
    errors = kernel.sync(range(len(results)))
    assert [error.errno if error else 0 for error in errors] == [-result for result in results]


@pytest.mark.parametrize("fails", ["setup", "submit"])
def test_a_kernel_that_cannot_takes_none(
    kernel: Syncing, files: list[int], monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """Nothing is under way then, and each file is synced by itself."""
    really, number = kernel._call, getattr(kernel._numbers, fails)  # noqa: SLF001 - stands in for it

    def call(asked: object, *arguments: object) -> int:
        if getattr(asked, "value", None) == number:
            # Refused, as an unknown queue is.
            return int(really(asked, *(0 for _ in arguments)))
        return int(really(asked, *arguments))

    monkeypatch.setattr(kernel, "_call", call)
    assert kernel.sync(files) == []
    assert System(kernel).sync_all(files) == [None] * len(files)


def test_a_wait_that_fails_is_an_error(
    kernel: Syncing, files: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What became of the files is not known, and a second sync would not tell; the queue goes."""
    really, getevents = kernel._call, kernel._numbers.getevents  # noqa: SLF001 - stands in for it

    def call(asked: object, *arguments: object) -> int:
        wanted = getattr(asked, "value", None) != getevents
        return int(really(asked, *(arguments if wanted else (0 for _ in arguments))))

    monkeypatch.setattr(kernel, "_call", call)
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.sync(files)
    assert not kernel._free  # noqa: SLF001 - what it keeps is not to be seen


def test_a_forked_process_has_queues_of_its_own() -> None:
    """Those of its parent are unknown to the kernel there."""
    program = """
import os, tempfile
from dask_io.storage.local.syncing import syncing
kernel = syncing()
with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as other:
    fds = [one.fileno(), other.fileno()]
    found = kernel.sync(fds)
    child = os.fork()
    if child == 0:
        os._exit(0 if kernel.sync(fds) == found == [None, None] else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"


@pytest.mark.parametrize("why", [OSError, AttributeError])
def test_no_library_to_ask_is_no_error(monkeypatch: pytest.MonkeyPatch, why: type) -> None:
    """Some interpreters have none; files are synced one by one then."""

    def load(*_: object, **__: object) -> None:
        raise why

    monkeypatch.setattr("ctypes.CDLL", load)
    assert syncing() is None
