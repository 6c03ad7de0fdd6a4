"""The lock of a journal: one run holds it, and a dead one does not for ever."""

from __future__ import annotations

import json
import sys
from functools import partial
from threading import Event, Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import obstore
import pytest
from obstore.exceptions import GenericError

from dask_io.errors import LockedError, StorageError
from dask_io.journal import lease
from dask_io.journal.lease import Lease, refuse_held
from dask_io.storage.objects import requests
from dask_io.storage.objects.connect import parse_url
from dask_io.testing.faults import Killed, RequestFaults, inject_into_requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from dask_io.storage.objects.path import ObjectPath


@pytest.fixture
def lock() -> ObjectPath:
    """Where a lock may be."""
    return parse_url(f"memory://{uuid4()}/x/.dask-io/lock")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that moves only when someone sleeps; its first value is the time."""
    now = [1000.0]
    set_clock(monkeypatch, now, lambda: None)
    return now


def set_clock(
    monkeypatch: pytest.MonkeyPatch, now: list[float], on_sleep: Callable[[], None]
) -> None:
    """Have leases go by another clock; something may happen while they sleep."""

    def sleep(seconds: float) -> None:
        now[0] += seconds
        on_sleep()

    told = SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0] + 1e9, sleep=sleep)
    monkeypatch.setattr(lease, "time", told)


def read(lock: ObjectPath) -> dict[str, Any]:
    """Return what a lock says."""
    found = json.loads(bytes(obstore.get(lock.store, lock.key).bytes()))
    assert isinstance(found, dict)
    return found


def of_another_machine(lock: ObjectPath, **changed: object) -> None:
    """Have a lock held by a process elsewhere."""
    content = {**read(lock), "machine": "elsewhere", "host": "far\x1b[2J", **changed}
    obstore.put(lock.store, lock.key, json.dumps(content).encode())


def test_only_one_holds_it(lock: ObjectPath) -> None:
    """The second is refused at once, and told by whom."""
    held = Lease.take(lock)
    with pytest.raises(StorageError, match=r"/x: another run is writing it \(process \d+ on"):
        Lease.take(lock)
    with pytest.raises(StorageError, match="another run is writing it"):
        refuse_held(lock)
    held.release()
    refuse_held(lock)
    Lease.take(lock).release()


def test_no_thread_takes_what_another_is_taking_or_letting_go_of(
    lock: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From when it is there until it is gone, nobody else of the same process gets it."""
    tried: list[str] = []

    def try_too(when: str) -> None:
        monkeypatch.setattr(requests, "calls", plain)
        tried.append(when)
        with pytest.raises(LockedError):
            Lease.take(lock)
        monkeypatch.setattr(requests, "calls", watched)

    class Watched(requests.Requests):
        def put(self, *args: Any, **options: Any) -> Any:
            done = plain.put(*args, **options)
            try_too("put")
            return done

        def delete(self, *args: Any) -> Any:
            try_too("removed")
            return plain.delete(*args)

    plain, watched = requests.calls, Watched()
    monkeypatch.setattr(requests, "calls", watched)
    held = Lease.take(lock)
    held.remove()
    assert set(tried) == {"put", "removed"}
    assert not lock.exists()


