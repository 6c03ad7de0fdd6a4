"""Call functions in a subprocess, because a broken file can crash the library that reads it.

The subprocess starts when it is first needed, and serves all threads, one call at a time. It ends
with this process; a forked process starts its own. Memory and processor time are limited. Time
spent waiting for a slow disk does not count.
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
# A small file takes milliseconds. Listing the blocks of a large one may take longer.
_SECONDS, _BYTES_PER_SECOND = 2, 16 * 2**20
_MEMORY, _MEMORY_PER_BYTE = 2**30, 2
_TOO_LONG = signal.SIGXCPU.name


class Limits(NamedTuple):
    """Limits of a call: seconds of processor time, and bytes of memory."""

    seconds: int
    n_bytes: int

    @classmethod
    def for_file(cls, size: int) -> Limits:
        """Return the limits for reading the metadata of a file of this size."""
        return cls(_SECONDS + size // _BYTES_PER_SECOND, _MEMORY + size * _MEMORY_PER_BYTE)


class Worker:
    """The subprocess and the connection to it; any number of threads may use it at once."""

    def __init__(self) -> None:
        self.pid = 0
        self._connection: Connection | None = None
        self._lock = RLock()
        # A forked process must not keep a copy of the connection: the end of the subprocess would
        # go unnoticed.
        os.register_at_fork(
            before=self._lock.acquire,
            after_in_parent=self._lock.release,
            after_in_child=self._leave_to_parent,
        )

    def call(self, limits: Limits, function: Callable[[*Ts], R], *args: *Ts) -> R:
        """Call a function in the subprocess; return its result or raise its error.

        Raises
        ------
        ValueError
            If the subprocess crashes; the message completes "the file ...".
        StorageError
            If the subprocess cannot be started.
        """
        with self._lock:
            is_new = self._connection is None
            try:
                connection = self._connection or self._start()
                succeeded, answer = _request(connection, (_here(), limits, function, args))
            except EOFError as error:
                ended_by = self._end()
                if is_new or ended_by == _TOO_LONG:
                    reason = f"cannot be read: its library fails on it ({ended_by})"
                    raise ValueError(f"{reason}; it is broken") from error
                # An earlier call may have damaged the subprocess, or it was killed. Try once more.
                return self.call(limits, function, *args)
            except BaseException:
                self._end()
                raise
        if not succeeded:
            raise answer
        found: R = answer
        return found

    def _start(self) -> Connection:
        self._connection, theirs = Pipe()
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
                    # Ctrl-C must reach only this process, which then ends the subprocess.
                    setpgroup=0,
                    setsigdef=[signal.SIGXCPU],
                )
            self._connection.recv()
        except (EOFError, OSError) as error:
            reason = "cannot be started to read the metadata of files"
            raise StorageError(str(sys.executable), reason) from error
        return self._connection

    def _end(self) -> str:
        """End the subprocess, and return the name of the signal that ended it."""
        status = 0
        if self._connection is not None:
            self._connection.close()
        if self.pid:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                _, status = os.waitpid(self.pid, 0)
        self._connection, self.pid = None, 0
        return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit"

    def _leave_to_parent(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self.pid = None, 0
        self._lock.release()


WORKER = Worker()


def _request(connection: Connection, request: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        connection.send_bytes(_pickled(request))
        answer: tuple[bool, Any] = connection.recv()
    except ConnectionError as error:
        raise EOFError from error
    return answer


def _here() -> str:
    """Return the current directory, or the root if it has been removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return os.sep


def serve() -> None:
    """Answer calls until the other end of the connection is closed."""
    _set_limit(resource.RLIMIT_CORE, 0)
    _close_all_but_standard()
    with Connection(0) as connection, suppress(EOFError):
        connection.send("ready")
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))


def _close_all_but_standard() -> None:
    """Close inherited files of libraries, because locks on files last until all copies close."""
    found: list[int] = []
    # Without this directory, open files cannot be listed.
    with suppress(OSError):
        found = [int(path.name) for path in Path("/dev/fd").iterdir()]
    for number in found:
        if number > 2:  # noqa: PLR2004 - stdin, stdout and stderr stay open
            with suppress(OSError):
                os.close(number)


def _answer(request: bytes) -> bytes:
    try:
        here, limits, function, args = pickle.loads(request)  # noqa: S301 - from our parent
        os.chdir(here)
        _apply_limits(limits)
        return _pickled((True, function(*args)))
    except Exception as error:  # noqa: BLE001 - the caller raises it
        error.add_note(format_exc())
        return _pickled((False, error))


def _pickled(value: object) -> bytes:
    """Pickle a value; older protocols would convert arrays to native byte order."""
    return pickle.dumps(value, protocol=5)


def _apply_limits(limits: Limits) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    # The limit has a resolution of one second.
    _set_limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + limits.seconds)
    sizes = Path("/proc/self/statm")
    if sizes.exists():
        held = int(sizes.read_bytes().split()[5]) * resource.getpagesize()
        _set_limit(resource.RLIMIT_DATA, held + limits.n_bytes)


def _set_limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
