"""All arrays of a group or a file, to wherever they go: planned, gone on with, verified."""

from __future__ import annotations

from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING

from dask_io.engine.job import GROUP, find_leaders, find_missing, is_of_several, refuse_lost
from dask_io.engine.verify import Verification
from dask_io.errors import DataError, UsageError, printable
from dask_io.formats.places import journal_at, refuse_unfinished, targets_in
from dask_io.formats.registry import format_of, load_format
from dask_io.hierarchy.container import MakesFiles
from dask_io.jobs.compare import verify_sealed
from dask_io.jobs.options import Options, check_options, check_resume_options, refuse_for_several
from dask_io.jobs.prepare import Wanted, plan_array_resumes, plan_one, refuse_late_consuming
from dask_io.jobs.several_arrays import (
    choose_chunks,
    choose_shards,
    chunks_or_kept,
    find_whole,
    is_to_copy,
    is_zarr_group,
    make_series,
    name_one,
    plan_each,
)
from dask_io.jobs.to_group import plan_group, plan_group_resume, verify_group
from dask_io.jobs.to_one_file import plan_file, plan_file_resume
from dask_io.journal.journal import is_sealed, read_job
from dask_io.storage.location import locate
from dask_io.stores.container import INSIDE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike
    from typing import Unpack

    from dask_io.formats.registry import AnyFormat
    from dask_io.geometry.chunks import Chunks
    from dask_io.hierarchy.tree import Tree
    from dask_io.jobs.job import Complete, Job, SeriesJob
    from dask_io.jobs.options import ResumeOptions
    from dask_io.storage.location import Location

_ZARR = "zarr"
_MOST_NAMED = 5


def plan_whole(
    source: object, target: str | PathLike[str] | None, chunks: Chunks, **options: Unpack[Options]
) -> SeriesJob | None:
    """Plan how to re-split all arrays of a group or a file, None if a source is one array.

    Parameters
    ----------
    source
        A group, or a file of several arrays.
    target
        Where they go: a group of Zarr arrays, or a file; may be left out to see only the plan.
    chunks
        Chunks by names of dimensions, see `choose_chunks`. Arrays that have none of the names keep
        the chunks that they have, and so do coordinates: arrays of one axis that have its name.
    **options
        What can be asked of all arrays at once, see `Options`.

    Raises
    ------
    UsageError
        If a name is that of no array's dimension, or an array cannot be re-split, or held there.
    """
    kind = None if target is None else _format_of(target, options)
    is_group = kind is not None and kind.name == _ZARR
    whole = find_whole(source, options.get("storage_options"), each=is_group)
    if whole is None or (target is not None and INSIDE in fspath(target)):
        return None
    if target is None:
        return _plan_only(whole, chunks, options)
    _refuse_two_formats(target, options)
    if is_group or (kind is None and whole.format == _ZARR):
        return plan_group(whole, target, chunks, options)
    # What is NetCDF 4 is HDF5, too, but not the other way round.
    if not isinstance(kind, MakesFiles) or (whole.format, kind.name) == ("hdf5", "netcdf"):
        raise UsageError(_cannot_be(whole, target))
    place = locate(target)
    if not isinstance(place, Path):
        other = place.with_name(place.name.removesuffix(place.suffix) + ".zarr")
        raise UsageError(
            f"{kind.name} is written on local disk only, not to {printable(str(place))}; write a "
            f"local file and copy it there, or make a group of Zarr, as {printable(str(other))}"
        )
    return plan_file(whole, place, kind, chunks, options)


def _format_of(target: str | PathLike[str], options: Options) -> AnyFormat | None:
    """Return the format that a target will have, None if nothing says one."""
    named = options.get("format")
    return format_of(Path(target).name) if named is None else load_format(named)


def _refuse_two_formats(target: str | PathLike[str], options: Options) -> None:
    named, by_suffix = options.get("format"), format_of(Path(target).name)
    if named is not None and by_suffix is not None and by_suffix.name != named:
        shown = printable(fspath(target))
        raise UsageError(f"{shown} ends as {by_suffix.name}, but format {named} is asked for")


