"""Checks before a run: disk space, number of files, open files."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dask_io.errors import RoomWarning, StorageError
from dask_io.storage.local.disk import below
from dask_io.storage.location import is_url
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.os_errors import storage_errors
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.stores.store import Source, Store, Target

# A visit to a block opens a file at most twice: through the page cache and with direct I/O.
_FILES_PER_WORKER = 2
# In addition to blocks, a target has metadata, and folders that may have to be created.
_MORE_FILES = 8


class Replaced(NamedTuple):
    """Files and bytes that are removed before anything is written."""

    n_files: int = 0
    n_bytes: int = 0


class Move(NamedTuple):
    """A source and the target that it is moved to."""

    source: Source
    target: Target

    @property
    def most_bytes(self) -> int:
        """The most bytes that the target takes on disk."""
        return self.target.grid.size * self.target.dtype.itemsize + self.more_bytes

    @property
    def more_bytes(self) -> int:
        """Bytes for headers, and for the unused part of the last page of each file."""
        return self.target.footprint.n_files * ALIGNMENT

    @property
    def has_gaps(self) -> bool:
        """Whether some blocks are absent, and the target omits them."""
        return self.target.footprint.leaves_out and self.source.n_absent != 0

    @property
    def may_shrink(self) -> bool:
        """Whether the target may be smaller than its array, because it has a codec or gaps."""
        return bool(self.target.metadata.get("codecs")) or self.has_gaps

    @property
    def likely_bytes(self) -> int:
        """The size of the target, assuming that of the source."""
        # Over HTTP the size is unknown.
        with suppress(StorageError):
            return min(self.most_bytes, self.source.n_bytes_on_disk + self.more_bytes)
        return self.most_bytes


def scratch_space(place: str) -> int:
    """Return the size of the largest array for which there is room for scratch blocks.

    They take as many bytes as the array. They are on the disk of the target `place`, which also
    needs room for the target. For an object store, they are in the temporary directory.
    """
    if is_url(place):
        return shutil.disk_usage(tempfile.gettempdir()).free
    disk = _disk_of(place)
    return (disk.f_bavail * disk.f_frsize + find_replaced(place).n_bytes) // 2


def share_disk(source: Store, target: Store) -> bool:
    """Whether two stores are on the same disk."""
    if is_url(source.place) or is_url(target.place):
        return False
    folders = _folder_of(source.place), _folder_of(target.place)
    return len({folder.stat().st_dev for folder in folders}) == 1


def check_before_run(
    moves: Sequence[Move],
    *,
    workers: int,
    scratch_bytes: int = 0,
    disk_bytes: int | None = None,
    replaced: Replaced | None = None,
) -> None:
    """Check that there is room for a run's arrays and files, and that it may open enough files.

    Targets on one disk share its room. Scratch blocks are next to the first target. For a single
    target, `disk_bytes` may give the total bytes needed, if this is less because the source is
    consumed. `replaced` may give what is removed first, if this is more than the content of the
    target's directory.

    Raises
    ------
    StorageError
        If a check fails.
    """
    check_open_files(moves[0].target, workers)
    by_disk: dict[int, list[Move]] = {}
    # Object stores have no limit.
    for move in (each for each in moves if not is_url(each.target.place)):
        by_disk.setdefault(_folder_of(move.target.place).stat().st_dev, []).append(move)
    for sharing in by_disk.values():
        check_inodes(sharing, replaced)
        scratch = scratch_bytes if moves[0] in sharing else 0
        array_bytes = None if disk_bytes is None else disk_bytes - scratch
        check_space(sharing, scratch, array_bytes, replaced)


def check_space(
    moves: Sequence[Move],
    scratch_bytes: int = 0,
    array_bytes: int | None = None,
    replaced: Replaced | None = None,
) -> None:
    """Check that a filesystem has room for the arrays of some targets, and for scratch blocks.

    Bytes that are `replaced`, by default the content of the targets' directories, count as free.
    Arrays need their full size, unless `array_bytes` is given. The size of encoded or sparse
    arrays is unknown. It is estimated as that of the source, and a lack of room is only a warning.

    Raises
    ------
    StorageError
        If there is not enough room.
    """
    targets = [move.target for move in moves]
    place, disk = targets[0].place, _disk_of(targets[0].place)
    free = disk.f_bavail * disk.f_frsize + (replaced or _replaced(targets)).n_bytes
    shrinking = [move for move in moves if move.may_shrink]
    least = sum(move.most_bytes for move in moves if not move.may_shrink)
    if array_bytes is not None and not shrinking:
        least = array_bytes + moves[0].more_bytes
    has = f"but only {format_bytes(free)} are free"
    if least + scratch_bytes > free:
        also = f", and {format_bytes(scratch_bytes)} for scratch blocks," if scratch_bytes else ""
        reason = f"{format_bytes(least)}{also} are needed, {has}"
        raise StorageError(place, reason, "free some space, or choose another target")
    left = free - least - scratch_bytes
    # The size of the source is determined only if it matters. A consumed source makes room.
    if array_bytes is not None or sum(move.most_bytes for move in shrinking) <= left:
        return
    if (likely := sum(move.likely_bytes for move in shrinking)) > left:
        needed = format_bytes(least + scratch_bytes + likely)
        is_whole = targets[0].is_indivisible
        advice = f"if it fills up, free some space and {'run it again' if is_whole else 'resume'}"
        message = f"{place}: {needed} may be needed, {has}; {advice}"
        warnings.warn(message, RoomWarning, stacklevel=2)


def check_inodes(moves: Sequence[Move], replaced: Replaced | None = None) -> None:
    """Check that a filesystem has room for the number of files of some targets.

    Files that are `replaced` count as free, as for `check_space`.

    Raises
    ------
    StorageError
        If there are not enough inodes.
    """
    targets = [move.target for move in moves]
    disk = _disk_of(targets[0].place)
    # Filesystems without a fixed number of inodes report 0.
    if not disk.f_files:
        return
    needed = sum(move.target.footprint.n_files for move in moves if not move.has_gaps)
    free = disk.f_favail + (replaced or _replaced(targets)).n_files
    if needed + _MORE_FILES > free:
        reason = f"the target needs {needed:,} files, but the filesystem has room for only {free:,}"
        advice = "use larger chunks, or choose another target"
        raise StorageError(targets[0].place, reason, advice)


def check_open_files(target: Target, workers: int) -> None:
    """Check that the process may open as many files as its threads need at once.

    Raises
    ------
    StorageError
        If the limit is too low.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return
    needed = _n_open_files() + _FILES_PER_WORKER * workers
    if needed > limit:
        reason = f"up to {needed:,} files are open at once, but the limit is {limit:,}"
        raise StorageError(target.place, reason, "raise it (ulimit -n), or use fewer --workers")


def _n_open_files() -> int:
    """Return the number of files that the process has open; 3 if the system does not tell."""
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # numbers, not paths
    return 3


def _disk_of(place: str) -> os.statvfs_result:
    folder = _folder_of(place)
    with storage_errors(folder):
        return os.statvfs(folder)


def _folder_of(place: str) -> Path:
    """Return the nearest existing folder of a place."""
    path = Path(place).absolute()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def find_replaced(*places: str) -> Replaced:
    """Count the content of directories; a single file stays until the new one is complete."""
    sizes: list[int] = []
    for place in places:
        with storage_errors(Path(place)):
            for entry in below(place) if Path(place).is_dir() else ():
                with suppress(FileNotFoundError):
                    if not entry.is_dir(follow_symlinks=False):
                        sizes.append(entry.stat(follow_symlinks=False).st_blocks * 512)
    return Replaced(len(sizes), sum(sizes))


def _replaced(targets: Sequence[Target]) -> Replaced:
    return find_replaced(*(target.place for target in targets))
