"""As many threads code at once as there are cores."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError

import pytest

from dask_io.codecs import cores as module
from dask_io.codecs.cores import Cores, on_core, usable_cores


def test_every_core_is_used() -> None:
    """By one thread each."""
    cores, all_there = Cores(), Barrier(usable_cores())

    def code(_: int) -> None:
        with cores:
            all_there.wait(timeout=60)

    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(code, range(usable_cores())))


def test_no_core_is_shared() -> None:
    """One thread more than there are cores never gets to work beside all others."""
    cores, too_many = Cores(), Barrier(usable_cores() + 1)

    def code(_: int) -> None:
        with cores:
            too_many.wait(timeout=0.2)

    with ThreadPoolExecutor(usable_cores() + 1) as pool, pytest.raises(BrokenBarrierError):
        list(pool.map(code, range(usable_cores() + 1)))


def test_a_core_is_held_to_make_a_part_and_left_while_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So who waits for a disk keeps no one from coding, whatever becomes of the part."""
    held: list[int] = []

    class Counted(Cores):
        def __enter__(self) -> None:
            super().__enter__()
            held.append(1)

        def __exit__(self, *error: object) -> None:
            held.pop()
            super().__exit__(None, None, None)

    monkeypatch.setattr(module, "CORES", Counted())

    def make() -> Iterator[int]:
        yield len(held)
        yield len(held)
        raise ValueError("broken")

    parts = on_core(make())
    for _ in range(2):
        assert next(parts) == 1
        assert not held
    with pytest.raises(ValueError, match="broken"):
        next(parts)
    assert not held


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_that_is_forked_has_all_cores() -> None:
    """Also if threads held them when it was: those are not in it."""
    cores = Cores()
    for _ in range(usable_cores()):
        cores.__enter__()
    pid = os.fork()
    if not pid:
        # Without its cores it would wait for ever.
        signal.alarm(60)
        with cores:
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