def _cannot_be(source: Tree, target: str | PathLike[str]) -> str:
    shown, names = printable(source.place), list(source.arrays)
    listed = ", ".join(map(printable, names[:_MOST_NAMED]))
    more = " and more" if len(names) > _MOST_NAMED else ""
    files = "hdf5" if source.format == "hdf5" else "netcdf or hdf5"
    return (
        f"{shown} holds several arrays ({listed}{more}), which together become a group of Zarr or "
        f"one file of {files}, not {printable(fspath(target))}; for another format name one of "
        f"them, as in {name_one(source)}"
    )


def _plan_only(source: Tree, chunks: Chunks, options: Options) -> SeriesJob:
    """Plan what a group or a file of the same kind would cost."""
    check_options(options)
    refuse_for_several(options, name_one(source))
    asked, shards = choose_chunks(source, chunks), choose_shards(source, options.get("shards"))

    def plan(name: str) -> Job:
        store = source.sources[name]
        chosen: Options = {**options, "shards": shards[name]}
        wanted = Wanted(None, chunks_or_kept(source, name, asked[name]), None)
        if is_kept(name):
            is_other = options.get("format") not in {None, store.format}
            kept = None if is_other else store.metadata.get("shards")
            chosen = {**options, "codec": None, "shards": kept}
        return plan_one(store, wanted, **chosen)

    def is_kept(name: str) -> bool:
        return asked[name] is None and shards[name] is None

    moved = [
        name
        for name in asked
        if not is_to_copy(source, name, asked[name], shards[name])
        and not (is_kept(name) and source.arrays[name].is_lossy)
    ]
    return make_series(source, None, plan_each(moved, plan), options)


def plan_resumes(
    target: str | PathLike[str], **options: Unpack[ResumeOptions]
) -> Iterator[Job | SeriesJob | Complete]:
    """Plan what `resume` does, one array after another: each has run when the next is planned."""
    check_resume_options(options)
    targets = targets_in(locate(target, options.get("storage_options")))
    journals = {place: journal for place in targets if (journal := journal_at(place)) is not None}
    wholes = {place: each for place, each in journals.items() if is_of_several(each)}
    for place, journal in wholes.items():
        if not is_sealed(journal):
            # Neither groups nor whole files can be consumed.
            refuse_late_consuming(place, options)
        if GROUP in read_job(journal):
            yield from plan_group_resume(place, journal, options)
        else:
            yield plan_file_resume(place, journal, options)
    if not wholes or len(wholes) < len(journals):
        yield from plan_array_resumes(target, **options)


def verify_alone(place: Location, memory: int, workers: int) -> Verification:
    """Compare with the checksums of journals an array, or all in a group, a file or a folder."""
    is_group = journal_at(place) is None and is_zarr_group(place)
    targets = (_arrays_in(place) if is_group else targets_in(place)) or [place]
    _check_jobs(targets, place)
    if targets == [place]:
        return _verify_one(place, memory, workers)
    found = Verification(0)
    for target in targets:
        found = found.followed_by(_verify_one(target, memory, workers), printable(str(target)))
    return found


def _verify_one(target: Location, memory: int, workers: int) -> Verification:
    journal = journal_at(target)
    if journal is not None and GROUP in read_job(journal):
        return verify_group(target, memory, workers, journal)
    return verify_sealed(target, memory, workers)


def _check_jobs(targets: Sequence[Location], place: Location) -> None:
    """Refuse targets whose jobs are unfinished, or whose jobs have targets missing in a folder.

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
        name, problems = printable(str(place)), [f"{printable(n.name)} is missing" for n in missing]
        raise DataError(name, problems, f"write it again with dask-io repair {name}")


def _arrays_in(group: Location) -> list[Location]:
    """Return all arrays of a group into which runs have put them one by one, or none.

    Raises
    ------
    UsageError
        If of some there are no checksums.
    """
    from dask_io.formats.zarr.group import read_group  # noqa: PLC0415 - a second, if needed

    arrays = {name: group / name for name in read_group(group).arrays}
    others = [name for name, place in arrays.items() if journal_at(place) is None]
    if len(others) == len(arrays):
        return []
    if others:
        shown, listed = printable(str(group)), ", ".join(map(printable, others[:_MOST_NAMED]))
        more = " and more" if len(others) > _MOST_NAMED else ""
        raise UsageError(
            f"{shown} has arrays without checksums of their own ({listed}{more}); name one that "
            f"has, or compare all with where they come from: dask-io verify SRC {shown}"
        )
    return list(arrays.values())
