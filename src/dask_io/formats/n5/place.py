"""The directory of a dataset, and the container and the groups around it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dask_io.errors import MOST_NAMES, UsageError, list_names
from dask_io.formats.n5.dataset import (
    DOCUMENT,
    VERSION,
    VERSION_KEY,
    could_be_block,
    is_dataset,
)
from dask_io.journal.journal import alone
from dask_io.storage.files import medium_of, write_whole
from dask_io.storage.own_names import JOURNAL
from dask_io.stores.chunk_files import ChunkFolder, refuse_unfinished
from dask_io.stores.json_documents import read_json
from dask_io.stores.nested_place import NestedPlace

if TYPE_CHECKING:
    from dask_io.storage.location import Location

# How deep datasets are looked for, and how many directories are listed.
_MOST_LEVELS, _MOST_LISTED = 8, 256


@dataclass(frozen=True)
class N5Place(NestedPlace):
    """The directory of a dataset, which may be inside the groups of a container."""

    @property
    def folder(self) -> ChunkFolder:
        """The files of the dataset."""
        return ChunkFolder(self.root, (DOCUMENT,), could_be_block)

    def refuse_neighbours(self) -> None:
        """Refuse a place inside a dataset, in an unfinished one, or outside the container.

        Raises
        ------
        UsageError
            If it is inside another dataset, or links lead out of the container.
        StorageError
            If it is in a dataset that another run writes, or did not finish.
        """
        for group in self.groups:
            if group.is_dir():
                if is_dataset(read_json(group, DOCUMENT)):
                    raise UsageError(f"{group} is a dataset, so it cannot contain another one")
                refuse_unfinished(group)
        self.refuse_way_out()

    def refuse_group(self) -> None:
        """Refuse to overwrite a group.

        Raises
        ------
        UsageError
            If the directory is a group.
        """
        found = read_json(self.root, DOCUMENT)
        if found is not None and not is_dataset(found):
            raise UsageError(f"{self.root} is a group, not a dataset to overwrite")

    def describe(self, document: bytes) -> None:
        """Turn the directory into a dataset; mark the root of the container first."""
        if self.inside and read_json(self.path, DOCUMENT) is None:
            with alone(self.path / JOURNAL):
                # Another run may have created it just now.
                if read_json(self.path, DOCUMENT) is None:
                    version = json.dumps({VERSION_KEY: VERSION}).encode()
                    write_whole(self.path / DOCUMENT, version)
        write_whole(self.root / DOCUMENT, document)


def list_datasets(root: Location) -> list[str]:
    """Return the paths of datasets below a directory, a few of them if there are many."""
    found, waiting, n_listed = list[str](), [""], 0
    while waiting and len(found) <= MOST_NAMES and n_listed < _MOST_LISTED:
        group = waiting.pop(0)
        names = medium_of(root).names(root / group if group else root)
        n_listed += 1
        for name in sorted(each for each, is_folder in names.items() if is_folder):
            path = f"{group}/{name}".strip("/")
            # Symbolic links are not followed.
            if name.startswith("."):
                continue
            if is_dataset(read_json(root / path, DOCUMENT)):
                found.append(path)
            elif path.count("/") < _MOST_LEVELS and len(waiting) < _MOST_LISTED:
                waiting.append(path)
    return found


def which_dataset(place: N5Place) -> str:
    """Return a message about a path that is a group."""
    group = f"{place.root} is a group of N5"
    names = list_datasets(place.root)
    if not names:
        return f"{group} without datasets"
    above = f"{place.path}::/{place.inside}".rstrip("/")
    return f"{group}; give a dataset in it, such as {list_names(f'{above}/{n}' for n in names)}"
