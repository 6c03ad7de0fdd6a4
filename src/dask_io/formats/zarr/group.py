"""Reading the contents of a Zarr group.

The arrays of a group are sources and targets of their own. `tree_target` writes groups.
"""

from __future__ import annotations

import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.errors import DataError
from dask_io.formats.zarr.documents import (
    CONSOLIDATED,
    V2,
    V2_ATTRIBUTES,
    V2_GROUP,
    V3,
    attributes_of,
    is_consolidated,
    is_group,
    read_documents,
)
from dask_io.hierarchy.tree import ROOT, checked_path
from dask_io.journal.journal import read_field
from dask_io.storage.files import medium_of
from dask_io.storage.os_errors import SPECIAL
from dask_io.storage.own_names import JOURNAL
from dask_io.stores.json_documents import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from dask_io.storage.location import Location

# More than any reasonable group has. The limit stops a walk through unrelated directories.
_MOST_ARRAYS = 100_000
DEEPEST = 100
DOCUMENTS = frozenset({V3, V2, V2_ATTRIBUTES, V2_GROUP, CONSOLIDATED})


@dataclass(frozen=True)
class Group:
    """The contents of a group by path within it; the group itself has the path ``""``.

    `consolidated` are the groups with consolidated metadata. `files` are files next to the metadata
    of groups, such as descriptions from other tools.
    """

    root: Location
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
        return 3 if V3 in self.groups[ROOT] else 2

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the group itself."""
        return attributes_of(self.groups[ROOT])

    def only(self, groups: Collection[str]) -> Group:
        """Return the same with only some of its groups, and without other files."""
        return replace(
            self,
            groups={path: each for path, each in self.groups.items() if path in groups},
            consolidated=tuple(path for path in self.consolidated if path in groups),
            files=(),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values from which an equal group can be created."""
        return {
            "groups": {
                path: {name: text.decode() for name, text in documents.items()}
                for path, documents in self.groups.items()
            },
            "consolidated": list(self.consolidated),
            "files": list(self.files),
        }

    @classmethod
    def from_json(cls, root: Location, described: Mapping[str, Any]) -> Group:
        """Read what `to_json` returned; the group may have moved to another `root`."""
        groups = {
            checked_path(path): {_document(name): text.encode() for name, text in documents.items()}
            for path, documents in described["groups"].items()
        }
        if ROOT not in groups or not all(map(is_group, groups.values())):
            raise ValueError("not every group is described")
        consolidated, files = (
            tuple(map(checked_path, read_field(described, key, list)))
            for key in ("consolidated", "files")
        )
        if not groups.keys() >= set(consolidated):
            raise ValueError("consolidated lists something that is not a group")
        return cls(root, groups, {}, consolidated, files)


def _document(name: str) -> str:
    if name not in {V3, V2_GROUP, V2_ATTRIBUTES}:
        raise ValueError(f"{name} is not metadata of a group")
    return name


def is_group_at(root: Location) -> bool:
    """Tell whether a directory is a group with valid metadata."""
    with suppress(ValueError, DataError):
        return is_group(read_documents(root))
    return False


def is_array_at(root: Location) -> bool:
    """Tell whether a directory has the metadata of an array."""
    with suppress(ValueError, DataError):
        documents = read_documents(root)
        if V3 in documents:
            return parse_json(documents[V3]).get("node_type") == "array"
        return V2 in documents
    return False


def is_described(root: Location, like: Mapping[str, bytes]) -> bool:
    """Tell whether a directory has all documents of a group, and they are valid."""
    with suppress(ValueError, DataError):
        found = read_documents(root)
        return found.keys() >= like.keys() and is_group(found) and attributes_of(found) is not None
    return False


class _Node(NamedTuple):
    """A group or an array in a directory: its path, its documents, and other entries."""

    path: str
    documents: dict[str, bytes]
    others: dict[str, bool]
    """Whether each entry is a directory, by name."""


def nodes(root: Location, path: str = ROOT) -> Iterator[_Node]:
    """Yield the groups and arrays in a directory, members before their group."""
    folder = root / path
    if path.count("/") >= DEEPEST:
        deep = f"has groups nested more than {DEEPEST} deep"
        raise DataError(str(root), [deep])
    documents = read_documents(folder)
    if not documents:
        return
    others = {}
    if _holds_others(documents):
        for name, is_folder in sorted(medium_of(folder).names(folder).items()):
            refuse_special(folder / name)
            if name == JOURNAL or name in DOCUMENTS:
                continue
            inner = list(nodes(root, join(path, name))) if is_folder else []
            yield from inner
            if not inner:
                others[name] = is_folder
    yield _Node(path, documents, others)


def _holds_others(documents: Mapping[str, bytes]) -> bool:
    """Tell whether documents are those of a group; errors in them are reported elsewhere."""
    with suppress(ValueError):
        return is_group(documents)
    return False


def read_group(root: Location) -> Group:
    """Read the metadata of a group and of everything in it; links are not followed.

    Raises
    ------
    DataError
        If some metadata is invalid, or there are too many arrays.
    """
    groups: dict[str, dict[str, bytes]] = {}
    arrays: dict[str, dict[str, bytes]] = {}
    consolidated, files = [], []
    for path, documents, others in nodes(root):
        folder = root / path
        try:
            if not is_group(documents):
                arrays[path] = documents
            else:
                groups[path] = documents
                consolidated += [path] if is_consolidated(folder, documents) else []
                attributes_of(documents)
        except ValueError as error:
            raise DataError(str(folder), [str(error)]) from error
        files += [join(path, name) for name in _files_in(folder, others)]
        if len(arrays) + len(groups) > _MOST_ARRAYS:
            raise DataError(str(root), [f"holds more than {_MOST_ARRAYS} arrays"])
    # Outer groups first.
    groups, arrays = dict(sorted(groups.items())), dict(sorted(arrays.items()))
    return Group(root, groups, arrays, tuple(consolidated), tuple(files))


def _files_in(folder: Location, others: Mapping[str, bool]) -> Iterator[str]:
    """Yield the files among the other entries of a group, and those in its other directories."""
    for name, is_folder in others.items():
        if not is_folder:
            yield name
            continue
        for file, _ in medium_of(folder).files(folder / name):
            refuse_special(folder / name / file)
            yield join(name, file)


def refuse_special(path: Location) -> None:
    """Refuse links, which may lead out of the group; leaving them out silently would lose data.

    Also refuse pipes, sockets and devices, which have no content to copy.
    """
    if not isinstance(path, Path):
        return
    shown = str(path)
    # A temporary file of another run may be gone by now.
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise DataError(
                shown, ["is a link, which is not followed"], "replace it with the file it points to"
            )
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise DataError(shown, [f"is {SPECIAL}, not a file"], "remove it")


def join(path: str, name: str) -> str:
    """Return the path of a member of a group."""
    return f"{path}/{name}" if path else name
