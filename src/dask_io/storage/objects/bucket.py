"""The medium for object stores."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import chain, pairwise
from threading import Lock
from typing import TYPE_CHECKING

from obstore.exceptions import BaseError

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.storage.medium import NOT_A_FILE, FileInfo
from dask_io.storage.objects import requests
from dask_io.storage.objects.conditional import ConflictError, look, put_if, remove_all
from dask_io.storage.objects.failures import Patience, ask_again
from dask_io.storage.objects.transport import (
    AT_ONCE,
    LARGE,
    PART,
    PARTS_AT_ONCE,
    ObjectPublisher,
    ObjectReader,
    put_in_parts,
    put_whole,
)
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import JOURNAL, LOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from obstore import ObjectMeta

    from dask_io.storage.medium import Durability
    from dask_io.storage.objects.path import ObjectPath
    from dask_io.storage.tally import Tally

# More than can happen, because runs hold a lock during updates.
_MOST_UPDATES = 8


class Objects:
    """Objects: read by range, written whole. There are no directories to create or remove."""

    writes_whole = True
    bytes_to_read = AT_ONCE

    def bytes_to_write(self, n_bytes: int) -> int:
        """Return the bytes to assemble an object, and to upload its parts."""
        return n_bytes + (PART * (PARTS_AT_ONCE + 1) if n_bytes > LARGE else 0)

    def reader(self, path: ObjectPath, tally: Tally) -> ObjectReader:
        """Open an object for reading."""
        return ObjectReader(path, tally)

    def reader_in(self, folder: ObjectPath, name: str, tally: Tally) -> ObjectReader:
        """Open an object below a prefix for reading."""
        return ObjectReader(folder / name, tally)

    def publisher(
        self,
        folder: ObjectPath,
        durability: Durability,  # noqa: ARG002 - puts are durable
        *,
        own_names: bool = False,
    ) -> ObjectPublisher:
        """Return a publisher for objects.

        With `own_names`, it never removes an object, which another process may have put.

        Raises
        ------
        UsageError
            If the store is read-only.
        """
        if not folder.connection.can_list:
            raise UsageError(f"{folder} is read-only; choose another target")
        return ObjectPublisher(folder, shared=own_names)

    def write_whole(self, path: ObjectPath, content: bytes) -> None:
        """Put a small object, on the condition that the existing version does not change.

        So a run that has lost its lock cannot overwrite the metadata of a target.

        Raises
        ------
        StorageError
            If another process has changed the object.
        """
        seen = look(path)
        try:
            put_if(path, content, seen[1] if seen else "create")
        except ConflictError:
            reason, advice = "another run has changed it", "check whether another run is active"
            raise StorageError(str(path), reason, advice) from None

    def update(self, path: ObjectPath, make: Callable[[], bytes]) -> None:
        """Put a small object, on the condition that the version it was made from is unchanged."""
        for _ in range(_MOST_UPDATES):
            seen = look(path)
            with suppress(ConflictError):
                put_if(path, make(), seen[1] if seen else "create")
                return
        raise StorageError(str(path), "other processes keep changing it", "try again later")

    def write_pieces(
        self, path: ObjectPath, n_bytes: int, pieces: Callable[[], Iterator[bytes]]
    ) -> None:
        """Put an object; a large one is uploaded in parts, of which few are held at once."""
        if n_bytes <= PART:
            put_whole(path, b"".join(pieces()))
        else:
            put_in_parts(path, pieces)

    def find(self, path: ObjectPath) -> FileInfo | None:
        """Return size and version of an object, None if it does not exist."""
        try:
            return _found(ask_again(path, partial(requests.calls.head, path.store, path.key)))
        except FileNotFoundError:
            return None

    def is_folder(self, path: ObjectPath) -> bool:
        """Tell whether there are objects below this prefix."""
        return any(True for _ in _listed(path))

    def finder(self, root: ObjectPath) -> Callable[[str], FileInfo | None]:
        """Return a function that finds objects in one listing, made at the first call."""
        return _Finder(root)

    def finder_inside(self, root: ObjectPath) -> Callable[[str], FileInfo | None]:
        """Return a function like `finder`: there are no links."""
        return self.finder(root)

    def sizes(self, folder: ObjectPath) -> dict[str, int]:
        """Return the sizes of all objects directly below a prefix.

        Raises
        ------
        StorageError
            If there are none, like a missing directory.
        """
        found = self._look_into(folder)
        if not found:
            raise StorageError(str(folder), "no objects found", "check the URL")
        return found

    def names(self, folder: ObjectPath) -> dict[str, bool]:
        """Return all names directly below a prefix, and whether each is a prefix of objects."""
        found = {name: size == NOT_A_FILE for name, size in self._look_into(folder).items()}
        # A journal with only a lock is left over from a killed run.
        if JOURNAL in found and self._look_into(folder / JOURNAL).keys() <= {LOCK}:
            del found[JOURNAL]
        return found

    def _look_into(self, folder: ObjectPath) -> dict[str, int]:
        _refuse_unlisted(folder)
        ask = partial(requests.calls.list_with_delimiter, folder.store, folder.key)
        with storage_errors(folder):
            listed = ask_again(folder, ask)
        # Some tools create an object that represents the directory.
        objects = [each for each in listed["objects"] if each["path"] != folder.key]
        found = {each["path"].rpartition("/")[2]: each["size"] for each in objects}
        for prefix in listed["common_prefixes"]:
            name = prefix.rpartition("/")[2]
            if found.get(name):
                problem = "is both an object and a prefix of other objects"
                raise DataError(f"{folder}/{name}", [problem], "rename one of them")
            found[name] = NOT_A_FILE
        return {name: size for name, size in found.items() if name}

    def files(self, root: ObjectPath) -> Iterator[tuple[str, FileInfo]]:
        """Yield all objects below a prefix, without journals."""
        _refuse_unlisted(root)
        for each, following in pairwise(chain(_listed(root), (None,))):
            assert each is not None, "only the last one is"
            name = each["path"][len(root.key) :].strip("/")
            is_ours = bool(name) and not name.startswith(JOURNAL)
            if is_ours and (each["size"] or not self._stands_for_folder(root / name, following)):
                yield name, _found(each)

    def _stands_for_folder(self, path: ObjectPath, following: ObjectMeta | None) -> bool:
        """Tell whether an empty object represents a folder, as some tools create them.

        Its name ends in a slash, which the listing does not show.
        """
        goes_on = following is not None and following["path"].startswith(f"{path.key}/")
        return goes_on or self.find(path) is None

    def identity(self, path: ObjectPath) -> str:
        """Return an object's version."""
        found = self.find(path)
        return found.mark if found else ""

    def remove(self, paths: Iterable[ObjectPath]) -> None:
        """Remove objects, ignoring missing ones."""
        remove_all(paths)

    def remove_tree(self, root: ObjectPath) -> None:
        """Remove all objects below this prefix, including journals."""
        names = (each["path"][len(root.key) :].strip("/") for each in _listed(root))
        self.remove([root / name for name in names if name])

    def make_folders(self, folder: ObjectPath, made: list[ObjectPath], *, durable: bool) -> None:
        """There are no directories."""

    def remove_folders(self, folders: list[ObjectPath]) -> None:
        """There are no directories."""
        folders.clear()

    def remove_if_empty(self, folder: ObjectPath) -> None:
        """There are no directories."""

    def tidy(self, root: ObjectPath, removed: Iterable[ObjectPath]) -> None:
        """There are no directories."""

    def tidy_all(self, root: ObjectPath) -> None:
        """There are no directories."""

    def sync_names(self, folders: Iterable[ObjectPath]) -> None:
        """Do nothing: puts are durable."""


