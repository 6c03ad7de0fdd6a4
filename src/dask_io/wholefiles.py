"""Files of several arrays: every array is moved, one after another, into one other file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from os import fspath
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xxhash import xxh3_64_intdigest

from dask_io.comparing import check_again
from dask_io.engine.commit import Outlet
from dask_io.engine.job import WHOLE_FILE
from dask_io.engine.preflight import check_before_run
from dask_io.engine.run import Progress, RunResult
from dask_io.engine.series import SeriesProgress
from dask_io.engine.spill import remove_scratch
from dask_io.engine.verify import Verification
from dask_io.errors import DataError, UsageError
from dask_io.geometry.chunks import normalize_chunks
from dask_io.geometry.named import chunks_by_name, is_coordinate
from dask_io.jobs import Complete, Job, resumable
from dask_io.options import (
    Options,
    check_options,
    parse_durability,
    parse_memory,
    parse_workers,
    refuse_for_several,
    wishes_of,
)
from dask_io.planning import Series
from dask_io.prepare import plan_to
from dask_io.stores.container import INSIDE, Wanted
from dask_io.stores.files import Durability, storage_errors
from dask_io.stores.formats import find_container, format_of, load_format
from dask_io.stores.journal import VERSION, is_sealed, read_job
from dask_io.stores.location import is_url, locate
from dask_io.stores.logs import NAME as JOURNAL
from dask_io.stores.making import check_places
from dask_io.stores.naming import printable
from dask_io.stores.places import journal_at, refuse_unfinished
from dask_io.stores.whole import HoldsSeveral

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import Unpack

    from dask_io.geometry.chunks import AxisChunks, Chunks
    from dask_io.options import ResumeOptions
    from dask_io.planning import Device
    from dask_io.stores.location import Location
    from dask_io.stores.store import Source
    from dask_io.stores.whole import WholeFile, WholeTarget

_MOST_NAMED = 5


@dataclass(frozen=True)
class FileJob:
    """The arrays of a file, each with its job; nothing has been moved yet.

    What has no axes, or elements that Dask IO does not understand, is copied as it is. `chunks`
    are those of the arrays that are re-split, `options` what was asked for besides.
    """

    source: WholeFile
    target: WholeTarget
    jobs: Mapping[str, Job]
    chunks: Mapping[str, Sequence[int]]
    options: Options
    workers: int
    device: Device
    memory: int
    is_resumed: bool = False

    @property
    def plan(self) -> Series:
        """What it will cost: the plans of all arrays."""
        return Series({name: job.plan for name, job in self.jobs.items()})

    def run(
        self, *, verify: bool = False, on_progress: Callable[[Progress], None] | None = None
    ) -> RunResult:
        """Move one array after another; the file gets its name in the end. As `Job.run`."""
        target, targets = self.target, list(self.target.arrays.values())
        scratch_bytes = max(job.plan.scratch_bytes for job in self.jobs.values())
        check_before_run(targets, workers=self.workers, scratch_bytes=scratch_bytes)
        progress = SeriesProgress(on_progress, targets)
        result = RunResult.of_nothing(0)
        if self.is_resumed:
            target.begin_again(self._record())
            remove_scratch(targets[0])
        else:
            target.create(self._record())
        with resumable(self._left, target.place):
            try:
                for name, job in self.jobs.items():
                    each = target.arrays[name]
                    done = job.carry_out(Outlet(each), progress.of_next(each))
                    result = result.followed_by(done)
                not_kept = target.not_kept
                target.finish()
            except BaseException:
                target.abandon()
                raise
        if verify:
            check_again([Path(target.place)], self.memory, self.workers)
        return replace(result, verified=True if verify else None, not_kept=not_kept)

    def _record(self) -> bytes:
        record = FileRecord(
            self.source.path.absolute(),
            identity_of(self.source.path),
            self.chunks,
            self.options.get("codec"),
            bool(self.options.get("write_empty")),
            self.target.durability,
            next(iter(self.target.arrays.values())).format,
        )
        return record.to_bytes(self.target)

    def _left(self) -> str:
        place = Path(self.target.place)
        return quote(self.target.place) if journal_at(place) is not None else ""

    def __str__(self) -> str:
        return f"{self.source.place} to {self.target.place}\n{self.plan}"


@dataclass(frozen=True)
class FileRecord:
    """What the journal of a file says: how to make the same one again."""

    source: Path
    identity: int
    """What changes when the source does."""
    chunks: Mapping[str, Sequence[int]]
    codec: str | None
    write_empty: bool
    durability: Durability
    format: str
    """Name of the format that the file is to have."""

    def to_bytes(self, target: WholeTarget) -> bytes:
        """Return it as the job of a journal, with what there will be in a file."""
        about = {**asdict(self), "source": str(self.source)}
        arrays = {name: each.describe() for name, each in target.arrays.items()}
        return json.dumps({"version": VERSION, WHOLE_FILE: about, "arrays": arrays}).encode()

    @classmethod
    def read(cls, journal: Path) -> FileRecord:
        """Read what a journal says.

        Raises
        ------
        DataError
            If that is no such record.
        """
        try:
            about = read_job(journal)[WHOLE_FILE]
            chunks = {str(name): tuple(map(int, n)) for name, n in about["chunks"].items()}
            return cls(
                Path(about["source"]),
                int(about["identity"]),
                chunks,
                None if about["codec"] is None else str(about["codec"]),
                bool(about["write_empty"]),
                Durability(about["durability"]),
                str(about["format"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            place, problem = printable(str(journal)), f"is not about a file: {error}"
            raise DataError(place, [problem], "start again with --overwrite") from error


def identity_of(path: Path) -> int:
    """Return a number that changes when a file does."""
    with storage_errors(path):
        found = path.stat()
    return xxh3_64_intdigest(f"{found.st_size}\0{found.st_mtime_ns}".encode())


def find_file(place: object) -> WholeFile | None:
    """Return what is in the file that a source names as a whole; None if it means one array.

    That is so if all else in the file belongs to the one array, and comes along with it.

    Raises
    ------
    DataError
        If it is one that is not complete, or is broken.
    """
    if not isinstance(place, str | Path) or is_url(place):
        return None
    path = Path(place)
    if not path.is_file():
        return None
    container = find_container(path, None)
    if not isinstance(container, HoldsSeveral):
        return None
    refuse_unfinished(path)
    found = container.open_all(path)
    return found if found.only is None and found.arrays else None


def plan_file(
    source: WholeFile,
    target: str | PathLike[str] | None,
    chunks: Chunks,
    **options: Unpack[Options],
) -> FileJob:
    """Plan how to re-split all arrays of a file into another one, and what that will cost.

    Parameters
    ----------
    source
        What is in the file.
    target
        The other file.
    chunks
        Chunks by names of dimensions; by position if all arrays have so many axes. Arrays that
        have none of the names keep the chunks that they have, and so do coordinates.
    **options
        What can be asked of a whole file, see `Options`.

    Raises
    ------
    UsageError
        If a name is that of no array's dimension, or an array cannot be re-split.
    """
    check_options(options)
    refuse_for_several(options, "is a file of several arrays")
    path, container = _target_of(source, target, options.get("format"))
    return _plan(source, path, container, choose_chunks(source, chunks), options)


def _target_of(
    source: WholeFile,
    target: str | PathLike[str] | None,
    format: str | None,  # noqa: A002 - the word that users know
) -> tuple[Path, HoldsSeveral]:
    """Return the file that is to be written, and the format that it will have.

    Raises
    ------
    UsageError
        If what a file of several arrays becomes cannot be there.
    """
    shown, names = printable(source.place), list(source.arrays)
    if target is None:
        raise UsageError(f"{shown} holds {len(names)} arrays; name a target to plan for all")
    place = locate(target)
    container = load_format(format) if format is not None else format_of(place.name)
    # What is NetCDF 4 is HDF5, too.
    kinds = list(dict.fromkeys([source.format, "hdf5"]))
    if isinstance(place, Path) and isinstance(container, HoldsSeveral) and container.name in kinds:
        return place, container
    listed = ", ".join(map(printable, names[:_MOST_NAMED]))
    more = " and more" if len(names) > _MOST_NAMED else ""
    raise UsageError(
        f"{shown} holds several arrays ({listed}{more}), which together become one file of "
        f"{' or '.join(kinds)}, not {printable(fspath(target))}; for another format name one of "
        f"them, as in {shown}{INSIDE}/{printable(names[0])}"
    )


def choose_chunks(source: WholeFile, chunks: Chunks) -> dict[str, Chunks]:
    """Return the chunks of every array, None for those that keep theirs.

    Raises
    ------
    UsageError
        If a name is that of no array's dimension, or arrays differ in their number of axes.
    """
    dimensions = source.dimensions
    if isinstance(chunks, Mapping) and all(isinstance(axis, str) for axis in chunks):
        return chunks_by_name(cast("Mapping[str, AxisChunks]", chunks), dimensions)
    data = {
        name: len(names)
        for name, names in dimensions.items()
        if names and not is_coordinate(name, names)
    }
    is_for_all = isinstance(chunks, int | str) or (
        isinstance(chunks, list | tuple) and set(data.values()) == {len(chunks)}
    )
    if not is_for_all:
        raise UsageError(
            f"{printable(source.place)} holds several arrays, which are re-split by the names of "
            "their dimensions, or by position if all have so many axes; write chunks as "
            "time=24,y=-1"
        )
    return {name: chunks if name in data else None for name in dimensions}


def _plan(
    source: WholeFile,
    path: Path,
    container: HoldsSeveral,
    chunks: Mapping[str, Chunks],
    options: Options,
) -> FileJob:
    wanted = _wanted(source, chunks, options)
    if not wanted:
        raise UsageError(f"{printable(source.place)} holds no array to move")
    durability = parse_durability(options.get("durability", Durability.FSYNC))
    overwrite = options.get("overwrite", False)
    made = container.make_all(
        path, source.model, wanted, overwrite=overwrite, durability=durability
    )
    check_places(source, made)
    jobs = {
        name: plan_to(source.arrays[name], each, **options) for name, each in made.arrays.items()
    }
    first = next(iter(jobs.values()))
    memory = parse_memory(options.get("memory"))
    lengths = {
        name: tuple(axis.longest or 1 for axis in each.grid.axes)
        for name, each in made.arrays.items()
        if chunks[name] is not None
    }
    return FileJob(source, made, jobs, lengths, options, first.workers, first.device, memory)


def _wanted(source: WholeFile, chunks: Mapping[str, Chunks], options: Options) -> dict[str, Wanted]:
    """Return what arrays are to become; one that keeps its chunks keeps its filters, too."""
    wanted, wishes = {}, wishes_of(options)
    for name, problem in source.uncopied.items():
        raise UsageError(
            f"{printable(name)} in {printable(source.place)} cannot be copied: it {problem}; name "
            f"one array, as in {printable(source.place)}{INSIDE}/name"
        )
    for name, asked in chunks.items():
        is_kept = asked is None
        if name in source.others:
            if not is_kept and len(source.dimensions[name]) > 1:
                why = printable(source.others[name])
                raise UsageError(f"array {printable(name)} cannot be re-split: it {why}")
            continue
        if is_kept and name in source.as_they_are:
            continue
        store = source.arrays[name]
        like = source.kept.get(name, store.grid) if is_kept else store.grid
        grid = normalize_chunks(asked, store.grid.shape, store.dtype.itemsize, like=like)
        asks = replace(wishes, codec=None) if is_kept else wishes
        wanted[name] = Wanted(grid, store.dtype, store.layout, asks, store.metadata)
    return wanted


def plan_file_resume(place: Location, options: ResumeOptions) -> FileJob | Complete | None:
    """Plan how to complete a file of which a journal says how it was to be made: all anew.

    None if a place has no journal of a whole file.
    """
    journal = journal_at(place)
    # Files are written as a whole on local disk only.
    if not isinstance(journal, Path) or WHOLE_FILE not in read_job(journal):
        return None
    check_options(cast("Options", options))
    if is_sealed(journal):
        memory, workers = parse_memory(options.get("memory")), parse_workers(options.get("workers"))
        return Complete(place, 0, memory, workers)
    record, moved = FileRecord.read(journal), options.get("source")
    path = record.source if moved is None else Path(moved)
    if identity_of(path) != record.identity:
        advice = "begin again: run the first command with --overwrite"
        raise DataError(printable(str(path)), ["has changed since the run began"], advice)
    target = Path(str(journal).removesuffix(JOURNAL))
    found, container = find_container(path, None), load_format(record.format)
    if not (isinstance(found, HoldsSeveral) and isinstance(container, HoldsSeveral)):
        raise DataError(printable(str(journal)), ["is not about a file of several arrays"])
    source = found.open_all(path)
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
    chunks = {name: record.chunks.get(name) for name in source.dimensions}
    return replace(_plan(source, target, container, chunks, chosen), is_resumed=True)


def verify_files(
    one: WholeFile, other: WholeFile, compare: Callable[[Source, Source], Verification]
) -> Verification:
    """Compare the arrays of two files, each with the one of its name.

    Raises
    ------
    DataError
        If one file has arrays that the other has not, or a value differs that is copied as it is.
    """
    shown = printable(other.place)
    differing = sorted(one.dimensions.keys() ^ other.dimensions.keys())
    if differing:
        problem = f"array {differing[0]} is only in one of it and {one.place}"
        raise DataError(shown, [printable(problem)])
    found = Verification(0)
    for name in one.dimensions:
        if name in one.arrays and name in other.arrays:
            place = printable(f"{other.place}{INSIDE}/{name}")
            found = found.followed_by(compare(one.arrays[name], other.arrays[name]), place)
        elif not _is_same(one.model.read(name), other.model.read(name)):
            problem = f"array {name} differs from that of {one.place}"
            raise DataError(shown, [printable(problem)])
    return found


def _is_same(a: Any, b: Any) -> bool:
    """Compare values that are small, texts and lists of any length among them."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.hasobject:
        return a.shape == b.shape and all(map(np.array_equal, a.ravel(), b.ravel()))
    return (
        a.shape == b.shape
        and a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=")
        and (np.array_equal(a, b) or a.tobytes() == b.tobytes())
    )
