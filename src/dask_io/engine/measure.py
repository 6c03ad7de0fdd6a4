"""Find the device of a folder: from the system's tables or, on request, by measuring it."""

from __future__ import annotations

import os
import random
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from dask_io.errors import UsageError
from dask_io.planning.device import DEVICES, HDD, NFS, NVME, S3, SSD, Device
from dask_io.storage.local.transport import write_fully
from dask_io.storage.location import is_url
from dask_io.storage.os_errors import storage_errors

if TYPE_CHECKING:
    from collections.abc import Callable

MEASURED = "measured"
"""Name of a device that has been measured."""

# Network filesystems, filesystems backed by an object store, and filesystems in memory.
_NETWORK = re.compile(
    r"(?:nfs\d?|cifs|smb\d|smbfs|ceph|lustre|gpfs|glusterfs|beegfs|afs|9p|virtiofs)"
    r"|fuse\.(?:sshfs|glusterfs|ceph|cephfs|juicefs|rclone)"
)
_OBJECTS = re.compile(r"fuse\.(?:s3fs|goofys|geesefs|mount-s3|mountpoint-s3|gcsfuse|blobfuse\d?)")
_MEMORY = re.compile(r"tmpfs|ramfs|devtmpfs")
_VIRTUAL = re.compile(r"x?vd[a-z]")

# The most bytes written and read back, in pieces, and the longest time of a phase. The four phases
# take at most about two seconds.
_MOST_BYTES, _PIECE_BYTES, _SEEK_BYTES = 32 * 2**20, 2**20, 4096
_MOST_SECONDS, _MOST_TIMES = 0.4, 256


def device_of(path: str | os.PathLike[str], *, system: Path = Path("/")) -> Device:
    """Return the preset for the filesystem of a path, which need not exist.

    Nothing is measured. If the system has no information, an SSD is assumed.

    Parameters
    ----------
    path
        A file or folder, which need not exist, or the URL of an object store.
    system
        The root directory of the kernel's tables.
    """
    if is_url(path):
        return S3
    with suppress(OSError, ValueError):
        mount = _mount_of(existing_folder(path), system / "proc" / "mounts")
        if mount is None:
            return SSD
        return _kind(mount.kind) or _disk(mount.device, system)
    return SSD


def _kind(filesystem: str) -> Device | None:
    """Return the device for a type of filesystem, None if the type does not tell."""
    if _NETWORK.fullmatch(filesystem):
        return NFS
    if _OBJECTS.fullmatch(filesystem):
        return S3
    return NVME if _MEMORY.fullmatch(filesystem) else None


def find_device(name: str | None, *places: str | os.PathLike[str]) -> Device:
    """Return the device with this name; by default the slowest device of the places.

    Parameters
    ----------
    name
        Name of a preset; ``"measured"``, to measure the last of the places; or None.
    places
        The places of the source and, last, of the target.

    Raises
    ------
    UsageError
        If the name is unknown, or there is no place to measure.
    """
    check_device_name(name)
    if name == MEASURED:
        if not places:
            raise UsageError(
                f"device {MEASURED!r} needs a folder to measure; give a source, or choose one of "
                f"{', '.join(DEVICES)}"
            )
        return measure_device(places[-1])
    if name is not None:
        return DEVICES[name]
    found = [device_of(place) for place in places] or [SSD]
    return max(found, key=lambda device: device.seek_seconds + device.request_latency)


def are_apart(source: str, target: str) -> bool:
    """Tell whether two places are on different devices, which can work at the same time.

    This is assumed for different filesystems and for object stores, but not if nothing is known.
    """
    if is_url(source) or is_url(target):
        return True
    with suppress(OSError):
        devices = {existing_folder(place).stat().st_dev for place in (source, target)}
        return len(devices) > 1
    return False


def check_device_name(name: str | None) -> None:
    """Check the name of a device.

    Raises
    ------
    UsageError
        If the name is unknown.
    """
    known = [*DEVICES, MEASURED]
    if name is not None and name not in known:
        raise UsageError(f"unknown device {name!r}; choose one of {', '.join(known)}")


def existing_folder(path: str | os.PathLike[str]) -> Path:
    """Return the path itself, if it is a folder, or its nearest existing parent."""
    place = Path(path).absolute()
    return next(each for each in (place, *place.parents) if each.is_dir())


class _Mount(NamedTuple):
    device: str
    folder: str
    kind: str


