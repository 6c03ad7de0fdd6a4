"""The directory of an array that is written: claimed, cleared, described and given up."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.errors import DataError, TargetExistsError, UsageError
from dask_io.stores.files import Publisher, storage_errors, sync, write_whole
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
_METADATA = (V3, V2, V2_ATTRIBUTES)
_MOST_NAMED = 20


class Place:
    """Where an array goes: a directory, or one in the groups of a container.

    The array's main document gets its name last; until then it is hidden, and marks the
    directory as unfinished.
    """

    def __init__(self, path: Path, inside: str, documents: Mapping[str, bytes]) -> None:
        self.root = path / inside
        self._path = path
        parts = inside.split("/")[:-1] if inside else []
        self._groups = [path.joinpath(*parts[:n]) for n in range(len(parts) + 1)] if inside else []
        self._documents = documents
        self._main = V3 if V3 in documents else V2
        self._made: list[Path] = []

    @property
    def _mark(self) -> Path:
        return Publisher(self.root).partial(self._main)

    def claim(self, *, overwrite: bool) -> None:
        """Make the directory, with its parents; what exists is refused or, if asked, replaced.

        Raises
        ------
        TargetExistsError
            If there is something and it is not to be overwritten.
        UsageError
            If it is to be, but holds what is not part of an array, or lies in an array.
        """
        try:
            with storage_errors(self.root):
                self._claim(overwrite=overwrite)
        except BaseException:
            self._remove_made()
            raise

    def _claim(self, *, overwrite: bool) -> None:
        self._refuse_neighbours()
        old = self._old_files(overwrite=overwrite) if os.path.lexists(self.root) else []
        missing = [p for p in (self.root, *self.root.parents) if not p.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            self._made.append(folder)
        self._mark_unfinished(overwrite=overwrite)
        # What is left of the old array, if this run is killed, must not look complete.
        for path in old:
            if path != self._mark:
                path.unlink()
        remove_empty_folders(self.root)

    def _mark_unfinished(self, *, overwrite: bool) -> None:
        content, is_new = self._documents[self._main], True
        try:
            # Of two runs that find the place free, one gets it.
            self._mark.touch(exist_ok=False)
        except FileExistsError:
            if not overwrite:
                raise TargetExistsError(printable(str(self.root))) from None
            is_new = False
        try:
            Publisher(self.root).begin(self._main, content, len(content))
        except BaseException:
            if is_new:
                self._mark.unlink(missing_ok=True)
            raise

    def _refuse_neighbours(self) -> None:
        """Refuse a place in an array, and one that links lead out of the container to."""
        for folder in self._groups:
            if folder.is_dir() and (found := read_documents(folder)) and not is_group(found):
                raise UsageError(f"{printable(str(folder))} is an array, so it can hold no other")
        if not leads_into(self.root, self._path.resolve()):
            raise UsageError(
                f"{printable(str(self.root))} leads out of {printable(str(self._path))}"
            )

    def _old_files(self, *, overwrite: bool) -> list[Path]:
        """Return what an earlier run left, if that is all there is: metadata first."""
        shown = printable(str(self.root))
        if not self.root.is_dir():
            if not overwrite:
                raise TargetExistsError(shown)
            raise UsageError(f"{shown} is a file, not an array to overwrite")
        if not overwrite:
            if any(self.root.iterdir()):
                raise TargetExistsError(shown)
            return []
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
        return [self.root / name for name in sorted(files, key=lambda name: name not in _METADATA)]

    def describe(self) -> None:
        """Make names durable, and then the array one, with the groups that it is in."""
        for folder in _folders(self.root):
            sync(folder)
        version = 3 if self._main == V3 else 2
        for folder in self._groups:
            if not read_documents(folder):
                for name, content in make_group_documents(version).items():
                    write_whole(folder / name, content)
        for name in sorted(self._documents, key=lambda name: name == self._main):
            write_whole(self.root / name, self._documents[name])
        for folder in {self.root, *self._groups, *(made.parent for made in self._made)}:
            with storage_errors(folder):
                sync(folder)
        for folder in self._groups:
            if is_consolidated(folder):
                consolidate(folder)
        self._made.clear()

    def give_up(self, *, any_published: bool) -> None:
        """Remove what was made, unless chunks are there: they stay marked as unfinished."""
        remove_empty_folders(self.root)
        if not any_published:
            with suppress(OSError):
                self._mark.unlink()
            self._remove_made()
        self._made.clear()

    def _remove_made(self) -> None:
        """Remove the directories that were made, unless something is in them."""
        while self._made:
            with suppress(OSError):
                self._made.pop().rmdir()


def _folders(root: Path) -> Iterator[Path]:
    return (Path(folder) for folder, _, _ in os.walk(root))


def remove_empty_folders(root: Path) -> None:
    """Remove the directories below one that hold nothing, innermost first."""
    for folder, _, _ in os.walk(root, topdown=False):
        if folder != str(root):
            with suppress(OSError):
                Path(folder).rmdir()


def _walk(root: Path) -> Iterator[str]:
    """Yield the paths within a directory of all that is no directory; links are not followed."""
    for folder, folders, names in os.walk(root):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in (*names, *links):
            yield str(Path(folder, name).relative_to(root))


def _is_ours(name: str) -> bool:
    folder, slash, last = name.rpartition("/")
    if last.startswith(".") and last.endswith(".part"):
        name = folder + slash + last[1:].removesuffix(".part")
    return name in _METADATA or any(keys.parse(name) for keys in _KEYS)
