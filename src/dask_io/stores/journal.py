"""The journal of a target: what is to be done, and a line for all that is durable.

It is a folder, ``DST/.dask-io`` or, beside a target of one file, ``DST.dask-io``, built aside and
renamed into place as the first thing that appears. The first line of its file ``journal`` says
what is to be done, those that follow what is durable, and the last one that the target is
complete. Each begins with a checksum of its own. Whoever writes holds a lock on ``lock``,
which the system releases when the process ends, however it ends.

Lines are only ever added. One that was cut short by a crash does not match its checksum and counts
for nothing: what it would have said is done again.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import secrets
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Self

from xxhash import xxh3_64_hexdigest

from dask_io.errors import DataError, StorageError
from dask_io.stores import system
from dask_io.stores.files import storage_errors, sync, write_fully, write_whole
from dask_io.stores.naming import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

NAME = ".dask-io"
VERSION = 1
_FILE, _LOCK = "journal", "lock"
_JOB, _SEALED = "job", "sealed"
# Far more than any job has to say; anything longer was not written by us.
_LONGEST_JOB = 64 * 2**20
# Where the last line begins, if it is the one that seals.
_LONGEST_SEAL = 64


def journal_of(path: Path, *, is_one_file: bool) -> Path:
    """Return where a target's journal is."""
    return path.with_name(path.name + NAME) if is_one_file else path / NAME


def find_journal(path: Path) -> Path | None:
    """Return the journal of what a path names, if it has one."""
    # A path such as `..` is no file.
    kinds = (False, True) if path.name not in {"", ".."} else (False,)
    places = [journal_of(path, is_one_file=is_one_file) for is_one_file in kinds]
    return next((place for place in places if (place / _FILE).exists()), None)


def is_unfinished(folder: Path) -> bool:
    """Whether there is a journal, and it says that its target is not complete."""
    return (folder / _FILE).exists() and not is_sealed(folder)


def is_sealed(folder: Path) -> bool:
    """Whether a journal says that its target is complete."""
    path = folder / _FILE
    with storage_errors(path), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LONGEST_SEAL))
        lines = file.read().rstrip(b"\n").split(b"\n")
    return _parse(lines[-1]) == _SEALED


def read_job(folder: Path) -> Mapping[str, Any]:
    """Read what is to be done.

    Raises
    ------
    DataError
        If that cannot be understood.
    """
    path = folder / _FILE
    with storage_errors(path), path.open("rb") as file:
        kind, _, text = _parse(file.readline(_LONGEST_JOB).rstrip(b"\n")).partition(" ")
    try:
        job = json.loads(text) if kind == _JOB else None
    except (ValueError, RecursionError):
        job = None
    place = printable(str(path))
    if not isinstance(job, dict):
        raise DataError(place, ["does not say what is to be done"], "start again with --overwrite")
    if job.get("version") != VERSION:
        found = f"has version {job.get('version')!r:.40}, but this Dask IO knows {VERSION}"
        raise DataError(place, [found], "use the Dask IO that wrote it")
    return job


def read_lines(folder: Path) -> Iterator[list[str]]:
    """Yield the words of every line that matches its checksum, but for the job."""
    path = folder / _FILE
    with storage_errors(path), path.open("rb") as file:
        next(file, None)
        for line in file:
            text = _parse(line.rstrip(b"\n")) if line.endswith(b"\n") else ""
            if text:
                yield text.split(" ")


def _parse(line: bytes) -> str:
    """Return what a line says; nothing if it does not match its checksum."""
    checksum, _, text = line.partition(b" ")
    return text.decode("ascii") if checksum == _checksum(text) else ""


