"""The directory of an array: the files in it, the groups around it, and its description."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING

from dask_io.errors import DataError, StorageError, UsageError
from dask_io.formats.zarr.documents import (
    V2,
    V2_ATTRIBUTES,
    V3,
    is_consolidated,
    is_group,
    make_group_documents,
    read_documents,
)
from dask_io.formats.zarr.keys import Keys
from dask_io.formats.zarr.metadata import understand
from dask_io.journal.journal import alone, is_unfinished, refuse_locked
from dask_io.journal.logs import logs_of
from dask_io.storage.files import write_whole
from dask_io.storage.own_names import JOURNAL
from dask_io.stores.chunk_files import ChunkFolder
from dask_io.stores.nested_place import NestedPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dask_io.storage.location import Location

_KEYS = (Keys("c", "/"), Keys("c", "."), Keys("", "/"), Keys("", "."))
# The only chunk of an array without axes in version 3; in version 2 it is `0`.
_WITHOUT_AXES = "c"
# The main documents, which turn a directory into an array, come first.
METADATA = (V3, V2, V2_ATTRIBUTES)


@dataclass(frozen=True)
class Place(NestedPlace):
    """The directory of an array, which may be inside the groups of a container."""

    @property
    def folder(self) -> ChunkFolder:
        """The files of the array."""
        return ChunkFolder(self.root, METADATA, could_be_chunk)

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

    def old_files(self) -> list[Location]:
        """Return the files of an array that may be overwritten, metadata first.

        Raises
        ------
        UsageError
            If the directory contains anything else.
        DataError
            If a run has begun to consume it: data that the run has not read would be lost.
        """
        return replace(self.folder, could_be_chunk=self._find_chunk_names()).old_files()

    def _find_chunk_names(self) -> Callable[[str], bool]:
        """Return a function that tells whether a path is that of a chunk of the existing array."""
        journal = self.root / JOURNAL
        with suppress(ValueError, DataError):
            documents = read_documents(self.root)
            if is_group(documents):
                raise UsageError(f"{self.root} is a group, not an array to overwrite")
            if not documents and not logs_of(journal).exists(journal):
                return lambda _: False
            # An unfinished run may have left chunks of both the old and the new array.
            if documents and not is_unfinished(journal):
                return understand(documents).has_chunk
        return could_be_chunk

    def remove(self, files: list[Location]) -> None:
        """Remove files of the array; first its metadata, also from groups that consolidate it."""
        self.folder.medium.remove(self.root / name for name in METADATA)
        self.update_groups()
        self.folder.medium.remove(files)

    def describe(self, documents: Mapping[str, bytes]) -> None:
        """Turn the directory into an array, with groups around it; write the main document last."""
        self._make_groups(version=3 if V3 in documents else 2)
        for name in sorted(documents, key=METADATA.index, reverse=True):
            write_whole(self.root / name, documents[name])
        self.update_groups()

    def describe_group(self, documents: Mapping[str, bytes]) -> None:
        """Turn the directory into a group; write its documents in the given order."""
        self._make_groups(version=3 if V3 in documents else 2)
        for name, content in documents.items():
            write_whole(self.root / name, content)
        self.update_groups()

    def _make_groups(self, version: int) -> None:
        """Create missing groups around the array."""
        for folder in self.groups:
            if not read_documents(folder):
                with _alone(folder):
                    # Another run may have created it just now.
                    if not read_documents(folder):
                        for name, content in make_group_documents(version).items():
                            write_whole(folder / name, content)

    def update_groups(self) -> None:
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
            f"complete it with dask-io resume {quote(str(folder))}",
        )


def could_be_chunk(name: str) -> bool:
    """Tell whether a path within an array could be that of a chunk."""
    return name == _WITHOUT_AXES or any(keys.parse(name) for keys in _KEYS)
