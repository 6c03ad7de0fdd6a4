"""Groups of Zarr arrays: what is in one, and making another of the same shape.

The arrays of a group are sources and targets of their own. A group that is written has a journal
too, which says what belongs to it; its metadata comes last, that of the outermost group at
the very end, so that no reader takes it for one before it is complete.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zarr
from zarr.buffer.cpu import Buffer
from zarr.storage import MemoryStore

from dask_io.errors import DataError, TargetExistsError, UsageError
from dask_io.stores import system
from dask_io.stores.disk import DISK
from dask_io.stores.files import Durability, Publisher, storage_errors, sync, write_fully
from dask_io.stores.files import write_whole as write_document
from dask_io.stores.journal import Journal, is_unfinished, refuse_locked
from dask_io.stores.logs import NAME as JOURNAL
from dask_io.stores.naming import printable
from dask_io.stores.zarr.documents import (
    V2,
    V2_ATTRIBUTES,
    V2_GROUP,
    V3,
    is_group,
    parse,
    quiet,
    read_document,
    read_documents,
)
from dask_io.stores.zarr.place import METADATA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from zarr.abc.buffer import Buffer as AnyBuffer

CONSOLIDATED = ".zmetadata"
# More than any group of a sane dataset has; a directory tree that is none ends here.
_MOST_ARRAYS = 10_000
_PIECE = 2**20
_ROOT = ""


@dataclass(frozen=True)
class Group:
    """What a group holds, by path within it; the group itself has the path ``""``.

    `consolidated` are the groups that hold the metadata of their members in their own. `files` are
    those beside the metadata of groups, such as descriptions that other tools put there.
    """

    root: Path
    groups: Mapping[str, Mapping[str, bytes]]
    arrays: Mapping[str, Mapping[str, bytes]]
    consolidated: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def place(self) -> str:
        """The group's directory."""
        return str(self.root)

    @property
    def version(self) -> int:
        """Version of the format."""
        return 3 if V3 in self.groups[_ROOT] else 2

    @property
    def attributes(self) -> dict[str, Any]:
        """What the group says about itself."""
        return attributes_of(self.groups[_ROOT])

    def to_json(self) -> dict[str, Any]:
        """Return what it takes to make a group like it, as plain values."""
        return {
            "groups": {
                path: {name: text.decode() for name, text in documents.items()}
                for path, documents in self.groups.items()
            },
            "consolidated": list(self.consolidated),
            "files": list(self.files),
        }

    @classmethod
    def from_json(cls, root: Path, described: Mapping[str, Any]) -> Group:
        """Read back what `to_json` returned, of a group that may be elsewhere now."""
        groups = {
            checked_path(path): {_document(name): text.encode() for name, text in documents.items()}
            for path, documents in described["groups"].items()
        }
        paths = (tuple(map(checked_path, described[key])) for key in ("consolidated", "files"))
        return cls(root, groups, {}, *paths)


def checked_path(path: str) -> str:
    """Return a path that leads into a group.

    Raises
    ------
    ValueError
        If it would lead out.
    """
    if path != _ROOT and any(part in {"", ".", ".."} for part in path.split("/")):
        raise ValueError(f"{printable(path)} is no path in a group")
    return path


def _document(name: str) -> str:
    if name not in {V3, V2_GROUP, V2_ATTRIBUTES}:
        raise ValueError(f"{printable(name)} is no metadata of a group")
    return name


