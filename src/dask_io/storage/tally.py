"""Count seeks, visits and bytes of files and objects.

Within one visit, a seek is a transfer whose offset is not where the previous transfer ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from dask_io.storage.pace import Pace


@dataclass(slots=True)
class Traffic:
    """Seeks, visits and bytes in one direction."""

    seeks: int = 0
    visits: int = 0
    n_bytes: int = 0


@dataclass(slots=True)
class Tally:
    """The traffic of a store so far; safe to share between threads.

    A `pace` limits the rate.
    """

    read: Traffic = field(default_factory=Traffic)
    write: Traffic = field(default_factory=Traffic)
    pace: Pace | None = field(default=None, compare=False)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[Tally], tuple[Traffic, Traffic]]:
        # Locks cannot be pickled.
        return Tally, (self.read, self.write)

    def add(self, traffic: Traffic, visit: Traffic) -> None:
        """Add one visit's counts to one direction."""
        with self._lock:
            traffic.seeks += visit.seeks
            traffic.visits += visit.visits
            traffic.n_bytes += visit.n_bytes


class Visit:
    """One visit to a file or an object, which counts its traffic."""

    def __init__(self, tally: Tally, traffic: Traffic) -> None:
        self._tally, self._traffic = tally, traffic
        self._position = -1
        self._counts = Traffic(visits=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tally.add(self._traffic, self._counts)

    def count(self, offset: int, n_bytes: int) -> None:
        """Count moved bytes, and a seek unless they start where the last bytes ended."""
        if self._tally.pace is not None:
            self._tally.pace.wait_for(n_bytes)
        if offset != self._position:
            self._counts.seeks += 1
        self._position = offset + n_bytes
        self._counts.n_bytes += n_bytes

    def go_on_from(self, offset: int) -> None:
        """Continue to count the visit of another thread, which has reached `offset`."""
        self._counts.visits, self._position = 0, offset
