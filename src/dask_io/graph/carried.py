"""Stores whose blocks are worked on, on their way out of one or into another."""

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

    from dask_io.graph.functions import BlockFunction, Trial
    from dask_io.journal.ledger import Ledger
    from dask_io.storage.medium import Durability
    from dask_io.storage.tally import Tally
    from dask_io.stores.store import BlockReader, BlockWriter, Source, Target


@dataclass(frozen=True)
class WorkedSource(SourceDefaults):
    """What a function makes of the blocks of a source, cut as Dask cuts it.

    A block is read and worked on as a whole, in each visit. `codec_bytes` counts what is read,
    and all that the function's calls return.
    """

    source: Source
    grid: Grid
    function: BlockFunction
    trial: Trial

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements that come out."""
        return self.trial.dtype

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
        """Results lie in C order."""
        return Layout.c(len(self.grid.axes))

    @property
    def access(self) -> Access:
        """A part of a block costs all of it."""
        return Access.ATOMIC

    @property
    def reused_bytes(self) -> int:
        """A block is made in memory of its own."""
        return 0

    @cached_property
    def codec_bytes(self) -> int:
        """What a visit holds at most: a block as it is read, and what becomes of it."""
        shape, stored = self.grid.longest, self.source.dtype
        read = prod(shape) * stored.itemsize
        # Of every stored block a part is read aside.
        aside = min(read, prod(self.source.grid.longest) * stored.itemsize) + 3 * ALIGNMENT
        aside += self.source.reused_bytes + self.source.codec_bytes
        made = prod(shape) * (self.trial.itemsize + self.dtype.itemsize)
        return read + aside + made

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the source says about the array."""
        return cast_metadata(self.source.metadata, self.source.dtype, self.dtype)

    @property
    def tally(self) -> Tally:
        """What has been moved so far."""
        return self.source.tally

    @property
    def n_bytes_on_disk(self) -> int:
        """Bytes that the source occupies."""
        return self.source.n_bytes_on_disk

    def describe(self) -> dict[str, Any]:
        """Say that it cannot be opened again: nothing keeps the function."""
        return {"format": "dask", "shape": list(self.grid.shape)}

    @contextmanager
    def reader(
        self,
        index: tuple[int, ...],
        *,
        after: Region | None = None,  # noqa: ARG002 - blocks are not shared between threads
    ) -> Iterator[BlockReader]:
        """Visit a block."""
        yield MadeReader(partial(self.make, self.grid.block(index)), self.dtype, self.layout)

    def make(self, region: Region) -> NDArray[Any]:
        """Read a block and apply the function."""
        result = self.function(BlockArray(self.source)[region.slices])
        if result.dtype != self.dtype:
            raise ValueError(
                f"a function made {result.dtype} of some blocks, {self.dtype} of others"
            )
        return np.ascontiguousarray(result)

    def check(self) -> None:
        """Look at every block's header."""
        self.source.check()

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when a block does."""
        pieces = self.source.grid.pieces(self.grid.block(index))
        return hash(tuple(self.source.fingerprint(stored) for stored, _ in pieces))

    def discard(self, index: tuple[int, ...]) -> None:
        """Keep it: a program only reads."""

    def discard_rest(self) -> None:
        """Keep it."""


@dataclass(slots=True)
class MadeReader:
    """One visit to a block that is not read but made, as a whole and once."""

    make: Callable[[], NDArray[Any]]
    dtype: np.dtype[Any]
    layout: Layout
    _made: NDArray[Any] | None = field(default=None, init=False)

    def read_into(self, region: Region, buffer: memoryview) -> NDArray[Any]:
        """Copy a region of the result."""
        if self._made is None:
            self._made = self.make()
        raw = buffer[: region.size * self.dtype.itemsize]
        values = view_as_array(raw, region.shape, self.dtype, self.layout)
        values[...] = self._made[region.slices]
        return values

    def expect(self, region: Region) -> None:
        """A block is made whole."""

    def checksum(self, region: Region, staging: memoryview) -> int:
        """Return the checksum of a region of the result."""
        return checksum_of(self.read_into, region, staging, self.dtype, self.layout)


@dataclass(frozen=True)
class WorkedTarget(TargetDefaults):
    """A target to which goes what a function makes of each block, converted to its type.

    Blocks are those that Dask would apply the function to: each holds whole blocks of the
    target, and is written whole.
    """

    target: Target
    grid: Grid
    function: BlockFunction
    trial: Trial

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements that go in."""
        return self.trial.taken

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
        """A block is written whole."""
        return Access.ATOMIC

    @property
    def reused_bytes(self) -> int:
        """What it takes to write one of the target's blocks."""
        return self.target.reused_bytes

    @cached_property
    def codec_bytes(self) -> int:
        """What a visit holds at most: the block put together, and what becomes of it."""
        shape = self.grid.longest
        taken = prod(shape) * self.dtype.itemsize
        made = prod(shape) * self.trial.itemsize
        converted = prod(self.target.grid.longest) * self.target.dtype.itemsize
        return taken + made + converted + self.target.codec_bytes

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the target says about the array."""
        return self.target.metadata

    @property
    def tally(self) -> Tally:
        """What has been moved so far."""
        return self.target.tally

    @property
    def durability(self) -> Durability:
        """What blocks outlast once they are committed."""
        return self.target.durability

    def describe(self) -> dict[str, Any]:
        """Return what it takes to make the target again."""
        return self.target.describe()

    def check(self) -> None:
        """Refuse what the target refuses."""
        self.target.check()

    def create(self, job: bytes = b"{}") -> None:
        """Make the target ready."""
        self.target.create(job)

    def resume(self) -> Ledger:
        """Do as the target does."""
        return self.target.resume()

    @contextmanager
    def writer(self, index: tuple[int, ...]) -> Iterator[BlockWriter]:
        """Visit a block."""
        yield _WorkedWriter(self, self.grid.block(index))

    def put(self, block: Region, values: NDArray[Any], staging: memoryview) -> None:
        """Apply the function to a block, and write the target's blocks within it."""
        made = self.function(values)
        for index, part in self.target.grid.pieces(block):
            inside = part.relative_to(block.start).slices
            stored = _laid_out(made[inside], self.target.dtype, self.target.layout)
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
        """Have the target note it."""
        self.target.note(lines)

    def finish(self) -> None:
        """Complete the target."""
        self.target.finish()

    def abandon(self, *, keep: bool = False) -> bool:
        """Remove what has not been committed."""
        return self.target.abandon(keep=keep)


@dataclass(slots=True)
class _WorkedWriter:
    """One visit to a block that is worked on before it is written."""

    target: WorkedTarget
    block: Region
    checksum: int = NOTHING

    def go_on_at(self, region: Region) -> None:
        """Do nothing: a block is one visit."""

    def write_from(self, region: Region, array: NDArray[Any], staging: memoryview) -> None:
        """Work on the block and write it."""
        assert region.shape == self.block.shape, "a block is worked on as a whole"
        self.target.put(self.block, array.view(self.target.dtype), staging)

    def write_filled(
        self,
        region: Region,
        staging: memoryview,
        fill: Callable[[Region, NDArray[Any]], None],
    ) -> None:
        """Put the block together in memory of its own, which a function may keep, and write it."""
        values = np.empty(region.shape, self.target.dtype)
        fill(region, values)
        self.write_from(region, values, staging)


def _laid_out(array: NDArray[Any], dtype: np.dtype[Any], layout: Layout) -> NDArray[Any]:
    """Return an array whose elements lie in a layout's order, as another type if need be."""
    stored = np.ascontiguousarray(array.transpose(layout.axes), dtype)
    return stored.transpose(np.argsort(layout.axes))
