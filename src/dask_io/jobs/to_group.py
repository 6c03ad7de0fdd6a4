"""All arrays of a group or a file are moved, one after another, into one group."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from shlex import quote
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64, xxh3_64_intdigest

from dask_io.engine.identity import take_identities
from dask_io.engine.job import JobRecord
from dask_io.engine.preflight import find_replaced
from dask_io.engine.verify import Verification
from dask_io.errors import BudgetTooSmallError, DataError, StorageError, UsageError, printable
from dask_io.formats.creating import check_places
from dask_io.formats.places import is_absent, refuse_unfinished
from dask_io.jobs.compare import (
    advising_repair,
    check_again,
    check_copied_files,
    digest_files,
    refuse_missing,
    verify_sealed,
)
from dask_io.jobs.job import Complete, Job, SeriesJob, check_room, resumable
from dask_io.jobs.options import (
    Options,
    check_options,
    parse_durability,
    refuse_for_several,
)
from dask_io.jobs.prepare import Wanted, make_complete, plan_one, plan_recorded
from dask_io.jobs.several_arrays import (
    choose_chunks,
    choose_shards,
    chunks_or_kept,
    find_whole,
    is_to_copy,
    make_series,
    name_one,
    plan_each,
    refuse_uncopied,
)
from dask_io.journal.journal import VERSION, is_sealed, read_field, read_job
from dask_io.storage.files import medium_of
from dask_io.storage.location import locate
from dask_io.storage.medium import Durability
from dask_io.stores.container import needs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from os import PathLike

    from dask_io.engine.commit import Outlet
    from dask_io.engine.identity import Identity
    from dask_io.formats.zarr.group import Group
    from dask_io.formats.zarr.tree_target import GroupTarget
    from dask_io.geometry.chunks import Chunks
    from dask_io.hierarchy.tree import Tree
    from dask_io.jobs.options import ResumeOptions
    from dask_io.storage.location import Location
    from dask_io.storage.pace import Pace
    from dask_io.stores.store import Source

    # Arrays by name, with where their files are, or what is in them.
    Small = Mapping[str, Location | Mapping[str, bytes]]

_ZARR = "zarr"
_FIRST_WITH_SHARDS = 3


@dataclass
class GroupOutput:
    """The group that all arrays go to, which are targets of their own; it can be gone on with.

    `format` is that of the source, `group` what it is besides its arrays, `small` the arrays that
    are copied as they are.
    """

    format: str
    group: Group
    target: GroupTarget
    small: Small
    not_kept: tuple[str, ...]
    _record: GroupRecord | None = None
    _identities: Mapping[Source, Identity] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The group's directory."""
        return self.target.place

    @property
    def copies(self) -> tuple[str, ...]:
        """Names of the arrays that are copied as they are."""
        return tuple(self.small)

    @property
    def is_resumable(self) -> bool:
        """Whether there is a journal."""
        return self.target.is_resumable

    def begin(self, jobs: Mapping[str, Job]) -> None:
        """Make the place; a journal that says what arrays are to be is the first thing there."""
        from dask_io.formats.zarr.hierarchy import Hierarchy  # noqa: PLC0415 - a second, if needed

        # Before what is there is removed.
        replaced = find_replaced(self.place)
        check_room(jobs.values(), replaced)
        self._identities = take_identities(job.source for job in jobs.values())
        self._record = GroupRecord(
            self.group,
            self.format,
            {
                name: JobRecord.of(self._identities[job.source], job.named_target)
                for name, job in jobs.items()
            },
            {name: _digest(each) for name, each in self.small.items()},
            self.target.durability,
            _identity(self.group, self.format, self.copies),
            self.not_kept,
        )
        names = frozenset({*jobs, *self.small})
        holds = Hierarchy(frozenset(self.group.groups), names, frozenset(self.group.files))
        with resumable(lambda: quote(self.place) if self.is_resumable else "", self.place):
            self.target.create(self._record.to_bytes(), holds)

    @property
    def record(self) -> GroupRecord:
        """What the journal says."""
        assert self._record is not None, "it has been begun"
        return self._record

    def open_outlet(self, name: str, job: Job) -> Outlet:  # noqa: ARG002 - the job has all of it
        """Begin to write one of the arrays."""
        return job.open_outlet(self._identities[job.source])

    def finish(self) -> None:
        """Copy what is copied as it is, and make a group of all."""
        _complete(self.record, self.target, self.small)

    def give_up(self) -> None:
        """Let another run go on, or leave nothing."""
        self.target.give_up()

    def check(self, memory: int, workers: int, pace: Pace | None) -> None:
        """Compare all that has been written with its checksums."""
        root = self.target.root
        check_copied_files(root, self.record.copies)
        check_again([root / name for name in self.record.arrays], memory, workers, pace=pace)