def _listed(path: ObjectPath) -> Iterator[ObjectMeta]:
    """Yield all objects below a prefix; an interrupted listing is continued."""
    last, patience = None, Patience(path)
    while True:
        try:
            with storage_errors(path):
                for chunk in requests.calls.list(path.store, prefix=path.key, offset=last):
                    for each in chunk:
                        yield each
                        last = each["path"]
        except BaseError as error:
            patience.wait_or_raise(error)
        else:
            return


def _found(meta: ObjectMeta) -> FileInfo:
    return FileInfo(meta["size"], meta["e_tag"] or meta["last_modified"].isoformat())


def _refuse_unlisted(folder: ObjectPath) -> None:
    if not folder.connection.can_list:
        raise StorageError(
            str(folder),
            "cannot be listed over HTTP",
            "give one file, or an array in a container",
        )


class _Finder:
    """Finds objects in a listing that is made at the first call; safe to share between threads."""

    def __init__(self, root: ObjectPath) -> None:
        self._root = root
        self._found: dict[str, FileInfo] | None = None
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[_Finder], tuple[ObjectPath]]:
        # Locks cannot be pickled.
        return _Finder, (self._root,)

    def __call__(self, name: str) -> FileInfo | None:
        if not self._root.connection.can_list:
            return OBJECTS.find(self._root / name)
        with self._lock:
            if self._found is None:
                self._found = dict(OBJECTS.files(self._root))
        return self._found.get(name)


OBJECTS = Objects()
