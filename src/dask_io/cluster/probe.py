"""What a worker reports about itself; this code runs on the workers."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

# Dask moves data to disk when the memory of a worker reaches this share of its limit.
_MOST_OF_LIMIT = 0.6


class HasOffer(Protocol):
    """A worker, as its own process sees it."""

    memory_manager: Any
    state: Any


@dataclass(frozen=True, slots=True)
class Probe:
    """What a worker reports about itself.

    Attributes
    ----------
    version
        The version of Dask IO on it.
    resident
        Bytes of memory that its process uses when it runs none of our tasks.
    share
        Share of its memory limit below which Dask leaves it alone.
    available
        Bytes of memory that its machine has left.
    missing
        The paths that it cannot read or write, each with the reason.
    """

    version: str
    resident: int
    share: float
    available: int
    missing: tuple[str, ...] = ()


async def probe_worker(worker: Any, places: list[str], writable: list[str]) -> Probe:
    """Report about the worker that calls this, without blocking its event loop."""
    return await asyncio.to_thread(_probe, worker, places, writable)


def _probe(worker: Any, places: list[str], writable: list[str]) -> Probe:
    from dask_io.engine.machine import available_memory  # noqa: PLC0415

    problems = [(place, _problem_with(place, write=place in writable)) for place in places]
    return Probe(
        version=version("dask-io"),
        resident=resident_before_parts(),
        share=share_of_limit(worker),
        available=available_memory(),
        missing=tuple(f"{place}: {problem}" for place, problem in problems if problem),
    )


def _problem_with(place: str, *, write: bool) -> str:
    """Return why a worker cannot use a path; empty if it can."""
    try:
        os.stat(place)  # noqa: PTH116  # an open handle is not needed
    except OSError as error:
        return error.strerror or str(error)
    folder = Path(place).parent if write else place
    if not os.access(folder, os.W_OK if write else os.R_OK):
        return "permission denied"
    return ""


def share_of_limit(worker: HasOffer) -> float:
    """Return the share of its memory limit below which a worker neither spills nor pauses."""
    manager = worker.memory_manager
    names = ("target", "spill", "pause")
    shares = (getattr(manager, f"memory_{name}_fraction", None) for name in names)
    return min([_MOST_OF_LIMIT, *(float(share) for share in shares if share)])


def count_slots(threads: int, offered: Mapping[str, float], wanted: Mapping[str, float]) -> int:
    """Return the number of parts that run at once on a worker.

    Examples
    --------
    >>> (
    ...     count_slots(4, {}, {}),
    ...     count_slots(4, {"disk": 3}, {"disk": 2}),
    ...     count_slots(4, {}, {"x": 1}),
    ... )
    (4, 1, 0)
    """
    limits = (int(offered.get(name, 0) // amount) for name, amount in wanted.items() if amount)
    return min([threads, *limits])


def memory_here(worker: HasOffer, resident: int, n_slots: int) -> int | None:
    """Return the bytes that a part may use on this worker, None if it has no limit."""
    limit = worker.memory_manager.memory_limit
    return per_slot(limit, share_of_limit(worker), resident, n_slots) if limit else None


def per_slot(limit: int, share: float, resident: int, n_slots: int) -> int:
    """Return the bytes for each of several parts that run at once on a worker."""
    return max(0, int(limit * share) - resident) // n_slots


@cache
def resident_before_parts() -> int:
    """Return the memory of this process before it ran its first part."""
    import psutil  # type: ignore[import-untyped]  # noqa: PLC0415  # comes with distributed

    # Loaded first, so that it counts as memory of the process, not of a part.
    import dask_io.jobs.job  # noqa: F401, PLC0415

    resident: int = psutil.Process().memory_info().rss
    return resident