@dataclass(frozen=True)
class GroupRecord:
    """What the journal of a group says: what its arrays are to be, and what it is itself."""

    group: Group
    format: str
    """Name of the format of what it is made from, which `group` says the place of."""
    arrays: Mapping[str, JobRecord]
    copies: Mapping[str, str]
    """Checksums of the arrays that are copied as they are."""
    durability: Durability
    identity: int
    """What changes when one of the files does that are copied as they are."""
    not_kept: tuple[str, ...] = ()
    """What the group has no place for."""

    def to_bytes(self) -> bytes:
        """Return it as the job of a journal."""
        source = {"source": str(self.group.root.absolute()), "format": self.format}
        return json.dumps(
            {
                "version": VERSION,
                "group": {**source, **self.group.to_json()},
                "arrays": {name: record.to_json() for name, record in self.arrays.items()},
                "copies": dict(self.copies),
                "durability": self.durability,
                "identity": self.identity,
                "not_kept": self.not_kept,
            }
        ).encode()

    @classmethod
    def read(
        cls,
        journal: Location,
        source: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> GroupRecord:
        """Read what a journal says; `source` is where the other one is, if it has been moved.

        `storage_options` say how to reach it, if it is in an object store.

        Raises
        ------
        DataError
            If that is no such record.
        """
        from dask_io.formats.zarr.group import Group, checked_path  # noqa: PLC0415 - as below

        job = read_job(journal)
        try:
            described = read_field(job, "group", dict)
            root = locate(source or read_field(described, "source", str), storage_options)
            arrays = {
                checked_path(name): JobRecord.from_json(each)
                for name, each in job["arrays"].items()
            }
            group, kind = Group.from_json(root, described), read_field(described, "format", str)
            copies = {checked_path(name): str(each) for name, each in job["copies"].items()}
            durability, identity = Durability(job["durability"]), read_field(job, "identity", int)
            # Journals of older runs do not say what is not kept.
            not_kept = tuple(map(str, read_field({"not_kept": [], **job}, "not_kept", list)))
            return cls(group, kind, arrays, copies, durability, identity, not_kept)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            place, problem = printable(str(journal)), f"is not about a group: {error}"
            raise DataError(place, [problem], "start again with --overwrite") from error


def _digest(files: Location | Mapping[str, bytes]) -> str:
    """Return a checksum of the files of an array, those too that are not there yet."""
    if not isinstance(files, Mapping):
        return digest_files(files)
    found = xxh3_64()
    for name in sorted(files):
        found.update(f"{name}\0".encode())
        found.update(files[name])
    return found.hexdigest()


def _identity(group: Group, kind: str, copies: Iterable[str]) -> int:
    """Return a number that changes when what is copied as it is does, or all if it is a file."""
    medium = medium_of(group.root)
    if kind != _ZARR:
        return xxh3_64_intdigest(repr(medium.find(group.root)).encode())
    told = [(name, medium.find(group.root / name)) for name in group.files]
    for name in copies:
        files = medium.files(group.root / name)
        told += [(f"{name}/{file}", found) for file, found in files]
    return xxh3_64_intdigest(repr(sorted(told, key=itemgetter(0))).encode())


def _refuse_changed(record: GroupRecord, when: str) -> None:
    """Refuse a source if files in it have changed that are copied unchanged."""
    group = record.group
    if _identity(group, record.format, record.copies) != record.identity:
        changed = [f"files that are copied unchanged {when}"]
        advice = "begin again: run the first command with --overwrite"
        raise DataError(printable(group.place), changed, advice)


def _complete(record: GroupRecord, target: GroupTarget, small: Small) -> None:
    """Copy what is copied as it is, and make a group of all."""
    for name, files in small.items():
        _copy_small(target, name, files)
    _refuse_changed(record, "changed while they were being read")
    target.finish(record.group, [*record.arrays, *small], _check_written)


def _copy_small(target: GroupTarget, name: str, files: Location | Mapping[str, bytes]) -> None:
    """Copy an array unchanged: its files, or the content that they will have."""
    if isinstance(files, Mapping):
        target.write_array(name, files)
    else:
        target.copy_array(files, name)


def _find_small(group: Group, file: Tree | None, names: Iterable[str]) -> Small:
    """Return where the files are of arrays that are copied as they are, or what is to be in them.

    They come from a group, or from a file if there is one.

    Raises
    ------
    UsageError
        If Zarr cannot hold one.
    """
    from dask_io.formats.zarr.tree import array_files  # noqa: PLC0415 - a second, if needed

    if file is None:
        return {name: group.root / name for name in names}
    return {name: array_files(file, name, group.version) for name in names}


def _check_written(root: Location, like: Group) -> None:
    """Look at a group once more if there are images in it."""
    from dask_io.formats.zarr.group import read_group  # noqa: PLC0415 - a second, if needed
    from dask_io.formats.zarr.ome import check_images, image_groups  # noqa: PLC0415 - as above

    if image_groups(like):
        check_images(read_group(root))


def plan_group(
    source: Tree, target: str | PathLike[str], chunks: Chunks, options: Options
) -> SeriesJob:
    """Plan how to re-split all arrays of a group or a file into a group.

    Parameters
    ----------
    source
        What is in the group or the file.
    target
        The other group.
    chunks
        As `choose_chunks` takes them. Arrays that have none of the names keep the chunks that they
        have, and so do coordinates.
    options
        What can be asked of a whole group, see `Options`. Shards are given as chunks are.

    Raises
    ------
    UsageError
        If a name is that of no array's dimension, or an array cannot be re-split.
    """
    with needs(_ZARR, "zarr"):
        from dask_io.formats.zarr.create import choose_codecs  # noqa: PLC0415 - slow, if needed
        from dask_io.formats.zarr.ome import check_images  # noqa: PLC0415 - as above
        from dask_io.formats.zarr.tree import group_of  # noqa: PLC0415 - as above
        from dask_io.formats.zarr.tree_target import GroupTarget  # noqa: PLC0415 - as above

    check_options(options)
    file = None if source.format == _ZARR else source
    version = options.get("format_version") if file else None
    asked_of_all = {**options, "format_version": None} if file else options
    refuse_for_several(asked_of_all, name_one(source))
    if (codec := options.get("codec")) is not None:
        # For all of them, so it is not the first one that is blamed.
        choose_codecs(codec)
    made = GroupTarget(
        locate(target, options.get("storage_options")),
        durability=parse_durability(options.get("durability", Durability.FSYNC)),
        overwrite=bool(options.get("overwrite")),
    )
    check_places(source, made)
    made.check()
    asked, shards = choose_chunks(source, chunks), choose_shards(source, options.get("shards"))
    refuse_uncopied(source)
    group = group_of(source, version)
    _refuse_shards(group, options, "" if file is None else ", or ask for version 3")
    check_images(group)
    copies = [n for n in source.arrays if is_to_copy(source, n, asked[n], shards[n])]
    jobs = plan_each(
        [name for name in source.arrays if name not in copies],
        lambda name: _plan_array(
            source, name, made.root / name, asked[name], {**options, "shards": shards[name]}
        ),
    )
    small = _find_small(group, file, copies)
    output = GroupOutput(source.format, group, made, small, file.format_specific if file else ())
    return make_series(source, output, jobs, options)


def _refuse_shards(group: Group, options: Options, otherwise: str) -> None:
    """Refuse shards in a group that cannot have them, and not the first of its arrays for them."""
    if options.get("shards") is not None and group.version < _FIRST_WITH_SHARDS:
        raise UsageError(f"a group of Zarr 2 has no shards; leave them out{otherwise}")


def _plan_array(source: Tree, name: str, target: Location, chunks: Chunks, options: Options) -> Job:
    """Plan one array; one that keeps its chunks keeps its shards and codecs, too.

    Unless it is to have other shards. In another format it gets the codec that is asked for, and
    none in place of one that loses bits.
    """
    store = source.sources[name]
    # What is there goes with the group that it is in.
    chosen: Options = {**options, "format": _ZARR, "overwrite": False}
    is_kept = chunks is None and options.get("shards") is None
    if is_kept and source.format == _ZARR:
        chosen = {**chosen, "codec": None, "shards": store.metadata["shards"]}
    elif chunks is None and source.arrays[name].is_lossy:
        chosen = {**chosen, "codec": options.get("codec") or "none"}
    wanted = Wanted(target, chunks_or_kept(source, name, chunks), None)
    try:
        return plan_one(store, wanted, **chosen)
    except BudgetTooSmallError:
        raise
    except UsageError as error:
        raise UsageError(f"array {printable(name)}: {error}") from error


def plan_group_resume(
    place: Location, journal: Location, options: ResumeOptions
) -> Iterator[Job | Complete]:
    """Plan how to complete a group, one array after another."""
    if not is_sealed(journal):
        yield from _plan_rest(place, journal, options)
    record = GroupRecord.read(journal)
    parts = tuple(place / name for name in record.arrays)
    yield replace(
        make_complete(place, options), parts=parts, copies=record.copies, not_kept=record.not_kept
    )


def _plan_rest(place: Location, journal: Location, options: ResumeOptions) -> Iterator[Job]:
    from dask_io.formats.zarr.tree_target import GroupTarget  # noqa: PLC0415 - a second, if needed

    moved, reach = options.get("source"), options.get("storage_options")
    record = GroupRecord.read(journal, moved, reach)
    group, is_group = record.group, record.format == _ZARR
    _refuse_changed(record, "have changed since the run began")
    file = None if is_group else find_whole(str(group.root), each=True)
    small = _find_small(group, file, record.copies)
    target = GroupTarget(place, durability=record.durability)
    target.resume()
    try:
        for name, each in record.arrays.items():
            chosen = options
            if moved is not None:
                chosen = {**options, "source": str(group.root / name if is_group else group.root)}
            job = plan_recorded(place / name, each, **chosen)
            if isinstance(job, Job):
                yield replace(job, member=True)
        _complete(record, target, small)
    finally:
        target.abandon()


def find_damaged_copies(place: Location, record: GroupRecord) -> list[str]:
    """Return the arrays that were copied unchanged and are now missing or damaged."""
    return [
        name
        for name, digest in record.copies.items()
        if not (place / name).is_dir() or digest_files(place / name) != digest
    ]


def copy_again(place: Location, record: GroupRecord, names: Sequence[str]) -> None:
    """Copy arrays of a complete group from its source again, file by file.

    Raises
    ------
    DataError
        If the source now has different data; nothing has been changed then.
    StorageError
        If the source is not found.
    """
    from dask_io.formats.zarr.tree_target import GroupTarget  # noqa: PLC0415 - a second, if needed

    group, medium = record.group, medium_of(place)
    if is_absent(group.root):
        raise StorageError(printable(group.place), "no such file or directory", "check the path")
    file = None if record.format == _ZARR else find_whole(str(group.root), each=True)
    small = _find_small(group, file, names)
    for name, files in small.items():
        is_there = isinstance(files, Mapping) or files.is_dir()
        if not is_there or _digest(files) != record.copies[name]:
            changed = [f"array {printable(name)} has changed since it was copied"]
            raise DataError(printable(group.place), changed, "restore it as it was")
    target = GroupTarget(place, durability=Durability.FSYNC)
    target.resume()
    try:
        for name, files in small.items():
            _copy_small(target, name, files)
            kept = {*files} if isinstance(files, Mapping) else _names_in(files)
            medium.remove(place / name / each for each in _names_in(place / name) - kept)
    finally:
        target.abandon()


def find_damaged_groups(place: Location, record: GroupRecord) -> list[str]:
    """Return the group and those in it whose metadata is missing or cannot be understood."""
    from dask_io.formats.zarr.group import is_described  # noqa: PLC0415 - a second, if needed

    groups = record.group.groups
    return [path for path in groups if not is_described(place / path, groups[path])]


def describe_again(place: Location, record: GroupRecord, paths: Sequence[str]) -> None:
    """Write the metadata of groups again, once their arrays have theirs."""
    from dask_io.formats.zarr.tree_target import GroupTarget  # noqa: PLC0415 - a second, if needed

    target = GroupTarget(place, durability=Durability.FSYNC)
    target.resume()
    try:
        target.describe(record.group, [*record.arrays, *record.copies], paths)
    finally:
        target.abandon()


def _names_in(root: Location) -> set[str]:
    return {name for name, _ in medium_of(root).files(root)}


def verify_group(place: Location, memory: int, workers: int, journal: Location) -> Verification:
    """Compare all arrays of a group with the checksums of their journals, and of its own."""
    refuse_unfinished(place)
    record = GroupRecord.read(journal)
    with advising_repair(place):
        check_copied_files(place, record.copies)
        refuse_missing(place, record.arrays)
        for path in find_damaged_groups(place, record):
            problem = "the metadata of the group is missing or cannot be understood"
            raise DataError(printable(str(place / path)), [problem])
    found = Verification(0)
    for name in record.arrays:
        checked = verify_sealed(place / name, memory, workers)
        found = found.followed_by(checked, printable(str(place / name)))
    return found
