"""Open regular files safely, even if a link or a pipe has been put in their place.

Anyone with permission to write to a folder can put something else in the place of a file that is
about to be read or written: a link to another file, a pipe that never answers, a device. There are
three ways to open a file, and every file on a local disk is opened in one of them:

- `make`: a new file of a run. Anything that has its name is removed, never written to.
- `open_own`: a file that a run has made, to continue with it. Links are not followed.
- `open_to_read`: any other file. Links are followed, because users create them.

A file that a library opens by name is checked first, with `check_own` or `check_to_read`.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from dask_io.errors import StorageError
from dask_io.storage.local import system
from dask_io.storage.os_errors import SPECIAL

if TYPE_CHECKING:
    from pathlib import Path

# O_NONBLOCK: opening a pipe would wait for a writer. It has no effect on regular files.
TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_WRITES = os.O_WRONLY | os.O_RDWR
_MODE = 0o666
_REMOVE = "remove it, and run the command again"


def make(path: Path | str, flags: int = 0) -> int:
    """Create an empty file and open it for writing; replace leftovers of a killed run."""
    flags |= _NEW
    try:
        return system.calls.open(path, flags, _MODE)
    except FileExistsError:
        # If it is a link, this removes the link, not the file that it points to.
        system.calls.unlink(path)
        return system.calls.open(path, flags, _MODE)


def open_own(path: Path | str, flags: int) -> int:
    """Open a file that a run has made; create it if the flags include O_CREAT.

    Raises
    ------
    StorageError
        If something else has its name.
    """
    try:
        fd = system.calls.open(path, flags | _OWN, _MODE)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):  # noqa: PTH114 - may be a string
            raise _not_own(path, "is a symbolic link") from error
        raise
    try:
        _check_own(path, os.fstat(fd), writes=bool(flags & _WRITES))
    except BaseException:
        system.calls.close(fd)
        raise
    return fd


def check_own(path: Path) -> os.stat_result:
    """Check a file that a run has made and that a library is about to write to.

    Raises
    ------
    StorageError
        If something else has its name.
    """
    found = path.lstat()
    _check_own(path, found, writes=True)
    return found


def refuse_link(folder: Path | str) -> None:
    """Refuse a link in place of a folder that a run makes or has made.

    Raises
    ------
    StorageError
        If it is a link.
    """
    if os.path.islink(folder):  # noqa: PTH114 - may be many
        reason = "is a symbolic link, not a folder that a run has made"
        raise StorageError(str(folder), reason, _REMOVE)


def _check_own(path: Path | str, found: os.stat_result, *, writes: bool) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _not_own(path, "is a symbolic link")
    if not stat.S_ISREG(found.st_mode):
        raise _not_own(path, f"is {_kind(found)}")
    if writes and found.st_nlink > 1:
        raise _not_own(path, "is a file that also has another name (a hard link)")


def _not_own(path: Path | str, what: str) -> StorageError:
    return StorageError(str(path), f"{what}, not a file that a run has made", _REMOVE)


def open_to_read(path: Path | str) -> int:
    """Open a file to read it; links are followed.

    Raises
    ------
    StorageError
        If it is not a regular file.
    """
    fd = system.calls.open(path, TO_READ)
    try:
        check_to_read(path, os.fstat(fd))
    except BaseException:
        system.calls.close(fd)
        raise
    return fd


def check_to_read(path: Path | str, found: os.stat_result) -> None:
    """Refuse to read anything but a regular file.

    Raises
    ------
    StorageError
        If it is not a regular file.
    """
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(str(path), f"is {_kind(found)}, not a file", "check the path")


def _kind(found: os.stat_result) -> str:
    return "a directory" if stat.S_ISDIR(found.st_mode) else SPECIAL
