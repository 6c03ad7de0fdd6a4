"""Which files belong to an existing group, to replace the group without losing others."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from dask_io.errors import DataError, TargetExistsError, UsageError
from dask_io.formats.zarr.documents import V2, V2_GROUP, V3, read_documents
from dask_io.formats.zarr.group import DOCUMENTS, is_group_at, join
from dask_io.formats.zarr.metadata import understand
from dask_io.formats.zarr.place import METADATA, could_be_chunk
from dask_io.hierarchy.tree import ROOT, checked_path
from dask_io.journal.journal import is_unfinished, refuse_locked
from dask_io.storage.files import medium_of
from dask_io.storage.own_names import JOURNAL, whole_name
from dask_io.stores.chunk_files import is_part_of_array, refuse_foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dask_io.storage.location import Location

_MARKS = frozenset({V3, V2, V2_GROUP})
# A journal, or the beginning of one that a killed run left.
_OF_JOURNAL = re.compile(r"\.dask-io(?:\.[0-9a-f]{8}\.part)?/")
# Leftovers of killed runs next to an array: the beginning of a journal, or scratch blocks.
_LEFTOVER = re.compile(r"\.(.+)\.(?:dask-io\.[0-9a-f]{8}\.part|[a-z0-9_]{8}\.scratch)")


@dataclass(frozen=True)
class Hierarchy:
    """Paths of everything in a group: groups, including the group itself, arrays, and files."""

    groups: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    def __or__(self, other: Hierarchy) -> Hierarchy:
        """Return everything that is in either hierarchy."""
        return Hierarchy(
            self.groups | other.groups, self.arrays | other.arrays, self.files | other.files
        )

    def to_word(self) -> str:
        """Return the hierarchy as a word without spaces, for a line of a journal."""
        named = {field.name: sorted(getattr(self, field.name)) for field in fields(self)}
        return json.dumps(named, separators=(",", ":")).replace(" ", "\\u0020")

    @classmethod
    def from_word(cls, word: str) -> Hierarchy:
        """Read what `to_word` returned.

        Raises
        ------
        ValueError
            If the word is not a hierarchy.
        """
        try:
            named = json.loads(word)
            return cls(*(frozenset(map(checked_path, named[field.name])) for field in fields(cls)))
        except (AttributeError, KeyError, RecursionError, TypeError) as error:
            raise ValueError(f"does not list the contents of a group: {error}") from error

    def has(self, file: str, chunks: Mapping[str, Callable[[str], bool]]) -> bool:
        """Tell whether a file belongs to the hierarchy.

        `chunks` has a function for each array that recognises the paths of its chunks.
        """
        if _whole_path(file) in self.files:
            return True
        for folder, inside in _ways_to(file):
            if folder in self.arrays:
                is_chunk = chunks.get(folder, could_be_chunk)
                is_part = is_part_of_array(inside, METADATA, is_chunk)
                return is_part or _is_of_journal(inside)
            if folder in self.groups:
                is_document = whole_name(inside) in DOCUMENTS
                return is_document or _is_of_journal(inside) or self._is_leftover(folder, inside)
        return False

    def _is_leftover(self, folder: str, inside: str) -> bool:
        left = _LEFTOVER.fullmatch(inside.partition("/")[0])
        return left is not None and join(folder, left[1].replace(":", "/")) in self.arrays

    def describes(self, file: str) -> bool:
        """Tell whether a file is a metadata document of a group or an array."""
        folder, _, name = file.rpartition("/")
        return name in DOCUMENTS and (folder in self.groups or folder in self.arrays)


def _ways_to(file: str) -> Iterator[tuple[str, str]]:
    """Yield the directories that contain a file, innermost first, and its path in each."""
    parts = file.split("/")
    for n in range(len(parts) - 1, -1, -1):
        yield "/".join(parts[:n]), "/".join(parts[n:])


def _whole_path(file: str) -> str:
    folder, _, name = file.rpartition("/")
    return join(folder, whole_name(name))


def _is_of_journal(inside: str) -> bool:
    return _OF_JOURNAL.match(inside) is not None


class Parts(NamedTuple):
    """The files of an existing group, in the order of their removal.

    `own` are documents of the group itself, `inner` those of its members, groups before arrays. The
    main document of a group or array is removed before its attributes, so that readers never see
    one without the other.
    """

    names: Hierarchy
    own: Sequence[str]
    inner: Sequence[str]
    others: Sequence[str]

    @property
    def journals(self) -> set[str]:
        """Journals of arrays and groups within the group."""
        inside = f"/{JOURNAL}/"
        return {join(file.partition(inside)[0], JOURNAL) for file in self.others if inside in file}


def find_parts(root: Location, recorded: Hierarchy, *, unfinished: bool) -> Parts:
    """Return the files of a group that may be removed, if the directory contains no others.

    Parameters
    ----------
    root
        The directory.
    recorded
        Contents that the group's journal lists, in addition to those with metadata documents.
    unfinished
        Whether a run may have left chunks of more than one array in the same place.

    Raises
    ------
    UsageError
        If the directory contains anything else, or an array that another run is writing.
    """
    files = [name for name, _ in medium_of(root).files(root)]
    found = _documented(root, files)
    shown = str(root)
    if ROOT in found.arrays:
        raise UsageError(
            f"{shown} has damaged metadata, so it is not known to be a group to overwrite; remove "
            "it, or choose another target"
        )
    names = recorded | found
    chunks = {} if unfinished else {name: _chunk_names(root / name) for name in found.arrays}
    foreign = [file for file in files if not names.has(file, chunks)]
    _refuse_begun(root, foreign)
    refuse_foreign(root, "a group", foreign)
    return _in_order(names, files)


def _refuse_begun(root: Location, foreign: Iterable[str]) -> None:
    """Refuse a group in which another run has an unfinished array."""
    for file in foreign:
        folder, is_journal, _ = file.partition(f"/{JOURNAL}/")
        if is_journal and is_unfinished(root / folder / JOURNAL):
            refuse_locked(root / folder / JOURNAL)
            raise TargetExistsError(str(root / folder), unfinished=True)


def find_left(root: Location, names: Hierarchy) -> Parts:
    """Return the remaining files of a partly removed group, and no others."""
    files = (name for name, _ in medium_of(root).files(root))
    return _in_order(names, [file for file in files if names.has(file, {})])


def _in_order(names: Hierarchy, files: Iterable[str]) -> Parts:
    """Return files in the order of their removal."""

    def rank(file: str) -> tuple[bool, int, bool]:
        folder, _, name = file.rpartition("/")
        return folder not in names.groups, folder.count("/"), name not in _MARKS

    own: list[str] = []
    inner: list[str] = []
    others: list[str] = []
    for file in sorted(files):
        kind = own if file in DOCUMENTS else inner if names.describes(file) else others
        kind.append(file)
    return Parts(names, sorted(own, key=rank), sorted(inner, key=rank), others)


def _documented(root: Location, files: Iterable[str]) -> Hierarchy:
    """Return the groups and arrays with metadata documents, each inside such a group."""
    groups: set[str] = set()
    arrays: set[str] = set()
    marked = {folder for folder, _, name in (f.rpartition("/") for f in files) if name in _MARKS}
    for folder in sorted(marked):
        around = folder.rpartition("/")[0]
        if folder == ROOT or around in groups:
            (groups if is_group_at(root / folder) else arrays).add(folder)
    return Hierarchy(frozenset(groups), frozenset(arrays))


def _chunk_names(array: Location) -> Callable[[str], bool]:
    """Return a function that tells whether a path in an array is that of a chunk."""
    with suppress(ValueError, DataError):
        return understand(read_documents(array)).has_chunk
    return could_be_chunk
