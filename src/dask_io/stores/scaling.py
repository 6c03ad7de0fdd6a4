"""Scaled integers that represent real values, and a source of the real values.

Some formats store integers and, for each slice, the real values of the least and the greatest of
them. A store describes this under the key ``scaling`` of its metadata, as plain values.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.geometry import Region
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.addressable import checksum_of, view_as_array
from dask_io.stores.store import Access, SourceDefaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from dask_io.geometry import Grid, Layout
    from dask_io.storage.tally import Tally
    from dask_io.stores.store import BlockReader, Source

SCALING = "scaling"
"""Key of the scaling in the metadata of a store."""
SCALED_FLOATS = "scaled_floats"
"""Key of slope and intercept of stored floats, which only NIfTI has."""
BOUNDS = "bounds"
"""Key of the least and the greatest real value that may occur, as far as a store knows."""
STORED_INTEGERS = "stored_integers"
"""Key in the metadata of a source that replaced stored integers by real values."""

REAL = np.dtype(np.float64)
# Elements that are converted at once, so that temporary arrays stay small.
_PIECE = 2**14


@dataclass(frozen=True, eq=False)
class Scaling:
    """A linear map from stored integers to real values, for each slice along the slowest axes.

    Attributes
    ----------
    valid
        The least and the greatest stored value. Values outside are clipped before they are scaled.
    low, high
        The real values of these, with one element for each slice; arrays without axes if all
        slices have the same.

    Raises
    ------
    ValueError
        If the range is empty, or shapes differ.

    Examples
    --------
    >>> scaling = Scaling((0.0, 10.0), np.array([0.0, 5.0]), np.array([1.0, 6.0]))
    >>> scaling.apply(np.array([[0, 5], [0, 5]]), (0, 0)).tolist()
    [[0.0, 0.5], [5.0, 5.5]]
    """

    valid: tuple[float, float]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def __post_init__(self) -> None:
        if not np.isfinite(self.valid).all() or self.valid[0] >= self.valid[1]:
            raise ValueError(f"has the valid range {self.valid[0]:g} to {self.valid[1]:g}")
        if self.low.shape != self.high.shape:
            raise ValueError("has minima and maxima of different slices")
        if not (np.isfinite(self.low).all() and np.isfinite(self.high).all()):
            raise ValueError("has minima or maxima that are not finite")

    @property
    def n_axes(self) -> int:
        """The number of leading axes along which it varies."""
        return self.low.ndim

    @property
    def is_identity(self) -> bool:
        """Whether stored values are the real values."""
        return bool((self.low == self.valid[0]).all() and (self.high == self.valid[1]).all())

    def __str__(self) -> str:
        if self.low.ndim:
            return f"real values from {self.bounds[0]:g} to {self.bounds[1]:g}, by slice"
        slope = float(self.high - self.low) / (self.valid[1] - self.valid[0])
        return f"real value = {slope:g} x stored value + {self.low - self.valid[0] * slope:g}"

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest real value that are possible."""
        both = np.stack([self.low, self.high])
        return (float(both.min()), float(both.max())) if both.size else (0.0, 1.0)

    def is_same(self, other: Scaling) -> bool:
        """Tell whether another scaling is equal."""
        return self.valid == other.valid and all(
            np.array_equal(*each) for each in ((self.low, other.low), (self.high, other.high))
        )

    def crop(self, region: Region) -> Scaling:
        """Return the scaling of a region."""
        slices: tuple[Any, ...] = (*region.slices[: self.n_axes], ...)
        return Scaling(self.valid, self.low[slices], self.high[slices])

    def rebase(self, valid: tuple[float, float]) -> Scaling:
        """Return the same map, given by the real values at another range."""
        slope = (self.high - self.low) / (self.valid[1] - self.valid[0])
        low, high = (self.low + (end - self.valid[0]) * slope for end in valid)
        return Scaling(valid, np.asarray(low), np.asarray(high))

    def apply(self, stored: NDArray[Any], start: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the real values of the region of an array that begins at `start`."""
        # The same operations as in nibabel, so that results are identical to the last digit.
        stop = tuple(a + b for a, b in zip(start, stored.shape, strict=True))
        here = self.crop(Region(start, stop))
        wide = (*here.low.shape, *(1,) * (stored.ndim - self.n_axes))
        slope = (here.high - here.low) / (self.valid[1] - self.valid[0])
        offset = here.low - self.valid[0] * slope
        clipped = np.clip(stored.astype(REAL), *self.valid)
        return np.asarray(clipped * slope.reshape(wide) + offset.reshape(wide))

    def to_json(self) -> dict[str, Any]:
        """Return the scaling as plain values."""
        return {"valid": list(self.valid), "low": self.low.tolist(), "high": self.high.tolist()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Scaling:
        """Read what `to_json` returned.

        Raises
        ------
        ValueError
            If the values are not a scaling.
        """
        try:
            low, high = (np.asarray(value[key], REAL) for key in ("low", "high"))
            first, last = map(float, value["valid"])
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError("is not a scaling") from error
        return cls((first, last), low, high)


def linear(slope: float, inter: float, valid: tuple[float, float]) -> Scaling | None:
    """Return a scaling that is the same everywhere, None if its real values are not finite."""
    low, high = (slope * end + inter for end in valid)
    if not np.isfinite((low, high)).all():
        return None
    return Scaling(valid, np.asarray(low), np.asarray(high))


def describe_linear(slope: float, inter: float, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the metadata for a slope and an intercept; empty if they change nothing."""
    if (slope, inter) == (1.0, 0.0) or dtype.kind not in "iufc":
        return {}
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        found = linear(slope, inter, (float(info.min), float(info.max)))
        if found is not None:
            return {SCALING: found.to_json()}
    return {SCALED_FLOATS: [slope, inter]}


def scaling_in(metadata: Mapping[str, Any]) -> Scaling | None:
    """Return the scaling that a store describes, None if stored values are the real values."""
    value = metadata.get(SCALING)
    return None if value is None else Scaling.from_json(value)


@dataclass(frozen=True)
class RealValues(SourceDefaults):
    """The real values of a source that stores scaled integers.

    The integers are read into the end of the buffer and are replaced by their values from its
    beginning, so that a visit needs no memory for both. Any number of blocks may be read at once.
    """

    stored: Source
    scaling: Scaling
    is_indivisible = True

    @property
    def place(self) -> str:
        """The place of the source."""
        return self.stored.place

    @property
    def format(self) -> str:
        """Name of the format."""
        return self.stored.format

    @property
    def grid(self) -> Grid:
        """Grid of the blocks."""
        return self.stored.grid

    @property
    def dtype(self) -> np.dtype[Any]:
        """Real values are in double precision."""
        return REAL

    @property
    def layout(self) -> Layout:
        """Order of the elements in each block."""
        return self.stored.layout

    @property
    def access(self) -> Access:
        """The cost of moving a part of a block."""
        return self.stored.access

    @property
    def reused_bytes(self) -> int:
        """Staging bytes that the source needs to read the integers."""
        return self.stored.reused_bytes + 2 * ALIGNMENT

    @property
    def codec_bytes(self) -> int:
        """Other bytes that the source needs, and the temporary arrays of a conversion."""
        return self.stored.codec_bytes + 4 * _PIECE * REAL.itemsize

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the source, without the scaling and the fill value of the integers."""
        # Only the dictionary is cached, because a read-only view of one cannot be pickled.
        return MappingProxyType(self._metadata)

    @cached_property
    def _metadata(self) -> dict[str, Any]:
        known = {
            **self.stored.metadata,
            BOUNDS: list(self.scaling.bounds),
            STORED_INTEGERS: (str(self.stored.dtype),),
        }
        return {key: value for key, value in known.items() if key not in {SCALING, "fill_value"}}

    @property
    def tally(self) -> Tally:
        """Counts of seeks, visits and bytes."""
        return self.stored.tally

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes that the source occupies."""
        return self.stored.n_bytes_on_disk

    @property
    def n_absent(self) -> int | None:
        """Blocks that are not stored."""
        return self.stored.n_absent

    def describe(self) -> dict[str, Any]:
        """Return plain values from which the source can be opened again."""
        return {**self.stored.describe(), "values": "real"}

    @contextmanager
    def reader(
        self, index: tuple[int, ...], *, after: Region | None = None
    ) -> Iterator[BlockReader]:
        """Visit a block."""
        with self.stored.reader(index, after=after) as reader:
            yield _RealReader(self, reader, self.grid.block(index).start)

    def check(self) -> None:
        """Check every block of the source."""
        self.stored.check()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when the block does."""
        return self.stored.fingerprint(index)

    def discard(self, index: tuple[int, ...]) -> None:
        """Remove a block, if the source allows it."""
        self.stored.discard(index)

    def discard_rest(self) -> None:
        """Remove the rest of the source after all blocks have been removed."""
        self.stored.discard_rest()


@dataclass(frozen=True, slots=True)
class _RealReader:
    """One visit to a block whose integers are replaced by real values."""

    source: RealValues
    reader: BlockReader
    start: tuple[int, ...]

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        stored, layout = self.source.stored, self.source.layout
        room = stored.reused_bytes + 2 * ALIGNMENT
        # A decoded block stays in the buffer until the visit ends, so its place is the same for
        # every region. Otherwise the integers are at the end of the buffer: no real value is
        # written over an integer that has not been converted yet.
        if stored.access is Access.ADDRESSABLE:
            room += region.size * stored.dtype.itemsize
        tail = len(buffer) - room
        integers = self.reader.read_into(region, buffer[tail - tail % ALIGNMENT :])
        values = view_as_array(
            buffer[: region.size * REAL.itemsize], region.shape, self.source.dtype, layout
        )
        for piece in layout.slabs(Region.whole(region.shape), _PIECE):
            first = tuple(map(sum, zip(self.start, region.start, piece.start, strict=True)))
            values[piece.slices] = self.source.scaling.apply(integers[piece.slices], first)
        return values

    def expect(self, region: Region) -> None:
        self.reader.expect(region)

    def checksum(self, region: Region, staging: memoryview) -> int:
        dtype, layout = self.source.dtype, self.source.layout
        return checksum_of(self.read_into, region, staging, dtype, layout)
