"""The record of a job in a journal, from which another run can resume it."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

from dask_io.engine.identity import Identity
from dask_io.engine.problem import converted
from dask_io.errors import DataError, StorageError
from dask_io.formats.places import journal_at
from dask_io.formats.reopening import reopen_source
from dask_io.geometry import Axis, Grid, Region
from dask_io.journal.journal import (
    VERSION,
    is_sealed,
    read_field,
    read_job,
    read_lines,
    refuse_locked,
)
from dask_io.journal.ledger import any_changed, freed_in, join
from dask_io.storage.location import follow, way_to
from dask_io.storage.medium import Durability
from dask_io.stores.dtypes import dtype_from_json, dtype_to_json
from dask_io.stores.views import SourceView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from dask_io.storage.location import Location
    from dask_io.stores.store import Source, Target

TREE = "tree"
"""The key of a job that writes a group, or a file with several arrays."""
# With the keys of earlier versions.
_TREES = frozenset({TREE, "file", "group"})

START_AGAIN = "start again: run the first command with --overwrite"
"""Advice if an interrupted run cannot be resumed."""
MOVED = "check the path; if the source was moved, give its new place with --source"
"""Advice if the source of an interrupted run is not found."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The record of a job: a source or a region of one, and a target."""

    source: Mapping[str, Any]
    identity: int
    region: Region | None
    target: Mapping[str, Any]
    durability: Durability
    consume: bool
    converted: np.dtype[Any] | None = None
    """The type of the source's elements, if they are converted to another one."""
    job_id: str | None = None
    """Identifies a job with several targets; every journal of the job holds it."""
    leader: str | None = None
    """Relative path of the job's leading target, unless this is the record of that target."""
    others: Mapping[str, JobRecord] = field(default_factory=dict)
    """The job's other targets by relative path; only the leading target's journal lists them."""
    gives_space: bool = False
    """Whether the user has said what positions mean, instead of the source."""
    parts: Grid | None = None
    """The parts in which several processes write the target; None if one process writes it."""
    command: str | None = None
    """The command that writes the parts, without the option for the part."""
    memory: int | None = None
    """The memory budget of the run, which is also that of a run that resumes it."""
    max_rate: int | None = None
    """The most bytes per second that the run moves; the same holds for a run that resumes it."""
    encoder: str | None = None
    """The library with which all parts encode gzip or zlib, so that their bytes are the same."""

    @classmethod
    def of(
        cls,
        identity: Identity,
        target: Target,
        *,
        consume: bool = False,
        gives_space: bool = False,
        memory: int | None = None,
        max_rate: int | None = None,
    ) -> JobRecord:
        """Describe a run that is about to begin."""
        described = cls.describe(
            identity.source,
            target,
            identity=identity.total,
            consume=consume,
            gives_space=gives_space,
        )
        return replace(described, memory=memory, max_rate=max_rate)

    @classmethod
    def describe(
        cls,
        source: Source,
        target: Target,
        *,
        identity: int = 0,
        consume: bool = False,
        gives_space: bool = False,
    ) -> JobRecord:
        """Describe a run, given the sum of the fingerprints of its source."""
        region = source.region if isinstance(source, SourceView) else None
        return cls(
            source.describe(),
            identity,
            region,
            target.describe(),
            target.durability,
            consume,
            converted(source.dtype, target.dtype),
            gives_space=gives_space,
        )

    def to_bytes(self) -> bytes:
        """Return the content of the journal's ``job.json``."""
        return json.dumps(self.to_json()).encode()

    def to_json(self) -> dict[str, Any]:
        """Return the job as plain values."""
        return {
            "version": VERSION,
            "source": {**self.source, "identity": f"{self.identity:016x}"},
            "region": None if self.region is None else str(self.region),
            "target": self.target,
            "durability": self.durability,
            "consume": self.consume,
            "converted": self.converted and dtype_to_json(self.converted),
            "job_id": self.job_id,
            "leader": self.leader,
            "gives_space": self.gives_space,
            "others": {path: other.to_json() for path, other in self.others.items()},
            "parts": self.parts and [axis.runs for axis in self.parts.axes],
            "command": self.command,
            "memory": self.memory,
            "max_rate": self.max_rate,
            "encoder": self.encoder,
        }

    @classmethod
    def read(cls, journal: Location) -> JobRecord:
        """Read the record of a journal.

        Raises
        ------
        DataError
            If it is not the record of a job.
        """
        job = read_job(journal)
        try:
            return cls.from_json(job)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            place, problem = str(journal), f"is not a job: {error}"
            raise DataError(place, [problem], "start again with --overwrite") from error

    @classmethod
    def from_json(cls, job: Mapping[str, Any]) -> JobRecord:
        """Return the record from the values that `to_json` returned."""
        source = dict(read_field(job, "source", dict))
        identity = int(read_field(source, "identity", str), 16)
        del source["identity"]
        region = None
        if job["region"] is not None:
            shape = tuple(read_field(source, "shape", list))
            region = Region.parse(read_field(job, "region", str), shape)
        others = {path: cls.from_json(other) for path, other in job["others"].items()}
        # Journals of older versions have neither.
        job_id, leader = (
            None if job.get(name) is None else read_field(job, name, str)
            for name in ("job_id", "leader")
        )
        paths = (*others, leader or "leader")
        if any(path.rpartition("/")[2] in {"", ".", ".."} for path in paths):
            raise ValueError("another target has an invalid name")
        durability, consume = Durability(job["durability"]), read_field(job, "consume", bool)
        # Journals of older versions, which did not convert elements, lack this key.
        recorded = job.get("converted")
        stored = None if recorded is None else dtype_from_json(recorded)
        runs = job.get("parts")
        parts = None
        if runs is not None:
            parts = Grid(tuple(Axis(tuple(map(tuple, axis))) for axis in runs))
        return cls(
            source,
            identity,
            region,
            read_field(job, "target", dict),
            durability,
            consume,
            stored,
            job_id,
            leader,
            others,
            job.get("gives_space") is True,
            parts,
            None if job.get("command") is None else read_field(job, "command", str),
            *read_limits(job),
            None if job.get("encoder") is None else read_field(job, "encoder", str),
        )

    def open_source(
        self,
        journal: Location | None,
        *,
        at: Location | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Identity:
        """Open the source again, without the blocks that a journal records as consumed.

        `at` is its new place, if it has been moved. `storage_options` are needed to connect to
        its object store.

        Raises
        ------
        DataError
            If the source has changed since the run began, or the journal contradicts it.
        """
        if journal is not None:
            refuse_changed(journal, str(self.source.get("folder")))
        try:
            freed = freed_in(read_lines(journal) if journal else ())
        except ValueError as error:
            raise DataError(str(journal), [str(error)]) from error
        try:
            source = self._reopen(at, frozenset(freed), storage_options)
        except StorageError as error:
            if at is not None or not error.is_absent:
                raise
            raise StorageError(error.path, error.reason, MOVED) from error
        unknown = next((index for index in freed if index not in source.grid), None)
        if unknown is not None:
            problem = f"lists a block {join(unknown)} that the source does not have"
            raise DataError(str(journal), [problem])
        identity = Identity(source, freed)
        identity.refuse_other(self.identity)
        return identity

    def reopen_source(
        self, *, storage_options: Mapping[str, Any] | None = None, at: Location | None = None
    ) -> Source:
        """Open the source again; see `open_source`, which also checks that it is unchanged."""
        return self._reopen(at, frozenset(), storage_options)

    def _reopen(
        self,
        at: Location | None,
        absent: frozenset[tuple[int, ...]],
        storage_options: Mapping[str, Any] | None,
    ) -> Source:
        whole = reopen_source(self.source, at=at, absent=absent, storage_options=storage_options)
        return whole if self.region is None else SourceView(whole, self.region)


def read_limits(job: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the memory and the rate of a run; None where an earlier version wrote the journal."""
    return _read_limit(job, "memory"), _read_limit(job, "max_rate")


def _read_limit(job: Mapping[str, Any], name: str) -> int | None:
    limit = None if job.get(name) is None else read_field(job, name, int)
    if limit is not None and limit < 1:
        raise ValueError(f"{name} is {limit}")
    return limit


def refuse_changed(journal: Location, source: str) -> None:
    """Refuse to resume a run during which the source changed, even if it has been restored.

    Raises
    ------
    DataError
        If the journal records that it did.
    """
    if any_changed(read_lines(journal)):
        problem = (
            "changed while an earlier run was reading it, so the target would mix two versions"
        )
        raise DataError(source, [problem], START_AGAIN)


def describe_together(
    sources: Sequence[Identity],
    targets: Sequence[Target],
    places: Sequence[Location],
    *,
    gives_space: bool = False,
    memory: int | None = None,
    max_rate: int | None = None,
) -> list[JobRecord]:
    """Describe a job with several targets at these places; the first is the leading target.

    The record of the leading target lists all others, and every other record has the path of the
    leading target. The whole job is therefore durable as soon as the leading target has its
    journal, and can be found from each of its targets.
    """
    describe = partial(JobRecord.of, gives_space=gives_space, memory=memory, max_rate=max_rate)
    first, *rest = map(describe, sources, targets)
    job_id, at = secrets.token_hex(8), places[0]
    others = {
        way_to(place, at): replace(record, job_id=job_id, leader=way_to(at, place))
        for place, record in zip(places[1:], rest, strict=True)
    }
    return [replace(first, job_id=job_id, others=others), *others.values()]


def find_leaders(targets: Iterable[Location]) -> dict[Location, JobRecord]:
    """Return the leading targets of the jobs that wrote these targets, with their records.

    A job with one target is led by that target. A complete target whose leading target is gone
    leads itself.

    Raises
    ------
    DataError
        If a target is incomplete and the record of its job is gone.
    """
    found: dict[Location, JobRecord] = {}
    for target in targets:
        journal = journal_at(target)
        if journal is None or is_tree(journal):
            continue
        record = JobRecord.read(journal)
        place = target if record.leader is None else follow(record.leader, target)
        leader = found.get(place) or _leading_record(place, record)
        if leader is not None and leader.job_id == record.job_id:
            found[place] = leader
        elif is_sealed(journal):
            found[target] = record
        else:
            problem = f"is part of a job that only the journal of {place} described"
            advice = "that journal is gone: run the first command again with --overwrite"
            raise DataError(str(target), [problem], advice)
    return found


def _leading_record(place: Location, record: JobRecord) -> JobRecord | None:
    """Return the record of the leading target, None if it is gone."""
    if record.leader is None:
        return record
    journal = journal_at(place)
    return None if journal is None or is_tree(journal) else JobRecord.read(journal)


def find_members(targets: Iterable[Location]) -> dict[Location, JobRecord]:
    """Return all targets of the jobs that wrote these targets, with their records.

    The leading target of an unfinished job comes last, because its sealed journal marks the whole
    job as complete. Targets of a complete job that have been removed since are left out.

    Raises
    ------
    StorageError
        If another run is still writing a job with several targets.
    """
    found: dict[Location, JobRecord] = {}
    leaders = find_leaders(targets)
    # Jobs with several targets come first: targets that they were to replace may still be complete.
    for place in sorted(leaders, key=lambda each: not leaders[each].others):
        if place in found:
            continue
        leader = leaders[place]
        others = {follow(path, place): other for path, other in leader.others.items()}
        journal = journal_at(place)
        if journal is not None and is_sealed(journal):
            left = {other: record for other, record in others.items() if journal_at(other)}
            found.update({place: leader, **left})
        else:
            if others and journal is not None:
                # A running job may not have begun its other targets yet.
                refuse_locked(journal)
            found.update({**others, place: leader})
    return found


def find_missing(targets: Iterable[Location], folder: Location) -> dict[Location, JobRecord | None]:
    """Return the targets missing from a folder, of the complete jobs that wrote other targets.

    Each comes with its record. A leading target has None: its record was lost with its journal.
    """
    found: dict[Location, JobRecord | None] = {}
    for place, record in find_leaders(targets).items():
        journal = journal_at(place)
        if journal is None or not is_sealed(journal):
            # An unfinished job may not have begun all its targets yet.
            continue
        members: dict[Location, JobRecord | None] = {
            follow(path, place): other for path, other in record.others.items()
        }
        if record.leader is not None:
            members[follow(record.leader, place)] = None
        is_lost = (each.parent == folder and journal_at(each) is None for each in members)
        found.update(compress(members.items(), is_lost))
    return found


def refuse_lost(missing: Mapping[Location, JobRecord | None], folder: Location) -> None:
    """Refuse a folder without a leading target, whose description is lost with it.

    Raises
    ------
    DataError
        If `find_missing` found any.
    """
    lost = [f"{each.name} is missing" for each in missing if missing[each] is None]
    if lost:
        raise DataError(str(folder), lost, "restore it, or write it again")


def is_tree(journal: Location) -> bool:
    """Tell whether a journal is that of a group, or of a file with several arrays."""
    return not _TREES.isdisjoint(read_job(journal))
