"""The directory of an array: the files in it, the groups around it, and its description."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dask_io.errors import DataError, StorageError, UsageError, list_names
from dask_io.formats.zarr.documents import (
    V2,
    V2_ATTRIBUTES,
    V3,
    is_consolidated,
    is_group,
    leads_into,
    make_group_documents,
    read_documents,
)
from dask_io.formats.zarr.keys import Keys
from dask_io.formats.zarr.metadata import understand
from dask_io.journal.journal import alone, is_unfinished, refuse_locked
from dask_io.journal.logs import logs_of
from dask_io.storage.files import medium_of, write_whole
from dask_io.storage.location import is_taken
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import JOURNAL, whole_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dask_io.storage.location import Location
    from dask_io.storage.medium import Medium

_KEYS = (Keys("c", "/"), Keys("c", "."), Keys("", "/"), Keys("", "."))
# The only chunk of an array without axes in version 3; in version 2 it is `0`.
_WITHOUT_AXES = "c"
# The main documents, which turn a directory into an array, come first.
METADATA = (V3, V2, V2_ATTRIBUTES)
# Marks an array from which a run has begun to remove chunks. Readers would see the fill value.
_CONSUMED = ".dask-io-consumed"


@dataclass(frozen=True)
class Place:
    """The directory of an array, which may be inside the groups of a container."""

    path: Location
    inside: str = ""

    @classmethod
    def again(cls, root: Location, inside: str) -> Place:
        """Return the place of an array that was in these groups, if its path still ends so."""
        names = PurePosixPath(inside).parts
        is_inside = bool(names) and root.parts[-len(names) :] == names
        return cls(root.parents[len(names) - 1], inside) if is_inside else cls(root)

    @property
    def root(self) -> Location:
        """The array's directory."""
        return self.path / self.inside

    @property
    def groups(self) -> list[Location]:
        """Directories of the groups around the array, outermost first."""
        names = PurePosixPath(self.inside).parts
        return [self.path.joinpath(*names[:n]) for n in range(len(names))]

    @property
    def medium(self) -> Medium:
        """The storage of the array: local disk or an object store."""
        return medium_of(self.path)

    def version_around(self) -> int | None:
        """Return the Zarr version of the innermost existing group, None if there is none."""
        for folder in reversed(self.groups):
            if found := read_documents(folder):
                return 3 if V3 in found else 2
        return None

    def refuse_neighbours(self) -> None:
        """Refuse a place inside an array, in an unfinished group, or outside the container.

        Raises
        ------
        UsageError
            If it is inside another array, or links lead out of the container.
        StorageError
            If it is in a group that another run writes, or did not finish.
        """
        for folder in self.groups:
            if folder.is_dir() and (found := read_documents(folder)) and not is_group(found):
                raise UsageError(f"{folder} is an array, so it cannot contain another one")
            if is_unfinished(folder / JOURNAL):
                refuse_locked(folder / JOURNAL)
                _refuse_unfinished(folder)
        self.refuse_way_out()

    def refuse_way_out(self) -> None:
        """Refuse a place outside the container that is reached through links.

        Raises
        ------
        UsageError
            If links lead out of the container.
        """
        if not leads_into(self.root, self.path.resolve()):
            raise UsageError(f"{self.root} leads out of {self.path}")

    def holds_anything(self) -> bool:
        """Tell whether the directory has content, or a file has its name."""
        if not self.root.is_dir():
            return is_taken(self.root)
        return bool(self.medium.names(self.root))

    def old_files(self) -> list[Location]:
        """Return the files of an array that may be overwritten, metadata first.

        Raises
        ------
        UsageError
            If the directory contains anything else.
        DataError
            If a run has begun to consume it: data that the run has not read would be lost.
        """
        self.refuse_consumed()
        shown = str(self.root)
        if not self.root.is_dir():
            raise UsageError(f"{shown} is a file, not an array to overwrite")
        is_chunk = self._find_chunk_names(shown)
        files = [name for name, _ in self.medium.files(self.root)]
        foreign = (name for name in files if not is_part_of_array(name, is_chunk))
        refuse_foreign(self.root, "an array", foreign)
        return [self.root / name for name in sorted(files, key=lambda name: name not in METADATA)]

    def _find_chunk_names(self, shown: str) -> Callable[[str], bool]:
        """Return a function that tells whether a path is that of a chunk of the existing array."""
        journal = self.root / JOURNAL
        with suppress(ValueError, DataError):
            documents = read_documents(self.root)
            if is_group(documents):
                raise UsageError(f"{shown} is a group, not an array to overwrite")
            if not documents and not logs_of(journal).exists(journal):
                return lambda _: False
            # An unfinished run may have left chunks of both the old and the new array.
            if documents and not is_unfinished(journal):
                return understand(documents).has_chunk
        return could_be_chunk

    def remove(self, files: list[Location]) -> None:
        """Remove files of the array; first its metadata, also from groups that consolidate it."""
        self.medium.remove(self.root / name for name in METADATA)
        self._update_groups()
        self.medium.remove(files)

    def files_left(self) -> list[Location]:
        """Return the files that can be part of an array, and no others."""
        return [
            self.root / name
            for name, _ in self.medium.files(self.root)
            if is_part_of_array(name, could_be_chunk)
        ]

    def files(self) -> Iterator[tuple[str, int]]:
        """Yield path and size of every file of the array; links are not followed."""
        for name, found in self.medium.files(self.root):
            yield name, found.size

    def describe(self, documents: Mapping[str, bytes]) -> None:
        """Turn the directory into an array, with groups around it; write the main document last."""
        self._make_groups(version=3 if V3 in documents else 2)
        for name in sorted(documents, key=METADATA.index, reverse=True):
            write_whole(self.root / name, documents[name])
        self._update_groups()

    def describe_group(self, documents: Mapping[str, bytes]) -> None:
        """Turn the directory into a group; write its documents in the given order."""
        self._make_groups(version=3 if V3 in documents else 2)
        for name, content in documents.items():
            write_whole(self.root / name, content)
        self._update_groups()

    def _make_groups(self, version: int) -> None:
        """Create missing groups around the array."""
        for folder in self.groups:
            if not read_documents(folder):
                with _alone(folder):
                    # Another run may have created it just now.
                    if not read_documents(folder):
                        for name, content in make_group_documents(version).items():
                            write_whole(folder / name, content)

    def mark_consumed(self) -> None:
        """Mark the array as incomplete, if it still exists."""
        if any((self.root / name).is_file() for name in METADATA):
            write_whole(self.root / _CONSUMED, b"")

    def refuse_consumed(self) -> None:
        """Refuse an array that has lost chunks.

        Raises
        ------
        DataError
            If a run has begun to remove chunks.
        """
        if (self.root / _CONSUMED).is_file():
            problem = "some of its chunks have been removed by a run with --consume"
            advice = (
                "complete that run with dask-io resume and its target; if the target is complete, "
                "use it, and remove the rest of this array yourself"
            )
            raise DataError(str(self.root), [problem], advice)

    def clear(self, chunks: Iterable[Location]) -> None:
        """Remove the remaining files of an array whose chunks have been removed, and no others."""
        with storage_errors(self.root):
            self.medium.remove(self.root / name for name in (*METADATA, _CONSUMED))
            logs_of(self.root).remove(self.root / JOURNAL)
            # Also the array's own directory, if it is empty now.
            self.medium.tidy(self.root.parent, [*chunks, self.root / JOURNAL])
        self._update_groups()

    def _update_groups(self) -> None:
        """Update the consolidated metadata of the groups around the array."""
        for folder in self.groups:
            if is_consolidated(folder):
                from dask_io.formats.zarr.consolidation import consolidate  # noqa: PLC0415 - zarr

                with _alone(folder):
                    consolidate(folder)


