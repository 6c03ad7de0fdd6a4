"""Plan how to resume an interrupted group or file, or to rewrite a file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.errors import DataError, StorageError
from dask_io.formats.places import is_absent
from dask_io.formats.registry import find_row
from dask_io.hierarchy.cut import cut_tree
from dask_io.hierarchy.select import select
from dask_io.jobs.job import Complete, Job
from dask_io.jobs.record import MOVED, START_AGAIN, refuse_changed
from dask_io.jobs.resume import make_complete, plan_recorded
from dask_io.jobs.tree_job import SeriesJob, complete_tree, refuse_changed_tree
from dask_io.jobs.tree_plan import plan_into
from dask_io.jobs.tree_record import TreeRecord
from dask_io.jobs.tree_source import (
    find_tree,
)
from dask_io.jobs.verify import reopen_group
from dask_io.journal.journal import is_sealed
from dask_io.storage.location import locate
from dask_io.storage.own_names import JOURNAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dask_io.hierarchy.container import DividedContainer
    from dask_io.hierarchy.tree import Tree
    from dask_io.jobs.settings import Settings
    from dask_io.storage.location import Location


def plan_tree_resume(
    place: Location, journal: Location, settings: Settings
) -> Iterator[Job | SeriesJob | Complete]:
    """Plan how to complete a group, array by array, or to rewrite a file."""
    record = TreeRecord.read(journal)
    settings = settings.limited_by(record.memory, record.max_rate)
    if not is_sealed(journal):
        if record.divided is None:
            planned = plan_tree_again(journal, file_of(journal), settings)
            yield replace(planned, output=replace(planned.named_output, restart=True))
            return
        yield from _plan_rest(place, record, record.divided, settings)
    yield replace(make_complete(place, settings), not_kept=record.not_kept)


def file_of(journal: Location) -> Path:
    """Return the file that a journal describes."""
    return Path(str(journal).removesuffix(JOURNAL))


def _plan_rest(
    place: Location, record: TreeRecord, container: DividedContainer, settings: Settings
) -> Iterator[Job]:
    """Plan one array after another, and complete the group after the last one has run."""
    tree = open_source_of(record, settings)
    refuse_changed_tree(tree, record, "have changed since the run began")
    target = reopen_group(
        place, record, container, durability=record.durability, tree=tree, copies=record.copies
    )
    target.resume()
    try:
        for name in record.arrays:
            chosen = settings
            if settings.source is not None:
                chosen = replace(settings, source=place_in(tree.format, tree.place, name))
            job = plan_recorded(place / name, record.job_of(name), chosen)
            if isinstance(job, Job):
                yield replace(job, member=True)
        complete_tree(tree, target, record)
    finally:
        target.abandon()


def open_source_of(record: TreeRecord, settings: Settings) -> Tree:
    """Read the source of a tree, at its recorded place or where it has been moved to.

    Raises
    ------
    DataError
        If it is no longer a tree.
    StorageError
        If it is not found.
    """
    place, options = settings.source or record.source, settings.storage_options
    if is_absent(at := locate(place, options)):
        advice = "check the path" if settings.source else MOVED
        raise StorageError(str(at), "no such file or directory", advice)
    each = record.divided is not None or bool(record.selected)
    tree = find_tree(place, options, each=each)
    if tree is None:
        problem = "no longer holds several arrays, as it did when the run began"
        raise DataError(str(at), [problem], START_AGAIN)
    if record.selected not in {"", *tree.sources}:
        raise DataError(str(at), [f"no longer has an array {record.selected}"], START_AGAIN)
    return cut_tree(select(tree, record.selected) if record.selected else tree, record.bounds)


def place_in(format: str, root: str, name: str) -> str:  # noqa: A002 - the word that users know
    """Return the file or directory that an array of a tree is in."""
    return root if find_row(format).is_one_file else f"{root.rstrip('/')}/{name}"


def plan_tree_again(journal: Location, target: Path, settings: Settings) -> SeriesJob:
    """Plan how to rewrite the file that a journal describes, at the same place or another.

    Raises
    ------
    DataError
        If the source has changed.
    StorageError
        If the source is not found.
    """
    record = TreeRecord.read(journal)
    tree = open_source_of(record, settings)
    refuse_changed(journal, tree.place)
    refuse_changed_tree(tree, record, "has changed since the run began")
    chosen = replace(
        settings.limited_by(record.memory, record.max_rate),
        codec=record.codec,
        write_empty=record.write_empty,
        durability=record.durability,
    )
    chunks = {name: record.chunks.get(name) for name in tree.arrays}
    shards = dict.fromkeys(tree.arrays)
    return plan_into(tree, target, record.container, chunks=chunks, shards=shards, settings=chosen)
