"""What can be known to fail before anything is written."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dask_io.errors import StorageError
from dask_io.stores.files import storage_errors
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from dask_io.stores.store import Target

# A visit to a block has a file open twice at the most: through the page cache and past it.
_FILES_A_WORKER = 2
# Beside the blocks a target has a description of itself, and folders that may have to be made.
_MORE_FILES = 8


def check_before_run(target: Target, *, workers: int) -> None:
    """Check that a run would find room for the array, for its files, and for those it opens.

    Raises
    ------
    StorageError
        If it would not.
    """
    check_open_files(target, workers)
    check_inodes(target)
    check_space(target)


def check_space(target: Target, *, needed: int | None = None) -> None:
    """Check that the target's filesystem has room for the array.

    What an earlier run left in the target's directory counts as free: it is removed first.
    With `needed`, there has to be room for so many bytes, for this target and others.

    Raises
    ------
    StorageError
        If it has not.
    """
    disk, replaced = _disk_of(target), _replaced(target)
    free = disk.f_bavail * disk.f_frsize + replaced.n_bytes
    if needed is None:
        needed = target.grid.size * target.dtype.itemsize
    if needed > free:
        reason = f"{format_bytes(needed)} are needed, {format_bytes(free)} are free"
        raise StorageError(target.place, reason, "free some space, or choose another target")


def check_inodes(target: Target) -> None:
    """Check that the target's filesystem can hold as many files more as there are blocks.

    Raises
    ------
    StorageError
        If it cannot.
    """
    disk, replaced = _disk_of(target), _replaced(target)
    # Filesystems without a fixed number of files say that they have 0 of them.
    if not disk.f_files:
        return
    needed, free = target.grid.n_blocks, disk.f_favail + replaced.n_files
    if needed + _MORE_FILES > free:
        reason = f"{needed:,} blocks are to be written, the filesystem can hold {free:,} files more"
        raise StorageError(target.place, reason, "use larger chunks, or choose another target")


def check_open_files(target: Target, workers: int) -> None:
    """Check that the process may have as many files open as its threads need at once.

    Raises
    ------
    StorageError
        If it may not.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return
    needed = _n_open_files() + _FILES_A_WORKER * workers
    if needed > limit:
        reason = f"up to {needed:,} files are open at once, the limit is {limit:,}"
        raise StorageError(target.place, reason, "raise it (ulimit -n), or use fewer --workers")


def _n_open_files() -> int:
    """Return how many files the process has open; where the system does not say, the usual 3."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # numbers, not paths
    return 3


def _disk_of(target: Target) -> os.statvfs_result:
    place = Path(target.place).absolute()
    folder = next(parent for parent in place.parents if parent.exists())
    if place.is_dir():
        folder = place
    with storage_errors(folder):
        return os.statvfs(folder)


class _Replaced(NamedTuple):
    n_files: int = 0
    n_bytes: int = 0


def _replaced(target: Target) -> _Replaced:
    """Count what is in the target's directory now; one file stays until the new one is whole."""
    place = Path(target.place)
    if not place.is_dir():
        return _Replaced()
    with storage_errors(place), os.scandir(place) as entries:
        sizes = [entry.stat(follow_symlinks=False).st_blocks * 512 for entry in entries]
    return _Replaced(len(sizes), sum(sizes))
