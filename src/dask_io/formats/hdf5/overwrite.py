"""Checks that replacing a file does not lose anything else in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.errors import DataError, UsageError, list_names
from dask_io.formats.hdf5.dataset import contents_of
from dask_io.formats.hdf5.file import in_subprocess_for_long, reading

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


def refuse_more(
    path: Path, known: Collection[str], replaced: Collection[str], *, may_be_broken: bool
) -> None:
    """Refuse to replace a file that contains more than the new file will.

    Parameters
    ----------
    path
        The existing file.
    known
        The contents of the new file, as `contents_of` returns them.
    replaced
        Datasets that are replaced together with their attributes.
    may_be_broken
        Whether an unreadable file may be replaced: a run did not finish it, or it is damaged.

    Raises
    ------
    UsageError
        If something would be lost, or the file cannot be read.
    """
    shown = str(path)
    try:
        found = contents_at(path)
    except DataError as error:
        if may_be_broken:
            return
        raise UsageError(
            f"{shown} cannot be read, so it is not overwritten: "
            f"{'; '.join(error.problems)}; remove it, or choose another file"
        ) from error
    gone = found.difference(known)
    others = sorted(name for name in gone if name.rpartition("@")[0] not in replaced)
    if others:
        raise UsageError(
            f"{shown} contains more, which would be lost: {list_names(others)}; choose another file"
        )


def contents_at(path: Path) -> set[str]:
    """Return the names of everything in a file."""
    return in_subprocess_for_long(path, _contents_at, path)


def _contents_at(path: Path) -> set[str]:
    with reading(path) as file:
        return contents_of(file)
