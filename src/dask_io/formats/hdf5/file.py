"""HDF5 files: opened with care, searched for a dataset, made in memory.

A file may come from anyone. Links that lead to other files are not followed, and whatever HDF5
makes of a broken file becomes one line. It may crash or never end on one, so that files of others
are opened only in a process that may.
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
# Seconds of the processor in which ten thousand datasets are looked at and made.
_LONG = 60


def in_subprocess(path: Path, function: Callable[[*Ts], R], *args: *Ts) -> R:
    """Have a function look into a file where HDF5 may crash, and return what it returns.

    Raises
    ------
    StorageError
        If the file is absent or cannot be read.
    DataError
        If HDF5 crashes on it, or does not come to an end.
    """
    return _apart(path, 0, function, *args)


def apart_for_long(path: Path, function: Callable[[*Ts], R], *args: *Ts) -> R:
    """Have a function do all that there is to do with a file of many datasets; else as `apart`."""
    return _apart(path, _LONG, function, *args)


def _apart(path: Path, more_seconds: int, function: Callable[[*Ts], R], *args: *Ts) -> R:
    with storage_errors(path):
        limits = Limits.for_file(path.stat().st_size)
    limits = limits._replace(seconds=limits.seconds + more_seconds)
    with understanding(path):
        return WORKER.call(limits, function, *args)


@contextmanager
def reading(path: Path) -> Iterator[Any]:
    """Open a file to look into it, which is done `apart`.

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
    """Turn whatever HDF5 says of a broken file into one line."""
    try:
        yield
    except DaskIOError:
        raise
    except ValueError as error:
        raise DataError(str(path), [brief(error)]) from error
    except Exception as error:  # the library raises many kinds
        raise DataError(str(path), [f"is no good HDF5 file: {brief(error)}"]) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what goes wrong when HDF5 writes into an error of storage."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        with storage_errors(path):
            if isinstance(error, OSError) and error.errno is not None:
                # Without all that HDF5 tells about it.
                raise OSError(error.errno, os.strerror(error.errno)) from error
        raise StorageError(str(path), f"HDF5 cannot write: {brief(error)}") from error


def open_own(path: Path, mode: str, **options: Any) -> Any:
    """Open an unfinished file of a run for writing with HDF5, and make sure that it is that file.

    Raises
    ------
    StorageError
        If something else has its name.
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
def unheard() -> Iterator[None]:
    """Have h5py say nothing of what it cannot let go of properly: the error is known by then."""
    hooks = sys.excepthook, sys.unraisablehook
    sys.excepthook, sys.unraisablehook = lambda *_: None, lambda _: None
    try:
        yield
    finally:
        sys.excepthook, sys.unraisablehook = hooks


def brief(error: BaseException) -> str:
    """Return what an exception says, in one line of bounded length."""
    said = " ".join(str(error).split()) or type(error).__name__
    return said[:_LONGEST_REASON]


@contextmanager
def in_memory(image: bytes | None = None, *, in_order: bool = False) -> Iterator[Any]:
    """Open a file that is nowhere but in memory: a new one, or one that `image_of` returned.

    A new one may remember in which order things are put into it.
    """
    if image is None:
        # HDF5 tells files apart by their names, even those that are nowhere.
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
    """Return the dataset of this path in a file; without a path, the only one that there is.

    Raises
    ------
    UsageError
        If there is none, or several.
    DataError
        If the way to it leads to another file.
    """
    found = _follow(file, path, inside) if inside else file
    if isinstance(found, h5py.Dataset):
        return _with_values(found, path) if is_bare(found) else found
    names = dataset_names(found)
    if isinstance(found, h5py.Group) and len(names) == 1:
        return found[names[0]]
    raise UsageError(_which_dataset(path, inside, names))


def _with_values(bare: Any, path: Path) -> Any:
    """Return the variable that has the name of a dimension, which has no values itself."""
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
                f"{shown} is not there; {_which_dataset(path, '', dataset_names(file))}"
            )
        if isinstance(link, h5py.ExternalLink):
            raise DataError(shown, ["leads to another file, which is not followed"])
        if isinstance(link, h5py.SoftLink):
            n_links += 1
            if n_links > _MOST_LINKS:
                raise DataError(shown, ["is reached only through a circle of links"])
            here = file if link.path.startswith("/") else here
            parts = [part for part in link.path.split("/") if part not in {"", "."}]
            names.extendleft(reversed(parts))
        else:
            here = here[name]
    return here


def make_groups(file: Any, inside: str, *, in_order: bool) -> Any:
    """Make the groups that a path leads through, if they are not there; return the last one."""
    group = file
    for name in inside.split("/")[:-1]:
        is_new = name not in group
        group = group.create_group(name, track_order=in_order) if is_new else group[name]
    return group


def dataset_names(group: Any, *, scalars: bool = False) -> list[str]:
    """Return the names of some datasets in a group; what only describes others if that is all.

    Of datasets without axes that is taken for granted, unless they are asked for.
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
        return f"{above} holds no dataset"
    listed = list_names(f"{above}/{name}" for name in sorted(names))
    return f"name a dataset of {path}, such as {listed}"
