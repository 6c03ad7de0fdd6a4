"""The directory of a dataset, and the container and the groups around it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath
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
from dask_io.stores.chunk_files import ChunkFolder, leads_into, read_json, refuse_unfinished

if TYPE_CHECKING:
    from dask_io.storage.location import Location

# How deep datasets are looked for, and how many directories are listed.
_MOST_LEVELS, _MOST_LISTED = 8, 256


@dataclass(frozen=True)
class N5Place:
    """The directory of a dataset, which may be inside the groups of a container."""

    path: Location
    inside: str = ""

    @classmethod
    def again(cls, root: Location, inside: str) -> N5Place:
        """Return the place of a dataset that was in these groups, if its path still ends so."""
        names = PurePosixPath(inside).parts
        is_inside = bool(names) and root.parts[-len(names) :] == names
        return cls(root.parents[len(names) - 1], inside) if is_inside else cls(root)

    @property
    def root(self) -> Location:
        """The dataset's directory."""
        return self.path / self.inside

    @property
    def folder(self) -> ChunkFolder:
        """The files of the dataset."""
        return ChunkFolder(self.root, DOCUMENT, could_be_block)

    @property
    def groups(self) -> list[Location]:
        """Directories of the groups around the dataset, outermost first."""
        names = PurePosixPath(self.inside).parts
        return [self.path.joinpath(*names[:n]) for n in range(len(names))]

    def leads_out(self) -> bool:
        """Tell whether links lead out of the container."""
        return not leads_into(self.root, self.path.resolve())

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
        if self.leads_out():
            raise UsageError(f"{self.root} leads out of {self.path}")

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
