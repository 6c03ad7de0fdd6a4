"""The file next to a complete one-file target, with the checksums for `verify` and `repair`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.errors import UsageError
from dask_io.formats.places import journal_at
from dask_io.hierarchy.container import UndividedTarget
from dask_io.journal.journal import is_sealed
from dask_io.journal.journalled_target import JournalledTarget
from dask_io.journal.logs import logs_of
from dask_io.storage.own_names import JOURNAL, sidecar_name
from dask_io.stores.views import TargetView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dask_io.storage.location import Location


def sidecar_of(place: Location) -> Path | None:
    """Return the file with the checksums of a complete target, if it is next to it."""
    journal = journal_at(place)
    if not isinstance(journal, Path) or journal.name == JOURNAL:
        return None
    found = journal.with_name(sidecar_name(journal.name))
    return found if found.is_file() else None


def remove_sidecars(places: Iterable[Location]) -> None:
    """Remove the journals next to complete targets."""
    for place in places:
        journal = journal_at(place)
        if journal is not None and journal.name != JOURNAL and is_sealed(journal):
            logs_of(journal).remove(journal)


def refuse_without_sidecar(target: object, place: str) -> None:
    """Refuse to leave out the sidecar of a target that has none, because it is a folder.

    Raises
    ------
    UsageError
        If it is not one file.
    """
    whole = target.whole if isinstance(target, TargetView) else target
    is_one_file = isinstance(whole, UndividedTarget) or (
        isinstance(whole, JournalledTarget) and whole.is_replaced_whole
    )
    if not is_one_file:
        raise has_no_sidecar(place)


def has_no_sidecar(place: object) -> UsageError:
    """Return the error that a target is not one file."""
    return UsageError(
        f"{place} is not one file, so its checksums are inside it, not in a file next to it; leave "
        "out --no-sidecar"
    )
