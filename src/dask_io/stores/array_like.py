"""A source as an array that can be indexed."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.geometry import Region
from dask_io.notebook import Displayed
from dask_io.python_errors import raises_for_python
from dask_io.stores.staging import new_staging
from dask_io.stores.store import inferred_in
from dask_io.units import by, format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dask_io.stores.store import Source


@dataclass(frozen=True, slots=True, repr=False)
class BlockArray(Displayed):
    """An array in blocks that is read where it is indexed.

    Made for ``dask.array.from_array(x, chunks=x.chunks)``: it has a shape, a dtype and chunks,
    and takes integers and slices as index.
    """

    source: Source

    @property
    def shape(self) -> tuple[int, ...]:
        """Length along each axis."""
        return self.source.grid.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self.source.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of the blocks along each axis, as Dask writes them."""
        return tuple(tuple(axis.lengths()) or (0,) for axis in self.source.grid.axes)

    def _where(self) -> Sequence[str]:
        return (self.source.place,)

    def _facts(self) -> Iterator[str]:
        yield f"{by(self.shape)} of {self.dtype}"
        yield f"in blocks of {self.source.grid}"
        if inferred := inferred_in(self.source):
            yield f"file names inferred as {inferred}"

    def _rows(self) -> Iterator[tuple[str, str]]:
        source = self.source
        yield "place", source.place
        yield "format", source.format
        yield "shape", by(self.shape)
        yield "dtype", str(self.dtype)
        yield "blocks", f"{source.grid.n_blocks:,} of {source.grid}"
        yield "order", source.layout.name
        yield "size", format_bytes(source.grid.size * self.dtype.itemsize)
        if inferred := inferred_in(source):
            yield "names", f"{inferred}, inferred from the file names"

    def __dask_tokenize__(self) -> tuple[object, ...]:
        """Return a token that identifies the array by its place and description."""
        region = getattr(self.source, "region", None)
        return type(self).__name__, self.source.place, str(region), str(self.source.describe())

    @raises_for_python
    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> NDArray[Any]:
        """Read the whole array."""
        if copy is False:
            message = "an array in files can only be copied into memory"
            raise ValueError(message)
        return np.asarray(self[...], dtype=dtype)

    @raises_for_python
    def __getitem__(self, index: Any) -> NDArray[Any]:
        items = index if isinstance(index, tuple) else (index,)
        whole = [place for place, item in enumerate(items) if item is Ellipsis]
        if whole:
            place = whole[0]
            missing = self.ndim - len(items) + 1
            items = (*items[:place], *[slice(None)] * missing, *items[place + 1 :])
        items = (*items, *[slice(None)] * (self.ndim - len(items)))
        if len(items) != self.ndim:
            message = f"{len(items)} indices for an array of {self.ndim} axes"
            raise IndexError(message)
        ranges = [
            range(length)[item] if isinstance(item, slice) else self._single(item, axis)
            for axis, (item, length) in enumerate(zip(items, self.shape, strict=True))
        ]
        values = self.read(Region.of(map(_span, ranges)))
        picks = [
            slice(None, None, positions.step) if isinstance(item, slice) else 0
            for item, positions in zip(items, ranges, strict=True)
        ]
        return values[tuple(picks)]

    def _single(self, item: Any, axis: int) -> range:
        """Return the position of a single element along an axis."""
        names, length = self.source.metadata.get("dimension_names"), self.shape[axis]
        name = (names[axis] if names else None) or f"axis {axis}"
        try:
            position = range(length)[operator.index(item)]
        except TypeError:
            message = (
                f"an array in files takes integers and slices as index, but that of {name} is a "
                f"{type(item).__name__}; read a slice, and index the result"
            )
            raise IndexError(message) from None
        except IndexError:
            message = f"index {item} is out of range: {name} has {length:,} elements"
            raise IndexError(message) from None
        return range(position, position + 1)

    def read(self, region: Region) -> NDArray[Any]:
        """Read a region, block by block; errors are as they were raised."""
        source = self.source
        values = np.empty(region.shape, source.dtype)
        for block, part in source.grid.pieces(region):
            buffer = new_staging(source, part.size * self.dtype.itemsize)
            with source.reader(block) as reader:
                origin = source.grid.block(block).start
                inside = part.slices_from(region.start)
                values[inside] = reader.read_into(part.relative_to(origin), buffer)
        return values


def _span(positions: range) -> tuple[int, int]:
    """Return the smallest range that contains all positions."""
    if not positions:
        return 0, 0
    return min(positions[0], positions[-1]), max(positions[0], positions[-1]) + 1
