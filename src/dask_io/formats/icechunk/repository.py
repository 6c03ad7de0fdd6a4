"""Repositories: opening them, finding versions, and reading and writing in a session."""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import icechunk
import numpy as np
from zarr.abc.store import RangeByteRequest
from zarr.buffer.cpu import Buffer, buffer_prototype
from zarr.core.sync import sync

from dask_io.errors import DataError, StorageError, UsageError, list_names
from dask_io.formats.icechunk.bucket import storage_in
from dask_io.formats.zarr.documents import V3
from dask_io.storage.local.disk import below
from dask_io.storage.location import is_url
from dask_io.storage.os_errors import SPECIAL, storage_errors
from dask_io.stores.container import INSIDE
from dask_io.stores.json_documents import LONGEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import TypeVar

    from numpy.typing import NDArray

    from dask_io.formats.zarr.place import Place
    from dask_io.storage.location import Location

    _T = TypeVar("_T")

MAIN = "main"
_MARK = "@"
_DAMAGED = "a file of the repository is missing or damaged; restore it from a copy"
_SYSTEM_ERROR = re.compile(r"\(os error ([0-9]+)\)")


class Address(NamedTuple):
    """An array in a version: a branch, a tag or a snapshot; by default the tip of `main`.

    Examples
    --------
    >>> Address.parse("@v1/day/1"), Address.parse("day/1")
    (Address(version='v1', array='day/1'), Address(version='', array='day/1'))
    """

    version: str
    array: str

    @classmethod
    def parse(cls, inside: str) -> Address:
        """Parse the part of a place after the repository's path."""
        first, _, rest = inside.partition("/")
        return cls(first[len(_MARK) :], rest) if first.startswith(_MARK) else cls("", inside)

    @property
    def branch(self) -> str:
        """The branch that a target is committed to."""
        return self.version or MAIN

    def key(self, name: str) -> str:
        """Return the key of a file of the array in icechunk."""
        return f"{self.array}/{name}" if self.array else name


def on_disk(path: Location) -> Path:
    """Return the path of a repository that is to be written.

    Raises
    ------
    UsageError
        If it is in an object store.
    """
    if not isinstance(path, Path):
        raise UsageError(
            f"{path}: icechunk repositories in object stores can only be read; "
            "choose a target on local disk, or another format"
        )
    return path


def groups_around(array: str) -> list[str]:
    """Return the groups that contain an array, outermost first.

    Examples
    --------
    >>> groups_around("day/1")
    ['', 'day']
    """
    parts = array.split("/") if array else []
    return ["/".join(parts[:n]) for n in range(len(parts))]


def place_of(site: Place) -> str:
    """Return the place of an array as users write it."""
    return f"{site.path}{INSIDE}/{site.inside}"


@contextmanager
def repository_errors(place: str) -> Iterator[None]:
    """Turn the long errors of icechunk into our own of one line."""
    try:
        yield
    except icechunk.IcechunkError as error:
        reason = _first_paragraph(error)
        if is_url(place):
            raise StorageError(place, reason, "check the URL and the network") from error
        found = _SYSTEM_ERROR.search(reason)
        number = int(found[1]) if found else errno.ENOENT
        if number == errno.ENOENT:
            # A file that others refer to is missing, or a file is not valid.
            raise DataError(place, [reason], _DAMAGED) from error
        with storage_errors(place):
            raise OSError(number, os.strerror(number)) from error
    except Exception as error:
        # No module exports this class, so it is recognised by its name.
        if type(error).__name__ != "RustPanic":
            raise
        raise DataError(place, ["icechunk cannot read it"], _DAMAGED) from error


def _first_paragraph(error: Exception) -> str:
    """Return the message of an icechunk error, without the trace that follows it."""
    text = str(error).strip().removeprefix("x ").split("\n\n")[0]
    lines = [line.strip(" |x") for line in text.splitlines()]
    return " ".join(lines[: lines.index("")] if "" in lines else lines)[:300]


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the log messages of icechunk; errors are still raised."""
    icechunk.set_logs_filter("off")
    try:
        yield
    finally:
        # None restores the setting of the environment.
        icechunk.set_logs_filter(None)


def open_repository(path: Location) -> icechunk.Repository:
    """Open an existing repository; none of its files may be a link.

    Raises
    ------
    StorageError
        If it does not exist.
    DataError
        If it is not a repository, or is damaged.
    """
    if not path.is_dir():
        raise StorageError(str(path), "no such directory", "check the path")
    if isinstance(path, Path):
        _refuse_others(path)
    # Inline chunks would stay in memory until the commit. Preloading runs in a thread of icechunk,
    # which prints to stdout if a manifest is damaged. Both are turned off.
    preload = icechunk.ManifestPreloadConfig(max_total_refs=0)
    config = icechunk.RepositoryConfig(
        inline_chunk_threshold_bytes=0, manifest=icechunk.ManifestConfig(preload=preload)
    )
    with repository_errors(str(path)):
        return icechunk.Repository.open(_storage(path), config=config)


def make_repository(path: Path) -> None:
    """Create an empty repository, with icechunk's default configuration."""
    with repository_errors(str(path)):
        icechunk.Repository.create(_storage(path))


