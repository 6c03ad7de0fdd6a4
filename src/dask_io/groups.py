"""Groups of arrays: every array is moved as if it were alone, one after another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from os import fspath
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

from xxhash import xxh3_64_intdigest

from dask_io.comparing import check_again, compare_files, verify_sealed
from dask_io.engine.job import JobRecord
from dask_io.engine.run import Progress, RunResult
from dask_io.engine.series import SeriesProgress
from dask_io.engine.verify import Verification
from dask_io.errors import DataError, StorageError, UsageError
from dask_io.geometry.named import chunks_by_name
from dask_io.jobs import Complete, Job, resumable
from dask_io.options import (
    Options,
    check_options,
    parse_durability,
    parse_memory,
    parse_workers,
    refuse_for_several,
)
from dask_io.planning import Series
from dask_io.prepare import Wanted, plan_one, plan_recorded
from dask_io.prepare import plan_resumes as plan_array_resumes
from dask_io.stores.container import INSIDE, needs, split_place
from dask_io.stores.files import Durability, storage_errors
from dask_io.stores.formats import format_of
from dask_io.stores.journal import VERSION, is_sealed, read_job
from dask_io.stores.location import is_taken, locate
from dask_io.stores.making import check_places
from dask_io.stores.medium import medium_of
from dask_io.stores.naming import printable
from dask_io.stores.opening import open_source
from dask_io.stores.places import journal_at, refuse_unfinished, targets_in
from dask_io.wholefiles import FileJob, find_file, plan_file, plan_file_resume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike
    from typing import Unpack

    from dask_io.geometry.chunks import AxisChunks, Chunks
    from dask_io.options import ResumeOptions
    from dask_io.planning import Device
    from dask_io.stores.files import Found
    from dask_io.stores.location import Location
    from dask_io.stores.store import Source, Target
    from dask_io.stores.zarr.group import Group
    from dask_io.stores.zarr.grouptarget import GroupTarget


@dataclass(frozen=True)
class GroupJob:
    """The arrays of a group, each with its job; nothing has been moved yet.

    `copies` are arrays that are copied file by file, because they hold what Dask IO does not
    understand, such as texts of any length, and have one axis at the most, or are not to be
    re-split.
    """

    group: Group
    target: GroupTarget
    jobs: Mapping[str, Job]
    copies: tuple[str, ...]
    workers: int
    device: Device
    memory: int

    @property
    def plan(self) -> Series:
        """What it will cost: the plans of all arrays."""
        return Series({name: job.plan for name, job in self.jobs.items()})

    def run(
        self, *, verify: bool = False, on_progress: Callable[[Progress], None] | None = None
    ) -> RunResult:
        """Move one array after another, and make a group of them in the end; as `Job.run`."""
        record = GroupRecord(
            self.group,
            {name: _record_of(job) for name, job in self.jobs.items()},
            self.copies,
            self.target.durability,
            fingerprint_copies(self.group, self.copies),
        )
        self.target.create(record.to_bytes())
        targets = {name: _target_of(job) for name, job in self.jobs.items()}
        progress = SeriesProgress(on_progress, list(targets.values()))
        result = RunResult.of_nothing(0)
        with resumable(self._left, self.target.place):
            try:
                for name, job in self.jobs.items():
                    outlet = job.open_outlet(record.arrays[name])
                    next_one = progress.of_next(targets[name])
                    result = result.followed_by(job.carry_out(outlet, next_one))
                _complete(record, self.target)
            except BaseException:
                self.target.give_up()
                raise
        if verify:
            places = [self.target.root / name for name in self.jobs]
            check_again(places, self.memory, self.workers)
        return replace(result, verified=True if verify else None)

    def _left(self) -> str:
        return quote(self.target.place) if self.target.is_resumable else ""

    def __str__(self) -> str:
        return f"{self.group.place} to {self.target.place}\n{self.plan}"


@dataclass(frozen=True)
class GroupRecord:
    """What the journal of a group says: what its arrays are to be, and what it is itself."""

    group: Group
    arrays: Mapping[str, JobRecord]
    copies: tuple[str, ...]
    durability: Durability
    identity: int
    """What changes when one of the files does that are copied as they are."""

    def to_bytes(self) -> bytes:
        """Return it as the job of a journal."""
        return json.dumps(
            {
                "version": VERSION,
                "group": {"source": str(self.group.root.absolute()), **self.group.to_json()},
                "arrays": {name: record.to_json() for name, record in self.arrays.items()},
                "copies": list(self.copies),
                "durability": self.durability,
                "identity": self.identity,
            }
        ).encode()

    @classmethod
    def read(
        cls,
        journal: Location,
        source: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> GroupRecord:
        """Read what a journal says; `source` is where the other group is, if it has been moved.

        `storage_options` say how to reach it, if it is in an object store.

        Raises
        ------
        DataError
            If that is no such record.
        """
        from dask_io.stores.zarr.group import Group, checked_path  # noqa: PLC0415 - as below

        job = read_job(journal)
        try:
            root = locate(source or job["group"]["source"], storage_options)
            arrays = {
                checked_path(name): JobRecord.from_json(each)
                for name, each in job["arrays"].items()
            }
            group = Group.from_json(root, job["group"])
            copies = tuple(map(checked_path, job["copies"]))
            durability, identity = Durability(job["durability"]), int(job["identity"])
            return cls(group, arrays, copies, durability, identity)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            place, problem = printable(str(journal)), f"is not about a group: {error}"
            raise DataError(place, [problem], "remove the target, and start again") from error


def fingerprint_copies(group: Group, copies: tuple[str, ...]) -> int:
    """Return a number that changes when a file of a group does that is copied as it is."""
    medium = medium_of(group.root)
    told = [(name, medium.find(group.root / name)) for name in group.files]
    told += [(f"{name}/{file}", found) for name in copies for file, found in _files(group, name)]
    return xxh3_64_intdigest(repr(sorted(told, key=itemgetter(0))).encode())


def _files(group: Group, name: str) -> Iterator[tuple[str, Found]]:
    """Yield the files of an array that is copied as it is."""
    return medium_of(group.root).files(group.root / name)


def _record_of(job: Job) -> JobRecord:
    return JobRecord.of(job.source, _target_of(job))


def _target_of(job: Job) -> Target:
    assert job.target is not None, "arrays of a group have targets"
    return job.target


def _complete(record: GroupRecord, target: GroupTarget) -> None:
    group = record.group
    for name in record.copies:
        target.copy_array(group.root / name, name)
    target.finish(group, [*record.arrays, *record.copies], _check_written)


def _check_written(root: Location, like: Group) -> None:
    """Look at a group once more if there are images in it."""
    from dask_io.stores.zarr.group import read_group  # noqa: PLC0415 - a second, if needed
    from dask_io.stores.zarr.ome import check_images, image_groups  # noqa: PLC0415 - as above

    if image_groups(like):
        check_images(read_group(root))


def find_group(place: object, storage_options: Mapping[str, Any] | None = None) -> Location | None:
    """Return the directory of the group that a source names, None if it names none.

    Raises
    ------
    DataError
        If it is one that is not complete.
    """
    if not isinstance(place, str | Path):
        return None
    root = locate(place, storage_options)
    if INSIDE in str(root) and not is_taken(root):
        container, inside = split_place(str(place))
        root = locate(container, storage_options) / inside
    # What lies in a group on a plain web server cannot be listed.
    if not isinstance(root, Path) and not root.connection.can_list:
        return None
    try:
        with storage_errors(root):
            is_marked = any((root / mark).is_file() for mark in ("zarr.json", ".zgroup"))
    except StorageError as error:
        raise type(error)(printable(str(root)), error.reason, error.advice) from error
    if not is_marked:
        return None
    with needs("zarr", "zarr"):
        from dask_io.stores.zarr.group import is_group_at  # noqa: PLC0415 - a second, if needed
    if not is_group_at(root):
        return None
    refuse_unfinished(root)
    return root


def plan_whole(
    source: object, target: str | PathLike[str] | None, chunks: Chunks, **options: Unpack[Options]
) -> GroupJob | FileJob | None:
    """Plan how to re-split all arrays of a group or a file; None if a source is one array."""
    root = find_group(source, options.get("storage_options"))
    if root is not None:
        return plan_group(root, target, chunks, **options)
    file = find_file(source)
    if file is None or (target is not None and INSIDE in fspath(target)):
        return None
    return plan_file(file, target, chunks, **options)


def plan_group(
    root: Location,
    target: str | PathLike[str] | None,
    chunks: Chunks,
    **options: Unpack[Options],
) -> GroupJob:
    """Plan how to re-split every array of a group, and what that will cost.

    Parameters
    ----------
    root
        The group's directory.
    target
        Where the other group goes.
    chunks
        Chunks by names of dimensions, for the levels of an image also by position. Arrays that have
        none of the names are copied with the chunks that they have, and so are coordinates:
        arrays of one axis that have its name.
    **options
        What can be asked of a whole group, see `Options`.

    Raises
    ------
    UsageError
        If a name is that of no array's dimension, or an array cannot be re-split.
    """
    from dask_io.stores.zarr.group import read_group  # noqa: PLC0415 - a second, if needed
    from dask_io.stores.zarr.grouptarget import GroupTarget  # noqa: PLC0415 - as above
    from dask_io.stores.zarr.ome import check_images  # noqa: PLC0415 - as above

    check_options(options)
    _check_for_groups(options)
    if target is None:
        raise UsageError(f"{printable(str(root))} is a group; name a target to plan for all of it")
    _refuse_other_formats(root, target)
    group = read_group(root)
    made = GroupTarget(
        locate(target, options.get("storage_options")),
        durability=parse_durability(options.get("durability", Durability.FSYNC)),
    )
    check_places(group, made)
    made.check()
    wanted = choose_chunks(group, chunks)
    check_images(group)
    jobs: dict[str, Job] = {}
    copies = []
    for name in group.arrays:
        try:
            source = open_source(root / name, format="zarr")
        except (DataError, UsageError) as error:
            if wanted[name] is not None and len(_dimensions(group.arrays[name])) > 1:
                raise UsageError(f"array {printable(name)} cannot be re-split: {error}") from error
            copies.append(name)
            continue
        jobs[name] = _plan_array(source, made.root / name, wanted[name], options)
    first = next(iter(jobs.values()), None)
    if first is None:
        raise UsageError(f"{printable(str(root))} is a group that holds no array to move")
    memory = parse_memory(options.get("memory"))
    return GroupJob(group, made, jobs, tuple(copies), first.workers, first.device, memory)


def _check_for_groups(options: Options) -> None:
    if options.get("overwrite"):
        raise UsageError("a group is not overwritten as a whole; remove it yourself first")
    refuse_for_several(options, "is a group")
    if options.get("format") not in {None, "zarr", "ome-zarr"}:
        raise UsageError(f"a group becomes another group of Zarr, not {options.get('format')}")


def _refuse_other_formats(root: Location, target: str | PathLike[str]) -> None:
    kind = format_of(Path(target).name)
    if kind is not None and kind.name not in {"zarr", "ome-zarr"}:
        shown = printable(str(root))
        raise UsageError(
            f"{shown} is a group, which becomes another group of Zarr, not {kind.name}; name one "
            f"of its arrays, as in {shown}{INSIDE}/name"
        )


def choose_chunks(group: Group, chunks: Chunks) -> dict[str, Chunks]:
    """Return the chunks of every array, None for those that keep theirs.

    Raises
    ------
    UsageError
        If chunks are not given by name, or a name is that of no array's dimension.
    """
    from dask_io.stores.zarr.ome import level_axes  # noqa: PLC0415 - a second, if needed

    levels = level_axes(group)
    dimensions = {
        name: levels.get(name) or _dimensions(documents) for name, documents in group.arrays.items()
    }
    asked = _by_name(group, chunks, list(levels.values()))
    return chunks_by_name(asked, dimensions)


def _by_name(
    group: Group, chunks: Chunks, levels: list[tuple[str, ...]]
) -> Mapping[str, AxisChunks]:
    """Return chunks by names of dimensions; those of an image may be given in its axes' order."""
    if isinstance(chunks, Mapping) and all(isinstance(axis, str) for axis in chunks):
        return cast("Mapping[str, AxisChunks]", chunks)
    if levels and isinstance(chunks, int | str):
        return {axis: chunks for names in levels for axis in names}
    if levels and isinstance(chunks, list | tuple) and len(chunks) == len(levels[0]):
        return dict(zip(levels[0], chunks, strict=True))
    what = f"an image with the axes {','.join(levels[0])}" if levels else "a group"
    raise UsageError(
        f"{printable(group.place)} is {what}, whose arrays are re-split by the names of their "
        "dimensions; write chunks as time=24,y=-1"
    )


