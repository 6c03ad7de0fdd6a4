"""Work in a process of its own, for libraries that a broken file can crash.

The process is started when it is first needed, and serves all threads, one after another. It ends
when this one does; one that is made by a fork starts its own. What it may take is limited: memory,
and time of the processor, so that a slow disk is no fault.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from threading import RLock
from traceback import format_exc
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, TypeVarTuple

from dask_io.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; from dask_io.formats.isolation import serve; serve()"
)
# A small file is done in milliseconds; to list its blocks may take longer if there are many.
_SECONDS, _BYTES_PER_SECOND = 2, 16 * 2**20
_MEMORY, _MEMORY_PER_BYTE = 2**30, 2
_TOO_LONG = signal.SIGXCPU.name


class Limits(NamedTuple):
    """What work may take: seconds of the processor, and bytes of memory."""

    seconds: int
    n_bytes: int

    @classmethod
    def for_file(cls, size: int) -> Limits:
        """Return what it may take to look into a file of this size."""
        return cls(_SECONDS + size // _BYTES_PER_SECOND, _MEMORY + size * _MEMORY_PER_BYTE)


class Worker:
    """The process, and the way to it; any number of threads may call at once."""

    def __init__(self) -> None:
        self.pid = 0
        self._way: Connection | None = None
        self._lock = RLock()
        # A copy of the way in a third process would hide that its other end is gone.
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._leave_to_parent,
        )

    def call(self, limits: Limits, function: Callable[[*Ts], R], *args: *Ts) -> R:
        """Return what a function returns, or raise what it raises.

        Raises
        ------
        ValueError
            If the process does not survive it; the message completes "the file ...".
        StorageError
            If there can be no such process.
        """
        with self._lock:
            is_new = self._way is None
            try:
                way = self._way or self._start()
                succeeded, answer = _ask(way, (_here(), limits, function, args))
            except EOFError as error:
                ended_by = self._end()
                if is_new or ended_by == _TOO_LONG:
                    reason = f"cannot be read: its library fails on it ({ended_by})"
                    raise ValueError(f"{reason}; it is broken") from error
                # The work before may have spoilt the process, or somebody has stopped it.
                return self.call(limits, function, *args)
            except BaseException:
                self._end()
                raise
        if not succeeded:
            raise answer
        found: R = answer
        return found

    def _start(self) -> Connection:
        self._way, theirs = Pipe()
        try:
            with theirs:
                self.pid = os.posix_spawn(
                    sys.executable,
                    [sys.executable, "-c", _PROGRAM, *map(str, sys.path)],
                    os.environ,
                    file_actions=[
                        (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                        (os.POSIX_SPAWN_DUP2, 1, 2),
                    ],
                    # A terminal is to interrupt only this process, which then ends the other.
                    setpgroup=0,
                    setsigdef=[signal.SIGXCPU],
                )
            self._way.recv()
        except (EOFError, OSError) as error:
            reason = "cannot be run to look into files"
            raise StorageError(str(sys.executable), reason) from error
        return self._way

    def _end(self) -> str:
        """End the process, and return the name of the signal that it ended by."""
        status = 0
        if self._way is not None:
            self._way.close()
        if self.pid:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                _, status = os.waitpid(self.pid, 0)
        self._way, self.pid = None, 0
        return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit"

    def _leave_to_parent(self) -> None:
        if self._way is not None:
            self._way.close()
        self._way, self.pid = None, 0
        self._lock.release()


WORKER = Worker()


def _ask(way: Connection, question: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        way.send_bytes(_pickled(question))
        answer: tuple[bool, Any] = way.recv()
    except ConnectionError as error:
        raise EOFError from error
    return answer


def _here() -> str:
    """Return what paths are relative to, if that is still there."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return os.sep


def serve() -> None:
    """Do the work that comes in, until nobody is there any more to ask for it."""
    _set_limit(resource.RLIMIT_CORE, 0)
    _close_all_but_standard()
    with Connection(0) as way, suppress(EOFError):
        way.send("ready")
        while True:
            way.send_bytes(_answer(way.recv_bytes()))


def _close_all_but_standard() -> None:
    """Let go of what libraries had open in the other process: locks of files last until then."""
    found: list[int] = []
    # Nothing can be done where there is no such folder.
    with suppress(OSError):
        found = [int(path.name) for path in Path("/dev/fd").iterdir()]
    for number in found:
        if number > 2:  # noqa: PLR2004 - what comes in, goes out and goes wrong
            with suppress(OSError):
                os.close(number)


def _answer(question: bytes) -> bytes:
    try:
        here, limits, function, args = pickle.loads(question)  # noqa: S301 - from our parent
        os.chdir(here)
        _keep_within(limits)
        return _pickled((True, function(*args)))
    except Exception as error:  # noqa: BLE001 - it is raised where it was asked
        error.add_note(format_exc())
        return _pickled((False, error))


def _pickled(value: object) -> bytes:
    """Write what the other side reads; older protocols have arrays come back in native order."""
    return pickle.dumps(value, protocol=5)


def _keep_within(limits: Limits) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    # The system counts whole seconds.
    _set_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + limits.seconds)
    sizes = Path("/proc/self/statm")
    if sizes.exists():
        held = int(sizes.read_bytes().split()[5]) * resource.getpagesize()
        _set_limit(resource.RLIMIT_DATA, held + limits.n_bytes)


def _set_limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
