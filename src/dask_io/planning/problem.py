"""What is to be done: one array, the blocks it has, the blocks it should have, a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dask_io.geometry import Axis, Grid, Layout, Region
from dask_io.planning.cost import count_moved, fewest_runs

if TYPE_CHECKING:
    from collections.abc import Sequence


# Bytes to write behind, beyond which there is room for one write cell.
_MUCH_BEHIND = 256 * 2**20


class Coding(NamedTuple):
    """Seconds a byte."""

    decode: float
    encode: float


NO_CODING = Coding(0.0, 0.0)
"""Elements that are stored as they are."""


@dataclass(frozen=True)
class Side:
    """Where the array is or goes: the blocks that are stored, and how elements lie in each.

    With a `window`, only that region of what is stored takes part. Blocks that reach out of it
    are moved in part, and cost the runs of that part. Blocks that are `atomic` cannot be moved
    in part: reading some of one costs all of it, and it is written whole or not at all. Moving
    one takes `codec_bytes` besides its elements, and `reused_bytes` that the next one can use
    too. Of what is `indivisible`, nothing can be removed,
    or kept of a run that was cut short, but all of it.

    Part of a source block may be read with what lies between its runs, so that they become
    fewer and longer: along the fastest axes, `through` of them, all of the block is read.

    Blocks that are `absent` are not stored, and cost nothing, so that what is planned is an upper
    bound; None means that some may be.

    `coding` is about how long a byte of its elements takes to decode, and to encode, with all cores
    at work.

    Examples
    --------
    >>> side = Side(Grid.regular((10,), (4,)), Layout.c(1), window=Region((3,), (8,)))
    >>> side.grid.axes[0].runs, side.partial
    (((1, 1), (4, 1)), ((True, False),))
    """

    stored: Grid
    layout: Layout
    format: str = "raw"
    window: Region | None = None
    atomic: bool = False
    codec_bytes: int = 0
    indivisible: bool = False
    through: int = 0
    reused_bytes: int = 0
    coding: Coding = NO_CODING
    absent: int | None = 0

    def __post_init__(self) -> None:
        if not 0 <= self.through <= max(0, len(self.stored.axes) - 1):
            message = f"blocks of {len(self.stored.axes)} axes are not read through {self.through}"
            raise ValueError(message)
        if len(self.layout.axes) != len(self.stored.axes):
            message = f"a layout of {len(self.layout.axes)} axes for {len(self.stored.axes)}"
            raise ValueError(message)
        if self.window is not None and self.window & Region.whole(self.stored.shape) != self.window:
            message = f"the window {self.window} reaches out of {Region.whole(self.stored.shape)}"
            raise ValueError(message)

    @cached_property
    def grid(self) -> Grid:
        """The blocks' parts that take part, counted from the window's corner."""
        return self.stored if self.window is None else self.stored.clipped(self.window)

    @property
    def is_coded(self) -> bool:
        """Whether it takes time to decode, or to encode."""
        return any(self.coding)

    @cached_property
    def is_stacked(self) -> bool:
        """Whether its blocks are stacked along the slowest axis, and can be moved in part."""
        others = self.layout.axes[1:]
        is_stack = all(self.grid.axes[axis].n_blocks == 1 for axis in others)
        return bool(self.layout.axes) and not self.atomic and is_stack

    @property
    def grain(self) -> str:
        """What is kept of a target when a run is cut short: cells, blocks, or all or nothing."""
        if self.indivisible:
            return "container"
        return "block" if self.atomic else "cell"

    @property
    def read_whole(self) -> tuple[int, ...]:
        """The axes along which all of a block is read, whatever part of it is needed."""
        if self.atomic:
            return self.layout.axes
        return self.layout.axes[len(self.layout.axes) - self.through :]

    def count_moved(self, axis: int, ends: Axis, low: int, high: int) -> int:
        """Count the elements read along an axis, from one position of the window to another.

        `ends` are those of the read cells, counted from the window's corner as the positions are.
        """
        if axis not in self.read_whole:
            return high - low
        zero = self.window.start[axis] if self.window else 0
        shifted = Axis(((zero, 1), *ends.runs)) if zero else ends
        return count_moved(self.stored.axes[axis], shifted, zero + low, zero + high)

    @cached_property
    def partial(self) -> tuple[tuple[bool, bool], ...]:
        """Along each axis, whether the first and the last block reach out of the window."""
        if self.window is None:
            return ((False, False),) * len(self.stored.axes)
        bounds = zip(self.stored.axes, self.window.start, self.window.stop, strict=True)
        return tuple((axis.floor(low) < low, axis.ceil(high) > high) for axis, low, high in bounds)


@dataclass(frozen=True, slots=True)
class Staging:
    """Bytes the engine needs between file and array: what it must have, what it would like.

    It must have `minimum`, and of a larger budget one `part`, up to `most`. If it says what its
    `threads` work with, the rest of what is preferred is room to write behind. A side's `coding`
    is meant for `coders` at work, each with a `minimum` of its own.

    Examples
    --------
    >>> staging = Staging(minimum=10, preferred=1000, part=64, most=100, threads=200)
    >>> [staging.needed(budget) for budget in (100, 3200, 10**6)]
    [10, 50, 100]
    >>> [staging.granted(10**6, left=500, cell=cell) for cell in (100, 199, 200)]
    [500, 500, 200]
    >>> large = Staging(preferred=2**32, threads=2**20)
    >>> [large.granted(2**40, left=2**40, cell=cell) // 2**20 for cell in (2**20, 2**28)]
    [257, 385]
    >>> [Staging(minimum=10, coders=4).slowdown(n) for n in (0, 25, 10**6)]
    [4.0, 2.0, 1.0]
    """

    minimum: int = 0
    preferred: int = 0
    part: int = 0
    most: int = 0
    threads: int = 0
    coders: int = 1

    def needed(self, budget: int) -> int:
        """Return the bytes that a budget has to leave to staging."""
        share = min(budget // self.part, self.most) if self.part else 0
        return max(self.minimum, share)

    def granted(self, budget: int, *, left: int, cell: int) -> int:
        """Return the bytes that staging has of a budget of which so many are left to it.

        Room to write behind is of use if the largest write cell has its place there, and a half
        more: so much stays free, that buffers of any size find a hole. With less there is none,
        and of cells so large that it would be very much, there is room for one.
        """
        room = min(self.preferred, left)
        if self.threads:
            least = self.threads + cell + cell // 2
            most = self.threads if room <= least else max(least + 1, self.threads + _MUCH_BEHIND)
            room = min(room, most)
        return max(self.needed(budget), room)

    def count_coders(self, staging_bytes: int) -> int:
        """Return how many of those who code have room if so much is granted, at least one."""
        n_coders = staging_bytes // self.minimum if self.minimum else self.coders
        return max(1, min(self.coders, n_coders))

    def slowdown(self, staging_bytes: int) -> float:
        """Return how many times longer coding takes if so much is granted."""
        return self.coders / self.count_coders(staging_bytes)

    def budget_for(self, held: int) -> int:
        """Return the smallest budget that leaves room for `held` bytes."""
        share = 0
        if self.part > 1:
            # The smallest share that is no less than its part of itself and what is held.
            share = min(self.most, max(0, (held - self.part) // (self.part - 1) + 1))
        return held + max(self.minimum, share)


class Lag(NamedTuple):
    """How many cells, or bytes, may have been written that are not durable yet."""

    n_cells: int
    n_bytes: int


@dataclass(frozen=True)
class Problem:
    """Move an array of `dtype` from the source's blocks to the target's within `budget` bytes.

    Elements that the source has in another type are converted as soon as they have been read, so
    what is held and written is of `dtype`.

    Examples
    --------
    >>> problem = Problem.regular((10, 6), (4, 3), (5, 6), dtype="int16", budget=1000)
    >>> problem.shape, problem.itemsize, problem.lower_bound
    ((10, 6), 2, 8)
    """

    source: Side
    target: Side
    dtype: np.dtype[np.generic]
    budget: int
    staging: Staging = Staging()
    consumed: Lag | None = None
    """If source blocks are removed on the way, how far that stays behind."""
    converted: np.dtype[np.generic] | None = None
    """The type that elements have in the source, if it is another one."""
    copied: Staging | None = None
    """What it takes to copy blocks as they are stored, if both sides store them alike."""
    piecewise: Staging | None = None
    """What it takes with target blocks encoded piece by piece, if they can be."""

    def __post_init__(self) -> None:
        if self.source.grid.shape != self.target.grid.shape:
            message = f"source {self.source.grid.shape} and target {self.target.grid.shape} differ"
            raise ValueError(message)
        if self.target.through:
            raise ValueError("what lies between the runs of a target is not written")

    @classmethod
    def regular(
        cls,
        shape: Sequence[int],
        source: Sequence[int],
        target: Sequence[int],
        *,
        dtype: str = "uint8",
        budget: int,
        staging: Staging = Staging(),
    ) -> Problem:
        """Make a problem of regular grids, both in C order."""
        layout = Layout.c(len(shape))
        return cls(
            Side(Grid.regular(shape, source), layout),
            Side(Grid.regular(shape, target), layout),
            np.dtype(dtype),
            budget,
            staging,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.source.grid.shape

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def source_itemsize(self) -> int:
        """Bytes of one element in the source."""
        return (self.converted or self.dtype).itemsize

    @property
    def reused_bytes(self) -> int:
        """Bytes that a thread keeps besides, to decode and to encode blocks."""
        return max(self.source.reused_bytes, self.target.reused_bytes)

    @property
    def codec_bytes(self) -> int:
        """Bytes that a thread takes for each block that it decodes or encodes."""
        return max(self.source.codec_bytes, self.target.codec_bytes)

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole array."""
        return prod(self.shape) * self.itemsize

    @property
    def n_source_bytes(self) -> int:
        """Bytes of the whole array in the source."""
        return prod(self.shape) * self.source_itemsize

    @property
    def lower_bound(self) -> int:
        """The fewest seeks possible: every block, or its part in a window, touched once."""
        if self.copied is not None:
            return 2 * self.target.grid.n_blocks
        return fewest_runs(self.source) + fewest_runs(self.target)

    @property
    def holdable(self) -> int:
        """Bytes that may be held once the engine has the staging it must have."""
        return self.budget - self.staging.needed(self.budget)

    def reading_through(self, n_axes: int) -> Problem:
        """Return the same problem with source blocks read whole along so many fastest axes."""
        return replace(self, source=replace(self.source, through=n_axes))

    def within(self, budget: int) -> Problem:
        """Return the same problem with another budget."""
        return replace(self, budget=budget)
