"""The journal of a target: a description of the job, and a line for each durable cell.

It is a folder, ``DST/.dask-io`` or, next to a single-file target, ``DST.dask-io``, of which one
hidden file ``.DST.dask-io`` stays when the target is complete. It is created before anything else.
The first line describes the job, the following lines list durable cells, and the last line marks
the target as complete. Each line starts with a checksum. `logs` stores the lines, and makes sure
that only one process adds to them.

Lines are only ever added. A line that a crash has truncated does not match its checksum and is
ignored, so its work is done again.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from xxhash import xxh3_64_hexdigest

from dask_io.errors import DataError, LockedError, UsageError
from dask_io.journal.log import LONGEST_LINE
from dask_io.journal.logs import logs_of
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import JOURNAL
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dask_io.journal.log import Log
    from dask_io.storage.location import Location

VERSION = 1
_T = TypeVar("_T")
_WORDS: Mapping[type, str] = {
    bool: "true or false",
    dict: "an object",
    int: "a number",
    list: "a list",
    str: "a string",
}
_JOB, _SEALED, _ABOUT = "job", "sealed", "about"
# How long to wait for the lock of a group, in seconds.
PATIENCE, _LOOK_SECONDS = 60.0, 0.2
# The largest journal, in bytes, that can be restored: about ninety thousand blocks.
_MOST_HELD = 4 * 2**20
# The most bytes of the line that marks a target as complete.
_LONGEST_SEAL = 64


def journal_of(path: Location, *, is_one_file: bool) -> Location:
    """Return the path of a target's journal."""
    return path.with_name(path.name + JOURNAL) if is_one_file else path / JOURNAL


def find_journal(path: Location) -> Location | None:
    """Return the journal of a target, None if it has none."""
    # A path such as `..` is not a file.
    kinds = (False, True) if path.name not in {"", ".."} else (False,)
    places = [journal_of(path, is_one_file=is_one_file) for is_one_file in kinds]
    return next((place for place in places if logs_of(place).exists(place)), None)


def is_unfinished(folder: Location) -> bool:
    """Whether there is a journal whose target is not complete."""
    return logs_of(folder).exists(folder) and not is_sealed(folder)


def is_sealed(folder: Location) -> bool:
    """Whether a journal marks its target as complete."""
    lines = logs_of(folder).tail(folder, _LONGEST_SEAL).rstrip(b"\n").split(b"\n")
    return _parse(lines[-1]) == _SEALED


def read_job(folder: Location) -> Mapping[str, Any]:
    """Read the description of the job.

    Raises
    ------
    DataError
        If it is missing or invalid.
    """
    line = next(logs_of(folder).lines(folder), b"").rstrip(b"\n")
    kind, _, text = _parse(line).partition(" ")
    try:
        job = json.loads(text) if kind == _JOB else None
    except (ValueError, RecursionError):
        job = None
    place = str(folder)
    if not isinstance(job, dict):
        raise DataError(place, ["does not describe its job"], "start again with --overwrite")
    if "\\u0000" in text and _has_nul(job):
        problem = "contains a NUL character, which names and paths cannot have"
        raise DataError(place, [problem], "start again with --overwrite")
    if job.get("version") != VERSION:
        found = f"has version {job.get('version')!r:.40}, but this Dask IO needs {VERSION}"
        raise DataError(place, [found], "use the version of Dask IO that wrote it")
    return job


def _has_nul(value: object) -> bool:
    """Tell whether any string or key in a parsed JSON value contains a NUL character."""
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(each) for key, each in value.items())
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value


def read_field(record: Mapping[str, Any], name: str, kind: type[_T]) -> _T:
    """Return the value of a field of a record that was read from JSON.

    Raises
    ------
    ValueError
        If the field is missing, or its value has another type.

    Examples
    --------
    >>> read_field({"consume": True}, "consume", bool)
    True
    >>> read_field({"consume": True}, "consume", int)
    Traceback (most recent call last):
    ValueError: consume is not a number
    """
    value = record.get(name)
    # Not isinstance, because a bool is also an int.
    if type(value) is not kind:
        raise ValueError(f"{name} is not {_WORDS[kind]}")
    return value


def read_lines(folder: Location) -> Iterator[list[str]]:
    """Yield the words of every line that matches its checksum, except the job."""
    lines = logs_of(folder).lines(folder)
    next(lines, None)
    for line in lines:
        if text := _parse_whole(line):
            yield text.split(" ")


class ArrayLines:
    """The lines about each of several arrays in one journal.

    Arrays are written one after another, so the lines about one are close together. Where they are
    is found in one pass: with a pass for each array, 10,000 arrays would take hours.
    """

    def __init__(self, folder: Location) -> None:
        self._folder = folder
        self._bounds: dict[int, tuple[int, int]] = {}
        start = 0
        for line in logs_of(folder).lines(folder):
            stop = start + len(line)
            _, *words = line.split(b" ", 3)
            if len(words) == 3 and words[0] == _ABOUT.encode() and words[1].isdigit():  # noqa: PLR2004 - about, the array, and the rest
                first, _ = self._bounds.get(int(words[1]), (start, stop))
                self._bounds[int(words[1])] = first, stop
            start = stop

    def read(self, array: int) -> Iterator[list[str]]:
        """Yield the words of the lines about an array, as `read_lines` does."""
        start, stop = self._bounds.get(array, (0, 0))
        if start == stop:
            return
        for line in logs_of(self._folder).lines(self._folder, start):
            words = _parse_whole(line).split(" ")
            if words[:2] == [_ABOUT, str(array)]:
                yield words[2:]
            start += len(line)
            if start >= stop:
                return


