"""One part of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
