"""The transport for objects: read by range, written whole, and counted.

On an object store a seek is a request. A run that is read slab by slab is one request if it was
announced (`expect`). Many short runs are requested at once. Headers and listings are requests,
too, but not counted.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from obstore.exceptions import BaseError, GenericError
from xxhash import xxh3_64

from dask_io.errors import DataError, StorageError
from dask_io.storage.objects import requests
from dask_io.storage.objects.failures import Patience, ask_again
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Visit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from types import TracebackType

    from obstore import Bytes

    from dask_io.storage.objects.path import ObjectPath
    from dask_io.storage.tally import Tally

# The size of requests for several runs, and of the pieces in which a response is received.
AT_ONCE = 2**20
_PIECE = AT_ONCE // 4
_MOST_RUNS = 64
# Larger objects are uploaded in parts, some at once, so that no single request takes long.
LARGE = 64 * 2**20
PART, PARTS_AT_ONCE = 16 * 2**20, 4


class _Answer:
    """The response to a request, from `position` to the end of the range or of the object."""

    def __init__(self, position: int, stop: int, pieces: Iterator[bytes]) -> None:
        self.position, self._stop = position, stop
        self._pieces, self._left = pieces, memoryview(b"")

    def goes_on_at(self, position: int) -> bool:
        """Tell whether its next bytes start at this position."""
        return self.position == position < self._stop

    def read_into(self, buffer: memoryview) -> int:
        """Move the next bytes into a buffer; return their number, 0 at the end."""
        if not self._left:
            self._left = memoryview(next(self._pieces, b""))
        n_bytes = min(len(buffer), len(self._left))
        buffer[:n_bytes] = self._left[:n_bytes]
        self._left = self._left[n_bytes:]
        self.position += n_bytes
        return n_bytes


class ObjectReader(Visit):
    """One visit to an object that is read."""

    def __init__(self, path: ObjectPath, tally: Tally) -> None:
        super().__init__(tally, tally.read)
        self._path = path
        self._expected = range(0)
        self._answer: _Answer | None = None
        self._size: int | None = None
        self._version: str | None = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._answer = None
        super().__exit__(kind, error, trace)

    def expect(self, start: int, stop: int) -> None:
        """Announce a range that will be read piece by piece, so that one request gets all of it.

        Part of a range that is already announced changes nothing.
        """
        if not (start in self._expected and stop <= self._expected.stop):
            self._expected = range(start, stop)

    @property
    def size(self) -> int:
        """Bytes in the object."""
        if self._size is None:
            ask = partial(requests.calls.head, self._path.store, self._path.key)
            with storage_errors(self._path):
                self._size = ask_again(self._path, ask)["size"]
        return self._size

    def peek(self, n_bytes: int) -> bytes:
        """Return the object's first bytes, or all of it if it is shorter, without counting."""
        buffer = memoryview(bytearray(n_bytes))
        return bytes(buffer[: self._fill(0, buffer)])

    def peek_into(
        self,
        buffer: memoryview,
        n_bytes: int,
        *,
        to_end: bool = False,  # noqa: ARG002 - every response includes the size
    ) -> memoryview:
        """Read the object's first bytes, or all of it if it is shorter, without counting."""
        return buffer[: self._fill(0, buffer[:n_bytes])]

    def read(self, offset: int, n_bytes: int, buffer: memoryview) -> memoryview:
        """Read bytes from an offset on, and return the part of the buffer that holds them."""
        self.count(offset, n_bytes)
        n_read = self._fill(offset, buffer[:n_bytes])
        if n_read < n_bytes:
            self._refuse_end(offset + n_read, n_bytes - n_read)
        return buffer[:n_bytes]

    def read_runs(self, runs: Iterable[tuple[int, int]], buffer: memoryview) -> None:
        """Read runs, each an offset and a number of bytes, one after the other."""
        for batch in _batches(runs):
            n_bytes = sum(length for _, length in batch)
            if len(batch) == 1:
                self.read(*batch[0], buffer[:n_bytes])
            else:
                self._read_together(batch, buffer[:n_bytes])
            buffer = buffer[n_bytes:]

    def _read_together(self, runs: list[tuple[int, int]], buffer: memoryview) -> None:
        for offset, n_bytes in runs:
            self.count(offset, n_bytes)
        last, n_last = runs[-1]
        if last + n_last > self.size:
            self._refuse_end(self.size, last + n_last - self.size)
        starts, lengths = zip(*runs, strict=True)
        store, key = self._path.store, self._path.key

        def ask() -> Sequence[Bytes]:
            return requests.calls.get_ranges(store, key, starts=starts, lengths=lengths, coalesce=0)

        for n_bytes, content in zip(lengths, ask_again(self._path, ask), strict=True):
            buffer[:n_bytes] = memoryview(content)
            buffer = buffer[n_bytes:]

    def _fill(self, offset: int, buffer: memoryview) -> int:
        """Read until the buffer is full or the object ends; return the number of bytes."""
        n_done, patience = 0, Patience(self._path)
        while n_done < len(buffer):
            position = offset + n_done
            try:
                if self._answer is None or not self._answer.goes_on_at(position):
                    self._answer = self._ask(position, offset + len(buffer))
                n_read = self._answer.read_into(buffer[n_done:])
            except BaseError as error:
                self._answer = None
                patience.wait_or_raise(error)
                continue
            if n_read == 0:
                break
            n_done += n_read
        return n_done

    def _ask(self, start: int, stop: int) -> _Answer:
        """Request a range, extended to the announced range."""
        if start in self._expected:
            stop = max(stop, self._expected.stop)
        if self._size is not None and start >= self._size:
            return _Answer(start, stop, iter(()))
        store, key = self._path.store, self._path.key
        try:
            found = requests.calls.get(store, key, options={"range": (start, stop)})
        except FileNotFoundError:
            raise StorageError(str(self._path), "no such object", "check the URL") from None
        except GenericError:
            # A range that starts beyond the end is refused.
            if start >= self.size:
                return _Answer(start, stop, iter(()))
            raise
        self._note(found.meta["size"], found.meta["e_tag"])
        pieces = found.stream(_PIECE) if stop - start > _PIECE else iter([bytes(found.bytes())])
        return _Answer(start, stop, pieces)

    def _note(self, size: int, version: str | None) -> None:
        """Check that size and version of the object do not change between requests."""
        if self._version is not None and (size, version) != (self._size, self._version):
            raise DataError(str(self._path), ["has changed while it was read"])
        self._size, self._version = size, version

    def _refuse_end(self, end: int, n_missing: int) -> None:
        problem = f"ends at byte {end}, {n_missing} bytes too early"
        place = str(self._path)
        raise DataError(place, [problem], "the object is truncated or has changed")


