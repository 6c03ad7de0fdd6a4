"""Faults between the transport and the system, at a chosen call.

`inject` stands in for the system: it counts the calls by which files are read and changed,
and at one of them fails, or stops the process as far as files are concerned: nothing that comes
later has any effect, and all files are closed. What would be left after a loss of power can
be had too: only what was synced.
"""

from __future__ import annotations

import os
import shutil
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
    """The process is no more; nothing may catch this."""


class Loss(StrEnum):
    """What is left of changes that were not synced when the power fails."""

    NOTHING = "nothing"
    """Neither data nor names."""
    NAMES = "names"
    """Names, but no data."""


@dataclass
class Faults:
    """The system with a fault at the Nth call.

    Parameters
    ----------
    at
        Number of the call that goes wrong, from 1 on; 0 for none.
    error
        What it fails with; without one, the process stops there.
    """

    at: int = 0
    error: int | None = None
    n_calls: int = 0
    log: list[str] = field(default_factory=list)
    is_dead: bool = False
    _open: set[int] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def call(self, name: str, really: Callable[..., Any], *arguments: Any) -> Any:
        """Make a call, unless this is the one that goes wrong."""
        with self._lock:
            self._come_to(name, arguments)
            found = really(*arguments)
            if name == "open":
                self._open.add(found)
            elif name == "close":
                self._open.discard(arguments[0])
            return found

    def _come_to(self, name: str, arguments: tuple[Any, ...]) -> None:
        if self.is_dead:
            raise Killed
        self.n_calls += 1
        self.log.append(f"{name} {arguments[0]}")
        if self.n_calls != self.at:
            return
        if self.error is None:
            self._die()
        if name == "close":
            # A file that could not be closed properly is closed all the same.
            os.close(arguments[0])
            self._open.discard(arguments[0])
        raise OSError(self.error, os.strerror(self.error or 0))

    def _die(self) -> None:
        self.is_dead = True
        for fd in self._open:
            with suppress(OSError):
                os.close(fd)
        raise Killed


@contextmanager
def inject(faults: Faults, synced: Synced | None = None) -> Iterator[None]:
    """Put faults between the transport and the system; nothing is synced, but `synced` is told."""
    before, real = system.calls, system.System()
    standin = system.System()
    for name in CALLS:
        really = getattr(real, name)
        if name in {"fsync", "fdatasync"}:
            really = _ignore if synced is None else synced.note
        setattr(standin, name, _through(faults, name, really))
    system.calls = standin
    try:
        yield
    finally:
        system.calls = before


def _ignore(_: int) -> None:
    """Leave it to the system: what a process has written outlasts it."""


def _through(faults: Faults, name: str, really: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return faults.call(name, really, *arguments)

    return call


@dataclass
class RequestFaults:
    """An object store with a fault at the Nth moment: before a request, or after one that changes.

    Parameters
    ----------
    at
        Number of the moment at which it goes wrong, from 1 on; 0 for never.
    error
        What the request fails with; without one, the process stops there.
    """

    at: int = 0
    error: Exception | None = None
    n_moments: int = 0
    log: list[str] = field(default_factory=list)
    is_dead: bool = False
    _lock: Lock = field(default_factory=Lock)

    def call(self, name: str, really: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Make a request, unless this is the one that goes wrong."""
        key = arguments[1] if len(arguments) > 1 else options.get("prefix")
        with self._lock:
            self._come_to(f"{name} {key}")
            found = really(*arguments, **options)
            if name in {"put", "delete"}:
                # It is carried out, but nobody hears of it.
                self._come_to(f"answer to {name} {key}")
            return found

    def _come_to(self, moment: str) -> None:
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
    """Put faults between the transport for objects and the store."""
    from dask_io.storage.objects import requests  # noqa: PLC0415 - not all have what it takes

    before, standin = requests.calls, requests.Requests()
    for name in REQUESTS:
        really = getattr(requests.Requests, name)
        setattr(standin, name, partial(faults.call, name, really))
    requests.calls = standin
    try:
        yield
    finally:
        requests.calls = before


class _Content(NamedTuple):
    """What a file holds, and since when."""

    data: bytes = b""
    time: int = 0


class Synced:
    """What is durable under a folder: contents that were synced, and synced names.

    Files and folders are known by their inodes, so that they keep what they hold under
    another name.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._contents: dict[int, _Content] = {}
        self._names: dict[int, dict[str, int]] = {}
        # As long as a file is open, its number is given to no other.
        self._held_open: list[int] = []
        for folder, _, files in os.walk(root):
            self._note(Path(folder))
            for name in files:
                self._note(Path(folder) / name)

    def note(self, fd: int) -> None:
        """Take note of what a sync makes durable."""
        self._note(Path(f"/proc/self/fd/{fd}").readlink())

    def _note(self, path: Path) -> None:
        self._held_open.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        inode = path.stat().st_ino
        if path.is_dir():
            self._names[inode] = {inner.name: inner.stat().st_ino for inner in path.iterdir()}
            # One that has not been synced itself is empty.
            for inner in path.iterdir():
                if inner.is_dir():
                    self._names.setdefault(inner.stat().st_ino, {})
        else:
            self._contents[inode] = _Content(path.read_bytes(), path.stat().st_mtime_ns)

    def lose(self, loss: Loss) -> None:
        """Leave under the folder only what a loss of power leaves."""
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
        """Return the content of a file, or what is left of a folder's names."""
        if inode not in self._names:
            return self._contents.get(inode, _Content())
        return {name: self._durable(inner) for name, inner in self._names[inode].items()}

    def _present(self, path: Path) -> Any:
        """Return the durable content of a file that is there, or that of all in a folder."""
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
