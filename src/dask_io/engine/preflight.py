"""What can be known to fail before anything is written."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dask_io.errors import RoomWarning, StorageError, printable
from dask_io.storage.local.disk import below
from dask_io.storage.location import is_url
from dask_io.storage.medium import ALIGNMENT
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.store import Indivisible, absent_in, footprint_of
from dask_io.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dask_io.stores.store import Source, Store, Target

# A visit to a block has a file open twice at the most: through the page cache and past it.
_FILES_A_WORKER = 2
# Beside the blocks a target has a description of itself, and folders that may have to be made.
_MORE_FILES = 8


class Replaced(NamedTuple):
    """What goes before anything is written."""

    n_files: int = 0
    n_bytes: int = 0


class Move(NamedTuple):
    """An array on its way from a source to a target."""

    source: Source
    target: Target

    @property
    def most_bytes(self) -> int:
        """What the target takes on disk at most."""
        return self.target.grid.size * self.target.dtype.itemsize + self.more_bytes

    @property
    def more_bytes(self) -> int:
        """What headers take, and what is left of the last page of each file."""
        return footprint_of(self.target).n_files * ALIGNMENT

    @property
    def has_gaps(self) -> bool:
        """Whether blocks are not stored on either side."""
        return footprint_of(self.target).leaves_out and absent_in(self.source) != 0

    @property
    def may_shrink(self) -> bool:
        """Whether the target may take less than its array: it is encoded, or has gaps."""
        return bool(self.target.metadata.get("codecs")) or self.has_gaps

    @property
    def likely_bytes(self) -> int:
        """What the target takes, if as much as the source does."""
        # Over HTTP nobody can tell.
        with suppress(StorageError):
            return min(self.most_bytes, self.source.n_bytes_on_disk + self.more_bytes)
        return self.most_bytes


def free_space(target: Target) -> int:
    """Return the bytes that are left on a target's disk once its array is there; at least 0.

    What is spilled on the way to an object store goes to the folder for temporary files.
    """
    if is_url(target.place):
        return shutil.disk_usage(tempfile.gettempdir()).free
    disk = _disk_of(target)
    free = disk.f_bavail * disk.f_frsize + _replaced([target]).n_bytes
    return max(0, free - target.grid.size * target.dtype.itemsize)


def share_disk(source: Store, target: Store) -> bool:
    """Whether two stores lie on one disk."""
    if is_url(source.place) or is_url(target.place):
        return False
    return _folder_of(source).stat().st_dev == _folder_of(target).stat().st_dev


def check_before_run(
    moves: Sequence[Move],
    *,
    workers: int,
    scratch_bytes: int = 0,
    disk_bytes: int | None = None,
    replaced: Replaced | None = None,
) -> None:
    """Check that a run would find room for its arrays, for its files, and for those it opens.

    Targets on one disk share its room. Scratch blocks lie beside the first target. Of a single
    target, `disk_bytes` may say how much it takes in all, if that is less because a source is
    used up, and `replaced` what goes before, if it is more than what is in the target's directory.

    Raises
    ------
    StorageError
        If it would not.
    """
    check_open_files(moves[0].target, workers)
    by_disk: dict[int, list[Move]] = {}
    # Object stores take whatever comes.
    for move in (each for each in moves if not is_url(each.target.place)):
        by_disk.setdefault(_folder_of(move.target).stat().st_dev, []).append(move)
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

    What is `replaced` counts as free, by default what an earlier run left in the targets'
    directories. Arrays take up as much as they hold, unless `array_bytes` says otherwise. Of those
    that may take less, nobody knows how much: what they have where they are is a guess, and more
    than that is only warned of.

    Raises
    ------
    StorageError
        If it has not.
    """
    targets = [move.target for move in moves]
    place, disk = targets[0].place, _disk_of(targets[0])
    free = disk.f_bavail * disk.f_frsize + (replaced or _replaced(targets)).n_bytes
    shrinking = [move for move in moves if move.may_shrink]
    least = sum(move.most_bytes for move in moves if not move.may_shrink)
    if array_bytes is not None and not shrinking:
        least = array_bytes + moves[0].more_bytes
    has = f"{format_bytes(free)} are free"
    if least + scratch_bytes > free:
        also = f", and {format_bytes(scratch_bytes)} for scratch blocks," if scratch_bytes else ""
        reason = f"{format_bytes(least)}{also} are needed, {has}"
        raise StorageError(place, reason, "free some space, or choose another target")
    left = free - least - scratch_bytes
    # What a source takes is only looked for if it matters; if it is used up, it makes room.
    if array_bytes is not None or sum(move.most_bytes for move in shrinking) <= left:
        return
    if (likely := sum(move.likely_bytes for move in shrinking)) > left:
        needed = format_bytes(least + scratch_bytes + likely)
        is_whole = isinstance(targets[0], Indivisible) and targets[0].is_indivisible
        advice = f"if it fills up, free some space and {'run it again' if is_whole else 'resume'}"
        said = f"{printable(place)}: {needed} may be needed, {has}; {advice}"
        warnings.warn(said, RoomWarning, stacklevel=2)


def check_inodes(moves: Sequence[Move], replaced: Replaced | None = None) -> None:
    """Check that a filesystem can hold as many files more as some targets have.

    What is `replaced` counts as free, as for `check_space`.

    Raises
    ------
    StorageError
        If it cannot.
    """
    targets = [move.target for move in moves]
    disk = _disk_of(targets[0])
    # Filesystems without a fixed number of files say that they have 0 of them.
    if not disk.f_files:
        return
    needed = sum(footprint_of(move.target).n_files for move in moves if not move.has_gaps)
    free = disk.f_favail + (replaced or _replaced(targets)).n_files
    if needed + _MORE_FILES > free:
        reason = f"{needed:,} blocks are to be written, the filesystem can hold {free:,} files more"
        advice = "use larger chunks, or choose another target"
        raise StorageError(targets[0].place, reason, advice)


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


def _disk_of(target: Store) -> os.statvfs_result:
    folder = _folder_of(target)
    with storage_errors(folder):
        return os.statvfs(folder)


def _folder_of(target: Store) -> Path:
    """Return the folder nearest to a store that is there already."""
    place = Path(target.place).absolute()
    return next(folder for folder in (place, *place.parents) if folder.is_dir())


def find_replaced(*places: str) -> Replaced:
    """Count what is in directories now; a single file stays until the new one is whole."""
    sizes: list[int] = []
    for place in places:
        with storage_errors(Path(place)):
            sizes += [
                entry.stat(follow_symlinks=False).st_blocks * 512
                for entry in (below(place) if Path(place).is_dir() else ())
                if not entry.is_dir(follow_symlinks=False)
            ]
    return Replaced(len(sizes), sum(sizes))


def _replaced(targets: Sequence[Target]) -> Replaced:
    return find_replaced(*(target.place for target in targets))
