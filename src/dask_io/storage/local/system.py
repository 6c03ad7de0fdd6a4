"""The system calls that read and change local files.

Transport, publishing and journal make all their calls through `calls`. So tests can replace it, to
make the Nth call fail or to stop the process there.
"""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from dask_io.storage.local.syncing import syncing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dask_io.storage.local.syncing import Syncing


class System:
    """The real operating system; `at_once` syncs several files at once, if available."""

    def __init__(self, at_once: Syncing | None = None) -> None:
        self._at_once = at_once

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    preadv = staticmethod(os.preadv)
    pwrite = staticmethod(os.pwrite)
    pwritev = staticmethod(os.pwritev)
    ftruncate = staticmethod(os.ftruncate)
    if hasattr(os, "posix_fallocate"):  # not on macOS
        fallocate = staticmethod(os.posix_fallocate)
    fsync = staticmethod(os.fsync)
    # macOS has only fsync.
    fdatasync = staticmethod(getattr(os, "fdatasync", os.fsync))
    rename = staticmethod(os.replace)
    unlink = staticmethod(os.unlink)
    mkdir = staticmethod(os.mkdir)
    rmdir = staticmethod(os.rmdir)

    @staticmethod
    def set_flags(fd: int, flags: int) -> None:
        """Set the status flags of an open file."""
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)

    @staticmethod
    def lock(fd: int) -> None:
        """Lock a file for as long as it is open; fail if another process has it locked."""
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def sync_all(self, fds: Sequence[int], *, only_data: bool = True) -> list[OSError | None]:
        """Call `fdatasync` for several files, at once if possible; return the error of each.

        Directories need `fsync`, which is called unless `only_data`. A file is never synced again
        after an error, because that would succeed.
        """
        at_once = self._at_once if len(fds) > 1 else None
        errors = at_once.sync(fds, only_data=only_data) if at_once else []
        sync = self.fdatasync if only_data else self.fsync
        return errors + [_error_of(sync, fd) for fd in fds[len(errors) :]]


def _error_of(sync: Callable[[int], object], fd: int) -> OSError | None:
    try:
        sync(fd)
    except OSError as error:
        return error
    return None


calls = System(syncing())
