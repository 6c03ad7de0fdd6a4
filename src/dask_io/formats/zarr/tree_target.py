"""Write a group of Zarr arrays.

The journal of a group lists its members. The metadata of groups is written last, that of the
outermost group at the very end, so that no reader opens an incomplete group.

A group is replaced in the opposite order. First a new journal, which lists the members of the old
group, replaces the old journal; from then on the group is unfinished. Then the metadata of the
outermost group is removed, then that of its members, then everything else. Only then is anything
written.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dask_io.errors import (
    DataError,
    LockedError,
    StorageError,
    TargetExistsError,
    UsageError,
)
from dask_io.formats.zarr.documents import V2, V2_GROUP, V3, is_consolidated, read_documents
from dask_io.formats.zarr.group import is_array_at, is_described, read_group, refuse_special
from dask_io.formats.zarr.hierarchy import Hierarchy, find_left, find_parts
from dask_io.formats.zarr.ome import check_images, image_groups
from dask_io.formats.zarr.place import METADATA, Place
from dask_io.hierarchy.checksums import digest_contents, digest_files
from dask_io.journal.journal import Journal, alone, is_unfinished, read_lines, refuse_locked
from dask_io.journal.journalled_target import refuse_needed
from dask_io.journal.logs import logs_of
from dask_io.storage.files import copy_file, medium_of
from dask_io.storage.location import is_taken
from dask_io.storage.medium import Durability
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import JOURNAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dask_io.formats.zarr.group import Group
    from dask_io.formats.zarr.hierarchy import Parts
    from dask_io.storage.location import Location
    from dask_io.stores.store import Target

# Lines of the journal: the members of the group, those of the group that it replaces, and a note
# that the latter are removed.
_HOLDS, _HELD, _CLEARED = "holds", "held", "cleared"


class GroupTarget:
    """A group that is written, by one run at a time; its arrays are targets of their own.

    `names` lists all arrays. `copies` has the files of those that are copied verbatim: the
    directory that they are in, or their content. `arrays` are written in blocks.
    """

    def __init__(
        self,
        root: Location,
        group: Group,
        names: Iterable[str],
        *,
        durability: Durability,
        overwrite: bool = False,
        arrays: Mapping[str, Target] = MappingProxyType({}),
        copies: Mapping[str, Location | Mapping[str, bytes]] = MappingProxyType({}),
        not_kept: tuple[str, ...] = (),
    ) -> None:
        self.root, self.durability = root, durability
        self.arrays, self.not_kept = arrays, not_kept
        self.is_resumable = False
        self._group, self._names, self._copies = group, tuple(names), copies
        self._overwrite = overwrite
        self._medium = medium_of(root)
        self._journal_place = root / JOURNAL
        self._journal: Journal | None = None
        self._made: list[Location] = []
        self._has_removed = False

    @property
    def place(self) -> str:
        """The group's directory."""
        return str(self.root)

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the groups can be created again."""
        return self._group.to_json()

    def digests(self) -> dict[str, str]:
        """Return the checksums that arrays copied verbatim will have, by name."""
        return {name: _digest(files) for name, files in self._copies.items()}

    def check(self) -> None:
        """Refuse a place where the group cannot be created.

        Raises
        ------
        TargetExistsError
            If something exists there that must not be overwritten.
        UsageError
            If it may be overwritten, but is not a group, holds other files, or is described by
            the consolidated metadata of a group around it.
        StorageError
            If another run is writing it, or something in it.
        """
        self._find_old()

    def _find_old(self) -> Parts | None:
        """Return what will be replaced, None if nothing exists there; refuse as `check` does."""
        root, journal, shown = self.root, self._journal_place, self.place
        self._medium.publisher(root, self.durability)
        with storage_errors(root):
            if not is_taken(root) or (root.is_dir() and not self._medium.names(root)):
                return None
            _refuse_array(root)
            unfinished = is_unfinished(journal)
            if not self._overwrite:
                if unfinished:
                    refuse_locked(journal)
                raise TargetExistsError(shown, unfinished)
            if not root.is_dir():
                raise UsageError(f"{shown} is a file, not a group to overwrite")
            refuse_needed(journal, root)
            _refuse_described(root)
            old = find_parts(root, self._listed(unfinished=unfinished), unfinished=unfinished)
            for inner in sorted(old.journals):
                refuse_needed(root / inner, (root / inner).parent)
        return old

    def _listed(self, *, unfinished: bool) -> Hierarchy:
        """Return the members that the journal of the existing group lists."""
        holds, held = self._words()
        # A complete group describes its members, except for files that were copied with it.
        return holds | held if unfinished else Hierarchy(files=holds.files)

    def _words(self) -> tuple[Hierarchy, Hierarchy]:
        """Return the members of the group, and those of the group that it replaces."""
        found, place = {_HOLDS: Hierarchy(), _HELD: Hierarchy()}, self._journal_place
        for words in read_lines(place) if logs_of(place).exists(place) else ():
            if words == [_CLEARED]:
                found[_HELD] = Hierarchy()
            elif words[0] in found:
                try:
                    found[words[0]] = Hierarchy.from_word(words[-1])
                except ValueError as error:
                    problem, advice = f"is not about a group: {error}", "remove the group yourself"
                    raise DataError(str(place), [problem], advice) from error
        return found[_HOLDS], found[_HELD]

    def create(self, job: bytes) -> None:
        """Create the directory; a journal with the job and the members is the first file in it.

        Raises
        ------
        TargetExistsError
            If something exists there that must not be overwritten.
        """
        self.is_resumable = False
        old = self._find_old()
        group = self._group
        holds = Hierarchy(frozenset(group.groups), frozenset(self._names), frozenset(group.files))
        lines = [f"{_HOLDS} {holds.to_word()}"]
        lines += [] if old is None else [f"{_HELD} {old.names.to_word()}"]
        try:
            with storage_errors(self.root):
                self._medium.make_folders(self.root, self._made, durable=True)
                logs_of(self._journal_place).remove_stale(self._journal_place)
                self._begin_journal(job, lines, replaces=old is not None)
                if old is not None:
                    self._clear(old)
        except BaseException:
            self.abandon()
            self._medium.remove_folders(self._made)
            raise

    def _begin_journal(self, job: bytes, lines: list[str], *, replaces: bool) -> None:
        place = self._journal_place
        if replaces and logs_of(place).exists(place):
            self._journal = Journal.resume(place, durable=self._is_durable)
            self._journal.begin_again(job, lines)
        else:
            if replaces:
                # Runs that write arrays of the group may be changing its metadata. A run that was
                # killed meanwhile has left its lock.
                with alone(place):
                    pass
            try:
                self._journal = Journal.begin(place, job, lines, durable=self._is_durable)
            except FileExistsError:
                # If two runs find the place free, only one of them gets it.
                if logs_of(place).exists(place):
                    raise TargetExistsError(self.place, unfinished=True) from None
                reason = "another run is changing the metadata of the group"
                raise LockedError(self.place, reason, "try again") from None
        self.is_resumable = True

    def _clear(self, old: Parts) -> None:
        """Remove the old group, its metadata first, and record that it has been removed."""
        assert self._journal is not None, "only the run that holds the journal removes files"
        self._has_removed = True
        for files in (old.own, old.inner, old.others):
            self._journal.check_held()
            self._medium.remove(self.root / file for file in files)
            if self._is_durable and files is not old.others:
                self._medium.sync_names({(self.root / file).parent for file in files})
        self._medium.tidy_all(self.root)
        if self._is_durable:
            self._medium.sync_names([self.root])
        self._journal.append([_CLEARED])

    @property
    def _is_durable(self) -> bool:
        return self.durability is Durability.FSYNC

    def resume(self) -> None:
        """Resume the group that another run left unfinished.

        Raises
        ------
        StorageError
            If another run is writing it.
        UsageError
            If links lead out of it.
        """
        self._journal = Journal.resume(self._journal_place, durable=self._is_durable)
        self.is_resumable = True
        try:
            with storage_errors(self.root):
                holds, held = self._words()
                for name in sorted(holds.groups | holds.arrays):
                    Place(self.root, name).refuse_way_out()
                if held != Hierarchy():
                    self._clear(find_left(self.root, held))
        except BaseException:
            self.abandon()
            raise

    def copy_verbatim(self) -> None:
        """Write the arrays that are copied verbatim, their metadata last.

        These have no axes, or elements that are not understood, such as strings of any length.
        """
        for name, files in self._copies.items():
            if isinstance(files, Mapping):
                self._write_array(name, files)
            else:
                self._copy_array(files, name)

    def copy_again(self) -> None:
        """Write arrays that are copied verbatim again, and remove other files from them.

        Raises
        ------
        DataError
            If the source of one is gone; nothing has been changed then.
        """
        self.copy_verbatim()
        for name, files in self._copies.items():
            kept = {*files} if isinstance(files, Mapping) else _names_in(files)
            place = self.root / name
            self._medium.remove(place / each for each in _names_in(place) - kept)

    def _copy_array(self, source: Location, name: str) -> None:
        files = _names_in(source)
        for file in files:
            refuse_special(source / file)
        for file in sorted(files, key=_metadata_last):
            self._copy(source / file, self.root / name / file)

    def _write_array(self, name: str, files: Mapping[str, bytes]) -> None:
        for file in sorted(files, key=_metadata_last):
            place = self.root / name / file
            self._check_held()
            self._make_folder(place.parent)
            self._medium.write_whole(place, files[file])

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

    def finish(self) -> None:
        """Write the metadata of the groups; complete once all images have been validated."""
        group = self._group
        for name in group.files:
            self._copy(group.root / name, self.root / name)
        self.describe_again(group.groups)
        if image_groups(group):
            check_images(read_group(self.root))
        with storage_errors(self.root):
            logs_of(self._journal_place).remove_stale(self._journal_place)
        assert self._journal is not None, "it is held"
        self._journal.seal()
        self._journal.close()
        self._journal = None

    def damaged_groups(self) -> list[str]:
        """Return the groups whose metadata is missing or invalid."""
        groups = self._group.groups
        return [path for path in groups if not is_described(self.root / path, groups[path])]

    def describe_again(self, paths: Iterable[str]) -> None:
        """Write the metadata of some of the groups, the outermost last."""
        made = self._documents()
        for path in sorted(paths, key=_innermost_first):
            folder = self.root / path
            self._make_folder(folder)
            # The main document, which turns a directory into a group, comes last.
            for name in sorted(made[path], key=lambda name: name in {V3, V2_GROUP}):
                self._check_held()
                self._medium.write_whole(folder / name, made[path][name])

    def _documents(self) -> dict[str, dict[str, bytes]]:
        """Return the documents of all groups, with updated consolidated metadata."""
        group = self._group
        made = {path: dict(documents) for path, documents in group.groups.items()}
        arrays = {name: read_documents(self.root / name) for name in self._names}
        for path in group.consolidated:
            from dask_io.formats.zarr.consolidation import gather  # noqa: PLC0415 - zarr-python

            name, text = gather({**group.groups, **arrays}, path)
            made[path][name] = text
        return made

    def abandon(self) -> None:
        """Release the journal, so that another run can resume."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def give_up(self) -> None:
        """Release the journal; remove it if nothing was written or removed yet."""
        is_bare = not self._has_removed and self._is_alone()
        # A journal that another run may have taken over must stay.
        if self._journal is not None and is_bare and self._journal.is_held():
            with suppress(OSError, StorageError):
                self._journal.remove()
                self.is_resumable = False
        self.abandon()
        self._medium.remove_folders(self._made)

    def _is_alone(self) -> bool:
        """Tell whether the directory holds nothing but the journal."""
        with suppress(StorageError):
            return self._medium.names(self.root).keys() <= {JOURNAL}
        return False


def _digest(files: Location | Mapping[str, bytes]) -> str:
    return digest_contents(files) if isinstance(files, Mapping) else digest_files(files)


def _names_in(root: Location) -> set[str]:
    return {name for name, _ in medium_of(root).files(root)}


def _refuse_described(root: Location) -> None:
    """Refuse to replace a group that the consolidated metadata around it describes."""
    for folder in root.resolve().parents:
        if not read_documents(folder):
            break
        if is_consolidated(folder):
            around = str(folder)
            raise UsageError(
                f"{root} is described by the consolidated metadata of {around}, "
                "which would be wrong then; remove that first, or replace all of the outer group"
            )


def _metadata_last(file: str) -> tuple[bool, bool, str]:
    return file in METADATA, file == V2, file


def _innermost_first(path: str) -> tuple[int, str]:
    return -path.count("/") - bool(path), path


def _refuse_array(root: Location) -> None:
    """Refuse a place where a single array is, which a group does not replace.

    Raises
    ------
    UsageError
        If there is one.
    """
    if is_array_at(root):
        raise UsageError(
            f"{root} is an array, but a group is to be written there; remove the array, or choose "
            "another target"
        )
