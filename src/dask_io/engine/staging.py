"""How much staging the engine asks for, and how its threads share what a plan grants."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from dask_io.codecs.cores import usable_cores
from dask_io.planning import Staging
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.staging import SLAB, room_for

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np

    from dask_io.planning import Problem, Side

# What each thread may leave to be written, at the least: this part of an array, up to a limit.
_BEHIND, _PART_BEHIND = 4 * 2**20, 256
# What all of them may, if reading has to wait for the device meanwhile anyway: fresh memory costs
# more than it gains.
_MOST_BEHIND = 64 * 2**20
# With so much at once, a call's cost counts little.
_GOOD_SLAB = 2**20
# With so much for each of the blocks that it goes to, a copy's cost counts little too. A slab may
# become so long for that.
_GOOD_COPY, _LONGEST_SLAB = 256 * 2**10, 12 * 2**20
# The least there is room for in any budget.
_SMALLEST_SLAB = 16 * 2**10
# This part of a large budget is staging: it costs few seeks, and much time if it is missing.
_PART_OF_BUDGET = 12
_MOST_NEEDED = 32 * 2**20


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
    """Ask for one `slab` a thread, and for room to write blocks behind while reading goes on.

    Every thread needs `coding` bytes besides, for what it decodes or encodes. A slab has room for
    elements of `dtype` and, if they are converted, for those that are `stored`. If source and
    target lie `apart`, on two devices, that is a block of any size for each thread.
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
    """Return the bytes that a thread moves at once: more where they go to many target blocks.

    No more than a block on either side fills, in elements of at most `itemsize`.
    """
    # Two of a size, as what is written while the other half of a slab is filled. Of a block that
    # reaches out of a window more may be read than lies in it.
    fills = 2 * itemsize * max(prod(side.stored.longest) for side in (source, target))
    most = room_for(fills) + 2 * ALIGNMENT
    if coding_bytes([source, target]):
        return min(SLAB, most)
    # In what is read at once, all blocks across the slowest axis have a part.
    lengths = zip(source.grid.longest, target.grid.longest, strict=True)
    n_blocks = [-(-length // max(1, part)) for length, part in lengths]
    n_across = prod(n_blocks[axis] for axis in source.layout.axes[1:])
    return min(most, max(SLAB, min(_LONGEST_SLAB, n_across * _GOOD_COPY)))


def coding_bytes(sides: Collection[Side]) -> int:
    """Return what a thread needs to decode or encode blocks of any of these stores.

    What one side uses again stays while the other's codecs take their own.
    """
    reused = max(side.reused_bytes for side in sides)
    return reused + max(side.codec_bytes for side in sides)


class Share(NamedTuple):
    """How many threads can work, and the bytes that each of them has.

    Its staging is a slab, and what it uses again and again to decode and to encode. For each block
    a thread takes `codec_bytes` by itself; all that remains is `behind`.
    """

    n_workers: int
    staging: int
    codec_bytes: int
    behind: int


def share_staging(staging_bytes: int, problems: Sequence[Problem], workers: int) -> Share:
    """Divide what a plan grants among threads, of which any may work on any problem."""
    reused = max(problem.reused_bytes for problem in problems)
    codec_bytes = max(problem.codec_bytes for problem in problems)
    coding = reused + codec_bytes
    itemsize = max(problems[0].itemsize, problems[0].source_itemsize)
    smallest = _smallest_slab(itemsize)
    # Few threads that move much at once are faster than many with little, but cores are to code.
    at_ease = staging_bytes // (max(smallest, min(_GOOD_SLAB, coding)) + coding)
    coders = min(usable_cores(), staging_bytes // (smallest + coding))
    n_workers = max(1, min(workers, max(at_ease, coders)))
    wanted = max(slab_for(each.source, each.target, itemsize) for each in problems)
    slab = max(smallest, min(max(wanted, smallest), staging_bytes // n_workers - coding))
    behind = max(0, staging_bytes - n_workers * (slab + coding))
    return Share(n_workers, slab + reused, codec_bytes, behind)


def staging_to_copy(workers: int, held: int) -> Staging:
    """Ask for what copies blocks as they are stored: one slab a thread, and what that holds."""
    return Staging(_SMALLEST_SLAB + held, workers * (SLAB + held))


def copying_slabs(staging_bytes: int, asked: Staging, workers: int) -> list[int]:
    """Return the bytes of each thread's slab; with little staging there are fewer threads."""
    held = asked.minimum - _SMALLEST_SLAB
    n_workers = max(1, min(workers, staging_bytes // asked.minimum))
    return [staging_bytes // n_workers - held] * n_workers


def _smallest_slab(itemsize: int) -> int:
    return max(_SMALLEST_SLAB, itemsize + 2 * ALIGNMENT)


def comparison_slab(memory: int, itemsize: int, workers: int) -> int:
    """Return the bytes each thread reads at once of the array that another is compared with."""
    return max(_smallest_slab(2 * itemsize), min(SLAB, memory // (4 * workers)))
