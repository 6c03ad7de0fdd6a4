"""Choose and check the places of several targets of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask_io.errors import TargetExistsError, UsageError
from dask_io.formats.places import journal_at, targets_in
from dask_io.formats.registry import find_row, row_of
from dask_io.journal.journal import is_unfinished
from dask_io.storage.files import medium_of
from dask_io.storage.location import is_taken, locate
from dask_io.storage.own_names import target_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from dask_io.storage.location import Location
    from dask_io.stores.store import Target

_FEWEST_DIGITS = 3
# How the names of regions begin.
_STEM = "region_"


def region_places(
    folder: str | os.PathLike[str],
    n_regions: int,
    *,
    format: str,  # noqa: A002 - the word that users know
    one_file: bool,
    codec: str | None = None,
    overwrite: bool,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return the places of several regions in a folder.

    A region that is one block becomes one file, if the format's files have headers. Otherwise it
    becomes a directory or a container.

    Raises
    ------
    UsageError
        If the folder has the suffix of a file.
    TargetExistsError
        If the folder is not empty, and `overwrite` is not given.

    Examples
    --------
    >>> region_places("rois", 2, format="npy", one_file=True, overwrite=False)
    ['rois/region_000.npy', 'rois/region_001.npy']
    """
    place = locate(folder, storage_options)
    if row_of(place.name) is not None and not place.is_dir():
        raise UsageError(
            f"{place} is one file, but there are {n_regions} regions; give a directory, in which "
            f"they are called {_STEM}000 and so on, and choose their kind with --format and --codec"
        )
    if is_taken(place) and not overwrite and not (place.is_dir() and _is_empty(place)):
        raise TargetExistsError(str(place), unfinished=_any_unfinished(place))
    row = find_row(format)
    is_one_place = row.container or (one_file and row.load_blocks().longest_header)
    suffix = row.suffixes[0] if is_one_place else ""
    if is_one_place and not row.container:
        suffix = row.load_blocks().compressed_by(codec).suffixes[0]
    n_digits = max(_FEWEST_DIGITS, len(str(n_regions - 1)))
    names = [f"{_STEM}{number:0{n_digits}}{suffix}" for number in range(n_regions)]
    if place.is_dir():
        _refuse_others(place, names)
    return [str(place / name) for name in names]


def _refuse_others(folder: Location, names: Sequence[str]) -> None:
    """Refuse a folder with regions of another run, which would be mixed up with the new ones."""
    found = map(target_of, medium_of(folder).names(folder))
    left = {name for name in found if name.startswith(_STEM)}.difference(names)
    if left:
        raise UsageError(
            f"{folder} contains {min(left)} of another run; move it away, or choose another folder"
        )


def _is_empty(folder: Location) -> bool:
    """Tell whether a folder is empty, except for leftovers of a run that was killed at its start.

    These are the journal of the first target under a temporary name, and an empty folder for it.
    """
    medium = medium_of(folder)
    return all(
        (name.startswith(".") and name.endswith(".part"))
        or (is_folder and not medium.names(folder / name))
        for name, is_folder in medium.names(folder).items()
    )


def _any_unfinished(folder: Location) -> bool:
    """Tell whether a run that wrote into a folder was interrupted."""
    journals = map(journal_at, targets_in(folder))
    return any(journal is not None and is_unfinished(journal) for journal in journals)


def check_apart(targets: Sequence[Target]) -> None:
    """Refuse targets that are the same, or contain one another.

    Raises
    ------
    UsageError
        If there are any.
    """
    places = [locate(target.place).resolve() for target in targets]
    by_place = dict(zip(places, targets, strict=True))
    for place, target in zip(places, targets, strict=True):
        around = [by_place[path] for path in (place, *place.parents) if path in by_place]
        if around != [target]:
            other = next((each for each in around if each is not target), target)
            raise UsageError(
                f"targets {target.place} and {other.place} are the same, or "
                "one contains the other; choose separate places"
            )
