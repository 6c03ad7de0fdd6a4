"""HDF5 files: opening untrusted ones safely, finding datasets, and creating files in memory.

Links to other files are not followed. Any error of HDF5 becomes one line. HDF5 may crash or hang
on a damaged file, so files that others wrote are opened only in a subprocess.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import h5py  # type: ignore[import-untyped]

from dask_io.errors import MOST_NAMES, DaskIOError, DataError, StorageError, UsageError, list_names
from dask_io.formats.hdf5.scales import HIDDEN, is_bare
from dask_io.formats.isolation import WORKER, Limits
from dask_io.storage.local import regular_files as regular
from dask_io.storage.os_errors import storage_errors
from dask_io.stores.container import INSIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

_MOST_LINKS = 16
_LONGEST_REASON = 200
# Additional CPU seconds to read or create ten thousand datasets.
_LONG = 60


def in_subprocess(path: Path, function: Callable[[*Ts], R], *args: *Ts) -> R:
    """Call a function that reads a file in a subprocess, where HDF5 may crash.

    Raises
    ------
    StorageError
        If the file is absent or cannot be read.
    DataError
        If HDF5 crashes on it, or takes too long.
    """
    return _call_in_subprocess(path, 0, function, *args)


def in_subprocess_for_long(path: Path, function: Callable[[*Ts], R], *args: *Ts) -> R:
    """Call a function as `in_subprocess` does, with more time, for files with many datasets."""
    return _call_in_subprocess(path, _LONG, function, *args)


def _call_in_subprocess(
    path: Path, more_seconds: int, function: Callable[[*Ts], R], *args: *Ts
) -> R:
    with storage_errors(path):
        limits = Limits.for_file(path.stat().st_size)
    limits = limits._replace(seconds=limits.seconds + more_seconds)
    with understanding(path):
        return WORKER.call(limits, function, *args)


@contextmanager
def reading(path: Path) -> Iterator[Any]:
    """Open a file for reading; call this `in_subprocess` only.

    Raises
    ------
    StorageError
        If it is absent or cannot be read.
    DataError
        If HDF5 cannot make sense of it.
    """
    with storage_errors(path):
        os.close(regular.open_to_read(path))
    with understanding(path), h5py.File(path, "r", locking="best-effort") as file:
        yield file


@contextmanager
def understanding(path: Path) -> Iterator[None]:
    """Turn any exception of HDF5 on a damaged file into an error of one line."""
    try:
        yield
    except DaskIOError:
        raise
    except ValueError as error:
        raise DataError(str(path), [brief(error)]) from error
    except Exception as error:  # the library raises many kinds
        raise DataError(str(path), [f"is not a valid HDF5 file: {brief(error)}"]) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn exceptions while HDF5 writes into a `StorageError`."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        with storage_errors(path):
            if isinstance(error, OSError) and error.errno is not None:
                # The reason alone, without the long message of HDF5.
                raise OSError(error.errno, os.strerror(error.errno)) from error
        raise StorageError(str(path), f"HDF5 cannot write: {brief(error)}") from error


def open_own(path: Path, mode: str, **options: Any) -> Any:
    """Open an unfinished file of this run for writing, and check that it was not replaced.

    Raises
    ------
    StorageError
        If another file has taken its name.
    """
    before = regular.check_own(path)
    file = h5py.File(path, mode, **options)
    if not os.path.samestat(before, os.fstat(file.id.get_vfd_handle())):
        file.close()
        raise StorageError(
            str(path), "was replaced while it was being opened", "run the command again"
        )
    return file


@contextmanager
def silenced() -> Iterator[None]:
    """Suppress errors that h5py prints while it releases objects; the cause was already raised."""
    hooks = sys.excepthook, sys.unraisablehook
    sys.excepthook, sys.unraisablehook = lambda *_: None, lambda _: None
    try:
        yield
    finally:
        sys.excepthook, sys.unraisablehook = hooks


def brief(error: BaseException) -> str:
    """Return the message of an exception in one line of bounded length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:_LONGEST_REASON]


