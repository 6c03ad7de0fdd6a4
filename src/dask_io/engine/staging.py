"""How much staging the engine asks for, and how its threads share what a plan grants."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.planning import Staging
from dask_io.stores.files import ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def staging_for(
    target: Side,
    dtype: np.dtype[Any],
    workers: int,
    *,
    codec_bytes: int = 0,
    stored: np.dtype[Any] | None = None,
) -> Staging:
    """Ask for one slab a thread, and for room to write blocks behind while reading goes on.

    Every thread needs `codec_bytes` besides, for what it decodes or encodes. A slab has room for
    elements of `dtype` and, if they are converted, for those that are `stored`.
    """
    smallest = _smallest_slab(max(dtype.itemsize, (stored or dtype).itemsize))
    block_bytes, n_bytes = (
        n * dtype.itemsize for n in (prod(target.grid.longest), target.grid.size)
    )
    behind = max(2 * block_bytes, min(_BEHIND, n_bytes // _PART_BEHIND))
    slab = max(_SLAB, smallest)
    wanted = workers * (slab + behind)
    preferred = max(smallest + codec_bytes, min(wanted, n_bytes) + workers * codec_bytes)
    minimum, most = smallest + codec_bytes, min(_MOST_NEEDED, preferred)
    return Staging(minimum, preferred, _PART_OF_BUDGET, most, workers * (slab + codec_bytes))


class Share(NamedTuple):
    """How many threads can work, and the bytes of staging that each of them has.

    To decode or to encode, a thread takes `codec_bytes` by itself; all that remains is `behind`.
    """

    n_workers: int
    slab: int
    codec_bytes: int
    behind: int


def share_staging(staging_bytes: int, problems: Sequence[Problem], workers: int) -> Share:
    """Divide what a plan grants among threads, of which any may work on any problem."""
    codec_bytes = max(problem.codec_bytes for problem in problems)
    smallest = _smallest_slab(max(problems[0].itemsize, problems[0].source_itemsize))
    n_workers = max(1, min(workers, staging_bytes // (smallest + codec_bytes)))
    slab = min(max(_SLAB, smallest), staging_bytes // n_workers - codec_bytes)
    behind = staging_bytes - n_workers * (slab + codec_bytes)
    return Share(n_workers, max(smallest, slab), codec_bytes, max(0, behind))


def staging_to_copy(workers: int, held: int) -> Staging:
    """Ask for what copies blocks as they are stored: one slab a thread, and what that holds."""
    return Staging(_SMALLEST_SLAB + held, workers * (_SLAB + held))


def copying_slabs(staging_bytes: int, asked: Staging, workers: int) -> list[int]:
    """Return the bytes of each thread's slab; with little staging there are fewer threads."""
    held = asked.minimum - _SMALLEST_SLAB
    n_workers = max(1, min(workers, staging_bytes // asked.minimum))
    return [staging_bytes // n_workers - held] * n_workers


def _smallest_slab(itemsize: int) -> int:
    return max(_SMALLEST_SLAB, itemsize + 2 * ALIGNMENT)


def comparison_slab(memory: int, itemsize: int, workers: int) -> int:
    """Return the bytes each thread reads at once of the array that another is compared with."""
    return max(_smallest_slab(itemsize), min(_SLAB, memory // (4 * workers)))