def test_threads_take_locks_while_others_look_at_theirs(
    lock: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process holds may change at any moment of looking whether it holds a lock."""
    put: list[bytes] = []
    is_over, interval = Event(), sys.getswitchinterval()
    # Nothing takes long but what is done in memory.
    monkeypatch.setattr(lease, "_machine", lambda: "this one")
    monkeypatch.setattr(lease, "put_if", lambda _, content, __: put.append(content))
    monkeypatch.setattr(lease, "look", lambda _: (put[0], {}))
    monkeypatch.setattr(lease, "Thread", lambda **_: SimpleNamespace(start=lambda: None))
    monkeypatch.setattr(Lease, "_refuse_unconditional", lambda _: None)
    held = [Lease.take(lock) for _ in range(500)]

    def take() -> None:
        while not is_over.is_set():
            held.append(Lease.take(lock))
            held.pop().release()

    taking = Thread(target=take)
    sys.setswitchinterval(1e-7)
    taking.start()
    try:
        for _ in range(2000):
            with pytest.raises(LockedError):
                refuse_held(lock)
    finally:
        is_over.set()
        taking.join()
        sys.setswitchinterval(interval)


def test_what_a_process_has_given_up_it_takes_again(lock: ObjectPath) -> None:
    """A lock that could not be let go of does not stand in the way of its own process."""
    with inject_into_requests(RequestFaults(5)), pytest.raises(Killed):
        Lease.take(lock).release()
    assert read(lock)["free"] is False
    Lease.take(lock).release()


def test_a_dead_process_of_this_machine_holds_nothing(lock: ObjectPath) -> None:
    """It is known to be dead, so nothing is waited for."""
    Lease.take(lock)
    content = {**read(lock), "process": 2**22 + 1, "started": "1"}
    obstore.put(lock.store, lock.key, json.dumps(content).encode())
    refuse_held(lock)
    Lease.take(lock).release()


def test_the_number_of_a_process_may_be_that_of_another(lock: ObjectPath) -> None:
    """A process that started later is not the one that held the lock."""
    Lease.take(lock)
    content = {**read(lock), "process": 1, "started": "long before"}
    obstore.put(lock.store, lock.key, json.dumps(content).encode())
    Lease.take(lock).release()


def test_a_lock_of_another_machine_is_watched(lock: ObjectPath, clock: list[float]) -> None:
    """It is taken over when it has not been renewed for as long as a lease is, not before."""
    Lease.take(lock)
    of_another_machine(lock)
    with pytest.raises(StorageError, match=r"on far\\x1b\[2J"):
        Lease.take(lock)
    clock[0] += lease.LEASE_SECONDS
    before = clock[0]
    Lease.take(lock)
    assert clock[0] - before >= lease.LEASE_SECONDS
    assert read(lock)["machine"] != "elsewhere"


def test_clocks_need_not_agree(lock: ObjectPath, clock: list[float]) -> None:
    """A lock from the future is watched as any other."""
    Lease.take(lock)
    of_another_machine(lock, time=9e9)
    before = clock[0]
    Lease.take(lock)
    assert clock[0] - before >= lease.LEASE_SECONDS


def test_a_lock_that_is_renewed_is_left_alone(
    lock: ObjectPath, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever watches it sees that."""
    Lease.take(lock)
    of_another_machine(lock, time=0.0)
    renew = partial(of_another_machine, lock, time=0.0)
    set_clock(monkeypatch, clock, lambda: renew(renewed=clock[0]))
    with pytest.raises(StorageError, match="another run is writing it"):
        Lease.take(lock)


def test_a_lock_that_was_taken_over_is_lost(lock: ObjectPath) -> None:
    """Its holder notices, does no more, and takes nothing away."""
    held = Lease.take(lock)
    of_another_machine(lock)
    held.check()
    held.renew()
    with pytest.raises(StorageError, match="another run may have taken over"):
        held.check()
    with pytest.raises(StorageError, match="taken over"):
        held.remove()
    held.release()
    assert read(lock)["machine"] == "elsewhere"


class Down(requests.Requests):
    """A store that takes nothing."""

    @staticmethod
    def put(*_: Any, **__: Any) -> Any:
        """Fail."""
        raise GenericError("Error performing PUT: status code: 400 Bad Request")


def test_a_lock_that_cannot_be_renewed_is_given_up(
    lock: ObjectPath, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the holder's own clock, before anyone may take it over."""
    held = Lease.take(lock)
    clock[0] += lease.LEASE_SECONDS / 2
    held.check()
    held.renew()
    clock[0] += lease.LEASE_SECONDS
    monkeypatch.setattr(requests, "calls", Down())
    held.check()
    clock[0] += 0.1
    with pytest.raises(StorageError, match="could not be renewed"):
        held.check()
    before = read(lock)
    held.release()
    assert read(lock) == before, "nobody waits for a store that is down"


def test_a_lock_is_renewed_late_if_nobody_has_taken_it(
    lock: ObjectPath, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that was down for longer than a lease lasts is no reason to give up."""
    held = Lease.take(lock)
    first = read(lock)["renewed"]
    clock[0] += 1.5 * lease.LEASE_SECONDS
    set_clock(monkeypatch, clock, lambda: None)
    put, waits = requests.calls.put, [1.5 * lease.LEASE_SECONDS, 0.0]

    class Slow(requests.Requests):
        @staticmethod
        def put(*arguments: Any, **options: Any) -> Any:
            clock[0] += waits.pop(0)
            return put(*arguments, **options)

    monkeypatch.setattr(requests, "calls", Slow())
    held.check()
    assert read(lock)["renewed"] == first + 2, "the first one counted from when it was asked for"
    of_another_machine(lock)
    clock[0] += 1.5 * lease.LEASE_SECONDS
    waits.append(0.0)
    with pytest.raises(StorageError, match="another run may have taken over"):
        held.check()


def test_time_that_was_slept_through_counts(
    lock: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's other clock stands still meanwhile, but those of other machines do not."""
    awake = [0.0]
    told = SimpleNamespace(
        CLOCK_BOOTTIME=7,
        clock_gettime=lambda clock: {7: awake[0]}[clock],
        monotonic=lambda: 0.0,
        time=lambda: 1e9,
    )
    monkeypatch.setattr(lease, "time", told)
    held = Lease.take(lock)
    held.check()
    awake[0] += lease.LEASE_SECONDS + 0.1
    monkeypatch.setattr(requests, "calls", Down())
    with pytest.raises(StorageError, match="could not be renewed"):
        held.check()


def test_it_is_renewed_by_itself(lock: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread does so, as long as someone thinks of the lock."""
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.04)
    held = Lease.take(lock)
    first = read(lock)["renewed"]
    for _ in range(500):
        if read(lock)["renewed"] > first + 1:
            break
        held._ended.wait(0.02)  # noqa: SLF001 - nobody sets it
    assert read(lock)["renewed"] > first + 1
    held.release()


def test_a_store_without_conditions_is_refused(
    lock: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs could not be kept apart, so there is none."""

    class Careless(requests.Requests):
        @staticmethod
        def put(store: Any, key: str, content: Any, **_: Any) -> Any:  # type: ignore[override]
            return obstore.put(store, key, content)

    monkeypatch.setattr(requests, "calls", Careless())
    with pytest.raises(StorageError, match="does not support conditional puts"):
        Lease.take(lock)
    assert not lock.exists()


@pytest.mark.parametrize("content", [b"", b"[]", b"nonsense", b'{"time": "x", "process": []}'])
def test_a_lock_that_says_nothing_is_watched(
    lock: ObjectPath, clock: list[float], content: bytes
) -> None:
    """Whatever it is, nobody renews it."""
    obstore.put(lock.store, lock.key, content)
    refuse_held(lock)
    before = clock[0]
    Lease.take(lock)
    assert clock[0] - before >= lease.LEASE_SECONDS