def attributes_of(documents: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the attributes among the documents of a group or an array."""
    if V3 in documents:
        found = parse(documents[V3]).get("attributes", {})
    else:
        found = parse(documents.get(V2_ATTRIBUTES, b"{}"))
    if not isinstance(found, dict):
        raise ValueError("has attributes that are not a JSON object")  # noqa: TRY004 - wrong data
    return found


def is_group_at(root: Path) -> bool:
    """Tell whether a directory is that of a group; what cannot be understood is none."""
    with suppress(ValueError, DataError):
        return root.is_dir() and is_group(read_documents(root))
    return False


def read_group(root: Path) -> Group:
    """Read the metadata of a group and of all that is in it; links are not followed.

    Raises
    ------
    DataError
        If some cannot be understood, or there is more than can be.
    """
    groups: dict[str, dict[str, bytes]] = {}
    arrays: dict[str, dict[str, bytes]] = {}
    consolidated, files = [], []
    for path, folder in _nodes(root):
        documents = read_documents(folder)
        try:
            if not is_group(documents):
                arrays[path] = documents
                continue
            if V3 in documents:
                if parse(documents[V3]).get("consolidated_metadata") is not None:
                    consolidated.append(path)
            else:
                with storage_errors(folder):
                    if (folder / V2_ATTRIBUTES).is_file():
                        documents[V2_ATTRIBUTES] = read_document(folder, V2_ATTRIBUTES)
                    if (folder / CONSOLIDATED).is_file():
                        consolidated.append(path)
            attributes_of(documents)
        except ValueError as error:
            raise DataError(printable(str(folder)), [printable(str(error))]) from error
        groups[path] = documents
        files += [_join(path, name) for name in _other_files(folder)]
        if len(arrays) + len(groups) > _MOST_ARRAYS:
            raise DataError(printable(str(root)), [f"holds more than {_MOST_ARRAYS} arrays"])
    return Group(root, groups, arrays, tuple(consolidated), tuple(files))


def _nodes(root: Path, path: str = _ROOT) -> Iterator[tuple[str, Path]]:
    """Yield the groups and arrays in a directory with their paths, each before what is in it."""
    folder = root / path
    documents = read_documents(folder)
    if not documents:
        return
    yield path, folder
    try:
        goes_on = is_group(documents)
    except ValueError:
        goes_on = False
    if goes_on:
        for name in _members(folder):
            yield from _nodes(root, _join(path, name))


def _members(folder: Path) -> list[str]:
    """Return the names of the groups and arrays in the directory of a group."""
    return [name for name in _folders(folder) if read_documents(folder / name)]


def _folders(folder: Path) -> list[str]:
    with storage_errors(folder), os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    for name in names:
        _refuse_link(folder / name)
    return [name for name in names if name != JOURNAL]


def _refuse_link(path: Path) -> None:
    """Refuse a link: nothing of a group is left out unsaid, and nothing outside of it is read."""
    if path.is_symlink():
        shown = printable(str(path))
        raise DataError(shown, ["is a link, which is not followed"], "put in what it means")


def _other_files(folder: Path) -> list[str]:
    """Return the files in the directory of a group, and in folders of it that are no members."""
    ours = {V3, V2, V2_ATTRIBUTES, V2_GROUP, CONSOLIDATED}
    with storage_errors(folder), os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if not entry.is_dir())
    others = set(_folders(folder)).difference(_members(folder))
    inner = (_join(name, file) for name in sorted(others) for file, _ in DISK.files(folder / name))
    found = [*(name for name in names if name not in ours), *inner]
    for name in found:
        _refuse_link(folder / name)
    return found


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def copy_array(source: Path, target: Path) -> None:
    """Copy the files of an array as they are, its metadata last; what is there is replaced.

    For arrays that hold what is not understood, such as texts of any length, or have no axes.
    """
    files = [name for name, _ in DISK.files(source)]
    for name in files:
        _refuse_link(source / name)
    for name in sorted(files, key=lambda name: (name in METADATA, name == V2, name)):
        copy_file(source / name, target / name)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file piece by piece, and give it its name when it is whole and durable."""
    _make_folder(target.parent)
    publisher, offset = Publisher(target.parent), 0
    path = publisher.begin(target.name, b"", 0)
    with storage_errors(source), source.open("rb") as file:
        while piece := file.read(_PIECE):
            with storage_errors(path):
                fd = system.calls.open(path, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    write_fully(fd, offset, memoryview(piece))
                finally:
                    system.calls.close(fd)
            offset += len(piece)
    publisher.commit([target.name], [target.name])


def _make_folder(folder: Path) -> None:
    """Make a directory with its parents; their names are durable."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    with storage_errors(folder):
        for each in reversed(missing):
            with suppress(FileExistsError):
                system.calls.mkdir(each)
            sync(each.parent)


class GroupTarget:
    """A group that is written, by one run at a time; its arrays are targets of their own."""

    def __init__(self, root: Path, *, durability: Durability) -> None:
        self.root, self.durability = root, durability
        self._journal: Journal | None = None

    @property
    def place(self) -> str:
        """The group's directory."""
        return str(self.root)

    @property
    def _journal_place(self) -> Path:
        return self.root / JOURNAL

    def check(self) -> None:
        """Refuse a place where something is.

        Raises
        ------
        TargetExistsError
            If it is a group that is not complete.
        UsageError
            If there is anything else: a group is not overwritten as a whole.
        """
        shown = printable(self.place)
        with storage_errors(self.root):
            if not os.path.lexists(self.root) or (
                self.root.is_dir() and not any(self.root.iterdir())
            ):
                return
        if is_unfinished(self._journal_place):
            refuse_locked(self._journal_place)
            raise TargetExistsError(shown, unfinished=True)
        raise UsageError(f"{shown} exists; a group is not overwritten: remove it, or go elsewhere")

    def create(self, job: bytes) -> None:
        """Make the place; a journal with the job is the first thing there.

        Raises
        ------
        TargetExistsError
            If something is there that is not to be overwritten.
        """
        self.check()
        _make_folder(self.root)
        try:
            with storage_errors(self.root):
                DISK.logs.remove_stale(self._journal_place)
                self._begin_journal(job)
        except BaseException:
            self.abandon()
            with suppress(OSError):
                system.calls.rmdir(self.root)
            raise

    def _begin_journal(self, job: bytes) -> None:
        durable = self.durability is Durability.FSYNC
        try:
            self._journal = Journal.begin(self._journal_place, job, [], durable=durable)
        except FileExistsError:
            # Of two runs that find the place free, one gets it.
            raise TargetExistsError(printable(self.place), unfinished=True) from None

    def resume(self) -> None:
        """Go on where another run ended.

        Raises
        ------
        StorageError
            If another run is writing it.
        """
        durable = self.durability is Durability.FSYNC
        self._journal = Journal.resume(self._journal_place, durable=durable)

    def finish(self, like: Group, check: Callable[[Path, Group], None]) -> None:
        """Make a group of the arrays that are there, as another one is.

        It counts as complete once `check` has looked at it.
        """
        assert self._journal is not None, "nothing has been created"
        for name in like.files:
            copy_file(like.root / name, self.root / name)
        made = self._documents(like)
        for path in sorted(made, key=lambda path: (-path.count("/") - bool(path), path)):
            folder = self.root / path
            _make_folder(folder)
            # What makes a group of a directory comes last.
            for name in sorted(made[path], key=lambda name: name in {V3, V2_GROUP}):
                write_document(folder / name, made[path][name])
        check(self.root, like)
        with storage_errors(self.root):
            DISK.logs.remove_stale(self._journal_place)
        self._journal.seal()
        self._journal = None

    def _documents(self, like: Group) -> dict[str, dict[str, bytes]]:
        """Return the documents of all groups; those that gather metadata have that of now."""
        made = {path: dict(documents) for path, documents in like.groups.items()}
        content: dict[str, AnyBuffer] = {}
        for path, folder in _arrays_in(self.root):
            for name, text in read_documents(folder).items():
                content[_join(path, name)] = Buffer.from_bytes(text)
        for path, documents in made.items():
            for name, text in documents.items():
                plain = _without_consolidated(text) if name == V3 else text
                content[_join(path, name)] = Buffer.from_bytes(plain)
        # Innermost first: what is gathered is not gathered again by the groups around.
        for path in sorted(like.consolidated, key=lambda path: -path.count("/") - bool(path)):
            store = MemoryStore(dict(content))
            with quiet():
                zarr.consolidate_metadata(store, path=path or None)
            name = V3 if V3 in made[path] else CONSOLIDATED
            made[path][name] = store._store_dict[_join(path, name)].to_bytes()  # noqa: SLF001 - there is no other way to see it at once
        return made

    def abandon(self) -> None:
        """Let another run go on."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def remove(self) -> None:
        """Remove the journal, and the directory if nothing else is in it."""
        if self._journal is not None:
            with suppress(OSError):
                self._journal.remove()
            self.abandon()
        with suppress(OSError):
            system.calls.rmdir(self.root)


def _arrays_in(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the arrays in a directory that is no group yet, with their paths."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != JOURNAL)
        if V2 in names or V3 in names:
            here = root / os.path.relpath(folder, root)
            if not is_group(read_documents(here)):
                folders.clear()
                yield os.path.relpath(folder, root), here


def _without_consolidated(text: bytes) -> bytes:
    return json.dumps({**parse(text), "consolidated_metadata": None}).encode()
