"""Publish local files: they appear under their final names when complete and durable."""

from __future__ import annotations

import errno
import os
import resource
import secrets
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock, Semaphore
from typing import TYPE_CHECKING

from dask_io.errors import StorageError
from dask_io.storage.local import regular_files as regular
from dask_io.storage.local import system
from dask_io.storage.local.transport import FileWriter, New, write_fully
from dask_io.storage.medium import Durability
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import temporary_name
from dask_io.storage.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from collections.abc import Set as AbstractSet

# Errors of filesystems that cannot reserve space. EBADF comes from glibc: it then tries to write
# every page itself, but cannot read the pages first, because the file is write-only.
_CANNOT_ALLOCATE = {errno.EBADF, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
# The most directories cached as durable.
_MOST_KNOWN = 1024
# The most files that stay open until they are synced, also limited to this fraction of the files
# that the process may open.
_MOST_OPEN, _PART_OPEN = 128, 4
# The most directories that are synced, and so open, at once.
_FOLDERS_AT_ONCE = 16
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class _Slots:
    """The number of files that may still stay open, for the whole process."""

    def __init__(self) -> None:
        self._begin()
        # A forked child has neither the threads nor the open files of its parent.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self.free = Semaphore(_MOST_OPEN)


_slots = _Slots()


class Publisher:
    """Publishes the files of one directory, each when it is complete.

    The temporary name of a file starts with a dot and ends in ``.part``, so that no pattern of
    block names matches it. Names may include subdirectories, which are created when needed.
    """

    mark = ""

    def __init__(self, folder: Path, durability: Durability = Durability.FSYNC) -> None:
        self.folder, self.durability = folder, durability
        self._place = os.path.join(folder, "")  # noqa: PTH118 - a prefix for names
        self._pending: set[str] = set()
        self._open: dict[str, int] = {}
        self._made: list[Path] = []
        # Directories whose names are durable, and directories that are not links.
        self._known: set[str] = set()
        self._own: set[str] = set()
        self._is_abandoned = False
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Publisher], tuple[Path, Durability]]:
        # Locks and incomplete files cannot be pickled.
        return Publisher, (self.folder, self.durability)

    def partial(self, name: str) -> Path:
        """Return the temporary path of a file until it is published."""
        return Path(self._partial(name))

    def _partial(self, name: str) -> str:
        if self.durability is Durability.NONE:
            return f"{self._place}{name}"
        folder, slash, last = name.rpartition("/")
        return f"{self._place}{folder}{slash}{temporary_name(last, self.mark)}"

    def begin(self, name: str, header: bytes, n_bytes: int, *, reserve: bool = True) -> Path:
        """Return the temporary path of a file; create it with header and full size if new.

        Its space is reserved, unless `reserve` is False.

        Raises
        ------
        StorageError
            If it cannot be created, or the publisher has been abandoned.
        """
        with self.writer(name, Tally(), header=header, n_bytes=n_bytes, reserve=reserve):
            return self.partial(name)

    def writer(
        self,
        name: str,
        tally: Tally,
        *,
        header: bytes = b"",
        n_bytes: int | None = None,
        n_zeros: int = 0,  # noqa: ARG002 - a new file has only zeros
        reserve: bool = True,
        check: Callable[[], None] | None = None,  # noqa: ARG002 - data is written immediately
    ) -> FileWriter:
        """Open an unpublished file for writing; create it with header and full size if new.

        Without a size, it grows as data is written. See also `begin`.
        """
        path = self._partial(name)
        with storage_errors(path):
            with self._lock:
                if self._is_abandoned:
                    raise StorageError(path, "the run has been abandoned")
                if name in self._pending:
                    return FileWriter(path, tally)
                if "/" in name:
                    self._make_folder(os.path.dirname(path))  # noqa: PTH120 - may be many
                new = New.make(path, n_bytes or 0)
                self._pending.add(name)
            # Other threads may already write to the file; this does not touch their data.
            try:
                if n_bytes:
                    allocate(new.fd, n_bytes, reserve=reserve)
            except BaseException:
                system.calls.close(new.fd)
                raise
        return FileWriter(path, tally, new=new, head=header, keep=lambda fd: self._keep(name, fd))

    def _keep(self, name: str, fd: int) -> bool:
        """Keep a file open until it is synced, if possible; tell whether it is kept."""
        with self._lock:
            is_kept = (
                self.durability is Durability.FSYNC
                and name in self._pending
                and _is_low(fd)
                and _slots.free.acquire(blocking=False)
            )
            if is_kept:
                self._open[name] = fd
            return is_kept

    def _take(self, paths: Mapping[str, str]) -> dict[str, int]:
        """Return the files that have been kept open, by path; the caller closes them."""
        with self._lock:
            return {
                path: self._open.pop(name) for name, path in paths.items() if name in self._open
            }

    def _make_folder(self, folder: str) -> None:
        """Create a subdirectory and its parents, if they do not exist.

        Raises
        ------
        StorageError
            If it is a link, which could point elsewhere.
        """
        if folder in self._own or folder.rstrip("/") == self._place.rstrip("/"):
            return
        self._make_folder(os.path.dirname(folder))  # noqa: PTH120 - may be many
        if not os.path.lexists(folder):
            with suppress(FileExistsError):
                system.calls.mkdir(folder)
                self._made.append(Path(folder))
        regular.refuse_link(folder)
        if len(self._own) > _MOST_KNOWN:
            self._own.clear()
        self._own.add(folder)

    def go_on(self, name: str, header: bytes) -> None:
        """Continue an unpublished file of an earlier run."""
        path = self.partial(name)
        with storage_errors(path):
            fd = regular.open_own(path, os.O_WRONLY)
            try:
                # The earlier run may have ended before it wrote the header.
                write_fully(fd, 0, memoryview(header))
            finally:
                system.calls.close(fd)
        self._pending.add(name)

    def take_back(self, name: str) -> None:
        """Make a published file unpublished again."""
        path = self.partial(name)
        with storage_errors(path):
            system.calls.rename(self.folder / name, path)

    def commit(self, names: Collection[str], whole: Collection[str]) -> None:
        """Sync files, depending on the durability, and publish those that are complete.

        `whole` are the names of the complete files.
        """
        paths = {name: self._partial(name) for name in names}
        if self.durability is Durability.FSYNC:
            self._sync(paths)
        for name in whole:
            if self.durability is not Durability.NONE:
                with storage_errors(paths[name]):
                    system.calls.rename(paths[name], f"{self._place}{name}")
        with self._lock:
            self._pending.difference_update(whole)
        if self.durability is Durability.FSYNC:
            self._sync_folders({os.path.dirname(name) for name in names})  # noqa: PTH120 - may be many

    def _sync(self, paths: Mapping[str, str]) -> None:
        """Sync files: those kept open all at once, which are then closed, and the others."""
        files = self._take(paths)
        with ExitStack() as open_files:
            for path, fd in files.items():
                open_files.callback(_close_kept, path, fd)
            # If the sync fails as a whole, the responsible file is unknown.
            with storage_errors(self.folder):
                errors = system.calls.sync_all([*files.values()])
            for path, error in zip(files, errors, strict=True):
                if error is not None:
                    with storage_errors(path):
                        raise error
        for path in paths.values():
            # Another thread may have completed, synced and renamed it.
            if path not in files:
                with storage_errors(path), suppress(FileNotFoundError):
                    sync_data(path)

    def _sync_folders(self, folders: AbstractSet[str]) -> None:
        """Sync directories, and the parents of directories that are not yet known to be durable."""
        around = {str(above) for folder in folders for above in Path(folder, "_").parents}
        # A killed run may have created an existing directory without syncing it.
        new = around - self._known - {"."}
        names = sorted(folders | {os.path.dirname(each) for each in new})  # noqa: PTH120 - as above
        # The place may be the root directory.
        sync_folders([f"{self._place}{name}".rstrip("/") or "/" for name in names])
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known |= new

    def leave_out(self, names: Collection[str]) -> None:
        """Remove unpublished files that are not needed; some may not exist."""
        with self._lock:
            begun = self._pending.intersection(names)
        paths = {name: self._partial(name) for name in begun}
        with ExitStack() as open_files:
            for path, fd in self._take(paths).items():
                open_files.callback(_close_kept, path, fd)
        for name, path in paths.items():
            with self._lock, storage_errors(path):
                system.calls.unlink(path)
                self._pending.discard(name)
        if self.durability is Durability.FSYNC:
            self._sync_folders({os.path.dirname(name) for name in begun})  # noqa: PTH120 - may be many

    def abandon(self, keep: Collection[str] = ()) -> None:
        """Remove unpublished files, except those to `keep`, and refuse new ones."""
        with self._lock:
            self._is_abandoned = True
            for fd in self._open.values():
                with suppress(OSError):
                    system.calls.close(fd)
                _slots.free.release()
            self._open.clear()
            for name in self._pending.difference(keep):
                with suppress(OSError):
                    system.calls.unlink(self.partial(name))
            self._pending.clear()
            while self._made:
                # Directories that are not empty stay.
                with suppress(OSError):
                    system.calls.rmdir(self._made.pop())


