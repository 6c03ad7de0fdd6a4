"""Parse places: paths, patterns of block files, and arrays in containers; find their journals."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from dask_io.errors import DataError, UsageError
from dask_io.formats.registry import row_of
from dask_io.journal.journal import find_journal, is_unfinished, refuse_locked
from dask_io.storage.files import medium_of
from dask_io.storage.location import is_taken, locate
from dask_io.storage.os_errors import storage_errors
from dask_io.storage.own_names import is_scratch, target_of
from dask_io.stores.block_names import BlockNames
from dask_io.stores.container import INSIDE, split_place, stand_in_path
from dask_io.stores.listing import COPY_MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.storage.location import Location

_ZARR = "zarr"
# In an image that was made from one array, the journal belongs to its only level.
_LEVEL = "0"
# Formats of arrays in the directories of containers, by the suffix of the container.
_NESTED = {
    f".{_ZARR}": frozenset({None, _ZARR, "ome-zarr"}),
    ".n5": frozenset({None, "n5"}),
}
_FIELD = re.compile(r"(?<!\{)(?:\{\{)*\{[^{}]*\}")


def has_field(text: str) -> bool:
    """Tell whether a path is a pattern of files: it has a field for an axis, such as ``{0}``."""
    return _FIELD.search(text) is not None


def has_wildcard(name: str) -> bool:
    """Tell whether the last part of a path stands for several files, as in a shell.

    Examples
    --------
    >>> has_wildcard("*.npy"), has_wildcard("slice_???.npy"), has_wildcard("slice_{0}.npy")
    (True, True, False)
    """
    return not has_field(name) and ("*" in name or "?" in name)


def pattern_of(path: Location, n_axes: int = 0) -> BlockNames:
    """Return the names of block files for a pattern; `n_axes` is 0 if it is unknown.

    Raises
    ------
    UsageError
        If it is not a valid pattern.
    """
    if has_field(str(path.parent)) and not path.parent.is_dir():
        raise UsageError(f"{path} has fields outside the file name; put all of them there")
    try:
        return BlockNames(path.name, n_axes)
    except ValueError as error:
        raise UsageError(f"{path} is not a pattern of block files: {error}") from error


def split_inside(place: Location) -> tuple[Location, str]:
    """Split a place into a container and the path inside it; an existing path is not split."""
    if INSIDE not in str(place) or is_taken(place):
        return place, ""
    path, inside = split_place(str(place))
    return (locate(path) if isinstance(place, Path) else place.again(path)), inside


def split_target(place: Location, format: str | None) -> tuple[Location, str]:  # noqa: A002
    """Split the place of a target into the outermost container and a path inside it.

    Only names count: ``a.zarr/b`` and ``a.zarr/b::/c`` lie in ``a.zarr``, which need not exist.
    """
    root, inside = split_inside(place)
    named = row_of(root.name)
    path = f"{root}/{inside}".removesuffix("/")
    if (not inside and (format or named or has_field(place.name))) or ".." in path.split("/"):
        return root, inside
    for suffix, formats in _NESTED.items():
        is_one = format in formats and (named is None or named.name in formats)
        groups = [folder for folder in (root, *root.parents) if folder.suffix == suffix]
        if is_one and groups:
            return groups[-1], path.removeprefix(f"{groups[-1]}/")
    return root, inside


def name_in_group(place: Location) -> str:
    """Return the name of an array in a group, empty if it is in none, or is only numbered."""
    name = split_target(place, None)[1].rpartition("/")[2]
    return name if name.isidentifier() else ""


def refuse_inside(path: Location, inside: str) -> None:
    """Refuse a path inside a file or directory that is not a container.

    Raises
    ------
    UsageError
        If `inside` is not empty.
    """
    if inside:
        raise UsageError(f"{path} is not a container, so it cannot contain {inside}")


def holder_of(place: Location) -> Location:
    """Return the file or directory of a place, which may be inside a container."""
    path, inside = split_inside(place)
    row = row_of(path.name)
    is_one_file = path.is_file() or (row is not None and row.is_one_file)
    return path if is_one_file else path / inside


def is_absent(place: Location) -> bool:
    """Whether neither a place nor the container around it exists."""
    return not (holder_of(place).exists() or split_inside(place)[0].exists())


def journal_at(path: Location) -> Location | None:
    """Return the journal of the target at a path, if there is one."""
    if has_field(path.name) and not is_taken(path):
        return find_journal(path.parent)
    container, inside = split_inside(path)
    found = find_journal(holder_of(path))
    if found is None and inside and isinstance(container, Path):
        return find_journal(stand_in_path(container, inside))
    return found


def targets_in(path: Location) -> list[Location]:
    """Return the targets with a journal at a path: the path itself, or those in the directory."""
    if journal_at(path) is not None:
        return [path]
    if not path.is_dir():
        return []
    with storage_errors(path):
        # A file may not exist yet, although its journal next to it does. The scratch blocks of a
        # killed run are no target.
        listed = medium_of(path).names(path)
        names = {target_of(name) for name in listed if not is_scratch(name)}
    found = (_target_at(path / name) for name in sorted(names) if name)
    return [place for place in found if place is not None]


def _target_at(path: Location) -> Location | None:
    """Return the target with a journal at a path: itself, or the only level of an image there."""
    places = [path, path / _LEVEL] if path.suffix == f".{_ZARR}" else [path]
    return next((place for place in places if journal_at(place) is not None), None)


def advise_repair(place: object) -> str:
    """Return the advice for a damaged target."""
    return f"repair it with: dask-io repair {quote(str(place))}"


@contextmanager
def advising_repair(place: Location) -> Iterator[None]:
    """Add to a `DataError` the advice to repair the target, if Dask IO has written it."""
    try:
        yield
    except DataError as error:
        if error.advice not in {"", COPY_MISSING} or journal_at(place) is None:
            raise
        advice = advise_repair(place)
        raise DataError(error.place, error.problems, advice, error.n_found) from error


def refuse_unfinished(path: Location, *, named: Location | None = None) -> None:
    """Refuse an unfinished target, which could be mistaken for a complete, smaller array.

    `named` is the place that the user named, if the target is inside it.

    Raises
    ------
    DataError
        If the run that wrote it was interrupted.
    StorageError
        If another run is still writing it.
    """
    journal = journal_at(path)
    if journal is not None and is_unfinished(journal):
        # If the lock cannot be read, assume that no run holds it.
        with suppress(OSError):
            refuse_locked(journal)
        shown = str(path if named is None else named)
        raise DataError(
            shown,
            ["it is unfinished: the run that wrote it was interrupted or stopped at an error"],
            f"complete it with dask-io resume {quote(shown)}",
        )
