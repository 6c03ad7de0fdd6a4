"""Writing an array in one commit."""

from __future__ import annotations

import fcntl
import glob
import json
import os
import secrets
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import icechunk
import numpy as np
from xxhash import xxh3_64_intdigest

from dask_io.errors import StorageError, UsageError, list_names
from dask_io.formats.icechunk.repository import (
    MAIN,
    Address,
    Tree,
    groups_around,
    make_repository,
    on_disk,
    open_repository,
    place_of,
    quiet,
    repository_errors,
)
from dask_io.formats.icechunk.source import whole_chunks
from dask_io.formats.registry import find_row
from dask_io.formats.zarr.create import describe_new
from dask_io.formats.zarr.documents import V3, is_group, make_group_documents
from dask_io.formats.zarr.place import Place
from dask_io.formats.zarr.store import DocumentedArray, read_description
from dask_io.journal.journal import is_unfinished
from dask_io.journal.journalled_target import JournalledTarget
from dask_io.journal.ledger import line_of
from dask_io.storage.local import system
from dask_io.storage.local.publishing import sync, sync_data
from dask_io.storage.medium import Durability, Writers
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import JOURNAL, sidecar_name
from dask_io.storage.tally import Traffic
from dask_io.stores.chunked_target import ChunkedTarget
from dask_io.stores.container import stand_in_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from dask_io.journal.ledger import Ledger, Written
    from dask_io.storage.location import Location
    from dask_io.stores.container import NewArray

_ROW = find_row("icechunk")
_ZARR_VERSION = 3
# Lines of the journal: this run created the repository; the token of its commit.
_MADE, _COMMIT = "made", "commit"
# Names that icechunk uses in the directory of a repository.
_OWN_NAMES = frozenset(
    {
        "attributes",
        "chunks",
        "config.yaml",
        "manifests",
        "overwritten",
        "refs",
        "repo",
        "snapshots",
        "transactions",
    }
)
_TOKEN = "dask_io"  # noqa: S105 - the name of an entry, not a secret
# The joined pieces, and copies in Python and in icechunk.
_N_COPIES = 3


def make_icechunk(
    path: Location,
    inside: str,
    wanted: NewArray,
    *,
    overwrite: bool,
    durability: Durability,
    reserve: bool = False,  # noqa: ARG001 - icechunk writes chunks at once
) -> IcechunkTarget:
    """Describe an array in a repository; nothing is touched.

    Raises
    ------
    UsageError
        If icechunk cannot store it, or does not support an option.
    """
    if wanted.options.format_version not in {None, _ZARR_VERSION}:
        raise UsageError(f"icechunk holds arrays of Zarr {_ZARR_VERSION} only")
    options = replace(wanted.options, format_version=_ZARR_VERSION)
    # icechunk names chunks in its own way.
    kept = {key: each for key, each in wanted.metadata.items() if key != "chunk_key_encoding"}
    documents = describe_new(replace(wanted, options=options, metadata=kept))
    _refuse_not_json(json.loads(documents[V3]).get("attributes", {}))
    return IcechunkTarget(
        DocumentedArray(Place(path, inside), documents),
        write_empty=options.write_empty,
        overwrite=overwrite,
        durability=durability,
    )


def _refuse_not_json(attributes: Mapping[str, Any]) -> None:
    """Refuse attributes that icechunk, which requires strict JSON, cannot store."""
    for name, value in attributes.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise UsageError(
                f"attribute {name} of the source holds infinity or NaN, which icechunk "
                "cannot; choose another format, or change it"
            ) from None


def remake_icechunk(
    described: Mapping[str, Any],
    at: Location,
    *,
    durability: Durability,
    reserve: bool = False,  # noqa: ARG001 - as above
) -> IcechunkTarget:
    """Describe a target of an earlier run again.

    Raises
    ------
    ValueError
        If the description is invalid.
    """
    return IcechunkTarget(
        read_description(described, at),
        write_empty=described.get("write_empty") is True,
        # An unfinished run is invisible, so an existing array is the one to replace.
        overwrite=True,
        durability=durability,
    )


