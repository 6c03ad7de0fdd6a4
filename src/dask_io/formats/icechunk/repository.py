"""A repository: its versions, and what lies in one of them."""

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
from dask_io.formats.zarr.documents import LONGEST, V3
from dask_io.storage.local.disk import below
from dask_io.storage.location import is_url
from dask_io.storage.os_errors import SPECIAL, storage_errors
from dask_io.stores.container import INSIDE

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
    """An array of a version: a branch, a tag or a snapshot; the tip of `main` if none is named.

    Examples
    --------
    >>> Address.parse("@v1/day/1"), Address.parse("day/1")
    (Address(version='v1', array='day/1'), Address(version='', array='day/1'))
    """

    version: str
    array: str

    @classmethod
    def parse(cls, inside: str) -> Address:
        """Take apart what comes behind the repository's path."""
        first, _, rest = inside.partition("/")
        return cls(first[len(_MARK) :], rest) if first.startswith(_MARK) else cls("", inside)

    @property
    def branch(self) -> str:
        """The branch that a target is committed to."""
        return self.version or MAIN

    def key(self, name: str) -> str:
        """Return how icechunk calls a file of the array."""
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
    """Return the groups that an array lies in, outermost first.

    Examples
    --------
    >>> groups_around("day/1")
    ['', 'day']
    """
    parts = array.split("/") if array else []
    return ["/".join(parts[:n]) for n in range(len(parts))]


def place_of(site: Place) -> str:
    """Return how users name an array."""
    return f"{site.path}{INSIDE}/{site.inside}"


@contextmanager
def repository_errors(place: str) -> Iterator[None]:
    """Say in one line, and in our words, what icechunk says in many."""
    try:
        yield
    except icechunk.IcechunkError as error:
        said = _in_brief(error)
        if is_url(place):
            raise StorageError(place, said, "check the URL and the network") from error
        found = _SYSTEM_ERROR.search(said)
        number = int(found[1]) if found else errno.ENOENT
        if number == errno.ENOENT:
            # A file that others speak of is missing, or one is none of icechunk's.
            raise DataError(place, [said], _DAMAGED) from error
        with storage_errors(place):
            raise OSError(number, os.strerror(number)) from error
    except Exception as error:
        # No module exports this class, so it is recognised by its name.
        if type(error).__name__ != "RustPanic":
            raise
        raise DataError(place, ["icechunk cannot read it"], _DAMAGED) from error


def _in_brief(error: Exception) -> str:
    """Return what icechunk says before it begins to tell where that was."""
    text = str(error).strip().removeprefix("x ").split("\n\n")[0]
    lines = [line.strip(" |x") for line in text.splitlines()]
    return " ".join(lines[: lines.index("")] if "" in lines else lines)[:300]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep to ourselves what icechunk remarks; errors are raised all the same."""
    icechunk.set_logs_filter("off")
    try:
        yield
    finally:
        # As the environment says.
        icechunk.set_logs_filter(None)


def open_repository(path: Location) -> icechunk.Repository:
    """Open a repository that is there; none of its files may lead out of it.

    Raises
    ------
    StorageError
        If there is nothing.
    DataError
        If it is none.
    """
    if not path.is_dir():
        raise StorageError(str(path), "no such directory", "check the path")
    if isinstance(path, Path):
        _refuse_others(path)
    # Chunks in the manifest would be held in memory until the commit. Manifests that icechunk loads
    # in advance, in a thread of its own, are reported on stdout if they are damaged.
    in_advance = icechunk.ManifestPreloadConfig(max_total_refs=0)
    config = icechunk.RepositoryConfig(
        inline_chunk_threshold_bytes=0, manifest=icechunk.ManifestConfig(preload=in_advance)
    )
    with repository_errors(str(path)):
        return icechunk.Repository.open(_storage(path), config=config)


def make_repository(path: Path) -> None:
    """Make an empty repository; the configuration of ours is not kept in it."""
    with repository_errors(str(path)):
        icechunk.Repository.create(_storage(path))


def _storage(path: Location) -> icechunk.Storage:
    if not isinstance(path, Path):
        return storage_in(path)
    # It would remark that two commits at once are not safe; those of ours wait for each other.
    with quiet():
        return icechunk.local_filesystem_storage(str(path.absolute()))


def _refuse_others(path: Path) -> None:
    """Refuse links, which icechunk would follow, and pipes, which it would wait for."""
    with storage_errors(path):
        for entry in below(path):
            if entry.is_symlink():
                problem = "is a link, but nothing outside the repository is read"
                raise DataError(entry.path, [problem])
            if not entry.is_file() and not entry.is_dir():
                problem = f"is {SPECIAL}, not a file of the repository"
                raise DataError(entry.path, [problem])


def find_snapshot(repository: icechunk.Repository, path: Location, version: str) -> str:
    """Return the snapshot that a branch, a tag, or its own identifier names.

    Raises
    ------
    UsageError
        If nothing has this name, or more than one thing.
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
        raise UsageError(f"{name} is a branch and a tag of {path}; name the snapshot: {snapshots}")
    return found.pop()


class Tree:
    """What lies in a session, by key; any number of threads may read and write at once."""

    def __init__(self, session: icechunk.Session, path: Location) -> None:
        self.session, self.path = session, path
        self._store = session.store

    def size(self, key: str) -> int:
        """Return the bytes of a chunk that is there."""
        with repository_errors(str(self.path)):
            return int(sync(self._store.getsize(key)))

    def size_below(self, array: str) -> int:
        """Return the bytes of all that belongs to an array."""
        with repository_errors(str(self.path)):
            return int(sync(self._store.getsize_prefix(array)))

    def read(self, key: str, start: int, stop: int) -> NDArray[np.uint8]:
        """Read a part of a chunk that is there; less than asked for if it is shorter."""
        if start == stop:
            return np.empty(0, np.uint8)
        part = RangeByteRequest(start, stop)
        with repository_errors(str(self.path)):
            found = sync(self._store.get(key, buffer_prototype, part))
        return np.empty(0, np.uint8) if found is None else np.asarray(found.as_numpy_array())

    def write(self, key: str, content: NDArray[np.uint8] | bytes) -> None:
        """Write a chunk, or what describes an array."""
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
        """Return what describes an array or a group, nothing if there is neither."""
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
        """Return what lies directly in a group."""
        with repository_errors(str(self.path)):
            names = sync(_gather(self._store.list_dir(group)))
        return sorted(name.strip("/") for name in names if name != V3)

    def kind(self, array: str, index: tuple[int, ...]) -> icechunk.ChunkType:
        """Tell how a chunk is stored, if it is."""
        with repository_errors(str(self.path)):
            return self.session.chunk_type(f"/{array}", index)

    def chunks(self, array: str) -> list[tuple[int, ...]]:
        """Return the indices of all chunks that are stored."""
        with repository_errors(str(self.path)):
            return sync(_gather(self.session.chunk_coordinates(f"/{array}")))


async def _gather(found: AsyncIterator[_T]) -> list[_T]:
    return [each async for each in found]
