"""Inject faults into system calls or requests, at a chosen one.

`inject` replaces the system calls that read and change files, and counts them. At a chosen call it
raises an error or simulates a killed process: all files are closed, and later calls have no
effect. `Synced` simulates a power failure, after which only synced data is left.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.storage.local import system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CALLS = (
    "open",
    "close",
    "preadv",
    "pwrite",
    "pwritev",
    "ftruncate",
    "fallocate",
    "fsync",
    "fdatasync",
    "rename",
    "unlink",
    "mkdir",
    "rmdir",
    "lock",
)
REQUESTS = ("get", "get_ranges", "head", "list", "list_with_delimiter", "put", "delete")


class Killed(BaseException):
    """The simulated process was killed; nothing may catch this."""


class Loss(StrEnum):
    """What a power failure leaves of changes that were not synced."""

    NOTHING = "nothing"
    """Neither names nor data."""
    NAMES = "names"
    """File names, but no data."""


@dataclass
class Faults:
    """System calls with a fault at the Nth call.

    Parameters
    ----------
    at
        Number of the call that fails, counted from 1; 0 for none.
    error
        The error number it fails with; without one, the process is killed there.
    """

    at: int = 0
    error: int | None = None
    n_calls: int = 0
    log: list[str] = field(default_factory=list)
    is_dead: bool = False
    _open: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Make a call, unless this is the one that fails."""
        with self._lock:
            self._count(name, arguments)
            found = function(*arguments)
            if name == "open":
                self._open.add(found)
            elif name == "close":
                self._open.discard(arguments[0])
            return found

    def _count(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Count a call, and fail if it is the chosen one."""
        if self.is_dead:
            raise Killed
        self.n_calls += 1
        self.log.append(f"{name} {arguments[0]}")
        if self.n_calls != self.at:
            return
        if self.error is None:
            self._die()
        if name == "close":
            # The descriptor is released even if close fails.
            os.close(arguments[0])
            self._open.discard(arguments[0])
        raise OSError(self.error, os.strerror(self.error or 0))

    def _die(self) -> None:
        self.is_dead = True
        for fd in self._open:
            _TAKEN.replace(fd)
        raise Killed


class _TakenNumbers:
    """The numbers of files that a simulated kill closed.

    File objects and generators of the killed run may close their numbers again, at any time. A file
    of another test that had such a number would be closed instead. So an empty file takes each of
    them. The oldest numbers become free again, because the system limits how many there may be.
    """

    def __init__(self) -> None:
        self._empty = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._numbers: deque[int] = deque()

    def replace(self, fd: int) -> None:
        """Close a file, and give its number to the empty one."""
        os.dup2(self._empty.fileno(), fd, inheritable=False)
        self._numbers.append(fd)
        if len(self._numbers) > _MOST_TAKEN:
            oldest = self._numbers.popleft()
            with suppress(OSError):
                # Another file may have the number by now.
                if os.path.sameopenfile(oldest, self._empty.fileno()):
                    os.close(oldest)


_MOST_TAKEN = 200
_TAKEN = _TakenNumbers()


@contextmanager
def inject(faults: Faults, synced: Synced | None = None) -> Iterator[None]:
    """Inject faults into system calls. Syncs are only recorded in `synced`, never executed."""
    before, real = system.calls, system.System()
    replacement = system.System()
    for name in CALLS:
        function = getattr(real, name)
        if name in {"fsync", "fdatasync"}:
            function = _ignore if synced is None else synced.note
        setattr(replacement, name, partial(faults.call, name, function))
    system.calls = replacement
    try:
        yield
    finally:
        system.calls = before


def _ignore(_: int) -> None:
    """Skip a sync: written data survives the end of the process without it."""


@dataclass
class RequestFaults:
    """Requests to an object store with a fault at the Nth moment.

    A moment is before any request, or after a put or delete.

    Parameters
    ----------
    at
        Number of the moment of the fault, counted from 1; 0 for none.
    error
        The error that the request fails with; without one, the process is killed there.
    """

    at: int = 0
    error: Exception | None = None
    n_moments: int = 0
    log: list[str] = field(default_factory=list)
    is_dead: bool = False
    _lock: Lock = field(default_factory=Lock)

    def call(self, name: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Make a request, unless this is the one that fails."""
        key = arguments[1] if len(arguments) > 1 else options.get("prefix")
        with self._lock:
            self._count(f"{name} {key}")
            found = function(*arguments, **options)
            if name in {"put", "delete"}:
                # The store has executed the request, but its response may get lost.
                self._count(f"answer to {name} {key}")
            return found

    def _count(self, moment: str) -> None:
        """Count a moment, and fail if it is the chosen one."""
        if self.is_dead:
            raise Killed
        self.n_moments += 1
        self.log.append(moment)
        if self.n_moments == self.at:
            if self.error is not None:
                raise self.error
            self.is_dead = True
            raise Killed


@contextmanager
def inject_into_requests(faults: RequestFaults) -> Iterator[None]:
    """Inject faults into requests to object stores."""
    from dask_io.storage.objects import requests  # noqa: PLC0415 - its library is optional

    before, replacement = requests.calls, requests.Requests()
    for name in REQUESTS:
        function = getattr(requests.Requests, name)
        setattr(replacement, name, partial(faults.call, name, function))
    requests.calls = replacement
    try:
        yield
    finally:
        requests.calls = before


class _Content(NamedTuple):
    """Data and modification time of a file."""

    data: bytes = b""
    time: int = 0


class Synced:
    """The durable state of a directory: synced file contents and synced names.

    Files and directories are identified by their inodes, so that they keep their contents when
    they are renamed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._contents: dict[int, _Content] = {}
        self._names: dict[int, dict[str, int]] = {}
        # The system does not reuse the inode of a file that is open.
        self._held_open: list[int] = []
        for folder, _, files in os.walk(root):
            self._note(Path(folder))
            for name in files:
                self._note(Path(folder) / name)

    def note(self, fd: int) -> None:
        """Record what a sync makes durable."""
        self._note(Path(f"/proc/self/fd/{fd}").readlink())

    def _note(self, path: Path) -> None:
        self._held_open.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        inode = path.stat().st_ino
        if path.is_dir():
            self._names[inode] = {inner.name: inner.stat().st_ino for inner in path.iterdir()}
            # A directory that has not been synced itself is empty.
            for inner in path.iterdir():
                if inner.is_dir():
                    self._names.setdefault(inner.stat().st_ino, {})
        else:
            self._contents[inode] = _Content(path.read_bytes(), path.stat().st_mtime_ns)

    def lose(self, loss: Loss) -> None:
        """Reduce the directory to what a power failure leaves."""
        if loss is Loss.NOTHING:
            left = self._durable(self.root.stat().st_ino)
        else:
            left = self._present(self.root)
        for fd in self._held_open:
            os.close(fd)
        self._held_open.clear()
        shutil.rmtree(self.root)
        _restore(self.root, left)

    def _durable(self, inode: int) -> Any:
        """Return the synced content of a file, or that of a directory's synced names."""
        if inode not in self._names:
            return self._contents.get(inode, _Content())
        return {name: self._durable(inner) for name, inner in self._names[inode].items()}

    def _present(self, path: Path) -> Any:
        """Return the synced content of an existing file, or that of all names in a directory."""
        if path.is_dir():
            return {inner.name: self._present(inner) for inner in path.iterdir()}
        return self._contents.get(path.stat().st_ino, _Content())


def _restore(path: Path, left: Any) -> None:
    if isinstance(left, dict):
        path.mkdir()
        for name, inner in left.items():
            _restore(path / name, inner)
    else:
        path.write_bytes(left.data)
        os.utime(path, ns=(left.time, left.time))
