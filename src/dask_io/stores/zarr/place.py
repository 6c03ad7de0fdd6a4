"""The directory of an array: the files in it, the groups around it, and its description."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.errors import DataError, UsageError
from dask_io.stores import system
from dask_io.stores.files import storage_errors, write_whole
from dask_io.stores.journal import NAME as JOURNAL
from dask_io.stores.journal import remove_folder
from dask_io.stores.journalled import is_journal_in_the_making, remove_empty_folders
from dask_io.stores.naming import printable
from dask_io.stores.zarr.documents import (
    V2,
    V2_ATTRIBUTES,
    V3,
    consolidate,
    is_consolidated,
    is_group,
    leads_into,
    make_group_documents,
    read_documents,
)
from dask_io.stores.zarr.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEYS = (Keys("c", "/"), Keys("c", "."), Keys("", "/"), Keys("", "."))
# What makes an array of chunks comes first.
METADATA = (V3, V2, V2_ATTRIBUTES)
_MOST_NAMED = 20


@dataclass(frozen=True)
class Place:
    """Where an array is: a directory, or one in the groups of a container."""

    path: Path
    inside: str = ""

    @classmethod
    def again(cls, root: Path, inside: str) -> Place:
        """Return the place of an array that was in such groups, if it still is."""
        names = Path(inside).parts
        is_inside = bool(names) and root.parts[-len(names) :] == names
        return cls(root.parents[len(names) - 1], inside) if is_inside else cls(root)

    @property
    def root(self) -> Path:
        """The array's directory."""
        return self.path / self.inside

    @property
    def groups(self) -> list[Path]:
        """The directories of the groups around it, outermost first."""
        names = Path(self.inside).parts
        return [self.path.joinpath(*names[:n]) for n in range(len(names))]

    def refuse_neighbours(self) -> None:
        """Refuse a place in an array, and one that links lead out of the container to.

        Raises
        ------
        UsageError
            If it is one.
        """
        for folder in self.groups:
            if folder.is_dir() and (found := read_documents(folder)) and not is_group(found):
                raise UsageError(f"{printable(str(folder))} is an array, so it can hold no other")
        if not leads_into(self.root, self.path.resolve()):
            raise UsageError(
                f"{printable(str(self.root))} leads out of {printable(str(self.path))}"
            )

    def holds_anything(self) -> bool:
        """Tell whether something is there, be it a file in place of the directory."""
        if not self.root.is_dir():
            return os.path.lexists(self.root)
        with os.scandir(self.root) as entries:
            return not all(map(is_journal_in_the_making, entries))

    def old_files(self) -> list[Path]:
        """Return the files of an array that may be overwritten, metadata first.

        Raises
        ------
        UsageError
            If something else is there.
        """
        shown = printable(str(self.root))
        if not self.root.is_dir():
            raise UsageError(f"{shown} is a file, not an array to overwrite")
        with suppress(ValueError, DataError):
            if is_group(read_documents(self.root)):
                raise UsageError(f"{shown} is a group, not an array to overwrite")
        files = list(_walk(self.root))
        foreign = sorted(name for name in files if not _is_ours(name))
        if foreign:
            listed = ", ".join(map(printable, foreign[:_MOST_NAMED]))
            more = f" and {len(foreign) - _MOST_NAMED} more" if len(foreign) > _MOST_NAMED else ""
            raise UsageError(
                f"{shown} holds what is not part of an array: {listed}{more}; "
                "move it away, or choose another target"
            )
        return [self.root / name for name in sorted(files, key=lambda name: name not in METADATA)]

    def files_left(self) -> list[Path]:
        """Return what can be part of an array, and nothing else that may be there."""
        return [self.root / name for name in _walk(self.root) if _is_ours(name)]

    def files(self) -> Iterator[tuple[str, int]]:
        """Yield path and size of every file of the array; links are not followed."""
        with storage_errors(self.root):
            for name in _walk(self.root):
                yield name, os.lstat(os.path.join(self.root, name)).st_size  # noqa: PTH118 - may be many

    def describe(self, documents: Mapping[str, bytes]) -> None:
        """Make the directory an array, in groups that are some; the main document comes last."""
        version = 3 if V3 in documents else 2
        for folder in self.groups:
            if not read_documents(folder):
                for name, content in make_group_documents(version).items():
                    write_whole(folder / name, content)
        for name in sorted(documents, key=METADATA.index, reverse=True):
            write_whole(self.root / name, documents[name])
        self._tell_groups()

    def clear(self) -> None:
        """Remove what is left of an array without chunks, unless others put something there."""
        with storage_errors(self.root):
            for name in METADATA:
                with suppress(FileNotFoundError):
                    system.calls.unlink(self.root / name)
            remove_folder(self.root / JOURNAL)
            remove_empty_folders(self.root)
            with suppress(FileNotFoundError):
                if not any(self.root.iterdir()):
                    system.calls.rmdir(self.root)
        self._tell_groups()

    def _tell_groups(self) -> None:
        """Have groups that hold the metadata of their members gather it anew."""
        for folder in self.groups:
            if is_consolidated(folder):
                consolidate(folder)


def _walk(root: Path) -> Iterator[str]:
    """Yield the paths within a directory of all that is no directory, the journal left out."""
    for folder, folders, names in os.walk(root, onerror=_raise):
        inside = os.path.relpath(folder, root)
        if inside == ".":
            folders[:] = [name for name in folders if not name.startswith(JOURNAL)]
        # Links are not followed.
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118 - may be many
        for name in (*names, *links):
            yield name if inside == "." else f"{inside}/{name}"


def _raise(error: OSError) -> None:
    raise error


def _is_ours(name: str) -> bool:
    folder, slash, last = name.rpartition("/")
    if last.startswith(".") and last.endswith(".part"):
        name = folder + slash + last[1:].removesuffix(".part")
    return name in METADATA or could_be_chunk(name)


def could_be_chunk(name: str) -> bool:
    """Tell whether a path within an array could be that of a chunk."""
    return any(keys.parse(name) for keys in _KEYS)
