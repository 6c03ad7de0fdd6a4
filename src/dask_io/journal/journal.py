"""The journal of a target: what is to be done, and a line for all that is durable.

It is a folder, ``DST/.dask-io`` or, beside a target of one file, ``DST.dask-io``, and the first
thing that appears. Its first line says what is to be done, those that follow what is durable, and
the last one that the target is complete. Each begins with a checksum of its own. How lines are
kept, and that only one process adds to them, is the medium's business: see `logs`.

Lines are only ever added. One that was cut short by a crash does not match its checksum and counts
for nothing: what it would have said is done again.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from xxhash import xxh3_64_hexdigest

from dask_io.errors import DataError, LockedError, UsageError, printable
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
# What is done under the lock of a group takes no longer; seconds.
PATIENCE, _LOOK_SECONDS = 60.0, 0.2
# Bytes of a journal that can be put back: of some ninety thousand blocks.
_MOST_HELD = 4 * 2**20
# Where the last line begins, if it is the one that seals.
_LONGEST_SEAL = 64


def journal_of(path: Location, *, is_one_file: bool) -> Location:
    """Return where a target's journal is."""
    return path.with_name(path.name + JOURNAL) if is_one_file else path / JOURNAL


def find_journal(path: Location) -> Location | None:
    """Return the journal of what a path names, if it has one."""
    # A path such as `..` is no file.
    kinds = (False, True) if path.name not in {"", ".."} else (False,)
    places = [journal_of(path, is_one_file=is_one_file) for is_one_file in kinds]
    return next((place for place in places if logs_of(place).exists(place)), None)


def is_unfinished(folder: Location) -> bool:
    """Whether there is a journal, and it says that its target is not complete."""
    return logs_of(folder).exists(folder) and not is_sealed(folder)


def is_sealed(folder: Location) -> bool:
    """Whether a journal says that its target is complete."""
    lines = logs_of(folder).tail(folder, _LONGEST_SEAL).rstrip(b"\n").split(b"\n")
    return _parse(lines[-1]) == _SEALED


def read_job(folder: Location) -> Mapping[str, Any]:
    """Read what is to be done.

    Raises
    ------
    DataError
        If that cannot be understood.
    """
    line = next(logs_of(folder).lines(folder), b"").rstrip(b"\n")
    kind, _, text = _parse(line).partition(" ")
    try:
        job = json.loads(text) if kind == _JOB else None
    except (ValueError, RecursionError):
        job = None
    place = printable(str(folder))
    if not isinstance(job, dict):
        raise DataError(place, ["does not say what is to be done"], "start again with --overwrite")
    if "\\u0000" in text and _has_nul(job):
        problem = "contains a NUL character, which no name or path can have"
        raise DataError(place, [problem], "start again with --overwrite")
    if job.get("version") != VERSION:
        found = f"has version {job.get('version')!r:.40}, but this Dask IO knows {VERSION}"
        raise DataError(place, [found], "use the Dask IO that wrote it")
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


def read_lines(folder: Location, array: int | None = None) -> Iterator[list[str]]:
    """Yield the words of every line that matches its checksum, but for the job.

    Of a target that holds several arrays they can be those about one of them.
    """
    lines = logs_of(folder).lines(folder)
    next(lines, None)
    for line in lines:
        text = _parse(line.rstrip(b"\n")) if line.endswith(b"\n") else ""
        words = text.split(" ")
        if array is None and text:
            yield words
        elif words[:2] == [_ABOUT, str(array)]:
            yield words[2:]


def read_all(folder: Location) -> bytes | None:
    """Return all that a journal says, as it is; None if that is too much to be held."""
    lines, n_bytes = [], 0
    for line in logs_of(folder).lines(folder):
        n_bytes += len(line)
        if n_bytes > _MOST_HELD:
            return None
        lines.append(line)
    return b"".join(lines)


def about(array: int, lines: Iterable[str]) -> Iterator[str]:
    """Return lines about one of several arrays."""
    return (f"{_ABOUT} {array} {line}" for line in lines)


def _parse(line: bytes) -> str:
    """Return what a line says; nothing if it does not match its checksum."""
    checksum, _, text = line.partition(b" ")
    is_whole = checksum == _checksum(text) and text.isascii()
    return text.decode("ascii") if is_whole else ""


class Journal:
    """A journal that is written, by the one process that holds its lock."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @classmethod
    def begin(cls, folder: Location, job: bytes, lines: Iterable[str], *, durable: bool) -> Self:
        """Make a journal where there is none.

        Raises
        ------
        FileExistsError
            If there is one already.
        UsageError
            If there is more to be said about the job than could be read again.
        """
        content = _first_lines(job, lines)
        return cls(logs_of(folder).begin(folder, content, durable=durable))

    def begin_again(self, job: bytes, lines: Iterable[str]) -> None:
        """Become the journal of another run, whose target replaces this one's."""
        self._log.replace(_first_lines(job, lines))

    def restore(self, content: bytes) -> None:
        """Become again what `read_all` returned: nothing has been replaced."""
        self._log.replace(content.rstrip(b"\n") + b"\n")

    @classmethod
    def resume(cls, folder: Location, *, durable: bool) -> Self:
        """Go on with a journal that is there.

        Raises
        ------
        StorageError
            If another process has it.
        """
        return cls(logs_of(folder).resume(folder, durable=durable))

    def append(self, lines: Iterable[str]) -> None:
        """Add lines; they are durable afterwards, if they are meant to be."""
        self._log.append(_to_bytes(lines))

    def check_held(self) -> None:
        """Refuse to go on if another process may have taken the journal over."""
        self._log.check_held()

    def is_held(self) -> bool:
        """Tell whether no other process can have taken the journal over."""
        return self._log.is_held()

    def seal(self) -> None:
        """Note that the target is complete, and let go of the journal."""
        self._log.fold()
        self.append([_SEALED])
        self.close()

    def close(self) -> None:
        """Let another process go on with it."""
        self._log.close()

    def remove(self) -> None:
        """Take the journal away."""
        self._log.remove()


def refuse_locked(folder: Location) -> None:
    """Refuse a journal that another run is writing.

    Raises
    ------
    StorageError
        If there is one.
    """
    logs_of(folder).refuse_locked(folder)


@contextmanager
def alone(folder: Location) -> Iterator[None]:
    """Hold the lock of a journal, which need not be there; wait for it, but not for ever.

    For what runs share that write different things, such as the group around their arrays.

    Raises
    ------
    LockedError
        If another run does not let go of it.
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
            f"what there is to note about this run takes {format_bytes(len(first))}, more than "
            f"{format_bytes(LONGEST_LINE)}; write fewer targets at once, or leave out what "
            "describes the array"
        )
    return first + _to_bytes(lines)


def _to_bytes(lines: Iterable[str]) -> bytes:
    texts = (line.encode("ascii") for line in lines)
    return b"".join(b"%s %s\n" % (_checksum(text), text) for text in texts)


def _checksum(text: bytes) -> bytes:
    return xxh3_64_hexdigest(text).encode()
