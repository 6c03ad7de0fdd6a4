"""Journals in an object store: numbered objects, and one that is the lock.

Every addition is a new object, ``journal.000001`` and so on. A conditional put makes sure that no
other run has created it. Its first line contains the run that put it, whether the object begins or
continues a journal, and the checksum of the rest. Objects before the last one that begins a journal
are ignored. When a run is resumed or complete, many objects are folded into one that begins a
journal, and then removed.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from xxhash import xxh3_64_hexdigest

from dask_io.errors import DataError, StorageError
from dask_io.journal.lease import Lease, refuse_held
from dask_io.storage.objects import requests
from dask_io.storage.objects.conditional import ConflictError, look, put_if, remove, remove_all
from dask_io.storage.objects.failures import ask_again
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import LOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from obstore import GetOptions

    from dask_io.storage.objects.path import ObjectPath

_NAME = re.compile(r"journal\.([0-9]{6,})")
_BEGINS, _GOES_ON = b"begins", b"goes-on"
# Objects that are requested at once. More objects are folded, up to this many bytes.
_AT_ONCE = _MOST_APART = 8
_MOST_FOLDED = 16 * 2**20
# The most bytes of an object before its lines.
_LONGEST_HEAD = 128
# How often to read a journal again that another process folds.
_MOST_TIMES = 4
_T = TypeVar("_T")


class ObjectLog:
    """A journal that is being written; this process holds its lock."""

    def __init__(self, folder: ObjectPath, lease: Lease, last: int) -> None:
        self.folder = folder
        self._lease, self._last = lease, last
        # The number that a previous or concurrent holder of the lock would put next.
        self._taken = last + 1
        self._appending = Lock()

    def append(self, content: bytes) -> None:
        """Add lines."""
        self._add(_GOES_ON, content)

    def replace(self, content: bytes) -> None:
        """Replace all lines."""
        self._add(_BEGINS, content)
        _remove_below(self.folder, self._last, but=self._taken)

    def fold(self) -> None:
        """Replace many objects by one, unless it would be large."""
        pieces = _pieces(self.folder)
        if len(pieces) > _MOST_APART and sum(each.n_bytes for each in pieces) <= _MOST_FOLDED:
            self.replace(b"".join(entry.content for entry in _entries(self.folder)))

    def begin(self, content: bytes) -> None:
        """Put the first lines.

        Raises
        ------
        FileExistsError
            If there is already a journal.
        """
        try:
            self._put(_BEGINS, content)
        except ConflictError:
            raise FileExistsError(str(self.folder)) from None

    def _add(self, kind: bytes, content: bytes) -> None:
        self._lease.check()
        try:
            self._put(kind, content)
        except ConflictError:
            self._lease.lose()
            reason, advice = "another run has taken over", "check whether it is active"
            raise StorageError(str(self.folder), reason, advice) from None

    def _put(self, kind: bytes, content: bytes) -> None:
        with self._appending:
            body = b"%s %s\n%s" % (kind, self._lease.token.encode(), content)
            path = _numbered(self.folder, self._last + 1)
            put_if(path, b"%s %s" % (_checksum(body), body), "create")
            self._last += 1

    def check_held(self) -> None:
        """Check that the lock has not been lost."""
        self._lease.check()

    def confirm_held(self) -> None:
        """Check by renewing the lock that nobody has removed it."""
        self._lease.renew()
        self._lease.check()

    def is_held(self) -> bool:
        """Check with the store by renewing the lock, unless renewing has failed for too long."""
        with suppress(StorageError):
            if not self._lease.is_stale:
                self._lease.renew()
                self._lease.check()
                return True
        return False

    def settle(self) -> None:
        """Release the journal; in an object store it stays as it is."""
        self.close()

    def close(self) -> None:
        """Release the lock."""
        self._lease.release()

    def remove(self) -> None:
        """Remove the journal; the object that begins it is removed last."""
        self._lease.check()
        numbers = [number for number, _ in _newest_first(self.folder)]
        _remove_below(self.folder, numbers[-1], but=None)
        for number in numbers:
            remove(_numbered(self.folder, number))
        self._lease.remove()


class ObjectLogs:
    """The journals in an object store."""

    def exists(self, folder: ObjectPath) -> bool:
        """Tell whether there is a journal."""
        return folder.connection.can_list and bool(_pieces(folder))

    def lines(self, folder: ObjectPath, start: int = 0) -> Iterator[bytes]:
        """Yield all lines, or those from a byte on."""
        offset = 0
        for entry in _entries(folder):
            for line in entry.content.splitlines(keepends=True):
                if offset >= start:
                    yield line
                offset += len(line)

    def tail(self, folder: ObjectPath, n_bytes: int) -> bytes:
        """Return the last bytes."""
        return _look_again(folder, lambda: _tail(folder, n_bytes))

    def begin(self, folder: ObjectPath, content: bytes, *, durable: bool) -> ObjectLog:  # noqa: ARG002 - what is put is durable
        """Create a journal with some lines; before, there is at most a lock."""
        lease = Lease.take(folder / LOCK)
        try:
            log = ObjectLog(folder, lease, 0)
            log.begin(content)
        except BaseException:
            lease.release()
            raise
        return log

    def resume(self, folder: ObjectPath, *, durable: bool) -> ObjectLog:  # noqa: ARG002 - as above
        """Continue an existing journal."""
        lease = Lease.take(folder / LOCK)
        try:
            last = max((each.number for each in _pieces(folder)), default=0)
            log = ObjectLog(folder, lease, last)
            # This prevents a previous holder, which may not know yet that it lost the lock, from
            # adding lines, even if its put arrives late.
            log.append(b"")
            log.fold()
        except BaseException:
            lease.release()
            raise
        return log

    def refuse_locked(self, folder: ObjectPath) -> None:
        """Refuse a journal whose lock another process holds."""
        refuse_held(folder / LOCK)

    @contextmanager
    def holding(self, folder: ObjectPath) -> Iterator[None]:
        """Hold the lock of a journal; if there is no journal, remove the lock afterwards."""
        lease = Lease.take(folder / LOCK)
        try:
            yield
        finally:
            # A lock that cannot be released expires.
            with suppress(StorageError):
                if self.exists(folder):
                    lease.release()
                else:
                    lease.remove()

    def remove(self, folder: ObjectPath) -> None:
        """Remove a journal, if it exists."""
        for each in reversed(_pieces(folder)):
            remove(_numbered(folder, each.number))
        remove(folder / LOCK)

    def remove_stale(self, folder: ObjectPath) -> None:
        """Do nothing: there are no temporary objects."""


class _JournalObject(NamedTuple):
    """An object of a journal: its number and size."""

    number: int
    n_bytes: int


class _Entry(NamedTuple):
    """The content of an object of a journal."""

    begins: bool
    content: bytes


def _entries(folder: ObjectPath) -> list[_Entry]:
    """Return the entries of a journal, starting with the one that begins it."""
    found = _look_again(folder, lambda: list(_newest_first(folder)))
    return [entry for _, entry in reversed(found)]


def _tail(folder: ObjectPath, n_bytes: int) -> bytes:
    found = b""
    for number, size in reversed(_pieces(folder)):
        path = _numbered(folder, number)
        if size > n_bytes + _LONGEST_HEAD:
            # Lines have their own checksums, so only the end of a large object is read.
            return (_read_end(path, size, n_bytes) + found)[-n_bytes:]
        entry = _read(path)
        found = entry.content + found
        if entry.begins or len(found) >= n_bytes:
            break
    return found[-n_bytes:]


def _look_again(folder: ObjectPath, read: Callable[[], _T]) -> _T:
    """Read a journal; repeat this if another process has folded objects meanwhile."""
    for _ in range(_MOST_TIMES):
        with suppress(FileNotFoundError):
            return read()
    problem = "changes while it is being read"
    raise DataError(str(folder), [problem], "try again later")


def _newest_first(folder: ObjectPath) -> Iterator[tuple[int, _Entry]]:
    """Yield the entries of a journal with their numbers, back to the one that begins it."""
    numbers = [each.number for each in _pieces(folder)][::-1]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            paths = [_numbered(folder, number) for number in some]
            for number, entry in zip(some, pool.map(_read, paths), strict=True):
                yield number, entry
                if entry.begins:
                    return


def _read(path: ObjectPath) -> _Entry:
    found = look(path)
    if found is None:
        raise FileNotFoundError(str(path))
    checksum, _, body = found[0].partition(b" ")
    if checksum != _checksum(body):
        raise DataError(str(path), ["is damaged: it does not match its checksum"])
    head, _, content = body.partition(b"\n")
    return _Entry(head.startswith(_BEGINS), content)


def _read_end(path: ObjectPath, size: int, n_bytes: int) -> bytes:
    options: GetOptions = {"range": (size - n_bytes, size)}
    ask = partial(requests.calls.get, path.store, path.key, options=options)
    return ask_again(path, lambda: bytes(ask().bytes()))


def _pieces(folder: ObjectPath) -> list[_JournalObject]:
    """Return the objects of a journal, lowest number first."""
    ask = partial(requests.calls.list_with_delimiter, folder.store, folder.key)
    with storage_errors(folder):
        listed = ask_again(folder, ask)
    named = ((each["path"].rpartition("/")[2], each["size"]) for each in listed["objects"])
    found = ((_NAME.fullmatch(name), size) for name, size in named)
    return sorted(_JournalObject(int(number[1]), size) for number, size in found if number)


def _numbered(folder: ObjectPath, number: int) -> ObjectPath:
    return folder / f"journal.{number:06}"


def _remove_below(folder: ObjectPath, first: int, *, but: int | None) -> None:
    """Remove the objects of an older journal, except for the number `but`."""
    numbers = (each.number for each in _pieces(folder) if each.number != but)
    remove_all([_numbered(folder, number) for number in numbers if number < first])


def _checksum(body: bytes) -> bytes:
    return xxh3_64_hexdigest(body).encode()