@contextmanager
def in_memory(image: bytes | None = None, *, in_order: bool = False) -> Iterator[Any]:
    """Open a file in memory: a new one, or the image that `image_of` returned.

    If `in_order`, HDF5 tracks the order in which members of a new file are created.
    """
    if image is None:
        # HDF5 identifies even files in memory by their names.
        file = h5py.File(
            secrets.token_hex(), "w-", driver="core", backing_store=False, track_order=in_order
        )
    else:
        file = h5py.File(h5py.h5f.open_file_image(image))
    with file:
        yield file


def image_of(file: Any) -> bytes:
    """Return a file in memory as the bytes that it would be on disk."""
    file.flush()
    return bytes(file.id.get_file_image())


def find_dataset(file: Any, path: Path, inside: str) -> Any:
    """Return the dataset at a path in a file; without a path, the only dataset.

    Raises
    ------
    UsageError
        If it does not exist, or there are several without a path.
    DataError
        If the path leads through a link to another file.
    """
    found = _follow(file, path, inside) if inside else file
    if isinstance(found, h5py.Dataset):
        return _with_values(found, path) if is_bare(found) else found
    names = dataset_names(found)
    if isinstance(found, h5py.Group) and len(names) == 1:
        return found[names[0]]
    raise UsageError(_which_dataset(path, inside, names))


def _with_values(bare: Any, path: Path) -> Any:
    """Return the variable with the same name as a dimension that has no values itself."""
    name = bare.name.rpartition("/")[2]
    found = bare.parent.get(f"{HIDDEN}{name}")
    if isinstance(found, h5py.Dataset):
        return found
    shown = f"{path}{INSIDE}{bare.name}"
    others = _which_dataset(path, "", dataset_names(bare.file))
    raise UsageError(f"{shown} is a dimension without values; {others}")


def _follow(file: Any, path: Path, inside: str) -> Any:
    here, names, n_links = file, deque(inside.split("/")), 0
    shown = f"{path}{INSIDE}/{inside}"
    while names:
        name = names.popleft()
        link = here.get(name, getlink=True) if isinstance(here, h5py.Group) else None
        if link is None:
            raise UsageError(
                f"{shown} does not exist; {_which_dataset(path, '', dataset_names(file))}"
            )
        if isinstance(link, h5py.ExternalLink):
            raise DataError(shown, ["is a link to another file, which is not followed"])
        if isinstance(link, h5py.SoftLink):
            n_links += 1
            if n_links > _MOST_LINKS:
                raise DataError(shown, ["has a chain of links that is too long or circular"])
            here = file if link.path.startswith("/") else here
            parts = [part for part in link.path.split("/") if part not in {"", "."}]
            names.extendleft(reversed(parts))
        else:
            here = here[name]
    return here


def make_groups(file: Any, inside: str, *, in_order: bool) -> Any:
    """Create missing groups along a path; return the innermost one."""
    group = file
    for name in inside.split("/")[:-1]:
        is_new = name not in group
        group = group.create_group(name, track_order=in_order) if is_new else group[name]
    return group


def dataset_names(group: Any, *, scalars: bool = False) -> list[str]:
    """Return the names of some datasets in a group.

    Dimension scales, and datasets without axes unless `scalars`, count only if there are no others.
    """
    datasets: list[str] = []
    scales: list[str] = []

    def note(name: str, found: Any) -> bool | None:
        if isinstance(found, h5py.Dataset):
            describes = found.is_scale or not (found.shape or scalars)
            (scales if describes else datasets).append(name)
        return len(datasets) > MOST_NAMES or None

    if isinstance(group, h5py.Group):
        group.visititems(note)
    return datasets or scales


def object_names(file: Any) -> list[str]:
    """Return the last part of the names of everything in a file."""
    names: list[str] = []
    file.visit(lambda name: names.append(name.rpartition("/")[2]))
    return names


def _which_dataset(path: Path, inside: str, names: list[str]) -> str:
    above = f"{path}{INSIDE}/{inside}".rstrip("/")
    if not names:
        return f"{above} contains no dataset"
    listed = list_names(f"{above}/{name}" for name in sorted(names))
    return f"give a dataset of {path}, such as {listed}"
