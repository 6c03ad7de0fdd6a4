"""What would be lost if a file were replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dask_io.errors import DataError, UsageError, list_names
from dask_io.formats.hdf5.dataset import contents_of
from dask_io.formats.hdf5.file import apart_for_long, reading

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


def refuse_more(
    path: Path, known: Collection[str], replaced: Collection[str], *, may_be_broken: bool
) -> None:
    """Refuse to replace a file that holds more than what is known to come.

    Parameters
    ----------
    path
        The file that is there.
    known
        What the new one will hold, as `contents_of` names it.
    replaced
        Datasets that are replaced with all that they say about themselves.
    may_be_broken
        Whether an unreadable file may be replaced: a run did not finish it, or it is damaged.

    Raises
    ------
    UsageError
        If something would be lost, or nobody can say what.
    """
    shown = str(path)
    try:
        found = contents_at(path)
    except DataError as error:
        if may_be_broken:
            return
        raise UsageError(
            f"{shown} is not overwritten, as nobody can say what would be lost: "
            f"{'; '.join(error.problems)}; remove it, or choose another file"
        ) from error
    gone = found.difference(known)
    others = sorted(name for name in gone if name.rpartition("@")[0] not in replaced)
    if others:
        raise UsageError(
            f"{shown} holds more, which would be lost: {list_names(others)}; choose another file"
        )


def contents_at(path: Path) -> set[str]:
    """Return the names of all that a file holds."""
    return apart_for_long(path, _contents_at, path)


def _contents_at(path: Path) -> set[str]:
    with reading(path) as file:
        return contents_of(file)