def _storage(path: Location) -> icechunk.Storage:
    if not isinstance(path, Path):
        return storage_in(path)
    # icechunk warns that concurrent commits are not safe. Ours are serialized by a lock.
    with quiet():
        return icechunk.local_filesystem_storage(str(path.absolute()))


def _refuse_others(path: Path) -> None:
    """Refuse links, which icechunk would follow, and pipes, on which it would block."""
    with storage_errors(path):
        for entry in below(path):
            if entry.is_symlink():
                problem = "is a link, which is not followed"
                raise DataError(entry.path, [problem])
            if not entry.is_file() and not entry.is_dir():
                problem = f"is {SPECIAL}, not a file of the repository"
                raise DataError(entry.path, [problem])


def find_snapshot(repository: icechunk.Repository, path: Location, version: str) -> str:
    """Return the snapshot of a branch, a tag, or a snapshot identifier.

    Raises
    ------
    UsageError
        If nothing has this name, or a branch and a tag have it.
    """
    name = version or MAIN
    with repository_errors(str(path)):
        branches, tags = repository.list_branches(), repository.list_tags()
        found = {repository.lookup_branch(name)} if name in branches else set()
        found |= {repository.lookup_tag(name)} if name in tags else set()
    if not found:
        try:
            found = {repository.lookup_snapshot(name).id}
        except (icechunk.IcechunkError, ValueError):
            listed = list_names(sorted({*branches, *tags}))
            raise UsageError(
                f"{path} has no branch, tag or snapshot {name}; it has {listed}"
            ) from None
    if len(found) > 1:
        snapshots = " or ".join(f"{_MARK}{each}" for each in sorted(found))
        raise UsageError(f"{name} is a branch and a tag of {path}; give the snapshot: {snapshots}")
    return found.pop()


class Tree:
    """The contents of a session, by key; any number of threads may read and write at once."""

    def __init__(self, session: icechunk.Session, path: Location) -> None:
        self.session, self.path = session, path
        self._store = session.store

    def size(self, key: str) -> int:
        """Return the size of an existing chunk."""
        with repository_errors(str(self.path)):
            return int(sync(self._store.getsize(key)))

    def size_below(self, array: str) -> int:
        """Return the total size of an array."""
        with repository_errors(str(self.path)):
            return int(sync(self._store.getsize_prefix(array)))

    def read(self, key: str, start: int, stop: int) -> NDArray[np.uint8]:
        """Read a part of an existing chunk; fewer bytes if the chunk ends before `stop`."""
        if start == stop:
            return np.empty(0, np.uint8)
        part = RangeByteRequest(start, stop)
        with repository_errors(str(self.path)):
            found = sync(self._store.get(key, buffer_prototype, part))
        return np.empty(0, np.uint8) if found is None else np.asarray(found.as_numpy_array())

    def write(self, key: str, content: NDArray[np.uint8] | bytes) -> None:
        """Write a chunk or a metadata document."""
        if isinstance(content, bytes):
            buffer = Buffer.from_bytes(content)
        else:
            buffer = Buffer.from_array_like(content)
        with repository_errors(str(self.path)):
            sync(self._store.set(key, buffer))

    def remove(self, array: str) -> None:
        """Remove an array with all its chunks."""
        with repository_errors(str(self.path)):
            sync(self._store.delete_dir(array))

    def documents(self, array: str) -> dict[str, bytes]:
        """Return the metadata documents of an array or a group, empty if it does not exist."""
        key = Address("", array).key(V3)
        with repository_errors(str(self.path)):
            if not sync(self._store.exists(key)):
                return {}
            found = sync(self._store.get(key, buffer_prototype))
        content = b"" if found is None else found.to_bytes()
        if len(content) > LONGEST:
            place = f"{self.path}{INSIDE}/{key}"
            raise DataError(place, [f"is longer than {LONGEST} bytes"])
        return {V3: content}

    def members(self, group: str) -> list[str]:
        """Return the names of the direct members of a group."""
        with repository_errors(str(self.path)):
            names = sync(_gather(self._store.list_dir(group)))
        return sorted(name.strip("/") for name in names if name != V3)

    def kind(self, array: str, index: tuple[int, ...]) -> icechunk.ChunkType:
        """Return how a chunk is stored, if at all."""
        with repository_errors(str(self.path)):
            return self.session.chunk_type(f"/{array}", index)

    def chunks(self, array: str) -> list[tuple[int, ...]]:
        """Return the indices of all chunks that are stored."""
        with repository_errors(str(self.path)):
            return sync(_gather(self.session.chunk_coordinates(f"/{array}")))


async def _gather(found: AsyncIterator[_T]) -> list[_T]:
    return [each async for each in found]