class IcechunkTarget(ChunkedTarget, JournalledTarget):
    """An array that is written in one commit; any number of chunks may be written at once.

    Chunks are stored in the repository, but are invisible before the commit. The journal is next
    to the repository and contains their checksums. A run that was interrupted before its commit
    starts again.
    """

    format = _ROW.name
    is_indivisible = True
    # All chunks belong to one transaction.
    writers = Writers.THREADS

    def __init__(
        self,
        stored: DocumentedArray,
        *,
        write_empty: bool,
        overwrite: bool,
        durability: Durability,
    ) -> None:
        self.stored, self.site, self.array = stored, stored.site, stored.array
        self.address, self._path = Address.parse(self.site.inside), on_disk(self.site.path)
        ChunkedTarget.__init__(self, whole_chunks(self.array.spec), write_empty=write_empty)
        path = stand_in_path(self._path, self.site.inside)
        JournalledTarget.__init__(
            self, path, is_one_file=True, overwrite=overwrite, durability=durability
        )

    def _forget_run(self) -> None:
        super()._forget_run()
        self._tree: Tree | None = None
        self._has_made = self._is_committed = False

    @property
    def place(self) -> str:
        """The repository, and the array in it."""
        return place_of(self.site)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the array."""
        return MappingProxyType(self.array.described())

    @property
    def copying_bytes(self) -> int:
        """Copies of a chunk or a shard that are held while it is stored."""
        return _N_COPIES * self.spec.longest_file

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the target can be created again."""
        return {**self.stored.describe(self.format), "write_empty": self.write_empty}

    def create(self, job: bytes = b"{}") -> None:
        """Begin a session, in a repository that is created if it does not exist.

        Raises
        ------
        TargetExistsError
            If the array exists and may not be overwritten.
        UsageError
            If it may be overwritten, but is not an array, or not in a repository.
        """
        if self._journal is not None:
            return
        is_left_over = self._is_left_over()
        super().create(job)
        self._begin(is_left_over=is_left_over)

    def resume(self) -> Ledger:
        """Start again, unless the run was committed and only its journal is not sealed."""
        ledger = super().resume()
        # The journal stays, whether or not this run succeeds.
        self._any_committed = True
        if not self._is_committed:
            self._begin(is_left_over=self._is_left_over())
        return ledger

    def _begin(self, *, is_left_over: bool) -> None:
        """Begin the commit, in a repository that is created if it does not exist."""
        path = self._path
        try:
            with storage_errors(path):
                if is_left_over and path.exists():
                    shutil.rmtree(path)
                self._note_token()
                if not _ROW.recognises(path):
                    self._note_made()
                    make_repository(path)
            self._begin_session(open_repository(path))
        except BaseException:
            self.abandon()
            raise

    def _note_token(self) -> None:
        """Record the token of the commit."""
        assert self._journal is not None, "nothing has been created"
        self._token = secrets.token_hex(8)
        self._journal.append([f"{_COMMIT} {self._token}"])
        # The filesystem's own clock: everything that this run writes is at least as new.
        self._began = on_disk(self._journal_place).stat().st_mtime_ns

    def _note_made(self) -> None:
        assert self._journal is not None, "nothing has been created"
        self._has_made = True
        self._journal.append([_MADE])

    def _begin_session(self, repository: icechunk.Repository) -> None:
        """Write the metadata of the array to a session, and remove an old array."""
        path, array = self._path, self.address.array
        with repository_errors(str(path)):
            tree = Tree(repository.writable_session(self.address.branch), path)
        if tree.documents(array):
            tree.remove(array)
        self._make_groups(tree)
        tree.write(self.address.key(V3), self.stored.documents[V3])
        self._tree = tree

    def _make_groups(self, tree: Tree) -> None:
        """Create missing groups around the array."""
        for group in groups_around(self.address.array):
            if not tree.documents(group):
                tree.write(Address("", group).key(V3), make_group_documents(_ZARR_VERSION)[V3])

    def _is_left_over(self, *, with_chunks: bool = False) -> bool:
        """Tell whether the repository was created by an unfinished run, and is otherwise unused.

        Nobody has committed to it, or is about to. It has no chunks, unless `with_chunks` is True.
        """
        path = self._path
        if not is_unfinished(self._journal_place) or [_MADE] not in self._lines():
            return False
        if path.exists() and not path.is_dir():
            return False
        held = {name: _count(path / name) for name in os.listdir(path)} if path.is_dir() else {}  # noqa: PTH208 - names alone
        pattern = f"{glob.escape(path.name)}*{JOURNAL}"
        # Those of complete arrays are hidden.
        beside = {*path.parent.glob(pattern), *path.parent.glob(sidecar_name(pattern))}
        others = beside - {self._journal_place}
        return (
            not others
            and held.keys() <= _OWN_NAMES
            # A commit adds one of each.
            and held.get("snapshots", 0) <= 1
            and not held.get("transactions")
            and (with_chunks or not held.get("chunks"))
        )

    def keep(self, index: tuple[int, ...]) -> None:
        """Do nothing: no files are published one by one."""

    def put(self, index: tuple[int, ...], parts: Iterable[Any]) -> int:
        """Pass a chunk or a shard to icechunk."""
        assert self._tree is not None, "no session has begun"
        first, *others = parts
        encoded = np.concatenate([first, *others]) if others else first
        if self.tally.pace is not None:
            self.tally.pace.wait_for(encoded.nbytes)
        self._tree.write(self.address.key(self.array.keys.name_of(index)), encoded)
        self.tally.add(self.tally.write, Traffic(seeks=1, visits=1, n_bytes=encoded.nbytes))
        return xxh3_64_intdigest(encoded.data)

    def commit(self, cells: Collection[Written]) -> None:
        """Record the checksums of written chunks."""
        assert self._journal is not None, "nothing has been created"
        self._journal.append(line_of(cell, self.grid) for cell in cells)

    def note(self, lines: Iterable[str]) -> None:  # noqa: ARG002 - as of all
        """Refuse: nothing is durable before the commit, so nothing may be removed."""
        raise UsageError(
            "icechunk makes everything durable at once, at the end, so that nothing can be "
            "consumed before; leave --consume out"
        )

    def abandon(self, *, keep: bool = False) -> bool:
        """End the session, and remove a repository that was created for it."""
        path, is_unused = self._path, self._journal is not None and self._has_made
        if (
            is_unused
            and not keep
            and not self._any_committed
            and self._is_left_over(with_chunks=True)
        ):
            shutil.rmtree(path, ignore_errors=True)
        self._tree = None
        return super().abandon(keep=keep)

    def _file_of(self, index: tuple[int, ...]) -> tuple[str, int | None]:
        return self.array.keys.name_of(index), None

    def _is_there(self, index: tuple[int, ...], files: Mapping[str, int]) -> bool:  # noqa: ARG002 - all or none
        return self._is_committed

    def _find_files(self) -> dict[str, int]:
        """Look for the commit instead: there are no files before it."""
        tokens = set(self._words_of(_COMMIT))
        self._is_committed = _ROW.recognises(self._path) and self._has_commit(tokens)
        return {}

    def _has_commit(self, tokens: Collection[str]) -> bool:
        repository = open_repository(self._path)
        with repository_errors(str(self._path)):
            history = repository.ancestry(branch=self.address.branch)
            return any(snapshot.metadata.get(_TOKEN) in tokens for snapshot in history)

    def _find_old(self) -> list[Location]:
        """Refuse to replace anything but an array; the commit will replace it."""
        path, shown = self._path, self.place
        if is_unfinished(self._journal_place) and not self._overwrite:
            self._refuse()
        if not os.path.lexists(path) or self._is_left_over() or _is_empty(path):
            if self.address.branch != MAIN:
                raise UsageError(f"{shown} is on a branch of a repository that does not exist")
            return []
        if not _ROW.recognises(path):
            raise UsageError(f"{path} is not an icechunk repository; choose another target")
        tree = self._look_at_branch()
        for group in groups_around(self.address.array):
            if (found := tree.documents(group)) and not is_group(found):
                around = place_of(Place(path, group))
                raise UsageError(f"{around} is an array, so it cannot contain another one")
        documents = tree.documents(self.address.array)
        if documents and is_group(documents):
            raise UsageError(f"{shown} is a group, not an array to overwrite")
        if documents and not self._overwrite:
            self._refuse()
        return []

    def _look_at_branch(self) -> Tree:
        path, branch = self._path, self.address.branch
        repository = open_repository(path)
        with repository_errors(str(path)):
            branches = repository.list_branches()
            if branch not in branches:
                listed = list_names(sorted(branches))
                raise UsageError(f"{path} has no branch {branch} to commit to; it has {listed}")
            return Tree(repository.readonly_session(branch), path)

    def _complete(self) -> None:
        """Commit, unless an interrupted run has already done so."""
        if self._is_committed:
            return
        assert self._tree is not None, "no session has begun"
        path = self._path
        is_durable = self.durability is Durability.FSYNC
        if is_durable:
            _sync_newer(path, self._began, chunks=True)
        lengths = " x ".join(map(str, self.grid.shape))
        message = f"Write {self.address.array or 'the array'}: {lengths} of {self.dtype}"
        with _alone(path):
            self._commit(self._tree, message)
            # From now on, only the journal has to be sealed.
            self._is_committed = self._any_committed = True
        if is_durable:
            _sync_newer(path, self._began, chunks=False)

    def _commit(self, tree: Tree, message: str) -> None:
        """Commit on top of later commits of others, if they changed other arrays."""
        try:
            with repository_errors(str(self._path)), quiet():
                tree.session.rebase(icechunk.ConflictDetector())
                # Another commit may have removed them.
                self._make_groups(tree)
                tree.session.commit(
                    message,
                    metadata={_TOKEN: self._token},
                    rebase_with=icechunk.ConflictDetector(),
                )
        except (icechunk.ConflictError, icechunk.RebaseFailedError) as error:
            raise StorageError(
                self.place,
                "another commit has changed it in the meantime",
                "look at the history, and run the command again",
            ) from error


def _is_empty(path: Path) -> bool:
    if not path.is_dir():
        return False
    with os.scandir(path) as entries:
        return not any(entries)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Serialize our commits: icechunk does not lock repositories on local disk."""
    with storage_errors(path):
        fd = system.calls.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            system.calls.close(fd)


def _sync_newer(path: Path, since: int, *, chunks: bool) -> None:
    """Sync files written to the repository since a time: chunks, or all others."""
    with storage_errors(path):
        for folder, folders, names in os.walk(path):
            if folder == str(path):
                folders[:] = [name for name in folders if (name == "chunks") == chunks]
            for name in names:
                found = Path(folder, name)
                if found.stat().st_mtime_ns >= since:
                    sync_data(found)
            sync(Path(folder))


def _count(path: Path) -> int:
    """Return the number of entries of a directory; 1 for a file."""
    return len(os.listdir(path)) if path.is_dir() else 1  # noqa: PTH208 - to count
