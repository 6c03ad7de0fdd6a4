"""The record of a tree in its journal, from which it can be resumed, verified and repaired."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dask_io.errors import DataError
from dask_io.formats.registry import load_format
from dask_io.hierarchy.container import DividedContainer, TreeContainer
from dask_io.hierarchy.tree import checked_path
from dask_io.jobs.record import START_AGAIN, TREE, JobRecord, read_limits
from dask_io.journal.journal import VERSION, is_sealed, read_field, read_job
from dask_io.storage.medium import Durability

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dask_io.storage.location import Location

# Keys of the records of groups and of files in earlier versions.
_GROUP, _FILE = "group", "file"


@dataclass(frozen=True)
class TreeRecord:
    """The job of a tree, as its journal records it.

    Attributes
    ----------
    source
        The group or the file that it is written from.
    source_format
        The format of the source.
    format
        The format of the tree.
    identity
        A number that changes when the source does. If arrays have their own journals, it covers
        only what is copied verbatim.
    durability
        The kind of failure that written data survives.
    described
        Description of its groups by its target.
    not_kept
        Names for everything that the container has no place for.
    chunks
        The chunks of arrays that do not keep those of the source.
    bounds
        Start and stop along each dimension that is moved in part.
    selected
        The array that is moved, with all that belongs to it; empty for all arrays.
    codec, write_empty
        Options that apply to all arrays.
    arrays
        The jobs of arrays that are written in blocks, as `JobRecord.to_json` returns them.
    copies
        Checksums of the arrays that are copied verbatim.
    memory, max_rate
        The limits of the run, which also hold for a run that resumes it; None in records of
        earlier versions.
    """

    source: str
    source_format: str
    format: str
    identity: int
    durability: Durability
    described: Mapping[str, Any]
    not_kept: tuple[str, ...]
    chunks: Mapping[str, Sequence[int]]
    codec: str | None
    write_empty: bool
    arrays: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    selected: str = ""
    memory: int | None = None
    max_rate: int | None = None

    def to_bytes(self) -> bytes:
        """Return the record as the job of a journal."""
        tree = asdict(self)
        arrays, copies = tree.pop("arrays"), tree.pop("copies")
        job = {"version": VERSION, TREE: tree, "arrays": arrays, "copies": copies}
        return json.dumps(job).encode()

    @classmethod
    def read(cls, journal: Location) -> TreeRecord:
        """Read the record of a journal.

        Raises
        ------
        DataError
            If it is not the record of a tree, or an earlier version left it unfinished.
        """
        job, place = read_job(journal), str(journal)
        if TREE not in job and not is_sealed(journal):
            problem = "is unfinished, and an earlier version of Dask IO began it"
            raise DataError(place, [problem], START_AGAIN)
        try:
            return cls._from_json(job if TREE in job else _upgraded(job))
        except (AttributeError, KeyError, StopIteration, TypeError, ValueError) as error:
            problem = f"does not describe a group or a file: {error}"
            raise DataError(place, [problem], "start again with --overwrite") from error

    @classmethod
    def _from_json(cls, job: Mapping[str, Any]) -> TreeRecord:
        tree = read_field(job, TREE, dict)
        arrays = read_field(job, "arrays", dict)
        for each in arrays.values():
            read_field(each, "target", dict)
        return cls(
            read_field(tree, "source", str),
            read_field(tree, "source_format", str),
            read_field(tree, "format", str),
            read_field(tree, "identity", int),
            Durability(tree["durability"]),
            read_field(tree, "described", dict),
            tuple(map(str, read_field(tree, "not_kept", list))),
            {name: tuple(map(int, n)) for name, n in tree["chunks"].items()},
            None if tree["codec"] is None else read_field(tree, "codec", str),
            read_field(tree, "write_empty", bool),
            {checked_path(name): each for name, each in arrays.items()},
            {checked_path(name): str(each) for name, each in job["copies"].items()},
            # Earlier versions moved groups and files as a whole.
            {name: (int(low), int(high)) for name, (low, high) in tree.get("bounds", {}).items()},
            str(tree.get("selected", "")),
            *read_limits(tree),
        )

    @property
    def container(self) -> TreeContainer:
        """The format of the tree.

        Raises
        ------
        DataError
            If it is not a format for trees.
        """
        found = load_format(self.format)
        if not isinstance(found, TreeContainer):
            raise DataError(self.format, ["is not a format of groups or files"])
        return found

    @property
    def divided(self) -> DividedContainer | None:
        """The format of the tree, if its arrays have their own journals."""
        found = self.container
        return found if isinstance(found, DividedContainer) else None

    def job_of(self, name: str) -> JobRecord:
        """Return the job of an array.

        Raises
        ------
        DataError
            If its record is broken.
        """
        try:
            return JobRecord.from_json(self.arrays[name])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problem = f"the record of its array {name} is broken: {error}"
            raise DataError(self.source, [problem], START_AGAIN) from error


def _upgraded(job: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the record of a tree that an earlier version completed."""
    defaults: dict[str, Any] = {"chunks": {}, "codec": None, "write_empty": False, "not_kept": []}
    if _FILE in job:
        tree = {"source_format": "", "described": {}, **job[_FILE]}
        arrays = {name: {"target": each} for name, each in job["arrays"].items()}
    else:
        group, arrays = job[_GROUP], job["arrays"]
        tree = {
            **{key: job[key] for key in ("identity", "durability", "not_kept") if key in job},
            "source": group["source"],
            "source_format": group["format"],
            "format": next(iter(arrays.values()))["target"]["format"],
            "described": {key: group[key] for key in ("groups", "consolidated", "files")},
        }
    return {TREE: {**defaults, **tree}, "arrays": arrays, "copies": job.get("copies", {})}