class OwnNames(Publisher):
    """A publisher whose temporary names no other process uses."""

    def __init__(self, folder: Path, durability: Durability = Durability.FSYNC) -> None:
        super().__init__(folder, durability)
        self.mark = secrets.token_hex(6)

    def __reduce__(self) -> tuple[type[OwnNames], tuple[Path, Durability]]:
        return OwnNames, (self.folder, self.durability)

    def abandon(self, keep: Collection[str] = ()) -> None:
        """Remove unpublished files; directories stay, because another process may need them."""
        self._made.clear()
        super().abandon(keep)


def _close_kept(path: str, fd: int) -> None:
    """Close a file that has been kept open."""
    _slots.free.release()
    _close(path, fd)


def _close(path: str, fd: int) -> None:
    with storage_errors(path):
        system.calls.close(fd)


def _is_low(fd: int) -> bool:
    """Tell whether many more files may be opened: a new file gets the lowest free number."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit == resource.RLIM_INFINITY or fd < limit // _PART_OPEN


def allocate(fd: int, n_bytes: int, *, reserve: bool) -> None:
    """Set the size of a file and reserve its space, so that a full disk is reported early."""
    # The size is set first. If the filesystem cannot reserve space, glibc emulates it: within the
    # size of the file it reads before it writes, and so fails instead of overwriting data.
    system.calls.ftruncate(fd, n_bytes)
    if reserve and hasattr(os, "posix_fallocate"):
        try:
            system.calls.fallocate(fd, 0, n_bytes)
        except OSError as error:
            if error.errno not in _CANNOT_ALLOCATE:
                raise


def sync(path: Path | str) -> None:
    """Sync a directory, so that the names in it are durable."""
    sync_folders([str(path)])


def sync_folders(paths: Sequence[str]) -> None:
    """Sync directories: a few at once, because the filesystem then writes its log only once."""
    for start in range(0, len(paths), _FOLDERS_AT_ONCE):
        with ExitStack() as open_folders:
            fds = []
            for path in paths[start : start + _FOLDERS_AT_ONCE]:
                with storage_errors(path):
                    fds.append(system.calls.open(path, _FOLDER))
                open_folders.callback(_close, path, fds[-1])
            # If the sync fails as a whole, the responsible directory is unknown.
            with storage_errors(paths[start]):
                errors = system.calls.sync_all(fds, only_data=False)
            for path, error in zip(paths[start:], errors, strict=False):
                if error is not None:
                    with storage_errors(path):
                        raise error


def sync_data(path: Path | str) -> None:
    """Sync the content of a run's file, but not its timestamps."""
    fd = regular.open_own(path, os.O_RDONLY)
    try:
        system.calls.fdatasync(fd)
    finally:
        system.calls.close(fd)


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file under a temporary name; rename it when complete and durable."""
    publisher = Publisher(path.parent)
    try:
        publisher.begin(path.name, content, len(content))
        publisher.commit([path.name], [path.name])
    except BaseException:
        publisher.abandon()
        raise


def remove_folder(folder: Path) -> None:
    """Remove a folder and its content, if it exists, without following links.

    Other processes may remove some of the content meanwhile.

    Raises
    ------
    StorageError
        If it is a link. Then nothing is removed.
    """
    regular.refuse_link(folder)
    with suppress(FileNotFoundError):
        for path in list(folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                remove_folder(path)
            else:
                with suppress(FileNotFoundError):
                    system.calls.unlink(path)
        system.calls.rmdir(folder)
