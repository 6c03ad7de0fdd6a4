"""Sources and targets that apply a function to every block that is read or written."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_io.geometry import Grid, Layout, Region
from dask_io.journal.ledger import NOTHING, Written
from dask_io.storage.medium import ALIGNMENT
from dask_io.stores.addressable import checksum_of, view_as_array
from dask_io.stores.array_like import BlockArray
from dask_io.stores.dtypes import cast_metadata
from dask_io.stores.store import Access, SourceDefaults, TargetDefaults

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from dask_io.graph.functions import BlockFunction, ResultTypes
    from dask_io.journal.ledger import Ledger
    from dask_io.storage.medium import Durability
    from dask_io.storage.tally import Tally
    from dask_io.stores.store import BlockReader, BlockWriter, Source, Target


@dataclass(frozen=True)
class MappedSource(SourceDefaults):
    """A source with a function applied to each block of `grid`, which are the chunks of Dask.

    Every visit to a block reads all of it and calls the function. `codec_bytes` counts the block
    that is read and all results of the function's calls.
    """

    source: Source
    grid: Grid
    function: BlockFunction
    types: ResultTypes
    calls_functions = True

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements that the function returns."""
        return self.types.dtype

    @property
    def place(self) -> str:
        """The source's place."""
        return self.source.place

    @property
    def format(self) -> str:
        """Name of the source's format."""
        return self.source.format

    @property
    def layout(self) -> Layout:
        """Results are in C order."""
        return Layout.c(len(self.grid.axes))

    @property
    def access(self) -> Access:
        """Reading a part of a block computes all of it."""
        return Access.ATOMIC

    @property
    def reused_bytes(self) -> int:
        """Zero: every block is newly allocated."""
        return 0

    @cached_property
    def codec_bytes(self) -> int:
        """Largest number of bytes in use during a visit: the block read, and all results."""
        shape, stored = self.grid.longest, self.source.dtype
        read = prod(shape) * stored.itemsize
        # Each piece of a stored block is read into a buffer before it is copied into the block.
        buffer = min(read, prod(self.source.grid.longest) * stored.itemsize) + 3 * ALIGNMENT
        buffer += self.source.reused_bytes + self.source.codec_bytes
        results = prod(shape) * (self.types.itemsize + self.dtype.itemsize)
        return read + buffer + results

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The source's metadata, converted to the type of the results."""
        return cast_metadata(self.source.metadata, self.source.dtype, self.dtype)

    @property
    def tally(self) -> Tally:
        """The source's I/O counters."""
        return self.source.tally

    @property
    def n_bytes_on_disk(self) -> int:
        """Number of bytes that the source occupies."""
        return self.source.n_bytes_on_disk

    def describe(self) -> dict[str, Any]:
        """Describe the source for the journal; it cannot be opened again without the function."""
        return {"format": "dask", "shape": list(self.grid.shape)}

    @contextmanager
    def reader(
        self,
        index: tuple[int, ...],
        *,
        after: Region | None = None,  # noqa: ARG002 - blocks are not shared between threads
    ) -> Iterator[BlockReader]:
        """Read one block."""
        compute = partial(self.compute, self.grid.block(index))
        yield ComputedBlockReader(compute, self.dtype, self.layout)

    def compute(self, region: Region) -> NDArray[Any]:
        """Read a block and apply the function."""
        result = self.function(BlockArray(self.source).read(region))
        if result.dtype != self.dtype:
            raise ValueError(
                f"a function returned {result.dtype} for one block and {self.dtype} for others"
            )
        return np.ascontiguousarray(result)

    def check(self) -> None:
        """Check every block's header."""
        self.source.check()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a block does."""
        pieces = self.source.grid.pieces(self.grid.block(index))
        return hash(tuple(self.source.fingerprint(stored) for stored, _ in pieces))

    def discard(self, index: tuple[int, ...]) -> None:
        """Do nothing: a graph never removes its source."""

    def discard_rest(self) -> None:
        """Do nothing: a graph never removes its source."""


@dataclass(slots=True)
class ComputedBlockReader:
    """Reader of a block that is computed as a whole, when it is first read."""

    compute: Callable[[], NDArray[Any]]
    dtype: np.dtype[Any]
    layout: Layout
    _block: NDArray[Any] | None = field(default=None, init=False)

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Copy a region of the result."""
        if self._block is None:
            self._block = self.compute()
        raw = buffer[: region.size * self.dtype.itemsize]
        values = view_as_array(raw, region.shape, self.dtype, self.layout)
        values[...] = self._block[region.slices]
        return values

    def expect(self, region: Region) -> None:
        """Do nothing: a block is always computed as a whole."""

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of a region of the result."""
        return checksum_of(self.read_into, region, staging, self.dtype, self.layout)


@dataclass(frozen=True)
class MappedTarget(TargetDefaults):
    """A target that applies a function to each block, converts the result and writes it.

    Its blocks are those to which Dask would apply the function. Each consists of whole blocks of
    the target and is written as a whole.
    """

    target: Target
    grid: Grid
    function: BlockFunction
    types: ResultTypes
    calls_functions = True

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements that the function is given."""
        return self.types.input_dtype

    @property
    def place(self) -> str:
        """The target's place."""
        return self.target.place

    @property
    def format(self) -> str:
        """Name of the target's format."""
        return self.target.format

    @property
    def layout(self) -> Layout:
        """The function is given blocks in C order."""
        return Layout.c(len(self.grid.axes))

    @property
    def access(self) -> Access:
        """A block is written as a whole."""
        return Access.ATOMIC

    @property
    def reused_bytes(self) -> int:
        """Bytes of the buffers that the target reuses from block to block."""
        return self.target.reused_bytes

    @cached_property
    def codec_bytes(self) -> int:
        """Largest number of bytes in use during a visit: the assembled block, and all results."""
        shape = self.grid.longest
        assembled = prod(shape) * self.dtype.itemsize
        results = prod(shape) * self.types.itemsize
        converted = prod(self.target.grid.longest) * self.target.dtype.itemsize
        return assembled + results + converted + self.target.codec_bytes

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The target's metadata."""
        return self.target.metadata

    @property
    def tally(self) -> Tally:
        """The target's I/O counters."""
        return self.target.tally

    @property
    def durability(self) -> Durability:
        """The failures that committed blocks survive."""
        return self.target.durability

    def describe(self) -> dict[str, Any]:
        """Return the target's description."""
        return self.target.describe()

    def check(self) -> None:
        """Check the target."""
        self.target.check()

    def create(self, job: bytes = b"{}") -> None:
        """Create the target."""
        self.target.create(job)

    def resume(self) -> Ledger:
        """Resume the target."""
        return self.target.resume()

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[BlockWriter]:
        """Write one block."""
        yield _MappedWriter(self, self.grid.block(index))

    def put(self, block: Region, values: NDArray[Any], staging: memoryview) -> None:
        """Apply the function to a block, and write the target's blocks within it."""
        result = self.function(values)
        for index, part in self.target.grid.pieces(block):
            inside = part.slices_from(block.start)
            stored = _laid_out(result[inside], self.target.dtype, self.target.layout)
            with self.target.writer(index) as writer:
                writer.write_from(Region.whole(part.shape), stored, staging)

    def commit(self, cells: Collection[Written]) -> None:
        """Commit the target's blocks."""
        self.target.commit(
            [
                Written(index, part, NOTHING, is_last=True)
                for cell in cells
                for index, part in self.target.grid.pieces(cell.region)
            ]
        )

    def note(self, lines: Iterable[str]) -> None:
        """Add lines to the target's journal."""
        self.target.note(lines)

    def finish(self) -> None:
        """Complete the target."""
        self.target.finish()

    def abandon(self, *, keep: bool = False) -> bool:
        """Remove everything that has not been committed."""
        return self.target.abandon(keep=keep)


@dataclass(slots=True)
class _MappedWriter:
    """Writer that applies the function to a block before it is written."""

    target: MappedTarget
    block: Region
    checksum: int = NOTHING

    def go_on_at(self, region: Region) -> None:
        """Do nothing: a block is one visit."""

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Apply the function to the block and write the result."""
        assert region.shape == self.block.shape, "the function takes whole blocks"
        self.target.put(self.block, array.view(self.target.dtype), staging)

    def write_filled(
        self,
        region: Region,
        staging: memoryview,
        fill: Callable[[Region, NDArray[Any]], None],
    ) -> None:
        """Assemble the block in newly allocated memory, which a function may keep, and write it."""
        values = np.empty(region.shape, self.target.dtype)
        fill(region, values)
        self.write_from(region, values, staging)


def _laid_out(array: NDArray[Any], dtype: np.dtype[Any], layout: Layout) -> NDArray[Any]:
    """Return the array converted to a type, with its elements in the order of a layout."""
    stored = np.ascontiguousarray(array.transpose(layout.axes), dtype)
    return stored.transpose(np.argsort(layout.axes))