def _dimensions(documents: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the names of an array's dimensions, as either version says them."""
    from dask_io.stores.zarr.documents import parse  # noqa: PLC0415 - a second, if needed
    from dask_io.stores.zarr.group import attributes_of  # noqa: PLC0415 - as above

    try:
        found = attributes_of(documents).get("_ARRAY_DIMENSIONS")
        if "zarr.json" in documents:
            found = parse(documents["zarr.json"]).get("dimension_names")
    except ValueError:
        return ()
    return tuple(name for name in found or () if isinstance(name, str))


def _plan_array(source: Source, target: Location, chunks: Chunks, options: Options) -> Job:
    """Plan one array; one that keeps its chunks keeps its shards and codecs, too."""
    chosen: Options = {**options, "format": "zarr"}
    if chunks is None:
        chosen = {**chosen, "codec": None, "shards": source.metadata["shards"]}
    return plan_one(source, Wanted(target, chunks, None), **chosen)


def plan_resumes(
    target: str | PathLike[str], **options: Unpack[ResumeOptions]
) -> Iterator[Job | FileJob | Complete]:
    """Plan what `resume` does, one array after another: each has run when the next is planned."""
    place = locate(target, options.get("storage_options"))
    file = plan_file_resume(place, options)
    if file is not None:
        yield file
        return
    journal = group_journal_at(place)
    if journal is None:
        yield from plan_array_resumes(target, **options)
        return
    if not is_sealed(journal):
        yield from _plan_rest(place, journal, options)
    memory, workers = parse_memory(options.get("memory")), parse_workers(options.get("workers"))
    parts = tuple(place / name for name in GroupRecord.read(journal).arrays)
    yield Complete(place, 0, memory, workers, parts)


def _plan_rest(place: Location, journal: Location, options: ResumeOptions) -> Iterator[Job]:
    from dask_io.stores.zarr.grouptarget import GroupTarget  # noqa: PLC0415 - a second, if needed

    moved, reach = options.get("source"), options.get("storage_options")
    record = GroupRecord.read(journal, moved, reach)
    if fingerprint_copies(record.group, record.copies) != record.identity:
        changed = ["files that are copied as they are have changed since the run began"]
        advice = f"remove {printable(str(place))}, and start again"
        raise DataError(printable(record.group.place), changed, advice)
    target = GroupTarget(place, durability=record.durability)
    target.resume()
    try:
        for name, each in record.arrays.items():
            chosen = options
            if moved is not None:
                chosen = {**options, "source": str(record.group.root / name)}
            job = plan_recorded(place / name, each, **chosen)
            if isinstance(job, Job):
                yield job
        _complete(record, target)
    finally:
        target.abandon()


def verify_groups(
    a: Location, b: Location, compare: Callable[[Source, Source], Verification]
) -> Verification:
    """Compare the arrays of two groups, each with the one of its name.

    Those that Dask IO does not understand have the same files, byte by byte, or differ.

    Raises
    ------
    DataError
        If one group has arrays that the other has not.
    """
    from dask_io.stores.zarr.group import read_group  # noqa: PLC0415 - a second, if needed

    one, other = read_group(a), read_group(b)
    differing = sorted(one.arrays.keys() ^ other.arrays.keys())
    if differing:
        problem = f"array {printable(differing[0])} is only in one of it and {printable(str(a))}"
        raise DataError(printable(str(b)), [problem])
    found = Verification(0)
    for name in one.arrays:
        try:
            source = open_source(a / name, format="zarr")
        except (DataError, UsageError):
            compare_files(a / name, b / name)
            continue
        compared = compare(source, open_source(b / name, format="zarr"))
        found = found.followed_by(compared, printable(str(b / name)))
    return found


def verify_alone(place: Location, memory: int, workers: int) -> Verification:
    """Compare with the checksums of journals an array, or all in a group or in a folder."""
    journal = group_journal_at(place)
    if journal is not None:
        refuse_unfinished(place)
        targets = [place / name for name in GroupRecord.read(journal).arrays]
    else:
        targets = targets_in(place) or [place]
    if targets == [place]:
        return verify_sealed(place, memory, workers)
    found = Verification(0)
    for target in targets:
        found = found.followed_by(verify_sealed(target, memory, workers), printable(str(target)))
    return found


def group_journal_at(place: Location) -> Location | None:
    """Return the journal of a group that Dask IO has written, if a place has one."""
    journal = journal_at(place)
    return journal if journal is not None and "group" in read_job(journal) else None
