"""Locks of a program: what a plan asks of them, and that it never waits for itself."""

from collections.abc import Callable
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
import pytest
import zarr

import dask_io
from tests.graph.shapes import SHAPE, da, dask, target, values


class CountingLock:
    """A lock that has what Dask asks for, and is not a context manager."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.n_acquired = self.n_released = 0

    def acquire(self) -> bool:
        """Wait for the lock."""
        self.lock.acquire()
        self.n_acquired += 1
        return True

    def release(self) -> None:
        """Give the lock back."""
        self.n_released += 1
        self.lock.release()


class ImpatientLock(dask.utils.SerializableLock):  # type: ignore[misc]
    """A lock that raises where others wait."""

    def acquire(self, *args: Any, **kwargs: Any) -> Any:
        """Take the lock if it is free."""
        if self.locked():
            raise RuntimeError("someone holds this lock")
        return super().acquire(*args, **kwargs)


class SharedLock(CountingLock):
    """A lock that is also behind another object."""

    def __init__(self, lock: Any) -> None:
        super().__init__()
        self.lock = lock


def opened(inputs: Path, lock: Any, *, raw: bool = False) -> Any:
    """Return an array that is read with a lock."""
    if raw:
        file = dask_io.open(inputs / "one.raw", shape=SHAPE, dtype="i4")
        return da.from_array(file, chunks=(9, 9), lock=lock)
    array = zarr.open_array(str(inputs / "a.zarr"), mode="r")
    return da.from_array(array, chunks=(10, 22), lock=lock)


def stored(inputs: Path, folder: Path, *, read: Any, write: Any) -> Any:
    """Return a program that reads with one lock and stores with another."""
    made = target(folder / "x.zarr", (25, 44))
    return opened(inputs, read).rechunk((25, 44)).store(made, lock=write, compute=False)


def finish(run: Callable[[], object]) -> list[BaseException]:
    """Run something that must not wait for ever; return what it raises."""
    raised: list[BaseException] = []

    def catch() -> None:
        try:
            run()
        except RuntimeError as error:
            raised.append(error)

    thread = Thread(target=catch, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), "it waits for a lock that nobody gives back"
    return raised


def test_acquire_and_release_are_enough(inputs: Path, tmp_path: Path) -> None:
    """A lock without `with` is held while a plan writes, and given back."""
    lock = CountingLock()
    collection = stored(inputs, tmp_path, read=False, write=lock)
    with dask_io.optimize(memory="1MiB"):
        assert dask_io.explain(collection).matched
        collection.compute()

    assert lock.n_acquired == lock.n_released == 1
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "x.zarr"))[:], values())


@pytest.mark.parametrize("raw", [False, True])
def test_they_are_enough_to_read_and_compute(inputs: Path, tmp_path: Path, *, raw: bool) -> None:
    """The same holds for a lock of `from_array`, and for arrays that are not stored."""
    lock = CountingLock()
    if raw:
        collection = opened(inputs, lock, raw=True).sum()
    else:
        collection = stored(inputs, tmp_path, read=lock, write=False)
    with dask_io.optimize(memory="1MiB"):
        assert dask_io.explain(collection).matched
        dask.compute(collection)

    assert lock.n_acquired == lock.n_released > 0


@pytest.mark.parametrize("raw", [False, True])
def test_a_lock_that_raises_ends_the_program(inputs: Path, tmp_path: Path, *, raw: bool) -> None:
    """The error arrives, every lock is given back, and the next program runs."""
    lock, first = ImpatientLock("b"), dask.utils.SerializableLock("a")
    if raw:
        collection = opened(inputs, lock, raw=True).sum()
    else:
        collection = stored(inputs, tmp_path, read=first, write=lock)
    with dask_io.optimize(memory="1MiB"):
        assert dask_io.explain(collection).matched
        lock.acquire()
        try:
            (error,) = finish(lambda: collection.compute(scheduler="sync"))
        finally:
            lock.release()
        assert "someone holds this lock" in str(error)
        assert not first.locked()
        collection.compute()

    assert not lock.locked()


@pytest.mark.parametrize("first", ["read", "write"])
def test_objects_that_may_share_a_lock_are_left_to_dask(
    inputs: Path, tmp_path: Path, first: str
) -> None:
    """A plan would hold both at the same time, and wait for itself."""
    lock = dask.utils.SerializableLock()
    locks = {"read": lock, "write": lock, first: SharedLock(lock)}
    collection = stored(inputs, tmp_path, **locks)
    with dask_io.optimize(memory="1MiB"):
        (reason,) = dask_io.explain(collection).reasons
        finish(collection.compute)

    assert "may share its lock" in reason
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "x.zarr"))[:], values())


def test_copies_of_a_lock_are_one_lock(inputs: Path, tmp_path: Path) -> None:
    """Two objects with the same token are taken once."""
    token = "the same"  # noqa: S105 - the name of a lock
    one, other = dask.utils.SerializableLock(token), dask.utils.SerializableLock(token)
    collection = stored(inputs, tmp_path, read=one, write=other)
    with dask_io.optimize(memory="1MiB"):
        assert dask_io.explain(collection).matched
        finish(collection.compute)

    assert not one.locked()
