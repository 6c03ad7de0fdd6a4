"""Turn errors of the operating system into ours, with path and advice."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from dask_io.errors import StorageError

if TYPE_CHECKING:
    from types import TracebackType

    from dask_io.storage.location import Location

SPECIAL = "a pipe, a socket or a device"
"""The words in messages for anything that is not a regular file, a directory or a link."""


class storage_errors:  # noqa: N801 - used like a function
    """Context manager that turns the system's errors into ours, with path and advice."""

    __slots__ = ("_path",)

    def __init__(self, path: Location | str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, OSError):
            raise storage_error(self._path, error) from error


def storage_error(path: Location | str, error: OSError) -> StorageError:
    """Return our error for an error of the system."""
    reason, advice = error.strerror or str(error), ""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            advice = "free some space, or choose another target"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            advice = "check its permissions"
        case errno.ENOENT:
            reason, advice = "no such file or directory", "check the path"
        case errno.ENOTDIR:
            reason, advice = "a part of the path is a file, not a folder", "check the path"
        case errno.EISDIR:
            reason, advice = "is a directory, not a file", "move it away, or check the path"
        case errno.ENXIO | errno.ESPIPE:
            # System errors when a pipe or a socket is opened, or read at an offset.
            reason, advice = f"is {SPECIAL}, not a file", "check the path"
        case errno.EMFILE | errno.ENFILE:
            advice = "raise the limit of open files (ulimit -n)"
        case _:
            pass
    return StorageError(str(path), reason, advice)