def _mount_of(folder: Path, table: Path) -> _Mount | None:
    """Return the mount of a folder: the deepest, and of equally deep ones the latest."""
    found = None
    resolved = folder.resolve()
    for line in table.read_text(errors="surrogateescape").splitlines():
        device, point, kind = line.split()[:3]
        mount = _Mount(device, _unescaped(point), kind)
        deeper = found is None or len(mount.folder) >= len(found.folder)
        if deeper and resolved.is_relative_to(mount.folder):
            found = mount
    return found


def _unescaped(word: str) -> str:
    """Undo the kernel's escaping of spaces and other characters."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), word)


def _disk(device: str, system: Path) -> Device:
    """Return the preset for a block device, or for the disk of a partition."""
    name = (system / device.lstrip("/")).resolve().name
    entry = (system / "sys" / "class" / "block" / name).resolve()
    for folder in (entry, entry.parent):
        flag = folder / "queue" / "rotational"
        if flag.exists():
            # Virtual disks report a default that means nothing.
            if flag.read_text().strip() == "1" and not _VIRTUAL.match(folder.name):
                return HDD
            return NVME if folder.name.startswith("nvme") else SSD
    return SSD


def measure_device(folder: str | os.PathLike[str]) -> Device:
    """Measure a folder with a temporary file of at most 32 MiB, in about two seconds.

    The concurrency is taken from the preset, not measured. Caches of the device or of the system
    make it appear faster.

    Parameters
    ----------
    folder
        The folder to measure; if it is a file or missing, the nearest existing parent.

    Raises
    ------
    StorageError
        If nothing can be written there.
    UsageError
        If it is in an object store.
    """
    if is_url(folder):
        raise UsageError(
            f"device {MEASURED!r} needs a local folder, but {folder} is in an "
            f"object store; choose one of {', '.join(DEVICES)}"
        )
    place = existing_folder(folder)
    with (
        storage_errors(place),
        tempfile.NamedTemporaryFile(dir=place, prefix=".dask-io-", suffix=".part") as file,
    ):
        fd = file.fileno()
        n_bytes, writing = _measure_writing(fd)
        _forget(fd)
        reading = _measure_reading(fd, n_bytes)
        _forget(fd)
        seek = _measure_seeks(fd, n_bytes)
        opening = _time_each(lambda: os.close(os.open(file.name, os.O_RDONLY | os.O_CLOEXEC)))
    # The measured time of a run is the sum of seek and request.
    return Device(
        MEASURED,
        seek_seconds=max(0.0, seek - opening),
        read_bandwidth=reading,
        write_bandwidth=writing,
        request_latency=opening,
        concurrency=device_of(place).concurrency,
    )


def _measure_writing(fd: int) -> tuple[int, float]:
    """Write a file; return the number of bytes written and the bytes per second."""
    # Random data does not compress.
    piece = memoryview(random.Random(0).randbytes(_PIECE_BYTES))  # noqa: S311  # data, no secret
    n_bytes, started = 0, perf_counter()
    while n_bytes < _MOST_BYTES and perf_counter() - started < _MOST_SECONDS:
        write_fully(fd, n_bytes, piece)
        n_bytes += len(piece)
        os.fsync(fd)
    return n_bytes, n_bytes / _since(started)


def _measure_reading(fd: int, n_bytes: int) -> float:
    n_read, started = 0, perf_counter()
    while n_read < n_bytes and perf_counter() - started < _MOST_SECONDS:
        n_read += len(os.pread(fd, _PIECE_BYTES, n_read))
    return n_read / _since(started)


def _measure_seeks(fd: int, n_bytes: int) -> float:
    places = random.Random(0)  # noqa: S311  # places, no secrets
    n_places = n_bytes // _SEEK_BYTES
    return _time_each(lambda: os.pread(fd, _SEEK_BYTES, places.randrange(n_places) * _SEEK_BYTES))


def _time_each(act: Callable[[], object]) -> float:
    """Call a function repeatedly for a while, and return the mean time."""
    n_times, started = 0, perf_counter()
    while n_times < _MOST_TIMES and perf_counter() - started < _MOST_SECONDS:
        act()
        n_times += 1
    return _since(started) / n_times


def _since(started: float) -> float:
    return max(perf_counter() - started, 1e-9)


def _forget(fd: int) -> None:
    """Drop a file from the page cache, if the system supports this."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
