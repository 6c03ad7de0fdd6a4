"""A lock in an object store that expires when its process dies.

The lock is an object that is created, changed and released only by conditional puts: of two
processes that try, one succeeds. The holder renews it every quarter of `LEASE_SECONDS`. If it
cannot renew the lock for `LEASE_SECONDS`, it stops until it has renewed it. Another process takes
over the lock only if the holder was a process on the same machine that has ended, or after watching
the lock for `LEASE_SECONDS` without a renewal. So clocks are never compared. Time during which a
machine sleeps counts.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

from dask_io.errors import LockedError, StorageError
from dask_io.storage.objects.conditional import ConflictError, look, put_if, remove
from dask_io.storage.own_names import JOURNAL

if TYPE_CHECKING:
    from obstore import PutMode, UpdateVersion

    from dask_io.storage.objects.path import ObjectPath

LEASE_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_LONGEST = 64 * 2**10
# The locks of this process, by token: it need not wait for locks that it has released.
_HELD: WeakValueDictionary[str, Lease] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class _LockState:
    """The state of a lock: its holder, and its version."""

    holder: dict[str, Any]
    version: UpdateVersion

    @property
    def is_free(self) -> bool:
        return self.holder.get("free") is True

    @property
    def shown(self) -> str:
        process, host = self.holder.get("process"), self.holder.get("host")
        return f"process {process} on {host}"[:200]


def _seconds() -> float:
    """Return monotonic seconds that include the time when the machine sleeps, if possible."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Lease:
    """The lock of a journal, held by this process."""

    def __init__(self, path: ObjectPath) -> None:
        self._path = path
        self.token = secrets.token_hex(16)
        self._version: UpdateVersion = {}
        self._renewed, self._n_renewed = 0.0, 0
        self._is_lost = False
        self._renewing, self._ended = RLock(), Event()

    @classmethod
    def take(cls, path: ObjectPath) -> Lease:
        """Take the lock.

        Raises
        ------
        StorageError
            If another run holds it, or the store ignores conditions.
        """
        lease = cls(path)
        # Registered first: other threads consider an unregistered lock of this process released.
        _HELD[lease.token] = lease
        try:
            try:
                lease._put("create")
            except ConflictError:
                lease._take_over()
            else:
                lease._refuse_unconditional()
        except BaseException:
            _HELD.pop(lease.token, None)
            raise
        Thread(target=_keep, args=(ref(lease), lease._ended), daemon=True).start()
        return lease

    def _take_over(self) -> None:
        seen = _look(self._path)
        if seen is not None and not (seen.is_free or _has_ended(seen.holder)):
            seen = _watch(self._path, seen)
        try:
            self._put(seen.version if seen else "create")
        except ConflictError:
            raise _held(self._path, _look(self._path)) from None

    def _refuse_unconditional(self) -> None:
        """Refuse a store that ignores conditions: two runs could hold the same lock."""
        with suppress(ConflictError):
            put_if(self._path, b"{}", "create")
            remove(self._path)
            raise StorageError(
                str(self._path),
                "the store does not support conditional puts, so runs cannot lock their targets",
                "write to another store, or to a local disk",
            )

    def _put(self, mode: PutMode, *, free: bool = False) -> None:
        """Put the lock, unless another process has."""
        requested = _seconds()
        self._n_renewed += 1
        content = {
            **_this_process(),
            "token": self.token,
            "renewed": self._n_renewed,
            "time": time.time(),
            "free": free,
        }
        self._version = put_if(self._path, json.dumps(content).encode(), mode)
        self._renewed = requested

    def renew(self) -> None:
        """Renew the lock, to show that the process lives."""
        with self._renewing:
            if self._ended.is_set() or self._is_lost:
                return
            try:
                self._put(self._version)
            except ConflictError:
                self.lose()

    def lose(self) -> None:
        """Record that another process holds the lock."""
        self._is_lost = True

    def check(self) -> None:
        """Check that no other process can hold the lock.

        Raises
        ------
        StorageError
            If another process may hold it.
        """
        if self.is_stale:
            self._renew_late()
        if self._is_lost or self.is_stale:
            raise StorageError(
                str(_target_of(self._path)),
                "its lock could not be renewed, so another run may have taken over",
                "check whether another run is active",
            )

    @property
    def is_stale(self) -> bool:
        """Whether the last renewal is so long ago that another process may take the lock."""
        return _seconds() - self._renewed > LEASE_SECONDS

    def _renew_late(self) -> None:
        """Renew the lock after the store was down, if no other process has taken it."""
        with self._renewing, suppress(StorageError):
            # A renewal counts from the time of its request: if the request takes long, renew again.
            for _ in range(2):
                if self.is_stale:
                    self.renew()

    def release(self) -> None:
        """Release the lock; do nothing if another process has taken it or may have taken it."""
        if self.is_stale:
            self._end()
            return
        with self._renewing:
            if self._ended.is_set():
                return
            self._end()
            with suppress(ConflictError, StorageError):
                if not self._is_lost:
                    self._put(self._version, free=True)

    def remove(self) -> None:
        """Remove the lock, if it is still held."""
        with self._renewing:
            self.check()
            try:
                remove(self._path)
            finally:
                # Not before: another thread of this process could take it and see it removed.
                self._end()

    def _end(self) -> None:
        self._ended.set()
        _HELD.pop(self.token, None)


