"""What a journal says is to be done, so that another run can go on with it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dask_io.engine.problem import converted
from dask_io.errors import DataError
from dask_io.geometry import Region
from dask_io.stores.dtypes import dtype_from_json, dtype_to_json
from dask_io.stores.files import Durability
from dask_io.stores.journal import VERSION, read_job, read_lines
from dask_io.stores.ledger import freed_in, join
from dask_io.stores.naming import printable
from dask_io.stores.reopening import reopen_source
from dask_io.stores.window import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from dask_io.stores.location import Location
    from dask_io.stores.store import Source, Target

_BITS = 2**64
WHOLE_FILE, GROUP = "file", "group"
"""What the job of a file that is written as a whole has besides its arrays, or that of a group."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What was to be done: a source, or a region of one, and what it becomes."""

    source: Mapping[str, Any]
    identity: int
    region: Region | None
    target: Mapping[str, Any]
    durability: Durability
    consume: bool
    converted: np.dtype[Any] | None = None
    """The type of the source's elements, if they become another one."""
    others: Mapping[str, JobRecord] = field(default_factory=dict)
    """What is to be done besides, by the way to its target: in the journal that is there first."""

    @classmethod
    def of(cls, source: Source, target: Target, *, consume: bool = False) -> JobRecord:
        """Describe a run that is about to begin."""
        region = source.region if isinstance(source, Window) else None
        identity = sum(map(source.fingerprint, source.grid.indices())) % _BITS
        return cls(
            source.describe(),
            identity,
            region,
            target.describe(),
            target.durability,
            consume,
            converted(source.dtype, target.dtype),
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
            "others": {way: other.to_json() for way, other in self.others.items()},
        }

    @classmethod
    def read(cls, journal: Location) -> JobRecord:
        """Read what a journal says.

        Raises
        ------
        DataError
            If that is no job.
        """
        job = read_job(journal)
        try:
            return cls.from_json(job)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            place, problem = printable(str(journal)), f"is not a job: {error}"
            raise DataError(place, [problem], "start again with --overwrite") from error

    @classmethod
    def from_json(cls, job: Mapping[str, Any]) -> JobRecord:
        """Read back what `to_json` returned."""
        source = dict(job["source"])
        identity = int(source.pop("identity"), 16)
        region = job["region"] and Region.parse(job["region"], tuple(source["shape"]))
        others = {way: cls.from_json(other) for way, other in job["others"].items()}
        if any(way.rpartition("/")[2] in {"", ".", ".."} for way in others):
            raise ValueError("another target has no good name")
        durability, consume = Durability(job["durability"]), bool(job["consume"])
        # Journals written before elements could be converted do not say so.
        stored = job.get("converted") and dtype_from_json(job["converted"])
        return cls(source, identity, region, job["target"], durability, consume, stored, others)

    def open_source(
        self,
        journal: Location | None,
        *,
        at: Location | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> tuple[Source, dict[tuple[int, ...], int]]:
        """Open the source again, and tell which of its blocks a journal says to be used up.

        With each comes the fingerprint that it had.

        `at` is where it is now, if it has been moved; `storage_options` say how to reach it
        where it was.

        Raises
        ------
        DataError
            If it is not what it was when the run began, or the journal tells nonsense of it.
        """
        try:
            freed = freed_in(read_lines(journal) if journal else ())
        except ValueError as error:
            raise DataError(printable(str(journal)), [str(error)]) from error
        whole = reopen_source(
            self.source, at=at, absent=frozenset(freed), storage_options=storage_options
        )
        source = whole if self.region is None else Window(whole, self.region)
        unknown = next((index for index in freed if index not in source.grid), None)
        if unknown is not None:
            problem = f"there is no block {join(unknown)} in the source"
            raise DataError(printable(str(journal)), [problem])
        left = (index for index in source.grid.indices() if index not in freed)
        if (sum(freed.values()) + sum(map(source.fingerprint, left))) % _BITS != self.identity:
            advice = (
                "restore it as it was: the target holds what was consumed of it"
                if freed
                else "begin again: run the first command with --overwrite"
            )
            raise DataError(printable(source.place), ["has changed since the run began"], advice)
        return source, freed


def is_of_several(journal: Location) -> bool:
    """Tell whether a journal is that of a group, or of a file that is written as a whole."""
    return not {WHOLE_FILE, GROUP}.isdisjoint(read_job(journal))


def copies_in(journal: Location) -> dict[str, str]:
    """Return the checksums of what was copied as it is, by name, that a journal tells of.

    Raises
    ------
    DataError
        If there is something else in their place.
    """
    found = read_job(journal).get("copies", {})
    if not isinstance(found, dict):
        raise DataError(printable(str(journal)), ["has no checksums of what was copied"])
    return {str(name): str(each) for name, each in found.items()}


def described_in(journal: Location) -> dict[int | None, Mapping[str, Any]]:
    """Return what a journal says about its target, or by number about all arrays of a whole file.

    Raises
    ------
    DataError
        If there is nothing of the kind.
    """
    job = read_job(journal)
    if WHOLE_FILE not in job:
        return {None: JobRecord.read(journal).target}
    arrays = job.get("arrays")
    if not isinstance(arrays, dict) or not all(isinstance(each, dict) for each in arrays.values()):
        raise DataError(printable(str(journal)), ["is not about a file of arrays"])
    return dict(enumerate(arrays.values()))