class Journal:
    """A journal that is written, by the one process that holds its lock."""

    def __init__(self, folder: Path, lock: int, *, durable: bool) -> None:
        self.folder = folder
        self._durable = durable
        self._lock: int | None = lock
        self._appending = Lock()
        self._size = (folder / _FILE).stat().st_size

    @classmethod
    def begin(
        cls, folder: Path, job: bytes, lines: Iterable[str], *, aside: Path, durable: bool
    ) -> Self:
        """Build a journal aside, and put it where it belongs.

        `aside` is how the paths start of what is not yet, or no longer, a journal.

        Raises
        ------
        FileExistsError
            If there is one already.
        """
        made, lock = _new_name(aside), -1
        system.calls.mkdir(made)
        try:
            lock = _lock(made)
            write_whole(made / _FILE, _to_bytes([_job_line(job), *lines]))
            _move(made, folder)
            if durable:
                sync(folder.parent)
            return cls(folder, lock, durable=durable)
        except BaseException:
            with suppress(OSError):
                remove_folder(made)
            if lock >= 0:
                system.calls.close(lock)
            raise

    def begin_again(self, job: bytes, lines: Iterable[str]) -> None:
        """Become the journal of another run, whose target replaces this one's."""
        write_whole(self.folder / _FILE, _to_bytes([_job_line(job), *lines]))
        self._size = (self.folder / _FILE).stat().st_size

    @classmethod
    def resume(cls, folder: Path, *, durable: bool) -> Self:
        """Go on with a journal that is there.

        Raises
        ------
        StorageError
            If another process has it.
        """
        with storage_errors(folder):
            lock = _lock(folder)
            try:
                journal = cls(folder, lock, durable=durable)
                # What was cut short must not spoil the next line.
                journal._append(b"\n")
            except BaseException:
                system.calls.close(lock)
                raise
        return journal

    def append(self, lines: Iterable[str]) -> None:
        """Add lines; they are durable afterwards, if they are meant to be."""
        self._append(_to_bytes(lines))

    def _append(self, content: bytes) -> None:
        path = self.folder / _FILE
        with self._appending, storage_errors(path):
            fd = system.calls.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                write_fully(fd, self._size, memoryview(content))
                if self._durable:
                    system.calls.fdatasync(fd)
            finally:
                system.calls.close(fd)
            self._size += len(content)

    def seal(self) -> None:
        """Note that the target is complete, and let go of the journal."""
        self.append([_SEALED])
        self.close()

    def close(self) -> None:
        """Let another process go on with it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with suppress(OSError):
                system.calls.close(lock)

    def remove(self, aside: Path) -> None:
        """Take the journal away, all at once."""
        gone = _new_name(aside)
        system.calls.rename(self.folder, gone)
        self.close()
        remove_folder(gone)


def refuse_locked(folder: Path) -> None:
    """Refuse a journal that another run is writing.

    Raises
    ------
    StorageError
        If there is one.
    """
    system.calls.close(_lock(folder))


def remove_stale(aside: Path) -> None:
    """Remove what killed runs left of journals that they were building or taking away."""
    for left in aside.parent.glob(f"{glob.escape(aside.name)}.*.part"):
        # One that another run is building is locked, or just gone.
        with suppress(OSError, StorageError):
            lock = _lock(left)
            try:
                remove_folder(left)
            finally:
                system.calls.close(lock)


def remove_folder(folder: Path) -> None:
    """Remove a folder with the files in it, if it is there."""
    with suppress(FileNotFoundError):
        for path in list(folder.iterdir()):
            system.calls.unlink(path)
        system.calls.rmdir(folder)


def _new_name(aside: Path) -> Path:
    return aside.with_name(f"{aside.name}.{secrets.token_hex(4)}.part")


def _move(made: Path, folder: Path) -> None:
    try:
        system.calls.rename(made, folder)
    except OSError as error:
        # Which of the two it is depends on the system.
        if error.errno == errno.ENOTEMPTY:
            raise FileExistsError(*error.args) from error
        raise


def _lock(folder: Path) -> int:
    """Lock a journal, or say who has it."""
    path = folder / _LOCK
    fd = system.calls.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        system.calls.lock(fd)
        _check_still_there(fd, path)
        write_fully(fd, 0, memoryview(f"{os.getpid():<20}\n".encode()))
    except BaseException as error:
        system.calls.close(fd)
        if not isinstance(error, BlockingIOError):
            raise
        holder = path.read_text(encoding="ascii", errors="replace").strip()
        place = folder.parent if folder.name == NAME else folder
        reason = f"another run is writing it (process {holder})"
        raise StorageError(printable(str(place)), reason, "wait for it, or stop it") from None
    return fd


def _check_still_there(fd: int, path: Path) -> None:
    """Raise an error if whoever had a lock has removed it meanwhile."""
    if not os.path.samestat(os.fstat(fd), path.stat()):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _job_line(job: bytes) -> str:
    return f"{_JOB} {job.decode('ascii')}"


def _to_bytes(lines: Iterable[str]) -> bytes:
    texts = (line.encode("ascii") for line in lines)
    return b"".join(b"%s %s\n" % (_checksum(text), text) for text in texts)


def _checksum(text: bytes) -> bytes:
    return xxh3_64_hexdigest(text).encode()
