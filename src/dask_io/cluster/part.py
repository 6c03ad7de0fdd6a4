"""One part of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dask_io.engine.run import Progress, RunResult

if TYPE_CHECKING:
    from dask_io.geometry import Region


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a job: it writes a region of whole target blocks.

    Parts are numbered from 1. Times, bytes and memory are predicted.
    """

    number: int
    count: int
    region: Region
    seconds: float
    n_bytes_read: int
    n_bytes_written: int
    memory: int

    def __str__(self) -> str:
        return f"part {self.number} of {self.count}"


class WorkItem(NamedTuple):
    """A part with the record of its job; any process can write it with `run_part`."""

    record: bytes
    part: Part


RunItems = Callable[
    [Sequence[WorkItem], Progress, Callable[[Progress], None] | None], list[RunResult]
]
"""Writes parts in other processes, given their total size and what takes their progress."""
