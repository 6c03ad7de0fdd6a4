"""A problem: one array, its source blocks, its target blocks, and a memory budget."""

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


# The most bytes to write behind, unless one write cell needs more.
_MOST_BEHIND = 256 * 2**20


class Coding(NamedTuple):
    """Seconds per byte to decode and to encode."""

    decode: float
    encode: float


NO_CODING = Coding(0.0, 0.0)
"""The coding of elements that are stored without a codec."""


@dataclass(frozen=True)
class Side:
    """The source or target of an array: its stored blocks, and the storage order in each.

    With a `window`, only this region of the stored array is moved. Blocks that extend beyond it
    are moved in part, and cost the runs of that part.

    `atomic` blocks cannot be moved in part: reading a part costs the whole block, and blocks are
    written whole. Moving one needs `codec_bytes` in addition to its elements, and `reused_bytes`
    that the next block reuses. If the side is `indivisible`, blocks cannot be removed one by one,
    and an interrupted run keeps all of them or none.

    Part of a source block may be read including the gaps between its runs, so that there are fewer
    and longer runs: along the `through` fastest axes, the whole block is read.

    `absent` blocks are not stored and cost nothing, so all predicted costs are upper bounds. None
    means that their number is unknown.

    `coding` is the estimated time to decode and to encode a byte, with all cores at work.

    A `sequential` source is a compressed stream: to go back in it costs decoding again, so it is
    never swept backwards.

    If blocks are shards, `chunks_in_blocks` is the shape of the chunks in them.

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
    sequential: bool = False
    chunks_in_blocks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.through <= max(0, len(self.stored.axes) - 1):
            message = f"cannot read through {self.through} of {len(self.stored.axes)} axes"
            raise ValueError(message)
        if len(self.layout.axes) != len(self.stored.axes):
            message = f"the layout has {len(self.layout.axes)} axes, not {len(self.stored.axes)}"
            raise ValueError(message)
        if self.window is not None and self.window & Region.whole(self.stored.shape) != self.window:
            message = f"window {self.window} exceeds {Region.whole(self.stored.shape)}"
            raise ValueError(message)

    @cached_property
    def grid(self) -> Grid:
        """The blocks within the window, relative to the window."""
        return self.stored if self.window is None else self.stored.clipped(self.window)

    @property
    def is_coded(self) -> bool:
        """Whether decoding or encoding takes time."""
        return any(self.coding)

    @cached_property
    def is_stacked(self) -> bool:
        """Whether its blocks are stacked along the slowest axis and are not atomic."""
        others = self.layout.axes[1:]
        is_stack = all(self.grid.axes[axis].n_blocks == 1 for axis in others)
        return bool(self.layout.axes) and not self.atomic and is_stack

    @property
    def grain(self) -> str:
        """The unit that an interrupted run keeps of a target: cell, block, or container."""
        if self.indivisible:
            return "container"
        return "block" if self.atomic else "cell"

    @property
    def read_whole(self) -> tuple[int, ...]:
        """The axes along which a block is always read whole."""
        if self.atomic:
            return self.layout.axes
        return self.layout.axes[len(self.layout.axes) - self.through :]

    def count_moved(self, axis: int, ends: Axis, low: int, high: int) -> int:
        """Count the elements read along an axis, from position `low` to `high`.

        `ends` are the read cells. They and the positions are relative to the window.
        """
        if axis not in self.read_whole:
            return high - low
        origin = self.window.start[axis] if self.window else 0
        shifted = Axis(((origin, 1), *ends.runs)) if origin else ends
        return count_moved(self.stored.axes[axis], shifted, origin + low, origin + high)

    @cached_property
    def partial(self) -> tuple[tuple[bool, bool], ...]:
        """Along each axis, whether the first and the last block extend beyond the window."""
        if self.window is None:
            return ((False, False),) * len(self.stored.axes)
        bounds = zip(self.stored.axes, self.window.start, self.window.stop, strict=True)
        return tuple((axis.floor(low) < low, axis.ceil(high) > high) for axis, low, high in bounds)


@dataclass(frozen=True, slots=True)
class Staging:
    """Bytes that the engine needs between storage and array.

    It needs at least `minimum`, and at least 1 / `part` of the budget, up to `most`. It prefers
    `preferred`. If `threads`, the bytes that all threads work with, is given, the rest of
    `preferred` is room to write behind. The `coding` of a side assumes that `coders` threads are
    at work, each with `minimum` bytes.

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
        """Return the staging that must fit in a budget."""
        share = min(budget // self.part, self.most) if self.part else 0
        return max(self.minimum, share)

    def granted(self, budget: int, *, left: int, cell: int) -> int:
        """Return the staging for a budget of which `left` bytes are not held.

        Room to write behind is useful only if it exceeds the largest write cell by half, so that
        fragmentation leaves a hole for a buffer of any size. With less memory there is no room to
        write behind. If cells are very large, there is room for one.
        """
        room = min(self.preferred, left)
        if self.threads:
            least = self.threads + cell + cell // 2
            most = self.threads if room <= least else max(least + 1, self.threads + _MOST_BEHIND)
            room = min(room, most)
        return max(self.needed(budget), room)

    def count_coders(self, staging_bytes: int) -> int:
        """Return how many threads can decode and encode with this much staging, at least one."""
        n_coders = staging_bytes // self.minimum if self.minimum else self.coders
        return max(1, min(self.coders, n_coders))

    def slowdown(self, staging_bytes: int) -> float:
        """Return how many times longer coding takes with this much staging."""
        return self.coders / self.count_coders(staging_bytes)

    def budget_for(self, held: int) -> int:
        """Return the smallest budget that leaves room for `held` bytes."""
        share = 0
        if self.part > 1:
            # The smallest share that is at least 1 / `part` of the budget, which includes it.
            share = min(self.most, max(0, (held - self.part) // (self.part - 1) + 1))
        return held + max(self.minimum, share)


class Lag(NamedTuple):
    """The most cells, and bytes, that are written but not durable yet."""

    n_cells: int
    n_bytes: int


@dataclass(frozen=True)
class Problem:
    """Move an array from the source's blocks to the target's blocks, within `budget` bytes.

    If the source has another dtype, elements are converted to `dtype` right after reading. So
    elements are held and written as `dtype`.

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
    """If the run removes source blocks, how far the removal lags behind the writes."""
    converted: np.dtype[np.generic] | None = None
    """The dtype of the source, if it differs."""
    copied: Staging | None = None
    """The staging to copy blocks verbatim, if both sides store them in the same way."""
    piecewise: Staging | None = None
    """The staging to encode target blocks piece by piece, if this is possible."""

    def __post_init__(self) -> None:
        if self.source.grid.shape != self.target.grid.shape:
            message = f"source {self.source.grid.shape} and target {self.target.grid.shape} differ"
            raise ValueError(message)
        if self.target.through:
            raise ValueError("gaps between the runs of a target cannot be written")

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
        """Return a problem with regular grids, both in C order."""
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
        """Additional bytes that a thread keeps to decode and encode blocks."""
        return max(self.source.reused_bytes, self.target.reused_bytes)

    @property
    def codec_bytes(self) -> int:
        """Additional bytes that a thread needs for each block that it decodes or encodes."""
        return max(self.source.codec_bytes, self.target.codec_bytes)

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole array."""
        return prod(self.shape) * self.itemsize

    @property
    def n_source_bytes(self) -> int:
        """Bytes of the whole array in the source's dtype."""
        return prod(self.shape) * self.source_itemsize

    @property
    def lower_bound(self) -> int:
        """The fewest possible seeks: every block, or its part in a window, is touched once."""
        if self.copied is not None:
            return 2 * self.target.grid.n_blocks
        return fewest_runs(self.source) + fewest_runs(self.target)

    @property
    def holdable(self) -> int:
        """Bytes of array data that may be held, next to the required staging."""
        return self.budget - self.staging.needed(self.budget)

    def reading_through(self, n_axes: int) -> Problem:
        """Return this problem with source blocks read whole along the `n_axes` fastest axes."""
        return replace(self, source=replace(self.source, through=n_axes))

    def within(self, budget: int) -> Problem:
        """Return this problem with another budget."""
        return replace(self, budget=budget)
