"""Compare two arrays block by block: the engine runs, but what it would write it compares."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.engine.commit import Outlet
from dask_io.engine.memory import Buffers
from dask_io.engine.run import run_plan
from dask_io.geometry import Region
from dask_io.journal.ledger import Ledger
from dask_io.storage.medium import Durability
from dask_io.storage.tally import Tally
from dask_io.stores.addressable import staged, view_as_array

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout
    from dask_io.journal.ledger import Written
    from dask_io.planning import Plan
    from dask_io.stores.store import Access, BlockReader, BlockWriter, Source


# What is compared at once, in bytes or in elements: comparing makes arrays that nobody counts.
_PIECE = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether two arrays agree; if not, where they first differ and in how many elements.

    The first differing region is, of the differing elements of one slab of one block, the
    smallest box around them; it is the first in C order of its corner. Where only checksums are
    compared, it is a write cell, and nobody knows how many of its elements differ. `place` says in
    which of several arrays it is.
    """

    n_elements: int
    n_differing: int | None = 0
    first_difference: Region | None = None
    place: str | None = None

    @property
    def equal(self) -> bool:
        """Whether no element differs."""
        return self.first_difference is None

    def __bool__(self) -> bool:
        return self.equal

    def followed_by(self, other: Verification, place: str) -> Verification:
        """Return what has been found in arrays before and in another one, which is at a place."""
        is_known = None not in (self.n_differing, other.n_differing)
        return Verification(
            self.n_elements + other.n_elements,
            (self.n_differing or 0) + (other.n_differing or 0) if is_known else None,
            self.first_difference or other.first_difference,
            self.place or (None if other.equal else place),
        )


def verify_plan(
    plan: Plan, source: Source, other: Source, *, workers: int, slab: int
) -> Verification:
    """Compare the source with another array along a plan from its blocks to the other's.

    Elements of one type are compared by their bits, of different types by their values, those of
    records field by field, a NaN being equal to a NaN. The plan says whether the source's are
    converted first. Each thread needs `slab` bytes besides what it counts.
    """
    differences = _Differences()
    buffers = Buffers(workers * slab)
    compared = _Compared(other, plan.problem.dtype, slab, buffers, differences)
    run_plan(plan, source, Outlet(compared), workers=workers)
    return Verification(prod(plan.problem.shape), differences.count, differences.first)


@dataclass(slots=True)
class _Differences:
    """What has been found to differ so far."""

    count: int = 0
    first: Region | None = None
    lock: Lock = field(default_factory=Lock)

    def add(self, count: int, region: Region) -> None:
        with self.lock:
            self.count += count
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
        self.durability = Durability.NONE
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
    def reused_bytes(self) -> int:
        return self._other.reused_bytes

    @property
    def codec_bytes(self) -> int:
        return self._other.codec_bytes

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._other.metadata

    def describe(self) -> dict[str, Any]:
        return self._other.describe()

    def check(self) -> None:
        """There is nothing to refuse."""

    def create(self, job: bytes = b"{}") -> None:
        """There is nothing to make."""

    def resume(self) -> Ledger:
        return Ledger(self.grid)

    def commit(self, cells: Collection[Written]) -> None:
        """There is nothing to make durable."""

    def note(self, lines: Iterable[str]) -> None:
        """There is nowhere to note it."""

    def finish(self) -> None:
        """There is nothing to finish."""

    def abandon(self, *, keep: bool = False) -> bool:  # noqa: ARG002 - there is nothing to keep
        return False

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

    @property
    def checksum(self) -> int:
        return 0

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        for slab in self.other.layout.slabs(region, staged(staging, self.other.dtype)):
            ours = array[slab.relative_to(region.start).slices]
            self._compare(slab, ours.view(self.dtype), staging)

    def write_filled(
        self, region: Region, staging: memoryview, fill: Callable[[Region, NDArray[Any]], None]
    ) -> None:
        layout = self.other.layout
        largest = min(staged(staging, self.other.dtype), staged(self.buffer, self.dtype))
        for slab in layout.slabs(region, largest):
            raw = self.buffer[: slab.size * self.dtype.itemsize]
            ours = view_as_array(raw, slab.shape, self.dtype, layout)
            fill(slab, ours)
            self._compare(slab, ours, staging)

    def _compare(self, slab: Region, ours: NDArray[Any], staging: memoryview) -> None:
        theirs = self.reader.read_into(slab, staging)
        if _same_bytes(ours, theirs, self.other.layout):
            return
        count, boxes = 0, []
        for piece in self.other.layout.slabs(slab, _PIECE):
            inside = piece.relative_to(slab.start).slices
            differs = _differs(ours[inside], theirs[inside])
            if n_differing := int(np.count_nonzero(differs)):
                count += n_differing
                boxes.append(_box_of(differs).shifted_by(piece.start))
        if boxes:
            corners = zip(*(box.start for box in boxes), strict=True)
            ends = zip(*(box.stop for box in boxes), strict=True)
            box = Region(tuple(map(min, corners)), tuple(map(max, ends)))
            self.differences.add(count, box.shifted_by(self.origin))


def _same_bytes(ours: NDArray[Any], theirs: NDArray[Any], layout: Layout) -> bool:
    """Tell quickly whether there is no need to look at single elements."""
    if ours.dtype != theirs.dtype:
        return False
    for piece in layout.slabs(Region.whole(ours.shape), _PIECE):
        mine, other = (_bytes_of(x[piece.slices], layout) for x in (ours, theirs))
        if not np.array_equal(mine, other):
            return False
    return True


def _bytes_of(values: NDArray[Any], layout: Layout) -> NDArray[np.uint8]:
    """Look at elements as bytes; what is taken of a block that was decoded lies in rows."""
    return np.atleast_1d(values.transpose(layout.axes)).view(np.uint8)


def _box_of(differs: NDArray[np.bool_]) -> Region:
    """Return the smallest box around what differs."""
    where = differs.nonzero()
    return Region.of([(int(along.min()), int(along.max()) + 1) for along in where])


def _differs(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which elements differ: in their bits if the types are one, else in their values."""
    if ours.dtype == theirs.dtype:
        bits = np.dtype((np.void, ours.dtype.itemsize))
        return np.asarray(ours.view(bits) != theirs.view(bits))
    return _differs_in_value(ours, theirs)


def _differs_in_value(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which values differ, of records field by field; a NaN is equal to a NaN."""
    names = ours.dtype.names
    if names is not None and names == theirs.dtype.names:
        differs = np.zeros(ours.shape, bool)
        for name in names:
            mine, other = ours[name], theirs[name]
            if mine.shape != other.shape:
                return np.ones(ours.shape, bool)
            # A field may be an array itself: its axes come last.
            inner = tuple(range(ours.ndim, mine.ndim))
            differs |= _differs_in_value(mine, other).any(axis=inner)
        return differs
    try:
        with np.errstate(invalid="ignore"):
            differs = np.asarray(ours != theirs)
    except TypeError:
        # Types that have nothing in common, such as records and numbers.
        return np.ones(ours.shape, bool)
    if all(array.dtype.kind in "fcmM" for array in (ours, theirs)):
        differs &= ~(np.isnan(ours) & np.isnan(theirs))
    return differs
