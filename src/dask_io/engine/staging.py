"""How much staging the engine asks for, and how its threads share what a plan grants."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from dask_io.planning import Staging
from dask_io.stores.files import ALIGNMENT

if TYPE_CHECKING:
    import numpy as np

    from dask_io.planning import Problem, Side

# Large enough that a call's cost does not count, small enough to stay in a processor's cache.
_SLAB = 2 * 2**20
# What each thread may leave to be written, at the least: this part of an array, up to a limit.
_BEHIND, _PART_BEHIND = 8 * 2**20, 256
# The least there is room for in any budget.
_SMALLEST_SLAB = 16 * 2**10
# This part of a large budget is staging: it costs few seeks, and much time if it is missing.
_PART_OF_BUDGET = 64
_MOST_NEEDED = 32 * 2**20


def staging_for(target: Side, dtype: np.dtype[Any], workers: int) -> Staging:
    """Ask for one slab a thread, and for room to write blocks behind while reading goes on."""
    smallest = max(_SMALLEST_SLAB, dtype.itemsize + 2 * ALIGNMENT)
    block_bytes, n_bytes = (
        n * dtype.itemsize for n in (prod(target.grid.longest), target.grid.size)
    )
    behind = max(2 * block_bytes, min(_BEHIND, n_bytes // _PART_BEHIND))
    wanted = workers * (max(_SLAB, smallest) + behind)
    preferred = max(smallest, min(wanted, n_bytes))
    return Staging(smallest, preferred, _PART_OF_BUDGET, min(_MOST_NEEDED, preferred))


def share_staging(staging_bytes: int, problem: Problem, workers: int) -> tuple[int, int]:
    """Return how many threads can work, and how many bytes of staging each of them has."""
    smallest = max(_SMALLEST_SLAB, problem.itemsize + 2 * ALIGNMENT)
    n_workers = max(1, min(workers, staging_bytes // smallest))
    return n_workers, max(smallest, min(max(_SLAB, smallest), staging_bytes // n_workers))


def comparison_slab(memory: int, itemsize: int, workers: int) -> int:
    """Return the bytes each thread reads at once of the array that another is compared with."""
    return max(_SMALLEST_SLAB, itemsize + 2 * ALIGNMENT, min(_SLAB, memory // (4 * workers)))