@contextmanager
def _alone(folder: Location) -> Iterator[None]:
    """Lock the metadata of a group, so that runs change it one after another."""
    with alone(folder / JOURNAL):
        _refuse_unfinished(folder)
        yield


def _refuse_unfinished(folder: Location) -> None:
    """Refuse a directory that an unfinished run will turn into a group."""
    if is_unfinished(folder / JOURNAL):
        raise StorageError(
            str(folder),
            "it is unfinished: the run that writes the whole group did not complete",
            f"complete it with dask-io resume {folder}",
        )


def refuse_foreign(root: Location, what: str, foreign: Iterable[str]) -> None:
    """Refuse to overwrite a directory that contains other files.

    Raises
    ------
    UsageError
        If there are other files.
    """
    names = sorted(foreign)
    if names:
        raise UsageError(
            f"{root} contains files that are not part of {what}: {list_names(names)}; "
            "move them away, or choose another target"
        )


def is_part_of_array(name: str, is_chunk: Callable[[str], bool]) -> bool:
    """Tell whether a path within an array is its metadata or a chunk, finished or not."""
    folder, slash, last = name.rpartition("/")
    name = folder + slash + whole_name(last)
    return name in METADATA or is_chunk(name)


def could_be_chunk(name: str) -> bool:
    """Tell whether a path within an array could be that of a chunk."""
    return name == _WITHOUT_AXES or any(keys.parse(name) for keys in _KEYS)
