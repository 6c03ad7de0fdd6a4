"""Compare two arrays block by block: the engine runs, but what it would write it compares."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.engine.memory import Buffers
from dask_io.engine.run import run_plan
from dask_io.geometry import Region
from dask_io.stores.addressable import staged, view_as_array, view_as_bytes
from dask_io.stores.files import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout
    from dask_io.planning import Plan
    from dask_io.stores.store import Access, BlockReader, BlockWriter, Source


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether two arrays agree; if not, where they first differ and in how many elements.

    The first differing region is, of the differing elements of one slab of one block, the
    smallest box around them; it is the first in C order of its corner.
    """

    n_elements: int
    n_differing: int = 0
    first_difference: Region | None = None

    @property
    def equal(self) -> bool:
        """Whether no element differs."""
        return self.n_differing == 0

    def __bool__(self) -> bool:
        return self.equal


def verify_plan(
    plan: Plan, source: Source, other: Source, *, workers: int, slab: int
) -> Verification:
    """Compare the source with another array along a plan from its blocks to the other's.

    Elements of one type are compared by their bits, of different types by their values, a
    NaN being equal to a NaN. Each thread needs `slab` bytes besides what the plan counts.
    """
    differences = _Differences()
    buffers = Buffers(workers * slab)
    compared = _Compared(other, source.dtype, slab, buffers, differences)
    run_plan(plan, source, compared, workers=workers)
    return Verification(prod(plan.problem.shape), differences.count, differences.first)


@dataclass(slots=True)
class _Differences:
    """What has been found to differ so far."""

    count: int = 0
    first: Region | None = None
    lock: Lock = field(default_factory=Lock)

    def add(self, differs: NDArray[np.bool_], start: tuple[int, ...]) -> None:
        bounds = [
            (zero + int(where.min()), zero + int(where.max()) + 1)
            for zero, where in zip(start, differs.nonzero(), strict=True)
        ]
        region = Region.of(bounds)
        with self.lock:
            self.count += int(differs.sum())
            if self.first is None or region.start < self.first.start:
                self.first = region


class _Compared:
    """A target that compares what it is given with what it holds, and writes nothing."""

    def __init__(
        self,
        other: Source,
        dtype: np.dtype[Any],
        slab: int,
        buffers: Buffers,
        differences: _Differences,
    ) -> None:
        self._other, self._differences = other, differences
        self._slab, self._buffers = slab, buffers
        self.dtype = dtype
        self.tally = Tally()

    @property
    def place(self) -> str:
        return self._other.place

    @property
    def format(self) -> str:
        return self._other.format

    @property
    def grid(self) -> Grid:
        return self._other.grid

    @property
    def layout(self) -> Layout:
        return self._other.layout

    @property
    def access(self) -> Access:
        return self._other.access

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._other.metadata

    def create(self) -> None:
        """There is nothing to make."""

    def publish(self, index: tuple[int, ...]) -> None:
        """There is nothing to publish."""

    def finish(self) -> None:
        """There is nothing to finish."""

    def abandon(self) -> None:
        """There is nothing to remove."""

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[BlockWriter]:
        origin = self._other.grid.block(index).start
        buffer = self._buffers.lend(self._slab)
        try:
            with self._other.reader(index) as reader:
                yield _Comparison(
                    reader, buffer, self._other, self.dtype, origin, self._differences
                )
        finally:
            self._buffers.take_back(buffer)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One visit to a block that is compared."""

    reader: BlockReader
    buffer: memoryview
    other: Source
    dtype: np.dtype[Any]
    origin: tuple[int, ...]
    differences: _Differences

    def write_from(self, region: Region, array: NDArray[Any]) -> None:
        for slab in self.other.layout.slabs(region, staged(self.buffer, self.other.dtype)):
            ours = array[slab.relative_to(region.start).slices]
            self._compare(slab, ours.view(self.dtype))

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        layout = self.other.layout
        largest = min(staged(staging, self.dtype), staged(self.buffer, self.other.dtype))
        for slab in layout.slabs(region, largest):
            raw = staging[: slab.size * self.dtype.itemsize]
            ours = view_as_array(raw, slab.shape, self.dtype, layout)
            fill(slab, ours)
            self._compare(slab, ours)

    def _compare(self, slab: Region, ours: NDArray[Any]) -> None:
        theirs = self.reader.read_into(slab, self.buffer)
        same = _same_bytes(ours, theirs, self.other.layout)
        if not same and (differs := _differs(ours, theirs)).any():
            start = tuple(a + b for a, b in zip(self.origin, slab.start, strict=True))
            self.differences.add(differs, start)


def _same_bytes(ours: NDArray[Any], theirs: NDArray[Any], layout: Layout) -> bool:
    """Tell quickly whether there is no need to look at single elements."""
    if ours.dtype != theirs.dtype:
        return False
    mine, other = (np.frombuffer(view_as_bytes(x, layout), np.uint8) for x in (ours, theirs))
    return np.array_equal(mine, other)


def _differs(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.bool_]:
    if ours.dtype == theirs.dtype:
        bits = np.dtype((np.void, ours.dtype.itemsize))
        return np.asarray(ours.view(bits) != theirs.view(bits))
    try:
        with np.errstate(invalid="ignore"):
            differs = np.asarray(ours != theirs)
    except TypeError:
        # Types that have nothing in common, such as records and numbers.
        return np.ones(ours.shape, bool)
    if all(array.dtype.kind in "fcmM" for array in (ours, theirs)):
        differs &= ~(np.isnan(ours) & np.isnan(theirs))
    return differs