def read_all(folder: Location) -> bytes | None:
    """Return the content of a journal; None if it is too large to keep in memory."""
    lines, n_bytes = [], 0
    for line in logs_of(folder).lines(folder):
        n_bytes += len(line)
        if n_bytes > _MOST_HELD:
            return None
        lines.append(line)
    return b"".join(lines)


def about(array: int, lines: Iterable[str]) -> Iterator[str]:
    """Mark lines as those of one of several arrays."""
    return (f"{_ABOUT} {array} {line}" for line in lines)


def _parse(line: bytes) -> str:
    """Return the text of a line; empty if it does not match its checksum."""
    checksum, _, text = line.partition(b" ")
    is_whole = checksum == _checksum(text) and text.isascii()
    return text.decode("ascii") if is_whole else ""


def _parse_whole(line: bytes) -> str:
    """Return the text of a line; empty also if its end is missing."""
    return _parse(line.rstrip(b"\n")) if line.endswith(b"\n") else ""


class Journal:
    """A journal that is being written by the process that holds its lock."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @classmethod
    def begin(cls, folder: Location, job: bytes, lines: Iterable[str], *, durable: bool) -> Self:
        """Create a journal.

        Raises
        ------
        FileExistsError
            If there is already one.
        UsageError
            If the description of the job is too long to be read again.
        """
        content = _first_lines(job, lines)
        return cls(logs_of(folder).begin(folder, content, durable=durable))

    def begin_again(self, job: bytes, lines: Iterable[str]) -> None:
        """Turn this journal into that of a new run, whose target replaces the old one."""
        self._log.replace(_first_lines(job, lines))

    def restore(self, content: bytes) -> None:
        """Restore the content that `read_all` returned, because nothing has been replaced."""
        self._log.replace(content.rstrip(b"\n") + b"\n")

    @classmethod
    def resume(cls, folder: Location, *, durable: bool) -> Self:
        """Continue an existing journal.

        Raises
        ------
        StorageError
            If another process holds its lock.
        """
        return cls(logs_of(folder).resume(folder, durable=durable))

    def append(self, lines: Iterable[str]) -> None:
        """Add lines; with `durable`, they are durable afterwards."""
        self._log.append(_to_bytes(lines))

    def check_held(self) -> None:
        """Raise an error if another process may have taken over the journal."""
        self._log.check_held()

    def is_held(self) -> bool:
        """Tell whether this process certainly still holds the journal."""
        return self._log.is_held()

    def seal(self) -> None:
        """Mark the target as complete."""
        self._log.fold()
        self.append([_SEALED])

    def settle(self) -> None:
        """Release the sealed journal, in a form that is small and easy to move."""
        self._log.settle()

    def close(self) -> None:
        """Release the journal, so that another process can continue it."""
        self._log.close()

    def remove(self) -> None:
        """Remove the journal."""
        self._log.remove()


def refuse_locked(folder: Location) -> None:
    """Refuse a journal that another run is writing.

    Raises
    ------
    StorageError
        If another run is writing it.
    """
    logs_of(folder).refuse_locked(folder)


@contextmanager
def alone(folder: Location) -> Iterator[None]:
    """Hold the lock of a journal, which need not exist; wait up to `PATIENCE` seconds for it.

    This is for data that several runs share, such as the group that contains their arrays.

    Raises
    ------
    LockedError
        If another run does not release it in time.
    """
    until = time.monotonic() + PATIENCE
    with ExitStack() as stack:
        while True:
            try:
                with storage_errors(folder.parent):
                    stack.enter_context(logs_of(folder).holding(folder))
                break
            except LockedError:
                if time.monotonic() > until:
                    raise
                time.sleep(_LOOK_SECONDS)
        yield


def _first_lines(job: bytes, lines: Iterable[str]) -> bytes:
    first = _to_bytes([f"{_JOB} {job.decode('ascii')}"])
    if len(first) > LONGEST_LINE:
        raise UsageError(
            f"the description of this run takes {format_bytes(len(first))}, more than "
            f"{format_bytes(LONGEST_LINE)}; write fewer targets at once, or remove metadata of "
            "the array"
        )
    return first + _to_bytes(lines)


def _to_bytes(lines: Iterable[str]) -> bytes:
    texts = (line.encode("ascii") for line in lines)
    return b"".join(b"%s %s\n" % (_checksum(text), text) for text in texts)


def _checksum(text: bytes) -> bytes:
    return xxh3_64_hexdigest(text).encode()