def _batches(runs: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """Group runs into requests."""
    batch: list[tuple[int, int]] = []
    n_bytes = 0
    for run in runs:
        if batch and (n_bytes + run[1] > AT_ONCE or len(batch) == _MOST_RUNS):
            yield batch
            batch, n_bytes = [], 0
        batch.append(run)
        n_bytes += run[1]
    if batch:
        yield batch


class ObjectWriter(Visit):
    """One visit to an object that is written: it is uploaded as a whole at the end.

    Without a size, the pieces written are concatenated.
    """

    def __init__(
        self,
        path: ObjectPath,
        tally: Tally,
        *,
        header: bytes,
        n_bytes: int | None,
        n_zeros: int = 0,
        on_put: Callable[[], None],
    ) -> None:
        super().__init__(tally, tally.write)
        self._path, self._header, self._n_bytes, self._on_put = path, header, n_bytes, on_put
        self._checksum = xxh3_64()
        self._pieces: list[memoryview] = []
        self._whole: memoryview | None = None
        self._n_written = len(header) + n_zeros

    @property
    def checksum(self) -> int:
        """Checksum of all written data, in the order of the writes."""
        return self._checksum.intdigest()

    def write(self, offset: int, buffer: memoryview) -> None:
        """Write all of the buffer at an offset; a buffer of the full size is not copied."""
        self.count(offset, len(buffer))
        self._checksum.update(buffer)
        if self._n_bytes is None or len(buffer) == self._n_bytes:
            self._pieces.append(buffer)
            return
        if self._whole is None:
            self._whole = memoryview(np.zeros(self._n_bytes, np.uint8).data)
            self._whole[: len(self._header)] = self._header
        self._n_written += len(buffer)
        self._whole[offset : offset + len(buffer)] = buffer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        content = self._whole
        assert kind or content is None or self._n_written >= len(content), "the rest would be zeros"
        if content is None and self._pieces:
            only = self._pieces[0] if len(self._pieces) == 1 else None
            content = memoryview(b"".join(self._pieces)) if only is None else only
        self._whole, self._pieces = None, []
        if kind is None and content is not None:
            self._on_put()
            put_whole(self._path, content)


def put_whole(path: ObjectPath, content: bytes | memoryview) -> None:
    """Put an object, which appears when it is complete."""
    # A store in memory keeps a reference to the content, but buffers are reused.
    content = bytes(content) if path.connection.is_memory else content
    put = partial(requests.calls.put, path.store, path.key, content, chunk_size=PART)
    with storage_errors(path):
        is_large = len(content) > LARGE
        put = partial(put, use_multipart=is_large, max_concurrency=PARTS_AT_ONCE)
        ask_again(path, put, is_put=True)


def put_in_parts(path: ObjectPath, pieces: Callable[[], Iterator[bytes]]) -> None:
    """Put an object from pieces; `pieces` is called again if the request is repeated."""

    def put() -> object:
        return requests.calls.put(
            path.store, path.key, pieces(), use_multipart=True, chunk_size=PART, max_concurrency=1
        )

    with storage_errors(path):
        ask_again(path, put, is_put=True)


class ObjectPublisher:
    """Publishes objects, each when it is complete.

    A run that fails removes the objects that it has not committed. A killed run leaves them, and
    the run that resumes it puts them again. If several processes put the same objects (`shared`),
    none removes any.
    """

    def __init__(self, folder: ObjectPath, *, shared: bool = False) -> None:
        self.folder, self._is_shared = folder, shared
        self._pending: set[str] = set()
        self._is_abandoned = False
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # Locks and incomplete objects cannot be pickled.
        return partial(ObjectPublisher, shared=self._is_shared), (self.folder,)

    def partial(self, name: str) -> ObjectPath:
        """Return the object itself: objects have no temporary names."""
        return self.folder / name

    def writer(
        self,
        name: str,
        tally: Tally,
        *,
        header: bytes = b"",
        n_bytes: int | None = None,
        n_zeros: int = 0,
        reserve: bool = True,  # noqa: ARG002 - stores have no limit
        check: Callable[[], None] | None = None,
    ) -> ObjectWriter:
        """Open an object for writing.

        Raises
        ------
        StorageError
            If the publisher has been abandoned.
        """
        path = self.folder / name
        if self._is_abandoned:
            raise StorageError(str(path), "the run has been abandoned")

        def note() -> None:
            if check is not None:
                check()
            with self._lock:
                self._pending.add(name)

        return ObjectWriter(
            path, tally, header=header, n_bytes=n_bytes, n_zeros=n_zeros, on_put=note
        )

    def go_on(self, name: str, header: bytes) -> None:
        """Refuse: there are no unfinished objects."""
        raise NotImplementedError(name, header)

    def take_back(self, name: str) -> None:
        """Refuse: there are no unfinished objects."""
        raise NotImplementedError(name)

    def commit(
        self,
        names: Collection[str],
        whole: Collection[str],  # noqa: ARG002 - all are
    ) -> None:
        """Keep objects; they have been durable since they were put."""
        with self._lock:
            self._pending.difference_update(names)

    def leave_out(self, names: Collection[str]) -> None:
        """Do nothing: unneeded objects have not been put."""

    def abandon(self, keep: Collection[str] = ()) -> None:
        """Remove uncommitted objects, except those to `keep`, and refuse new ones."""
        with self._lock:
            self._is_abandoned = True
            for name in () if self._is_shared else self._pending.difference(keep):
                with suppress(OSError, BaseError):
                    requests.calls.delete(self.folder.store, (self.folder / name).key)
            self._pending.clear()
