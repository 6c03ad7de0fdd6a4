"""What is part of a group that is there, and what is not: for those who replace it."""

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
from dask_io.formats.zarr.place import could_be_chunk, is_part_of_array, refuse_foreign, whole_name
from dask_io.hierarchy.tree import ROOT, checked_path
from dask_io.journal.journal import is_unfinished, refuse_locked
from dask_io.storage.files import medium_of
from dask_io.storage.own_names import JOURNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dask_io.storage.location import Location

_MARKS = frozenset({V3, V2, V2_GROUP})
# A journal, or one that a killed run was making.
_OF_JOURNAL = re.compile(r"\.dask-io(?:\.[0-9a-f]{8}\.part)?/")
# What killed runs leave beside an array: a journal that they were making, or scratch blocks.
_LEFT_BESIDE = re.compile(r"\.(.+)\.(?:dask-io\.[0-9a-f]{8}\.part|[a-z0-9_]{8}\.scratch)")


@dataclass(frozen=True)
class Hierarchy:
    """What belongs to a group, by path within it: groups, itself among them, arrays, and files."""

    groups: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    def __or__(self, other: Hierarchy) -> Hierarchy:
        """Return what belongs to either."""
        return Hierarchy(
            self.groups | other.groups, self.arrays | other.arrays, self.files | other.files
        )

    def to_word(self) -> str:
        """Return it as a word of a journal, which has no spaces."""
        named = {field.name: sorted(getattr(self, field.name)) for field in fields(self)}
        return json.dumps(named, separators=(",", ":")).replace(" ", "\\u0020")

    @classmethod
    def from_word(cls, word: str) -> Hierarchy:
        """Read back what `to_word` returned.

        Raises
        ------
        ValueError
            If that is something else.
        """
        try:
            named = json.loads(word)
            return cls(*(frozenset(map(checked_path, named[field.name])) for field in fields(cls)))
        except (AttributeError, KeyError, RecursionError, TypeError) as error:
            raise ValueError(f"does not say what belongs to it: {error}") from error

    def has(self, file: str, chunks: Mapping[str, Callable[[str], bool]]) -> bool:
        """Tell whether a file is part of it; of arrays, `chunks` tell which are theirs."""
        if _whole_path(file) in self.files:
            return True
        for folder, inside in _ways_to(file):
            if folder in self.arrays:
                is_chunk = chunks.get(folder, could_be_chunk)
                return _is_of_journal(inside) or is_part_of_array(inside, is_chunk)
            if folder in self.groups:
                is_document = whole_name(inside) in DOCUMENTS
                return is_document or _is_of_journal(inside) or self._is_beside(folder, inside)
        return False

    def _is_beside(self, folder: str, inside: str) -> bool:
        left = _LEFT_BESIDE.fullmatch(inside.partition("/")[0])
        return left is not None and join(folder, left[1].replace(":", "/")) in self.arrays

    def describes(self, file: str) -> bool:
        """Tell whether a file is one that makes a group or an array of a directory."""
        folder, _, name = file.rpartition("/")
        return name in DOCUMENTS and (folder in self.groups or folder in self.arrays)


def _ways_to(file: str) -> Iterator[tuple[str, str]]:
    """Yield the directories that a file lies in, innermost first, and its path in each."""
    parts = file.split("/")
    for n in range(len(parts) - 1, -1, -1):
        yield "/".join(parts[:n]), "/".join(parts[n:])


def _whole_path(file: str) -> str:
    folder, _, name = file.rpartition("/")
    return join(folder, whole_name(name))


def _is_of_journal(inside: str) -> bool:
    return _OF_JOURNAL.match(inside) is not None


class Parts(NamedTuple):
    """The files of a group that is there, in the order in which they are to be removed.

    `own` describe the group itself, `inner` all that is in it, groups before arrays. What makes a
    group or an array of a directory goes before its attributes, so that none is seen without them.
    """

    names: Hierarchy
    own: Sequence[str]
    inner: Sequence[str]
    others: Sequence[str]

    @property
    def journals(self) -> set[str]:
        """The journals of arrays and groups in it."""
        inside = f"/{JOURNAL}/"
        return {join(file.partition(inside)[0], JOURNAL) for file in self.others if inside in file}


def find_parts(root: Location, told: Hierarchy, *, unfinished: bool) -> Parts:
    """Return what may be removed of a directory, if nothing else is there.

    Parameters
    ----------
    root
        The directory.
    told
        What its journal says to belong to the group, besides what describes itself.
    unfinished
        Whether a run may have left chunks of more than one array in the same place.

    Raises
    ------
    UsageError
        If something is there that is no part of a group, or is not yet.
    """
    files = [name for name, _ in medium_of(root).files(root)]
    found = _documented(root, files)
    shown = str(root)
    if ROOT in found.arrays:
        raise UsageError(f"{shown} is an array, or broken, and no group to overwrite")
    names = told | found
    chunks = {} if unfinished else {name: _chunk_names(root / name) for name in found.arrays}
    foreign = [file for file in files if not names.has(file, chunks)]
    _refuse_begun(root, foreign)
    refuse_foreign(root, "a group", foreign)
    return _in_order(names, files)


def _refuse_begun(root: Location, foreign: Iterable[str]) -> None:
    """Refuse a group in which another run has begun an array that is none yet."""
    for file in foreign:
        folder, is_journal, _ = file.partition(f"/{JOURNAL}/")
        if is_journal and is_unfinished(root / folder / JOURNAL):
            refuse_locked(root / folder / JOURNAL)
            raise TargetExistsError(str(root / folder), unfinished=True)


def find_left(root: Location, names: Hierarchy) -> Parts:
    """Return what is left of a group that was to be removed, and nothing else that is there."""
    files = (name for name, _ in medium_of(root).files(root))
    return _in_order(names, [file for file in files if names.has(file, {})])


def _in_order(names: Hierarchy, files: Iterable[str]) -> Parts:
    """Return files as they are to be removed."""

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
    """Return the groups and arrays that describe themselves, each in a group that does."""
    groups: set[str] = set()
    arrays: set[str] = set()
    marked = {folder for folder, _, name in (f.rpartition("/") for f in files) if name in _MARKS}
    for folder in sorted(marked):
        around = folder.rpartition("/")[0]
        if folder == ROOT or around in groups:
            (groups if is_group_at(root / folder) else arrays).add(folder)
    return Hierarchy(frozenset(groups), frozenset(arrays))


def _chunk_names(array: Location) -> Callable[[str], bool]:
    """Return what tells whether a path in an array is that of a chunk."""
    with suppress(ValueError, DataError):
        return understand(read_documents(array)).has_chunk
    return could_be_chunk
