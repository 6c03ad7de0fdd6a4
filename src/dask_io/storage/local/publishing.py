"""Local files that appear under their names when they are whole, and what makes that durable."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock, Semaphore
from typing import TYPE_CHECKING

from dask_io.errors import StorageError, printable
from dask_io.storage.local import regular_files as regular
from dask_io.storage.local import system
from dask_io.storage.local.transport import FileWriter, New, write_fully
from dask_io.storage.medium import Durability
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from collections.abc import Set as AbstractSet

# What says that a filesystem cannot reserve space. EBADF comes from glibc, which then would write
# to every page itself, but has to read what is there first and may not: the file is open to write.
_CANNOT_ALLOCATE = {errno.EBADF, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}
# Directories that are known to be durable: files are written one after another.
_MOST_KNOWN = 1024
# Files that stay open from when they are written until they are synced, at most this part of those
# that the process may open.
_MOST_OPEN, _PART_OPEN = 128, 4


class _Slots:
    """How many files more may stay open, of the whole process: a run may have many targets."""

    def __init__(self) -> None:
        self._begin()
        # Threads that count do not come along, nor do the runs whose files are open.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self.free = Semaphore(_MOST_OPEN)


_slots = _Slots()


class Publisher:
    """Files of one directory that are written aside and appear when they are whole.

    A file in the making starts with a dot and ends in ``.part``, so that no pattern of block
    names matches it. A name may lead into directories, which are made as they are needed.
    """

    def __init__(self, folder: Path, durability: Durability = Durability.FSYNC) -> None:
        self.folder, self.durability = folder, durability
        self._place = os.path.join(folder, "")  # noqa: PTH118 - names are put behind it as they are
        self._pending: set[str] = set()
        self._open: dict[str, int] = {}
        self._made: list[Path] = []
        # Directories whose names are durable, and those that are known not to be links.
        self._known: set[str] = set()
        self._own: set[str] = set()
        self._is_abandoned = False
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Publisher], tuple[Path, Durability]]:
        # Locks do not travel to other processes, and neither do files in the making.
        return Publisher, (self.folder, self.durability)

    def partial(self, name: str) -> Path:
        """Return where a file is written until it is published."""
        return Path(self._partial(name))

    def _partial(self, name: str) -> str:
        if self.durability is Durability.NONE:
            return f"{self._place}{name}"
        folder, slash, last = name.rpartition("/")
        return f"{self._place}{folder}{slash}.{last}.part"

    def begin(self, name: str, header: bytes, n_bytes: int, *, reserve: bool = True) -> Path:
        """Return the file in the making, made with its header and full size if it is new.

        Its space is reserved, unless it is to take only what is written.

        Raises
        ------
        StorageError
            If it cannot be made, or all has been abandoned: nothing would remove it.
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
        reserve: bool = True,
        check: Callable[[], None] | None = None,  # noqa: ARG002 - what is written is there at once
    ) -> FileWriter:
        """Visit a file in the making, which is made with its header and full size if it is new.

        Without a size it becomes as long as what is written. Otherwise as `begin`.
        """
        path = self._partial(name)
        with storage_errors(path):
            with self._lock:
                if self._is_abandoned:
                    raise StorageError(printable(path), "the run has been given up")
                if name in self._pending:
                    return FileWriter(path, tally)
                if "/" in name:
                    self._make_folder(os.path.dirname(path))  # noqa: PTH120 - may be many
                new = New.make(path, n_bytes or 0)
                self._pending.add(name)
            # Others may write to the file already: nothing of theirs is touched.
            try:
                if n_bytes:
                    allocate(new.fd, n_bytes, reserve=reserve)
            except BaseException:
                system.calls.close(new.fd)
                raise
        return FileWriter(path, tally, new=new, head=header, keep=lambda fd: self._keep(name, fd))

    def _keep(self, name: str, fd: int) -> bool:
        """Let a file be open until it is synced, if it will be; tell whether it is."""
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
        """Return the files that have been kept open, by their paths, for the caller to close."""
        with self._lock:
            return {
                path: self._open.pop(name) for name, path in paths.items() if name in self._open
            }

    def _make_folder(self, folder: str) -> None:
        """Create a directory below that of all files, with its parents, if it does not exist.

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
        """Take over a file in the making that another run has begun."""
        path = self.partial(name)
        with storage_errors(path):
            fd = regular.open_own(path, os.O_WRONLY)
            try:
                # The other one may have ended before it came to this.
                write_fully(fd, 0, memoryview(header))
            finally:
                system.calls.close(fd)
        self._pending.add(name)

    def take_back(self, name: str) -> None:
        """Let a file that has got its name already be one in the making."""
        path = self.partial(name)
        with storage_errors(path):
            system.calls.rename(self.folder / name, path)

    def commit(self, names: Collection[str], whole: Collection[str]) -> None:
        """Make what has been written to some files durable, if it is meant to be.

        Those that are whole get their names.
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
        """Make what files hold durable, those that are open at once, and close these."""
        files = self._take(paths)
        with ExitStack() as open_files:
            for path, fd in files.items():
                open_files.callback(_close, path, fd)
            # Of a sync that fails as a whole it is not known whose fault that is.
            with storage_errors(self.folder):
                errors = system.calls.sync_all([*files.values()])
            for path, error in zip(files, errors, strict=True):
                if error is not None:
                    with storage_errors(path):
                        raise error
        for path in paths.values():
            # Another thread may have written the last of it, synced it and named it.
            if path not in files:
                with storage_errors(path), suppress(FileNotFoundError):
                    sync_data(path)

    def _sync_folders(self, folders: AbstractSet[str]) -> None:
        """Make the names in directories durable, and their own ones if that is to be done yet."""
        around = {str(above) for folder in folders for above in Path(folder, "_").parents}
        # One that is there already may have been made by a run that was killed.
        new = around - self._known - {"."}
        for folder in sorted(folders | {os.path.dirname(each) for each in new}):  # noqa: PTH120 - as above
            path = self.folder / folder
            with storage_errors(path):
                sync(path)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known |= new

    def leave_out(self, names: Collection[str]) -> None:
        """Remove files in the making that are not needed; some may never have been begun."""
        with self._lock:
            begun = self._pending.intersection(names)
        paths = {name: self._partial(name) for name in begun}
        with ExitStack() as open_files:
            for path, fd in self._take(paths).items():
                open_files.callback(_close, path, fd)
        for name, path in paths.items():
            with self._lock, storage_errors(path):
                system.calls.unlink(path)
                self._pending.discard(name)
        if self.durability is Durability.FSYNC:
            self._sync_folders({os.path.dirname(name) for name in begun})  # noqa: PTH120 - may be many

    def abandon(self, keep: Collection[str] = ()) -> None:
        """Remove files in the making, except some, and begin no more."""
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
                # Directories with something in them stay.
                with suppress(OSError):
                    system.calls.rmdir(self._made.pop())


