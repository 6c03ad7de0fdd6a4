"""What can be known to fail before anything is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.errors import StorageError
from dask_io.stores.files import storage_errors
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from dask_io.stores.store import Target


def check_space(target: Target) -> None:
    """Check that the target's filesystem has room for the array.

    Raises
    ------
    StorageError
        If it has not.
    """
    place = Path(target.place).absolute()
    folder = next(parent for parent in place.parents if parent.exists())
    with storage_errors(folder):
        disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    needed = target.grid.size * target.dtype.itemsize
    if needed > free:
        reason = f"{format_bytes(needed)} are needed, {format_bytes(free)} are free"
        raise StorageError(target.place, reason, "free some space, or choose another target")
