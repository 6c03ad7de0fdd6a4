"""All arrays of a group or a file are moved, one after another, into one file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dask_io.engine.commit import Outlet
from dask_io.engine.identity import Identity
from dask_io.engine.job import WHOLE_FILE, refuse_changed
from dask_io.engine.spill import remove_scratch
from dask_io.errors import DataError, StorageError, UsageError, printable
from dask_io.formats.creating import check_places
from dask_io.formats.places import is_absent, journal_at
from dask_io.formats.registry import load_format
from dask_io.geometry.chunks import normalize_chunks
from dask_io.hierarchy.container import MakesFiles, Model
from dask_io.jobs.compare import check_again
from dask_io.jobs.job import Complete, Job, SeriesJob, check_room
from dask_io.jobs.options import (
    Options,
    check_options,
    parse_durability,
    refuse_for_several,
    wishes_of,
)
from dask_io.jobs.prepare import make_complete, plan_to
from dask_io.jobs.several_arrays import (
    choose_chunks,
    chunks_or_kept,
    find_whole,
    is_to_copy,
    make_series,
    name_one,
    plan_each,
    refuse_uncopied,
)
from dask_io.journal.journal import VERSION, is_sealed, read_field, read_job
from dask_io.storage.location import locate
from dask_io.storage.medium import Durability
from dask_io.storage.own_names import JOURNAL
from dask_io.stores.container import Wanted
from dask_io.stores.dtypes import cast_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.formats.netcdf import NetcdfFormat
    from dask_io.geometry.chunks import Chunks
    from dask_io.hierarchy.container import WholeTarget
    from dask_io.hierarchy.tree import Content, Tree
    from dask_io.jobs.options import ResumeOptions
    from dask_io.storage.location import Location
    from dask_io.storage.pace import Pace


@dataclass(frozen=True)
class FileOutput:
    """The file that all arrays go to; nothing of it can be gone on with."""

    content: Content
    target: WholeTarget
    record: FileRecord
    copies: tuple[str, ...]
    is_resumed: bool = False

    @property
    def place(self) -> str:
        """The file."""
        return self.target.place

    @property
    def not_kept(self) -> tuple[str, ...]:
        """What the file has no place for."""
        return self.target.not_kept

    @property
    def is_resumable(self) -> bool:
        """Whether a journal tells of the file."""
        return journal_at(Path(self.place)) is not None

    def begin(self, jobs: Mapping[str, Job]) -> None:
        """Make the place ready; a journal is the first thing there."""
        check_room(jobs.values())
        job = self.record.to_bytes(self.target, self.content.digests(self.copies))
        if self.is_resumed:
            self.target.begin_again(job)
            remove_scratch(next(iter(self.target.arrays.values())))
        else:
            self.target.create(job)

    def open_outlet(self, name: str, job: Job) -> Outlet:
        """Begin to write one of the arrays."""
        return Outlet(self.target.arrays[name], identity=Identity(job.source))

    def finish(self) -> None:
        """Give the file its name, if the source has not changed."""
        changed = "changed while it was being read"
        _refuse_changed(self.content, self.record, changed, place=self.record.source)
        self.target.finish()

    def give_up(self) -> None:
        """Remove what is there of the file."""
        self.target.abandon()

    def check(self, memory: int, workers: int, pace: Pace | None) -> None:
        """Compare all that has been written with its checksums."""
        check_again([Path(self.place)], memory, workers, pace=pace)


@dataclass(frozen=True)
class FileRecord:
    """What the journal of a file says: how to make the same one again."""

    source: str
    identity: int
    """What changes when the source does."""
    chunks: Mapping[str, Sequence[int]]
    codec: str | None
    write_empty: bool
    durability: Durability
    format: str
    """Name of the format that the file is to have."""

    def to_bytes(self, target: WholeTarget, copies: Mapping[str, str]) -> bytes:
        """Return it as the job of a journal, with what there will be in a file.

        `copies` are the checksums of what is copied as it is.
        """
        arrays = {name: each.describe() for name, each in target.arrays.items()}
        job = {"version": VERSION, WHOLE_FILE: asdict(self), "arrays": arrays, "copies": copies}
        return json.dumps(job).encode()

    @classmethod
    def read(cls, journal: Location) -> FileRecord:
        """Read what a journal says.

        Raises
        ------
        DataError
            If that is no such record.
        """
        try:
            about = read_field(read_job(journal), WHOLE_FILE, dict)
            chunks = {name: tuple(map(int, n)) for name, n in about["chunks"].items()}
            return cls(
                read_field(about, "source", str),
                read_field(about, "identity", int),
                chunks,
                None if about["codec"] is None else read_field(about, "codec", str),
                read_field(about, "write_empty", bool),
                Durability(about["durability"]),
                read_field(about, "format", str),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            place, problem = printable(str(journal)), f"is not about a file: {error}"
            raise DataError(place, [problem], "start again with --overwrite") from error


def _refuse_changed(content: Content, record: FileRecord, problem: str, *, place: str) -> None:
    """Refuse a source that has changed since the run began."""
    if content.identity() != record.identity:
        advice = "begin again: run the first command with --overwrite"
        raise DataError(printable(place), [problem], advice)


def plan_file(
    source: Tree, target: Path, container: MakesFiles, chunks: Chunks, options: Options
) -> SeriesJob:
    """Plan how to re-split all arrays of a group or a file into one file.

    Parameters
    ----------
    source
        What is in the group or the file.
    target
        The other file.
    container
        The format that it will have.
    chunks
        As `choose_chunks` takes them. Arrays that have none of the names keep the chunks that they
        have, and so do coordinates.
    options
        What can be asked of a whole file, see `Options`.

    Raises
    ------
    UsageError
        If a name is that of no array's dimension, or an array cannot be re-split.
    """
    check_options(options)
    refuse_for_several(options, name_one(source))
    if options.get("shards") is not None:
        raise UsageError(f"format {container.name} has no shards; leave them out")
    return _plan(source, target, container, choose_chunks(source, chunks), options)


def _plan(
    source: Tree,
    path: Path,
    container: MakesFiles,
    chunks: Mapping[str, Chunks],
    options: Options,
) -> SeriesJob:
    held = _as_held_by(container, source)
    wanted = _wanted(held, chunks, options)
    assert isinstance(held.content, Model), "a file can be made after it"
    durability = parse_durability(options.get("durability", Durability.FSYNC))
    overwrite = options.get("overwrite", False)
    made = container.make_all(
        path, held.content, wanted, overwrite=overwrite, durability=durability
    )
    check_places(source, made)
    jobs = plan_each(
        made.arrays,
        lambda name: plan_to(held.sources[name], made.arrays[name], **options),
    )
    record = FileRecord(
        str(source.root.absolute()),
        source.content.identity(),
        {
            name: tuple(axis.longest or 1 for axis in each.grid.axes)
            for name, each in made.arrays.items()
            if chunks[name] is not None
        },
        options.get("codec"),
        bool(options.get("write_empty")),
        durability,
        container.name,
    )
    copies = tuple(name for name in held.arrays if name not in wanted)
    output = FileOutput(held.content, made, record, copies)
    return make_series(source, output, jobs, options)


def _as_held_by(container: MakesFiles, source: Tree) -> Tree:
    """Return what is in another format in the words of one that is HDF5 inside."""
    if isinstance(source.content, Model):
        return source
    return cast("NetcdfFormat", load_format("netcdf")).hold(
        source, as_hdf5=container.name != "netcdf"
    )


def _wanted(source: Tree, chunks: Mapping[str, Chunks], options: Options) -> dict[str, Wanted]:
    """Return what arrays are to become; one that keeps its chunks keeps its filters, too.

    In another format these are what is asked for.
    """
    refuse_uncopied(source)
    wanted, wishes = {}, wishes_of(options)
    is_other = source.format == "zarr"
    for name, asked in chunks.items():
        is_kept = asked is None
        if is_to_copy(source, name, asked) or (is_kept and source.arrays[name].is_lossy):
            continue
        array, store = source.arrays[name], source.sources[name]
        cut = chunks_or_kept(source, name, asked)
        grid = normalize_chunks(cut, store.grid.shape, store.dtype.itemsize, like=store.grid)
        asks = replace(wishes, codec=None) if is_kept and not is_other else wishes
        dtype, said = store.dtype if array.dtype is None else array.dtype, store.metadata
        said = said if dtype == store.dtype else cast_metadata(said, store.dtype, dtype)
        wanted[name] = Wanted(grid, dtype, store.layout, asks, said)
    return wanted


def plan_file_resume(
    place: Location, journal: Location, options: ResumeOptions
) -> SeriesJob | Complete:
    """Plan how to complete a file of which a journal says how it was to be made: all anew."""
    if is_sealed(journal):
        return make_complete(place, options)
    planned = plan_file_again(journal, file_of(journal), options)
    output = cast("FileOutput", planned.output)
    return replace(planned, output=replace(output, is_resumed=True))


def file_of(journal: Location) -> Path:
    """Return the file that a journal describes."""
    return Path(str(journal).removesuffix(JOURNAL))


def plan_file_again(journal: Location, target: Path, options: ResumeOptions) -> SeriesJob:
    """Plan how to make the file that a journal describes, there or elsewhere.

    Raises
    ------
    DataError
        If the source has changed.
    StorageError
        If the source is not found.
    """
    record, moved = FileRecord.read(journal), options.get("source")
    source = find_whole(moved or record.source, options.get("storage_options"))
    container = load_format(record.format)
    if source is None and is_absent(at := locate(moved or record.source)):
        raise StorageError(printable(str(at)), "no such file or directory", "check the path")
    if source is None or not isinstance(container, MakesFiles):
        raise DataError(printable(str(journal)), ["is not about a file of several arrays"])
    refuse_changed(journal, source.place)
    changed = "has changed since the run began"
    _refuse_changed(source.content, record, changed, place=source.place)
    chosen = Options(
        codec=record.codec,
        write_empty=record.write_empty,
        durability=record.durability,
        strategy=options.get("strategy", "auto"),
        memory=options.get("memory"),
        objective=options.get("objective"),
        device=options.get("device"),
        workers=options.get("workers"),
        max_rate=options.get("max_rate"),
    )
    chunks = {name: record.chunks.get(name) for name in source.arrays}
    return _plan(source, target, container, chunks, chosen)