def _close(path: str, fd: int) -> None:
    """Close a file that has been kept open."""
    _slots.free.release()
    with storage_errors(path):
        system.calls.close(fd)


def _is_low(fd: int) -> bool:
    """Tell whether many more files may be opened: a new one gets the lowest number that is free."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit == resource.RLIM_INFINITY or fd < limit // _PART_OPEN


def allocate(fd: int, n_bytes: int, *, reserve: bool) -> None:
    """Give a file its size and reserve its space, so that a full disk shows early."""
    # The size comes first: within it glibc, where it has to imitate what the filesystem
    # cannot do, reads before it writes, and so gives up instead of writing over data.
    system.calls.ftruncate(fd, n_bytes)
    if reserve and hasattr(os, "posix_fallocate"):
        try:
            system.calls.fallocate(fd, 0, n_bytes)
        except OSError as error:
            if error.errno not in _CANNOT_ALLOCATE:
                raise


def sync(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = system.calls.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        system.calls.fsync(fd)
    finally:
        system.calls.close(fd)


def sync_data(path: Path | str) -> None:
    """Make the content of a file of a run durable; its timestamps may be lost."""
    fd = regular.open_own(path, os.O_RDONLY)
    try:
        system.calls.fdatasync(fd)
    finally:
        system.calls.close(fd)


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file aside and give it its name when it is whole and durable."""
    publisher = Publisher(path.parent)
    try:
        publisher.begin(path.name, content, len(content))
        publisher.commit([path.name], [path.name])
    except BaseException:
        publisher.abandon()
        raise


def remove_folder(folder: Path) -> None:
    """Remove a folder and everything in it, if it exists; links in it are not followed.

    Raises
    ------
    StorageError
        If it is a link itself. The folder that it points to stays.
    """
    regular.refuse_link(folder)
    with suppress(FileNotFoundError):
        for path in list(folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                remove_folder(path)
            else:
                system.calls.unlink(path)
        system.calls.rmdir(folder)
