"""The staging that the engine requests, and how its threads share the staging of a plan."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.codecs.cores import usable_cores
from dask_io.planning import Staging
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.staging import SLAB, room_for

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import numpy as np

    from dask_io.planning import Problem, Side

# The least room to write behind for each thread: this fraction of an array, up to a limit.
_BEHIND, _PART_BEHIND = 4 * 2**20, 256
# The most room to write behind for all threads, if reads and writes share a device. More would
# cost more time to touch fresh memory than it saves.
_MOST_BEHIND = 64 * 2**20
# In slabs of this size, the overhead of calls is small.
_GOOD_SLAB = 2**20
# With this many bytes for each target block, the overhead of copies is small, too. Slabs grow up to
# the given size for this.
_GOOD_COPY, _LONGEST_SLAB = 256 * 2**10, 12 * 2**20
# The smallest slab.
_SMALLEST_SLAB = 16 * 2**10
# This fraction of a large budget is staging. It costs few seeks, and saves much time.
_PART_OF_BUDGET = 12
_MOST_NEEDED = 32 * 2**20
# To move a block of this size takes longer than everything else that is done for it.
_LARGE_BLOCK = 2**19


def staging_for(
    target: Side,
    dtype: np.dtype[Any],
    workers: int,
    *,
    coding: int = 0,
    stored: np.dtype[Any] | None = None,
    slab: int = SLAB,
    apart: bool = False,
) -> Staging:
    """Request one `slab` for each thread, and room to write blocks behind while reading continues.

    Every thread needs another `coding` bytes to decode or encode. A slab has room for elements of
    `dtype` and, if they are converted, of the `stored` dtype. If source and target are `apart`, on
    different devices, the room to write behind is a block of any size for each thread.
    """
    smallest = _smallest_slab(max(dtype.itemsize, (stored or dtype).itemsize))
    block_bytes, n_bytes = (
        n * dtype.itemsize for n in (prod(target.grid.longest), target.grid.size)
    )
    behind = workers * max(block_bytes, min(_BEHIND, n_bytes // _PART_BEHIND))
    slab = max(slab, smallest)
    wanted = workers * slab + (behind if apart else min(behind, _MOST_BEHIND))
    preferred = max(smallest + coding, min(wanted, n_bytes) + workers * coding)
    minimum, most = smallest + coding, min(_MOST_NEEDED, preferred)
    coders = min(workers, usable_cores())
    return Staging(minimum, preferred, _PART_OF_BUDGET, most, workers * (slab + coding), coders)


def slab_for(source: Side, target: Side, itemsize: int) -> int:
    """Return the bytes that a thread moves at once: more if they go to many target blocks.

    A slab is not larger than needed for a block of either side, with elements of `itemsize`.
    """
    # Twice the block, because one half of a slab is written while the other half is filled. More of
    # a block than its part within the window may be read.
    fills = 2 * itemsize * max(prod(side.stored.longest) for side in (source, target))
    most = room_for(fills) + 2 * ALIGNMENT
    if coding_bytes([source, target]):
        return min(SLAB, most)
    # Each slab contains a part of every target block across the slowest axis.
    lengths = zip(source.grid.longest, target.grid.longest, strict=True)
    n_blocks = [-(-length // max(1, part)) for length, part in lengths]
    n_across = prod(n_blocks[axis] for axis in source.layout.axes[1:])
    return min(most, max(SLAB, min(_LONGEST_SLAB, n_across * _GOOD_COPY)))


def coding_bytes(sides: Collection[Side]) -> int:
    """Return the bytes that a thread needs to decode or encode blocks of any of these stores.

    Reused memory of one side stays allocated while the codecs of the other side run.
    """
    reused = max(side.reused_bytes for side in sides)
    return reused + max(side.codec_bytes for side in sides)


def has_large_blocks(sides: Iterable[Side], itemsize: int) -> bool:
    """Tell whether moving the average block of every side takes most of the time."""
    grids = [side.grid for side in sides]
    return all(grid.size * itemsize >= grid.n_blocks * _LARGE_BLOCK for grid in grids)


class Share(NamedTuple):
    """The number of threads, and the bytes of each.

    The `staging` of a thread is a slab and the memory that codecs reuse. Codecs allocate
    `codec_bytes` for each block. The rest is `behind`.
    """

    n_workers: int
    staging: int
    codec_bytes: int
    behind: int


def share_staging(staging_bytes: int, problems: Sequence[Problem], workers: int) -> Share:
    """Divide the staging of a plan among threads, each of which may work on any problem."""
    reused = max(problem.reused_bytes for problem in problems)
    codec_bytes = max(problem.codec_bytes for problem in problems)
    coding = reused + codec_bytes
    itemsize = max(problems[0].itemsize, problems[0].source_itemsize)
    smallest = _smallest_slab(itemsize)
    # Few threads with large slabs are faster than many with small ones, but all cores should code.
    at_ease = staging_bytes // (max(smallest, min(_GOOD_SLAB, coding)) + coding)
    coders = min(usable_cores(), staging_bytes // (smallest + coding))
    n_workers = max(1, min(workers, max(at_ease, coders)))
    wanted = max(slab_for(each.source, each.target, itemsize) for each in problems)
    slab = max(smallest, min(max(wanted, smallest), staging_bytes // n_workers - coding))
    behind = max(0, staging_bytes - n_workers * (slab + coding))
    return Share(n_workers, slab + reused, codec_bytes, behind)


def staging_to_copy(workers: int, held: int) -> Staging:
    """Request the staging to copy blocks verbatim: one slab and `held` bytes for each thread."""
    return Staging(_SMALLEST_SLAB + held, workers * (SLAB + held))


def copying_slabs(staging_bytes: int, requested: Staging, workers: int) -> list[int]:
    """Return the bytes of each thread's slab; with little staging there are fewer threads."""
    held = requested.minimum - _SMALLEST_SLAB
    n_workers = max(1, min(workers, staging_bytes // requested.minimum))
    return [staging_bytes // n_workers - held] * n_workers


def _smallest_slab(itemsize: int) -> int:
    return max(_SMALLEST_SLAB, itemsize + 2 * ALIGNMENT)


def comparison_slab(memory: int, itemsize: int, workers: int) -> int:
    """Return the bytes that each thread reads at once to compare two arrays."""
    return max(_smallest_slab(2 * itemsize), min(SLAB, memory // (4 * workers)))
