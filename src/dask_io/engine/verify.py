"""Compare two arrays block by block: the engine runs, but compares instead of writing."""

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
from dask_io.errors import printable
from dask_io.geometry import Region
from dask_io.notebook import Displayed
from dask_io.storage.medium import Durability
from dask_io.storage.tally import Tally
from dask_io.stores.addressable import staged, view_as_array
from dask_io.stores.store import TargetDefaults, Unjournalled
from dask_io.units import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from dask_io.engine.run import Progress
    from dask_io.geometry import Layout
    from dask_io.planning import Plan
    from dask_io.stores.store import BlockReader, BlockWriter, Source


# Bytes or elements compared at once. Comparing allocates arrays that no account counts.
_PIECE = 64 * 2**10


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Displayed):
    """Whether two arrays are equal; if not, the first difference and the number of elements.

    `first_difference` is the bounding box of the differing elements in one slab of one block. It
    is the first such box, in C order of the corners. If only checksums are compared, it is a write
    cell, and `n_differing` is unknown. If several arrays are compared, `place` is the array with
    the first difference.
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

    def __str__(self) -> str:
        elements = count(self.n_elements, "element")
        if self.equal:
            return f"equal: {elements} compared"
        where = f"{self.first_difference}{f' of {printable(self.place)}' if self.place else ''}"
        if self.n_differing is None:
            return f"differs from what was written, first in region {where}"
        return f"{self.n_differing:,} of {elements} differ, first in region {where}"

    def _facts(self) -> Iterator[str]:
        yield str(self)

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "equal", "yes" if self.equal else "no"
        yield "elements", f"{self.n_elements:,}"
        if self.n_differing:
            yield "different", f"{self.n_differing:,}"
        if not self.equal:
            yield "first difference", str(self.first_difference)
        if self.place:
            yield "in", self.place

    def followed_by(self, other: Verification, place: str) -> Verification:
        """Combine the results of earlier arrays with that of another array at `place`."""
        is_known = None not in (self.n_differing, other.n_differing)
        return Verification(
            self.n_elements + other.n_elements,
            (self.n_differing or 0) + (other.n_differing or 0) if is_known else None,
            self.first_difference or other.first_difference,
            self.place or (None if other.equal else place),
        )


def verify_plan(
    plan: Plan,
    source: Source,
    other: Source,
    *,
    workers: int,
    slab: int,
    on_progress: Callable[[Progress], None] | None = None,
) -> Verification:
    """Compare a source with another array, with a plan from its blocks to those of the other.

    Elements of the same dtype are compared bitwise. Elements of different dtypes are compared by
    value, records field by field; NaN equals NaN. If the plan converts elements, this is done
    first. Each thread needs `slab` bytes in addition to the plan's memory.
    """
    differences = _Differences()
    buffers = Buffers(workers * slab)
    compared = _Compared(other, plan.problem.dtype, slab, buffers, differences)
    run_plan(plan, source, Outlet(compared), workers=workers, on_progress=on_progress)
    return Verification(prod(plan.problem.shape), differences.count, differences.first)


@dataclass(slots=True)
class _Differences:
    """The differences found so far."""

    count: int = 0
    first: Region | None = None
    lock: Lock = field(default_factory=Lock)

    def add(self, count: int, region: Region) -> None:
        with self.lock:
            self.count += count
            if self.first is None or region.start < self.first.start:
                self.first = region


class _Compared(Unjournalled, TargetDefaults):
    """A target that compares data with its content instead of writing it."""

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
        self.place, self.format, self.access = other.place, other.format, other.access
        self.grid, self.layout = other.grid, other.layout
        self.reused_bytes, self.codec_bytes = other.reused_bytes, other.codec_bytes

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self._other.metadata

    def describe(self) -> dict[str, Any]:
        return self._other.describe()

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

    def go_on_at(self, region: Region) -> None:
        """Do nothing: what is compared is not counted."""

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        for slab in self.other.layout.slabs(region, staged(staging, self.other.dtype)):
            ours = array[slab.slices_from(region.start)]
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
            inside = piece.slices_from(slab.start)
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
    """Tell quickly whether all bytes are equal, so that elements need not be compared."""
    if ours.dtype != theirs.dtype:
        return False
    for piece in layout.slabs(Region.whole(ours.shape), _PIECE):
        mine, other = (_bytes_of(x[piece.slices], layout) for x in (ours, theirs))
        if not np.array_equal(mine, other):
            return False
    return True


def _bytes_of(values: NDArray[Any], layout: Layout) -> NDArray[np.uint8]:
    """View elements as bytes; a part of a decoded block consists of contiguous rows."""
    return np.atleast_1d(values.transpose(layout.axes)).view(np.uint8)


def _box_of(differs: NDArray[np.bool_]) -> Region:
    """Return the bounding box of the differing elements."""
    where = differs.nonzero()
    return Region.of([(int(along.min()), int(along.max()) + 1) for along in where])


def _differs(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which elements differ: bitwise if the dtypes are equal, otherwise by value."""
    if ours.dtype == theirs.dtype:
        bits = np.dtype((np.void, ours.dtype.itemsize))
        return np.asarray(ours.view(bits) != theirs.view(bits))
    return _differs_in_value(ours, theirs)


def _differs_in_value(ours: NDArray[Any], theirs: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which values differ, records field by field; NaN equals NaN."""
    names = ours.dtype.names
    if names is not None and names == theirs.dtype.names:
        differs = np.zeros(ours.shape, bool)
        for name in names:
            mine, other = ours[name], theirs[name]
            if mine.shape != other.shape:
                return np.ones(ours.shape, bool)
            # A field may be an array. Its axes come last.
            inner = tuple(range(ours.ndim, mine.ndim))
            differs |= _differs_in_value(mine, other).any(axis=inner)
        return differs
    try:
        with np.errstate(invalid="ignore"):
            differs = np.asarray(ours != theirs)
    except TypeError:
        # The dtypes cannot be compared, such as records and numbers.
        return np.ones(ours.shape, bool)
    if all(array.dtype.kind in "fcmM" for array in (ours, theirs)):
        differs &= ~(np.isnan(ours) & np.isnan(theirs))
    return differs
