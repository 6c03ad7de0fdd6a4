"""Resume all targets at a path, or verify them by their checksums."""

from __future__ import annotations

from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

from dask_io.engine.verify import Verification
from dask_io.errors import DaskIOError, DataError, StorageError, UsageError, list_names
from dask_io.formats.places import journal_at, refuse_unfinished, targets_in
from dask_io.jobs.record import find_leaders, find_missing, is_tree, refuse_lost
from dask_io.jobs.resume import plan_array_resumes, refuse_late_consuming
from dask_io.jobs.sidecars import has_no_sidecar
from dask_io.jobs.tree_resume import plan_tree_resume
from dask_io.jobs.tree_source import find_group
from dask_io.jobs.verify import verify_sealed
from dask_io.journal.journal import is_sealed
from dask_io.python_errors import for_python
from dask_io.storage.location import locate
from dask_io.storage.own_names import JOURNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from os import PathLike

    from dask_io.hierarchy.container import TreeContainer
    from dask_io.jobs.job import Complete, Job
    from dask_io.jobs.settings import Settings
    from dask_io.jobs.tree_job import SeriesJob
    from dask_io.jobs.verify import OnChecked
    from dask_io.storage.location import Location

J = TypeVar("J")
T = TypeVar("T")


def plan_resumes(
    target: str | PathLike[str] | Location,
    settings: Settings,
    on_problem: Callable[[DaskIOError], None] | None = None,
) -> Generator[Job | SeriesJob | Complete]:
    """Plan how to resume arrays one by one; each job must run before the next is planned.

    If one of several targets cannot be completed, the others still are; `run_each` passes errors of
    runs on. The first error is raised at the end. The others go to `on_problem`, or become notes of
    the first.
    """
    at = locate(target, settings.storage_options)
    targets = targets_in(at)
    journals = {place: journal for place in targets if (journal := journal_at(place)) is not None}
    for place, journal in journals.items():
        if not settings.sidecar and journal.name == JOURNAL:
            raise has_no_sidecar(place)
    problems: list[DaskIOError] = []
    yield from _plan_all(at, journals, settings, problems)
    if problems:
        first, *others = problems
        for other in others:
            if on_problem is not None:
                on_problem(other)
            else:
                first.add_note(str(for_python(other)))
        raise first


def _plan_all(
    at: Location,
    journals: Mapping[Location, Location],
    settings: Settings,
    problems: list[DaskIOError],
) -> Iterator[Job | SeriesJob | Complete]:
    """Plan how to resume targets, and collect the problems with them."""
    trees, arrays = {}, []
    for place, journal in journals.items():
        with _collecting(problems):
            if is_tree(journal):
                trees[place] = journal
            else:
                arrays.append(place)
    for place, journal in trees.items():
        with _collecting(problems):
            if not is_sealed(journal):
                # Groups and files of several arrays cannot be consumed.
                refuse_late_consuming(place, settings)
            yield from plan_tree_resume(place, journal, settings)
    if arrays or not journals:
        with _collecting(problems):
            for each in plan_array_resumes(at, arrays, settings):
                with _collecting(problems):
                    yield from each


@contextmanager
def _collecting(problems: list[DaskIOError]) -> Iterator[None]:
    """Collect the problem of one target, so that others can be completed."""
    try:
        yield
    except (DataError, StorageError, UsageError) as error:
        problems.append(error)


def run_each(jobs: Generator[J], run: Callable[[J], T]) -> Iterator[T]:
    """Run what `plan_resumes` plans, and pass on errors to it; it goes on with other targets."""
    job = next(jobs, None)
    while job is not None:
        try:
            result = run(job)
        except DaskIOError as error:
            job = jobs.throw(error)
        else:
            yield result
            job = next(jobs, None)


def verify_alone(
    place: Location, memory: int, workers: int, on_progress: OnChecked = None
) -> Verification:
    """Compare an array, or all arrays of a group, file or folder, with the journals' checksums."""
    container = find_group(place) if journal_at(place) is None else None
    others: list[str] = []
    if container is None:
        found = targets_in(place)
    else:
        found, others = _arrays_in(place, container)
    targets = found or [place]
    _check_jobs(targets, place)
    if targets == [place]:
        return verify_sealed(place, memory, workers, on_progress=on_progress)
    verified = Verification(0)
    for target in targets:
        one = verify_sealed(target, memory, workers, on_progress=on_progress)
        verified = verified.followed_by(one, str(target))
    if verified and others:
        listed = list_names(others, most=5)
        raise UsageError(
            f"{place} has arrays without checksums: {listed}; the others are as they were written; "
            f"compare all with their source: dask-io verify SRC {quote(str(place))}"
        )
    return verified


def _check_jobs(targets: Sequence[Location], place: Location) -> None:
    """Refuse targets of unfinished jobs, and of jobs with a target missing from the folder.

    Raises
    ------
    DataError
        If a job is unfinished, or a target is missing.
    """
    for leading in find_leaders(targets):
        refuse_unfinished(leading)
    missing = find_missing(targets, place)
    refuse_lost(missing, place)
    if missing:
        name, problems = str(place), [f"{n.name} is missing" for n in missing]
        raise DataError(name, problems, f"write it again with dask-io repair {quote(name)}")


def _arrays_in(group: Location, container: TreeContainer) -> tuple[list[Location], list[str]]:
    """Return the arrays of a group that have a journal, and the names of all others.

    Runs that write single arrays into a group leave it in this state. An array whose metadata is
    damaged still has its journal. If no array has a journal, both lists are empty.
    """
    arrays = {name: group / name for name in container.read_tree(group).arrays}
    others = [name for name, place in arrays.items() if journal_at(place) is None]
    found = [place for name, place in arrays.items() if name not in others]
    found += [place for place in targets_in(group) if place not in found]
    return found, others if found else []
