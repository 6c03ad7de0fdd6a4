"""Writing a group of Zarr arrays.

A group that is written has a journal, which says what belongs to it. Its metadata comes last, that
of the outermost group at the very end, so that no reader takes it for one before it is complete.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from dask_io.errors import StorageError, TargetExistsError, UsageError
from dask_io.stores.files import Durability, storage_errors
from dask_io.stores.journal import Journal, is_unfinished, refuse_locked
from dask_io.stores.location import is_taken
from dask_io.stores.logs import NAME as JOURNAL
from dask_io.stores.medium import copy_file, medium_of
from dask_io.stores.naming import printable
from dask_io.stores.zarr.documents import V2, V2_GROUP, V3, read_documents
from dask_io.stores.zarr.group import gather, refuse_link
from dask_io.stores.zarr.place import METADATA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dask_io.stores.location import Location
    from dask_io.stores.zarr.group import Group


class GroupTarget:
    """A group that is written, by one run at a time; its arrays are targets of their own."""

    def __init__(self, root: Location, *, durability: Durability) -> None:
        self.root, self.durability = root, durability
        self.is_resumable = False
        self._medium = medium_of(root)
        self._journal_place = root / JOURNAL
        self._journal: Journal | None = None
        self._made: list[Location] = []

    @property
    def place(self) -> str:
        """The group's directory."""
        return str(self.root)

    def check(self) -> None:
        """Refuse a place where something is, or nothing can be.

        Raises
        ------
        TargetExistsError
            If it is a group that is not complete.
        UsageError
            If there is anything else: a group is not overwritten as a whole.
        """
        shown = printable(self.place)
        self._medium.publisher(self.root, self.durability)
        with storage_errors(self.root):
            is_free = not is_taken(self.root) or (
                self.root.is_dir() and not self._medium.names(self.root)
            )
        if is_free:
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
        try:
            with storage_errors(self.root):
                self._medium.make_folders(self.root, self._made, durable=True)
                self._medium.logs.remove_stale(self._journal_place)
                self._begin_journal(job)
        except BaseException:
            self.abandon()
            self._medium.remove_folders(self._made)
            raise

    def _begin_journal(self, job: bytes) -> None:
        try:
            self._journal = Journal.begin(self._journal_place, job, [], durable=self._is_durable)
        except FileExistsError:
            # Of two runs that find the place free, one gets it.
            raise TargetExistsError(printable(self.place), unfinished=True) from None
        self.is_resumable = True

    @property
    def _is_durable(self) -> bool:
        return self.durability is Durability.FSYNC

    def resume(self) -> None:
        """Go on where another run ended.

        Raises
        ------
        StorageError
            If another run is writing it.
        """
        self._journal = Journal.resume(self._journal_place, durable=self._is_durable)
        self.is_resumable = True

    def copy_array(self, source: Location, name: str) -> None:
        """Copy the files of an array as they are, its metadata last; what is there is replaced.

        For arrays that hold what is not understood, such as texts of any length, or have no axes.
        """
        files = [file for file, _ in medium_of(source).files(source)]
        for file in files:
            refuse_link(source / file)
        for file in sorted(files, key=lambda file: (file in METADATA, file == V2, file)):
            self._copy(source / file, self.root / name / file)

    def _copy(self, source: Location, target: Location) -> None:
        self._check_held()
        self._make_folder(target.parent)
        copy_file(source, target)

    def _make_folder(self, folder: Location) -> None:
        with storage_errors(folder):
            self._medium.make_folders(folder, [], durable=True)

    def _check_held(self) -> None:
        assert self._journal is not None, "nothing has been created"
        self._journal.check_held()

    def finish(
        self, like: Group, arrays: Iterable[str], check: Callable[[Location, Group], None]
    ) -> None:
        """Make a group of arrays that are there, by their names, as another one is.

        It counts as complete once `check` has looked at it.
        """
        for name in like.files:
            self._copy(like.root / name, self.root / name)
        made = self._documents(like, arrays)
        for path in sorted(made, key=_innermost_first):
            folder = self.root / path
            self._make_folder(folder)
            # What makes a group of a directory comes last.
            for name in sorted(made[path], key=lambda name: name in {V3, V2_GROUP}):
                self._check_held()
                self._medium.write_whole(folder / name, made[path][name])
        check(self.root, like)
        with storage_errors(self.root):
            self._medium.logs.remove_stale(self._journal_place)
        assert self._journal is not None, "it is held"
        self._journal.seal()
        self._journal = None

    def _documents(self, like: Group, arrays: Iterable[str]) -> dict[str, dict[str, bytes]]:
        """Return the documents of all groups; those that gather metadata have that of now."""
        made = {path: dict(documents) for path, documents in like.groups.items()}
        all_of_them = {**like.groups, **{name: read_documents(self.root / name) for name in arrays}}
        for path in like.consolidated:
            name, text = gather(all_of_them, path)
            made[path][name] = text
        return made

    def abandon(self) -> None:
        """Let another run go on."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def give_up(self) -> None:
        """Let another run go on, or leave nothing if nothing else has come to be there."""
        # What another run has taken over, or may have, is not this one's to remove.
        if self._journal is not None and self._is_alone() and self._journal.is_held():
            with suppress(OSError, StorageError):
                self._journal.remove()
                self.is_resumable = False
        self.abandon()
        self._medium.remove_folders(self._made)

    def _is_alone(self) -> bool:
        """Tell whether the journal is all that there is, be it a lock of an array."""
        with suppress(StorageError):
            return self._medium.names(self.root).keys() <= {JOURNAL}
        return False


def _innermost_first(path: str) -> tuple[int, str]:
    return -path.count("/") - bool(path), path
