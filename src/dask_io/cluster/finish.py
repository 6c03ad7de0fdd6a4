"""Complete a target after all its parts have been written."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.engine.commit import Outlet, check_sources
from dask_io.engine.run import RunResult
from dask_io.errors import DataError, StorageError, UsageError, list_names
from dask_io.formats.places import is_absent, journal_at
from dask_io.formats.reopening import remake_target
from dask_io.jobs.record import JobRecord, is_tree, refuse_changed
from dask_io.journal.journal import is_sealed
from dask_io.journal.part_journals import remove_parts
from dask_io.stores.not_kept import not_kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dask_io.geometry import Grid
    from dask_io.journal.ledger import Ledger
    from dask_io.storage.location import Location

_MOST_NAMED = 5


def finish_parts(
    place: Location,
    *,
    at: Location | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> RunResult:
    """Add up the journals of all parts, check that nothing is missing, and complete the target.

    A target that is already complete stays as it is.

    Parameters
    ----------
    place
        The target.
    at
        New place of the source, if it has been moved.
    storage_options
        Options to connect to object stores.

    Raises
    ------
    DataError
        If a part is missing, or the source has changed.
    LockedError
        If a part is still running.
    UsageError
        If the target has not been written in parts.
    """
    journal = journal_at(place)
    if journal is None:
        if is_absent(place):
            raise StorageError(str(place), "no such file or directory", "check the path")
        raise UsageError(f"{place} has no journal, so it has not been written in parts")
    record = None if is_tree(journal) else JobRecord.read(journal)
    if record is None or record.parts is None:
        raise UsageError(
            f"{place} has not been written in parts; complete it with dask-io resume {place}"
        )
    target = remake_target(record.target, at=place, durability=record.durability, reserve=True)
    if is_sealed(journal):
        remove_parts(journal, only_ended=True)
        return RunResult.of_nothing(target.grid.n_blocks)
    identity = record.open_source(journal, at=at, storage_options=storage_options)
    ledger = target.resume()
    try:
        # Parts may have recorded that the source changed.
        refuse_changed(journal, identity.source.place)
        refuse_missing(str(place), ledger, record)
        outlet = Outlet(target, ledger=ledger, identity=identity)
        check_sources([outlet])
        outlet.finish()
    except BaseException:
        target.abandon(keep=True)
        raise
    lost = not_kept(identity.source, target, gives_space=record.gives_space)
    return replace(RunResult.of_nothing(target.grid.n_blocks), not_kept=lost)


def refuse_missing(place: str, ledger: Ledger, record: JobRecord) -> None:
    """Refuse a target with missing parts.

    Raises
    ------
    DataError
        If there are any; it lists the first ones, and how to write them.
    """
    if ledger.is_complete or record.parts is None:
        return
    parts = record.parts
    durable, wanted = ledger.count_in(parts).ravel(), _count_blocks(ledger.grid, parts).ravel()
    missing = np.flatnonzero(durable < wanted)
    shown = missing[: _MOST_NAMED + 1]
    names = [f"part {n + 1} ({durable[n]} of {wanted[n]} blocks)" for n in shown]
    n_parts, first = parts.n_blocks, missing[0] + 1
    problem = f"{len(missing)} of {n_parts} parts missing: {list_names(names, _MOST_NAMED)}"
    again = f"call the same function with part=({first}, {n_parts})"
    if record.command is not None:
        again = f"run: {record.command} --part {first}/{n_parts}"
    raise DataError(place, [problem], f"{again}; or write the rest: dask-io resume {quote(place)}")


def _count_blocks(blocks: Grid, parts: Grid) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Count the blocks of each part."""
    counts = np.ones((), np.int64)
    for axis, along in zip(blocks.axes, parts.axes, strict=True):
        ends = np.array([axis.count_ends(along.start_of(n)) for n in range(along.n_blocks + 1)])
        counts = np.multiply.outer(counts, np.diff(ends))
    return counts
