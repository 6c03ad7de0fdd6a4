"""Dask arrays read from, and written to, any format of Dask IO."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from xxhash import xxh3_64_intdigest

from dask_io.api import open as open_blocks
from dask_io.api import start
from dask_io.errors import UsageError
from dask_io.geometry import Layout
from dask_io.graph.mapped_blocks import ComputedBlockReader
from dask_io.graph.match import DeclinedError
from dask_io.graph.matchers.hlg import find_array
from dask_io.graph.matchers.layers import grid_of
from dask_io.graph.plan_tasks import mapped_source
from dask_io.jobs.planning import RequestedTarget, plan_one
from dask_io.jobs.settings import Settings
from dask_io.storage.tally import Tally
from dask_io.stores.array_like import BlockArray
from dask_io.stores.store import Access, SourceDefaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike
    from typing import Unpack

    from dask.delayed import Delayed
    from numpy.typing import NDArray

    from dask_io.api import RunResult
    from dask_io.geometry import Grid, Region
    from dask_io.geometry.chunks import Chunks
    from dask_io.jobs.requests import Place
    from dask_io.jobs.settings import Options
    from dask_io.report.progress import OnProgress
    from dask_io.stores.store import BlockReader, Source


def from_blocks(place: Place, *, chunks: Any = None, **description: Any) -> da.Array:
    """Return a Dask array of anything that `dask_io.open` opens.

    Parameters
    ----------
    place
        A path, or an array returned by `dask_io.open`.
    chunks
        Chunks of the Dask array, in any form that Dask accepts; by default the stored blocks.
    **description
        Other arguments of `dask_io.open`: ``format``, ``shape``, ``dtype`` and so on. Open several
        raw block files with `dask_io.open` first, because they need its ``chunks`` argument.
    """
    array = place if isinstance(place, BlockArray) else open_blocks(place, **description)
    name = f"from-blocks-{tokenize(array, chunks)}"
    made: da.Array = da.from_array(array, chunks=chunks or array.chunks, name=name)  # type: ignore[no-untyped-call]
    return made


def store(
    array: da.Array,
    target: str | PathLike[str],
    *,
    chunks: Chunks | None = None,
    compute: bool = True,
    verify: bool = False,
    progress: OnProgress = None,
    **options: Unpack[Options],
) -> RunResult | Delayed:
    """Write a Dask array to any supported format, each block once, within a memory budget.

    If the graph only reads, rechunks and maps functions over blocks, one plan moves the data from
    the stored source to the target. Otherwise Dask computes one chunk at a time, in the order of
    the plan. Intermediate results that chunks share are then best computed first, with
    `dask.persist`.

    Parameters
    ----------
    array
        The array to write.
    target
        The target, as in `dask_io.resplit`.
    chunks
        The target's blocks; by default those of the array.
    compute, verify, progress, **options
        As in `dask_io.resplit`.
    """
    settings = Settings.of(**options)
    if settings.region is not None or settings.consume:
        raise UsageError(
            "region and consume do not apply to a Dask array; slice it before storing it"
        )
    source = _source_of(array)
    requested = RequestedTarget(
        target, array.chunks if chunks is None else chunks, *settings.orders(1)
    )
    job = plan_one(source, requested, settings)
    return start(job, compute=compute, verify=verify, progress=progress)


def _refuse_masked(array: Any) -> None:
    """Refuse masked arrays, because no target stores the mask."""
    if isinstance(array, np.ma.MaskedArray):
        raise UsageError(
            "a masked array cannot be stored with its mask; fill it first, with "
            "dask.array.ma.filled(array, value)"
        )


def _source_of(array: da.Array) -> Source:
    _refuse_masked(array._meta)  # noqa: SLF001 - Dask has no public name for it
    try:
        chunks = grid_of(array.chunks)
    except DeclinedError as declined:
        raise UsageError(f"a Dask array cannot be stored: {declined}") from declined
    try:
        reading = find_array(array.dask, array.name)
        return mapped_source(reading) if reading.chunks == chunks else ComputedSource(array)
    except DeclinedError:
        return ComputedSource(array)


@dataclass(frozen=True)
class ComputedSource(SourceDefaults):
    """A Dask array as a source, whose blocks are computed when they are read.

    `codec_bytes` counts one computed block, but not the memory that Dask uses to compute it.
    """

    array: Any
    calls_functions = True

    @property
    def place(self) -> str:
        """The array's name."""
        return str(self.array.name)

    @property
    def format(self) -> str:
        """The name reported in place of a format."""
        return "dask"

    @cached_property
    def grid(self) -> Grid:
        """The array's chunks."""
        return grid_of(self.array.chunks)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        found: np.dtype[Any] = np.dtype(self.array.dtype)
        return found

    @property
    def layout(self) -> Layout:
        """Blocks are in C order."""
        return Layout.c(self.array.ndim)

    @property
    def access(self) -> Access:
        """Reading a part of a block computes all of it."""
        return Access.ATOMIC

    @property
    def reused_bytes(self) -> int:
        """Zero: Dask allocates the blocks."""
        return 0

    @property
    def codec_bytes(self) -> int:
        """Size of the largest block."""
        return prod(self.grid.longest) * self.dtype.itemsize

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Empty: a Dask array has no metadata."""
        return {}

    @cached_property
    def tally(self) -> Tally:
        """A tally that stays at zero: no store is read."""
        return Tally()

    @property
    def n_bytes_on_disk(self) -> int:
        """Zero: the array is not stored."""
        return 0

    def describe(self) -> dict[str, Any]:
        """Describe the array for the journal; it cannot be opened again from this."""
        return {"format": self.format, "shape": list(self.grid.shape)}

    @contextmanager
    def reader(
        self,
        index: tuple[int, ...],
        *,
        after: Region | None = None,  # noqa: ARG002 - blocks are not shared between threads
    ) -> Iterator[BlockReader]:
        """Read one block."""
        yield ComputedBlockReader(partial(self.compute, index), self.dtype, self.layout)

    def compute(self, index: tuple[int, ...]) -> NDArray[Any]:
        """Compute a block with Dask."""
        block = self.array.blocks[index].compute()
        _refuse_masked(block)
        return np.asarray(block, self.dtype)

    def check(self) -> None:
        """Do nothing: there are no files to check."""

    def fingerprint(self, index: tuple[int, ...]) -> int:
        """Return a number that changes when the array does."""
        return xxh3_64_intdigest(f"{self.array.name}\0{index}".encode())

    def discard(self, index: tuple[int, ...]) -> None:
        """Do nothing: there are no files to remove."""

    def discard_rest(self) -> None:
        """Do nothing: there are no files to remove."""