def _keep(lease: ref[Lease], ended: Event) -> None:
    """Renew a lock until it is released or garbage collected."""
    while not ended.wait(LEASE_SECONDS / 4):
        held = lease()
        if held is None:
            return
        # A failed renewal may succeed the next time; if not, `check` raises an error.
        with suppress(StorageError):
            held.renew()
        del held


def refuse_held(path: ObjectPath) -> None:
    """Refuse a lock that a run seems to hold, without waiting.

    Raises
    ------
    StorageError
        If a run seems to hold it.
    """
    seen = _look(path)
    if seen is None or seen.is_free or _has_ended(seen.holder):
        return
    if _is_recent(seen.holder):
        raise _held(path, seen)


def _is_recent(holder: dict[str, Any]) -> bool:
    """Tell whether a lock was renewed recently, if clocks agree."""
    renewed = holder.get("time")
    return isinstance(renewed, float) and 0 <= time.time() - renewed < LEASE_SECONDS


def _watch(path: ObjectPath, seen: _LockState) -> _LockState | None:
    """Wait until a lock has not been renewed for so long that it has expired."""
    if _is_recent(seen.holder):
        raise _held(path, seen)
    since = _seconds()
    while _seconds() - since < LEASE_SECONDS:
        time.sleep(_LOOK_SECONDS)
        now = _look(path)
        if now is None or now.is_free:
            return now
        if now.version != seen.version:
            raise _held(path, now)
    return seen


def _held(path: ObjectPath, seen: _LockState | None) -> LockedError:
    shown = f" ({seen.shown})" if seen else ""
    return LockedError(
        str(_target_of(path)),
        f"another run is writing it{shown}, or was less than {LEASE_SECONDS:.0f} s ago",
        "wait for it, or stop it",
    )


def _target_of(path: ObjectPath) -> ObjectPath:
    """Return the target of a lock."""
    folder = path.parent
    if folder.name == JOURNAL:
        return folder.parent
    return folder.with_name(folder.name.removesuffix(JOURNAL))


def _look(path: ObjectPath) -> _LockState | None:
    """Return the current state of a lock, None if it does not exist."""
    found = look(path)
    if found is None:
        return None
    content, version = found
    try:
        holder = json.loads(content[:_LONGEST])
    except (ValueError, RecursionError):
        holder = {}
    return _LockState(holder if isinstance(holder, dict) else {}, version)


def _this_process() -> dict[str, Any]:
    """Return fields that identify this process among all processes of all machines."""
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "machine": _machine(),
        "process": pid,
        "started": _started(pid),
    }


def _machine() -> str | None:
    """Return an identifier of this machine, its boot, and its process namespace."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return None


def _started(pid: int) -> str | None:
    """Return the start time of a process, None if it does not exist."""
    with suppress(OSError):
        # The name, in parentheses, may contain anything.
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()[19]
    return None


def _has_ended(holder: dict[str, Any]) -> bool:
    """Tell whether the holder of a lock ran on this machine and has ended."""
    pid, machine = holder.get("process"), holder.get("machine")
    if machine is None or machine != _machine() or type(pid) is not int:
        return False
    if pid == os.getpid():
        return str(holder.get("token")) not in _HELD
    return _started(pid) != holder.get("started")
